"""Turn what the reader found in a message into proposals: English sentences with the user's words.

A sentence names the slot, and keeps the value as the user wrote it, because a translation would be
a guess: "The user is allergic to Nüsse.".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memorist.base.lazy_pattern import LazyPattern
from memorist.kinds.facts.fact import ABOUT_USER, Topic
from memorist.learning.guards import sentence_at
from memorist.learning.people import (
    USER,
    Subject,
    english_relation,
    parse_subject,
    role_of,
)
from memorist.learning.proposal import Proposal
from memorist.learning.tagging import Tag
from memorist.search.validity import Times, cut_times


@dataclass(frozen=True)
class Slot:
    """How the values of a slot are phrased as a sentence."""

    topic: Topic
    predicate: str  # with {value} behind it, it makes a sentence about the subject
    negated: str = ""  # the same for what is not so
    exclusive: bool = False  # one value at a time
    had: str = ""  # the same for what was so; else "formerly" before the predicate


SLOTS: dict[str, Slot] = {
    "name": Slot("identity", "'s name is", exclusive=True),
    "age": Slot("identity", "is", exclusive=True),
    "home": Slot("home", "lives in", "does not live in", exclusive=True, had="used to live in"),
    "work": Slot("work", "works at", "does not work at", exclusive=True, had="used to work at"),
    "role": Slot("work", "works as", "does not work as", had="used to work as"),
    "relation": Slot("people", "has", "does not have", had="used to have"),
    "pet": Slot("people", "has a pet:", "does not have a pet:", had="used to have a pet:"),
    "contact": Slot("identity", "can be reached at", "can not be reached at", exclusive=True),
    "allergy": Slot("health", "is allergic to", "is not allergic to"),
    "diet": Slot("preferences", "eats this way:", "does not eat:"),
    "condition": Slot("health", "has this condition:", "does not have this condition:"),
    "medication": Slot("health", "takes", "does not take", had="used to take"),
    "belief": Slot("identity", "identifies as", "does not identify as"),
    "language": Slot("identity", "speaks", "does not speak", had="used to speak"),
    "likes": Slot("preferences", "likes", "dislikes", had="used to like"),
    "dislikes": Slot("preferences", "dislikes", "likes", had="used to dislike"),
    "habit": Slot("preferences", "regularly does:", "does not do:", had="used to do:"),
    "owns": Slot("other", "owns", "does not own", had="used to own"),
    "plan": Slot("plans", "plans:", "does not plan:", had="had planned:"),
    "event": Slot("other", "experienced:"),
    "project": Slot("work", "works on", "does not work on", had="used to work on"),
    "skill": Slot("work", "is able to:", "is not able to:"),
    "money": Slot("other", "has this budget or cost:"),
    "instruction": Slot("instructions", "asked:"),
    "remember": Slot("other", "asked to remember:"),
    "other": Slot("other", "mentioned:"),
}
"""The slots of the reader; negated values are ignored for slots without a negated form."""

_LASTING_SLOTS = frozenset(
    ["home", "work", "role", "condition", "medication", "diet", "belief", "contact"]
)
"""Slots whose temporary values are marked "temporarily"."""
MAX_VALUE_CHARACTERS = 300
_CONFIDENCE = {"indirect": 0.7, "answer": 0.8}
_ARTICLE = LazyPattern(
    r"(?i)(?:an?|the|my|our|eine?[nmr]?|der|die|das|den|mein\w*|unser\w*)\s+(?=\S)"
)
_PREPOSITION = LazyPattern(
    r"(?i)(?:in|at|near|with|on|by|outside|around|opposite|next to|between|bei|auf|im|am|an|aus|zu|"
    r"mit|nahe|außerhalb|unter|über|neben)\s"
)
_STATUS = LazyPattern(
    r"(?i)(?:happily |frisch |glücklich )?(?:married|single|engaged|divorced|separated|widow(?:ed)?|widower|verheiratet|ledig|"
    r"single|verlobt|geschieden|getrennt(?: lebend)?|verwitwet|in a relationship|vergeben)(?:\s.*)?"
)
_NUMBER = LazyPattern(
    r"(?i)(\d{1,3})(?: ?(?:years? old|yrs? old|yo|y/o|jahre(?: alt)?|years?|j\.))?\.?"
)
_YEAR = LazyPattern(r"(?:19|20)\d\d")
_MAIL = LazyPattern(r"\S+@\S+")
_PHONE = LazyPattern(r"[+\d][\d ()/.-]{5,}")
_DIED = LazyPattern(
    r"(?i)\b(?:died|passed away|passed on|dead|put (?:him|her|it|them)? ?down|put to sleep|gestorben|verstorben|tot|"
    r"eingeschläfert|einschläfern|von uns gegangen|euthani[sz]ed|no longer with us)\b"
)
_END_OF_A_PAIR = LazyPattern(
    r"(?i)\b(?:split(?: up)?|broke(?:n)? up|separated|divorced|dumped|left me|over|getrennt|schluss|auseinander|geschieden|verlassen)\b"
)
_DIETS = LazyPattern(
    r"(?i)(?:strict(?:ly)? |mostly |fully )?(?:vegan\w*|vegetarian|veggie|pescatarian|pescetarian|omnivore|carnivore|"
    r"flexitarian|keto|paleo|low[- ]carb|vegetarier\w*|vegetarisch|pescetarier\w*|flexitarier\w*|allesesser\w*)"
)
_YES_OR_NO = LazyPattern(r"(?i)(?:yes|yep|yeah|yup|no|nope|nah|ja|jep|jo|nein|nee|nö)\b.{0,12}")
_QUESTION = LazyPattern(r"[^.!?\n]*\?")
_INSTRUCTION_TOPICS = {
    "the language": LazyPattern(
        r"(?i)\b(?:in|auf) (?:english|german|french|spanish|italian|dutch|polish|portuguese|deutsch|englisch|französisch|spanisch|"
        r"italienisch)\b"
    ),
    "the length": LazyPattern(
        r"(?i)\b(?:short\w*|brief\w*|concise|long\w*|detail\w*|in depth|kurz\w*|knapp\w*|ausführlich\w*|länger\w*|stichpunkt\w*|"
        r"bullet\w*|prose|fließtext)\b"
    ),
    "the units": LazyPattern(
        r"(?i)\b(?:metric|imperial|celsius|fahrenheit|kilomet\w+|miles|grams|ounces|metrisch\w*)\b"
    ),
    "the form of address": LazyPattern(
        r"(?i)\b(?:call me|address me|du|sie|duzen|siezen|nenn\w* mich)\b"
    ),
    "emoji": LazyPattern(r"(?i)\b(?:emojis?|smileys?)\b"),
}
"""Preferences for answers, by topic: a newer one replaces the older."""
_RESTRICTED = LazyPattern(
    r"(?i)\b(?:this (?:week|weekend|month|summer|winter|term|semester|year)|(?:for )?(?:the|a|an|another|"
    r"\d+|two|three|four|five|six|few|couple) ?(?:few |couple of |more )?(?:days|weeks|weekends|nights)|for (?:the|a|an|another|\d+|"
    r"two|three|six|few) ?(?:few |couple of )?(?:days?|weeks?|weekend|months?|summer|winter|term|semester|season|time being|while|"
    r"bit|night)|(?:over|at) the weekend|spending|rent(?:ed|ing) (?:a|an)|hired|borrow\w*|for now|until|till|temporar\w+|at the moment|on weekends?|on the side|side "
    r"(?:job|hustle|gig)|part[- ]time|staying|visiting|crashing|house-?sitting|subletting|sublet|on (?:vacation|holiday|"
    r"a trip|business)|travell?ing|while i'?m|standing in|covering for|filling in|interim|acting|seconded|on loan|"
    r"diese (?:woche|tage|saison)|dieses (?:jahr|wochenende|semester)|diesen (?:monat|sommer|winter)|"
    r"vorübergehend|übergangsweise|bis (?:zum|zur|ende|anfang|mitte|freitag|montag|\w+tag|\w+)|für (?:ein paar|einige|\d+|zwei|"
    r"drei|eine?n?) (?:tage?|wochen?|monate?|semester)|gerade (?:in|bei|auf)|zurzeit|zur zeit|momentan|übers? (?:das )?wochenende|beruflich in|gemietet|geliehen|im urlaub|auf "
    r"(?:dienstreise|geschäftsreise|besuch|reha|kur|urlaub)|nebenbei|nebenher|nebenjob|minijob|am wochenende|aushilfsweise|"
    r"vertretung|vertretungsweise|zwischenzeitlich|besuche?)\b"
)
"""Words that restrict a statement in time or kind, so that it ends no lasting fact."""
_PAST = LazyPattern(
    r"(?i)\b(?:(?<!getting )(?<!get )(?<!got )used to|formerly|former|back (?:in|when)|previously|growing up|grew up|as a (?:kid|child|teenager)|when i "
    r"(?:was|lived|worked|had)|years ago|months ago|originally|früher|damals|als ich|ehemals|ehemalige\w*|aufgewachsen|"
    r"als kind|ursprünglich|vor \d+ jahren|vor jahren)\b"
)
_UNCERTAIN = LazyPattern(
    r"(?i)\b(?:might|maybe|perhaps|possibly|probably|thinking (?:of|about)|considering|hop(?:e|ing) to|want to|wants to|would|"
    r"could|if|about to|going to|gonna|planning|plan to|will|'ll|applied|applying|interview(?:ing)?|offer|looking (?:at|for|to)|"
    r"next (?:week|month|year|spring|summer|autumn|fall|winter)|soon|vielleicht|eventuell|evtl|überlegen?|möchten?|würden?|"
    r"könnten?|wollen|will|wollte|werden?|wird|falls|wenn|bald|nächste[nrms]?|demnächst|geplant|planen?|beworben|bewerbe|"
    r"angebot)\b"
)
_PRODUCTS = LazyPattern(
    r"(?i)(?:react|angular|vue|svelte|python|java|javascript|typescript|rust|go|node(?:\.js)?|next(?:\.js)?|django|flask|rails|linux|"
    r"ubuntu|debian|fedora|arch|windows|macos|aws|azure|gcp|docker|kubernetes|k8s|postgres(?:ql)?|mysql|mongodb|sqlite|redis|git|"
    r"github|gitlab|jira|linear|slack|teams|notion|android|ios|spotify|netflix|chrome|firefox|microservices|agile|scrum)"
)
"""What people move to, in technical talk, without living there."""
_MOVED_OUT = LazyPattern(
    r"(?i)\b(?:liv(?:e|ed|ing)|mov(?:e|ed|ing)|flat|house|home|apartment|for good|no longer|any ?more|sold|relocat\w*|emigrat\w*|"
    r"wohn\w*|gewohnt|lebe\w*|zog\w*|\w*gezogen|auszieh\w*|umzieh\w*|verlassen|nicht mehr|wohnung|haus)\b"
)
"""Words with which the end of a home is said; "I left Leeds at noon" ends none."""
_CALL_NAME = LazyPattern(
    r"(?i)\b(?:calls? me|go by|goes by|known as|nickname\w*|for short|nenn\w* mich|spitzname\w*|rufname\w*)\b"
)
_NEW_ROLE = LazyPattern(
    r"(?i)\b(?:now|promoted|retrained|requalified|switched|became|become|changed careers?|instead|new (?:job|role|position)|"
    r"jetzt|befördert|umgeschult|geworden|inzwischen|mittlerweile|nun|neue[rn]? (?:job|stelle|position))\b"
)
"""Words that say that a role replaces the previous one; without them, roles accumulate."""
_MOVED = LazyPattern(
    r"(?i)\b(?:moved|moved in|started|new (?:job|flat|house|home|place|apartment)|switched|promoted|got the keys|umgezogen|gezogen|angefangen|"
    r"gewechselt|neue[rnms]? (?:job|wohnung|stelle|haus)|befördert)\b"
)
"""A lasting change, although its sentence may say when: "moved to Leeds today"."""
_CHANGE = LazyPattern(
    r"(?i)\b(?:now|new|moved|moving in|switched|swapped|started|changed|since|no longer|these days|finally|just|anymore|any more|"
    r"promoted|instead|jetzt|neu\w*|umgezogen|gezogen|gewechselt|inzwischen|mittlerweile|seit|angefangen|endlich|"
    r"nicht mehr|befördert|stattdessen|umgestiegen)\b"
)


_INSTEAD = LazyPattern(
    r"(?i)\b(?:not(?! (?:only|just|yet|sure|that|too|really|so|even|a fan|to)\b)|instead of|rather than|nicht(?! (?:nur|mehr|so|ganz|"
    r"wirklich)\b)|statt|anstatt)\s+(?:in |at |as |a |an |the |my |als |bei |mein\w* |der |die |das )?(?P<old>[\w'’-]+(?: [\w'’-]+){0,2})"
)
"""The rejected value in "X, not Y"."""
_POSTPONED = LazyPattern(
    r"(?i)\b(?:postponed|rescheduled|pushed|put back|moved (?:to|from|forward)|brought forward|now (?:on|at)|verschoben|verlegt|"
    r"vorgezogen|vertagt)\b"
)
_MARKS = " ,.;:!?\"'“”„"
_TRAILING_FUNCTION_WORD = LazyPattern(
    r"(?i)(?P<words>.*\S)\s+(?:in|at|on|of|for|with|to|the|a|an|and|or|as|from|by|is|am|im|der|die|das|den|dem|ein|eine|einer|einem|"
    r"einen|von|bei|mit|zu|zur|zum|und|oder|als|auf|aus|für|ist|beim|vom)"
)
"""A value with a trailing function word."""


@dataclass
class _ReadText:
    """A message, and whom it spoke of so far."""

    text: str
    before: str
    sent_at: datetime
    speaker: Subject
    names: dict[str, Subject]
    last: Subject | None = None

    def value(self, tag: Tag) -> str:
        words = " ".join(self.text[tag.start : tag.end].strip(_MARKS).split())
        while shorter := _TRAILING_FUNCTION_WORD.fullmatch(words):
            words = shorter["words"].strip(_MARKS)
        return words


def is_restricted_in_time(sentence: str) -> bool:
    """Return whether a sentence describes something temporary or partial."""
    return bool(_RESTRICTED.search(sentence)) and not _MOVED.search(sentence)


def is_uncertain(sentence: str) -> bool:
    """Return whether a sentence speaks of the past, or of what may be."""
    return bool(_PAST.search(sentence) or _UNCERTAIN.search(sentence))


def make_proposals(
    text: str, tags: Sequence[Tag], sent_at: datetime, before: str = "", speaker: str = ABOUT_USER
) -> list[Proposal]:
    """Return the facts that the values of a message state, in their order.

    before:  the agent's message before it
    speaker: who says "I": the user, or the name of another person
    """
    me = USER if speaker == ABOUT_USER else Subject(speaker)
    tags = _joined(text, tags)
    context = _ReadText(text, before, sent_at, me, {})
    for tag in tags:  # names first: "Clara, that is my sister, lives in Lisbon"
        if tag.slot in ("relation", "pet") and tag.subject is not None:
            _learn_name(tag, context)
    proposals: list[Proposal] = []
    for tag in tags:
        proposal = _proposal(tag, context)
        if proposal is not None and all(
            proposal.statement != other.statement for other in proposals
        ):
            proposals.append(proposal)
    return proposals


def _joined(text: str, tags: Sequence[Tag]) -> list[Tag]:
    """Return tags in which parts of one value, with only a space between them, are one."""
    joined: list[Tag] = []
    for tag in tags:
        last = joined[-1] if joined else None
        if (
            last
            and last.slot == tag.slot
            and text[last.end : tag.start].isspace()
            and not (last.subject and tag.subject and last.subject != tag.subject)
        ):
            joined[-1] = replace(
                last,
                end=tag.end,
                flags=last.flags | tag.flags,
                confidence=max(last.confidence, tag.confidence),
            )
        else:
            joined.append(tag)
    return joined


def _learn_name(tag: Tag, context: _ReadText) -> None:
    """Remember that "my sister" is Clara in this message."""
    words = context.text[slice(*tag.subject)]  # type: ignore[misc]
    subject = parse_subject(words, None, {})
    value = context.value(tag)
    is_name = value[:1].isalpha() and not english_relation(value) and len(value.split()) <= 3
    if subject and is_name and not {"ended", "negated"} & tag.flags and subject.name != value:
        role = subject.alias or subject.name
        if role.casefold().startswith("the user's "):
            named = parse_subject(value, None, {})
            if named and role.casefold() in context.names:
                context.names[role.casefold()] = Subject(role)  # there are two
            elif named:
                context.names[role.casefold()] = Subject(named.name, role)


def _proposal(tag: Tag, context: _ReadText) -> Proposal | None:
    value = context.value(tag)
    subject = context.speaker
    if tag.subject is not None:
        words = context.text[slice(*tag.subject)]
        # "My sister Eva" is not Clara, who is another sister.
        names = {} if tag.slot in ("relation", "pet") else context.names
        named = parse_subject(words, context.last, names)
        if named is None:
            return None
        subject = context.speaker if named == USER else named
        if subject != context.speaker:
            context.last = subject
    if not value or len(value) > MAX_VALUE_CHARACTERS or "unsure" in tag.flags:
        return None
    if "reported" in tag.flags and subject == context.speaker:
        return None
    proposal = _said(tag, value, subject, context)
    return None if proposal is None else _with_time(proposal, tag, context)


def _said(tag: Tag, value: str, subject: Subject, context: _ReadText) -> Proposal | None:
    """Return the proposal of a value, without its times."""
    if "answer" in tag.flags and _YES_OR_NO.fullmatch(value):
        return _answer(value, subject, context)
    is_speaker = subject == context.speaker
    if not is_speaker and tag.slot in ("event", "condition", "other") and _DIED.search(value):
        return _died(subject, value)
    if tag.slot in ("pet", "relation"):
        proposal = _about_somebody(tag, value, subject, context)
        if proposal is not None or tag.slot == "relation":
            return proposal
    return _about_a_value(tag, value, subject, context)


def _about_somebody(tag: Tag, value: str, subject: Subject, context: _ReadText) -> Proposal | None:
    """Build the proposal of a relation, a death or a separation; None for an unnamed pet."""
    is_speaker = subject == context.speaker
    if is_speaker:
        ended = _end_of_somebody(tag, value, context)
        if ended is not None:
            return ended
    if tag.slot == "relation":
        return _relation(tag, value, subject, context)
    if "ended" in tag.flags and _DIED.search(value):
        return _died(subject, value)
    return None if is_speaker or "ended" in tag.flags else _named(value, subject, context)


def _about_a_value(tag: Tag, value: str, subject: Subject, context: _ReadText) -> Proposal | None:
    """Build the proposal of a slot's value, with tense and negation applied."""
    slot = SLOTS[tag.slot]
    name, words = tag.slot, value
    if name not in ("name", "remember", "instruction", "other", "event"):
        article = _ARTICLE.match(words)
        words = words[article.end() :] if article else words
    sentence = sentence_at(context.text, tag.start)
    predicate, exclusive = _predicate(name, words, slot, sentence)
    if name == "role":
        exclusive = bool(_NEW_ROLE.search(sentence))
    if name == "home" and (
        _PRODUCTS.fullmatch(words) or ("ended" in tag.flags and not _MOVED_OUT.search(sentence))
    ):
        return None  # "we moved to Kubernetes", "I left Leeds at noon"
    if "ended" in tag.flags:
        return _make(subject, predicate, words, slot.topic, ends=True, exclusive=exclusive)
    if "negated" in tag.flags:
        is_diet = predicate == "follows the diet"
        negated = "does not follow the diet" if is_diet else slot.negated
        return _make(subject, negated, words, slot.topic) if negated else None
    if "past" in tag.flags and name not in ("event", "age", "name", "skill"):
        return _make(subject, slot.had or f"formerly {predicate}", words, slot.topic)
    if "temporary" in tag.flags and name in _LASTING_SLOTS:
        return _make(subject, f"temporarily {predicate}", words, slot.topic)
    return _make(subject, predicate, words, slot.topic, exclusive=exclusive)


def _predicate(slot: str, words: str, known: Slot, sentence: str) -> tuple[str, bool]:
    """Return the predicate of a value, and whether it is true of one value at a time."""
    if slot == "age":
        if _NUMBER.fullmatch(words):
            return "is aged", True
        if _YEAR.fullmatch(words):
            return "was born in", True
        return "'s age or birthday is", True
    if slot == "name" and _CALL_NAME.search(sentence):
        return "is called", False
    if slot == "home" and _PREPOSITION.match(words):
        return "lives", True
    if slot == "contact":
        if _MAIL.fullmatch(words):
            return "'s email address is", True
        return ("'s phone number is", True) if _PHONE.fullmatch(words) else ("'s address is", True)
    if slot == "diet" and _DIETS.fullmatch(words):
        return "follows the diet", True
    if slot == "instruction":
        for topic, pattern in _INSTRUCTION_TOPICS.items():
            if pattern.search(words):
                return f"asked about {topic}:", True
    return known.predicate, known.exclusive


def _make(
    subject: Subject,
    predicate: str,
    value: str,
    topic: Topic,
    *,
    ends: bool = False,
    exclusive: bool = False,
) -> Proposal:
    """Return the proposal that a predicate is true of a subject and a value."""
    name = "The user" if subject.name == ABOUT_USER else subject.name[:1].upper() + subject.name[1:]
    said = f" no longer {predicate}" if ends else f" {predicate}"
    if ends and predicate.startswith("is "):
        said = f" is no longer {predicate.removeprefix('is ')}"
    if predicate.startswith("'s "):
        said = predicate.replace(" is", " is no longer") if ends else predicate
    return Proposal(
        subject=subject.name,
        statement=f"{name}{said} {value}".rstrip(" .") + ".",
        predicate=predicate.removeprefix("'s ").removesuffix(":").removesuffix(" is"),
        object=value,
        topic=topic,
        exclusive=exclusive,
        ends=ends,
        alias=subject.alias,
    )


def _relation(tag: Tag, value: str, subject: Subject, context: _ReadText) -> Proposal | None:
    """Return who somebody is to the user, or whether the user is married."""
    flags = tag.flags
    if subject == context.speaker:
        if _STATUS.fullmatch(value):
            if "negated" in flags or "ended" in flags:
                return _make(subject, "has the relationship status", value, "people", ends=True)
            if "past" in flags:
                return None
            return _make(subject, "has the relationship status", value, "people", exclusive=True)
        if "ended" in flags:
            return _make(subject, "says about a relationship:", value, "people", exclusive=False)
        slot = SLOTS["relation"]
        predicate = (
            slot.negated if "negated" in flags else slot.had if "past" in flags else slot.predicate
        )
        article = _ARTICLE.match(value)
        return _make(subject, predicate, value[article.end() :] if article else value, "people")
    if "ended" in flags:
        return _died(subject, value) if _DIED.search(value) else _parted(subject, value)
    if "negated" in flags or "past" in flags:
        return None
    relation = english_relation(_ARTICLE.sub("", value, count=1))
    if relation:
        role = role_of(relation)
        return _is(subject.name, role, role)
    return _named(value, subject, context)


def _named(value: str, subject: Subject, context: _ReadText) -> Proposal | None:
    """Build the proposal of a name: "Clara is the user's sister."."""
    role = subject.alias or subject.name
    if role.casefold().startswith("the user's "):
        named = parse_subject(value, None, {})
        if named and not english_relation(value) and not _STATUS.fullmatch(value):
            context.last = named
            return _is(named.name, role, role)
    if _STATUS.fullmatch(value):
        return _make(subject, "has the relationship status", value, "people", exclusive=True)
    return _make(subject, "is", value, "people")


def _is(name: str, role: str, alias: str) -> Proposal:
    return Proposal(name, f"{name} is {role}.", "is", role, "people", alias=alias)


def _died(subject: Subject, words: str) -> Proposal:
    """Build the proposal that a person died, which ends the facts about them."""
    proposal = _make(subject, "died", "", "people")
    return replace(
        proposal,
        statement=f"{proposal.statement.removesuffix('.')} ({words}).",
        object=words,
        ends_subject=True,
    )


def _end_of_somebody(tag: Tag, value: str, context: _ReadText) -> Proposal | None:
    """Return the end of somebody whom the value itself names: "Pavarotti" in "Pavarotti died"."""
    named = parse_subject(value, None, context.names)
    if (
        "ended" not in tag.flags
        or named is None
        or named == USER
        or _END_OF_A_PAIR.search(value)
        or _DIED.search(value)
    ):
        return None
    sentence = sentence_at(context.text, tag.start)
    died = _DIED.search(sentence)
    if died:
        return _died(named, died[0])
    pair = _END_OF_A_PAIR.search(sentence)
    return _parted(named, pair[0]) if pair else None


def _parted(subject: Subject, words: str) -> Proposal:
    """Build the proposal that a person and the user separated."""
    name = subject.name[:1].upper() + subject.name[1:]
    return Proposal(
        subject.name,
        f"{name} and the user are no longer together ({words}).",
        "parted from the user",
        words,
        "people",
        ends_subject=True,
        alias=subject.alias,
    )


def _answer(value: str, subject: Subject, context: _ReadText) -> Proposal | None:
    """Return a bare yes or no with the question that it answers."""
    questions = _QUESTION.findall(context.before)
    if not questions:
        return None
    question = questions[-1].strip()
    return Proposal(
        subject.name,
        f"Asked “{question}”, the user answered: {value}.",
        "answered",
        f"{question} {value}",
        "other",
    )


def _with_time(proposal: Proposal, tag: Tag, context: _ReadText) -> Proposal:
    """Return a proposal with its times, its confidence, and whether it may retire another fact."""
    sentence = sentence_at(context.text, tag.start)
    times, _ = cut_times(sentence)
    start, end = _validity(proposal, tag, times, context.sent_at)
    is_restricted = bool({"temporary", "past", "unsure", "reported"} & tag.flags)
    if is_restricted_in_time(sentence):
        is_restricted = True
        if tag.slot in _LASTING_SLOTS and "correction" not in tag.flags:
            proposal = _temporarily(proposal)
    is_doubtful = is_uncertain(sentence)
    if "indirect" in tag.flags and not _CHANGE.search(sentence):
        is_doubtful = True
    if "ended" in tag.flags or tag.slot == "instruction":
        is_restricted = is_doubtful = False
    denied = _INSTEAD.search(sentence)
    if denied and "correction" in tag.flags and not proposal.ends:
        proposal = replace(proposal, instead_of=denied["old"])
    is_moved = tag.slot == "plan" and bool(_POSTPONED.search(sentence))
    statement = proposal.statement
    if tag.slot in ("plan", "event") and (times.at or times.until):
        moment = times.validity(context.sent_at, "future" if tag.slot == "plan" else "past")[0]
        if moment is not None:
            statement = f"{statement.removesuffix('.')} ({moment:%Y-%m-%d})."
    confidence = min([tag.confidence, *(_CONFIDENCE.get(flag, 1.0) for flag in tag.flags)])
    return replace(
        proposal,
        statement=statement,
        valid_from=start,
        valid_to=end,
        confidence=round(confidence, 2),
        relation="corrects" if is_moved or "correction" in tag.flags else "new",
        is_restricted=is_restricted,
        is_doubtful=is_doubtful and not is_moved and "correction" not in tag.flags,
    )


def _temporarily(proposal: Proposal) -> Proposal:
    """Mark a proposal as temporary, so that it does not replace a lasting fact."""
    predicate = proposal.predicate
    if predicate.startswith("temporarily ") or proposal.ends:
        return proposal
    return replace(
        proposal,
        predicate=f"temporarily {predicate}",
        statement=proposal.statement.replace(predicate, f"temporarily {predicate}", 1),
        exclusive=False,
    )


def _validity(
    proposal: Proposal, tag: Tag, times: Times, sent_at: datetime
) -> tuple[datetime | None, datetime | None]:
    """Return since when and until when a fact is true, where its sentence says so."""
    if proposal.ends:
        return None, times.end_of_past(sent_at)
    if tag.slot in ("plan", "event", "instruction", "remember", "age") or "past" in tag.flags:
        return None, None
    start, end = times.validity(sent_at, "past")
    if start is not None and start > sent_at:
        start = None
    if times.at and not _CHANGE.search(times.at):
        start = start if "ended" in tag.flags else None
    if end is not None and end <= sent_at:
        end = None
    return start, end
