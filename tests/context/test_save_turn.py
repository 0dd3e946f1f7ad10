"""A turn is stored completely or not at all: messages, references, model call and report, once per
key.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from memorist import JsonText, Memory, NewMessage, Scope
from memorist.base.errors import Conflict, Invalid, KeyReused, MemoristError, NotFound, TooLarge
from memorist.context.report import Report
from memorist.kinds.interactions import Usage
from testkit.failures import invalid, raised
from testkit.limited import Limited
from testkit.memories import problems, scope_of

BIG = "".join(f"line {n} of a long output\n" for n in range(2000))


@pytest.fixture
def session(me: Scope) -> str:
    return me.sessions.add().id


def tool_turn(id: str = "c1", output: Any = BIG) -> list[dict[str, Any]]:
    """Return a turn in which a tool was run."""
    call = {
        "id": id,
        "type": "function",
        "function": {"name": "shell", "arguments": '{"command": "make all"}'},
    }
    return [
        {"role": "user", "content": "Build it."},
        {"role": "assistant", "content": {"text": "", "tool_calls": [call]}},
        {"role": "tool", "content": {"tool_call_id": id, "text": output}},
        {"role": "assistant", "content": "Done."},
    ]


def everything(memory: Memory) -> dict[str, int]:
    return {name: count for name, count in memory.counts().items() if count}


def test_a_turn_stores_messages_call_and_report(memory: Memory, me: Scope, session: str) -> None:
    """In one call."""
    context = me.context(session, "Build it.")
    usage = Usage("gpt-5-mini", latency_ms=12.5, tokens_in=100, tokens_out=20, cost=0.001)
    turn = me.save_turn(session, tool_turn(output="ok"), usage=usage, context=context)
    assert (turn.session, turn.first_seq, turn.last_seq) == (session, 1, 4)
    (call,) = me.interactions.list()
    assert (call.id, call.model, call.route, call.tokens_in, call.session) == (
        turn.interaction, "gpt-5-mini", "chat", 100, session,
    )  # fmt: skip
    assert me.turns.get(turn.id) == turn
    assert turn.report is not None
    assert Report.from_json(turn.report) == context.report
    assert list(me.turns.list(session)) == [turn]
    assert problems(memory) == []


def test_an_output_above_the_threshold_becomes_a_reference(me: Scope, session: str) -> None:
    """Stored completely; the message has one line with the command and the placeholder."""
    turn = me.save_turn(session, tool_turn())
    message = me.messages.get(session, turn.first_seq + 2)
    assert message.content["tool_call_id"] == "c1"
    (ref,) = me.refs.list()
    assert message.text.endswith(ref.placeholder)
    assert "shell make all" in message.text
    assert "\n" not in message.text
    assert (ref.session, ref.source, ref.bytes) == (session, "tool", len(BIG))
    assert me.refs.get(ref.key, tail=1).text.strip() == "line 1999 of a long output"
    assert ref.placeholder in json.dumps(me.context(session, "and?").messages, ensure_ascii=False)


def test_an_output_at_the_threshold_is_unchanged(
    open_memory: Callable[..., Memory], limited: Limited
) -> None:
    """Byte for byte."""
    limited(REF_TOKENS=500)
    me = scope_of(open_memory(), "ada", "scout")
    session = me.sessions.add().id
    raw = JsonText('{ "tool_call_id":"c1" ,"text": "short" }')
    me.save_turn(session, [{"role": "tool", "content": raw}, NewMessage("tool", "short")])
    assert [message.raw for message in me.messages.window(session)] == [
        str(raw),
        '{"text":"short"}',
    ]
    assert list(me.refs.list()) == []


@pytest.mark.parametrize("shape", ["text", "openai", "anthropic", "json"])
def test_outputs_in_every_shape(me: Scope, session: str, shape: str) -> None:
    """Also as parts of a user message, and as JSON instead of text."""
    contents: dict[str, tuple[str, Any]] = {
        "text": ("tool", BIG),
        "openai": ("tool", {"tool_call_id": "c1", "content": BIG}),
        "anthropic": (
            "user",
            {"parts": [{"type": "tool_result", "tool_use_id": "c1", "content": BIG}]},
        ),
        "json": (
            "tool",
            {"tool_call_id": "c1", "content": [{"n": n, "name": f"row {n}"} for n in range(1000)]},
        ),
    }
    role, content = contents[shape]
    turn = me.save_turn(session, [{"role": role, "content": content}])
    (ref,) = me.refs.list()
    assert ref.placeholder in me.messages.get(session, turn.first_seq).raw
    assert len(me.messages.get(session, 1).raw) < 1000
    if shape == "json":
        assert me.refs.get(ref.key, path="$[7].name").text == "row 7"


def test_user_and_assistant_messages_are_not_captured(me: Scope, session: str) -> None:
    me.save_turn(session, [{"role": "user", "content": BIG}, {"role": "assistant", "content": BIG}])
    assert [message.text for message in me.messages.window(session)] == [BIG, BIG]


def test_an_output_larger_than_a_message(
    open_memory: Callable[..., Memory], limited: Limited
) -> None:
    """A captured output is exempt from the message limit; any other is not."""
    limited(MAX_MESSAGE_BYTES=2048)
    me = scope_of(open_memory(), "ada", "scout")
    session = me.sessions.add().id
    me.save_turn(session, tool_turn())
    raised(TooLarge, me.save_turn, session, [{"role": "user", "content": BIG}])


def test_a_retry_changes_nothing_and_returns_the_first_result(
    memory: Memory, me: Scope, session: str
) -> None:
    """Though every attempt prepares references."""
    usage = {"model": "m", "latency_ms": 1}
    first = me.save_turn(
        session, tool_turn(), usage=usage, key="turn-1", context=me.context(session, "x")
    )
    before = everything(memory)
    assert me.save_turn(session, tool_turn(), usage=usage, key="turn-1") == first
    assert everything(memory) == before
    raised(KeyReused, me.save_turn, session, tool_turn(output=BIG + "!"), key="turn-1")
    assert everything(memory) == before
    memory.purge()
    assert everything(memory) == before


def test_a_failure_leaves_nothing(memory: Memory, me: Scope, session: str) -> None:
    """P3: no message without its reference, no reference without its message."""
    me.messages.append(session, "user", "before")
    before = everything(memory)
    wrong: list[tuple[list[Any], dict[str, Any]]] = [
        ([*tool_turn(), {"role": "nobody", "content": "x"}], {}),
        ([*tool_turn(), {"role": "user"}], {}),
        (tool_turn(), {"usage": {"model": ""}}),
        (tool_turn(), {"usage": {"modell": "m"}}),
        (tool_turn(), {"usage": {"model": "m", "latency_ms": -1}}),
        (tool_turn(), {"key": ""}),
        ([], {}),
    ]
    for messages, options in wrong:
        raised(MemoristError, me.save_turn, session, messages, **options)
    raised(NotFound, me.save_turn, "nowhere", tool_turn())
    raised(Invalid, me.save_turn, session, "text")
    assert everything(memory) == before, "also before anybody collects garbage"


def test_concurrent_turns_are_stored_completely(memory: Memory, me: Scope, session: str) -> None:
    """P2, P4: 32 turns, each sent twice, concurrently."""

    def send(n: int) -> int:
        turn = me.save_turn(session, tool_turn(f"c{n // 2}", f"{n // 2} {BIG}"), key=f"k{n // 2}")
        return turn.first_seq

    with ThreadPoolExecutor(8) as pool:
        firsts = list(pool.map(send, range(64)))
    assert firsts[::2] == firsts[1::2]
    assert sorted(set(firsts)) == list(range(1, 129, 4))
    assert len(me.refs.list(limit=100)) == 32
    assert len(list(me.turns.list(session, limit=100))) == 32
    for turn in me.turns.list(session, limit=100):
        ids = {
            m.content.get("tool_call_id")
            for m in me.messages.window(session)
            if turn.first_seq <= m.seq <= turn.last_seq
        }
        assert len(ids - {None}) == 1
    assert problems(memory) == []


def test_the_tools_of_all_kinds(memory: Memory, me: Scope) -> None:
    """Names are fixed; each has a schema, and answers an object to any input."""
    names = [tool.name for tool in me.tools()]
    assert {"manage_long_term_memory", "save_to_journal", "save_to_core", "store_memory", "retrieve_memory",
            "search_memory", "get_state", "set_state", "list_state", "remove_state"} <= set(names)  # fmt: skip
    assert len(names) == len(set(names))
    for tool in me.tools():
        assert tool.openai()["function"]["parameters"]["type"] == "object"
        assert tool.anthropic()["input_schema"]["additionalProperties"] is False
        assert "error" in tool.call({"no such argument": 1})
        values: tuple[Any, ...] = ("", "\x00", 7, None, [], {}, "x" * 20_000)
        for value in values:
            for argument in tool.parameters["properties"]:
                assert isinstance(tool.call({argument: value}), dict)
    assert [tool.name for tool in me.tools(["save_to_core"])] == ["save_to_core"]
    invalid("names", me.tools, ["nope"])


def test_tools_write_with_the_agent_as_source(me: Scope) -> None:
    """The caller determines the source, not the content."""
    tools = {tool.name: tool for tool in me.tools()}
    tools["save_to_core"].call({"content": "I like maps."})
    key = tools["store_memory"].call({"content": "text", "description": "a text", "type": "note"})[
        "memory_key"
    ]
    tools["manage_long_term_memory"].call({"operation": "append", "content": "Tea."})
    me.entries.add("mine", kind="core")
    assert {entry.content: entry.source for entry in me.entries.list()} == {
        "I like maps.": "agent",
        "mine": "user",
    }
    assert me.refs.info(key).source == "agent"
    assert [version.source for version in me.notes.history()] == ["agent"]


def test_turns_without_keys_are_separate(me: Scope, session: str) -> None:
    """Two identical turns without keys are two turns."""
    first, two = me.save_turn(session, tool_turn()), me.save_turn(session, tool_turn())
    assert (first.last_seq + 1, first.id == two.id) == (two.first_seq, False)
    raised(Conflict, me.messages.append, session, "user", "x", expected_last_seq=first.last_seq)


def test_wrong_types_are_rejected(me: Scope, session: str) -> None:
    wrong: Any
    for wrong in ({}, "context", me.context(session).messages):
        invalid("context", me.save_turn, session, [{"role": "user", "content": "x"}], context=wrong)
    assert me.messages.window(session) == []
    invalid("names", me.tools, "save_to_core")
