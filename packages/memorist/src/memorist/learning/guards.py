"""Exclude text that is not the user's own literal statement.

Code, quotations, quoted lines and drafts for others are skipped. Role-play, jokes and sarcasm
exclude the whole message. Sentences with "if", "wish" or "would" are hypothetical and are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memorist.base.lazy_pattern import LazyPattern

_BLOCK = LazyPattern(
    r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]+`|<(\w+)>.{0,2000}?</\1>", re.DOTALL
)
_QUOTED_LINE = LazyPattern(r"(?m)^[^\S\n]*(?:>|\||\d\d:\d\d|\[\d|    \S|\t\S|[$#{}]).*$")
_QUOTATION = LazyPattern(r"[\"“„«][^\"“”„«»\n]{12,400}[\"”“»]|(?<!\w)'[^\n]{25,300}?'(?!\w)")
_DRAFT = LazyPattern(
    r"(?i)^\W*(?:(?:can|could|would) you |please |bitte )*(?:write|draft|compose|dichte|schreib\w*|verfass\w*)\b[^\n:]{0,120}:\s"
    r"|\b(?:translate|proofread|rewrite|rephrase|paraphrase|summari[sz]e|shorten|correct|edit"
    r"|improve|fix|check)\b[^\n:]{0,80}:\s"
    r"|\b(?:übersetz\w*|korrigier\w*|formulier\w* um|fass\w* zusammen|kürz\w*|lektorier\w*"
    r"|verbesser\w*)\b[^\n:]{0,80}:\s"
    r"|\b(?:the|this|following|sample|example|dummy|test|demo|mock)\s(?:data|text|sentence|dialog(?:ue)?"
    r"|profile|bio|record|email|letter|user|customer|payload)s?\b[^\n:]{0,60}:\s"
    r"|\b(?:beispiel\w*|test\w*|muster\w*|übungs\w*)\b[^\n:]{0,60}:\s"
)
"""What follows is a text to work on."""
_NOT_MEANT = LazyPattern(
    r"(?i)(?:^|\s)/s(?:\s|$)|\b(?:just|only)? ?(?:kidding|joking)\b|(?:^|\s)jk\b|\(?\bsarcasm\b"
    r"|\bnur (?:ein )?(?:spaß|spass|scherz|witz)\b|\bkleiner (?:scherz|spaß)\b|\bironie\b"
    r"|\byeah,? right\b|\bvon wegen\b|^\s*(?:oh,? sure|na klar|ja klar|klar doch)\b"
)
_ROLE_PLAY = LazyPattern(
    r"(?i)\b(?:role-?play\w*|rollenspiel\w*|act as|you are now|pretend(?:ing)?"
    r"|tu(?: mal)? so,? als|spiele? (?:mal |bitte )*(?:die|eine) rolle|stell dir vor"
    r"|(?:write|schreib\w*)(?: \w+){0,3} (?:story|poem|song|monologue|dialogue|scene|script|joke|novel|lyrics"
    r"|geschichte|gedicht|lied|szene|dialog|witz|märchen|roman|monolog|songtext)\b"
    r"|my (?:character|protagonist|narrator)|in my (?:novel|screenplay|story)|(?:the|our) (?:narrator|protagonist)"
    r"|(?:meine?|der|die) (?:figur|erzähler\w*|hauptfigur|protagonist\w*|romanheld\w*)"
    r"|i (?:tell|attack|draw|cast|sneak|approach|whisper to) (?:the|my)\b"
    r"|(?:invent|make up|erfinde|denk dir)\b.{0,60}\b(?:person\w*|character|customer|user|profile|persona|kund\w*|figur|profil"
    r"|nutzer\w*|muster\w*)"
    r"|you (?:be|play) (?:the|my|an?)\b|i(?:'|’)?ll (?:be|play) (?:the|your|an?)\b|made[- ]up (?:person|name|candidate|character)"
    r"|(?:maths?|logic|word) (?:problem|puzzle)|textaufgabe|rechenaufgabe|riddle|rätsel"
    r"|once upon a time|es war einmal|as an ai\b|hypothetical\w*|fictional|dungeons|d&d|npc)\b"
)
_IMAGINED = LazyPattern(
    r"(?i)\b(?:if (?:i|we|my)|i wish|wish (?:i|we)|imagin(?:e|ing)|suppos(?:e|ing)|what if|let'?s say"
    r"|would(?:n'?t)? (?:love|like|be|have|live|move|want)|could(?:'ve| have)"
    r"|dream(?:t|ed)? (?:that|of|about)|in (?:a|my|another|the) (?:dream|past life|parallel)"
    r"|someday|one day i|wenn ich|wenn wir|falls ich|ich wünschte|wünschte|angenommen"
    r"|hätte ich|wäre ich|würde ich (?:gern|lieber)|ich wäre|ich hätte|geträumt|traum\b)"
)
_SECRET = LazyPattern(
    r"(?i)\b(?:pass(?:word|phrase|code|wd)s?|passw[oö]rt\w*|kennw[oö]rt\w*|pin(?: ?(?:code|number|nummer))?|api[ -]?keys?|"
    r"secret key|private key|access token|cvv|cvc|credit card|kreditkarte\w*|security code)\b"
)
MAX_CHARACTERS = 6_000
"""Characters of a message that are looked at; facts are read from shorter ones only."""
_SENTENCE_END = LazyPattern(r"(?<=[.!?…\n])\s+|\n")


def states_nothing(text: str) -> bool:
    """Return whether a whole message is role-play, a joke or sarcasm."""
    return bool(_ROLE_PLAY.search(text) or _NOT_MEANT.search(text))


def foreign_parts(text: str) -> list[tuple[int, int]]:
    """Return the parts of a message that are quoted, code, or drafts for others."""
    text = text[:MAX_CHARACTERS]
    parts = [match.span() for match in _all(text, _BLOCK, _QUOTED_LINE, _QUOTATION)]
    draft = _DRAFT.search(text)
    if draft:
        parts.append((draft.end(), MAX_CHARACTERS))
    return parts


def sentence_at(text: str, place: int) -> str:
    """Return the sentence at a place of a text."""
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if match.start() >= place:
            return text[start : match.start()]
        start = match.end()
    return text[start:]


def names_a_secret(sentence: str) -> bool:
    """Return whether a sentence is about a password, a key or a card."""
    return bool(_SECRET.search(sentence))


def is_imagined(sentence: str) -> bool:
    """Return whether a sentence is hypothetical."""
    return bool(_IMAGINED.search(sentence))


def _all(text: str, *patterns: LazyPattern) -> Iterator[re.Match[str]]:
    for pattern in patterns:
        yield from pattern.finditer(text)
