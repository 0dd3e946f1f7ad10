"""How many tokens a text costs a model: exact where its vocabulary is at hand, estimated from the characters otherwise.

The estimate is called on everything that is stored, so it must cost next to nothing. Each byte of the text (in UTF-8) is in
some of eight groups, and whenever a run of bytes of a group begins, that is the same part of a token: where letters turn
into digits, or a rare letter follows a common one, a vocabulary has to begin a new token more often than inside a word.
Runs are counted for all groups at once, as bits of one large number. More text never has fewer runs, and a text never has
more runs than its parts together, so the estimate never falls when text is added and parts never cost less than the whole.
`scripts/fit_tokens.py` found the groups; docs/internals/tokens.md says how far off they are on other texts.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

_GROUPS = (
    ('!+,-01245789>@EGIJKMQUVWXYZ^gnqxz|', 'CC-CD D2-D4 E4 E7 F0-F7'),
    ('\t\r"#$%(+012345789:=JKPQVXYZ[]abfjkorvyz{|}', 'CC-CD D2-D4 F0-F7'),
    ('\n "*+/0349:=?ABCDEFGHIJLMNOPRSTUVWXYZ[^_`w{|~', '80-BF C3-CB CE-D1 D8-E8 EA-EF'),
    ('!"$%\'(+-.01234568<=>@BFGIJKPQUVWXYZ\\`qz}~', '90-97 A0-AF C2 CC-CD D2-D7 E0 E3 E5 E9 EE-F7'),
    ('\t\r#*+,-27=>@ABCDEFGHIJKMNOQRTUVWXYZ[^_avx~', 'CC-CD D2-D4 E5-E6 EA-ED F0-F7'),
    ("\t\r $%&'()*-4;=@ABCDEGILMNOPRSTUV^_acdefghikmnoprstvwxy{", '80-87 CC-CD D2-D4 D8-DF E2 F0-F7'),
    ('\t\r!+0123456789;@BGHJKQVWXYZ\\^qz|', 'B0-B7 C2 CC-D0 D2-D4 E5 E7'),
    ('\t\n\r "#$()./4:;<=>?ABCDEFHILMNORST^_`abcdefghiklmnoprstuwxy{~', '80-BF C2-CB CE-D1 D5-E6 E8 EA-ED F0-F7'),
)  # fmt: skip
"""The eight groups: their ASCII characters, and their other bytes in UTF-8."""
_RUNS = 1000
_TOKENS = 336
"""So many runs are so many tokens: what fits best, and two per cent more, because too little is worse than too much."""
_LONGEST = 8
"""A token stands for no more characters than this, on the average of any text, and for eight times as many spaces: what
the same again and again would cost."""
_BLOCK = 1 << 15
_number = int.from_bytes
_VOCABULARIES = (
    ("o200k", r"chatgpt|gpt-4o|gpt-4\.|gpt-[5-9]|gpt-oss|o[1-9]\b"),
    ("cl100k", r"gpt-4|gpt-3\.?5|text-embedding"),
)
"""The vocabularies that are at hand, and the names of the models that use them; the first that fits."""
_FACTORS = (
    (1.25, r"claude-(instant|[123]\b|[a-z]+-[123]\b|[a-z]+-4(?![-.]?[789]\b))"),
    (1.6, r"claude"),
    (1.1, r"mistral|mixtral|codestral|ministral|magistral|devstral|pixtral"),
    (1.05, r"qwen|qwq|deepseek"),
)
"""What the estimate is multiplied by for families whose vocabulary is not at hand; docs/internals/tokens.md says how that is known."""


def _flags() -> bytes:
    flags = bytearray(256)
    for group, (plain, others) in enumerate(_GROUPS):
        for byte in plain.encode():
            flags[byte] |= 1 << group
        for part in others.split():
            first, _, last = part.partition("-")
            for byte in range(int(first, 16), int(last or first, 16) + 1):
                flags[byte] |= 1 << group
    return bytes(flags)


FLAGS = _flags()
"""The groups that each byte is in, a bit for each."""


def estimate(text: str) -> int:
    """About how many tokens `text` is, for a model of today; 0 only for no text."""
    size = len(text)
    runs = _count_runs(text) if size <= _BLOCK else _count_in_blocks(text)
    found = -(-runs * _TOKENS // _RUNS)
    if found * _LONGEST >= size:
        return found
    return max(found, -((7 * text.count(" ") - 8 * size) // (8 * _LONGEST)))


def _count_runs(text: str) -> int:
    try:
        encoded = text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        encoded = text.encode("utf-8", "surrogatepass")
    here = _number(encoded.translate(FLAGS), "little")
    before = here << 8
    return ((here | before) ^ before).bit_count()


def _count_in_blocks(text: str) -> int:
    """The same for a large text, without large numbers: each block begins with the last character of the one before."""
    runs = _count_runs(text[:_BLOCK])
    for start in range(_BLOCK, len(text), _BLOCK):
        runs += _count_runs(text[start - 1 : start + _BLOCK]) - _count_runs(text[start - 1])
    return runs


def count(text: str, model: str = "") -> int:
    """How many tokens `text` is for a model, by name: exact where its vocabulary is at hand, else estimated."""
    return counter(model)(text)


def counter(model: str) -> Callable[[str], int]:
    """What counts tokens for a model, by name: to be asked for once and called often."""
    return _counter(model)


def cut(text: str, tokens: int, *, end: bool = False, some: bool = False) -> str:
    """The longest beginning, or end, of at most so many estimated tokens; no character as people see it is split.

    Unless there is to be `some` beginning, and the first such character alone is too large: they come in any size.
    """
    if tokens <= 0:
        return ""
    size = len(text)
    if size <= _BLOCK and estimate(text) <= tokens:
        return text
    most = _most(
        lambda length: estimate(text[size - length :] if end else text[:length]) <= tokens, size
    )
    if end:
        return text[boundary(text, size - most, up=True) :]
    return text[: boundary(text, most) or (max(most, 1) if some else 0)]


def _most(fits: Callable[[int], bool], size: int) -> int:
    """The largest length that fits, looked for from below: a huge text is not read for a small cut."""
    high = 64
    while high <= size and fits(high):
        high *= 2
    low, high = high // 2 if high > 64 else 0, min(high, size + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def _plain(character: str) -> bool:
    """Whether a character never joins another such one: Latin, Greek, Cyrillic, kana and ideographs, without their marks."""
    return (
        character < "\u0300" or "\u0370" <= character < "\u0483" or "\u30a0" <= character < "\ua000"
    )


def boundary(text: str, place: int, *, up: bool = False) -> int:
    """The place nearest to `place`, downwards or upwards, between two characters as people see them (grapheme clusters)."""
    start = place
    while 0 < start < len(text) and not (
        _plain(text[start - 1]) and _plain(text[start]) and text[start] != "\n"
    ):
        start -= 1
    if start == place:
        return place
    for cluster in _clusters().finditer(text, start):
        if cluster.end() >= place:
            return cluster.end() if up or cluster.end() == place else cluster.start()
    return place


@functools.cache
def _clusters() -> regex.Pattern[str]:
    import regex

    return regex.compile(r"\X")


@functools.lru_cache(256)
def _counter(model: str) -> Callable[[str], int]:
    vocabulary = next(
        (vocabulary for vocabulary, names in _VOCABULARIES if _fits(model, names)), ""
    )
    if vocabulary:
        return _exact(vocabulary) or estimate
    times = factor(model)
    return estimate if times == 1.0 else lambda text: math.ceil(estimate(text) * times)


@functools.lru_cache(256)
def factor(model: str) -> float:
    """How many tokens of a model, by name, one estimated token is: above 1 where its vocabulary is known to be smaller."""
    return next((times for times, names in _FACTORS if _fits(model, names)), 1.0)


def _fits(model: str, names: str) -> bool:
    name = model.lower().rpartition("/")[2]  # a provider or a folder may stand before it
    return re.search(f"(^|[^a-z0-9])({names})", name) is not None


@functools.cache
def _exact(vocabulary: str) -> Callable[[str], int] | None:
    """The count of a vocabulary, if the library that has it is installed (`retain[tokens]`)."""
    try:
        from rs_bpe.bpe import openai  # type: ignore[import-not-found]
    except ImportError:
        return None
    encoding = openai.o200k_base() if vocabulary == "o200k" else openai.cl100k_base()

    def exactly(text: str) -> int:
        try:
            return int(encoding.count(text))
        except UnicodeEncodeError:  # half of a surrogate pair: what a service would read instead
            return int(encoding.count(text.encode("utf-8", "replace").decode()))

    return exactly
