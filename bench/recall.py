"""Recall of search beyond `memorist eval`: with facts, and on both engines.

    python -m bench.recall --agree FOLDER     # compare the top ten of SQLite and PostgreSQL
    python bench/recall.py LOCOMO --profile default --facts --run OUT.jsonl   # with LoCoMo's observations as facts

`memorist eval FILE` measures recall on one file. Only `search` sees the questions.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memorist import Memory, Scope
from memorist.base.settings import Settings
from memorist_eval.benchmark_files import Conversation, GoldQuestion, Unit, read_benchmark
from memorist_eval.evaluate import HITS_PER_QUESTION, load_conversation

PROFILES = {
    "words": {"embedder": "none"},
    "static": {"embedder": "static"},
    "encoder": {"embedder": "encoder"},
    "default": {},
}


def read(path: Path) -> list[Conversation]:
    """Return the conversations of a file; the format is detected from its content."""
    return read_benchmark(path).conversations


@dataclass(frozen=True)
class Filled:
    """A database with the conversations, and the unit of each message."""

    memory: Memory
    conversations: Sequence[Conversation]
    units: dict[tuple[str, int], Unit]

    def answers(
        self, kinds: Sequence[str] = ("messages",)
    ) -> Iterator[tuple[GoldQuestion, list[Unit]]]:
        """Search for every question, and yield it with the units of its hits, best first.

        A fact takes a place in the list, but is no evidence.
        """
        for conversation in self.conversations:
            me = self.memory.scope(user=conversation.user)
            for question in conversation.questions:
                hits = me.search(
                    question.text, kinds=kinds, at=question.at, limit=HITS_PER_QUESTION
                )
                yield (
                    question,
                    [self.units.get((hit.id, hit.seq), f"fact {hit.id}") for hit in hits],
                )


def fill(memory: Memory, conversations: Sequence[Conversation], *, facts: bool = False) -> Filled:
    """Load conversations session by session, then run the background jobs.

    facts: also add the observations of the conversations as facts
    """
    units: dict[tuple[str, int], Unit] = {}
    for conversation in conversations:
        me = memory.scope(user=conversation.user, agent="assistant")
        units |= load_conversation(me, conversation)
        if facts:
            _add_facts(me, conversation, units)
    memory.run_jobs()
    return Filled(memory, conversations, units)


def _add_facts(me: Scope, conversation: Conversation, units: dict[tuple[str, int], Unit]) -> None:
    """Add the observations of a conversation as facts with their evidence."""
    messages = {
        unit: f"{session}#{seq}"
        for (session, seq), unit in units.items()
        if session in conversation.sessions
    }
    for observation in conversation.observations:
        me.facts.add(
            observation.statement,
            subject=observation.subject,
            evidence=[messages[unit] for unit in observation.units if unit in messages],
        )


def run(
    file: Path, profile: str, out: Path, database: str = "", *, facts: bool = False, first: int = 0
) -> None:
    """Run a profile on a file, from an empty database to the list of hits.

    facts: add observations as facts, and search both
    first: only this many conversations
    """
    conversations = read(file)
    if first:
        conversations = conversations[:first]
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            database=database or f"sqlite:///{folder}/recall.db",
            facts="off",  # none but those of the file
            **PROFILES[profile],  # type: ignore[arg-type]
        )
        with Memory.open(settings=settings) as memory:
            started = time.perf_counter()
            filled = fill(memory, conversations, facts=facts)
            kinds = ["messages", "facts"] if facts else ["messages"]
            loaded_at = time.perf_counter()
            with out.open("w", encoding="utf-8") as lines:
                for question, result in filled.answers(kinds):
                    lines.write(json.dumps({"id": question.id, "ranked": result}) + "\n")
            question_count = sum(len(conversation.questions) for conversation in conversations)
            each = (time.perf_counter() - loaded_at) / max(question_count, 1) * 1000
            print(
                f"{file.name} {profile}: {len(filled.units)} messages in {loaded_at - started:.1f} s, "
                f"{question_count} questions, {each:.1f} ms each",
                file=sys.stderr,
            )


def agree(folder: Path, profile: str) -> None:
    """Compare the top ten of both engines for every file of a folder."""
    from testkit.servers import PostgresServer

    server = PostgresServer("modern")
    try:
        for file in sorted(folder.glob("*.json.gz")):
            tops: list[dict[str, list[Any]]] = []
            for url in ("", server.create(f"recall{len(file.name)}")):
                with tempfile.NamedTemporaryFile(suffix=".jsonl") as out:
                    run(file, profile, Path(out.name), url)
                    lines = [
                        json.loads(line)
                        for line in Path(out.name).read_text(encoding="utf-8").splitlines()
                    ]
                tops.append({line["id"]: line["ranked"][:10] for line in lines})
            first, other = tops
            shared = [len(set(first[id]) & set(other[id])) / max(len(first[id]), 1) for id in first]
            same = sum(first[id] == other[id] for id in first)
            print(
                f"{file.name}: {sum(shared) / len(shared):.3f} of the top ten in both, "
                f"{same} of {len(first)} lists identical"
            )
    finally:
        server.close()


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description="Recall of search on conversations with known evidence."
    )
    parser.add_argument("file", nargs="?", type=Path, help="a file of conversations and questions")
    parser.add_argument(
        "--profile",
        choices=PROFILES,
        help="settings for the search, such as words only or an embedder; may be repeated",
        action="append",
    )
    parser.add_argument("--run", type=Path, metavar="OUT.jsonl", help="write the hits to this file")
    parser.add_argument(
        "--agree",
        type=Path,
        metavar="FOLDER",
        help="compare the top ten of SQLite and PostgreSQL",
    )
    parser.add_argument(
        "--facts", action="store_true", help="add LoCoMo's observations as facts, and search both"
    )
    parser.add_argument(
        "--first", type=int, default=0, metavar="N", help="only the first N conversations of FILE"
    )
    parser.add_argument(
        "--database", default="", help="an empty database; default: a new SQLite file"
    )
    options = parser.parse_args()
    if options.agree:
        agree(options.agree, (options.profile or ["default"])[0])
    elif options.file and options.run:
        run(
            options.file,
            (options.profile or ["default"])[0],
            options.run,
            options.database,
            facts=options.facts,
            first=options.first,
        )
    else:
        parser.error("pass FILE and --run OUT.jsonl, or --agree FOLDER")
    return 0


if __name__ == "__main__":
    sys.exit(main())
