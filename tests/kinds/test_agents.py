"""Agents and their settings: spec A2, as far as no model is needed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memorist import Memory, Scope
from memorist.base.errors import AlreadyExists, Invalid, NotFound, TooLarge
from memorist.kinds.agents import MemoriesCount
from testkit.failures import invalid, raised
from testkit.memories import scope_of

START = 1_760_000_000_000_000


def at(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def test_an_agent_round_trips(open_memory: Callable[..., Memory]) -> None:
    """Name, system prompt, model, tools, colour and icon."""
    me = scope_of(open_memory(clock=lambda: START))
    agent = me.agents.add(
        "cook",
        prompt="You cook.\n",
        model="m",
        tools=["search_memory", "set_state"],
        color="#ff8800",
        icon="🍳",
    )
    assert (agent.name, agent.prompt, agent.model) == ("cook", "You cook.\n", "m")
    assert agent.tools == ["search_memory", "set_state"]
    assert (agent.color, agent.icon, agent.version) == ("#ff8800", "🍳", 1)
    assert (agent.created_at, agent.updated_at) == (at(START), at(START))
    assert me.agents.get("cook") == agent == next(iter(me.agents.list()))
    plain = me.agents.add("plain")
    assert (plain.prompt, plain.model, plain.tools, plain.color, plain.icon) == ("", "", [], "", "")


def test_an_agent_has_a_model_label_and_is_active(memory: Memory) -> None:
    agents = scope_of(memory).agents
    assert (agents.add("plain").model_label, agents.get("plain").active) == ("", True)
    cook = agents.add("cook", model="m", model_label="The big one", active=False)
    assert (cook.model_label, cook.active) == ("The big one", False)
    assert agents.edit("cook", prompt="p").active is False
    assert agents.edit("cook", active=True).active is True
    assert agents.edit("cook", model_label="").model_label == ""
    invalid("active", agents.edit, "cook", active="no")


def test_edit_changes_only_the_given_fields(open_memory: Callable[..., Memory]) -> None:
    now = [START]
    me = scope_of(open_memory(clock=lambda: now[0]))
    first = me.agents.add(
        "cook", prompt="p", model="m", tools=["set_state"], color="#C0FFEE", icon="i"
    )
    changes: list[dict[str, Any]] = [
        {"prompt": "P"},
        {"model": "M"},
        {"tools": []},
        {"color": ""},
        {"icon": "I"},
        {},
    ]
    expected = {
        "prompt": "p",
        "model": "m",
        "tools": ["set_state"],
        "color": "#C0FFEE",
        "icon": "i",
    }
    for version, change in enumerate(changes, 2):
        now[0] += 1
        expected |= change
        agent = me.agents.edit("cook", **change)
        assert {name: getattr(agent, name) for name in expected} == expected
        assert (agent.version, agent.created_at) == (version, first.created_at)
        assert agent.updated_at == at(now[0])
        assert me.agents.get("cook") == agent


@pytest.mark.parametrize(
    "color",
    [
        "red",
        "#fff",
        "#12345g",
        "#1234567",
        "url(https://x.example)",
        "#123456;background:red",
        " #123456",
    ],
)
def test_only_displayable_colours_are_accepted(me: Scope, color: str) -> None:
    """No other text can hide in a colour."""
    me.agents.add("cook", color="#1f6FEB", icon="👨‍👩‍👧‍👦")
    calls: list[Callable[[], Any]] = [
        lambda: me.agents.add("other", color=color),
        lambda: me.agents.edit("cook", color=color),
    ]
    for call in calls:
        invalid("color", call)
    invalid("icon", me.agents.edit, "cook", icon="too long an icon")
    assert [(agent.name, agent.color, agent.icon) for agent in me.agents.list()] == [
        ("cook", "#1f6FEB", "👨‍👩‍👧‍👦")
    ]


def test_a_colour_stored_before_the_rule_stays_readable(memory: Memory, me: Scope) -> None:
    me.agents.add("cook")
    sql = "update agents set color = 'teal', icon = 'a very old icon' where tenant = :tenant"
    memory.database.write("acme", lambda tx: tx.run(sql))
    assert me.agents.edit("cook", prompt="p").color == "teal"


def test_agent_names_are_unique(me: Scope) -> None:
    me.agents.add("cook", prompt="first")
    with pytest.raises(AlreadyExists) as error:
        me.agents.add("cook", prompt="second")
    assert (error.value.what, error.value.id) == ("agent", "cook")
    assert me.agents.get("cook").prompt == "first"
    me.agents.add("Cook", prompt="another name")
    me.agents.remove("cook")
    assert me.agents.add("cook", prompt="third").version == 1


def test_agents_belong_to_the_tenant(memory: Memory, me: Scope) -> None:
    """P11: all users of the tenant see them, nobody else; conversations need no agent record and
    outlive it.
    """
    me.agents.add("scout", prompt="p")
    session = me.sessions.resume()
    assert scope_of(memory, "bob").agents.get("scout").prompt == "p"
    other = memory.scope(tenant="other", user="ada", agent="scout")
    assert list(other.agents.list()) == []
    for call in (lambda: other.agents.get("scout"), lambda: other.agents.remove("scout")):
        raised(NotFound, call)
    assert other.agents.add("scout", prompt="q").prompt == "q"
    me.agents.remove("scout")
    assert me.sessions.get(session.id).agent == "scout"
    assert other.agents.get("scout").prompt == "q"


def test_pages_are_ordered_by_name_bytes(me: Scope) -> None:
    names = ["b", "a", "B", "é", "e", "😀", "a b", "a%", "_"]
    for name in names:
        me.agents.add(name)
    seen: list[str] = []
    after: str | None = None
    while not seen or after:
        page = me.agents.list(limit=2, after=after)
        seen += [agent.name for agent in page]
        after = page.next
    assert seen == sorted(names, key=str.encode)


def test_oversized_agents_are_rejected(me: Scope) -> None:
    me.agents.add("cook", prompt="p")
    assert (
        raised(
            TooLarge,
            me.agents.edit,
            "cook",
            prompt="fine",
            tools=[f"tool {n}" for n in range(10_000)],
        ).field
        == "tools"
    )
    invalid("tools", me.agents.edit, "cook", prompt="fine", tools=["search_memory", " "])
    assert (me.agents.get("cook").prompt, me.agents.get("cook").version) == ("p", 1)


def test_an_unknown_tool_is_an_error(me: Scope) -> None:
    """An agent without its tools would say nothing about it."""
    with pytest.raises(
        Invalid, match="there is no tool 'search'; there are .*search_memory"
    ) as error:
        me.agents.add("scout", tools=["search", "notes"])
    assert error.value.field == "tools"
    me.agents.add("scout", tools=["search_memory"])
    invalid("tools", me.agents.edit, "scout", tools=["notes"])


def test_an_agent_has_the_number_of_its_memories(memory: Memory) -> None:
    me = scope_of(memory, "ada", "scout")
    me.entries.add("One.", kind="core")
    me.entries.add("Two.", kind="journal")
    me.entries.add("Three.", kind="journal")
    assert me.agents.add("scout").memories_count == MemoriesCount(core=1, journal=2)
    assert me.agents.get("scout").memories_count == MemoriesCount(core=1, journal=2)
    me.agents.add("critic")
    assert [agent.memories_count for agent in me.agents.list()] == [
        MemoriesCount(),
        MemoriesCount(core=1, journal=2),
    ]


def test_no_tools_cannot_be_combined_with_tools(me: Scope) -> None:
    assert me.agents.add("scout", tools=["none"]).tools == ["none"]
    invalid("tools", me.agents.edit, "scout", tools=["none", "search_memory"])
