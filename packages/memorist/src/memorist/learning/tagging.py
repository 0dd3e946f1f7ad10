"""Decode the outputs of the reader's network: values with their slots, flags and subjects.

The network gives each token of a message scores for tags. A value is a run of tokens of one slot,
found as the best sequence of tags (Viterbi). Its flags are the mean over its tokens. Its subject
is the run of tokens to which it points; the first token, which stands for the whole message, means
the user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SLOTS = (
    "name",
    "age",
    "home",
    "work",
    "role",
    "relation",
    "pet",
    "contact",
    "allergy",
    "diet",
    "condition",
    "medication",
    "belief",
    "language",
    "likes",
    "dislikes",
    "habit",
    "owns",
    "plan",
    "event",
    "project",
    "skill",
    "money",
    "instruction",
    "remember",
    "other",
)
"""What a value says about its subject, in the order of the network's outputs."""
FLAGS = (
    "negated",
    "past",
    "temporary",
    "ended",
    "correction",
    "reported",
    "unsure",
    "answer",
    "indirect",
)
"""How a value is said, in the order of the network's outputs."""
POINTER = 64
"""Dimensions of a query or a key in the output `points`."""
MAX_SUBJECT_TOKENS = 6
_FLAG_THRESHOLD = 0.5

Outputs = Mapping[str, "NDArray[np.float32]"]
"""The network's outputs for one message: tags, flags, points and has_fact, a row for each token."""


@dataclass(frozen=True)
class Tag:
    """A value in a message. Places are offsets of characters."""

    slot: str
    start: int
    end: int
    subject: tuple[int, int] | None  # None for the user
    flags: frozenset[str]
    confidence: float


def decode(outputs: Outputs, text: str, offsets: Sequence[tuple[int, int]]) -> list[Tag]:
    """Return the values that the network finds in a text, in their order.

    offsets: the place of each token of the text, without the first token of the outputs
    """
    import numpy as np

    count = len(offsets) + 1
    logits = outputs["tags"][:count].astype(np.float32)
    scores = logits - _log_sum(logits)
    path = _best_path(scores)
    probabilities = np.exp(scores)
    has_fact = float(_sigmoid(outputs["has_fact"][0, 0]))
    tags = []
    for slot, first, last in _runs(path):
        columns = probabilities[first:last, 1 + 2 * slot : 3 + 2 * slot].sum(axis=1)
        flags = _sigmoid(outputs["flags"][first:last].mean(axis=0))
        start, end = _whole_words(text, offsets[first - 1][0], offsets[last - 2][1])
        tags.append(
            Tag(
                SLOTS[slot],
                start,
                end,
                _subject(outputs["points"][:count], first, last, text, offsets),
                frozenset(FLAGS[index] for index in np.flatnonzero(flags > _FLAG_THRESHOLD)),
                float(columns.mean()) * has_fact,
            )
        )
    return tags


def _log_sum(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    top = logits.max(axis=1, keepdims=True)
    return np.asarray(top + np.log(np.exp(logits - top).sum(axis=1, keepdims=True)))


def _sigmoid(values: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    return np.asarray(1 / (1 + np.exp(-values)), np.float32)


def _best_path(scores: NDArray[np.float32]) -> list[int]:
    """Return the most probable tags in which a value goes on only after it has begun.

    Tag 0 is outside of values; slot n begins with tag 1 + 2n and goes on with tag 2 + 2n.
    """
    import numpy as np

    begins = np.arange(1, scores.shape[1], 2)
    total = scores[0].copy()
    total[begins + 1] = -np.inf
    total[1:] = -np.inf  # the first token is no word
    origins = np.zeros(scores.shape, np.int32)
    for row in range(1, len(scores)):
        best = int(total.argmax())
        previous = np.full(len(total), total[best], np.float32)
        origin = np.full(len(total), best, np.int32)
        goes_on = total[begins + 1] > total[begins]
        previous[begins + 1] = np.where(goes_on, total[begins + 1], total[begins])
        origin[begins + 1] = np.where(goes_on, begins + 1, begins)
        origins[row] = origin
        total = previous + scores[row]
    path = [int(total.argmax())]
    for row in range(len(scores) - 1, 0, -1):
        path.append(int(origins[row][path[-1]]))
    return path[::-1]


def _runs(path: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the slot, the first token and the one behind the last token of each value."""
    runs = []
    first = 0
    for index, tag in enumerate([*path, 0]):
        is_inside = tag > 0 and tag % 2 == 0
        if first and not is_inside:
            runs.append(((path[first] - 1) // 2, first, index))
            first = 0
        if tag % 2 == 1:
            first = index
    return runs


def _subject(
    points: NDArray[np.float32],
    first: int,
    last: int,
    text: str,
    offsets: Sequence[tuple[int, int]],
) -> tuple[int, int] | None:
    """Return the words that a value is about; None if it is about the user."""
    queries = points[first:last].mean(axis=0)
    begin_scores = points[:, POINTER : 2 * POINTER] @ queries[:POINTER]
    begin = int(begin_scores.argmax())
    if begin == 0:
        return None
    keys = points[begin : begin + MAX_SUBJECT_TOKENS, 3 * POINTER :]
    end = begin + int((keys @ queries[2 * POINTER : 3 * POINTER]).argmax())
    return _whole_words(text, offsets[begin - 1][0], offsets[end - 1][1])


def _whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a part of a text, extended to whole words."""
    while start > 0 and text[start - 1].isalnum() and text[start].isalnum():
        start -= 1
    while end < len(text) and text[end].isalnum() and text[end - 1].isalnum():
        end += 1
    return start, end
