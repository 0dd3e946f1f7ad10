"""Rules that read plain statements where the reader's weights are not installed.

They know names, relations, pets, homes, work, roles, age, allergies, diet, likes, what should be remembered, preferences
for answers, ends and corrections, in English and German. A rule is a pattern whose
groups are the value and, where it is not the user, the subject. Everything else is left out: a wrong
fact costs more than a missing one. docs/guides/facts.md says how much less they learn.
"""

from __future__ import annotations

from dataclasses import dataclass

from memorist.base.lazy_pattern import LazyPattern
from memorist.learning.people import RELATIONS
from memorist.learning.tagging import Tag

MAX_CHARACTERS = 4_000
"""Characters of a message that are read; the rest is ignored."""
CONFIDENCE = 0.9

_RELATION = "(?i:" + "|".join(sorted(RELATIONS, key=len, reverse=True)).replace("_", " ") + ")"
_WORD = r"[\w'’&/+.-]*[\w+]"
_NAME = rf"[A-ZÀ-ÖØ-Þ][\w'’-]*\w(?: (?:of |de |la |am |an der |bei )?[A-ZÀ-ÖØ-Þ]{_WORD})*"
_WORDS = rf"{_WORD}(?: {_WORD}){{0,5}}?"
_END = (
    r"(?=\s*(?:[.,;:!?()\n]|$|\b(?:and|but|so|because|since|with|where|who|which|for|at|in|from|now|too|as|when|while|after|by"
    r"|und|aber|weil|seit|mit|wo|die|der|das|denn|jetzt|auch|als|wenn|in|bei|für)\b))"
)
_MY = r"(?:[Mm]y|[Oo]ur)"
_MEIN = r"(?:[Mm]ein(?:e[rnms]?)?|[Uu]nser(?:e[rnms]?)?)"
_ADVERB = (
    r"(?:(?:also|now|currently|really|still|just|actually|recently|finally|always|both) ){0,3}"
)
_ADVERB_DE = (
    r"(?:(?:jetzt|gerade|derzeit|inzwischen|mittlerweile|auch|ja|übrigens|eigentlich|wirklich|sehr|schon|aktuell|momentan"
    r"|noch|immer|leider|beruflich|seit \w+(?: \d{4})?) ){0,4}"
)
_I = rf"\b(?:[Ii]|[Ww]e) {_ADVERB}"
_I_AM = rf"\b(?:[Ii]['’]?m|[Ii] am|[Ww]e['’]re|[Ww]e are) {_ADVERB}"
_OTHER = rf"(?P<subject>{_MY} (?:\w+ )?{_RELATION}(?: {_NAME})?)"
_OTHER_DE = rf"(?P<subject>{_MEIN} (?:\w+ )?{_RELATION}(?: {_NAME})?)"


def _ich(verb: str) -> str:
    return rf"\b(?:[Ii]ch|[Ww]ir) {verb} {_ADVERB_DE}"


@dataclass(frozen=True)
class Rule:
    """A way to say a fact: its groups are `value` and, unless it is the user, `subject`."""

    slot: str
    pattern: LazyPattern
    flags: frozenset[str] = frozenset()


def _rule(slot: str, pattern: str, *flags: str) -> Rule:
    return Rule(slot, LazyPattern(pattern), frozenset(flags))


def _english() -> list[Rule]:
    value = rf"(?P<value>{_WORDS}){_END}"
    name = rf"(?P<value>{_NAME})"
    rules = [
        _rule("name", rf"\b[Mm]y (?:full |first )?name(?:['’]s| is) {name}"),
        _rule("name", rf"\b(?:[Hh]i|[Hh]ello|[Hh]ey),? (?:all|there)?[,!]? ?I['’]?(?: a)?m {name}(?=[.,!]|$)"),
        _rule("name", rf"\b[Cc]all me {name}"),
        _rule("age", rf"{_I_AM}(?P<value>\d{{1,3}}) years old"),
        _rule("age", r"\b[Mm]y birthday(?:['’]s| is) (?:on )?(?P<value>[\w .]{3,20}?)(?=[.,!?;]|$)"),
        _rule("relation", rf"\b(?P<subject>{_MY} (?:\w+ )?{_RELATION})(?:,|['’]s name is| is called)? (?P<value>[A-ZÀ-ÖØ-Þ][\w-]+)"),
        _rule("relation", rf"\b(?P<subject>[A-ZÀ-ÖØ-Þ][\w-]+) is {_MY} (?:\w+ )?(?P<value>{_RELATION})\b"),
        _rule("relation", rf"{_I_AM}(?P<value>married|engaged|divorced|single|widowed)\b"),
        _rule("pet", rf"{_I}(?:have|got|adopted) (?:a|an) (?P<subject>(?:\w+ ){{0,2}}(?:dog|cat|puppy|kitten|rabbit|horse|parrot|budgie|hamster)) (?:called|named) {name}"),
        _rule("allergy", rf"{_I_AM}(?:\w+ )?allergic to {value}"),
        _rule("allergy", rf"{_OTHER} is (?:\w+ )?allergic to {value}"),
        _rule("diet", rf"{_I_AM}(?:a )?(?P<value>vegan|vegetarian|pescatarian)\b"),
        _rule("diet", rf"{_I}(?:do not|don['’]?t|never) eat {value}", "negated"),
        _rule("likes", rf"{_I}(?:love|like|enjoy|adore) (?!to\b|it\b|that\b|this\b|how\b|you)(?P<value>{_WORDS}){_END}"),
        _rule("dislikes", rf"{_I}(?:hate|dislike|can['’]?t stand) (?!to\b|it\b|that\b|this\b|how\b|you|when\b){value}"),
        _rule("remember", r"\b[Rr]emember (?:that|:) ?(?P<value>[^.!?\n]{4,200})"),
        _rule("instruction", r"(?P<value>\b(?:[Ff]rom now on|[Gg]oing forward|[Ii]n (?:the )?future),? [^.!?\n]{4,200})"),
        _rule("instruction", r"(?:^|[.!] |[Pp]lease )(?P<value>(?:[Aa]lways|[Nn]ever) (?:answer|reply|respond|use|write|give|keep|call|include|format|explain|ask|add|suggest)\b[^.!?\n]{2,200})"),
        _rule("work", rf"{_I}(?:left|quit) (?:my job at|my job with|the company) (?P<value>{_NAME})", "ended"),
        _rule("work", rf"{_I}(?:no longer|don['’]?t) work (?:at|for) (?P<value>{_NAME})", "ended"),
        _rule("home", rf"{_I}(?:no longer|don['’]?t) live in (?P<value>{_NAME})", "ended"),
        _rule("owns", rf"{_I}sold (?:my|our|the) {value}", "ended"),
        _rule("relation", rf"\b(?:[Mm]e and|[Ii] and) (?P<subject>{_NAME}) (?P<value>broke up|split up)", "ended"),
        _rule("relation", rf"(?P<subject>{_NAME}) and [Ii] (?P<value>broke up|split up|separated)", "ended"),
        _rule("home", rf"\b(?:[Nn]o|[Ss]orry|[Aa]ctually|I mean[t]?),? (?:it['’]s |I meant |I live in |in )+(?P<value>{_NAME}),? not (?:in )?{_NAME}", "correction"),
    ]  # fmt: skip
    for own, other in ((_I, ""), ("", f"{_OTHER} {_ADVERB}")):
        verb = "" if own else "s"
        begin = own or other
        rules += [
            _rule(
                "home", rf"{begin}(?:live{verb} (?:in|near)|(?:just )?moved (?:back )?to) {name}"
            ),
            _rule("work", rf"{begin}(?:work{verb} (?:at|for)|(?:just )?started at) {name}"),
            _rule("role", rf"{begin}work{verb} as (?:a |an |the ){value}"),
            _rule("language", rf"{begin}speak{verb} {name}"),
        ]
    for begin in (_I_AM, rf"{_OTHER} is {_ADVERB}"):
        rules += [
            _rule("home", rf"{begin}(?:living|based) in {name}"),
            _rule("work", rf"{begin}working (?:at|for) {name}"),
            _rule("role", rf"{begin}(?:a|an) (?P<value>(?:[\w-]+ ){{0,2}}(?:teacher|nurse|engineer|developer|designer|doctor|student|lawyer|driver|chef|accountant|"
                  r"electrician|plumber|carpenter|pharmacist|vet|veterinarian|architect|writer|journalist|paramedic|physiotherapist|midwife|mechanic|manager|consultant|researcher|scientist|"
                  r"baker|librarian|analyst|translator|photographer|farmer|hairdresser|dentist|surgeon|pilot|musician))\b"),
        ]  # fmt: skip
    return rules


def _german() -> list[Rule]:
    value = rf"(?P<value>{_WORDS}){_END}"
    name = rf"(?P<value>{_NAME})"
    bin_ = _ich("(?:bin|sind)")
    return [
        _rule("name", rf"\b(?:[Ii]ch heiße|[Mm]ein Name ist|[Nn]enn[e]? mich(?: bitte)?) {name}"),
        _rule("age", rf"{bin_}(?P<value>\d{{1,3}})(?: Jahre alt)?(?=[.,!]|$| Jahre)"),
        _rule("age", r"\b(?:[Ii]ch habe am|[Mm]ein Geburtstag ist(?: am| der)?) (?P<value>[\w .]{3,20}?)(?: Geburtstag)?(?=[.,!?;]|$)"),
        _rule("relation", rf"(?P<subject>{_MEIN} (?:\w+ )?{_RELATION})(?:,| heißt)? (?P<value>[A-ZÄÖÜ][\w-]+)(?=,|[.!?]|$| (?:und|ist|wohnt|lebt|arbeitet|heißt|kommt|spielt)\b)"),
        _rule("relation", rf"\b(?P<subject>[A-ZÄÖÜ][\w-]+) ist {_MEIN} (?:\w+ )?(?P<value>{_RELATION})\b"),
        _rule("relation", rf"{bin_}(?P<value>verheiratet|verlobt|geschieden|ledig|verwitwet)\b"),
        _rule("home", rf"{_ich('(?:wohne|wohnen|lebe|leben|wohn)')}in {name}"),
        _rule("home", rf"\b(?:wohne|wohnen|lebe|leben) (?:ich|wir) {_ADVERB_DE}in {name}"),
        _rule("home", rf"\b(?:weil|da|dass) (?:ich|wir) {_ADVERB_DE}in {name} (?:wohne|wohnen|lebe|leben)"),
        _rule("home", rf"{_OTHER_DE} (?:wohnt|lebt) {_ADVERB_DE}in {name}"),
        _rule("home", rf"{bin_}(?:vor kurzem |letzten? \w+ |im \w+ )?(?:von \w+ )?nach {name} (?:um)?gezogen"),
        _rule("home", rf"{_OTHER_DE} ist {_ADVERB_DE}nach {name} (?:um)?gezogen"),
        _rule("home", rf"{_ich('(?:wohne|lebe)')}nicht mehr in {name}", "ended"),
        _rule("work", rf"{_ich('arbeite')}(?:bei(?:m| der| den)?|für(?: die| den)?) {name}"),
        _rule("work", rf"\barbeite ich {_ADVERB_DE}(?:bei(?:m| der)?|für) {name}"),
        _rule("work", rf"{_OTHER_DE} arbeitet {_ADVERB_DE}(?:bei(?:m| der)?|für) {name}"),
        _rule("work", rf"{_ich('arbeite')}nicht mehr (?:bei(?:m| der)?|für) {name}", "ended"),
        _rule("role", rf"{_ich('(?:arbeite|jobbe)')}als {name}"),
        _rule("role", rf"{bin_}(?P<value>[A-ZÄÖÜ]\w*(?:lehrer|bäcker|pfleger|schüler|student|techniker|ingenieur|verkäufer|fahrer|mechaniker|maler|arzt|schwester|hebamme|entwickler|azubi|lehrling|rentner|koch|friseur)(?:in)?|Lehrer(?:in)?|Bäcker(?:in)?|Student(?:in)?|Arzt|Ärztin|Hebamme|Koch|Köchin|Rentner(?:in)?|Ingenieur(?:in)?)\b"),
        _rule("allergy", rf"{bin_}(?:\w+ )?allergisch (?:gegen|auf) {value}"),
        _rule("allergy", rf"{_OTHER_DE} ist (?:\w+ )?allergisch (?:gegen|auf) {value}"),
        _rule("allergy", r"\b[Ii]ch habe eine (?P<value>\w+allergie)\b"),
        _rule("diet", rf"{bin_}(?P<value>[Vv]egetarier(?:in)?|[Vv]eganer(?:in)?|[Vv]egan|[Vv]egetarisch)\b"),
        _rule("diet", rf"{_ich('esse')}keine?n? {value}", "negated"),
        _rule("likes", rf"{_ich('(?:liebe|mag)')}(?!es\b|das\b|keine?n?\b|nicht\b|dich\b){value}"),
        _rule("dislikes", rf"{_ich('(?:hasse|mag)')}(?:keine?n? )(?!es\b|das\b){value}"),
        _rule("language", rf"{_ich('spreche')}(?:fließend )?{name}"),
        _rule("pet", rf"\b[Ii]ch habe eine?n? (?P<subject>(?:\w+ )?(?:Hund|Hündin|Katze|Kater|Pferd|Hasen|Kaninchen|Papagei|Wellensittich)) namens {name}"),
        _rule("remember", r"\b(?:[Mm]erk dir|[Nn]otier dir|[Dd]enk daran|[Vv]ergiss nicht)(?: bitte)?[,:]? (?:dass )?(?P<value>[^.!?\n]{4,200})"),
        _rule("instruction", r"(?P<value>\b(?:[Aa]b jetzt|[Aa]b sofort|[Vv]on jetzt an|[Kk]ünftig|[Ii]n Zukunft),? [^.!?\n]{4,200})"),
        _rule("owns", rf"\b[Ii]ch habe (?:mein(?:e|en)?|das|den|die) {value} verkauft", "ended"),
        _rule("relation", rf"(?P<subject>{_NAME}) und ich (?:haben|sind) (?:uns |seit \w+ )?(?P<value>getrennt)", "ended"),
        _rule("home", rf"\b(?:[Nn]ein|[Ss]orry|[Ii]ch meinte),? (?:in |ich meinte |ich wohne in )*(?P<value>{_NAME}),? nicht (?:in )?{_NAME}", "correction"),
    ]  # fmt: skip


ENGLISH = _english()
GERMAN = _german()
_IS_GERMAN = LazyPattern(
    r"\b(?:ich|mein\w*|wir|ist|nicht|und|bitte|mich|mir|unser\w*|habe|bin)\b", 2
)
_IS_ENGLISH = LazyPattern(r"\b(?:I|my|the|is|are|we|and|please|me|our|have|am|I['’]m)\b")
_NEXT = LazyPattern(
    rf"(?:\s*,\s*(?=[^.!?]{{1,60}}\b(?:and|or|und|oder)\b)|\s*,?\s+(?:and|or|und|oder)\s+)(?:to |gegen )?(?P<value>{_WORD}){_END}"
)
_LISTS = frozenset({"allergy", "likes", "dislikes", "language", "diet"})
_NEVER_NAMES = frozenset(
    [
        "I",
        "The",
        "A",
        "An",
        "My",
        "And",
        "He",
        "She",
        "It",
        "But",
        "So",
        "We",
        "You",
        "They",
        "This",
        "That",
        "Ich",
        "Der",
        "Die",
        "Das",
        "Er",
        "Sie",
        "Es",
        "Wir",
        "Und",
        "Aber",
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
        "Is",
        "Has",
        "Was",
        "Ist",
        "Hat",
        "War",
    ]
)


def read(text: str) -> list[Tag]:
    """Return the values that the rules find in a message, in their order."""
    text = text[:MAX_CHARACTERS]
    is_german = len(_IS_GERMAN.findall(text)) > len(_IS_ENGLISH.findall(text))
    tags: list[Tag] = []
    for rule in GERMAN if is_german else ENGLISH:
        for match in rule.pattern.finditer(text):
            words = match["value"]
            if rule.slot in ("name", "relation", "pet") and words.split()[0] in _NEVER_NAMES:
                continue
            subject = match.span("subject") if "subject" in match.re.groupindex else None
            places = [match.span("value")]
            while rule.slot in _LISTS and (following := _NEXT.match(text, places[-1][1])):
                places.append(following.span("value"))
            tags += [
                Tag(rule.slot, start, end, subject, rule.flags, CONFIDENCE)
                for start, end in places
                if not any(tag.start < end and start < tag.end for tag in tags)
            ]
    return sorted(tags, key=lambda tag: tag.start)
