"""Measure what is learned from dialogues without a model, through the public interface.

    python -m bench.learning FOLDER [--rules] [--show FILE]

FOLDER holds files of dialogues, a JSON object on each line: `turns` (`before`, the agent's message,
`text`, the user's, and `at`, a date), `expect`, what should be known after the last turn, `gone`,
what should no longer be, and `ask`, a question about the present. Each dialogue has a memory of its own, and each turn a session of its own.
Messages go in by the public interface, the background jobs learn, and `facts.list` answers. An
item of `expect` is known if one current fact contains all words of one of its alternatives.

For each file, prints the expected facts that were learned, the facts that nobody expected, the
dialogues that produced any fact, those with outdated facts that are still current, and those
that are entirely correct.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from memorist import Memory, Scope, Settings
from memorist.content.message import NewMessage
from memorist.kinds.facts.fact import Fact
from memorist.learning import reader


@dataclass
class Score:
    """The counts of a file."""

    dialogues: int = 0
    expected: int = 0
    known: int = 0
    facts: int = 0
    others: int = 0  # facts that no item expects
    learned_something: int = 0
    gone: int = 0
    still_there: int = 0
    right: int = 0  # dialogues without errors
    asked: int = 0  # dialogues with a question about the present and an answer
    profile: int = 0  # of these, how often the profile has the answer, and nothing that is gone
    first: int = 0  # how often the first hit of a search has it
    context: int = 0  # how often the context has it
    lines: list[str] = field(default_factory=list)


def judge(file: Path, embedder: str) -> Score:
    """Learn from each dialogue of a file and compare."""
    score = Score()
    for row in _rows(file):
        settings = Settings(database="memory:", embedder=embedder)
        with Memory.open(settings=settings) as memory:
            me = memory.scope(user="ada", agent="scout")
            for number, turn in enumerate(row["turns"]):
                _say(me, f"s{number}", turn)
                memory.run_jobs()
            _compare(row, list(me.facts.list(limit=100)), score)
            if row.get("ask") and row.get("expect"):
                _ask(row, me, score)
    return score


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


def _say(me: Scope, session: str, turn: dict[str, str]) -> None:
    at = datetime.fromisoformat(f"{turn['at'][:10]}T09:00:00+00:00")
    me.sessions.add(session)
    messages = [("assistant", turn["before"])] if turn["before"] else []
    for role, text in (*messages, ("user", turn["text"])):
        me.messages.extend(session, [NewMessage(role, text, created_at=at)])
        at += timedelta(minutes=1)


def _compare(row: dict[str, Any], facts: Sequence[Fact], score: Score) -> None:
    texts = [f"{fact.subject} {fact.statement} {fact.object}".casefold() for fact in facts]
    expected = row.get("expect", [])
    known = [item for item in expected if any(_says(text, item["any"]) for text in texts)]
    others = [t for t in texts if not any(_says(t, item["any"]) for item in expected)]
    current = [_without_ends(text) for text in texts]
    still = [words for words in row.get("gone", []) if any(_has(text, words) for text in current)]
    score.dialogues += 1
    score.expected += len(expected)
    score.known += len(known)
    score.facts += len(texts)
    score.others += len(others)
    score.learned_something += bool(texts)
    score.gone += bool(row.get("gone"))
    score.still_there += bool(still)
    is_right = len(known) == len(expected) and not still
    score.right += is_right
    mark = "  " if is_right else "✗ "
    said = " ⇒ ".join(turn["text"] for turn in row["turns"])
    wanted = [item["any"] for item in expected]
    score.lines.append(
        f"{mark}{said}\n     {[fact.statement for fact in facts]}\n     {wanted} {still}"
    )


def _ask(row: dict[str, Any], me: Scope, score: Score) -> None:
    """Count where the answer to a question about the present is."""
    answers = [item["any"] for item in row["expect"]]

    def has_answer(text: str) -> bool:
        return all(_says(text.casefold(), alternatives) for alternatives in answers)

    profile = me.facts.profile()
    current = [_without_ends(line.casefold()) for line in profile.splitlines()]
    is_gone = not any(_has(line, words) for words in row.get("gone", []) for line in current)
    hits = me.search(row["ask"]).hits[:1]
    session = me.sessions.add("question")
    context = me.context(session.id, row["ask"], budget=4_000)
    score.asked += 1
    score.profile += has_answer(profile) and is_gone
    score.first += any(has_answer(f"{hit.text} {hit.newer_statement or ''}") for hit in hits)
    score.context += has_answer(str(context.messages[:-1]))


def _says(text: str, alternatives: Sequence[Sequence[str]]) -> bool:
    return any(_has(text, words) for words in alternatives)


def _has(text: str, words: Sequence[str]) -> bool:
    return all(word.casefold() in text for word in words)


def _without_ends(text: str) -> str:
    """Return a text, or an empty string if it says that something has ended."""
    ends = (
        "no longer",
        "used to",
        "formerly",
        "ended",
        " died",
        "does not",
        "temporarily",
        " not ",
    )
    return "" if any(word in text for word in ends) else text


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="What is learned from dialogues.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rules", action="store_true", help="use only the built-in rules")
    parser.add_argument("--embedder", default="none", help="embedder for the `ask` questions")
    parser.add_argument("--show", default="", help="print the dialogues of this file")
    options = parser.parse_args()
    if options.rules:
        reader.is_installed = lambda: False
    print(
        f"{'file':14} dialogues  known/expected  other facts  learned anything  still there  all right"
    )
    for file in sorted(options.folder.glob("*.jsonl")):
        if options.show and file.stem not in options.show.split(","):
            continue
        score = judge(file, options.embedder)
        if options.show:
            print("\n".join(score.lines))
        share = score.known / score.expected if score.expected else 0
        print(
            f"{file.stem:14} {score.dialogues:6} {score.known:9}/{score.expected} {share:.2f}"
            f" {score.others:9} of {score.facts} {score.learned_something:10}"
            f" {score.still_there:9}/{score.gone} {score.right:9}",
            flush=True,
        )
        if score.asked:
            print(
                f"{'':14} of {score.asked} questions about the present: profile {score.profile}, "
                f"first hit {score.first}, context {score.context}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
