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
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FILE = Path(__file__).with_name("static.bin")
_START = "▁"  # how a piece says that a word starts with it
_FIRST_BYTE = 3  # the number of the piece that stands for the byte 0
_MOST_OF_A_WORD = 32  # in characters; what is longer is no word, or has no spaces between its words
_NONE = 1 << 30
_MOST_WORDS = 50_000  # that are remembered, which takes about 10 MB
_AT_ONCE = 4096  # pieces, which take 4 MB while they are added up


class StaticEmbedder:
    """The sum of the vectors of a text's pieces, made one long; safe to share between threads."""

    family: Literal["static"] = "static"
    dimensions = 256
    identity = "static-256@1"

    def __init__(self) -> None:
        self._parts = _Known(_merged)
        self._words = _Known(
            lambda word: b"".join(map(self._parts.__getitem__, _cut(_START + word)))
        )

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A vector of length 1 for each text; texts without a word share one."""
        import numpy as np

        _, _, scales, rows = _data()
        found = np.zeros((len(texts), self.dimensions), np.float32)
        for place, text in enumerate(texts):
            pieces = np.frombuffer(self.pieces(text) or b"\0\0", np.uint16)
            for start in range(0, len(pieces), _AT_ONCE):
                some = pieces[start : start + _AT_ONCE]
                found[place] += scales.take(some) @ rows.take(some, axis=0).astype(np.float32)
        found /= np.linalg.norm(found, axis=1, keepdims=True)
        return found

    def pieces(self, text: str) -> bytes:
        """The numbers of the pieces that a text is made of, two bytes each."""
        return b"".join(map(self._words.__getitem__, text.split()))


class _Known(dict[str, bytes]):
    """What was made of words that were met before: nearly all of the time goes into those that were not."""

    def __init__(self, make: Callable[[str], bytes]) -> None:
        self._make = make

    def __missing__(self, word: str) -> bytes:
        made = self._make(word)
        if len(self) >= _MOST_WORDS:
            self.clear()  # the common ones are soon there again
        if len(word) <= _MOST_OF_A_WORD:
            self[word] = made
        return made


def _cut(word: str) -> Iterator[str]:
    """A word in parts, cut where no piece has these two characters side by side, or where it is no word any more."""
    beside = _data()[1]
    start = 0
    for place in range(1, len(word)):
        if place - start == _MOST_OF_A_WORD or word[place - 1 : place + 1] not in beside:
            yield word[start:place]
            start = place
    yield word[start:]


def _merged(part: str) -> bytes:
    """The pieces of a part: of all neighbours that make a piece together, those with the lowest number join, and again."""
    number = _data()[0].get
    parts = list(part)
    pairs = [number(left + right, _NONE) for left, right in itertools.pairwise(parts)]
    while pairs and (best := min(pairs)) != _NONE:
        place = pairs.index(best)
        del pairs[place]
        parts[place] += parts.pop(place + 1)
        if place:
            pairs[place - 1] = number(parts[place - 1] + parts[place], _NONE)
        if place < len(pairs):
            pairs[place] = number(parts[place] + parts[place + 1], _NONE)
    numbers = array("H")
    for one in parts:
        known = number(one)
        numbers.extend(
            [known]
            if known is not None
            else [_FIRST_BYTE + byte for byte in one.encode("utf-8", "replace")]
        )
    return numbers.tobytes()


class _Data(NamedTuple):
    """What is in the file: pieces and their numbers, which characters are side by side in them, their scales and rows."""

    pieces: Mapping[str, int]
    beside: Set[str]
    scales: NDArray[np.float32]
    rows: NDArray[np.int8]


@functools.cache
def _data() -> _Data:
    """The file, read once; the rows stay in it, and processes share them."""
    import numpy as np

    with _FILE.open("rb") as file:
        header: Mapping[str, Any] = json.loads(file.readline())
        start = file.tell()
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    count, dimensions = header["shape"]
    scales_at = start + header["text"]
    pieces = whole[start:scales_at].decode().split("\n")
    beside = {piece[place : place + 2] for piece in pieces for place in range(len(piece) - 1)}
    scales = np.frombuffer(whole, "<f4", count, scales_at).astype(np.float32)
    rows = np.frombuffer(whole, np.int8, count * dimensions, scales_at + 4 * count).reshape(
        count, dimensions
    )
    return _Data({piece: number for number, piece in enumerate(pieces)}, beside, scales, rows)
