"""Question understanding: who and when a question is about, and what sort of answer it wants.

Pure functions. Whatever is not understood is left to the words. Times and
intents are understood in English and German. Names are recognised only among known authors, so that
`Will` is a name only if there is a Will.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from memorist.base import clock
from memorist.base.lazy_pattern import LazyPattern
from memorist.search import words
from memorist.search.times import Span, parse_times


def _compile(*patterns: str) -> LazyPattern:
    """Return a pattern for whole words, in any case."""
    return LazyPattern(rf"\b(?:{'|'.join(patterns)})\b", re.IGNORECASE)


# English first, then German.
_RECENT = _compile(
    "latest|newest|(?:most )?recent(?:ly)?|lately|current(?:ly)?|now(?:adays)?|these days",
    "at the moment|so far|still|last time|up to date|(?:my|the|our) last",
    "neueste[mnrs]?|neulich|kürzlich|vor kurzem|jüngst|zuletzt|aktuell(?:e[mnrs]?|ste[mnrs]?)?",
    "derzeit|zurzeit|zur zeit|momentan|gerade|im moment|heutzutage|inzwischen|mittlerweile|jetzt",
    "immer noch|noch immer|bisher|in letzter zeit|letzte[mns]? mal",
    "(?:mein|der|die|das|unser)e? letzte[rs]?",
)
_FIRST = _compile(
    "first|earliest|initial(?:ly)?|original(?:ly)?|in the beginning",
    "zuerst|als erste[rs]|erste[mnrs]?|erstmals|anfangs|am anfang|zu beginn|ursprünglich",
    "früheste[mnrs]?",
)
_PAST = _compile(
    "used to|previous(?:ly)?|former(?:ly)?|before|earlier|back then|in the past",
    r"(?:did|was|were) (?:\w+ ){1,3}?(?:liv|work|stay|study)(?:e|ing)?",
    "original(?:ly)?|initial(?:ly)?|ursprünglich|anfangs",
    "früher(?:e[mnrs]?)?|damals|vorher(?:ige[mnrs]?)?|zuvor|bevor|ehemal(?:s|ige[mnrs]?)|einst",
    "(?:lebt|wohnt|arbeitet)e(?:n|st|t)?|gelebt|gewohnt|gearbeitet",
)
_MANY = _compile(
    "how many|how much|how often|list|all (?:the|my|of)|total|altogether|combined|number of",
    r"order of|in what order|which of|what are|what (?:\w+ )?(?:kinds|types|sorts)|summar\w+",
    "overview|both|between",
    "wie ?viel(?:e[nr]?)?|wie oft|wie häufig|liste|alle[nr]? (?:meine[nr]?|unsere[nr]?|de[nr]|die)",
    "sämtliche[nr]?|insgesamt|anzahl|reihenfolge|welche[rs]? (?:von|der)|was sind",
    r"welche arten|zusammenfass\w+|fasse? .{0,80} zusammen|überblick|beide[nr]?|zwischen",
)
_OWN = _compile(
    r"i|me|my|mine|myself|i['’]\w+|we|our|us",
    r"ich|mein\w*|mir|mich|wir|uns|unser\w*",
    "je|mon|ma|mes|yo|mi|mis",
)
_SAYING = (
    "(?:said|say|told|tell|gave|give|mention|recommend|suggest|provid|list|explain|describ|wrote"
    r"|write|shar|help|creat|made|us|propos|advis|remind)\w*"
)
_GERMAN_SAYING = (
    "(?:gesagt|erzählt|genannt|gegeben|erwähnt|empfohlen|vorgeschlagen|erklärt|beschrieben"
    "|geschrieben|geraten|geholfen|erstellt|gemacht|aufgelistet|geantwortet|gezeigt)"
)
_ABOUT_ANSWERS = _compile(
    rf"you (?:\w+ )?(?:{_SAYING}|had|were|did)",
    rf"(?:did|could|can|have|had) you (?:\w+ )?{_SAYING}",
    r"(?:your|our|the|last|previous|earlier) (?:\w+ )?(?:suggestion|recommendation|advice|answer"
    "|explanation|conversation|chat|discussion)s?",
    "remind me",
    rf"(?:du|ihr|haben sie) (?:[^.?!]{{0,80}} )?{_GERMAN_SAYING}",
    r"(?:deine?[nrs]?|unsere?[nrs]?|letzte[nrs]?|vorige[nrs]?|frühere[nrs]?) (?:\w+ )?(?:vorschl[aä]g"
    r"|empfehlung|rat|ratschl[aä]g|antwort|erklärung|gespräch|chat|unterhaltung)(?:e|s|en)?",
    "erinnere? mich",
)
_ABOUT_QUESTIONS = _compile(
    r"ask(?:ed|ing)?|questions?|wonder(?:ed|ing)?|inquir\w+",
    r"gefragt|nachgefragt|fragte\w*|fragen?|wissen wollte\w*",
)
_QUOTED = LazyPattern(r"[\"“”«»„]([^\"“”«»„]{2,200})[\"“”«»“]|(?<!\w)['‘]([^'‘’]{3,80})['’](?!\w)")
_QUESTION_MARK = LazyPattern(r"\?\s*$|\?\s", re.MULTILINE)
_SENTENCE_END = LazyPattern(r"[.!…:]\s|[!…]$")
_SENTENCE = LazyPattern(r"[^.!?…\n]+(\?)?")
_AUXILIARY = "(?:am|is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|shall)"
_WHERE = (
    "(?:wo|woher|wohin|wobei|wodurch|wofür|wogegen|womit|woran|worauf|woraus|worin|worüber|worum|wovon"
    "|wovor|wozu)"
)
_SUBJECT = (
    r"(?:i|you|we|he|she|it|they|my|your|our|his|her|their|an?|the"
    r"|ich|du|er|sie|es|wir|ihr|man|mein\w*|dein\w*|unser\w*|ein\w*|der|die|das|dass)"
)
# A verb has to follow: `When did I move` asks, `When I moved` does not.
_UNMARKED_QUESTION_START = _compile(
    rf"(?:when|where|why) {_AUXILIARY}",
    rf"(?:what|whose|which|how) (?!is why\b|{_SUBJECT}\b)(?:\w+ ){{0,3}}?{_AUXILIARY}",
    rf"who(?:m|'s)? (?!{_SUBJECT}\b)",
    "(?:do|does|did|is|are|can|could|will|would|should) (?:i|you|we|he|she|it|they)",
    "(?:is|are) (?:my|your|our)",
    rf"(?:wer|wen|wem|wann|{_WHERE}|warum|weshalb|wie|wieso) (?!{_SUBJECT}\b|\w+,|gesagt|besprochen)\w+",
    rf"(?:\w{{2,4}} )?welche[mnrs]? (?!{_SUBJECT}\b)\w+",
    r"was (?:ist|sind|war|hat|habe|haben|hatte|mache?n?|macht|mag|esse|trinke|kostet|weißt) \w+",
    "(?:weißt|kannst|hast|bist) du|(?:bin|habe|kann|soll) ich|(?:ist|sind) (?:meine?|unsere?)",
)
# With a question mark the first word is enough, possibly after an interjection: `Hey Ada, is it far?`
# Other text before it may be a statement: `I live in Rome, is it far?`
_MARKED_QUESTION_START = _compile(
    r"(?:(?:so|and|but|hey|hi|hm+|wow|oh|ok|okay|well|also|und|aber|hallo|ach|also)\b[^,]{0,20}, ?|(?:so|and|but|und|aber) )?"
    rf"(?:{_AUXILIARY}|who(?:m|se)?|what|when|where|which|why|how|wer|wen|wem|wessen|was|wann|{_WHERE}|warum"
    r"|weshalb|wieso|wie|(?:\w{2,4} )?welche[mnrs]?|bin|bist|ist|sind|war|waren|hab|habe|hast|hat|haben|kann"
    r"|kannst|können|weißt|wissen|soll|sollte|wird|wirst|gibt)(?:['’]\w+)?"
)
MIN_QUESTION_SHARE = 0.7
"""Questions make up at least this share of the characters of a text that only asks."""
MAX_QUESTION_CHARACTERS = 300
"""A longer text is assumed to contain a statement too."""
MAX_UNMARKED_CHARACTERS = 100
"""Maximum length of a text that counts as a question by its first words, without a question mark."""
_BEGINS = LazyPattern(r"(?:[.!?:…]\s+|\n\s*|[\"“”«»„]\s*)$")
_LOWER = LazyPattern(r"(?<![\w'’])[a-zà-öø-ÿа-яα-ω]{2}")


@dataclass(frozen=True)
class Question:
    """A parsed question: `words` to look up in the index, `for_embedding` as the text to embed."""

    text: str
    words: tuple[str, ...]
    for_embedding: str
    authors: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # the words among `words` that are parts of those authors' names
    spans: tuple[Span, ...] = ()
    phrases: tuple[tuple[str, ...], ...] = ()
    recent: bool = False
    first: bool = False
    past: bool = False  # asks how something was, not how it is
    many: bool = False
    own: bool = False
    about_answers: bool = False
    about_questions: bool = False  # asks for something that was asked before
    now: int | None = None

    @property
    def wants_newest(self) -> bool:
        """Whether a newer answer is better than an older one: it is about the present of the asker.

        What two other people did and said is usually about a past event, so those questions are
        excluded unless they ask for the latest.
        """
        is_present = not self.past and not self.first
        return (self.own or self.recent) and is_present and not self.about_answers


def parse_question(
    text: str,
    *,
    now: datetime | int | None = None,
    authors: Collection[str] = (),
    terms: Sequence[str] = (),
) -> Question:
    """Parse a question asked at `now`.

    authors: the authors of messages in scope
    terms:   the words to look up, if the caller knows them
    """
    moment = clock.to_datetime(now) if isinstance(now, int) else now
    named_authors, names, bare = _authors(text, authors)
    spans = tuple(parse_times(text, moment))
    asked_at = None if moment is None else int(moment.timestamp() * clock.SECOND)
    ended = asked_at is not None and any(span.end <= asked_at for span in spans)
    return Question(
        text=text,
        words=tuple(terms or words.query_words(text)),
        for_embedding=bare,
        authors=named_authors,
        names=names,
        spans=spans,
        phrases=_phrases(text),
        recent=bool(_RECENT.search(text)),
        first=bool(_FIRST.search(text)),
        past=ended or bool(_PAST.search(text)),
        many=bool(_MANY.search(text)),
        own=bool(_OWN.search(text)),
        about_answers=bool(_ABOUT_ANSWERS.search(text)),
        about_questions=bool(_ABOUT_QUESTIONS.search(text)),
        now=asked_at,
    )


def _authors(text: str, authors: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return the authors in a question, the index words of their names, and the question without.

    A name stays a word if nothing else is left to look up, or if it also occurs as a word.
    """
    named: list[str] = []
    taken: list[str] = []
    bare = words.strip_question_phrases(text)
    for author in authors:
        forms_used, is_certain = _find_name(author, text)
        if forms_used:
            named.append(author)
        if forms_used and is_certain:
            taken += forms_used
    forms = "|".join(map(re.escape, sorted(taken, key=len, reverse=True)))
    rest = re.sub(rf"(?<!\w)(?:{forms})(?!\w)", " ", bare) if taken else bare
    left = set(words.analyse(rest))
    if left <= words.STOP:
        taken = []
        rest = bare
    names = dict.fromkeys(
        word for name in taken for word in words.analyse(name) if word not in left
    )
    return tuple(named), tuple(names), re.sub(r"\s+", " ", rest).strip()


def _find_name(author: str, text: str) -> tuple[list[str], bool]:
    """Return how a text names an author, and whether that is certainly a name.

    Either the whole name occurs, or a part of it with a meaningful capital: not at the beginning of
    a sentence, nor if every word has one, nor if the word also occurs in lower case. So `deploy` is
    not about the author Deploy Bot.
    """
    parts = re.findall(r"\w+", author)
    if all(len(part) == 1 for part in parts):
        return [], False
    calls = _mentions(r"\W+".join(map(re.escape, parts)), text)
    if calls and len(parts) > 1:
        return [call[0] for call in calls], True
    if calls:
        sure = [
            call[0] for call in calls if call[0][-2] in "'’" or _is_name_capital(text, call.start())
        ]
        return sure or [call[0] for call in calls if call[0].lower() not in words.STOP], bool(sure)
    mentioned: list[str] = []
    for part in parts:
        calls = (
            _mentions(re.escape(part), text)
            if len(part) > 1 and part.lower() not in words.STOP
            else []
        )
        if all(_is_name_capital(text, call.start()) for call in calls):
            mentioned += [call[0] for call in calls]
    return mentioned, True


def _mentions(name: str, text: str) -> list[re.Match[str]]:
    return list(re.finditer(rf"(?<!\w){name}(?:['’]s)?(?!\w)", text, re.IGNORECASE))


def _is_name_capital(text: str, place: int) -> bool:
    """Return whether a letter is a meaningful capital, or of a script without capitals."""
    if not text[place].isupper():
        return text[place].isalpha() and not text[place].islower()
    begins = not text[:place].strip() or bool(_BEGINS.search(text[:place]))
    return not begins and bool(_LOWER.search(text))


def _phrases(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the words of each quoted phrase."""
    quoted = (tuple(words.analyse(double or single)) for double, single in _QUOTED.findall(text))
    return tuple(phrase for phrase in quoted if phrase)


def contains_question(text: str) -> bool:
    """Return whether a text contains a question."""
    return "?" in text and bool(_QUESTION_MARK.search(text))


def only_asks(text: str) -> bool:
    """Return whether a text is nothing but a question, apart from short interjections."""
    if len(text) > MAX_QUESTION_CHARACTERS:
        return False
    if "?" not in text:
        is_short_sentence = len(text) <= MAX_UNMARKED_CHARACTERS and not _SENTENCE_END.search(text)
        return is_short_sentence and bool(_UNMARKED_QUESTION_START.match(text.strip()))
    sentences = list(_SENTENCE.finditer(text))
    question_characters = sum(
        len(sentence[0])
        for sentence in sentences
        if sentence[1] and _MARKED_QUESTION_START.match(sentence[0].strip())
    )
    return question_characters >= MIN_QUESTION_SHARE * sum(
        len(sentence[0]) for sentence in sentences
    )
