"""Knowledge updates: is the newest truth what facts, or the first recalled item, say?

    python -m bench.knowledge_updates LONGMEMEVAL_POOL [--facts off|explicit]

Reads the questions of LongMemEval's type `knowledge-update`. The evidence of each is in several
sessions, of which the newest has the current truth. Each question has a memory of its own, with its
evidence sessions. Three shares are printed:

- facts:  a fact of `facts.list(at=question date)` contains all words of the answer
- first:  the first hit of a search for the question is the newest evidence turn
- either: one of both
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.recall import Conversation, Filled, _read_longmemeval, fill
from retain import Memory, Scope
from retain.base.settings import Settings
from retain.search.words import analyse

TYPE = "knowledge-update"


@dataclass(frozen=True)
class Outcome:
    """What a memory says about one question."""

    facts: bool
    first: bool

    @property
    def either(self) -> bool:
        """Whether facts or the first hit say the newest truth."""
        return self.facts or self.first


def read(path: Path) -> list[tuple[Conversation, dict[str, Any]]]:
    """Return each question with the conversation of its evidence sessions."""
    with gzip.open(path) as file:
        data = json.load(file)
    sessions = {session["id"]: session for session in data["sessions"]}
    conversations = []
    for question in data["questions"]:
        if question["type"] == TYPE:
            own = [sessions[id] for id in question["gold_sessions"]]
            own.sort(key=lambda session: session["date"])
            conversation = _read_longmemeval({"sessions": own, "questions": [question]})
            conversations.append((conversation, question))
    return conversations


def judge(me: Scope, filled: Filled, question: dict[str, Any]) -> Outcome:
    """Compare what the memory says at the time of the question with its evidence."""
    (conversation,) = filled.conversations
    (gold,) = conversation.questions
    newest_turn = max(question["gold_turns"], key=list(filled.units.values()).index)
    answer = set(analyse(re.sub(r"\(.*?\)", "", str(question["answer"]))))
    facts = me.facts.list(at=gold.at, limit=1000)
    in_facts = any(answer <= set(analyse(fact.statement)) for fact in facts)
    hits = me.search(gold.text, at=gold.at).hits[:1]
    is_first = [filled.units.get((hit.id, hit.seq)) for hit in hits] == [newest_turn]
    return Outcome(in_facts, is_first)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Knowledge updates in facts and in search.")
    parser.add_argument("file", type=Path, help="LongMemEval's pool of sessions and questions")
    parser.add_argument("--facts", choices=["off", "explicit"], default="explicit")
    parser.add_argument("--embedder", default="static")
    options = parser.parse_args()
    outcomes = []
    learned = 0
    for conversation, question in read(options.file):
        settings = Settings(
            database="memory:",
            embedder=options.embedder,
            facts=options.facts,
        )
        with Memory.open(settings=settings) as memory:
            filled = fill(memory, [conversation])
            me = memory.scope(user=conversation.user)
            outcomes.append(judge(me, filled, question))
            learned += len(me.facts.list(include_replaced=True, limit=1000))
    count = len(outcomes)
    print(f"{count} questions, facts {options.facts}, {learned} facts learned")
    for name in ("facts", "first", "either"):
        share = sum(getattr(outcome, name) for outcome in outcomes) / count
        print(f"{name:8s} {share:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
