"""Scores: the metrics agree with the project's scoring script, on invented rankings."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from invented_benchmarks import write_json

from memorist_eval.benchmark_files import BenchmarkFile, Conversation, GoldQuestion, Unit
from memorist_eval.evaluate import Result
from memorist_eval.metrics import percentile
from memorist_eval.scores import summarize

AT = datetime(2024, 6, 20, tzinfo=UTC)
NAMES = (
    "R@5 R@10 R@25 R@50 All@5 All@10 Any@5 Any@10 H@1 MRR N@10".split()  # noqa: SIM905
)
RANKINGS: list[tuple[list[int], list[int]]] = [
    ([0], [0, 1, 2]),
    ([3, 9], [3, 4, 5, 6, 7, 8, 9]),
    ([11, 30], list(range(40))),
    ([50, 2], list(range(60))),
    ([70], list(range(60))),
    ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], [12, 40, 1, 41, 2, 3]),
]
"""The evidence and the hits of each question."""


def result(id: str, ranked: list[Unit], **values: Any) -> Result:
    """Return the result of a question."""
    return Result(id, ranked, 1.0, 2.0, 100, [], **values)


def summary_of(
    tmp_path: Path, benchmark: str, questions: list[GoldQuestion], ranked: list[list[Unit]]
) -> dict[str, Any]:
    """Return the scores of questions with these hits."""
    file = BenchmarkFile(
        write_json(tmp_path / "f.json", []), benchmark, [Conversation("c", {}, questions)]
    )
    results = {
        question.id: result(question.id, hits)
        for question, hits in zip(questions, ranked, strict=True)
    }
    return summarize(file, questions, results)


def figures(group: dict[str, Any]) -> str:
    """Return the scores of a group as the scoring script prints them."""
    low, high = group["R@10 95 %"]
    scores = " ".join(f"{name}={group[name]:.3f}" for name in NAMES if name in group)
    return f"n={group['questions']:4d} {scores}  R@10 95%CI [{low:.3f},{high:.3f}]"


def test_locomo(tmp_path: Path) -> None:
    questions = [
        GoldQuestion(
            f"c/{number}", "?", AT, str(number % 5 + 1), frozenset(f"D1:{i}" for i in gold)
        )
        for number, (gold, _) in enumerate(RANKINGS)
    ]
    questions.append(GoldQuestion("c/6", "?", AT, "3", frozenset()))
    ranked: list[list[Unit]] = [[f"D1:{i}" for i in hits] for _, hits in RANKINGS]
    summary = summary_of(tmp_path, "locomo", questions, [*ranked, []])
    assert {group["name"]: figures(group) for group in summary["retrieval"]} == {
        "categories 1–4": "n=   5 R@5=0.450 R@10=0.567 R@25=0.667 R@50=0.767 "
        "All@5=0.200 All@10=0.400 Any@5=0.800 Any@10=0.800 H@1=0.600 MRR=0.683 N@10=0.524  R@10 95%CI [0.233,0.900]",
        "category 5, adversarial": "n=   1 R@5=0.000 R@10=0.000 R@25=0.000 R@50=0.000 "
        "All@5=0.000 All@10=0.000 Any@5=0.000 Any@10=0.000 H@1=0.000 MRR=0.000 N@10=0.000  R@10 95%CI [0.000,0.000]",
        "all": "n=   6 R@5=0.375 R@10=0.472 R@25=0.556 R@50=0.639 "
        "All@5=0.167 All@10=0.333 Any@5=0.667 Any@10=0.667 H@1=0.500 MRR=0.569 N@10=0.436  R@10 95%CI [0.167,0.806]",
    }
    by_category = {group["name"]: round(group["R@10"], 3) for group in summary["by_category"]}
    assert by_category == {
        "1 multi-hop": 0.667,
        "2 temporal": 1.0,
        "3 open": 0.0,
        "4 single-hop": 0.5,
        "5 adversarial": 0.0,
    }


def test_longmemeval(tmp_path: Path) -> None:
    questions = [
        GoldQuestion(
            f"q{number}",
            "?",
            AT,
            "ab"[number % 2],
            frozenset(f"s{i // 4}#{i % 4}" for i in gold),
            frozenset(f"s{i // 4}" for i in gold),
        )
        for number, (gold, _) in enumerate(RANKINGS)
    ]
    ranked: list[list[Unit]] = [[f"s{i // 4}#{i % 4}" for i in hits] for _, hits in RANKINGS]
    summary = summary_of(tmp_path, "longmemeval", questions, ranked)
    assert {group["name"]: figures(group) for group in summary["retrieval"]} == {
        "sessions": "n=   6 R@5=0.583 R@10=0.667 "  # 60 messages are of fewer than 50 sessions
        "All@5=0.333 All@10=0.500 Any@5=0.833 Any@10=0.833 H@1=0.667 MRR=0.722 N@10=0.603  R@10 95%CI [0.417,0.917]",
        "messages": "n=   6 R@5=0.375 R@10=0.472 R@25=0.556 R@50=0.639 "
        "All@5=0.167 All@10=0.333 Any@5=0.667 Any@10=0.667 H@1=0.500 MRR=0.569 N@10=0.436  R@10 95%CI [0.167,0.806]",
    }


def test_beam(tmp_path: Path) -> None:
    types = ["event_ordering", "summarization", "knowledge_update", "temporal_reasoning"]
    questions = [
        GoldQuestion(f"b/{number}", "?", AT, types[number % 4], frozenset(gold))
        for number, (gold, _) in enumerate(RANKINGS)
    ]
    ranked: list[list[Unit]] = [list(hits) for _, hits in RANKINGS]
    summary = summary_of(tmp_path, "beam", questions, ranked)
    assert {group["name"]: figures(group) for group in summary["retrieval"]} == {
        "factual": "n=   2 R@5=0.250 R@10=0.250 R@25=0.500 R@50=0.750 "
        "All@5=0.000 All@10=0.000 Any@5=0.500 Any@10=0.500 H@1=0.000 MRR=0.208 N@10=0.153  R@10 95%CI [0.000,0.500]",
        "all labelled": "n=   6 R@5=0.375 R@10=0.472 R@25=0.556 R@50=0.639 "
        "All@5=0.167 All@10=0.333 Any@5=0.667 Any@10=0.667 H@1=0.500 MRR=0.569 N@10=0.436  R@10 95%CI [0.167,0.806]",
    }


def test_failures_and_unclear_verdicts_count_as_wrong(tmp_path: Path) -> None:
    questions = [GoldQuestion(f"c/{number}", "?", AT, "4", frozenset()) for number in range(5)]
    file = BenchmarkFile(
        write_json(tmp_path / "f.json", []), "locomo", [Conversation("c", {}, questions)]
    )
    results = [
        result("c/0", [], answer="Bergen", verdict="correct"),
        result("c/1", [], answer="Oslo", verdict="wrong"),
        result("c/2", [], answer="Bergen", verdict="unclear"),
        result("c/3", [], error="The model failed."),
        result("c/4", []),  # the file has no reference answer
    ]
    summary = summarize(file, questions, {item.id: item for item in results})
    assert summary["answers"][-1] == {
        "name": "all",
        "questions": 4,
        "correct": 1,
        "wrong": 1,
        "unclear": 1,
        "failed": 1,
        "no_reference": 1,
        "accuracy": 0.25,
    }


@pytest.mark.parametrize(("share", "expected"), [(0.5, 2.0), (0.95, 4.0), (0.0, 1.0)])
def test_percentiles(share: float, expected: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], share) == expected
    assert percentile([], share) == 0.0
