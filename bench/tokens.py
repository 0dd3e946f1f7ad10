"""The token estimate: its error on real texts of each class, and its speed."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.harness import RATIO_COLUMNS, TEXT, Plan, Table, Target, race, versus
from bench.texts import DEFAULT_FOLDERS, held_out, samples
from memorist.base import tokens

MAIN = ("English", "German", "Chinese", "Python", "JavaScript", "C", "JSON", "Markdown", "logs")
MIN_TEXTS = 8


def run(plan: Plan) -> Iterator[Table]:
    """Yield the errors, then the speed. MEMORIST_BENCH_TEXTS adds folders, separated as in PATH."""
    extra_folders = [
        Path(folder)
        for folder in os.environ.get("MEMORIST_BENCH_TEXTS", "").split(os.pathsep)
        if folder
    ]
    plan.progress("reading texts")
    texts_by_class = samples([*extra_folders, *DEFAULT_FOLDERS], plan.amount(300, 60))
    texts = {
        name: [text for file, text in pieces if held_out(file)]
        for name, pieces in texts_by_class.items()
    }
    yield error_table({name: pieces for name, pieces in texts.items() if len(pieces) >= MIN_TEXTS})
    yield speed(plan)


def error_table(texts: dict[str, list[str]]) -> Table:
    """Compare estimated with exact counts, by class of text, on files not used for fitting."""
    count_o200k = tokens.counter("gpt-4o")
    count_cl100k = tokens.counter("gpt-4")
    rows = []
    for name in [
        *(name for name in MAIN if name in texts),
        *(name for name in texts if name not in MAIN),
    ]:
        exact = [count_o200k(text) for text in texts[name]]
        estimated = [tokens.estimate(text) for text in texts[name]]
        errors = sorted(ours / theirs - 1 for ours, theirs in zip(estimated, exact, strict=True))
        mean_cl100k = statistics.fmean(
            ours / count_cl100k(text) - 1 for ours, text in zip(estimated, texts[name], strict=True)
        )
        naive = statistics.fmean(
            len(text.encode()) / 4 / theirs - 1
            for text, theirs in zip(texts[name], exact, strict=True)
        )
        mean_absolute = statistics.fmean(abs(error) for error in errors)
        mean = statistics.fmean(errors)
        rows.append(
            [
                name,
                str(len(errors)),
                f"{sum(exact):,}",
                percent(mean),
                f"{100 * mean_absolute:.1f} %",
                percent(errors[0]),
                percent(errors[-1]),
                percent(mean_cl100k),
                percent(naive),
                Target(at_most=0.08).verdict(abs(mean)),
            ]
        )
    about = (
        "Error of the estimate against the exact count (o200k), on files that it was not fitted to. "
        "“lowest” and “highest” are single texts. Target: a mean within 8 %."
    )
    columns = (
        "texts",
        "count",
        "tokens",
        "mean",
        "mean absolute",
        "lowest",
        "highest",
        "mean, cl100k",
        "bytes / 4",
        "",
    )
    return Table("Token estimate", about, columns, rows)


def speed(plan: Plan) -> Table:
    """Compare the time of an estimate with `len` and with the exact count."""
    exact = tokens.counter("gpt-4o")
    rows = []
    for name, text in (
        ("a message of 218 characters", TEXT),
        ("20 kB", TEXT * 94),
        ("1 MB", TEXT * 4810),
    ):
        contenders: dict[str, Callable[[], object]] = {
            "estimate": partial(tokens.estimate, text),
            "len": partial(len, text),
            "exact": partial(exact, text),
        }
        calls = max(1, 200_000 // len(text))
        timings = race(plan.amount(200, 20), calls, contenders)
        rows.append(versus(f"{name}, against len(text)", timings["estimate"], timings["len"]))
        rows.append(
            versus(f"{name}, against the exact count", timings["estimate"], timings["exact"])
        )
    about = (
        "memorist estimates everything that it stores; the exact count needs the extra `tokens`."
    )
    return Table("Speed of the token estimate", about, RATIO_COLUMNS, rows)


def percent(share: float) -> str:
    """Format a share as a percentage."""
    return f"{100 * share:+.1f} %"
