"""Scores of the results of a benchmark file: by group of questions, by category, with times and answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memorist_eval.benchmark_files import (
    ADVERSARIAL,
    BEAM,
    LOCOMO,
    LONGMEMEVAL,
    TITLES,
    BenchmarkFile,
    GoldQuestion,
    Unit,
)
from memorist_eval.evaluate import Result
from memorist_eval.metrics import interval, mean, mean_scores, percentile, score

LOCOMO_CATEGORIES = {
    "1": "1 multi-hop",
    "2": "2 temporal",
    "3": "3 open",
    "4": "4 single-hop",
    ADVERSARIAL: "5 adversarial",
}
NOT_FACTUAL = ("event_ordering", "summarization")
"""BEAM's types of questions whose evidence is a large part of the chat."""

NOT_OF_SESSIONS = [f"{name}@{depth}" for name in ("R", "All", "Any") for depth in (25, 50)]
"""Metrics that sessions do not have: the hits of a question may be of fewer sessions."""

Scored = tuple[GoldQuestion, dict[str, float]]


def summarize(
    file: BenchmarkFile, questions: Sequence[GoldQuestion], results: Mapping[str, Result]
) -> dict[str, Any]:
    """Return the scores of the questions that have results, as JSON."""
    measured = [
        (question, results[question.id]) for question in questions if question.id in results
    ]
    turns = [turns for item in file.conversations for turns in item.sessions.values()]
    summary: dict[str, Any] = {
        "file": file.path.name,
        "sha256": file.digest(),
        "benchmark": TITLES[file.benchmark],
        "conversations": len(file.conversations),
        "messages": sum(map(len, turns)),
        "questions": sum(len(item.questions) for item in file.conversations),
        "selected": len(questions),
        "asked": len(measured),
    }
    summary |= _retrieval(file.benchmark, measured)
    summary["times_ms"] = {
        "search": _times([result.search_ms for _, result in measured]),
        "context": _times([result.context_ms for _, result in measured]),
    }
    summary["context"] = _contexts(measured)
    if any(result.answer or result.error for _, result in measured):
        summary["answers"] = _answers(file.benchmark, measured)
    return summary


def _retrieval(benchmark: str, asked: Sequence[tuple[GoldQuestion, Result]]) -> dict[str, Any]:
    by_message = [
        (question, score(result.ranked, question.gold))
        for question, result in asked
        if question.gold
    ]
    main = by_message
    if benchmark == LOCOMO:
        groups = {
            "categories 1–4": [row for row in by_message if row[0].type != ADVERSARIAL],
            "category 5, adversarial": [row for row in by_message if row[0].type == ADVERSARIAL],
            "all": by_message,
        }
    elif benchmark == LONGMEMEVAL:
        main = [
            (question, score(_sessions(result.ranked), question.gold_sessions))
            for question, result in asked
            if question.gold_sessions
        ]
        groups = {"sessions": main, "messages": by_message}
    else:
        factual = [row for row in by_message if row[0].type not in NOT_FACTUAL]
        groups = {"factual": factual, "all labelled": by_message}
    retrieval = [_group(name, rows) for name, rows in groups.items() if rows]
    by_category = [
        _group(_category(benchmark, type), [row for row in main if row[0].type == type])
        for type in _types(question for question, _ in main)
    ]
    if benchmark == LONGMEMEVAL:
        of_sessions = [group for group in retrieval if group["name"] == "sessions"]
        for group in [*of_sessions, *by_category]:
            for name in NOT_OF_SESSIONS:
                del group[name]
    return {"retrieval": retrieval, "by_category": by_category}


def _sessions(ranked: Sequence[Unit]) -> list[str]:
    """Return the sessions of messages, in the order of their first message."""
    return list(dict.fromkeys(str(unit).rpartition("#")[0] for unit in ranked))


def _types(questions: Iterable[GoldQuestion]) -> list[str]:
    return sorted({question.type for question in questions})


def _category(benchmark: str, type: str) -> str:
    if benchmark == LOCOMO:
        return LOCOMO_CATEGORIES.get(type, type)
    return type.replace("_", " ") if benchmark == BEAM else type


def _group(name: str, rows: Sequence[Scored]) -> dict[str, Any]:
    scores = [values for _, values in rows]
    low, high = interval([values["R@10"] for values in scores])
    return {
        "name": name,
        "questions": len(rows),
        **mean_scores(scores),
        "R@10 95 %": [low, high],
    }


def _times(values: Sequence[float]) -> dict[str, float]:
    return {"p50": percentile(values, 0.5), "p95": percentile(values, 0.95)}


def _contexts(asked: Sequence[tuple[GoldQuestion, Result]]) -> dict[str, float | None]:
    tokens = [result.context_tokens for _, result in asked]
    evidence = [
        len(question.gold.intersection(result.context_units)) / len(question.gold)
        for question, result in asked
        if question.gold
    ]
    return {
        "tokens_mean": mean(tokens),
        "tokens_p95": percentile(tokens, 0.95),
        "evidence": mean(evidence) if evidence else None,
    }


def _answers(benchmark: str, asked: Sequence[tuple[GoldQuestion, Result]]) -> list[dict[str, Any]]:
    """Return the verdicts by category; questions without a reference answer are counted separately."""
    groups = {
        _category(benchmark, type): [row for row in asked if row[0].type == type]
        for type in _types(question for question, _ in asked)
    }
    groups["all"] = list(asked)
    return [_verdicts(name, [result for _, result in rows]) for name, rows in groups.items()]


def _verdicts(name: str, results: Sequence[Result]) -> dict[str, Any]:
    tried = [result for result in results if result.answer or result.error]
    counts = {
        verdict: sum(result.verdict == verdict for result in tried)
        for verdict in ("correct", "wrong", "unclear")
    }
    return {
        "name": name,
        "questions": len(tried),
        **counts,
        "failed": sum(bool(result.error) for result in tried),
        "no_reference": len(results) - len(tried),
        "accuracy": counts["correct"] / len(tried) if tried else 0.0,
    }
