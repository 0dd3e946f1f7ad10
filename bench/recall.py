"""Recall of search: conversations with known evidence, loaded and searched through the public API.

    python bench/recall.py FILE --profile default --run OUT.jsonl     # the run that the data's own score.py reads
    python bench/recall.py --all FOLDER                               # every profile on every file in it, scored, as a table
    python -m bench.recall --agree FOLDER                             # how far SQLite and PostgreSQL have the same first ten

A file is one of three formats (LoCoMo, LongMemEval's pool, BEAM), told apart by its content. The configuration is the same
for all of them: retain as it comes. No question is shown to anything but `search`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from retain import Memory, NewMessage
from retain.base.settings import Settings

PROFILES = {
    "words": {"embedder": "none"},
    "static": {"embedder": "static"},
    "encoder": {"embedder": "encoder"},
    "default": {},
    "rerank": {"embedder": "encoder", "reranker": "late"},
}
UNITS_PER_QUESTION = 60
"""Units listed per question; score.py reads 50."""


@dataclass(frozen=True)
class Turn:
    """One message of a conversation; `unit` is its id in the file."""

    unit: str | int
    message: NewMessage


@dataclass(frozen=True)
class Ask:
    """A question of the file, its time, and its evidence."""

    id: str
    text: str
    at: datetime
    type: str
    gold: frozenset[str | int]


@dataclass(frozen=True)
class Talk:
    """The sessions of one user, and the questions about them."""

    user: str
    sessions: dict[str, list[Turn]] = field(default_factory=dict)
    asks: list[Ask] = field(default_factory=list)


def read(path: Path) -> list[Talk]:
    """Return the conversations of a file of any known format."""
    with gzip.open(path) as file:
        data = json.load(file)
    if isinstance(data, dict):
        return [_pool(data)]
    return [_chat(item) if "messages" in item else _friends(item) for item in data]


def _friends(data: dict[str, Any]) -> Talk:
    """Parse LoCoMo: two people in dated sessions; images have captions."""
    talk = Talk(data["sample_id"])
    for turn in data["turns"]:
        content: dict[str, Any] = {"text": turn["text"]}
        if turn.get("caption"):
            content["attachments"] = [{"type": "image", "description": turn["caption"]}]
        at = datetime.strptime(turn["date"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        message = NewMessage("user", content, author=turn["speaker"], created_at=at)
        talk.sessions.setdefault(f"{talk.user}/{turn['session']}", []).append(
            Turn(turn["id"], message)
        )
    for ask in data["questions"]:
        talk.asks.append(
            Ask(
                ask["id"],
                ask["question"],
                _end(talk),
                str(ask["category"]),
                frozenset(ask["evidence"]),
            )
        )
    return talk


def _pool(data: dict[str, Any]) -> Talk:
    """Parse LongMemEval: sessions of a user with an assistant, and dated questions."""
    talk = Talk("pool")
    for session in data["sessions"]:
        at = _day(session["date"])
        talk.sessions[session["id"]] = [
            Turn(
                f"{session['id']}#{place}", NewMessage(turn["role"], turn["content"], created_at=at)
            )
            for place, turn in enumerate(session["turns"])
        ]
    for ask in data["questions"]:
        gold = frozenset(ask["gold_turns"] or ask["gold_sessions"])
        talk.asks.append(
            Ask(ask["id"], ask["question"], _day(ask["question_date"]), ask["type"], gold)
        )
    return talk


def _chat(data: dict[str, Any]) -> Talk:
    """Parse BEAM: one very long conversation of a user with an assistant."""
    talk = Talk(str(data["name"]))
    talk.sessions[f"chat {talk.user}"] = [
        Turn(
            turn["id"],
            NewMessage(
                turn["role"],
                turn["text"],
                created_at=datetime.strptime(turn["date"], "%B-%d-%Y").replace(tzinfo=UTC),
            ),
        )
        for turn in data["messages"]
    ]
    for ask in data["questions"]:
        talk.asks.append(
            Ask(ask["id"], ask["question"], _end(talk), ask["type"], frozenset(ask["evidence"]))
        )
    return talk


def _day(text: str) -> datetime:
    return datetime.strptime(re.sub(r" \(\w+\)", "", text), "%Y/%m/%d %H:%M").replace(tzinfo=UTC)


def _end(talk: Talk) -> datetime:
    """Return the day after the last message, the time of questions without a date."""
    times = (turn.message.created_at for turns in talk.sessions.values() for turn in turns)
    return max(at for at in times if at) + timedelta(days=1)


@dataclass(frozen=True)
class Filled:
    """A database with the conversations, and the unit of each message."""

    memory: Memory
    talks: Sequence[Talk]
    units: dict[tuple[str, int], str | int]

    def answers(self) -> Iterator[tuple[Ask, list[str | int]]]:
        """Yield every question with the units of its hits, best first."""
        for talk in self.talks:
            me = self.memory.scope(user=talk.user)
            for ask in talk.asks:
                hits = me.search(ask.text, kinds=["messages"], at=ask.at, limit=UNITS_PER_QUESTION)
                yield ask, [self.units[hit.id, hit.seq] for hit in hits]


def fill(memory: Memory, talks: Sequence[Talk]) -> Filled:
    """Load conversations session by session, then run the background jobs."""
    units: dict[tuple[str, int], str | int] = {}
    for talk in talks:
        me = memory.scope(user=talk.user, agent="assistant")
        for id, turns in talk.sessions.items():
            me.sessions.add(id)
            for start in range(0, len(turns), 500):
                part = turns[start : start + 500]
                stored = me.messages.extend(id, [turn.message for turn in part])
                units |= {
                    (id, message.seq): turn.unit for message, turn in zip(stored, part, strict=True)
                }
    memory.run_jobs()
    return Filled(memory, talks, units)


def run(file: Path, profile: str, out: Path, database: str = "") -> None:
    """Run a profile on a file, from an empty database to the list of hits."""
    talks = read(file)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            database=database or f"sqlite:///{folder}/recall.db",
            **PROFILES[profile],  # type: ignore[arg-type]
        )
        with Memory.open(settings=settings) as memory:
            started = time.perf_counter()
            filled = fill(memory, talks)
            loaded_at = time.perf_counter()
            with out.open("w", encoding="utf-8") as lines:
                for ask, result in filled.answers():
                    lines.write(json.dumps({"id": ask.id, "ranked": result}) + "\n")
            question_count = sum(len(talk.asks) for talk in talks)
            each = (time.perf_counter() - loaded_at) / max(question_count, 1) * 1000
            times = f"{len(filled.units)} messages in {loaded_at - started:.1f} s, {question_count} questions at {each:.1f} ms each"
            print(f"{file.name} {profile}: {times}", file=sys.stderr)


def table(folder: Path, profiles: Sequence[str]) -> None:
    """Run every profile on every file of a folder and score it with the folder's score.py."""
    for file in sorted(folder.glob("*.json.gz")):
        for profile in profiles:
            with tempfile.NamedTemporaryFile(suffix=".jsonl") as out:
                run(file, profile, Path(out.name))
                command = [sys.executable, str(folder / "score.py"), str(file), out.name]
                scored = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            for line in scored.splitlines():
                print(f"{profile:8s} {line}" if "n=" in line else f"         {line}", flush=True)


def agree(folder: Path, profile: str) -> None:
    """Compare the top ten of both engines for every file of a folder."""
    from tests.servers import PostgresServer

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
                f"{file.name}: {sum(shared) / len(shared):.3f} of the first ten shared, {same} of {len(first)} lists the same"
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
        help="the search profile: words alone, or with an embedder",
        action="append",
    )
    parser.add_argument("--run", type=Path, metavar="OUT.jsonl", help="write the hits to this file")
    parser.add_argument(
        "--all",
        type=Path,
        metavar="FOLDER",
        help="run and score every profile on every file of a folder",
    )
    parser.add_argument(
        "--agree",
        type=Path,
        metavar="FOLDER",
        help="compare the first ten of SQLite and PostgreSQL",
    )
    parser.add_argument(
        "--database", default="", help="an empty database; default: a new SQLite file"
    )
    chosen = parser.parse_args()
    if chosen.all:
        table(chosen.all, chosen.profile or list(PROFILES))
    elif chosen.agree:
        agree(chosen.agree, (chosen.profile or ["default"])[0])
    elif chosen.file and chosen.run:
        run(chosen.file, (chosen.profile or ["default"])[0], chosen.run, chosen.database)
    else:
        parser.error("give a FILE and --run OUT.jsonl, or --all FOLDER, or --agree FOLDER")
    return 0


if __name__ == "__main__":
    sys.exit(main())
