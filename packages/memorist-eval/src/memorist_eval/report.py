"""The report of an evaluation as Markdown, with charts that GitHub renders (Mermaid)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memorist_eval.judge import (
    ANSWER_INSTRUCTION,
    JUDGE_PROMPT,
    JUDGE_SYSTEM,
    NO_REFERENCE,
    REFERENCE,
)

COLUMNS = (
    "R@5",
    "R@10",
    "R@25",
    "R@50",
    "All@5",
    "All@10",
    "Any@5",
    "Any@10",
    "H@1",
    "MRR",
    "N@10",
)
CATEGORY_COLUMNS = ("R@5", "R@10", "All@10", "H@1", "MRR", "N@10")
BAR_HEIGHT = 36
METRICS = """A hit counts if the file names its message (LongMemEval: its session) as evidence. Questions without \
evidence are not scored.

- R@k: share of the evidence among the first k hits. All@k: share of questions with all evidence among them. \
Any@k: share of questions with any. The hits of a question are 60 messages, too few for k = 25 and 50 of sessions.
- H@1: share of questions whose first hit is evidence. MRR: mean of 1 ÷ rank of the first evidence. N@10: nDCG of \
the first 10 hits.
- The interval is a bootstrap of R@10 (500 samples, 95 %).
- Times are those of one call in this process, on this machine, with nothing else measured at the same time.
- Context: what `context` assembles for the question in an empty session, within the budget, with the facts that \
the setting `facts` asks for. Its evidence is the \
share of the evidence messages that it contains; a long message may be shortened.
- Accuracy: correct answers ÷ all answered questions. Failed calls and unclear verdicts count as wrong."""


def render_report(report: Mapping[str, Any]) -> str:
    """Return the report as Markdown."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    yield "# Evaluation of memory with memorist"
    yield ""
    yield f"memorist {report['memorist']}, {report['created_at']}, {report['machine']}."
    yield ""
    if not report["complete"]:
        yield (
            "**Incomplete**: the run was interrupted, or questions failed. "
            "The same command continues it."
        )
        yield ""
    yield from _table(("setting", "value"), report["settings"].items())
    for file in report["files"]:
        yield from _file_lines(file)
    yield ""
    yield "## Metrics"
    yield ""
    yield METRICS
    if report["judge"]:
        yield from _prompt_lines(report)


def _file_lines(file: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield f"## {file['benchmark']}: {file['file']}"
    yield ""
    counts = (
        f"{file['conversations']:,} conversations, {file['messages']:,} messages, "
        f"{file['questions']:,} questions"
    )
    if file["selected"] < file["questions"]:
        counts += f", of which {file['selected']:,} were selected, evenly spread"
    if file["asked"] < file["selected"]:
        counts += f"; {file['asked']:,} have results"
    yield f"{counts}. SHA-256 `{file['sha256'][:16]}…`."
    if not file["asked"]:
        return
    yield ""
    yield "### Retrieval"
    yield ""
    yield from _score_table("evidence", file["retrieval"], COLUMNS)
    if len(file["by_category"]) > 1:
        yield ""
        yield from _score_table("category", file["by_category"], CATEGORY_COLUMNS)
        yield ""
        bars = {group["name"]: group["R@10"] for group in file["by_category"]}
        yield from _chart("R@10 by category", bars)
    yield ""
    yield "### Time and context"
    yield ""
    context = file["context"]
    times = [
        (name, f"{values['p50']:.1f} ms", f"{values['p95']:.1f} ms")
        for name, values in file["times_ms"].items()
    ]
    yield from _table(("call", "p50", "p95"), times)
    yield ""
    evidence = ""
    if context["evidence"] is not None:
        evidence = f" and {context['evidence']:.3f} of the evidence"
    yield (
        f"A context has {context['tokens_mean']:,.0f} tokens on average "
        f"(p95 {context['tokens_p95']:,.0f}){evidence}."
    )
    if "answers" in file:
        yield from _answer_lines(file["answers"])


def _answer_lines(groups: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names = ("questions", "correct", "wrong", "unclear", "failed", "no_reference")
    yield ""
    yield "### Answers"
    yield ""
    rows = [
        (group["name"], *(group[name] for name in names), f"{group['accuracy']:.3f}")
        for group in groups
    ]
    heads = ("category", *(name.replace("_", " ") for name in names), "accuracy")
    yield from _table(heads, rows)
    yield ""
    bars = {group["name"]: group["accuracy"] for group in groups if group["questions"]}
    yield from _chart("Accuracy by category", bars)


def _prompt_lines(report: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield "## Prompts"
    yield ""
    yield f"The model {report['model']} got each context with this at the end of its system prompt:"
    yield ""
    yield from _quote(ANSWER_INSTRUCTION)
    yield ""
    yield f"The judge {report['judge']} got the system prompt:"
    yield ""
    yield from _quote(JUDGE_SYSTEM)
    yield ""
    yield "and the prompt:"
    yield ""
    yield from _quote(JUDGE_PROMPT)
    yield ""
    yield "where the reference is, for questions with an answer and without:"
    yield ""
    yield from _quote(f"{REFERENCE}\n\n{NO_REFERENCE}")


def _quote(text: str) -> Iterator[str]:
    yield "```text"
    yield text
    yield "```"


def _score_table(
    head: str, groups: Sequence[Mapping[str, Any]], columns: Sequence[str]
) -> Iterator[str]:
    rows: list[tuple[object, ...]] = []
    for group in groups:
        low, high = group["R@10 95 %"]
        scores = [f"{group[name]:.3f}" if name in group else "–" for name in columns]
        rows.append((group["name"], group["questions"], *scores, f"{low:.3f}–{high:.3f}"))
    if not rows:
        rows.append(("–", 0, *("–" for _ in columns), "–"))
    return _table((head, "n", *columns, "R@10 95 %"), rows)


def _table(heads: Sequence[str], rows: Any) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for row in rows:
        yield f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |"


def _chart(title: str, bars: Mapping[str, float]) -> Iterator[str]:
    """Yield a horizontal bar chart of values between 0 and 1."""
    names = ", ".join('"' + name.replace('"', "'") + '"' for name in bars)
    height = 100 + BAR_HEIGHT * len(bars)
    yield "```mermaid"
    yield f'%%{{init: {{"xyChart": {{"height": {height}, "showDataLabel": true}}}}}}%%'
    yield "xychart-beta horizontal"
    yield f'    title "{title}"'
    yield f"    x-axis [{names}]"
    yield "    y-axis 0 --> 1"
    yield f"    bar [{', '.join(f'{value:.3f}' for value in bars.values())}]"
    yield "```"
