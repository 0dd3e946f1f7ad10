"""Recall of search: load conversations with known evidence and search them through the public API.

    python bench/recall.py FILE --profile default --run OUT.jsonl   # write the hits, for score.py
    python bench/recall.py --all FOLDER       # run and score every profile on every file
    python -m bench.recall --agree FOLDER     # compare the top ten of SQLite and PostgreSQL
    python bench/recall.py LOCOMO --profile default --facts --run OUT.jsonl   # with LoCoMo's observations as facts

A file has one of three formats: LoCoMo, LongMemEval's pool of sessions, or BEAM. All of them use the
same settings, and only `search` sees the questions.
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

from retain import Memory, NewMessage, Scope
from retain.base.settings import Settings

PROFILES = {
    "words": {"embedder": "none"},
    "static": {"embedder": "static"},
    "encoder": {"embedder": "encoder"},
    "default": {},
}
UNITS_PER_QUESTION = 60
"""Hits per question in a run; score.py reads 50."""


@dataclass(frozen=True)
class Turn:
    """One message of a conversation; `unit` is its id in the file."""

    unit: str | int
    message: NewMessage


@dataclass(frozen=True)
class GoldQuestion:
    """A question of the file, its time, and the units that are its evidence (`gold`)."""

    id: str
    text: str
    at: datetime
    type: str
    gold: frozenset[str | int]


@dataclass(frozen=True)
class Observation:
    """A sentence of the file about a person, and the units that say so: a stand-in for a fact."""

    subject: str
    statement: str
    units: Sequence[str | int]


@dataclass(frozen=True)
class Conversation:
    """The sessions of one user, and the questions about them."""

    user: str
    sessions: dict[str, list[Turn]] = field(default_factory=dict)
    questions: list[GoldQuestion] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)


def read(path: Path) -> list[Conversation]:
    """Return the conversations of a file; the format is detected from its content."""
    with gzip.open(path) as file:
        data = json.load(file)
    if isinstance(data, dict):
        return [_read_longmemeval(data)]
    return [_read_beam(item) if "messages" in item else _read_locomo(item) for item in data]


def _read_locomo(data: dict[str, Any]) -> Conversation:
    """Parse LoCoMo: two people talk in dated sessions; images have captions."""
    conversation = Conversation(data["sample_id"])
    for turn in data["turns"]:
        content: dict[str, Any] = {"text": turn["text"]}
        if turn.get("caption"):
            content["attachments"] = [{"type": "image", "description": turn["caption"]}]
        at = datetime.strptime(turn["date"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        message = NewMessage("user", content, author=turn["speaker"], created_at=at)
        conversation.sessions.setdefault(f"{conversation.user}/{turn['session']}", []).append(
            Turn(turn["id"], message)
        )
    for _, subject, statement, evidence in data["observations"]:
        units = re.findall(r"D\d+:\d+", str(evidence))
        conversation.observations.append(Observation(subject, statement, units))
    for question in data["questions"]:
        conversation.questions.append(
            GoldQuestion(
                question["id"],
                question["question"],
                _end(conversation),
                str(question["category"]),
                frozenset(question["evidence"]),
            )
        )
    return conversation


def _read_longmemeval(data: dict[str, Any]) -> Conversation:
    """Parse LongMemEval: sessions of a user with an assistant, and dated questions."""
    conversation = Conversation("pool")
    for session in data["sessions"]:
        at = _day(session["date"])
        conversation.sessions[session["id"]] = [
            Turn(
                f"{session['id']}#{index}", NewMessage(turn["role"], turn["content"], created_at=at)
            )
            for index, turn in enumerate(session["turns"])
        ]
    for question in data["questions"]:
        gold = frozenset(question["gold_turns"] or question["gold_sessions"])
        conversation.questions.append(
            GoldQuestion(
                question["id"],
                question["question"],
                _day(question["question_date"]),
                question["type"],
                gold,
            )
        )
    return conversation


def _read_beam(data: dict[str, Any]) -> Conversation:
    """Parse BEAM: one very long chat of a user with an assistant."""
    conversation = Conversation(str(data["name"]))
    conversation.sessions[f"chat {conversation.user}"] = [
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
    for question in data["questions"]:
        conversation.questions.append(
            GoldQuestion(
                question["id"],
                question["question"],
                _end(conversation),
                question["type"],
                frozenset(question["evidence"]),
            )
        )
    return conversation


def _day(text: str) -> datetime:
    return datetime.strptime(re.sub(r" \(\w+\)", "", text), "%Y/%m/%d %H:%M").replace(tzinfo=UTC)


def _end(conversation: Conversation) -> datetime:
    """Return the day after the last message: the time of questions without a date."""
    times = (turn.message.created_at for turns in conversation.sessions.values() for turn in turns)
    return max(at for at in times if at) + timedelta(days=1)


@dataclass(frozen=True)
class Filled:
    """A database with the conversations, and the unit of each message."""

    memory: Memory
    conversations: Sequence[Conversation]
    units: dict[tuple[str, int], str | int]

    def answers(
        self, kinds: Sequence[str] = ("messages",)
    ) -> Iterator[tuple[GoldQuestion, list[str | int]]]:
        """Search for every question, and yield it with the units of its hits, best first.

        A fact takes a place in the list, but is no evidence.
        """
        for conversation in self.conversations:
            me = self.memory.scope(user=conversation.user)
            for question in conversation.questions:
                hits = me.search(
                    question.text, kinds=kinds, at=question.at, limit=UNITS_PER_QUESTION
                )
                yield (
                    question,
                    [self.units.get((hit.id, hit.seq), f"fact {hit.id}") for hit in hits],
                )


def fill(memory: Memory, conversations: Sequence[Conversation], *, facts: bool = False) -> Filled:
    """Load conversations session by session, then run the background jobs.

    facts: also add the observations of the conversations as facts
    """
    units: dict[tuple[str, int], str | int] = {}
    for conversation in conversations:
        me = memory.scope(user=conversation.user, agent="assistant")
        for id, turns in conversation.sessions.items():
            me.sessions.add(id)
            for start in range(0, len(turns), 500):
                part = turns[start : start + 500]
                stored = me.messages.extend(id, [turn.message for turn in part])
                units |= {
                    (id, message.seq): turn.unit for message, turn in zip(stored, part, strict=True)
                }
        if facts:
            _add_facts(me, conversation, units)
    memory.run_jobs()
    return Filled(memory, conversations, units)


def _add_facts(
    me: Scope, conversation: Conversation, units: dict[tuple[str, int], str | int]
) -> None:
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
        "--all",
        type=Path,
        metavar="FOLDER",
        help="run and score every profile on every file of a folder",
    )
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
    if options.all:
        table(options.all, options.profile or list(PROFILES))
    elif options.agree:
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
        parser.error("pass FILE and --run OUT.jsonl, or --all FOLDER, or --agree FOLDER")
    return 0


if __name__ == "__main__":
    sys.exit(main())
