"""A turn is kept whole or not at all: messages, references, the model call and the report, once for each key."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from retain import JsonText, Memory, NewMessage, Scope
from retain.base.errors import Conflict, Invalid, KeyReused, NotFound, RetainError, TooLarge
from retain.context.report import Report
from retain.kinds.interactions import Usage
from tests.conftest import Limited

BIG = "".join(f"line {n} of a long output\n" for n in range(2000))


@pytest.fixture
def session(me: Scope) -> str:
    return me.sessions.add().id


def run(id: str = "c1", output: Any = BIG) -> list[dict[str, Any]]:
    """A turn in which a tool was run."""
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


def test_a_turn_is_its_messages_its_call_and_its_report(
    memory: Memory, me: Scope, session: str
) -> None:
    """X3, T1, P3: one call keeps all of it."""
    context = me.context(session, "Build it.")
    usage = Usage("gpt-5-mini", latency_ms=12.5, tokens_in=100, tokens_out=20, cost=0.001)
    turn = me.save_turn(session, run(output="ok"), usage=usage, context=context)
    assert (turn.session, turn.first_seq, turn.last_seq) == (session, 1, 4)
    (call,) = me.interactions.list()
    assert (call.id, call.model, call.route, call.tokens_in, call.session) == (
        turn.interaction, "gpt-5-mini", "chat", 100, session,
    )  # fmt: skip
    assert me.turns.get(turn.id) == turn
    assert turn.report is not None
    assert Report.from_json(turn.report) == context.report
    assert list(me.turns.list(session)) == [turn]
    assert [finding for finding in memory.verify() if not finding.ok] == []


def test_an_output_over_the_threshold_becomes_a_reference(me: Scope, session: str) -> None:
    """R2, R5, P3: stored whole; the message has one line with the command and the placeholder."""
    turn = me.save_turn(session, run())
    message = me.messages.get(session, turn.first_seq + 2)
    assert message.content["tool_call_id"] == "c1"
    (ref,) = me.refs.list()
    assert message.text.endswith(ref.placeholder)
    assert "shell make all" in message.text
    assert "\n" not in message.text
    assert (ref.session, ref.source, ref.bytes) == (session, "tool", len(BIG))
    assert me.refs.get(ref.key, tail=1).text.strip() == "line 1999 of a long output"
    assert ref.placeholder in json.dumps(me.context(session, "and?").messages, ensure_ascii=False)


def test_an_output_at_the_threshold_passes_untouched(
    open_memory: Callable[..., Memory], limited: Limited
) -> None:
    """R2: at or under it nothing is changed, to the byte."""
    limited(REF_TOKENS=500)
    me = open_memory().scope(tenant="acme", user="ada", agent="scout")
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
    """R2: also as parts of a user's message, and as JSON instead of text."""
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


def test_a_user_and_an_assistant_may_say_as_much_as_they_like(me: Scope, session: str) -> None:
    me.save_turn(session, [{"role": "user", "content": BIG}, {"role": "assistant", "content": BIG}])
    assert [message.text for message in me.messages.window(session)] == [BIG, BIG]


def test_an_output_larger_than_a_message_may_be(
    open_memory: Callable[..., Memory], limited: Limited
) -> None:
    """R2, P16: what becomes a reference is not held to the limit of a message; what does not is."""
    limited(MAX_MESSAGE_BYTES=2048)
    me = open_memory().scope(tenant="acme", user="ada", agent="scout")
    session = me.sessions.add().id
    me.save_turn(session, run())
    with pytest.raises(TooLarge):
        me.save_turn(session, [{"role": "user", "content": BIG}])


def test_a_retry_changes_nothing_and_answers_as_the_first(
    memory: Memory, me: Scope, session: str
) -> None:
    """P2, C8: though every try would have made references of its own."""
    usage = {"model": "m", "latency_ms": 1}
    first = me.save_turn(
        session, run(), usage=usage, key="turn-1", context=me.context(session, "x")
    )
    before = everything(memory)
    assert me.save_turn(session, run(), usage=usage, key="turn-1") == first
    assert everything(memory) == before
    with pytest.raises(KeyReused):
        me.save_turn(session, run(output=BIG + "!"), key="turn-1")
    assert everything(memory) == before
    memory.purge()
    assert everything(memory) == before


def test_a_failure_leaves_nothing(memory: Memory, me: Scope, session: str) -> None:
    """P3: no message without its reference, no reference without its message."""
    me.messages.append(session, "user", "before")
    before = everything(memory)
    wrong: list[tuple[list[Any], dict[str, Any]]] = [
        ([*run(), {"role": "nobody", "content": "x"}], {}),
        ([*run(), {"role": "user"}], {}),
        (run(), {"usage": {"model": ""}}),
        (run(), {"usage": {"modell": "m"}}),
        (run(), {"usage": {"model": "m", "latency_ms": -1}}),
        (run(), {"key": ""}),
        ([], {}),
    ]
    for messages, options in wrong:
        with pytest.raises(RetainError):
            me.save_turn(session, messages, **options)
    with pytest.raises(NotFound):
        me.save_turn("nowhere", run())
    with pytest.raises(Invalid):
        me.save_turn(session, "text")  # type: ignore[arg-type]
    assert everything(memory) == before, "also before anybody collects garbage"


def test_another_users_turns_are_not_there(memory: Memory, me: Scope, session: str) -> None:
    """P11."""
    turn = me.save_turn(session, run())
    for other in (
        memory.scope(tenant="acme", user="bob", agent="scout"),
        memory.scope(tenant="other", user="ada", agent="scout"),
    ):
        with pytest.raises(NotFound):
            other.turns.get(turn.id)
        with pytest.raises(NotFound):
            other.turns.list(session)
        with pytest.raises(NotFound):
            other.save_turn(session, run())


def test_many_at_once_are_kept_whole(memory: Memory, me: Scope, session: str) -> None:
    """P2, P4: 32 turns, each sent twice, at the same time."""

    def send(n: int) -> int:
        turn = me.save_turn(session, run(f"c{n // 2}", f"{n // 2} {BIG}"), key=f"k{n // 2}")
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
    assert [finding for finding in memory.verify() if not finding.ok] == []


def test_turns_are_listed_newest_first_page_by_page(me: Scope, session: str) -> None:
    turns = [me.save_turn(session, [{"role": "user", "content": str(n)}]) for n in range(7)]
    found, after = [], None
    while True:
        page = me.turns.list(session, limit=3, after=after)
        found += page.items
        after = page.next
        if after is None:
            break
    assert [turn.id for turn in found] == [turn.id for turn in reversed(turns)]
    me.sessions.remove(session)
    with pytest.raises(NotFound):
        me.turns.get(turns[0].id)


def test_the_tools_are_one_list(memory: Memory, me: Scope) -> None:
    """N2, J3, R4: names are contract; each has a schema, and answers an object whatever it is given."""
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
    with pytest.raises(Invalid, match="there is no tool 'nope'; there are manage_long_term_memory"):
        me.tools(["nope"])


def test_what_a_tool_writes_is_the_agents(me: Scope) -> None:
    """Design 6: the source is decided by who calls, not by what is said."""
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


def test_conflict_is_no_part_of_saving(me: Scope, session: str) -> None:
    """Two turns without keys are two turns."""
    one, two = me.save_turn(session, run()), me.save_turn(session, run())
    assert (one.last_seq + 1, one.id == two.id) == (two.first_seq, False)
    with pytest.raises(Conflict):
        me.messages.append(session, "user", "x", expected_last_seq=one.last_seq)


def test_a_context_and_names_of_tools_of_another_type_are_refused(me: Scope, session: str) -> None:
    wrong: Any
    for wrong in ({}, "context", me.context(session).messages):
        with pytest.raises(Invalid, match=r"context: must be what context\(\) gave"):
            me.save_turn(session, [{"role": "user", "content": "x"}], context=wrong)
    assert me.messages.window(session) == []
    with pytest.raises(Invalid) as error:
        me.tools("save_to_core")
    assert str(error.value) == "names: must be a list of names, such as ['save_to_core']."
