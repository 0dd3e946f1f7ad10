"""The token estimate: its error on real texts of each kind, and its speed."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.harness import RATIO_COLUMNS, TEXT, Plan, Table, Target, race, versus
from bench.texts import DEFAULT_FOLDERS, held_out, samples
from retain.base import tokens

MAIN = ("English", "German", "Chinese", "Python", "JavaScript", "C", "JSON", "Markdown", "logs")
MIN_TEXTS = 8


def run(plan: Plan) -> Iterator[Table]:
    """Yield errors, then speed. RETAIN_BENCH_TEXTS names more folders, separated like PATH."""
    more = [
        Path(folder)
        for folder in os.environ.get("RETAIN_BENCH_TEXTS", "").split(os.pathsep)
        if folder
    ]
    plan.progress("reading texts")
    texts_by_class = samples([*more, *DEFAULT_FOLDERS], plan.amount(300, 60))
    texts = {
        name: [text for file, text in pieces if held_out(file)]
        for name, pieces in texts_by_class.items()
    }
    yield errors({name: pieces for name, pieces in texts.items() if len(pieces) >= MIN_TEXTS})
    yield speed(plan)


def errors(texts: dict[str, list[str]]) -> Table:
    """Compare estimated with exact counts by kind of text, on held-out files."""
    newer, older = tokens.counter("gpt-4o"), tokens.counter("gpt-4")
    rows = []
    for name in [
        *(name for name in MAIN if name in texts),
        *(name for name in texts if name not in MAIN),
    ]:
        exact = [newer(text) for text in texts[name]]
        guess = [tokens.estimate(text) for text in texts[name]]
        off = sorted(ours / theirs - 1 for ours, theirs in zip(guess, exact, strict=True))
        before = statistics.fmean(
            ours / older(text) - 1 for ours, text in zip(guess, texts[name], strict=True)
        )
        naive = statistics.fmean(
            len(text.encode()) / 4 / theirs - 1
            for text, theirs in zip(texts[name], exact, strict=True)
        )
        size = statistics.fmean(abs(error) for error in off)
        most = Target(at_most=0.08)
        rows.append([
            name, str(len(off)), f"{sum(exact):,}", percent(statistics.fmean(off)), f"{100 * size:.1f} %", percent(off[0]),
            percent(off[-1]), percent(before), percent(naive), most.verdict(abs(statistics.fmean(off))),
        ])  # fmt: skip
    about = (
        "Estimate against the exact count (o200k) of texts from files that it was not fitted to; worst is one single text. "
        "Aim: a mean within 8 %."
    )
    columns = (
        "texts",
        "how many",
        "tokens",
        "mean",
        "mean size",
        "lowest",
        "highest",
        "mean, cl100k",
        "bytes / 4",
        "",
    )
    return Table("The estimate of tokens", about, columns, rows)


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
    about = "What is called on everything that is stored; the exact count needs the extra `tokens`."
    return Table("Speed of the estimate", about, RATIO_COLUMNS, rows)


def percent(share: float) -> str:
    """Format a share as a percentage."""
    return f"{100 * share:+.1f} %"
