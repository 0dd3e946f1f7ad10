"""Read facts from what a user says, without a model, in English and German.

Only plain statements of known forms are read: "I live in …", "my sister Clara …", "from now on …".
A wrong fact costs more than a missing one. Not read are questions, conditions, wishes, quotes, what
others said, jokes that are marked, role-play, code, lists, and pasted or long texts.

A text is read in steps: lines, sentences, clauses, and in a clause the subject and one of the forms
of `patterns_en` or `patterns_de`. The statement is always an English sentence; an object keeps the
words of the user ("The user is allergic to Nüsse."), because a translation would be a guess.

The time is bounded: at most `MAX_CHARACTERS` are read, and long sentences are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from memorist.base.lazy_pattern import LazyPattern
from memorist.kinds.facts.fact import ABOUT_USER, Topic
from memorist.kinds.facts.form import Form, Language
from memorist.kinds.facts.patterns_de import GERMAN
from memorist.kinds.facts.patterns_en import ENGLISH, LOOSE_RELATIONS
from memorist.kinds.facts.proposal import Proposal
from memorist.search.validity import Times, cut_times

MAX_CHARACTERS = 4_000
"""Of a message. What follows is not read: nobody talks about themselves at such length."""
MAX_LINE_CHARACTERS = 1_200
"""A longer paragraph is taken for a pasted text."""
MAX_SENTENCE_CHARACTERS = 500
MAX_OBJECT_WORDS = 10
MAX_AGE = 110
MAX_QUOTED_CHARACTERS = 200
"""Of an instruction, or of what is to be remembered."""

NOT_PEOPLE = frozenset(("agent", "assistant", "tool", "system"))
"""Speakers whose "I" is nobody."""

_SKIPPED_LINE = LazyPattern(
    r"\s*(?:>|\||#|[-*•]\s|\d+[.)]\s|```|~~~|    |\t|[\w .]{1,30}:\s+[\"“A-Z])"
)
_ALLOWED_LABEL = LazyPattern(
    r"\s*(?:note|fyi|ps|p\.s\.|btw|remember|update|correction|hinweis|übrigens|merk dir)\b.{0,20}:",
    re.IGNORECASE,
)
_LIST_ABOUT_ME = LazyPattern(r"about (?:me|myself)|know|remember|über mich|merk", re.IGNORECASE)
_BULLET = LazyPattern(r"\s*(?:[-*•]|\d+[.)])\s+")
_QUOTED = LazyPattern(r"[\"“„«][^\"“”„«»\n]{0,300}[\"”“»]")
_TITLE = LazyPattern(r"[\"“„«]((?:[A-ZÄÖÜ0-9][\w'’-]*)(?: [\w'’:&-]+){0,5})[\"”“»]")
_PERSONAL = LazyPattern(r"\b(?:I|my|me|ich|mein\w*|mir|mich)\b", re.IGNORECASE)
# A mark ends a sentence only before a space: not in "Flask 2.3".
_SENTENCE = LazyPattern(r"(?:[^.!?…]|[.!?…]+(?![\s).!?…]|$))+[.!?…]*")
_ABBREVIATION = LazyPattern(r"\b(?:Dr|Mr|Mrs|Ms|St|Prof|vs|e\.g|i\.e|z\.B|Nr|ca|bzw|[A-Z])\.$")
_ORDINAL = LazyPattern(r"(\d)\. (?=(?:Jan|Jän|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez))")
_DATE_COMMA = LazyPattern(r"(\d), ((?:19|20)\d\d)\b")
_ADVICE = LazyPattern(r"\b(?:you|your|may|might|du|dein\w*|kann|können)\b")
_INJECTION = LazyPattern(
    r"\b(?:ignore|disregard|forget) (?:all|any|the|your|previous|prior)\b|system prompt|"
    r"\bignoriere (?:alle|deine)\b",
    re.IGNORECASE,
)
# Words that a sentence may have with a capital where a name would stand.
_CAPITALIZED_WORDS = (
    "I Team Mrs Mr Ms Dr The A An My Is And He She It But So We You They This That Monday Tuesday "
    "Wednesday Thursday Friday Saturday Sunday January February March April May June July "
    "August September October November December Ich Der Die Das Er Sie Es Wir Und Aber Thanks "
    "Thank Yes No Also Not Now Here Happy God Mom Dad Who What When Where How Why If In On At "
    "For Christmas Easter Love Wow Hey Montag Dienstag Mittwoch Donnerstag Freitag Samstag "
    "Sonntag Mai Hat Ist"
)
_NOT_A_NAME = frozenset(_CAPITALIZED_WORDS.split())
_ABOUT_A_PERSON = frozenset(("name", "age", "works as", "lives in"))
"""Predicates after which "a nurse" or "living in Lisbon" is about the same person."""
_ENGLISH_I = LazyPattern(r"\bI\b|\b[Mm]y\b|\bthe\b")
_HELD_BY_MANY = frozenset(LOOSE_RELATIONS.split())


@dataclass(frozen=True)
class _Subject:
    """Whom a clause is about."""

    name: str  # "user", "Clara", "the user's sister"
    alias: str = ""
    is_plural: bool = False


@dataclass
class _ReadMessage:
    """A message that is being read, and what it has said so far."""

    sent_at: datetime
    speaker: str
    language: Language
    proposals: list[Proposal] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)  # name → alias
    has_greeting: bool = False
    is_opening: bool = True  # the first sentences, in which people say who they are
    is_introduction: bool = False  # "I'm Ana" is a name here
    last_name: str = ""  # the name with which the last clause ended

    @property
    def me(self) -> _Subject:
        return _Subject(self.speaker)

    @property
    def name(self) -> str:
        """The speaker at the beginning of a statement."""
        return "The user" if self.speaker == ABOUT_USER else self.speaker

    @property
    def owner(self) -> str:
        """The speaker inside a phrase: "the user's sister"."""
        return "the user" if self.speaker == ABOUT_USER else self.speaker

    def add(self, proposal: Proposal) -> None:
        """Keep a proposal, unless the message has said the same before."""
        if all(proposal.statement != known.statement for known in self.proposals):
            self.proposals.append(proposal)


def extract(
    text: str,
    sent_at: datetime,
    speaker: str = ABOUT_USER,
    recent: Sequence[Proposal] = (),
) -> list[Proposal]:
    """Return the facts that a message states, in the order in which it states them.

    speaker: who says "I": the user, or the name of a person; agents and tools have no facts
    recent:  what earlier messages of the session proposed, oldest first; a correction such as
             "sorry, it's Porto, not Lisbon" applies to the last one with that object
    """
    if speaker in NOT_PEOPLE:
        return []
    text = text[:MAX_CHARACTERS].replace("’", "'").replace("‘", "'")
    language = ENGLISH if _ENGLISH_I.search(text) or not GERMAN.hint.search(text) else GERMAN
    if not language.hint.search(text) or language.fiction.search(text.lower()):
        return []
    for pattern, words in language.spellings:
        text = pattern.sub(words, text)
    message = _ReadMessage(sent_at, speaker, language)
    message.has_greeting = bool(language.greeting.match(text))
    for line in _readable_lines(text):
        for number, sentence in enumerate(_sentences(line)):
            message.is_opening = message.is_opening and number < 2
            _read_sentence(sentence, message, recent)
    return message.proposals


# --- Lines and sentences ---------------------------------------------------------------------


def _readable_lines(text: str) -> Iterator[str]:
    """Return the lines that the user wrote as prose about themselves, as far as one can tell."""
    in_code = False
    is_list_about_me = False
    for line in text.split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            in_code = not in_code
            continue
        if in_code or not line.strip():
            continue
        if is_list_about_me and _BULLET.match(line):
            yield _BULLET.sub("", line, count=1)
            continue
        if len(line) > MAX_LINE_CHARACTERS:
            return
        if _SKIPPED_LINE.match(line) and not _ALLOWED_LABEL.match(line):
            continue
        yield line
        if line.rstrip().endswith(":"):
            # What follows is a text that somebody wrote, unless it is a list about the user.
            is_list_about_me = bool(_LIST_ABOUT_ME.search(line))
            if not is_list_about_me:
                return


def _sentences(line: str) -> Iterator[str]:
    """Return the sentences of a line. Quotes are cut; a quoted title stays without its marks."""
    line = _ORDINAL.sub(r"\1 ", line)
    line = _DATE_COMMA.sub(r"\1 \2", line)
    line = _TITLE.sub(_unquote_title, line)
    line = _QUOTED.sub("“…”", line)
    sentence = ""
    for match in _SENTENCE.finditer(line):
        sentence += match[0]
        if _ABBREVIATION.search(sentence):
            continue
        if len(sentence) <= MAX_SENTENCE_CHARACTERS:
            yield sentence.strip()
        sentence = ""
    if 0 < len(sentence) <= MAX_SENTENCE_CHARACTERS:
        yield sentence.strip()


def _unquote_title(match: re.Match[str]) -> str:
    return "“…”" if _PERSONAL.search(match[1]) else match[1]


def _read_sentence(sentence: str, message: _ReadMessage, recent: Sequence[Proposal]) -> None:
    if not message.language.hint.search(sentence) and not message.names:
        return
    is_question = sentence.endswith("?")
    body = sentence.rstrip(" .!?…")
    body = _read_names(body, message)
    if not is_question:
        if _read_correction(body, message, recent):
            return
        if _read_instruction(body, message) or _read_remembered(body, message):
            return
    _read_clauses(body, is_question, message)


# --- Clauses ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Clause:
    text: str
    mark_before: str = ""  # what separates it from the clause before: ", and "
    following: str = ""
    goes_on: bool = False  # what follows a comma may be another object: "I like simple, fast cars"


def _read_clauses(body: str, is_question: bool, message: _ReadMessage) -> None:
    """Read the clauses of a sentence up to the point where it imagines, reports or asks."""
    language = message.language
    imagined = language.imagined.search(body.lower())
    clauses = _split(body, language)
    if is_question:
        # Only what stands before the words that ask: "I live in Lisbon, what can I do here?"
        questions = (i for i, c in enumerate(clauses) if language.open_question.match(c.text))
        clauses = clauses[: next(questions, 0)]
    position = 0
    previous: Proposal | None = None
    for clause in clauses:
        position = body.index(clause.text, position) + len(clause.text)
        if imagined and imagined.start() < position:
            return
        count = len(message.proposals)
        text = _complete(clause, previous, message)
        has_context = message.has_greeting or bool(clause.following)
        message.is_introduction = message.is_opening and has_context
        _read_clause(text, clause.goes_on, message)
        previous = message.proposals[-1] if len(message.proposals) > count else None


def _split(body: str, language: Language) -> list[_Clause]:
    marks = list(language.split.finditer(body))
    starts = [0, *(mark.end() for mark in marks)]
    ends = [*(mark.start() for mark in marks), len(body)]
    clauses = []
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        mark_before = marks[index - 1][0] if index else ""
        mark_after = marks[index][0] if index < len(marks) else ""
        following = body[starts[index + 1] :] if index < len(marks) else ""
        goes_on = (
            mark_after.strip() in (",", ", and", ", or")
            and bool(following)
            and not language.new_clause.match(following)
        )
        clauses.append(_Clause(body[start:end], mark_before, following, goes_on))
    return clauses


def _complete(clause: _Clause, previous: Proposal | None, message: _ReadMessage) -> str:
    """Return the words of a clause with the subject that it takes from the clause before."""
    language = message.language
    text = clause.text
    if language.relative.match(text) and message.last_name:
        return language.relative.sub(f"{message.last_name} ", text, count=1)
    if language.as_role.match(text) and language.subject.match(clause.following):
        return language.as_role.sub(f"{language.i_am} ", text, count=1)
    if previous is None:
        return text
    if previous.subject != message.speaker:
        if "," not in clause.mark_before and language.implied_subject.match(text):
            subject = previous.subject.replace(f"{message.owner}'s", "My")
            return f"{subject} {text}"
        return text
    if language.implied_be.match(text) and previous.predicate in _ABOUT_A_PERSON:
        return f"{language.i_am} {text}"
    if "," not in clause.mark_before and language.implied_subject.match(text):
        return f"{language.i} {text}"
    return text


def _read_clause(clause: str, goes_on: bool, message: _ReadMessage) -> None:
    """Add the facts of one clause."""
    language = message.language
    message.last_name = next((name for name in message.names if clause.endswith(name)), "")
    original = clause
    lead = language.lead.match(clause)
    clause = clause[lead.end() :] if lead else clause
    if not language.hint.search(clause) and not clause.startswith(tuple(message.names)):
        return
    if language.doubted.search(clause.lower()):
        return
    if _read_whole_clause(clause, message):
        return
    times, short_clause = cut_times(clause)
    short_clause = _reorder(short_clause, original, language)
    clause = _reorder(clause, original, language)
    parts = _read_subject(short_clause, message)
    if parts is None:
        return
    subject, rest, has_noun = parts
    parts_with_times = _read_subject(clause, message)
    rest_with_times = parts_with_times[1] if parts_with_times else rest
    is_me = subject.name == message.speaker
    owned = language.owned_name.match(rest) if is_me and not has_noun else None
    if owned:
        _add_relation(owned["name"], owned["relation"], message)
        return
    rest, ends = _cut_end(rest, language)
    for form in language.noun_forms if has_noun else language.verb_forms:
        if form.only_me and not is_me:
            continue
        if goes_on and form.is_free and not form.allows_article:
            continue
        match = form.pattern.match(rest_with_times if form.keeps_times else rest)
        if match:
            _add_fact(subject, form, match, times, ends, message)


def _read_whole_clause(clause: str, message: _ReadMessage) -> bool:
    """Read a form that begins with something else than its subject; return whether it was one."""
    language = message.language
    relation = language.is_relation.match(clause)
    if relation:
        _add_relation(relation["name"], relation["relation"], message)
        return True
    call = language.call_me.match(clause)
    if call and _is_name(call["name"]):
        statement = f"{message.name} is called {call['name']}."
        _add_own(message, "is called", call["name"], "identity", statement)
        return True
    favourite = language.is_favourite.match(clause)
    if favourite and not language.bad_object.search(favourite["object"].lower()):
        thing = favourite["object"]
        predicate = f"favourite {_english(favourite['kind'], message)}"
        statement = f"{message.name}'s {predicate} is {thing}."
        _add_own(message, predicate, thing, "preferences", statement)
        return True
    return False


def _reorder(clause: str, original: str, language: Language) -> str:
    """Return a clause with its subject first and its verb second, as English has them.

    A clause that began with its verb already is a condition or a question, and stays as it is.
    """
    if language.verb_last:
        clause = language.verb_last.sub(r"\g<subject> \g<verb> \g<middle>", clause, count=1)
    if language.inverted:
        match = language.inverted.match(clause)
        if match and not original.lower().startswith(match["verb"]):
            clause = f"{match['subject']} {match['verb']} {clause[match.end() :]}"
    return clause


def _cut_end(rest: str, language: Language) -> tuple[str, bool]:
    """Return the words without "no longer", and whether they had it."""
    for pattern, words in language.ended:
        shorter = pattern.sub(words, rest, count=1)
        if shorter != rest:
            return shorter.strip(), True
    return rest, False


def _read_subject(clause: str, message: _ReadMessage) -> tuple[_Subject, str, bool] | None:
    """Return whom a clause is about, the rest, and whether a noun of theirs follows ("my name")."""
    language = message.language
    match = language.subject.match(clause)
    if match is None:
        name = next((name for name in message.names if clause.startswith(f"{name} ")), "")
        if not name:
            return None
        subject = _Subject(name, message.names[name])
        rest = clause[len(name) + 1 :]
        is_possessive = False
    else:
        person = _subject_of(match, message)
        if person is None:
            return None
        subject = person
        rest = clause[match.end() :]
        is_possessive = bool(match["possessive"] or match["my"])
    adverbs = language.adverbs.match(rest)
    if adverbs:
        rest = rest[adverbs.end() :]
    first, space, others = rest.partition(" ")
    adverbs = language.adverbs.match(others) if space else None
    if adverbs:
        rest = f"{first} {others[adverbs.end() :]}"
    return subject, rest, is_possessive


def _subject_of(match: re.Match[str], message: _ReadMessage) -> _Subject | None:
    """Return the person a clause begins with; None for "my friend", who may be anybody."""
    if match["me"] or match["my"]:
        return message.me
    if match["plural"]:
        return _Subject(f"{message.owner}'s {_english(match['plural'], message)}", is_plural=True)
    relation = _english(match["relation"], message)
    is_clear = relation not in _HELD_BY_MANY
    phrase = f"{message.owner}'s {relation}"
    name = match["name"]
    if name and name not in _NOT_A_NAME:
        return _Subject(name, phrase if is_clear else "")
    return _Subject(phrase) if is_clear else None


def _english(word: str, message: _ReadMessage) -> str:
    return message.language.english.get(word, word)


# --- Facts -----------------------------------------------------------------------------------


def _add_fact(
    subject: _Subject,
    form: Form,
    match: re.Match[str],
    times: Times,
    ends: bool,
    message: _ReadMessage,
) -> None:
    """Add the fact of a form that matched, unless its object is vague or its time does not fit."""
    ends = ends or form.ends
    words = _read_object(subject, form, match, message)
    validity = _read_validity(form, match, times, ends, message.sent_at)
    if words is None or validity is None:
        return
    predicate = form.predicate
    if "kind" in match.re.groupindex:
        predicate = predicate.format(kind=_english(match["kind"], message))
    message.add(
        Proposal(
            subject=subject.name,
            statement=_statement(subject, form, predicate, words, ends),
            predicate=predicate,
            object=words,
            topic=form.topic,
            valid_from=validity[0],
            valid_to=validity[1],
            exclusive=form.exclusive,
            ends=ends,
            alias=subject.alias,
        )
    )


def _read_object(
    subject: _Subject, form: Form, match: re.Match[str], message: _ReadMessage
) -> str | None:
    """Return the object of a form; None if it is vague, or not what the form is about."""
    language = message.language
    words = match["object"].strip(" ,")
    if "kind" in match.re.groupindex and language.bad_object.search(match["kind"]):
        return None
    if form.is_introduction and not message.is_introduction:
        return None
    if form.is_absolute and language.restriction.search(words):
        return None
    if form.is_free:
        words = _clean_object(words, form, language)
        if not words:
            return None
    if form.predicate == "age" and (subject.is_plural or not 1 <= int(words) <= MAX_AGE):
        return None
    if form.predicate == "name" and not _is_name(words):
        return None
    return _english(words, message)


def _read_validity(
    form: Form, match: re.Match[str], times: Times, ends: bool, sent_at: datetime
) -> tuple[datetime | None, datetime | None] | None:
    """Return when a fact begins and ends to be true; None if its form needs another time."""
    if ends:
        return None, times.end_of_past(sent_at)
    if form.keeps_times:
        return None, None  # the time is part of the object
    if form.kind == "plan":
        start, end = times.validity(sent_at, "future")
        return (start, end) if start and start > sent_at else None
    start, end = times.validity(sent_at, "past")
    if start and start > sent_at:
        return None
    if form.kind == "stay" and not end:
        return None
    if form.kind == "lasting" and not (times.since or times.length):
        return None
    if times.at and not form.is_event:
        return None, end  # "in May" says when something happened, not since when it is so
    if times.length and form.is_event and "been" not in match[0]:
        return None, end  # "I moved to Rome for two years"
    return start, end


def _add_own(
    message: _ReadMessage, predicate: str, words: str, topic: Topic, statement: str
) -> None:
    """Add a fact about the speaker of which only one is true at a time."""
    message.add(
        Proposal(
            subject=message.speaker,
            statement=statement,
            predicate=predicate,
            object=words,
            topic=topic,
            exclusive=True,
        )
    )


def _statement(subject: _Subject, form: Form, predicate: str, words: str, ends: bool) -> str:
    name = "The user" if subject.name == ABOUT_USER else subject.name
    name = name[0].upper() + name[1:]
    if form.statement:
        statement = form.statement.format(subject=name, object=words)
        is_over = ends and not form.ends
        return statement.replace(" is ", " is no longer ", 1) if is_over else statement
    if form.kind == "noun":
        verb = "is no longer" if ends else "is"
        return f"{name}'s {predicate} {verb} {words}."
    if ends:
        verb, _, rest = predicate.partition(" ")
        predicate = f"is no longer {rest}".strip() if verb == "is" else f"no longer {predicate}"
    if subject.is_plural:
        predicate = _plural(predicate)
    return f"{name} {predicate} {words}".rstrip() + "."


def _plural(predicate: str) -> str:
    """Return a predicate for several people: "live in" for "lives in"."""
    words = predicate.split(" ")
    index = 2 if predicate.startswith("no longer") else 0
    verb = words[index]
    irregular = {"is": "are", "has": "have", "does": "do", "was": "were", "studies": "study"}
    words[index] = irregular.get(verb, verb.removesuffix("s"))
    return " ".join(words)


def _clean_object(words: str, form: Form, language: Language) -> str:
    """Return an object of free words up to its end; empty if it is vague or too long."""
    words = language.object_end.sub("", f" {words}", count=1).strip()
    if form.allows_article:
        words = language.next_verb.sub("", words, count=1)
    if not words or len(words.split()) > MAX_OBJECT_WORDS:
        return ""
    if language.bad_object.search(words):
        return ""
    has_article = form.allows_article and language.article.match(words)
    if not has_article and language.bad_start.match(words):
        return ""
    for pattern, replacement in language.own_words:
        words = pattern.sub(replacement, words)
    return words


# --- Names, remembered words, instructions, corrections --------------------------------------


def _read_names(body: str, message: _ReadMessage) -> str:
    """Read who somebody is: "my sister Clara", also inside a question.

    Returns the sentence without the commas around such a name, so that they end no clause.
    """
    plain = body
    for pattern in message.language.named:
        for match in pattern.finditer(body):
            name = match["name"]
            _add_relation(name, match["relation"], message)
            if name in message.names:
                plain = plain.replace(f", {name}, who ", f" {name}, who ")
                plain = plain.replace(f", {name}, ", f" {name} ")
    return plain


def _add_relation(name: str, relation: str, message: _ReadMessage) -> None:
    name = name.removesuffix("'s")
    if not _is_name(name):
        return
    relation = _english(relation, message)
    relation_phrase = f"{message.owner}'s {relation}"
    # "My friend" may be anybody, so it is no other name of this one.
    alias = "" if relation in _HELD_BY_MANY else relation_phrase
    message.names[name] = alias
    message.add(
        Proposal(
            subject=name,
            statement=f"{name} is {relation_phrase}.",
            predicate="is",
            object=relation_phrase,
            topic="people",
            alias=alias,
        )
    )


def _is_name(words: str) -> bool:
    return not any(word in _NOT_A_NAME for word in words.split())


def _read_instruction(body: str, message: _ReadMessage) -> bool:
    """Read how the user wants to be answered. Only the user may say so."""
    if message.speaker != ABOUT_USER:
        return False
    return _add_quoted(message.language.instruction.fullmatch(body), "asked", message)


def _read_remembered(body: str, message: _ReadMessage) -> bool:
    """Read "remember that …": the fact in it, or else its words."""
    match = message.language.remember.fullmatch(body)
    if match is None or _ADVICE.search(match["object"]):
        return False
    before = len(message.proposals)
    _read_clauses(match["object"], False, message)
    if len(message.proposals) > before:
        return True
    return _add_quoted(match, "asked to remember", message)


def _add_quoted(match: re.Match[str] | None, predicate: str, message: _ReadMessage) -> bool:
    if match is None:
        return False
    words = match["object"].strip().removeprefix("dass ")
    if len(words) > MAX_QUOTED_CHARACTERS or _INJECTION.search(words):
        return False
    message.add(
        Proposal(
            subject=message.speaker,
            statement=f"{message.name} {predicate}: {words}.",
            predicate=predicate,
            object=words,
            topic="instructions" if predicate == "asked" else "other",
        )
    )
    return True


def _read_correction(body: str, message: _ReadMessage, recent: Sequence[Proposal]) -> bool:
    """Read "it's Porto, not Lisbon", if something was said about Lisbon before."""
    match = message.language.correction.fullmatch(body)
    if match is None:
        return False
    for proposal in [*reversed(message.proposals), *reversed(recent)]:
        if proposal.object.casefold() != match["old"].casefold():
            continue
        if proposal in message.proposals:
            message.proposals.remove(proposal)
        statement = proposal.statement.replace(proposal.object, match["new"])
        message.add(
            replace(proposal, statement=statement, object=match["new"], relation="corrects")
        )
        return True
    return False
