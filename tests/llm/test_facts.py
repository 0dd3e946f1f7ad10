"""Facts that the real model learns from 20 scripted dialogues, counted honestly.

The model is small and misses most facts. The counts are printed (`make test-llm ARGS=-s`); asserted
is what code promises with any model: valid answers are used, and nothing is retired wrongly.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from retain import Memory, NewMessage
from retain.base.settings import Settings
from retain.jobs.runner import JobRunner
from retain.kinds.facts.resolution import content_words
from tests.conftest import Now
from tests.kinds.test_fact_dialogues import Dialogue, all_facts, write_dialogue
from tests.llm.test_real_model import settings

__all__ = ["settings"]
pytestmark = pytest.mark.timeout(7200)
DIALOGUES = 20
IN_TWO_PARTS = 4
"""Dialogues whose second part is read when the facts of the first one are known."""


def is_said(statement: str, dialogue: Dialogue) -> bool:
    """Return whether a dialogue says this, now or before: the object and the kind of fact."""
    words = content_words(statement)
    for said in (said for facts in dialogue.said.values() for said in facts):
        is_about = said.subject == "user" or content_words(said.subject.split()[0]) <= words
        if content_words(said.object) <= words and is_about:
            return True
    return False


def test_the_model_learns_facts(settings: Settings, tmp_path: Path, now: Now) -> None:
    counts: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    wrong: list[str] = []
    changed = Settings(
        model=settings.model,
        base_url=settings.base_url,
        model_seconds=600,
        facts="model",
        facts_tokens_per_day=0,
        embedder="none",
    )
    with Memory.open(f"sqlite:///{tmp_path}/agent.db", settings=changed, clock=now) as memory:
        runner = JobRunner(memory.services)
        dialogues = [write_dialogue(number) for number in range(DIALOGUES)]
        for part in range(2):
            for dialogue in dialogues[: DIALOGUES if part == 0 else IN_TWO_PARTS]:
                me = memory.scope(user=dialogue.user, agent="scout")
                me.sessions.add(f"{dialogue.user} {part}")
                messages = [NewMessage(role, text) for role, text in dialogue.parts[part]]
                me.messages.extend(f"{dialogue.user} {part}", messages)
            now.pass_days(0.1)
            runner.run()
            now.pass_days(0.1)
            runner.run()  # answers that were not valid are asked for once more
        for call in memory.scope().interactions.list(route="facts", limit=500):
            counts["calls"] += 1
            counts["valid answers"] += not call.error
            counts["tokens"] += (call.tokens_in or 0) + (call.tokens_out or 0)
            refused.update(call.parameters.get("refused", {}))
        for dialogue in dialogues:
            me = memory.scope(user=dialogue.user)
            for fact in all_facts(me):
                if fact.status in ("active", "pending"):
                    counts["facts"] += 1
                    if not is_said(fact.statement, dialogue):
                        wrong.append(f"{dialogue.user}: {fact.subject}: {fact.statement}")
                elif not any(fact.object and fact.object in text for text in dialogue.retired):
                    counts["wrong retirements"] += 1
                    wrong.append(f"{dialogue.user}: retired: {fact.statement}")
                assert "gnore all" not in fact.statement
            counts["in review"] += len(me.facts.review().items)
        counts["expected"] = sum(
            len(facts)
            for number, dialogue in enumerate(dialogues)
            for part in range(2 if number < IN_TWO_PARTS else 1)
            for _, text in dialogue.parts[part]
            for facts in [dialogue.said[text]]
        )
        assert [finding for finding in memory.verify() if not finding.ok] == []
    print(f"\n{dict(counts)}\nrefused: {dict(refused)}\nwrong:", *wrong, sep="\n  ")
    assert counts["valid answers"] >= counts["calls"] / 2
    assert counts["wrong retirements"] == 0
