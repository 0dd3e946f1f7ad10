"""Other libraries with the same durability: append, the last 20 messages, set and get a key.

They are imported at run time, because only the dependency group `bench` installs them.
"""

from __future__ import annotations

import asyncio
import importlib
import sqlite3
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg

from bench.append import fill_log
from bench.harness import RATIO_COLUMNS, SESSION, TEXT, Ahead, Plan, Series, Table, race, versus
from memorist import AsyncMemory, NewMessage, Scope

HISTORY_MESSAGES = 1000
LONG_SESSION = "b7e2c0de-0000-4000-8000-000000000002"
VALUE = {"theme": "dark", "seats": ["window", "table"], "budget": 120}
NAMESPACE = ("acme", "ada", "scout")
COLUMNS = (*RATIO_COLUMNS[:3], "times faster", *RATIO_COLUMNS[4:])
AHEAD = Ahead()


def run(plan: Plan) -> Iterator[Table]:
    """Yield a table for each library."""
    yield openai_agents(plan)
    for wal in (False, True):
        yield langgraph_sqlite(plan, wal)
    yield langgraph_postgres(plan)
    yield langchain_postgres(plan)


def openai_agents(plan: Plan) -> Table:
    """Compare SQLiteSession, which is asynchronous only, with AsyncMemory."""
    folder = plan.new_folder()
    me = open_filled(plan, f"sqlite:///{folder}/memorist.db", folder / "memorist.db")
    async_scope = AsyncMemory(plan.memory_of(me)).scope(
        tenant=me.owner.tenant, user=me.owner.user, agent=me.owner.agent
    )
    sessions = importlib.import_module("agents.memory")
    theirs = sessions.SQLiteSession(SESSION, str(folder / "other.db"))
    long = sessions.SQLiteSession(LONG_SESSION, str(folder / "other.db"))
    item = {"role": "user", "content": TEXT}
    with asyncio.Runner() as runner:
        runner.run(theirs.add_items([item] * 30_000))  # enough to wrap its write-ahead log
        runner.run(long.add_items([item] * HISTORY_MESSAGES))
        durability = pragmas(runner.run(asyncio.to_thread(theirs._get_connection)))

        async def window() -> object:
            return [
                message.content
                for message in await async_scope.messages.window(LONG_SESSION, last=20)
            ]

        appends = alternate(
            plan,
            runner,
            lambda: async_scope.messages.append(SESSION, "user", TEXT),
            lambda: theirs.add_items([item]),
        )
        reads = alternate(plan, runner, window, lambda: long.get_items(20))
    theirs.close()
    long.close()
    return Table(
        "OpenAI Agents, SQLiteSession",
        f"Default settings: {durability}. Both sides run on one event loop. The session that is read "
        f"has {HISTORY_MESSAGES:,} messages.",
        COLUMNS,
        [
            versus("append one (add_items)", *appends, AHEAD, inverted=True),
            versus("last 20, as dictionaries (get_items)", *reads, AHEAD, inverted=True),
        ],
    )


def langgraph_sqlite(plan: Plan, wal: bool) -> Table:
    """Compare with SqliteStore, with its default settings or in WAL mode."""
    folder = plan.new_folder()
    me = open_filled(plan, f"sqlite:///{folder}/memorist.db", folder / "memorist.db")
    with importlib.import_module("langgraph.store.sqlite").SqliteStore.from_conn_string(
        str(folder / "other.db")
    ) as store:
        if wal:
            store.conn.execute("pragma journal_mode = wal")
        store.setup()
        rows = against_store(plan, me, store)
        durability = pragmas(store.conn)
    return Table(
        f"LangGraph, SqliteStore{' in WAL mode' if wal else ''}",
        f"{'Tuned' if wal else 'Default'} settings: {durability}. The store has no messages: each one "
        "is an item under its own key, and the last 20 are a search. It orders by time, with a "
        "resolution of one second.",
        COLUMNS,
        rows,
    )


def langgraph_postgres(plan: Plan) -> Table:
    """Compare with PostgresStore on one connection, its default."""
    me = open_filled(plan, plan.postgres("others_langgraph_memorist"))
    url = plan.postgres("others_langgraph")
    with importlib.import_module("langgraph.store.postgres").PostgresStore.from_conn_string(
        url
    ) as store:
        store.setup()
        rows = against_store(plan, me, store)
    return Table(
        "LangGraph, PostgresStore",
        "`synchronous_commit = on`, one connection of a superuser, no row-level security. Each message "
        "is an item under its own key; the last 20 are a search, ordered by time.",
        COLUMNS,
        rows,
    )


def langchain_postgres(plan: Plan) -> Table:
    """Compare with PostgresChatMessageHistory, which can only read whole conversations."""
    me = open_filled(plan, plan.postgres("others_langchain_memorist"))
    history = importlib.import_module("langchain_postgres").PostgresChatMessageHistory
    factory = importlib.import_module("langchain_core.messages").HumanMessage
    with psycopg.connect(plan.postgres("others_langchain")) as connection:
        history.create_tables(connection, "history")
        short = history("history", str(uuid.UUID(SESSION)), sync_connection=connection)
        long = history("history", str(uuid.UUID(LONG_SESSION)), sync_connection=connection)
        long.add_messages([factory(content=TEXT)] * HISTORY_MESSAGES)
        appends = pair(
            plan,
            lambda: me.messages.append(SESSION, "user", TEXT),
            lambda: short.add_messages([factory(content=TEXT)]),
        )
        reads = pair(plan, lambda: window(me), lambda: long.get_messages()[-20:], calls=2)
    return Table(
        "langchain-postgres, PostgresChatMessageHistory",
        "`synchronous_commit = on`, one connection. The history has no window: it reads all "
        f"{HISTORY_MESSAGES:,} messages to return the last 20.",
        COLUMNS,
        [
            versus("append one (add_messages)", *appends, AHEAD, inverted=True),
            versus("last 20, as objects (get_messages)", *reads, AHEAD, inverted=True),
        ],
    )


def open_filled(plan: Plan, url: str, file: Path | None = None) -> Scope:
    """Open a memory with a filled session and return its scope."""
    me = plan.open(url)
    if file:
        fill_log(me, file)
    me.sessions.add(LONG_SESSION)
    me.messages.extend(LONG_SESSION, [NewMessage("user", TEXT)] * HISTORY_MESSAGES)
    me.state.set("settings", VALUE)
    return me


def window(me: Scope) -> object:
    """Read the last 20 messages and their content."""
    return [message.content for message in me.messages.window(LONG_SESSION, last=20)]


def against_store(plan: Plan, me: Scope, store: Any) -> list[list[str]]:
    """Compare with one of LangGraph's stores."""
    put = importlib.import_module("langgraph.store.base").PutOp
    message = {"role": "user", "text": TEXT}
    for start in range(0, 20_000, 500):
        store.batch(
            [put((*NAMESPACE, SESSION), f"{n:012}", message) for n in range(start, start + 500)]
        )
    store.batch(
        [put((*NAMESPACE, LONG_SESSION), f"{n:012}", message) for n in range(HISTORY_MESSAGES)]
    )
    store.put((*NAMESPACE, "state"), "settings", VALUE)
    numbers = iter(range(20_000, 10**9))
    calls: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "append one (put)": (
            lambda: me.messages.append(SESSION, "user", TEXT),
            lambda: store.put((*NAMESPACE, SESSION), f"{next(numbers):012}", message),
        ),
        "last 20, as dictionaries (search)": (
            lambda: window(me),
            lambda: [item.value for item in store.search((*NAMESPACE, LONG_SESSION), limit=20)],
        ),
        "set a key (put)": (
            lambda: me.state.set("settings", VALUE),
            lambda: store.put((*NAMESPACE, "state"), "settings", VALUE),
        ),
        "get a key (get)": (
            lambda: me.state.get("settings").value,
            lambda: store.get((*NAMESPACE, "state"), "settings").value,
        ),
    }
    return [
        versus(what, *pair(plan, mine, theirs), AHEAD, inverted=True)
        for what, (mine, theirs) in calls.items()
    ]


def pair(
    plan: Plan, mine: Callable[[], object], theirs: Callable[[], object], calls: int = 10
) -> tuple[Series, Series]:
    """Race two synchronous calls."""
    race(3, 10, {"mine": mine, "theirs": theirs})
    plan.analyze()
    timings = race(plan.amount(300, 30), calls, {"mine": mine, "theirs": theirs})
    return timings["mine"], timings["theirs"]


def alternate(
    plan: Plan,
    runner: asyncio.Runner,
    mine: Callable[[], Awaitable[object]],
    theirs: Callable[[], Awaitable[object]],
) -> tuple[Series, Series]:
    """Race two coroutines, in turns of ten calls."""

    async def call_ten_times(call: Callable[[], Awaitable[object]]) -> None:
        for _ in range(10):
            await call()

    race(
        3,
        1,
        {
            "mine": lambda: runner.run(call_ten_times(mine)),
            "theirs": lambda: runner.run(call_ten_times(theirs)),
        },
    )
    timings = race(
        plan.amount(300, 30),
        1,
        {
            "mine": lambda: runner.run(call_ten_times(mine)),
            "theirs": lambda: runner.run(call_ten_times(theirs)),
        },
    )
    return [seconds / 10 for seconds in timings["mine"]], [
        seconds / 10 for seconds in timings["theirs"]
    ]


def pragmas(connection: sqlite3.Connection) -> str:
    """Return the durability settings of a connection."""
    (mode,), (level,) = (
        connection.execute(f"pragma {name}").fetchone() for name in ("journal_mode", "synchronous")
    )
    synchronous = ("off", "normal", "full", "extra")[level]
    return (
        f"`journal_mode = {mode}`, `synchronous = {synchronous}`, SQLite {sqlite3.sqlite_version}"
    )
