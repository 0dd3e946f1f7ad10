"""Alternatives with the same durability: append, the last 20 messages, set and get a key.

The others are imported by name at run time: they are installed with the dependency group `bench` alone.
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
from retain import AsyncMemory, NewMessage, Scope

HISTORY = 1000
READ = "b7e2c0de-0000-4000-8000-000000000002"
VALUE = {"theme": "dark", "seats": ["window", "table"], "budget": 120}
FOLDER = ("acme", "ada", "scout")
COLUMNS = (*RATIO_COLUMNS[:3], "times faster", *RATIO_COLUMNS[4:])
AHEAD = Ahead()


def run(plan: Plan) -> Iterator[Table]:
    """Yield a table for each alternative."""
    yield openai_agents(plan)
    for wal in (False, True):
        yield langgraph_sqlite(plan, wal)
    yield langgraph_postgres(plan)
    yield langchain_postgres(plan)


def openai_agents(plan: Plan) -> Table:
    """Compare SQLiteSession, which is asynchronous only, with AsyncMemory."""
    folder = plan.new_folder()
    me = ours(plan, f"sqlite:///{folder}/retain.db", folder / "retain.db")
    beside = AsyncMemory(plan.memory_of(me)).scope(
        tenant=me.owner.tenant, user=me.owner.user, agent=me.owner.agent
    )
    sessions = importlib.import_module("agents.memory")
    theirs = sessions.SQLiteSession(SESSION, str(folder / "other.db"))
    long = sessions.SQLiteSession(READ, str(folder / "other.db"))
    item = {"role": "user", "content": TEXT}
    with asyncio.Runner() as runner:
        runner.run(theirs.add_items([item] * 30_000))  # its write-ahead log has wrapped, too
        runner.run(long.add_items([item] * HISTORY))
        durability = pragmas(runner.run(asyncio.to_thread(theirs._get_connection)))

        async def window() -> object:
            return [message.content for message in await beside.messages.window(READ, last=20)]

        appends = alternate(
            plan,
            runner,
            lambda: beside.messages.append(SESSION, "user", TEXT),
            lambda: theirs.add_items([item]),
        )
        reads = alternate(plan, runner, window, lambda: long.get_items(20))
    theirs.close()
    long.close()
    return Table(
        "OpenAI Agents, SQLiteSession",
        f"As it comes: {durability}. Both awaited on one event loop; {HISTORY:,} messages in the session that is read.",
        COLUMNS,
        [
            versus("append one (add_items)", *appends, AHEAD, turned=True),
            versus("last 20, as dictionaries (get_items)", *reads, AHEAD, turned=True),
        ],
    )


def langgraph_sqlite(plan: Plan, wal: bool) -> Table:
    """Compare with SqliteStore by default, and with tuned settings."""
    folder = plan.new_folder()
    me = ours(plan, f"sqlite:///{folder}/retain.db", folder / "retain.db")
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
        f"{'Set by hand' if wal else 'As it comes'}: {durability}. It has no messages: each is put under a key of its own, "
        "and the last 20 are a search, ordered by a time that is exact to the second.",
        COLUMNS,
        rows,
    )


def langgraph_postgres(plan: Plan) -> Table:
    """Compare with PostgresStore on one connection, its default."""
    me = ours(plan, plan.postgres("others_langgraph_retain"))
    url = plan.postgres("others_langgraph")
    with importlib.import_module("langgraph.store.postgres").PostgresStore.from_conn_string(
        url
    ) as store:
        store.setup()
        rows = against_store(plan, me, store)
    return Table(
        "LangGraph, PostgresStore",
        "`synchronous_commit = on`, one connection of a superuser, no row-level security. Each message is put under a key "
        "of its own; the last 20 are a search, ordered by time.",
        COLUMNS,
        rows,
    )


def langchain_postgres(plan: Plan) -> Table:
    """Compare with PostgresChatMessageHistory, which can only read whole conversations."""
    me = ours(plan, plan.postgres("others_langchain_retain"))
    history = importlib.import_module("langchain_postgres").PostgresChatMessageHistory
    factory = importlib.import_module("langchain_core.messages").HumanMessage
    with psycopg.connect(plan.postgres("others_langchain")) as connection:
        history.create_tables(connection, "history")
        short = history("history", str(uuid.UUID(SESSION)), sync_connection=connection)
        long = history("history", str(uuid.UUID(READ)), sync_connection=connection)
        long.add_messages([factory(content=TEXT)] * HISTORY)
        appends = pair(
            plan,
            lambda: me.messages.append(SESSION, "user", TEXT),
            lambda: short.add_messages([factory(content=TEXT)]),
        )
        reads = pair(plan, lambda: window(me), lambda: long.get_messages()[-20:], calls=2)
    return Table(
        "langchain-postgres, PostgresChatMessageHistory",
        f"`synchronous_commit = on`, one connection. It has no window: for the last 20 it reads all {HISTORY:,}.",
        COLUMNS,
        [
            versus("append one (add_messages)", *appends, AHEAD, turned=True),
            versus("last 20, as objects (get_messages)", *reads, AHEAD, turned=True),
        ],
    )


def ours(plan: Plan, url: str, file: Path | None = None) -> Scope:
    """Return a warmed-up memory with a filled session."""
    me = plan.open(url)
    if file:
        fill_log(me, file)
    me.sessions.add(READ)
    me.messages.extend(READ, [NewMessage("user", TEXT)] * HISTORY)
    me.state.set("settings", VALUE)
    return me


def window(me: Scope) -> object:
    """Read the last 20 messages and their content."""
    return [message.content for message in me.messages.window(READ, last=20)]


def against_store(plan: Plan, me: Scope, store: Any) -> list[list[str]]:
    """Measure one of LangGraph's stores."""
    put = importlib.import_module("langgraph.store.base").PutOp
    message = {"role": "user", "text": TEXT}
    for start in range(0, 20_000, 500):
        store.batch(
            [put((*FOLDER, SESSION), f"{n:012}", message) for n in range(start, start + 500)]
        )
    store.batch([put((*FOLDER, READ), f"{n:012}", message) for n in range(HISTORY)])
    store.put((*FOLDER, "state"), "settings", VALUE)
    numbers = iter(range(20_000, 10**9))
    calls: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "append one (put)": (
            lambda: me.messages.append(SESSION, "user", TEXT),
            lambda: store.put((*FOLDER, SESSION), f"{next(numbers):012}", message),
        ),
        "last 20, as dictionaries (search)": (
            lambda: window(me),
            lambda: [item.value for item in store.search((*FOLDER, READ), limit=20)],
        ),
        "set a key (put)": (
            lambda: me.state.set("settings", VALUE),
            lambda: store.put((*FOLDER, "state"), "settings", VALUE),
        ),
        "get a key (get)": (
            lambda: me.state.get("settings").value,
            lambda: store.get((*FOLDER, "state"), "settings").value,
        ),
    }
    return [
        versus(what, *pair(plan, mine, theirs), AHEAD, turned=True)
        for what, (mine, theirs) in calls.items()
    ]


def pair(
    plan: Plan, mine: Callable[[], object], theirs: Callable[[], object], calls: int = 10
) -> tuple[Series, Series]:
    """Race two synchronous calls."""
    race(3, 10, {"mine": mine, "theirs": theirs})
    timings = race(plan.amount(300, 30), calls, {"mine": mine, "theirs": theirs})
    return timings["mine"], timings["theirs"]


def alternate(
    plan: Plan,
    runner: asyncio.Runner,
    mine: Callable[[], Awaitable[object]],
    theirs: Callable[[], Awaitable[object]],
) -> tuple[Series, Series]:
    """Race two coroutines, ten calls of one and ten of the other."""

    async def ten(call: Callable[[], Awaitable[object]]) -> None:
        for _ in range(10):
            await call()

    race(3, 1, {"mine": lambda: runner.run(ten(mine)), "theirs": lambda: runner.run(ten(theirs))})
    timings = race(
        plan.amount(300, 30),
        1,
        {"mine": lambda: runner.run(ten(mine)), "theirs": lambda: runner.run(ten(theirs))},
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
