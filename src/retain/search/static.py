"""The built-in embedder: it knows words, needs nothing but numpy, and takes microseconds.

A text is cut into words, a word into pieces, and the vectors of the pieces are added up; how much a piece says is in how
long its vector is. Weights and pieces are those of WordLlama's `l2_supercat_256` (MIT, see `static.LICENSE`), as
`scripts/build_static.py` packs them. The pieces of a text are those of its own tokenizer (a byte-pair encoding where the
pair with the lowest number joins first, and bytes stand for what has no piece), but every kind of white space is the same.
"""

from __future__ import annotations

import functools
import itertools
import json
import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FILE = Path(__file__).with_name("static.bin")
_START = "▁"  # how a piece says that a word starts with it
_FIRST_BYTE = 3  # the number of the piece that stands for the byte 0
_MOST_OF_A_WORD = 32  # in characters; what is longer is no word, or has no spaces between its words
_RUNS = re.compile(rf"{_START}?\w+|\W+")
_NONE = 1 << 30
_MOST_WORDS = 50_000  # that are remembered; about 10 MB
_AT_ONCE = 4096  # pieces, which take 4 MB while they are added up


class StaticEmbedder:
    """The sum of the vectors of a text's pieces, made one long; safe to share between threads."""

    family: Literal["static"] = "static"
    dimensions = 256
    identity = "static-256@1"

    def __init__(self) -> None:
        self._words: dict[str, list[int]] = {}

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A vector of length 1 for each text; texts without a word share one."""
        import numpy as np

        _, scales, rows = _data()
        found = np.zeros((len(texts), self.dimensions), np.float32)
        for place, text in enumerate(texts):
            pieces = np.array(self.pieces(text) or [0], np.intp)
            for start in range(0, len(pieces), _AT_ONCE):
                some = pieces[start : start + _AT_ONCE]
                found[place] += scales[some] @ rows[some].astype(np.float32)
        found /= np.linalg.norm(found, axis=1, keepdims=True)
        return found

    def pieces(self, text: str) -> list[int]:
        """The numbers of the pieces that a text is made of."""
        found: list[int] = []
        for word in text.split():
            known = self._words.get(word)
            if known is None:
                known = self._learn(word)
            found += known
        return found

    def _learn(self, word: str) -> list[int]:
        vocabulary = _data()[0]
        known = [piece for part in _parts(word) for piece in _merged(part, vocabulary)]
        if len(word) <= _MOST_OF_A_WORD:
            if len(self._words) >= _MOST_WORDS:
                self._words = {}  # the common words are soon there again
            self._words[word] = known
        return known


def _parts(word: str) -> Iterator[str]:
    """A word with its mark; one that is too long in parts, so that what has no spaces does not take for ever."""
    if len(word) <= _MOST_OF_A_WORD:
        yield _START + word
        return
    for part in _RUNS.findall(_START + word):
        yield from (part[start : start + _MOST_OF_A_WORD] for start in range(0, len(part), _MOST_OF_A_WORD))


def _merged(word: str, vocabulary: Mapping[str, int]) -> list[int]:
    """The pieces of a word: of all neighbours that make a piece together, those with the lowest number join, and again."""
    number = vocabulary.get
    parts = list(word)
    pairs = [number(left + right, _NONE) for left, right in itertools.pairwise(parts)]
    while pairs and (best := min(pairs)) != _NONE:
        place = pairs.index(best)
        del pairs[place]
        parts[place] += parts.pop(place + 1)
        if place:
            pairs[place - 1] = number(parts[place - 1] + parts[place], _NONE)
        if place < len(pairs):
            pairs[place] = number(parts[place] + parts[place + 1], _NONE)
    numbers: list[int] = []
    for part in parts:
        known = number(part)
        numbers += [known] if known is not None else [_FIRST_BYTE + byte for byte in part.encode("utf-8", "replace")]
    return numbers


@functools.cache
def _data() -> tuple[Mapping[str, int], NDArray[np.float32], NDArray[np.int8]]:
    """The numbers of the pieces, and their scales and rows; the rows stay in the file, which processes share."""
    import numpy as np

    with _FILE.open("rb") as file:
        header: Mapping[str, Any] = json.loads(file.readline())
        start = file.tell()
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    count, dimensions = header["shape"]
    scales_at = start + header["text"]
    pieces = whole[start:scales_at].decode().split("\n")
    scales = np.frombuffer(whole, "<f4", count, scales_at).astype(np.float32)
    rows = np.frombuffer(whole, np.int8, count * dimensions, scales_at + 4 * count).reshape(count, dimensions)
    return {piece: number for number, piece in enumerate(pieces)}, scales, rows
