"""LangChain's agents with our middleware, under the framework's own fake models."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatResult
from langchain_core.tools import tool
from langgraph.types import Command
from pydantic import Field

from memorist import Memory, Scope
from memorist.base.errors import Invalid
from memorist_frameworks.langchain import MemoristChatMessageHistory, MemoristMiddleware
from memorist_frameworks.langgraph import MemoristSaver
from testkit.databases import one_engine

BIG = "a row of the table with nothing in it\n" * 5_300


class Model(GenericFakeChatModel):
    """LangChain's fake model, with tools, which records its input."""

    seen: list[list[BaseMessage]] = Field(default_factory=list)

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Model:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        self.seen.append(messages)
        return super()._generate(messages, *args, **options)


def speaking(*answers: str | AIMessage) -> Model:
    return Model(
        messages=iter(
            [AIMessage(answer) if isinstance(answer, str) else answer for answer in answers]
        )
    )


def calling(name: str, /, **arguments: Any) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[{"name": name, "args": arguments, "id": f"call {name}", "type": "tool_call"}],
    )


def on(thread: str, **more: Any) -> Any:
    return {"configurable": {"thread_id": thread}, **more}


def say(agent: Any, text: str, config: Any) -> Any:
    return agent.invoke({"messages": [HumanMessage(text)]}, config)


def words(messages: Sequence[BaseMessage]) -> str:
    return "\n".join(str(message.text) for message in messages)


@tool
def read_table(name: str) -> str:
    """Read a table."""
    return BIG


def test_an_agent_remembers_across_a_restart(open_memory: Callable[..., Memory]) -> None:
    """In another conversation and process the fact is present, fenced, and once."""
    with open_memory() as memory:
        agent = create_agent(
            speaking("Hello Ada!"),
            middleware=[MemoristMiddleware(memory.scope(tenant="acme", user="ada", agent="scout"))],
        )
        say(agent, "My name is Ada and my sister Clara lives in Porto.", on("first"))
    with open_memory() as memory:
        model = speaking("In Porto.")
        agent = create_agent(
            model,
            system_prompt="Be brief.",
            middleware=[MemoristMiddleware(memory.scope(tenant="acme", user="ada", agent="scout"))],
        )
        say(agent, "Where does my sister Clara live?", on("second"))
        [item] = model.seen
        assert isinstance(item[0], SystemMessage)
        assert str(item[0].text).startswith("Be brief.")
        assert "Clara" not in str(item[0].text), "what others said is not said by the system"
        assert words(item).count("lives in Porto") == 1
        assert str(item[-1].text) == "Where does my sister Clara live?"
        stranger = speaking("I do not know.")
        agent = create_agent(
            stranger,
            middleware=[MemoristMiddleware(memory.scope(tenant="acme", user="bob", agent="scout"))],
        )
        say(agent, "Where does my sister Clara live?", on("third"))
        assert "Porto" not in words(stranger.seen[0])


@one_engine
def test_the_conversation_is_included_once(me: Scope) -> None:
    """From the checkpointer if there is one, else from memory; it is saved once."""
    stored, model = MemoristSaver(me), speaking("One.", "Two.", "Three.")
    agent = create_agent(model, middleware=[MemoristMiddleware(me)], checkpointer=stored)
    for text in ("the first question", "the second question"):
        say(agent, text, on("s"))
    assert [
        words(model.seen[1]).count(text)
        for text in ("the first question", "One.", "the second question")
    ] == [1, 1, 1]
    bare = create_agent(model, middleware=[MemoristMiddleware(me)])
    say(bare, "the third question", on("s"))
    texts = [
        (item.type, str(item.text))
        for item in model.seen[2]
        if "question" in str(item.text) or item.type == "ai"
    ]
    assert texts == [
        ("human", "the first question"),
        ("ai", "One."),
        ("human", "the second question"),
        ("ai", "Two."),
        ("human", "the third question"),
    ]
    assert [item.text for item in me.messages.window("s")] == [text for _, text in texts] + [
        "Three."
    ]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_large_result_becomes_a_reference(me: Scope, kind: str) -> None:
    """200 kB become a line with a placeholder in the model's messages, the state and the
    session.
    """
    model = speaking(calling("read_table", name="people"), "It is empty.")
    agent = create_agent(model, tools=[read_table], middleware=[MemoristMiddleware(me)])
    arguments: Any = {"messages": [HumanMessage("What is in the table?")]}
    done = (
        agent.invoke(arguments, on("t"))
        if kind == "sync"
        else asyncio.run(agent.ainvoke(arguments, on("t")))
    )
    [_, seen] = model.seen
    assert isinstance(seen[-1], ToolMessage)
    [key] = re.findall(r"\[MemoryRef: (\S+) - ", str(seen[-1].text))
    assert len(BIG) > 200_000 > 1_000 > len(words(seen))
    assert me.refs.content(key).decode() == BIG
    assert words(done["messages"]).count("MemoryRef") == 1
    assert BIG[:80] not in repr(me.messages.window("t"))
    assert me.refs.info(key).session == "t"
    again = speaking(
        calling("retrieve_memory", memory_key=key, head=2), "Rows with nothing in them."
    )
    agent = create_agent(again, tools=[read_table], middleware=[MemoristMiddleware(me)])
    done = say(agent, "Show me two rows.", on("t"))
    assert str(done["messages"][-2].text).count("a row of the table") == 2


@one_engine
def test_results_that_are_not_captured(me: Scope) -> None:
    """Small results, results with images, and all if capturing is off; messages of a command are
    checked.
    """
    pictures: list[Any] = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 50_000}}
    ]

    @tool
    def other(how: str) -> Any:
        """Give a result in another form."""
        if how == "command":
            return Command(
                update={
                    "messages": [ToolMessage(BIG, tool_call_id="call other"), HumanMessage("and")]
                }
            )
        return {"small": "little", "image": pictures, "blocks": [{"type": "text", "text": BIG}]}[
            how
        ]

    def result(how: str, **options: Any) -> Any:
        model = speaking(calling("other", how=how), "Done.")
        agent = create_agent(model, tools=[other], middleware=[MemoristMiddleware(me, **options)])
        return next(
            message
            for message in say(agent, "Go.", on(f"{how} {options}"))["messages"]
            if isinstance(message, ToolMessage)
        )

    assert result("small").content == "little"
    assert result("image").content == pictures
    assert "[MemoryRef: " in str(result("blocks").content)
    assert "[MemoryRef: " in str(result("command").content)
    assert result("blocks", offload=False).content == [{"type": "text", "text": BIG}]


def test_the_same_run_is_saved_once(me: Scope) -> None:
    """P6: a repeated run with the same id adds nothing."""
    run = "0198c1f2-7a3b-7c4d-8e5f-0123456789ab"
    agent = create_agent(
        speaking("First.", "Second.", "Third.", "Fourth."), middleware=[MemoristMiddleware(me)]
    )
    for _ in range(2):
        say(agent, "Once, please.", on("s", run_id=run))
    assert [message.text for message in me.messages.window("s")] == ["Once, please.", "First."]
    say(agent, "And another.", on("s", run_id=run))
    texts = [message.text for message in me.messages.window("s")]
    assert texts[2] == "And another.", "another question under the same id is another turn"
    say(agent, "Once, please.", on("s"))
    assert len(me.messages.window("s")) == 6


@one_engine
def test_a_turn_is_stored_completely(me: Scope) -> None:
    """Calls, results, usage and the context report; LangChain's history reads the session
    losslessly.
    """
    spoken = AIMessage(
        "Done.",
        response_metadata={"model_name": "fake-1"},
        usage_metadata={"input_tokens": 7, "output_tokens": 2, "total_tokens": 9},
    )
    agent = create_agent(
        speaking(calling("read_table", name="x"), spoken),
        tools=[read_table],
        middleware=[MemoristMiddleware(me)],
    )
    arguments: Any = {
        "messages": [SystemMessage("A note."), HumanMessage("one"), HumanMessage("two")]
    }
    done = agent.invoke(arguments, on("s"))
    assert MemoristChatMessageHistory(me, "s").messages == done["messages"]
    [turn] = me.turns.list("s")
    assert turn.report is not None
    assert (turn.first_seq, turn.last_seq) == (1, 6)
    [call] = me.interactions.list()
    assert (call.model, call.tokens_in, call.tokens_out) == ("fake-1", 7, 2)


@one_engine
def test_choice_of_the_session(me: Scope) -> None:
    """From the runtime's context, else the thread; without both, the error says what to do."""
    agent: Any = create_agent(
        speaking("a", "b"), middleware=[MemoristMiddleware(me)], context_schema=dict
    )
    agent.invoke({"messages": [HumanMessage("x")]}, on("thread"), context={"session": "told"})
    assert [session.id for session in me.sessions.list()] == ["told"]
    agent.invoke({"messages": [HumanMessage("x")]}, on(7), context={"user": "x"})  # type: ignore[arg-type]
    assert {session.id for session in me.sessions.list()} == {"told", "7"}
    with pytest.raises(Invalid, match="thread_id"):
        agent.invoke({"messages": [HumanMessage("x")]})


@one_engine
def test_a_long_message_is_accepted(me: Scope) -> None:
    """It does not count against the memory's budget, and memory is still recalled."""
    me.entries.add("Ada's boat is called Marvin.", kind="core")
    model = speaking("Marvin.")
    agent = create_agent(model, middleware=[MemoristMiddleware(me, budget=900)])
    say(agent, "What is my boat called? " + "So much to say. " * 5_000, on("s"))
    assert "Marvin" in words(model.seen[0])


@one_engine
def test_an_oversized_message_becomes_a_reference(me: Scope) -> None:
    """A run with an answer does not fail."""
    picture = {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64," + "A" * 1_500_000},
    }
    agent = create_agent(speaking("A boat.", "Good."), middleware=[MemoristMiddleware(me)])
    done = agent.invoke(
        {"messages": [HumanMessage([{"type": "text", "text": "Look:"}, picture])]}, on("s")
    )
    assert done["messages"][-1].text == "A boat."
    say(agent, "Thanks", on("s"))
    first, *_, last = me.messages.window("s")
    (ref,) = me.refs.list()
    assert first.text.startswith(f"Look:\n[MemoryRef: {ref.key} - ")
    assert len(me.refs.content(ref.key)) > 1_500_000
    assert last.text == "Good."


@one_engine
def test_recalled_memory_is_not_stored_again(me: Scope) -> None:
    """The recalled text is in no state and no session, so that it is not recalled as a message."""
    me.entries.add("Ada's boat is called Marvin.", kind="core")
    agent = create_agent(speaking("Good."), middleware=[MemoristMiddleware(me)])
    done = say(agent, "Hello there", on("s"))
    assert "Marvin" not in words(done["messages"])
    assert "Marvin" not in repr(me.messages.window("s"))
