"""Whether a text reads like an instruction to an agent, in English or German.

Such a text from anyone but a person waits for a review where `kinds.trust` says so. Patterns cannot
find every instruction. They decide who looks at a text first; what protects a prompt is the fence
around everything that is stored.
"""

from __future__ import annotations

import html
import re
import unicodedata

from memorist.base.lazy_pattern import LazyPattern
from memorist.text.warning_signs import find_warning_signs

_OVERRIDE = LazyPattern(
    r"(?i)\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,30}"
    r"\b(?:previous|prior|earlier|above|your|system)\b[^.\n]{0,30}"
    r"\b(?:instructions?|rules?|prompts?|messages?|guidelines?)\b"
    r"|\b(?:ignore|disregard|forget|override|bypass) (?:all|any|the) (?:instructions|guidelines)\b"
    r"|\bignoriere\b[^.\n]{0,40}\b(?:anweisungen|regeln|befehle)\b"
    r"|\byou (?:must|will|shall) now\b|\byou are now (?:an?|in|no longer|the)\b"
    r"|\b(?:reveal|print|show|repeat|output|leak) your (?:system )?(?:prompt|instructions)\b"
    r"|(?:(?:^|[.!?:;\n])\s{0,8}(?:(?:always|first|now|please|then)\s+)?"
    r"|\b(?:you|agents?|assistants?|models?) (?:can|must|should|to|will) )"
    r"(?:call|execute|invoke|run|use) the (?:\w+ )?(?:tool|function)\b(?! keys?\b)"
    r"|</?(?:\w+:)?(?:tool|function)_?(?:call|use|result)s?\b|<(?:\w+:)?invoke\b"
    r"|\[TOOL_CALLS?\]|\"(?:tool|function)_calls?\"\s*:"
    r"|\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,30}"
    r"\b(?:all|any)\b[^.\n]{0,30}\b(?:instructions?|rules?|prompts?|messages?|guidelines?)\b"
    r"|\b(?:call|invoke) the (?:\w+ )?(?:tool|function)\b"
    r"|\b(?:and|must|now|please|should|then) (?:execute|run|use) the (?:\w+ )?(?:tool|function)\b"
    r"(?! keys?\b)"
    r"|\b(?:reveal|print|repeat|output|leak)\b[^.\n]{0,30}\bsystem prompt\b"
)
_STRONG_VERBS = (
    "answer bypass comply disregard follow forget ignore obey output override pretend print refuse"
    " repeat reply respond reveal"
    " antworte antwortet befolge beachte gehorche ignoriere ignoriert missachte umgehe vergiss"
    " vergesst verrate verschweige"
)
_VERBS = (
    _STRONG_VERBS
    + " accept act add address adopt append approve ask assume avoid be begin behave call change"
    " click confirm consider delete disable do download email enable end enter erase execute"
    " finish forward give grant hide include insert install invoke keep leak learn let load"
    " make mention message note open pay post prefer prefix prepend prioritize promise promote"
    " put quote read recommend remember remove replace report return run save say send set share"
    " show speak start state stop store submit suggest switch take talk tell transfer translate"
    " treat trust turn update upload use visit warn wire write"
    " aktiviere akzeptiere beende beginne behandle behaupte benutze bestatige deaktiviere empfiehl"
    " erwahne fuhre frag frage fuge gib halte handle installiere lade lass leite losche mach mache"
    " merke nenne nimm nutze offne ruf rufe sag sage schick schicke schreib schreibe sei sende"
    " speichere sprich stell stelle tu ubersetze uberweise verhalte verwende vertraue zeig zeige"
)
_INFINITIVES = (
    "antworten ausfuhren aufrufen befolgen benutzen empfehlen erwahnen gehorchen ignorieren"
    " installieren loschen missachten nennen offnen sagen schicken schreiben senden umgehen"
    " ubersetzen uberweisen vergessen verraten verschweigen verwenden vertrauen weiterleiten"
    " weitergeben preisgeben"
)


def _any_of(words: str) -> str:
    return "(?:" + "|".join(sorted(words.split(), key=len, reverse=True)) + ")"


_START = r"(?:^|[.!?:;|\u2026\u2014\u2013]| - )[\s>*#\-\"'`()\[\]\u2022\u00bb\u00ab\u201c\u201d\u201e]{0,8}"
_LEAD = (
    r"(?:(?:please|kindly|always|never|now|first|then|also|just|instead|only|simply|immediately|do not|don['\u2019]t"
    r"|remember to|make sure to|be sure to|whenever|every time|bitte|immer|nie|niemals|stets|jetzt|zuerst|nur|sofort)"
    r"[\s,]+){0,3}"
)
_AGENT = (
    r"(?:ai|a\.i\.|assistants?|agents?|models?|llms?|chat ?bots?|bots?|system|ki|assistent\w*|modelle?"
    r"|sprachmodelle?|claude|chatgpt|gpt|readers?|leser)"
)
_ANSWER = r"(?:repl(?:y|ies)|answers?|responses?|outputs?|summar(?:y|ies)|instructions?|antworten|ausgaben?)"
_MESSAGE = r"(?:messages?|e-?mails?|invoices?|payments?|refunds?|nachrichten|rechnungen)"
_MODAL = (
    r"(?:must|should|shall|has to|have to|needs? to|ought to|will|may|can(?:not)?|is to|are to|(?:is|are) required"
    r"|(?:is|are) (?:now|not|allowed|forbidden)|obeys?|muss|mussen|soll(?:te|en|ten)?|darf|durfen|(?:hat|haben)(?: \w+){0,3} zu)"
)
_ORDER = LazyPattern(
    # a sentence that begins with an imperative, and an imperative inside one
    rf"{_START}{_LEAD}{_any_of(_VERBS)}\b"
    rf"|(?:,|\band|\bthen|\bund|\bdann|\bto)\s+{_any_of(_STRONG_VERBS)}\b(?!\s*(?:[.,;!?]|$))"
    rf"|\b(?:always|never|please|do not|don['\u2019]t|must|bitte)\s+(?:\w+ly\s+)?{_any_of(_VERBS)}\b"
    r"|" + _START + r"(?:bitte\s+)?\w+(?:en|ern|eln) sie\b"
    rf"|\b(?:immer|stets|nie|niemals|nur|bitte|alle|sofort)\b[^.!?\n]{{0,80}}\b{_any_of(_INFINITIVES)}\b"
    # words from which an order begins to hold
    r"|\b(?:from now on|from this point|from here on|henceforth|going forward|until further notice|at all times"
    r"|ab sofort|ab jetzt|von nun an|von jetzt an|fortan|bis auf weiteres)\b"
    r"|"
    + _START
    + r"(?:always|never|whenever|every time|each time|in (?:the )?future|if\b|falls\b|when asked|next time"
    r"|immer|nie|niemals|stets|jedes mal|in zukunft|kunftig|wenn)\b"
    rf"|{_START}(?:when|once|after|before|as soon as|sobald)\b[^.!?\n]{{0,80}},\s*(?:then\s+)?{_any_of(_VERBS)}\b"
    # words to a reader
    r"|\b(?:you|your|yours|yourself)\b|\b(?:dich|deine?[mnrs]?|euch|euer|eure[mnrs]?)\b"
    r"|\bdu \w+st\b|\b\w+st du\b|\bsie (?:mussen|sollen|sollten|durfen)\b"
    # what an agent or an answer has to do
    rf"|\b{_AGENT}\b[^.!?\n]{{0,40}}\b{_MODAL}\b|\b{_MODAL}\b[^.!?\n]{{0,40}}\b{_ANSWER}\b"
    rf"|\b{_ANSWER}\b[^.!?\n]{{0,40}}\b{_MODAL}\b"
    rf"|\b(?:all|any|every|each|future|alle|jede)\b[^.!?\n]{{0,20}}\b{_MESSAGE}\b[^.!?\n]{{0,40}}\b{_MODAL}\b"
    rf"|{_START}(?:(?:all|any|every|future|the|alle|jede)\s+)?{_ANSWER}\b"
    r"|\bthe (?:ai|assistant|agent|chat ?bot|bot|llm|language model)\b|\b(?:der assistent|die ki|das sprachmodell)\b"
    r"|\b(?:sind|ist)\b[^.!?\n]{0,60}\b(?:zu \w+en|(?:weiter|ab|aus|an|auf|ein|mit|vor|heraus)zu\w+en)\b\s*(?:[.!]|$)"
    rf"|\b(?:wants?|expects?|demands?|requires?|insists?|requested|asked|mochte|will|wunscht|verlangt)\b[^.!?\n]{{0,60}}"
    rf"\b(?:{_ANSWER}|{_AGENT})\b"
    r"|\b(?:it is|it's|es ist) (?:mandatory|required|imperative|obligatory|vital|crucial|essential|zwingend|pflicht)"
    r"|\bwithout (?:asking|telling|question|confirmation|notifying|mentioning|checking|approval)"
    r"|\bohne (?:nachzufragen|ruckfrage|nachfrage|zu fragen|bestatigung|ruckfragen)"
    # rules, permissions, and where text goes
    r"|\b(?:policy|procedure|order|instruction|directive|rule|anweisung|vorgabe|regel|befehl)s?\s*(?:[:\u2014\u2013]| - | is to\b)"
    r"|\b(?:is|are|has|have|was) (?:now |fully )?(?:authori[sz]ed|pre-?approved|exempt|unrestricted)\b|\bfull (?:authority|access)\b"
    r"|\b(?:skip|disable|turn off|switch off)\b[^.!?\n]{0,20}"
    r"\b(?:checks?|safety|security|warnings?|filters?|verification|review)\b"
    r"|\b(?:previous|prior|earlier|above|preceding|existing|original|all|any|new|updated|hidden|secret)\s+(?:\w+\s+)?"
    r"(?:instructions?|rules?|prompts?|guidelines?|directives?|commands?|orders?|constraints?|restrictions?"
    r"|guardrails?|filters?)\b"
    r"|\b(?:bisherig|vorherig|fruher|vorangegangen|obig|all|neu|samtlich|geheim)\w*\s+(?:\w+\s+)?"
    r"(?:anweisung|regel|befehl|vorgabe|richtlinie|instruktion|prompt|einschrankung)\w*"
    r"|\b(?:rules?|instructions?|restrictions?|guidelines?|checks?|polic(?:y|ies))\b[^.!?\n]{0,30}"
    r"\b(?:no longer|not) (?:apply|applies|valid|needed|required|necessary)\b|\bgelten? nicht mehr\b"
    r"|\b(?:admin(?:istrator)?|root|developer|debug|god|dan|unrestricted|jailbr\w+)[ -]"
    r"(?:mode|modus|access|rights|privileges?|rechte|zugriff)\b"
    r"|\b(?:sen[dt]|forward(?:ed)?|post(?:ed)?|upload(?:ed)?|transfer(?:red)?|wired?|e-?mail(?:ed)?(?! (?:is|address|of)\b)|submit(?:ted)?"
    r"|schick\w*|sende\w*|gesendet|uberw[ei]+s\w*|weitergeleitet|leite\w*)\b[^\n]{0,80}"
    r"(?:https?://|www\.|\w@\w|\biban\b)"
    r"|\b(?:ignorez|ignorer|ignora[dr]?|oublie[zr]?|olvida|ignoruj|игнорируй\w*|забудь\w*)\b|忽略|無視|无视",
    re.MULTILINE,
)
_MARKUP = LazyPattern(
    r"<\s{0,3}[/!?|]?\s{0,3}[a-z][\w:.-]{0,40}[^<>\n]{0,200}>|<!--|<\||\|>|\[/?inst\]|<<|```|~~~|\{\{"
    r"|^[ \t>*-]{0,8}#{1,6}\s|^[ \t]{0,8}(?:-{3,}|={3,})[ \t]*$"
    r"|[{\[,]\s{0,20}[\"'][\w$ .-]{1,60}[\"']\s{0,5}:|\[\s{0,3}(?:quoted\s{1,3})?memoryref\b"
    r"|\[\s{0,3}(?:system|user|assistant|tool|developer)\b"
    r"|^[ \t>*#-]{0,8}(?:system|assistant|developer|human|user|tool|ai|bot)\b[^\n:]{0,30}:"
    r"|[({\[]\s{0,3}(?:system|assistant|developer|human|tool)\s{0,3}[:\])}]",
    re.MULTILINE,
)
_SIGNS = frozenset({"role", "placeholder", "image", "encoded", "invisible", "authority"})
_SPACED_LETTERS = LazyPattern(r"(?<![^\W_])(?:[^\W\d_][ ._*-]){4,}[^\W\d_](?![^\W_])")
_MIXED_SCRIPTS = LazyPattern(
    r"[a-z][\u0370-\u058f\u10a0-\u10ff\u13a0-\u13ff]|[\u0370-\u058f\u10a0-\u10ff\u13a0-\u13ff][a-z]"
)
_HIDDEN_CATEGORIES = frozenset({"Cf", "Cc", "Co", "Cn", "Zl", "Zp"})


def orders_agent(text: str) -> bool:
    """Return whether a text says what to ignore or which tool to call.

    Nobody's words are learned as such a fact; other instructions of a user are.
    """
    return bool(_OVERRIDE.search(text))


def reads_like_instruction(text: str) -> bool:
    """Return whether a text speaks to its reader, says what to do, or has the markup of a prompt."""
    if _OVERRIDE.search(text) or not _SIGNS.isdisjoint(find_warning_signs(text)):
        return True
    if any(_is_hidden(char) for char in text) or _SPACED_LETTERS.search(text):
        return True
    plain = _normalize(text)
    return bool(_MIXED_SCRIPTS.search(plain) or _ORDER.search(plain) or _MARKUP.search(plain))


def _is_hidden(char: str) -> bool:
    return (
        not char.isprintable()
        and char not in "\n\t\r\u00a0\u202f\u3000"
        and unicodedata.category(char) in _HIDDEN_CATEGORIES
    )


def _normalize(text: str) -> str:
    """Return a text in lower case, without accents, entities and compatibility characters."""
    decomposed = unicodedata.normalize("NFKD", html.unescape(text))
    letters = "".join(char for char in decomposed if not unicodedata.combining(char))
    return letters.casefold().replace("\r", "\n")
