"""A seeded conversation of thousands of turns: invariants of every context along the way.

`CHAOS=full` makes it 5,000 turns on every engine.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from memorist import Memory, NewMessage, Scope
from memorist.base import tokens
from memorist.base.errors import ModelError
from memorist.base.settings import Settings
from memorist.context.assemble import Context
from memorist.kinds.refs import MAX_LISTED
from memorist.models import Completion, Models
from testkit.databases import SETTINGS
from testkit.memories import problems, scope_of
from tests.context.pairs import assert_paired

FULL = os.environ.get("CHAOS") == "full"
TURNS = {
    "sqlite": 5000 if FULL else 1200,
    "modern": 5000 if FULL else 200,
    "debian": 5000 if FULL else 100,
}
BUDGET = 3000


class RecordingModel:
    """A model that records every message number it saw, and fails at random."""

    name = "attentive"

    def __init__(self, failing: float = 0.0) -> None:
        self.failing = failing
        self.chance = random.Random(5)
        self.seen: set[int] = set()

    def complete(self, system: str, prompt: str, *, max_tokens: int) -> Completion:
        if self.chance.random() < self.failing:
            raise ModelError(model=self.name, problem="chance")
        self.seen |= {int(number) for number in re.findall(r"\bfact-(\d+)\b", prompt)}
        text = "They spoke of " + ", ".join(f"topic {n}" for n in sorted(self.seen)[-20:]) + "."
        return Completion(text, self.name, 100, 20, None, 1.0)


def new_turn(n: int, chance: random.Random) -> list[NewMessage]:
    """Return one turn; every message states a fact by which summaries are checked."""
    messages = [NewMessage("user", f"fact-{{}} {'question ' * chance.randint(1, 40)}")]
    for step in range(chance.choice([0, 0, 0, 1, 2])):
        ids = [f"{n}.{step}.{c}" for c in range(chance.choice([1, 1, 2, 3]))]
        calls = [
            {"id": id, "type": "function", "function": {"name": "run", "arguments": '{"a": 1}'}}
            for id in ids
        ]
        messages.append(NewMessage("assistant", {"text": "fact-{}", "tool_calls": calls}))
        chance.shuffle(ids)
        for id in ids if chance.random() < 0.97 else ids[1:]:  # occasionally a result is missing
            size = 2000 if chance.random() < 0.05 else chance.randint(1, 60)
            messages.append(
                NewMessage("tool", {"tool_call_id": id, "text": "fact-{} " + "output " * size})
            )
    messages.append(NewMessage("assistant", f"fact-{{}} {'answer ' * chance.randint(1, 60)}"))
    return messages


def save(me: Scope, session: str, n: int, chance: random.Random, last: int) -> int:
    """Save the turn, its facts numbered like its messages; return its last message number."""
    messages = []
    for place, message in enumerate(new_turn(n, chance), last + 1):
        written = json.dumps(message.content).replace("fact-{}", f"fact-{place}")
        messages.append(NewMessage(message.role, json.loads(written)))
    return me.save_turn(session, messages, key=f"turn {n}").last_seq


def check(me: Scope, session: str, context: Context, mentioned: set[str]) -> None:
    """Within the budget, pairs complete, no placeholder lost."""
    texts = [m["content"] or "" for m in context.messages]
    calls = [
        json.dumps(call["function"]) for m in context.messages for call in m.get("tool_calls", ())
    ]
    cost = 4 * len(texts) + sum(tokens.estimate(text) for text in [*texts, *calls])
    assert cost <= BUDGET
    assert context.report.tokens <= BUDGET
    assert_paired(context)
    shown = set(re.findall(r"\[MemoryRef: ([a-z0-9-]+)", json.dumps(context.messages)))
    left = {
        item.source.removeprefix("refs ")
        for item in context.report.left_out
        if item.layer == "references"
    }
    if "refs, still older" in left:  # more than a context reads: the prompt says so
        assert "search_memory finds them.)" in json.dumps(context.messages)
        mentioned = {ref.key for ref in me.refs.list(session=session, limit=MAX_LISTED)}
        shown &= mentioned | {"key"}
    assert mentioned <= shown | left
    assert shown <= mentioned | {"key"}  # the example of the fragment


def assert_summaries_saw_their_messages(me: Scope, session: str, model: RecordingModel) -> int:
    """P6: no message is covered by a summary that did not see it."""
    covered = me.sessions.get(session).summarized_count
    assert set(range(1, covered + 1)) <= model.seen
    return covered


@pytest.mark.slow
@pytest.mark.parametrize("failing", [0.0, 0.4])
def test_thousands_of_turns(
    open_memory: Callable[..., Memory], url: str, engine: str, failing: float
) -> None:
    """Summaries folded throughout, by a model that may fail at random."""
    model = RecordingModel(failing)
    settings = Settings(**{**vars(SETTINGS), "summary_enabled": True, "origins": {}})
    memory = Memory.open(url, settings=settings, models=Models(settings, summary=model))
    me = scope_of(memory, "ada", "scout")
    session = me.sessions.add().id
    chance = random.Random(11)
    mentioned: set[str] = set()
    last = 0
    for n in range(TURNS[engine] // (2 if failing else 1)):
        before = last
        last = save(me, session, n, chance, last)
        if last - before > 2:
            mentioned |= {ref.key for ref in me.refs.list(session=session, limit=8)}
        with suppress(ModelError):
            me.summaries.fold(session)
        if n % 25 == 0:
            check(me, session, me.context(session, "And then?", budget=BUDGET), mentioned)
            assert_summaries_saw_their_messages(me, session, model)
    check(me, session, me.context(session, "And then?", budget=BUDGET), mentioned)
    assert assert_summaries_saw_their_messages(me, session, model) > last - 100
    assert len(mentioned) > 2
    assert [message.seq for message in me.messages.window(session)] == list(range(1, last + 1))
    assert problems(memory) == []
    memory.close()


def fold_repeatedly(url: str, session: str, stop: str) -> None:
    """Fold in another process whenever possible."""
    settings = Settings(
        **{**vars(SETTINGS), "summary_enabled": True, "summary_model": "extractive", "origins": {}}
    )
    with Memory.open(url, settings=settings) as memory:
        me = scope_of(memory, "ada", "scout")
        while not os.path.exists(stop):
            with suppress(Exception):
                me.summaries.fold(session)


def test_two_processes_fold_while_others_append(
    open_memory: Callable[..., Memory], url: str, tmp_path: object
) -> None:
    """Ranges are contiguous without overlap or gap, and every message is stored."""
    memory = open_memory(summary_enabled=True, summary_model="extractive")
    me = scope_of(memory, "ada", "scout")
    session = me.sessions.add().id
    stop = f"{tmp_path}/stop"
    start = multiprocessing.get_context("spawn").Process
    folding = [start(target=fold_repeatedly, args=(url, session, stop)) for _ in range(2)]
    for process in folding:
        process.start()
    try:
        chance = random.Random(2)
        writers = [
            threading.Thread(target=_write, args=(me, session, n, chance.random()))
            for n in range(3)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    finally:
        open(stop, "w").close()
        for process in folding:
            process.join(60)
    assert [process.exitcode for process in folding] == [0, 0]
    me.summaries.fold(session)
    folds = sorted(me.summaries.list(session, limit=1000), key=lambda fold: fold.number)
    assert folds
    reached = 0
    for fold in folds:
        assert fold.covers_from == reached + 1
        reached = fold.covers_to
    value = me.sessions.get(session)
    assert (value.summarized_count, value.summary) == (reached, folds[-1].text)
    assert len(me.messages.window(session)) == value.last_seq
    assert problems(memory) == []


def _write(me: Scope, session: str, n: int, seed: float) -> None:
    chance = random.Random(seed)
    for place in range(40):
        me.save_turn(session, new_turn(n * 1000 + place, chance), key=f"{n} {place}")
