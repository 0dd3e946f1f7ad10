"""The adapters for conversations, compared with the frameworks' own stores."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from itertools import count
from typing import Any

import psycopg

from bench.alternatives import pragmas
from bench.comparison import HISTORIES, RUNNER, Case, Other, Rows
from bench.harness import TEXT, Plan
from memorist import NewMessage, Scope

NOT_DURABLE = "no"


def reads(size: int) -> int:
    """Return the number of reads per round: fewer for a long history."""
    return 5 if size == HISTORIES[0] else 1


def openai_agents(plan: Plan, rows: Rows, size: int) -> None:
    """Compare with SQLiteSession, which uses WAL mode."""
    folder = plan.new_folder()
    me = plan.open(f"sqlite:///{folder}/memorist.db")
    factory = import_module("memorist_frameworks.openai_agents").MemoristSession
    others = import_module("agents.memory").SQLiteSession
    item = {"role": "user", "content": TEXT}
    id = str(uuid.uuid4())
    ours, theirs = factory(me, id), others(id, str(folder / "other.db"))
    me.sessions.add(f"{id} library")
    for session in (ours, theirs):
        RUNNER.run(session.add_items([item] * size))
    durable = f"yes: {pragmas(RUNNER.run(asyncio.to_thread(theirs._get_connection)))}"
    which = f"MemoristSession, {size:,} items"
    for case in (
        Case(
            f"{which}: get_items()",
            ours.get_items,
            lambda: [message.content for message in me.messages.window(id)],
            (Other("SQLiteSession", theirs.get_items),),
            calls=reads(size),
            awaited=True,
        ),
        Case(
            f"{which}: get_items(20)",
            lambda: ours.get_items(20),
            lambda: [message.content for message in me.messages.window(id, last=20)],
            (Other("SQLiteSession", lambda: theirs.get_items(20)),),
            awaited=True,
        ),
        Case(
            f"{which}: add_items, 2",
            lambda: ours.add_items([item] * 2),
            lambda: me.messages.extend(f"{id} library", [NewMessage("user", TEXT)] * 2),
            (Other("SQLiteSession", lambda: theirs.add_items([item] * 2), durable),),
            awaited=True,
        ),
    ):
        rows.add(plan, case)
    theirs.close()


def langchain(plan: Plan, rows: Rows, size: int) -> None:
    """Compare with PostgresChatMessageHistory; langchain-postgres has no SQLite store."""
    for url in (
        plan.postgres(f"adapters_history_memorist_{size}"),
        f"sqlite:///{plan.new_folder()}/memorist.db",
    ):
        other = f"adapters_history_{size}" if url.startswith("postgres") else None
        against_history(plan, rows, plan.open(url), plan.postgres(other) if other else None, size)


def against_history(plan: Plan, rows: Rows, me: Scope, other: str | None, size: int) -> None:
    """Measure reading all messages, and adding two."""
    factory = import_module("memorist_frameworks.langchain").MemoristChatMessageHistory
    langchain_messages = import_module("langchain_core.messages")
    turn = [
        langchain_messages.HumanMessage(content=TEXT),
        langchain_messages.AIMessage(content=TEXT),
    ]
    with psycopg.connect(other) if other else nullcontext() as connection:
        if other:
            others = import_module("langchain_postgres").PostgresChatMessageHistory
            others.create_tables(connection, "history")
        id = str(uuid.uuid4())
        ours = factory(me, id)
        histories = [ours, *([others("history", id, sync_connection=connection)] if other else [])]
        me.sessions.add(f"{id} library")
        for history in histories:
            history.add_messages(turn * (size // 2))
        written = [langchain_messages.message_to_dict(message) for message in ours.messages]
        name = "PostgresChatMessageHistory"
        which = f"MemoristChatMessageHistory, {'PostgreSQL' if other else 'SQLite'}"
        theirs = histories[-1]

        def build() -> object:
            return langchain_messages.messages_from_dict(written)

        for case in (
            Case(
                f"{which}, {size:,} messages: get_messages",
                ours.get_messages,
                lambda: [message.content for message in me.messages.window(id)],
                (Other(name, theirs.get_messages),) if other else (),
                build,
                calls=reads(size),
            ),
            Case(
                f"{which}, {size:,} messages: add_messages, 2",
                lambda: ours.add_messages(turn),
                lambda: me.messages.extend(
                    f"{id} library", [NewMessage("user", TEXT), NewMessage("assistant", TEXT)]
                ),
                (Other(name, lambda: theirs.add_messages(turn), "yes"),) if other else (),
                lambda: [langchain_messages.message_to_dict(message) for message in turn],
            ),
        ):
            rows.add(plan, case)


def pydantic_ai(plan: Plan, rows: Rows, size: int) -> None:
    """Compare with InMemoryConversationStore, the only store that Pydantic AI itself has."""
    me = plan.open(f"sqlite:///{plan.new_folder()}/memorist.db")
    store = import_module("memorist_frameworks.pydantic_ai").MemoristConversationStore(me)
    messages = import_module("pydantic_ai.messages")
    module = import_module("pydantic_ai.conversation")
    turn = [
        messages.ModelRequest(parts=[messages.UserPromptPart(content=TEXT)]),
        messages.ModelResponse(parts=[messages.TextPart(content=TEXT)], model_name="test"),
    ]
    adapter = messages.ModelMessagesTypeAdapter
    id, library = str(uuid.uuid4()), str(uuid.uuid4())
    conversation = module.Conversation(messages=turn * (size // 2), conversation_id=id)
    memory = import_module("pydantic_ai.conversation_store").InMemoryConversationStore()
    copy = module.Conversation(messages=turn * (size // 2), conversation_id=id)
    RUNNER.run(store.save(conversation))
    RUNNER.run(memory.save(copy))
    written = adapter.dump_json(conversation.messages)
    rows.add(
        plan,
        Case(
            f"MemoristConversationStore, {size:,} messages: load",
            lambda: store.load(id),
            lambda: (me.sessions.get(id), [message.content for message in me.messages.window(id)]),
            (Other("InMemoryConversationStore", lambda: memory.load(id)),),
            lambda: adapter.validate_json(written),
            calls=reads(size),
            awaited=True,
            hops=2,
        ),
    )
    stored = [
        NewMessage(message.role, message.content) for message in me.messages.window(id, last=2)
    ]
    me.sessions.add(library, attributes=me.sessions.get(id).attributes)

    def work(inner: Scope) -> None:
        state = inner.sessions.get(library)
        inner.messages.extend(library, stored)
        inner.sessions.edit(library, attributes=state.attributes)

    async def save(store: Any, conversation: Any) -> None:
        conversation.messages.extend(turn)
        await store.save(conversation)

    rows.add(
        plan,
        Case(
            f"MemoristConversationStore, {size:,} messages: save 2 more",
            lambda: save(store, conversation),
            lambda: (me.sessions.get(library), me.transaction(work, lock="conversation")),
            (
                Other(
                    "InMemoryConversationStore", lambda: save(memory, copy), "no: it is in memory"
                ),
            ),
            lambda: json.loads(adapter.dump_json(turn)),
            awaited=True,
            hops=2,
        ),
    )


def adk(plan: Plan, rows: Rows, size: int) -> None:
    """Compare with SqliteSessionService and DatabaseSessionService on SQLite with a rollback journal."""
    folder = plan.new_folder()
    sessions = "google.adk.sessions"
    me = plan.open(f"sqlite:///{folder}/memorist.db")
    ours = import_module("memorist_frameworks.adk").MemoristSessionService(me)
    event = import_module("google.adk.events.event").Event
    genai = import_module("google.genai.types")
    actions = import_module("google.adk.events.event_actions").EventActions
    adk_format = import_module("memorist_frameworks.formats.adk")
    services = {
        "SqliteSessionService": import_module(
            f"{sessions}.sqlite_session_service"
        ).SqliteSessionService(f"{folder}/other.db"),
        "DatabaseSessionService": import_module(
            f"{sessions}.database_session_service"
        ).DatabaseSessionService(f"sqlite+aiosqlite:///{folder}/sql.db"),
    }

    def new_event(number: int) -> Any:
        content = genai.Content(role="user", parts=[genai.Part(text=TEXT)])
        return event(
            author="user",
            invocation_id="i",
            content=content,
            actions=actions(state_delta={"turn": number}),
        )

    key = {"app_name": "scout", "user_id": "ada", "session_id": f"s{size}"}
    numbers = count()
    library = f"lib{size}"
    loaded = {
        name: RUNNER.run(value.create_session(**key))
        for name, value in {"ours": ours, **services}.items()
    }
    me.sessions.add(library)

    async def append(name: str, service: Any) -> None:
        await service.append_event(loaded[name], new_event(next(numbers)))

    def write() -> None:
        created = new_event(next(numbers))
        message = adk_format.to_message(
            created.model_dump(mode="json", by_alias=True, exclude_none=True)
        )
        me.transaction(lambda inner: _append_with_state(inner, library, message, created.id))

    for _ in range(size):
        RUNNER.run(append("ours", ours))
        write()
        for name, service in services.items():
            RUNNER.run(append(name, service))
    events = RUNNER.run(ours.get_session(**key)).events
    written = [value.model_dump(mode="json", by_alias=True, exclude_none=True) for value in events]
    durable = "yes: `journal_mode = delete`, `synchronous = full`"

    def others(call: Callable[[str, Any], Any], durable: str = "") -> tuple[Other, ...]:
        return tuple(
            Other(name, partial(call, name, value), durable) for name, value in services.items()
        )

    for case in (
        Case(
            f"MemoristSessionService, {size:,} events: get_session",
            lambda: ours.get_session(**key),
            lambda: _read(me, library),
            others(lambda _, service: service.get_session(**key)),
            lambda: [event.model_validate(value) for value in written],
            calls=reads(size),
            awaited=True,
        ),
        Case(
            f"MemoristSessionService, {size:,} events: append_event with state",
            lambda: append("ours", ours),
            write,
            others(append, durable),
            awaited=True,
        ),
    ):
        rows.add(plan, case)


def _append_with_state(inner: Scope, session: str, message: NewMessage, key: str) -> None:
    inner.messages.extend(
        session, [message], key=key, expected_last_seq=inner.sessions.get(session).last_seq
    )
    inner.state.set("adk scout", {"turn": 1}, area=f"session:{session}")


def _read(me: Scope, session: str) -> object:
    state = me.state.get("adk scout", area=f"session:{session}").value
    return (
        me.sessions.get(session),
        state,
        [message.content for message in me.messages.window(session)],
    )


def agent_framework(plan: Plan, rows: Rows, size: int) -> None:
    """Compare with FileHistoryProvider, which appends to a file without syncing it."""
    folder = plan.new_folder()
    module = import_module("agent_framework")
    me = plan.open(f"sqlite:///{folder}/memorist.db")
    ours = import_module("memorist_frameworks.agent_framework").MemoristHistoryProvider(me)
    theirs = module.FileHistoryProvider(str(folder / "files"))
    message_format = import_module("memorist_frameworks.formats.agent_framework")
    numbers = count()

    def turn() -> list[Any]:
        texts = (f"{next(numbers)}: {TEXT}" for _ in range(2))
        return [
            module.Message(role, [text])
            for role, text in zip(("user", "assistant"), texts, strict=True)
        ]

    id, library = str(uuid.uuid4()), str(uuid.uuid4())
    history_messages = [message for _ in range(size // 2) for message in turn()]
    for provider in (ours, theirs):
        RUNNER.run(provider.save_messages(id, history_messages))
    RUNNER.run(ours.save_messages(library, history_messages))
    written = [message.to_dict() for message in history_messages]

    def save() -> None:
        new = [message_format.to_message(message.to_dict()) for message in turn()]
        me.transaction(
            lambda inner: (
                inner.messages.window(library, last=3),
                inner.messages.extend(library, new),
            ),
            lock=library,
        )

    for case in (
        Case(
            f"MemoristHistoryProvider, {size:,} messages: get_messages",
            lambda: ours.get_messages(id),
            lambda: [message.content for message in me.messages.window(library)],
            (Other("FileHistoryProvider", lambda: theirs.get_messages(id)),),
            lambda: [module.Message.from_dict(item) for item in written],
            calls=reads(size),
            awaited=True,
        ),
        Case(
            f"MemoristHistoryProvider, {size:,} messages: save_messages, 2",
            lambda: ours.save_messages(id, turn()),
            save,
            (Other("FileHistoryProvider", lambda: theirs.save_messages(id, turn()), NOT_DURABLE),),
            awaited=True,
        ),
    ):
        rows.add(plan, case)


COMPARISONS = (openai_agents, langchain, pydantic_ai, adk, agent_framework)
