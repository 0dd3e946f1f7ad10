"""What every adapter that stores conversations or documents promises, whatever its framework."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from agent_framework import Message
from anthropic.lib.tools import ToolError
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.genai.types import Content, Part
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.base import CheckpointMetadata, empty_checkpoint
from langgraph.store.base import PutOp
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import ModelRequest, UserPromptPart

from memorist import Memory, Scope
from memorist.base.errors import AlreadyExists
from memorist_frameworks import (
    adk,
    agent_framework,
    anthropic,
    langchain,
    langgraph,
    openai_agents,
    pydantic_ai,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)
MemoryTools = tuple[anthropic.MemoristMemoryTool, anthropic.MemoristAsyncMemoryTool]


@dataclass(frozen=True)
class Adapter:
    """How a test writes texts to a place of an adapter, such as a conversation, and reads them."""

    open: Callable[[Scope, str], Any]
    """Returns the framework's object for a place."""
    add: Callable[[Any, str, Sequence[str]], Coroutine[Any, Any, object]]
    """Adds texts in one call."""
    read: Callable[[Scope, str], list[str]]
    add_blocking: Callable[[Any, str, Sequence[str]], object] | None = None
    """Does the same without an event loop, if the framework has such a call."""
    refuses: type[Exception] | None = None
    """What a write to a place of another user raises; None where each user has places of the name."""
    is_ordered: bool = True
    repeats: bool = False
    """True if texts written twice are there once."""

    @property
    def is_atomic(self) -> bool:
        """True if the framework adds several texts to a conversation in one call."""
        return self.refuses is not None

    def write(self, scope: Scope, place: str, texts: Sequence[str]) -> None:
        """Open a place and add texts in one call."""
        self.write_to(self.open(scope, place), place, texts)

    def write_to(self, opened: Any, place: str, texts: Sequence[str]) -> None:
        """Add texts in one call, in an event loop of its own if the framework needs one."""
        if self.add_blocking is not None:
            self.add_blocking(opened, place, texts)
        else:
            asyncio.run(self.add(opened, place, texts))


async def add_events(service: adk.MemoristSessionService, place: str, texts: Sequence[str]) -> None:
    key: dict[str, Any] = {"app_name": "scout", "user_id": service.scope.owner.user}
    with suppress(AlreadyExistsError):
        await service.create_session(**key, session_id=place)
    for text in texts:
        content = Content(role="user", parts=[Part(text=text)])
        event = Event(author="user", content=content, invocation_id="i", id=text)
        while True:
            session = await service.get_session(**key, session_id=place)
            assert session is not None
            try:
                await service.append_event(session, event)
            except StaleSessionError:
                continue
            break


def read_events(scope: Scope, place: str) -> list[str]:
    call = adk.MemoristSessionService(scope).get_session(
        app_name="scout", user_id=scope.owner.user or "", session_id=place
    )
    session = asyncio.run(call)
    events = session.events if session else []
    return [event.content.parts[0].text for event in events]  # type: ignore[union-attr, index, misc]


async def add_to_conversation(
    store: pydantic_ai.MemoristConversationStore, place: str, texts: Sequence[str]
) -> None:
    messages = [ModelRequest(parts=[UserPromptPart(text, timestamp=AT)]) for text in texts]
    while True:
        stored = await store.load(place) or Conversation(conversation_id=place)
        stored.messages.extend(messages)
        try:
            await store.save(stored)
        except ConversationConflict:
            if await store.load(place) is None:
                raise
            continue
        return


def read_conversation(scope: Scope, place: str) -> list[str]:
    stored = asyncio.run(pydantic_ai.MemoristConversationStore(scope).load(place))
    return [str(message.parts[0].content) for message in stored.messages] if stored else []  # type: ignore[union-attr]


async def add_to_history(
    provider: agent_framework.MemoristHistoryProvider, place: str, texts: Sequence[str]
) -> None:
    await provider.save_messages(
        place, [Message("user", [text], message_id=text) for text in texts]
    )


def read_history(scope: Scope, place: str) -> list[str]:
    messages = asyncio.run(agent_framework.MemoristHistoryProvider(scope).get_messages(place))
    return [message.text for message in messages]


async def add_items(
    session: openai_agents.MemoristSession, place: str, texts: Sequence[str]
) -> None:
    await session.add_items([{"role": "user", "content": text} for text in texts])


def read_items(scope: Scope, place: str) -> list[str]:
    items = asyncio.run(openai_agents.MemoristSession(scope, place).get_items())
    return [str(item["content"]) for item in items]  # type: ignore[typeddict-item]


def files_to_create(place: str, texts: Sequence[str]) -> list[dict[str, str]]:
    return [
        {"command": "create", "path": f"/memories/{place}/{text}", "file_text": text}
        for text in texts
    ]


async def add_files(tools: MemoryTools, place: str, texts: Sequence[str]) -> None:
    for command in files_to_create(place, texts):
        with suppress(ToolError):  # it is there already
            await tools[1].call(command)


def add_files_blocking(tools: MemoryTools, place: str, texts: Sequence[str]) -> None:
    for command in files_to_create(place, texts):
        with suppress(ToolError):  # it is there already
            tools[0].call(command)


def read_files(scope: Scope, place: str) -> list[str]:
    keys = [item.key for item in scope.items.list(("memory_tool",))]
    return [key.removeprefix(f"{place}/") for key in keys if key != place]


def checkpoints_of(
    place: str, texts: Sequence[str]
) -> list[tuple[Any, Any, CheckpointMetadata, dict[str, Any]]]:
    """Return the arguments of `put`."""
    config = {"configurable": {"thread_id": place, "checkpoint_ns": ""}}
    return [(config, {**empty_checkpoint(), "id": text}, {"step": 1}, {}) for text in texts]


async def add_checkpoints(saver: langgraph.MemoristSaver, place: str, texts: Sequence[str]) -> None:
    for arguments in checkpoints_of(place, texts):
        await saver.aput(*arguments)


def add_checkpoints_blocking(
    saver: langgraph.MemoristSaver, place: str, texts: Sequence[str]
) -> None:
    for arguments in checkpoints_of(place, texts):
        saver.put(*arguments)


def read_checkpoints(scope: Scope, place: str) -> list[str]:
    config = {"configurable": {"thread_id": place, "checkpoint_ns": ""}}
    stored = langgraph.MemoristSaver(scope).list(config)  # type: ignore[arg-type]
    return [item.checkpoint["id"] for item in stored][::-1]


def human_messages(texts: Sequence[str]) -> list[BaseMessage]:
    return [HumanMessage(text) for text in texts]


def puts(place: str, texts: Sequence[str]) -> list[PutOp]:
    return [PutOp((place,), text, {"text": text}) for text in texts]


async def add_to_async_store(scope: Scope, place: str, texts: Sequence[str]) -> None:
    store = langgraph.AsyncMemoristStore(scope)
    await asyncio.gather(*(store.aput((place,), text, {"text": text}) for text in texts))


def read_async_store(scope: Scope, place: str) -> list[str]:
    async def search() -> list[str]:
        items = await langgraph.AsyncMemoristStore(scope).asearch((place,), limit=1000)
        return [item.key for item in items]

    return asyncio.run(search())


ADAPTERS = {
    "adk": Adapter(lambda scope, place: adk.MemoristSessionService(scope), add_events, read_events),
    "agent_framework": Adapter(
        lambda scope, place: agent_framework.MemoristHistoryProvider(scope),
        add_to_history,
        read_history,
        refuses=AlreadyExists,
        repeats=True,
    ),
    "anthropic": Adapter(
        lambda scope, place: (
            anthropic.MemoristMemoryTool(scope),
            anthropic.MemoristAsyncMemoryTool(scope),
        ),
        add_files,
        read_files,
        add_files_blocking,
        is_ordered=False,
        repeats=True,
    ),
    "langchain": Adapter(
        langchain.MemoristChatMessageHistory,
        lambda history, place, texts: history.aadd_messages(human_messages(texts)),
        lambda scope, place: [
            str(message.content)
            for message in langchain.MemoristChatMessageHistory(scope, place).messages
        ],
        lambda history, place, texts: history.add_messages(human_messages(texts)),
        refuses=AlreadyExists,
    ),
    "langgraph.saver": Adapter(
        lambda scope, place: langgraph.MemoristSaver(scope),
        add_checkpoints,
        read_checkpoints,
        add_checkpoints_blocking,
        repeats=True,
    ),
    "langgraph.store": Adapter(
        lambda scope, place: langgraph.MemoristStore(scope),
        lambda store, place, texts: store.abatch(puts(place, texts)),
        lambda scope, place: [
            item.key for item in langgraph.MemoristStore(scope).search((place,), limit=1000)
        ],
        lambda store, place, texts: store.batch(puts(place, texts)),
        is_ordered=False,
        repeats=True,
    ),
    "langgraph.async_store": Adapter(
        lambda scope, place: scope,  # a store is for one event loop
        add_to_async_store,
        read_async_store,
        is_ordered=False,
        repeats=True,
    ),
    "openai_agents": Adapter(
        openai_agents.MemoristSession, add_items, read_items, refuses=AlreadyExists
    ),
    "pydantic_ai": Adapter(
        lambda scope, place: pydantic_ai.MemoristConversationStore(scope),
        add_to_conversation,
        read_conversation,
        refuses=ConversationConflict,
    ),
}
TEXTS = [f"text {n}" for n in range(5)]


@pytest.mark.parametrize("adapter", ADAPTERS.values(), ids=ADAPTERS)
class TestAdapter:
    """One conversation or folder, `talk`, of the user Ada."""

    def test_texts_are_in_order_after_a_restart(
        self, open_memory: Callable[..., Memory], adapter: Adapter
    ) -> None:
        for text in TEXTS:
            with open_memory() as memory:
                adapter.write(scope_of(memory), "talk", [text])
        with open_memory() as memory:
            stored = adapter.read(scope_of(memory), "talk")
        assert (stored if adapter.is_ordered else sorted(stored)) == TEXTS

    def test_other_users_and_tenants_see_and_change_nothing(
        self, memory: Memory, adapter: Adapter
    ) -> None:
        adapter.write(scope_of(memory), "talk", ["mine"])
        strangers = (scope_of(memory, user="bob"), scope_of(memory, tenant="globex"))
        for stranger in strangers:
            assert adapter.read(stranger, "talk") == []
        if adapter.refuses:
            with pytest.raises(adapter.refuses):
                adapter.write(strangers[0], "talk", ["theirs"])
        else:
            adapter.write(strangers[0], "talk", ["theirs"])
            assert adapter.read(strangers[0], "talk") == ["theirs"]
        adapter.write(strangers[1], "talk", ["theirs"])
        assert adapter.read(scope_of(memory), "talk") == ["mine"]

    def test_concurrent_writers_lose_nothing(self, memory: Memory, adapter: Adapter) -> None:
        batches = [[f"{n} first", f"{n} second"] for n in range(6)]
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda texts: adapter.write(scope_of(memory), "talk", texts), batches))
        stored = adapter.read(scope_of(memory), "talk")
        assert sorted(stored) == sorted(sum(batches, []))
        if adapter.is_atomic:
            assert [stored[n : n + 2] for n in range(0, 12, 2)] == sorted(
                batches, key=lambda texts: stored.index(texts[0])
            )

    def test_ten_threads_share_one_object(self, memory: Memory, adapter: Adapter) -> None:
        """Each thread has an event loop of its own if the framework needs one."""
        opened = adapter.open(scope_of(memory), "talk")
        texts = [f"text {n}" for n in range(10)]
        with ThreadPoolExecutor(10) as pool:
            list(pool.map(lambda text: adapter.write_to(opened, "talk", [text]), texts))
        assert sorted(adapter.read(scope_of(memory), "talk")) == texts

    def test_two_event_loops_share_one_object(self, memory: Memory, adapter: Adapter) -> None:
        opened = adapter.open(scope_of(memory), "talk")

        async def add_at_once(texts: Sequence[str]) -> None:
            await asyncio.gather(*(adapter.add(opened, "talk", [text]) for text in texts))

        texts = [f"text {n}" for n in range(10)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda half: asyncio.run(add_at_once(half)), (texts[:5], texts[5:])))
        assert sorted(adapter.read(scope_of(memory), "talk")) == texts

    def test_a_repeated_write_adds_nothing(self, memory: Memory, adapter: Adapter) -> None:
        """Where the framework gives its records an id; otherwise a second write is another one."""
        for _ in range(2):
            adapter.write(scope_of(memory), "talk", TEXTS)
        assert len(adapter.read(scope_of(memory), "talk")) == (5 if adapter.repeats else 10)


def scope_of(memory: Memory, user: str = "ada", tenant: str = "acme") -> Scope:
    return memory.scope(tenant=tenant, user=user, agent="scout")
