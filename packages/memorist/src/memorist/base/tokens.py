"""Token counts: exact if the model's vocabulary is installed, otherwise estimated from the bytes.

The estimate runs on everything that is stored, so it must be fast. Each byte of the UTF-8 text
belongs to some of eight groups. Each start of a run of bytes of one group counts as a fixed
fraction of a token: a new token is more likely where letters turn into digits, or where a rare
letter follows a common one, than inside a word. The runs of all groups are counted at once, as
bits of one large integer.

Adding text never lowers the estimate, and the estimates of the parts of a text never sum to less
than that of the whole. `scripts/fit_tokens.py` fitted the groups; docs/internals/tokens.md has the
error on other texts.
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
"""1000 runs count as 336 tokens: the best fit plus two per cent, because an estimate that is too
low does more harm than one that is too high."""
_MAX_CHARACTERS_PER_TOKEN = 8
"""The highest average of characters per token; for spaces it is eight times as high. It bounds the
estimate of repetitive text from below."""
_BLOCK = 1 << 15
_number = int.from_bytes
_VOCABULARIES = (
    ("o200k", r"chatgpt|gpt-4o|gpt-4\.|gpt-[5-9]|gpt-oss|o[1-9]\b"),
    ("cl100k", r"gpt-4|gpt-3\.?5|text-embedding"),
)
"""The vocabularies that can be installed, with the models that use them; the first match counts."""
_FACTORS = (
    (1.25, r"claude-(instant|[123]\b|[a-z]+-[123]\b|[a-z]+-4(?![-.]?[789]\b))"),
    (1.6, r"claude"),
    (1.1, r"mistral|mixtral|codestral|ministral|magistral|devstral|pixtral"),
    (1.05, r"qwen|qwq|deepseek"),
)
"""Factors of the estimate for model families without a vocabulary here. Their origin is in
docs/internals/tokens.md."""


_WINDOWS = (
    (1_000_000, r"gpt-4\.1|gemini|llama-4"),
    (400_000, r"gpt-[5-9]"),
    (200_000, r"claude|o[1-9]\b"),
    (128_000, r"gpt-4o|gpt-4-turbo|gpt-oss|chatgpt|llama-?3\.[1-9]|mistral-(large|medium|small)"),
    (128_000, r"qwen-?3|qwen-?2\.5|deepseek|gemma-?3|command-[ra]|phi-?[4-9]|kimi|glm|grok|nova"),
    (32_000, r"mistral|mixtral|ministral|qwen"),
    (16_000, r"gpt-3\.?5"),
    (8_000, r"gpt-4|llama-?3|gemma"),
    (4_000, r"llama-?2|phi|tinyllama"),
)
"""The context windows of model families, at least; the first match counts."""
DEFAULT_BUDGET = 8_000
MAX_DEFAULT_BUDGET = 32_000


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
"""The groups of each byte, one bit per group."""


def estimate(text: str) -> int:
    """Estimate the tokens of `text` for a current model; 0 only for empty text."""
    size = len(text)
    runs = _count_runs(text) if size <= _BLOCK else _count_in_blocks(text)
    tokens = -(-runs * _TOKENS // _RUNS)
    if tokens * _MAX_CHARACTERS_PER_TOKEN >= size:
        return tokens
    return max(tokens, -((7 * text.count(" ") - 8 * size) // (8 * _MAX_CHARACTERS_PER_TOKEN)))


def _count_runs(text: str) -> int:
    try:
        encoded = text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        encoded = text.encode("utf-8", "surrogatepass")
    flags = _number(encoded.translate(FLAGS), "little")
    previous = flags << 8
    return ((flags | previous) ^ previous).bit_count()


def _count_in_blocks(text: str) -> int:
    """Count the runs of a large text block by block, to avoid huge integers.

    Each block starts with the last character of the previous block.
    """
    runs = _count_runs(text[:_BLOCK])
    for start in range(_BLOCK, len(text), _BLOCK):
        runs += _count_runs(text[start - 1 : start + _BLOCK]) - _count_runs(text[start - 1])
    return runs


def counter(model: str) -> Callable[[str], int]:
    """Return the function that counts tokens for a model; get it once and call it often."""
    return _counter(model)


def cut(text: str, tokens: int, *, end: bool = False, not_empty: bool = False) -> str:
    """Return the longest start, or with `end` the longest end, that fits into `tokens`.

    Grapheme clusters are not split. Exception: with `not_empty`, the first cluster is split if it
    alone is too large, because a cluster can have any size.
    """
    if tokens <= 0:
        return ""
    size = len(text)
    if size <= _BLOCK and estimate(text) <= tokens:
        return text
    length_limit = _largest_fit(
        lambda length: estimate(text[size - length :] if end else text[:length]) <= tokens, size
    )
    if end:
        return text[boundary(text, size - length_limit, up=True) :]
    length = boundary(text, length_limit)
    if not length and not_empty:
        length = max(length_limit, 1)
    return text[:length]


def _largest_fit(fits: Callable[[int], bool], size: int) -> int:
    """Return the largest length that fits.

    Search upwards from small lengths, so that a small cut does not read a huge text.
    """
    high = 64
    while high <= size and fits(high):
        high *= 2
    low = high // 2 if high > 64 else 0
    high = min(high, size + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def _is_plain(character: str) -> bool:
    """Return True if a character never forms a cluster with another plain character.

    Latin, Greek, Cyrillic, kana and ideographs are plain; combining marks are not.
    """
    return (
        character < "\u0300" or "\u0370" <= character < "\u0483" or "\u30a0" <= character < "\ua000"
    )


def boundary(text: str, position: int, *, up: bool = False) -> int:
    """Return the grapheme cluster boundary at or below `position`, or with `up` at or above it."""
    start = position
    while 0 < start < len(text) and not (
        _is_plain(text[start - 1]) and _is_plain(text[start]) and text[start] != "\n"
    ):
        start -= 1
    if start == position:
        return position
    for cluster in _clusters().finditer(text, start):
        if cluster.end() >= position:
            return cluster.end() if up or cluster.end() == position else cluster.start()
    return position


@functools.cache
def _clusters() -> regex.Pattern[str]:
    import regex

    return regex.compile(r"\X")


@functools.lru_cache(256)
def _counter(model: str) -> Callable[[str], int]:
    vocabulary = next(
        (vocabulary for vocabulary, names in _VOCABULARIES if _matches(model, names)), ""
    )
    if vocabulary:
        return _exact_counter(vocabulary) or estimate
    model_factor = factor(model)
    if model_factor == 1.0:
        return estimate
    return lambda text: math.ceil(estimate(text) * model_factor)


@functools.lru_cache(256)
def factor(model: str) -> float:
    """Return the model's tokens per estimated token: above 1 if its vocabulary is smaller."""
    return next((value for value, names in _FACTORS if _matches(model, names)), 1.0)


@functools.lru_cache(256)
def default_budget(model: str) -> int:
    """Return the default token budget of a context for a model.

    A quarter of the model's context window, within limits: the rest is for tools and the answer,
    and more text costs more with every message. 8,000 for a model that is not known.
    """
    window = next((size for size, names in _WINDOWS if _matches(model, names)), 0)
    if not window:
        return DEFAULT_BUDGET
    budget = max(window // 4, min(window // 2, DEFAULT_BUDGET))
    return min(budget, MAX_DEFAULT_BUDGET)


def _matches(model: str, names: str) -> bool:
    name = model.lower().rpartition("/")[2]  # without a provider or folder prefix
    return re.search(f"(^|[^a-z0-9])({names})", name) is not None


@functools.cache
def _exact_counter(vocabulary: str) -> Callable[[str], int] | None:
    """Return the exact counter of a vocabulary, or None if the extra `tokens` is not installed."""
    try:
        from rs_bpe.bpe import openai  # type: ignore[import-not-found]
    except ImportError:
        return None
    encoding = openai.o200k_base() if vocabulary == "o200k" else openai.cl100k_base()

    def count_exactly(text: str) -> int:
        try:
            return int(encoding.count(text))
        except UnicodeEncodeError:  # a lone surrogate: count its replacement
            return int(encoding.count(text.encode("utf-8", "replace").decode()))

    return count_exactly
