"""An extractive summary that needs no model: the most informative sentences, in their order.

It prefers sentences with facts (numbers, names, decisions, wishes), people over tools, and new
statements over repeated ones. It never invents a word, and the same input gives the same summary.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from memorist.base import tokens as counting
from memorist.base.lazy_pattern import LazyPattern

VERSION = 1
MAX_SENTENCE_CHARACTERS = 280
MAX_CANDIDATES = 5_000
LOOK_BACK_CHARACTERS = 8  # before the end of a sentence, to recognize an abbreviation

# These and the weights below were tuned on real conversations.
OLD_SHARE = 0.6  # share of the tokens for earlier summaries, if there are enough new sentences
MIN_SIMILARITY = 0.7  # of two sentences that count as the same
BREVITY = 0.3  # weight of the preference for short sentences
MIN_SCORE = 0.6  # sentences below it are left out, if there are others

_SENTENCE_END = LazyPattern(
    r"""(?<=[.!?…])["'”’»)\]]*\s+(?=["'“‘«(\[]*[^\sa-z])   # an end, then something that can begin a sentence
      | (?<=[。！？；])["”’」』）]*""",
    re.VERBOSE,
)
_ABBREVIATION = LazyPattern(
    r"(?:^|[\s(])(?:[A-Za-z]|[A-Za-z]\.[A-Za-z]|Dr|Mr|Mrs|Ms|St|vs|etc|ca|Nr|No|bzw|z\. ?B)\.$"
)
_BULLET = LazyPattern(r"^\s*(?:[-*•>]|#{1,6}|\d{1,3}[.)])\s+")
_WORD = LazyPattern(r"[^\W_]+(?:['’-][^\W_]+)*")
_NO_SPACES = LazyPattern("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_NAME = LazyPattern(r"(?<=[^.!?\s] )(?!I(?:['’]\w+)?\b)[A-ZÀ-ÖØ-ÞА-Я][\w'’-]+")
_NUMBER = LazyPattern(r"\d")
_ADDRESS = LazyPattern(
    r"https?://|\b[\w.+-]+@[\w-]+\.\w|(?:^|\s)[~.]?/[\w.-]+/|\b\d{4}-\d{2}-\d{2}\b|`[^`]+`|\[MemoryRef: "
)
_LITERAL = LazyPattern(r"[\d@/\\_`=#]|\w[.:]\w")
_PUNCTUATION = ".,;:!?…。！？；、，()[]{}«»“”‘’\"'"
_TIME = LazyPattern(
    r"""\b(?:yesterday|today|tomorrow|tonight|last|next|ago|since|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february
      |march|april|may|june|july|august|september|october|november|december|week(?:end)?s?|months?|years?
      |gestern|heute|morgen|nächste\w*|letzte\w*|ayer|hoy|mañana|hier|demain)\b|昨天|今天|明天|下周|上周|昨日|今日|明日""",
    re.VERBOSE | re.IGNORECASE,
)
_DECISION = LazyPattern(
    r"""\b(?:decid\w+|agreed?|must|shall|will|should|need(?:s|ed)?|want(?:s|ed)?|prefer\w*|remember|always|never|favou?rite
      |allerg\w+|deadline|because|important|name(?:'s|d|\ is)|called|live[sd]?|work(?:s|ed)?\ (?:at|for|in)|born|married
      |plan(?:s|ned)?|moved|bought|booked|fixed|fails?|failed|error|cause[sd]?|password|budget|due|promised?
      |muss|soll|will|möchte|immer|nie|beschlossen|wichtig|heiße|wohne
      |debe|quiero|siempre|nunca|importante|veux|toujours|jamais|décidé)\b
      |决定|必须|喜欢|不要|总是|记住|重要|我叫|住在|需要|決め|必要|好き|いつも|覚え""",
    re.VERBOSE | re.IGNORECASE,
)
_FIRST_PERSON = LazyPattern(
    r"\b(?:I|I'm|I've|my|our|we|ich|mein\w*|wir|mi|je|mon|ma)\b|我|私|僕", re.IGNORECASE
)
_SECOND_PERSON = LazyPattern(r"\b(?:you|your|you're)\b", re.IGNORECASE)
_SMALL_TALK = LazyPattern(
    r"""^(?:hi|hello|hey|thanks?(?:\ you)?|thank\ you|ok(?:ay)?|sure|great|perfect|cool|nice|yes|no|bye
      |good\ (?:morning|evening|night)|you(?:'re|\ are)\ welcome|let\ me\ know|of\ course|certainly|absolutely
      |is\ there\ anything|how\ can\ i\ help|danke|bitte|hallo|gracias|hola|merci|bonjour
      |你好|谢谢|好的|ありがとう|こんにちは)\b""",
    re.VERBOSE | re.IGNORECASE,
)
_STOP_WORDS = LazyPattern(
    r"""(?:the|and|for|are|was|were|that|this|with|you|your|have|has|had|not|but|from|they|them|will|would|can|could
        |should|what|when|where|which|who|how|why|all|any|out|about|into|than|then|there|here|just|like|also|its|our
        |his|her|she|him|been|being|did|does|let|get|got|und|der|die|das|den|dem|ein|eine|ist|nicht|mit|auf|für|von|que
        |los|las|una|con|por|para|les|des|est|pas)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class SpokenLine:
    """A text and its speaker."""

    text: str
    speaker: str = ""
    weight: float = 1.0


@dataclass
class _Sentence:
    """A sentence that may become part of the summary."""

    position: int
    text: str
    words: frozenset[str]
    facts: frozenset[str]
    score: float


def sentences(text: str) -> list[str]:
    """Return the sentences of a text; a line break also ends a sentence."""
    parts: list[str] = []
    for line in text.splitlines():
        start = 0
        for end in _SENTENCE_END.finditer(line):
            last = line[max(start, end.start() - LOOK_BACK_CHARACTERS) : end.end()].rstrip()
            # Check only a few characters: a line can be a megabyte of initials.
            if _ABBREVIATION.search(last[-LOOK_BACK_CHARACTERS:]):
                continue
            parts.append(line[start : end.end()].strip())
            start = end.end()
        parts.append(line[start:].strip())
    return [sentence for sentence in parts if sentence]


def digest(texts: Sequence[str], tokens: int, previous: str = "") -> str:
    """Summarize texts and an earlier digest in at most `tokens` tokens, a sentence per line."""
    return condense([SpokenLine(text) for text in texts], tokens, previous)


def condense(lines: Sequence[SpokenLine], tokens: int, previous: str = "") -> str:
    """Summarize the lines of several speakers; each line of the summary names its speaker."""
    old: list[_Sentence] = []
    for line in previous.splitlines():
        if line.strip():
            old.append(_candidate(len(old), _format(line.strip(), ""), 1.0))
    new: list[_Sentence] = []
    for item in lines:
        for index, sentence in enumerate(sentences(item.text)):
            weight = item.weight * (1.15 if index == 0 else 1.0)
            text = _format(sentence, item.speaker)
            new.append(_candidate(len(old) + len(new), text, weight))
    if len(new) > MAX_CANDIDATES:
        new.sort(key=lambda candidate: (-candidate.score, candidate.position))
        new = sorted(new[:MAX_CANDIDATES], key=lambda candidate: candidate.position)
    _add_context_scores(old + new)
    informative = [candidate for candidate in new if candidate.score >= MIN_SCORE]
    chosen = _choose(informative if informative or old else new, old, tokens)
    chosen.sort(key=lambda candidate: candidate.position)
    return "\n".join(candidate.text for candidate in chosen)


def _format(sentence: str, speaker: str) -> str:
    """Return a sentence as a line of a summary."""
    text = _BULLET.sub("", sentence).strip()
    if len(text) > MAX_SENTENCE_CHARACTERS:
        limit = MAX_SENTENCE_CHARACTERS - 1
        text = text[: counting.boundary(text, limit) or limit].rstrip() + "…"
    return f"- {speaker}: {text}" if speaker else f"- {text}"


def _candidate(position: int, text: str, weight: float) -> _Sentence:
    words = _words(text)
    return _Sentence(position, text, words, _facts(text), _score(text, words) * weight)


def _words(text: str) -> frozenset[str]:
    """Return the words to compare sentences by; in scripts without spaces, character pairs."""
    words = set()
    for word in _WORD.findall(text):
        lower = word.lower()
        if word.isdigit():
            words.add(word)
        if len(lower) > 2 and not _STOP_WORDS.fullmatch(lower):
            words.add(lower)
    characters = "".join(_NO_SPACES.findall(text))
    words |= {characters[index : index + 2] for index in range(len(characters) - 1)}
    return frozenset(words)


def _facts(text: str) -> frozenset[str]:
    """Return names, numbers and addresses, which distinguish similar sentences."""
    statement = _statement(text)
    words = (word.strip(_PUNCTUATION) for word in statement.split())
    literals = {word for word in words if _LITERAL.search(word)}
    return frozenset(literals | set(_NAME.findall(statement)))


def _statement(text: str) -> str:
    """Return a line of a summary without its speaker."""
    line = text.removeprefix("- ")
    return line.partition(": ")[2] or line


def _score(text: str, words: frozenset[str]) -> float:
    """Return a score for how informative a sentence is by itself."""
    statement = _statement(text)
    if not words:
        return 0.05
    score = 1.0 + min(len(words), 12) / 12
    score += 0.7 * bool(_NUMBER.search(statement)) + 0.6 * min(len(_NAME.findall(statement)), 2) / 2
    score += (
        0.8 * bool(_DECISION.search(statement))
        + 0.7 * bool(_TIME.search(statement))
        + 0.5 * bool(_ADDRESS.search(statement))
    )
    if _FIRST_PERSON.search(statement):
        score += 0.5
    elif _SECOND_PERSON.search(statement):  # compliments and advice
        score *= 0.5
    if _SMALL_TALK.match(statement):
        score *= 0.2
    if statement.endswith(("?", "？")):
        score *= 0.6
    readable = sum(character.isalnum() or character.isspace() for character in statement)
    return score * (0.2 if readable < 0.6 * len(statement) else 1.0)


def _add_context_scores(candidates: Sequence[_Sentence]) -> None:
    """Raise the scores of sentences about frequent topics, and of sentences with new words."""
    counts = Counter(word for candidate in candidates for word in candidate.words)
    max_count = max(3, len(candidates) // 5)
    seen: set[str] = set()
    for candidate in candidates:
        if candidate.words:
            shared = sum(1 for word in candidate.words if 2 <= counts[word] <= max_count)
            fresh = len(candidate.words - seen) / len(candidate.words)
            candidate.score *= 1.0 + 0.4 * shared / len(candidate.words) + 0.3 * fresh
        seen |= candidate.words


def _choose(new: Sequence[_Sentence], old: Sequence[_Sentence], room: int) -> list[_Sentence]:
    """Return the best sentences that fit, without repetition; reserve a share for new sentences."""
    chosen: list[_Sentence] = []
    left = room
    wanted = sum(_cost(candidate) for candidate in new)
    room_for_old = max(int(room * OLD_SHARE), room - wanted)
    for group, share in ((old, room_for_old), (new, room), (old, room)):
        spent = 0
        for candidate in sorted(group, key=_rank):
            cost = _cost(candidate)
            same_index = _find_same(candidate, chosen)
            if same_index is not None:
                # Of two sentences that say the same, keep the newer: it may be a correction.
                other = chosen[same_index]
                extra = cost - _cost(other)
                is_newer = candidate.position > other.position and candidate.text != other.text
                if is_newer and extra <= left:
                    chosen[same_index] = candidate
                    left -= extra
                continue
            if cost > left or spent + cost > share:
                continue
            chosen.append(candidate)
            left -= cost
            spent += cost
    return chosen


def _rank(candidate: _Sentence) -> tuple[float, int]:
    return -candidate.score / (_cost(candidate) + 1) ** BREVITY, candidate.position


def _cost(candidate: _Sentence) -> int:
    return counting.estimate(candidate.text + "\n")


def _find_same(candidate: _Sentence, chosen: Sequence[_Sentence]) -> int | None:
    """Return the index of a sentence that says the same, with the same numbers and names."""
    for index, other in enumerate(chosen):
        if candidate.text == other.text:
            return index
        shared = len(candidate.words & other.words)
        is_similar = shared >= MIN_SIMILARITY * len(candidate.words | other.words)
        if candidate.words and is_similar and candidate.facts == other.facts:
            return index
    return None
