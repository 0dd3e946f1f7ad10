"""The built-in embedder: knows words, needs only numpy, and takes microseconds.

A text is split into words, a word into pieces, and the vectors of the pieces are added up. The
length of a piece's vector is its weight. The vector of a message also includes its speaker and the
end of the previous message. Pieces that are frequent in questions have a second vector for
questions, so that "where" is close to places. `scripts/train_static.py` made the table from
WordLlama's `l2_supercat_256` (MIT, see `static.LICENSE`) and memorist's encoder. The tokenizer is that
of WordLlama, except that all white space is equal: a byte-pair encoding that joins the pair with the
lowest number first, and encodes characters without a piece as bytes.
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

    from memorist.search.onnx_embedder import EmbedderInput

IDENTITY = "static-256@2"
BEFORE_CHARACTERS = 160
"""How many characters of the previous message are read, from its end."""
_FILE = Path(__file__).with_name("static.bin")
_START = "▁"  # first character of a piece that starts a word
_FIRST_BYTE = 3  # the number of the piece that stands for the byte 0
_MAX_WORD_CHARACTERS = 32  # longer ones are no words, or several without spaces
_NONE = 1 << 30
_MAX_CACHED_WORDS = 50_000  # about 10 MB
_PIECES_PER_STEP = 4096  # takes 4 MB


class StaticEmbedder:
    """Adds up the vectors of a text's pieces and normalizes the sum. Thread-safe."""

    family: Literal["static"] = "static"
    dimensions = 256
    identity = IDENTITY

    def __init__(self) -> None:
        self._parts = _PieceCache(_merged)
        self._words = _PieceCache(
            lambda word: b"".join(map(self._parts.__getitem__, _cut(_START + word)))
        )

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit vector for each question; texts without a word share one."""
        rows = _data().question_rows
        return _normalized([self._sum(rows.take(self._numbers(text))) for text in texts])

    def embed_passages(self, passages: Sequence[EmbedderInput]) -> NDArray[np.float32]:
        """Return a unit vector for each passage; those without a word share one."""
        data = _data()
        return _normalized(
            [
                self._sum(self._numbers(passage.text))
                + data.speaker * self._sum(self._numbers(passage.speaker))
                + data.before * self._sum(self._numbers(passage.before[-BEFORE_CHARACTERS:]))
                for passage in passages
            ]
        )

    def _numbers(self, text: str) -> NDArray[np.uint16]:
        import numpy as np

        return np.frombuffer(self.pieces(text), np.uint16)

    def _sum(self, numbers: NDArray[np.uint16]) -> NDArray[np.float32]:
        """Return the sum of rows of the table."""
        import numpy as np

        data = _data()
        total = np.zeros(self.dimensions, np.float32)
        for start in range(0, len(numbers), _PIECES_PER_STEP):
            some = numbers[start : start + _PIECES_PER_STEP]
            total += data.scales.take(some) @ data.rows.take(some, axis=0).astype(np.float32)
        return total

    def pieces(self, text: str) -> bytes:
        """Return the numbers of a text's pieces, two bytes each."""
        return b"".join(map(self._words.__getitem__, text.split()))


class _PieceCache(dict[str, bytes]):
    """A cache of words and their pieces. Nearly all time is spent on words that are new."""

    def __init__(self, make: Callable[[str], bytes]) -> None:
        self._make = make

    def __missing__(self, word: str) -> bytes:
        pieces = self._make(word)
        if len(self) >= _MAX_CACHED_WORDS:
            self.clear()  # common words are soon cached again
        if len(word) <= _MAX_WORD_CHARACTERS:
            self[word] = pieces
        return pieces


def _cut(word: str) -> Iterator[str]:
    """Split a word between characters that no piece has side by side, or where it is too long."""
    beside = _data()[1]
    start = 0
    for place in range(1, len(word)):
        if place - start == _MAX_WORD_CHARACTERS or word[place - 1 : place + 1] not in beside:
            yield word[start:place]
            start = place
    yield word[start:]


def _merged(part: str) -> bytes:
    """Return the pieces of a part: join the pair with the lowest number until none is left."""
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
    for text in parts:
        known = number(text)
        numbers.extend(
            [known]
            if known is not None
            else [_FIRST_BYTE + byte for byte in text.encode("utf-8", "replace")]
        )
    return numbers.tobytes()


def _normalized(sums: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return sums as unit vectors; a text without a word gets that of the first piece."""
    import numpy as np

    vectors = np.array(sums, np.float32)
    vectors[~vectors.any(axis=1)] = _data().rows[0]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


class _Data(NamedTuple):
    """The file's content: pieces, pairs of characters in them, scales and vectors."""

    pieces: Mapping[str, int]
    beside: Set[str]
    scales: NDArray[np.float32]
    rows: NDArray[np.int8]  # one for each piece, and then those for questions
    question_rows: NDArray[np.uint16]  # for each piece, the row to use in a question
    speaker: float  # weight of the speaker's pieces
    before: float  # weight of the pieces of the previous message


@functools.cache
def _data() -> _Data:
    """Return the file's content. The vectors stay memory-mapped and are shared by processes."""
    import numpy as np

    with _FILE.open("rb") as file:
        header: Mapping[str, Any] = json.loads(file.readline())
        start = file.tell()
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    count, dimensions = header["shape"]
    row_count = count + header["questions"]
    scales_at = start + header["text"]
    rows_at = scales_at + 4 * row_count
    questions_at = rows_at + row_count * dimensions
    pieces = data[start:scales_at].decode().split("\n")
    question_rows = np.arange(count, dtype=np.uint16)
    question_pieces = np.frombuffer(data, "<u2", header["questions"], questions_at)
    question_rows[question_pieces] = np.arange(count, row_count)
    return _Data(
        {piece: number for number, piece in enumerate(pieces)},
        {piece[place : place + 2] for piece in pieces for place in range(len(piece) - 1)},
        np.frombuffer(data, "<f4", row_count, scales_at).astype(np.float32),
        np.frombuffer(data, np.int8, row_count * dimensions, rows_at).reshape(-1, dimensions),
        question_rows,
        header["speaker"],
        header["before"],
    )
