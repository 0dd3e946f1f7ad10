"""Reranking: it changes the order of hits, and failures change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from memorist import Memory
from memorist.base.errors import ModelUnavailable
from memorist.search.query import Hit
from memorist.search.rerankers import RERANK_LIMIT, rerank
from testkit.databases import SETTINGS
from testkit.memories import scope_of

TEXTS = (
    "The walrus sleeps.",
    "A walrus eats fish at noon.",
    "The walrus and the carpenter.",
    "One walrus is called Otto.",
)


class Judge:
    """A reranker for tests that returns given scores and records its input."""

    identity = "judge"

    def __init__(self, answer: Callable[[Sequence[str]], Any]) -> None:
        self.answer = answer
        self.requests: list[tuple[str, list[str]]] = []

    def scores(self, question: str, texts: Sequence[str]) -> Any:
        self.requests.append((question, list(texts)))
        return self.answer(texts)


def fail(error: Exception) -> Callable[[Sequence[str]], Any]:
    def answer(texts: Sequence[str]) -> Any:
        raise error

    return answer


def hits(count: int) -> list[Hit]:
    """Return hits with slightly decreasing scores."""
    return [
        Hit(
            "entries",
            str(number),
            0,
            f"text {number}",
            datetime(2026, 1, 1, tzinfo=UTC),
            0.5 - number / 500,
        )
        for number in range(count)
    ]


def test_a_memory_with_a_reranker(url: str) -> None:
    """It receives the query and the best texts, and its favourites come first."""
    judge = Judge(lambda texts: [100.0 * ("Otto" in text) for text in texts])
    with Memory.open(url, settings=SETTINGS, reranker=judge) as memory:
        me = scope_of(memory, "ada", "scout")
        session = me.sessions.add("s").id
        for text in TEXTS:
            me.messages.append(session, "user", text)
        results = me.search("what about the walrus", limit=2)
        assert len(results.hits) == 2
        assert results.hits[0].text == TEXTS[3]
        assert results.hits[0].why["reranker"] > 0 > results.hits[1].why["reranker"]
        assert results.legs["reranker"] == "ran: judge"
        (request,) = judge.requests
        assert request[0] == "what about the walrus"
        assert set(request[1]) == set(TEXTS)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (fail(ModelUnavailable(model="judge", problem="it sleeps")), "it sleeps"),
        (fail(ValueError("configured to fail")), "ValueError: configured to fail"),
        (fail(KeyError("x")), "KeyError"),
        (lambda texts: None, "it must return 4 numbers"),
        (lambda texts: [], "it must return 4 numbers"),
        (lambda texts: [1.0] * (len(texts) + 1), "it must return 4 numbers"),
        (lambda texts: [float("nan")] * len(texts), "it must return 4 numbers"),
        (lambda texts: [float("inf")] * len(texts), "it must return 4 numbers"),
        (lambda texts: ["good"] * len(texts), "ValueError"),
        (lambda texts: [None] * len(texts), "TypeError"),
        (lambda texts: 7, "TypeError"),
    ],
)
def test_a_failing_reranker_changes_nothing(
    answer: Callable[[Sequence[str]], Any], said: str
) -> None:
    """Whatever it raises or returns; `legs` says so."""
    before = hits(4)
    after, message = rerank(Judge(answer), "a question", before)
    assert after == before
    assert message.startswith("failed: ")
    assert said in message


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e308])
@pytest.mark.parametrize("count", [2, RERANK_LIMIT, RERANK_LIMIT + 1, 3 * RERANK_LIMIT])
def test_scores_stay_in_order(count: int, scale: float) -> None:
    """Only the best hits are reranked, they stay before the others, and scores never increase."""
    before = hits(count)
    judge = Judge(lambda texts: [scale * (int(text.split()[1]) / len(texts)) for text in texts])
    after, message = rerank(judge, "a question", before)
    assert message == "ran: judge"
    assert len(judge.requests[0][1]) == min(count, RERANK_LIMIT)
    assert [hit.id for hit in after] != [hit.id for hit in before]
    assert {hit.id for hit in after[:RERANK_LIMIT]} == {hit.id for hit in before[:RERANK_LIMIT]}
    assert after[RERANK_LIMIT:] == before[RERANK_LIMIT:]
    scores = [hit.score for hit in after]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_equal_scores_keep_the_order() -> None:
    before = hits(10)
    after, _ = rerank(Judge(lambda texts: [0.5] * len(texts)), "a question", before)
    assert [hit.id for hit in after] == [hit.id for hit in before]
    assert [hit.score for hit in after] == pytest.approx([hit.score for hit in before])


def test_one_hit_is_not_reranked() -> None:
    judge = Judge(fail(ValueError("it is not asked")))
    assert rerank(judge, "a question", hits(1)) == (hits(1), "there was nothing to put in order")
    assert judge.requests == []
