"""Knowledge updates: is the newest truth what facts, or the first recalled item, say?

    python -m bench.knowledge_updates LONGMEMEVAL_POOL [--facts off|explicit]
    python -m bench.knowledge_updates LONGMEMEVAL_POOL --facts model --model NAME --url URL

Reads the questions of LongMemEval's type `knowledge-update`. The evidence of each is in several
sessions, of which the newest has the current truth. Each question has a memory of its own, with its
evidence sessions. Three shares are printed:

- facts:  a fact of `facts.list(at=question date)` contains all words of the answer
- first:  the first hit of a search for the question is the newest evidence turn
- either: one of both
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench.recall import Filled, fill
from memorist import Memory, Scope
from memorist.base.settings import Settings
from memorist.search.words import analyse
from memorist_eval.benchmark_files import Conversation, Turn, read_benchmark

TYPE = "knowledge-update"
MODEL_SECONDS = 600
"""A model without a GPU needs minutes for a session."""


@dataclass(frozen=True)
class Outcome:
    """What a memory says about one question."""

    facts: bool
    first: bool

    @property
    def either(self) -> bool:
        """Whether facts or the first hit say the newest truth."""
        return self.facts or self.first


def read(path: Path) -> list[Conversation]:
    """Return a conversation for each question, with the sessions of its evidence, oldest first."""
    conversations = []
    for pool in read_benchmark(path).conversations:
        for question in pool.questions:
            if question.type == TYPE:
                sessions = {id: pool.sessions[id] for id in question.gold_sessions}
                by_date = sorted(sessions.items(), key=lambda session: _date(session[1]))
                conversations.append(Conversation(pool.user, dict(by_date), [question]))
    return conversations


def _date(turns: Sequence[Turn]) -> datetime:
    at = turns[0].message.created_at
    assert at is not None
    return at


def judge(me: Scope, filled: Filled) -> Outcome:
    """Compare what the memory says at the time of the question with its evidence."""
    (conversation,) = filled.conversations
    (question,) = conversation.questions
    newest_turn = max(question.gold, key=list(filled.units.values()).index)
    answer = set(analyse(re.sub(r"\(.*?\)", "", question.answer)))
    facts = me.facts.list(at=question.at, limit=1000)
    in_facts = any(answer <= set(analyse(fact.statement)) for fact in facts)
    hits = me.search(question.text, at=question.at).hits[:1]
    is_first = [filled.units.get((hit.id, hit.seq)) for hit in hits] == [newest_turn]
    return Outcome(in_facts, is_first)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Knowledge updates in facts and in search.")
    parser.add_argument("file", type=Path, help="LongMemEval's pool of sessions and questions")
    parser.add_argument("--facts", choices=["off", "explicit", "model"], default="explicit")
    parser.add_argument("--model", default="", help="the model that learns facts")
    parser.add_argument("--url", default="", help="its OpenAI-compatible address")
    parser.add_argument("--first", type=int, help="only this many questions")
    parser.add_argument("--embedder", default="static")
    options = parser.parse_args()
    if options.facts == "model" and not (options.model and options.url):
        parser.error("--facts model needs --model and --url")
    settings = Settings(
        database="memory:",
        embedder=options.embedder,
        facts=options.facts,
        facts_tokens_per_day=0,
        model=options.model,
        base_url=options.url,
        model_seconds=MODEL_SECONDS,
    )
    conversations = read(options.file)[: options.first]
    outcomes = []
    learned = calls = failed = 0
    for number, conversation in enumerate(conversations, 1):
        with Memory.open(settings=settings) as memory:
            filled = fill(memory, [conversation])
            me = memory.scope(user=conversation.user)
            outcomes.append(judge(me, filled))
            learned += len(me.facts.list(include_replaced=True, limit=1000))
            asked = memory.scope().interactions.list(route="facts", limit=500)
            calls += len(asked)
            failed += sum(bool(call.error) for call in asked)
        print(f"{number} of {len(conversations)}: {outcomes[-1]}", file=sys.stderr, flush=True)
    count = len(outcomes)
    print(f"{count} questions, facts {options.facts}, {learned} facts learned")
    if calls:
        print(f"{calls} model calls, {failed} without a valid answer")
    for name in ("facts", "first", "either"):
        share = sum(getattr(outcome, name) for outcome in outcomes) / count
        print(f"{name:8s} {share:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
