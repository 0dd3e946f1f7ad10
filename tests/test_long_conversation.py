"""Conversations of thousands of messages with tool calls, generated from a seed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist import Memory, NewMessage, Settings
from memorist.base.errors import BadAnswer, ModelError, ModelUnavailable
from memorist.content import pairing
from memorist.models import Models
from memorist.testing import ModelRequest, ScriptedModel
from testkit.limited import Limited
from testkit.memories import problems, scope_of
from testkit.models import with_model
from testkit.sizes import FULL

SEED = 20261115
MESSAGES = 3000 if FULL else 1500
KEEP = 3
SAID = "So far they asked for things, called tools to look at each of them, read what was found there, and answered."
BAD = ("", "I'm sorry, I can't do that.", "no " * 5000, "\ufffd" * 200, "<html>502</html>")


def call(shape: int, id: str, mark: str) -> dict[str, Any]:
    """Return a tool call in the format of one of three kinds of client."""
    if shape == 0:
        return {
            "text": mark,
            "parts": [{"type": "tool_call", "id": id, "name": "look", "arguments": {"at": mark}}],
        }
    if shape == 1:
        return {
            "text": mark,
            "tool_calls": [
                {"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}}
            ],
        }
    return {
        "parts": [
            {"type": "text", "text": mark},
            {"type": "tool_use", "id": id, "name": "look", "input": {}},
        ]
    }


def result(shape: int, id: str, mark: str) -> NewMessage:
    if shape == 2:
        return NewMessage(
            "user", {"parts": [{"type": "tool_result", "tool_use_id": id, "content": mark}]}
        )
    return NewMessage("tool", {"text": mark, "tool_call_id": id})


def turns(chance: random.Random) -> Iterator[list[NewMessage]]:
    """Yield turns: a question, rounds of parallel calls with results in any order, an answer."""
    number = count(1)
    for turn in count():
        values = [NewMessage("user", f"m{next(number)}m asks about thing {turn}.")]
        for round_ in range(chance.choice((0, 0, 0, 1, 1, 2, 4))):
            shape = chance.randrange(3)
            ids = [f"c{turn}-{round_}-{n}" for n in range(chance.choice((1, 1, 2, 5)))]
            content = call(shape, ids[0], f"m{next(number)}m calls.")
            for id in ids[1:]:
                more = call(shape, id, "")
                for key in ("parts", "tool_calls"):
                    content[key] = [*content.get(key, []), *more.get(key, [])]
            values.append(NewMessage("assistant", content))
            chance.shuffle(ids)
            size = chance.choice((1, 1, 1, 50, 2000))
            values += [
                result(shape, id, f"m{next(number)}m found" + " and more" * size) for id in ids
            ]
        yield [*values, NewMessage("assistant", f"m{next(number)}m answers thing {turn}.")]


def numbers(prompt: str) -> list[int]:
    """Return the numbers of the messages in a request, each once."""
    return list(dict.fromkeys(int(n) for n in re.findall(r"m(\d+)m", prompt)))


@pytest.mark.slow
@pytest.mark.slow_on_postgres
def test_folding_thousands_of_messages_with_random_model_failures(
    open_memory: Callable[..., Memory], limited: Limited
) -> None:
    """A summary covers exactly what successful calls read; every cut is
    between pairs.
    """
    chance = random.Random(SEED)
    calls: list[list[int]] = []
    failures = 0

    def answer(request: ModelRequest) -> str:
        calls.append(numbers(request.prompt))
        if chance.random() < 0.15:
            raise ModelUnavailable(model="m", problem="at random")
        return (
            chance.choice(BAD)
            if chance.random() < 0.15
            else f"This is what came in the last {len(calls[-1])} messages."
        )

    limited(SUMMARY_INPUT_TOKENS=2000)
    memory = open_memory(summary_enabled=True)
    me = scope_of(with_model(memory, ScriptedModel(answer)), "ada", "scout")
    me.sessions.add("s")
    folds: list[tuple[int, int]] = []
    sent = 0
    for turn in turns(chance):
        me.messages.extend("s", turn)
        sent += len(turn)
        calls.clear()
        before = me.summaries.get("s")
        try:
            me.summaries.fold("s")
        except (BadAnswer, ModelError):
            failures += 1
        new = me.summaries.list("s", limit=1000).items
        new = [item for item in reversed(new) if item.number > before.number]
        seen = iter(calls)
        for item in new:
            wanted = list(range(item.covers_from, item.covers_to + 1))
            inputs: list[int] = []
            while inputs != wanted:  # a group too big for one call is given in several
                inputs += [number for number in next(seen) if number not in inputs]
            folds.append((item.covers_from, item.covers_to))
        if sent >= MESSAGES:
            break
    messages = list(everything(me))
    free = pairing.safe_cuts(messages)
    assert [item[0] for item in folds] == [1, *[item[1] + 1 for item in folds[:-1]]]
    assert all(free[last] for _, last in folds), "a call was parted from its result"
    assert [message.seq for message in messages] == list(range(1, sent + 1))
    assert len(folds) > 30
    assert failures > 10
    assert me.sessions.get("s").summarized_count == folds[-1][1] > sent - 120
    assert problems(memory) == []


def everything(me: Any) -> Iterator[Any]:
    after = None
    while True:
        page = me.messages.list("s", limit=1000, after=after)
        yield from page
        if not (after := page.next):
            return


# -- any graph of calls and results -----------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.just(("user",)),
        st.just(("assistant",)),
        st.just(("tool",)),
        st.tuples(
            st.just("call"), st.integers(0, 2), st.lists(st.integers(0, 5), min_size=1, max_size=4)
        ),
        st.just(("fold",)),
    ),
    max_size=60,
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Memory]:
    limits = Settings(summary_enabled=True, summary_threshold=6, summary_keep_last=KEEP)
    with Memory.open(
        "memory:", settings=limits, models=Models(limits, summary=ScriptedModel(SAID))
    ) as memory:
        yield memory


_sessions = count()


@given(STEPS)
def test_tool_calls_and_results_are_never_separated(
    shared: Memory, steps: list[tuple[Any, ...]]
) -> None:
    """Parallel calls, results in any order and up to five messages late, and results
    without a call.
    """
    me = scope_of(shared, "ada", "scout")
    session = me.sessions.add(f"s{next(_sessions)}").id
    due: list[tuple[int, NewMessage]] = []
    ids = count()

    def say(message: NewMessage) -> None:
        me.messages.append(session, message.role, message.content)  # type: ignore[arg-type]

    for place, step in enumerate(steps):
        if step[0] == "fold":
            me.summaries.fold(session)
        elif step[0] == "call":
            content: dict[str, Any] = {"text": "calls"}
            for delay in step[2]:
                id = f"c{next(ids)}"
                for key, value in call(step[1], id, "x").items():
                    if key != "text":
                        content[key] = [*content.get(key, []), *value]
                due.append((place + delay, result(step[1], id, "x")))
            say(NewMessage("assistant", content))
        else:
            say(NewMessage(step[0], "Some words."))
        for item in [item for item in due if item[0] <= place]:
            due.remove(item)
            say(item[1])
    for _, message in due:
        say(message)
    me.summaries.fold(session)
    messages = me.messages.window(session)
    free = pairing.safe_cuts(messages)
    assert all(free[item.covers_to] for item in me.summaries.list(session))
    if len(messages) > 30 and any(
        free[1 : len(messages) - KEEP + 1]
    ):  # pairs that overlap may leave no place to cut
        assert me.sessions.get(session).summarized_count > 0, "folding makes progress"
