"""The summary that needs no model: the sentences worth keeping, picked by what they say, in the order they were said.

It understands nothing. It prefers sentences with facts in them (numbers, names, decisions, wishes), what people said over
what tools printed, what is new over what was said before; it never invents a word. The same input gives the same summary.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from retain.base import tokens as counting

VERSION = 1
_LONGEST = 280  # characters of one sentence in a summary
_LOOK_BACK = 8  # characters before an end, to see whether it is one
_MOST_CANDIDATES = 5_000
_OLD_SHARE = 0.6  # of the room, for what earlier summaries kept, where there is enough that is new
_ALIKE = 0.7
_BREVITY = 0.3  # how much it counts that a sentence is short; this and the weights below were tried on real conversations
_CHAT = 0.6  # what is worth less is left out, where there is anything else

_BREAK = re.compile(
    r"""(?<=[.!?…])["'”’»)\]]*\s+(?=["'“‘«(\[]*[^\sa-z])   # an end, then something that can begin a sentence
      | (?<=[。！？；])["”’」』）]*""",
    re.VERBOSE,
)
_UNFINISHED = re.compile(
    r"(?:^|[\s(])(?:[A-Za-z]|[A-Za-z]\.[A-Za-z]|Dr|Mr|Mrs|Ms|St|vs|etc|ca|Nr|No|bzw|z\. ?B)\.$"
)
_BULLET = re.compile(r"^\s*(?:[-*•>]|#{1,6}|\d{1,3}[.)])\s+")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_NAME = re.compile(r"(?<=[^.!?\s] )(?!I(?:['’]\w+)?\b)[A-ZÀ-ÖØ-ÞА-Я][\w'’-]+")
_NUMBER = re.compile(r"\d")
_EXACT = re.compile(
    r"https?://|\b[\w.+-]+@[\w-]+\.\w|(?:^|\s)[~.]?/[\w.-]+/|\b\d{4}-\d{2}-\d{2}\b|`[^`]+`|\[MemoryRef: "
)
_LITERAL = re.compile(r"[\d@/\\_`=#]|\w[.:]\w")
_EDGES = ".,;:!?…。！？；、，()[]{}«»“”‘’\"'"
_WHEN = re.compile(
    r"""\b(?:yesterday|today|tomorrow|tonight|last|next|ago|since|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february
      |march|april|may|june|july|august|september|october|november|december|week(?:end)?s?|months?|years?
      |gestern|heute|morgen|nächste\w*|letzte\w*|ayer|hoy|mañana|hier|demain)\b|昨天|今天|明天|下周|上周|昨日|今日|明日""",
    re.VERBOSE | re.IGNORECASE,
)
_DECIDED = re.compile(
    r"""\b(?:decid\w+|agreed?|must|shall|will|should|need(?:s|ed)?|want(?:s|ed)?|prefer\w*|remember|always|never|favou?rite
      |allerg\w+|deadline|because|important|name(?:'s|d|\ is)|called|live[sd]?|work(?:s|ed)?\ (?:at|for|in)|born|married
      |plan(?:s|ned)?|moved|bought|booked|fixed|fails?|failed|error|cause[sd]?|password|budget|due|promised?
      |muss|soll|will|möchte|immer|nie|beschlossen|wichtig|heiße|wohne
      |debe|quiero|siempre|nunca|importante|veux|toujours|jamais|décidé)\b
      |决定|必须|喜欢|不要|总是|记住|重要|我叫|住在|需要|決め|必要|好き|いつも|覚え""",
    re.VERBOSE | re.IGNORECASE,
)
_OWN = re.compile(
    r"\b(?:I|I'm|I've|my|our|we|ich|mein\w*|wir|mi|je|mon|ma)\b|我|私|僕", re.IGNORECASE
)
_YOU = re.compile(r"\b(?:you|your|you're)\b", re.IGNORECASE)
_CHATTER = re.compile(
    r"""^(?:hi|hello|hey|thanks?(?:\ you)?|thank\ you|ok(?:ay)?|sure|great|perfect|cool|nice|yes|no|bye
      |good\ (?:morning|evening|night)|you(?:'re|\ are)\ welcome|let\ me\ know|of\ course|certainly|absolutely
      |is\ there\ anything|how\ can\ i\ help|danke|bitte|hallo|gracias|hola|merci|bonjour
      |你好|谢谢|好的|ありがとう|こんにちは)\b""",
    re.VERBOSE | re.IGNORECASE,
)
_COMMON = re.compile(
    r"""(?:the|and|for|are|was|were|that|this|with|you|your|have|has|had|not|but|from|they|them|will|would|can|could
        |should|what|when|where|which|who|how|why|all|any|out|about|into|than|then|there|here|just|like|also|its|our
        |his|her|she|him|been|being|did|does|let|get|got|und|der|die|das|den|dem|ein|eine|ist|nicht|mit|auf|für|von|que
        |los|las|una|con|por|para|les|des|est|pas)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Line:
    """Something said: by whom ('' where that does not matter), and how much what they say counts."""

    text: str
    speaker: str = ""
    weight: float = 1.0


@dataclass
class _Candidate:
    place: int
    text: str
    words: frozenset[str]
    facts: frozenset[str]
    score: float
    old: bool = False


def sentences(text: str) -> list[str]:
    """The sentences of a text, in order; a line break ends one too."""
    found: list[str] = []
    for line in text.splitlines():
        start = 0
        for end in _BREAK.finditer(line):
            last = line[max(start, end.start() - _LOOK_BACK) : end.end()].rstrip()
            if _UNFINISHED.search(
                last[-_LOOK_BACK:]
            ):  # never the whole: a line can be a megabyte of initials
                continue
            found.append(line[start : end.end()].strip())
            start = end.end()
        found.append(line[start:].strip())
    return [sentence for sentence in found if sentence]


def digest(texts: Sequence[str], tokens: int, previous: str = "") -> str:
    """The most telling sentences of some texts and of an earlier digest, one a line, in at most so many tokens."""
    return condense([Line(text) for text in texts], tokens, previous)


def condense(said: Sequence[Line], tokens: int, previous: str = "") -> str:
    """The same for what several people said; each line of the result says who said it."""
    old = [
        _candidate(place, _shown(line, ""), 1.0) for place, line in enumerate(_lines_of(previous))
    ]
    new: list[_Candidate] = []
    for line in said:
        for place, sentence in enumerate(sentences(line.text)):
            weight = line.weight * (1.15 if place == 0 else 1.0)
            new.append(_candidate(len(old) + len(new), _shown(sentence, line.speaker), weight))
    for candidate in old:
        candidate.old = True
    if len(new) > _MOST_CANDIDATES:
        best = sorted(new, key=lambda one: (-one.score, one.place))[:_MOST_CANDIDATES]
        new = sorted(best, key=lambda one: one.place)
    _weigh(old + new)
    telling = [candidate for candidate in new if candidate.score >= _CHAT]
    kept = _choose(telling if telling or old else new, old, tokens)
    return "\n".join(candidate.text for candidate in sorted(kept, key=lambda one: one.place))


def _lines_of(previous: str) -> list[str]:
    return [line.strip() for line in previous.splitlines() if line.strip()]


def _shown(sentence: str, speaker: str) -> str:
    """A sentence as a line of a summary."""
    plain = _BULLET.sub("", sentence).strip()
    short = plain
    if len(plain) > _LONGEST:
        short = plain[: counting.boundary(plain, _LONGEST - 1) or _LONGEST - 1].rstrip() + "…"
    return f"- {speaker}: {short}" if speaker else f"- {short}"


def _candidate(place: int, text: str, weight: float) -> _Candidate:
    words = _words(text)
    return _Candidate(place, text, words, _facts(text), _worth(text, words) * weight)


def _words(text: str) -> frozenset[str]:
    """What two sentences are compared by: words, and pairs of characters where a script has no spaces."""
    found = {
        word
        for word in map(str.lower, _WORD.findall(text))
        if len(word) > 2 and not _COMMON.fullmatch(word)
    }
    found |= {word for word in _WORD.findall(text) if word.isdigit()}
    if _WIDE.search(text):
        wide = "".join(_WIDE.findall(text))
        found |= {wide[n : n + 2] for n in range(len(wide) - 1)}
    return frozenset(found)


def _facts(text: str) -> frozenset[str]:
    """What makes two sentences different that are alike: names, and whatever has a digit or is written like an address."""
    said = _said(text)
    tokens = (token.strip(_EDGES) for token in said.split())
    return frozenset(
        {token for token in tokens if _LITERAL.search(token)} | set(_NAME.findall(said))
    )


def _said(text: str) -> str:
    """A line of a summary without who said it."""
    plain = text.removeprefix("- ")
    return plain.partition(": ")[2] or plain


def _worth(text: str, words: frozenset[str]) -> float:
    """How much a sentence seems to say, looked at alone."""
    said = _said(text)
    if not words:
        return 0.05
    worth = 1.0 + min(len(words), 12) / 12
    worth += 0.7 * bool(_NUMBER.search(said)) + 0.6 * min(len(_NAME.findall(said)), 2) / 2
    worth += (
        0.8 * bool(_DECIDED.search(said))
        + 0.7 * bool(_WHEN.search(said))
        + 0.5 * bool(_EXACT.search(said))
    )
    if _OWN.search(said):
        worth += 0.5
    elif _YOU.search(said):  # compliments and advice
        worth *= 0.5
    if _CHATTER.match(said):
        worth *= 0.2
    if said.endswith(("?", "？")):
        worth *= 0.6
    readable = sum(character.isalnum() or character.isspace() for character in said)
    return worth * (0.2 if readable < 0.6 * len(said) else 1.0)


def _weigh(candidates: Sequence[_Candidate]) -> None:
    """Add what only the whole shows: what is talked about much, and what is said for the first time."""
    about = Counter(word for candidate in candidates for word in candidate.words)
    seen: set[str] = set()
    for candidate in candidates:
        if candidate.words:
            shared = sum(
                1 for word in candidate.words if 2 <= about[word] <= max(3, len(candidates) // 5)
            )
            fresh = len(candidate.words - seen) / len(candidate.words)
            candidate.score *= 1.0 + 0.4 * shared / len(candidate.words) + 0.3 * fresh
        seen |= candidate.words


def _choose(new: Sequence[_Candidate], old: Sequence[_Candidate], room: int) -> list[_Candidate]:
    """The best that fit and do not repeat each other; earlier summaries leave room for what is new."""
    kept: list[_Candidate] = []
    left = room
    wanted = sum(_cost(candidate) for candidate in new)
    for_old = max(int(room * _OLD_SHARE), room - wanted)
    for group, share in ((old, for_old), (new, room), (old, room)):
        spent = 0
        for candidate in sorted(
            group, key=lambda one: (-one.score / (_cost(one) + 1) ** _BREVITY, one.place)
        ):
            cost = _cost(candidate)
            twin = _twin(candidate, kept)
            if twin is not None:
                more = cost - _cost(kept[twin])
                if (
                    candidate.place > kept[twin].place
                    and candidate.text != kept[twin].text
                    and more <= left
                ):
                    kept[twin] = (
                        candidate  # of two that say the same, the newer: it may take something back
                    )
                    left -= more
                continue
            if cost > left or spent + cost > share:
                continue
            kept.append(candidate)
            left -= cost
            spent += cost
    return kept


def _cost(candidate: _Candidate) -> int:
    return counting.estimate(candidate.text + "\n")


def _twin(candidate: _Candidate, kept: Sequence[_Candidate]) -> int | None:
    """The place, in what is kept, of a sentence that says the same; where a number or a name differs, it does not."""
    for place, other in enumerate(kept):
        if candidate.text == other.text:
            return place
        alike = len(candidate.words & other.words) >= _ALIKE * len(candidate.words | other.words)
        if candidate.words and alike and candidate.facts == other.facts:
            return place
    return None
