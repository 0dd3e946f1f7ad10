"""Overhead of each adapter over its library call, and its speed against the framework's own store.

The frameworks are imported at run time, because only extras and dependency groups install them.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench import conversations
from bench.alternatives import pragmas
from bench.comparison import HISTORIES, RUNNER, Case, Other, Rows
from bench.harness import RATIO_COLUMNS, TEXT, Plan, Table
from memorist import Scope, Settings
from memorist.kinds.items import Put

NAMESPACE = ("acme", "memories")
INDEXED: Any = {"fields": ["text"]}
LOADS_EXTENSIONS = hasattr(sqlite3.Connection, "enable_load_extension")
"""True if Python can load sqlite-vec, which the index of LangGraph's SQLite stores needs."""
STATIC = Settings(embedder="static")
"""The embedder of both sides if both have an index: a fast one, to measure mainly the stores."""
OURS = "SQLite, `synchronous = full`"
DURABLE = "yes"
NOT_DURABLE = "no"
COLUMNS = (*RATIO_COLUMNS[:3], "times faster", *RATIO_COLUMNS[4:], "other store is durable")


def run(plan: Plan) -> Iterator[Table]:
    """Yield two tables: against the library, and against the frameworks' own stores."""
    rows = Rows()
    only = os.environ.get("ADAPTER", "")
    comparisons: tuple[Callable[[Plan, Rows, int], None], ...] = (
        store_sqlite,
        store_postgres,
        saver_sqlite,
        saver_postgres,
        *conversations.COMPARISONS,
        memory_tool,
        graph_server,
    )
    for compare in comparisons:
        for size in HISTORIES if only in compare.__name__ else ():
            plan.progress(f"{compare.__name__}, {size:,}")
            compare(plan, rows, size)
    yield Table(
        "Adapters compared with the library calls that they make",
        "One thread; reads include the content. For asynchronous frameworks, both sides run each library "
        "call in a worker thread. The rows “and the framework's objects” compare with the library call "
        "plus the conversion between stored data and the framework's own objects.",
        RATIO_COLUMNS,
        rows.overhead_rows,
    )
    yield Table(
        "Adapters compared with the frameworks' own durable stores",
        f"memorist uses {OURS}, or PostgreSQL, `synchronous_commit = on`. The other stores use their default "
        "settings; the last column says whether their writes are on the disk when acknowledged. A put is "
        "compared with an index on both sides, with the same vectors, or with an index on neither.",
        COLUMNS,
        rows.comparison_rows,
    )


def value(number: int) -> dict[str, Any]:
    """Return the value of an item; every tenth is a fact."""
    return {
        "text": f"{number}: {TEXT}",
        "kind": "fact" if number % 10 == 0 else "note",
        "price": number,
    }


def store_sqlite(plan: Plan, rows: Rows, size: int) -> None:
    """Compare with SqliteStore in WAL mode, its fastest mode; also with many concurrent writes."""
    folder = plan.new_folder()
    module = import_module("langgraph.store.sqlite")
    me = plan.open(f"sqlite:///{folder}/memorist.db", settings=STATIC)
    with ExitStack() as stack:

        def open_store(file: str, index: Any) -> Any:
            path = str(folder / file)
            store = stack.enter_context(module.SqliteStore.from_conn_string(path, index=index))
            store.conn.execute("pragma journal_mode = wal")
            store.setup()
            return store

        plain = open_store("plain.db", None)
        indexed = open_store("indexed.db", vector_index(me)) if LOADS_EXTENSIONS else None
        durable = f"yes: {pragmas(plain.conn)}"
        against_store(plan, rows, me, (plain, indexed), "SqliteStore in WAL mode", durable, size)
    if size == HISTORIES[0]:
        concurrent_puts(plan, rows, me, folder)


def store_postgres(plan: Plan, rows: Rows, size: int) -> None:
    """Compare with PostgresStore on one connection, its default; its index needs pgvector."""
    me = plan.open(plan.postgres(f"adapters_store_memorist_{size}"), settings=STATIC)
    url = plan.postgres(f"adapters_store_{size}")
    with import_module("langgraph.store.postgres").PostgresStore.from_conn_string(url) as store:
        store.setup()
        against_store(plan, rows, me, (store, None), "PostgresStore", DURABLE, size)


def vector_index(me: Scope) -> dict[str, Any]:
    """Return index settings for LangGraph's store, with the embedder and fields of ours."""
    embedder = me.services.embedder
    assert embedder is not None
    return {
        "dims": embedder.dimensions,
        "embed": lambda texts: embedder.embed(texts).tolist(),
        "fields": INDEXED["fields"],
    }


def against_store(
    plan: Plan,
    rows: Rows,
    me: Scope,
    theirs: tuple[Any, Any],
    name: str,
    durable: str,
    size: int,
) -> None:
    """Measure put, get, filters and search in a store of a given size.

    theirs: a store without an index, and one that indexes the same field as ours, or None
    """
    plain, indexed = theirs
    module = import_module("langgraph.store.base")
    ours = import_module("memorist_frameworks.langgraph").MemoristStore(me, index=INDEXED)
    at = (*NAMESPACE, str(size))
    numbers = count()
    for store in (ours, plain, indexed):
        for start in range(0, size if store else 0, 100):
            numbered_items = range(start, min(start + 100, size))
            store.batch([module.PutOp(at, f"{n}", value(n)) for n in numbered_items])
    plan.memory_of(me).run_jobs()  # compute our vectors; the other store does it in `put`
    condition = {"kind": "fact"}
    engine = "PostgreSQL" if name.startswith("Postgres") else "SQLite"
    label = f"MemoristStore, {engine}, {size:,} items"
    query = "a seat by the window"
    results = [item_fields(hit) for hit in ours.search(at, limit=10)]

    def next_item() -> tuple[str, dict[str, Any]]:
        number = next(numbers) % size
        return f"{number}", value(number)

    def put_one(store: Any, **options: Any) -> None:
        store.put(at, *next_item(), **options)

    def build_items() -> list[Any]:
        return [module.SearchItem(**hit) for hit in results]

    with_index = (Other(f"{name}, same vectors", lambda: put_one(indexed), durable),)
    search_index = (
        Other(f"{name}, same vectors", lambda: indexed.search(at, query=query, limit=10)),
    )
    for case in (
        Case(
            f"{label}: put, index on both sides",
            lambda: put_one(ours),
            lambda: me.items.write([Put(at, *next_item(), fields=INDEXED["fields"])]),
            with_index if indexed else (),
        ),
        Case(
            f"{label}: put, index on neither side",
            lambda: put_one(ours, index=False),
            lambda: me.items.write([Put(at, *next_item(), fields=[])]),
            (Other(name, lambda: put_one(plain), durable),),
        ),
        Case(
            f"{label}: get",
            lambda: ours.get(at, "7"),
            lambda: me.items.read([(at, "7")])[0].value,  # type: ignore[union-attr]
            (Other(name, lambda: plain.get(at, "7")),),
            objects=lambda: build_items()[:1],
        ),
        Case(
            f"{label}: search with a filter, 10",
            lambda: ours.search(at, filter=condition, limit=10),
            lambda: [
                hit.value for hit in me.items.list(at, where=condition, newest=True, limit=10)
            ],
            (Other(name, lambda: plain.search(at, filter=condition, limit=10)),),
            objects=build_items,
        ),
        Case(
            f"{label}: search with a filter that matches few items",
            lambda: ours.search(at, filter={"price": {"$lt": 3}}, limit=10),
            lambda: [
                hit.value
                for hit in me.items.list(at, where={"price": {"$lt": 3}}, newest=True, limit=10)
            ],
            (Other(name, lambda: plain.search(at, filter={"price": {"$lt": 3}}, limit=10)),),
        ),
        Case(
            f"{label}: search for words, 10",
            lambda: ours.search(at, query=query, limit=10),
            lambda: [hit.item.value for hit in me.items.search(query, at, limit=10)],
            search_index if indexed else (),
            objects=build_items,
        ),
    ):
        rows.add(plan, case)


def item_fields(item: Any) -> dict[str, Any]:
    """Return the fields of a LangGraph item."""
    return {
        name: getattr(item, name)
        for name in ("namespace", "key", "value", "created_at", "updated_at", "score")
    }


def concurrent_puts(plan: Plan, rows: Rows, me: Scope, folder: Path) -> None:
    """Compare 300 concurrent puts. memorist computes the vectors of such a large batch later."""
    module = import_module("memorist_frameworks.langgraph")
    theirs = import_module("langgraph.store.sqlite.aio").AsyncSqliteStore
    ours = RUNNER.run(create_on_loop(lambda: module.AsyncMemoristStore(me, index=INDEXED)))

    async def all_at_once(store: Any, index: Any = None) -> None:
        await asyncio.gather(
            *[store.aput((*NAMESPACE, "many"), f"{n}", value(n), index=index) for n in range(300)]
        )

    both = (None, vector_index(me), "300 puts at once, index on both sides, our vectors later")
    neither = (False, None, "300 puts at once, index on neither side")
    for index, config, what in (both, neither) if LOADS_EXTENSIONS else (neither,):
        path = str(folder / f"awaited {index}.db")
        stack = RUNNER.run(enter(theirs.from_conn_string(path, index=config)))
        RUNNER.run(stack.store.conn.execute("pragma journal_mode = wal"))
        RUNNER.run(stack.store.setup())
        fields: list[str] = list(INDEXED["fields"]) if index is None else []
        other = partial(all_at_once, stack.store)
        rows.add(
            plan,
            Case(
                f"AsyncMemoristStore, SQLite: {what}",
                partial(all_at_once, ours, index),
                partial(write_all, me, fields),
                (Other("AsyncSqliteStore in WAL mode", other, DURABLE),),
                calls=1,
                awaited=True,
            ),
        )
        RUNNER.run(stack.context.__aexit__(None, None, None))


def write_all(me: Scope, fields: list[str]) -> None:
    """Write the same 300 items with the library."""
    me.items.write([Put((*NAMESPACE, "many"), f"{n}", value(n), fields=fields) for n in range(300)])


async def enter(context: Any) -> SimpleNamespace:
    """Enter an asynchronous context manager."""
    return SimpleNamespace(context=context, store=await context.__aenter__())


async def create_on_loop(make: Callable[[], Any]) -> Any:
    """Create an object on the event loop."""
    return make()


def saver_sqlite(plan: Plan, rows: Rows, size: int) -> None:
    """Compare with SqliteSaver, which uses WAL mode."""
    folder = plan.new_folder()
    me = plan.open(f"sqlite:///{folder}/memorist.db")
    with import_module("langgraph.checkpoint.sqlite").SqliteSaver.from_conn_string(
        str(folder / "other.db")
    ) as theirs:
        theirs.setup()
        against_saver(plan, rows, me, theirs, "SqliteSaver", f"yes: {pragmas(theirs.conn)}", size)


def saver_postgres(plan: Plan, rows: Rows, size: int) -> None:
    """Compare with PostgresSaver on one connection."""
    me = plan.open(plan.postgres(f"adapters_saver_memorist_{size}"))
    url = plan.postgres(f"adapters_saver_{size}")
    with import_module("langgraph.checkpoint.postgres").PostgresSaver.from_conn_string(
        url
    ) as theirs:
        theirs.setup()
        against_saver(plan, rows, me, theirs, "PostgresSaver", DURABLE, size)


def step(number: int) -> tuple[dict[str, Any], dict[str, str], dict[str, Any]]:
    """Return the checkpoint of a step: 50 constant messages and a number that changes."""
    values = {"n": number, "messages": [{"role": "user", "text": TEXT}] * 50}
    versions = {"n": f"{number + 1:032}.0", "messages": f"{1:032}.0"}
    id = str(import_module("langgraph.checkpoint.base.id").uuid6(clock_seq=number))
    created = {
        "v": 4,
        "id": id,
        "ts": "2026-01-01",
        "channel_values": values,
        "channel_versions": versions,
        "versions_seen": {},
    }
    return (
        created,
        versions if number == 0 else {"n": versions["n"]},
        {"source": "loop", "step": number, "parents": {}},
    )


def against_saver(
    plan: Plan, rows: Rows, me: Scope, theirs: Any, name: str, durable: str, size: int
) -> None:
    """Measure adding a step, adding its writes, and reading the newest step of a thread."""
    ours = import_module("memorist_frameworks.langgraph").MemoristSaver(me)
    write = import_module("memorist_frameworks.checkpoints.checkpoint").Write
    plain = import_module("memorist_frameworks.checkpoints.checkpoints").checkpoints_of(me)
    dump, load = ours.serde.dumps_typed, ours.serde.loads_typed
    engine = "PostgreSQL" if name.startswith("Postgres") else "SQLite"
    which = f"MemoristSaver, {engine}, {size:,} steps"
    at: dict[str, Any] = {"configurable": {"thread_id": f"{size}", "checkpoint_ns": ""}}
    for saver in (ours, theirs):
        config = at
        for n in range(size):
            config = saver.put(config, *[step(n)[place] for place in (0, 2, 1)])
    last = ours.get_tuple(at).config
    numbers = count(size)
    tasks = count()
    other = theirs.get_tuple(at).config

    def put(saver: Any, config: Any) -> None:
        created, new, metadata = step(next(numbers))
        saver.put(config, created, metadata, new)

    def add_checkpoint() -> None:
        created, new, metadata = step(next(numbers))
        values = {
            (channel, version): dump(created["channel_values"][channel])
            for channel, version in new.items()
        }
        state = dump({key: item for key, item in created.items() if key != "channel_values"})
        versions, parent = created["channel_versions"], last["configurable"]["checkpoint_id"]
        plain.add(
            str(size),
            created["id"],
            state,
            parent=parent,
            metadata=metadata,
            versions=versions,
            values=values,
        )

    def add_writes() -> None:
        writes = [write(f"{next(tasks)}", n, "n", dump(n), "") for n in range(2)]
        plain.write(str(size), last["configurable"]["checkpoint_id"], writes)

    checkpoint = plain.get(f"{size}")
    for case in (
        Case(
            f"{which}: put",
            lambda: put(ours, last),
            add_checkpoint,
            (Other(name, lambda: put(theirs, other), durable),),
        ),
        Case(
            f"{which}: put_writes, 2",
            lambda: ours.put_writes(last, [("n", 1), ("n", 2)], f"{next(tasks)}"),
            add_writes,
            (
                Other(
                    name,
                    lambda: theirs.put_writes(other, [("n", 1), ("n", 2)], f"{next(tasks)}"),
                    durable,
                ),
            ),
        ),
        Case(
            f"{which}: get_tuple",
            lambda: ours.get_tuple(at),
            lambda: plain.get(f"{size}"),
            (Other(name, lambda: theirs.get_tuple(at)),),
            objects=lambda: [
                load(item) for item in (checkpoint.state, *checkpoint.values.values())
            ],
        ),
    ):
        rows.add(plan, case)


def memory_tool(plan: Plan, rows: Rows, size: int) -> None:
    """Compare with Anthropic's file tool, which syncs the file but not the folder."""
    folder = plan.new_folder()
    me = plan.open(f"sqlite:///{folder}/memorist.db")
    ours = import_module("memorist_frameworks.anthropic").MemoristMemoryTool(me)
    theirs = import_module("anthropic.tools.memory").BetaLocalFilesystemMemoryTool(
        str(folder / "files")
    )
    commands = import_module("anthropic.types.beta")
    view = commands.BetaMemoryTool20250818ViewCommand(command="view", path="/memories/notes/7.txt")
    edits = [
        commands.BetaMemoryTool20250818StrReplaceCommand(
            command="str_replace", path=view.path, old_str=a, new_str=b
        )
        for a, b in (("7: ", "8: "), ("8: ", "7: "))
    ]
    numbers = count()
    turns = {"ours": count(), "theirs": count()}
    text = "\n".join([f"7: {TEXT}", *["A line of a file that Claude keeps."] * 50])

    def create(tool: Any, path: str = "") -> None:
        path = path or f"/memories/notes/new-{next(numbers)}.txt"
        tool.create(
            commands.BetaMemoryTool20250818CreateCommand(
                command="create", path=path, file_text=text
            )
        )

    at = ("memory_tool", "notes")
    durable = "yes for the file, no for the folder"

    def write(inner: Scope, key: str) -> None:
        inner.items.read([(at, key)])
        inner.items.put(at, key, {"text": text}, fields=["text"])

    def library(key: Callable[[], str]) -> Callable[[], None]:
        return lambda: me.transaction(lambda inner: write(inner, key()), lock="files ada")

    for tool in (ours, theirs):
        for n in range(size):
            create(tool, f"/memories/notes/{n}.txt")
    which = f"MemoristMemoryTool, {size:,} files"
    name = "BetaLocalFilesystemMemoryTool"
    for case in (
        Case(
            f"{which}: create",
            lambda: create(ours),
            library(lambda: f"other-{next(numbers)}"),
            (Other(name, lambda: create(theirs), durable),),
        ),
        Case(
            f"{which}: str_replace",
            lambda: ours.str_replace(edits[next(turns["ours"]) % 2]),
            library(lambda: "3.txt"),
            (Other(name, lambda: theirs.str_replace(edits[next(turns["theirs"]) % 2]), durable),),
        ),
        Case(
            f"{which}: view",
            lambda: ours.view(view),
            lambda: me.items.read([(at, "7.txt")])[0].value,  # type: ignore[union-attr]
            (Other(name, lambda: theirs.view(view)),),
        ),
    ):
        rows.add(plan, case)


def graph_server(plan: Plan, rows: Rows, size: int) -> None:
    """Compare with the official memory server, both as processes over standard streams."""
    tests = import_module("tests.mcp.test_graph")
    clients = import_module("testkit.mcp_clients")
    folder = plan.new_folder()
    name = "the official memory server"
    command = clients.command(
        f"sqlite:///{folder}/memorist.db", "--profile", "graph", "--user", "ada"
    )
    official = [str(tests.NODE), str(tests.OFFICIAL)]
    with ExitStack() as stack:
        ours, _ = stack.enter_context(tests.stdio_server(command))
        theirs, _ = stack.enter_context(
            tests.stdio_server(official, MEMORY_FILE_PATH=str(folder / "memory.jsonl"))
        )
        numbers = {ours: count(), theirs: count()}

        def create(send: Any, amount: int = 1) -> None:
            names = [f"E{next(numbers[send])}" for _ in range(amount)]
            entities = [
                {"name": name, "entityType": "place", "observations": [TEXT]} for name in names
            ]
            answer = send("tools/call", name="create_entities", arguments={"entities": entities})
            assert not answer.get("isError"), answer

        for send in (ours, theirs):
            while next(numbers[send]) < size:
                create(send, 19)
        which = f"MCP profile `graph` over stdio, {size:,} entities"
        rows.add(
            plan,
            Case(
                f"{which}: create_entities, 1",
                lambda: create(ours),
                None,
                (Other(name, lambda: create(theirs), NOT_DURABLE),),
            ),
        )
        for tool, arguments in (
            ("open_nodes", {"names": ["E7"]}),
            ("search_nodes", {"query": "E19"}),
        ):
            mine, other = (tool_call(send, tool, arguments) for send in (ours, theirs))
            rows.add(plan, Case(f"{which}: {tool}", mine, None, (Other(name, other),)))


def tool_call(send: Any, tool: str, arguments: dict[str, Any]) -> Callable[[], object]:
    """Return a function that calls a tool."""
    return lambda: send("tools/call", name=tool, arguments=arguments)
