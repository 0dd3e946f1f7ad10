"""Candidates of a search: what ranking needs of each, as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memorist.search.block import DocumentKey
    from memorist.search.segment import Array

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Candidates:
    """Documents that may be answers, in the order of time, kind, id, number and part."""

    keys: Sequence[DocumentKey]
    at: Sequence[int]
    roles: Sequence[str]
    authors: Sequence[str]
    cosines: Floats
    """NaN if the document or the question has no vector."""
    lengths: Array
    has_question: Array
    question_words: Array
    fingerprints: Sequence[int]
    count_words: Callable[[Sequence[str]], Floats]
    """Returns the occurrences of words: a row for each candidate, a column for each word."""

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Statistics of the documents in scope."""

    count: int
    document_frequencies: Sequence[int]
    """For each word of the question, the documents with this word."""
