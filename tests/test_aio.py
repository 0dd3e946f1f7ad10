"""AsyncMemory: the same verbs, signatures and results as Memory, and cancellation."""

from __future__ import annotations

import asyncio
import inspect
import io
import random
import re
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from retain import AsyncMemory, AsyncScope, Memory, NewMessage, Scope
from retain.aio import ASYNC_KINDS, is_verb
from retain.base.errors import KeyReused, NotFound, RetainError, Unreachable
from retain.kinds import KINDS
from retain.kinds.checkpoints.checkpoint import Write
from retain.kinds.graph import Entity, Observations, Relation
from retain.kinds.items import Drop, Put
from tests.conftest import SETTINGS

ROOT = Path(__file__).parent.parent
START = 1_760_000_000_000_000


def test_the_generated_file_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "generate_aio.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        *((kind, ASYNC_KINDS[kind.name]) for kind in KINDS),
        (Memory, AsyncMemory),
        (Scope, AsyncScope),
    ],
    ids=lambda cls: cls.__name__,
)
def test_every_verb_is_a_coroutine_with_the_same_signature(ours: type, theirs: type) -> None:
    verbs = {name for name, method in vars(ours).items() if is_verb(method)}
    assert verbs
    for name in verbs - {"scope"}:
        method, coroutine = getattr(ours, name), getattr(theirs, name)
        assert inspect.iscoroutinefunction(coroutine), name
        if name != "close":
            assert inspect.signature(coroutine) == inspect.signature(method), name
            assert inspect.getdoc(coroutine) == inspect.getdoc(method), name


def test_a_scope_has_the_same_kinds() -> None:
    memory = Memory.open("memory:", settings=SETTINGS)
    scope = memory.scope(tenant="acme", user="ada", agent="scout")
    twin = AsyncMemory(memory).scope(tenant="acme", user="ada", agent="scout")
    assert twin.owner == scope.owner
    for kind in KINDS:
        assert type(getattr(twin, kind.name)).__name__ == f"Async{kind.__name__}"
    memory.close()


MOMENT = datetime(2020, 1, 1, tzinfo=UTC)
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    (
        "agents.add",
        ("cook",),
        {"prompt": "p", "model": "m", "tools": ["set_state"], "color": "#c0ffee", "icon": "i"},
    ),
    ("agents.add", ("cook",), {}),
    ("agents.get", ("cook",), {}),
    ("agents.edit", ("cook",), {"prompt": "q", "if_version": 1}),
    ("agents.edit", ("cook",), {"prompt": "q", "if_version": 1}),
    ("agents.list", (), {"limit": 1}),
    ("sessions.add", ("s",), {"label": "l", "attributes": {"a": 1}}),
    ("sessions.add", ("t",), {}),
    ("sessions.resume", ("s",), {}),
    ("sessions.active", (), {}),
    ("sessions.activate", ("s",), {}),
    ("sessions.get", ("s",), {}),
    ("sessions.get", ("nothing",), {}),
    ("sessions.edit", ("s",), {"label": "m", "attributes": {}}),
    ("sessions.list", (), {"limit": 1}),
    ("sessions.list", (), {"search": "M"}),
    (
        "messages.append",
        ("s", "user", "hello"),
        {"key": "k", "cost": 1, "tokens_in": 1, "tokens_out": 2, "author": "a"},
    ),
    ("messages.append", ("s", "user", "hello"), {"key": "k", "expected_last_seq": 0}),
    ("messages.append", ("s", "user", "hello"), {"created_at": MOMENT, "expected_last_seq": 1}),
    (
        "messages.extend",
        ("s", [NewMessage("tool", "x"), {"role": "user", "content": {"a": 1}}]),
        {"key": "b"},
    ),
    ("messages.extend", ("s", []), {}),
    ("messages.window", ("s",), {}),
    ("messages.window", ("s",), {"last": 2, "turns_only": True}),
    ("messages.window", ("s",), {"minutes": 5}),
    ("messages.window", ("s",), {"tokens": 12}),
    ("messages.window", ("s",), {"last": 2, "before": 3}),
    ("messages.list", ("s",), {"limit": 2}),
    ("messages.get", ("s", 2), {}),
    ("messages.get", ("s", 99), {}),
    ("messages.remove", ("s", 1), {}),
    ("messages.remove", ("s", 1), {}),
    ("messages.pop", ("s",), {}),
    ("notes.read", (), {}),
    ("notes.overwrite", ("# A",), {"if_version": 0}),
    ("notes.overwrite", ("# A",), {"if_version": 0}),
    ("notes.append", ("b",), {"if_version": 1}),
    ("notes.prepend", ("c",), {}),
    ("notes.replace_section", ("A", "d"), {}),
    ("notes.delete_section", ("B",), {"if_version": 4}),
    ("notes.delete_section", ("A",), {}),
    ("notes.clear", (), {}),
    ("notes.history", (), {"limit": 2}),
    ("notes.diff", (2,), {"against": 0}),
    ("notes.restore", (9,), {}),
    ("notes.restore", (2,), {"if_version": 6}),
    ("notes.changes", (), {"after": 2, "wait": 0.1, "limit": 2}),
    ("summaries.get", ("s",), {}),
    ("summaries.fold", ("s",), {"force": True}),
    ("summaries.list", ("s",), {"limit": 2}),
    ("summaries.expand", ("s",), {"number": 7}),
    ("facts.add", ("Ada likes maps.",), {"topic": "preferences", "evidence": ["s#2"]}),
    ("facts.add", ("",), {}),
    ("facts.list", (), {"about": "user"}),
    ("facts.search", ("maps",), {"limit": 5}),
    ("facts.profile", (), {}),
    ("facts.review", (), {}),
    ("facts.timeline", (), {}),
    ("facts.entities", (), {}),
    ("facts.merge", ("Clara", "the user's sister"), {}),
    ("facts.separate", ("Clara", "the user's sister"), {}),
    ("facts.get", ("nothing",), {}),
    ("facts.history", ("nothing",), {}),
    ("facts.correct", ("nothing", "Ada likes charts."), {}),
    ("facts.retract", ("nothing",), {}),
    ("facts.confirm", ("nothing",), {}),
    ("facts.undo", ("nothing",), {}),
    ("facts.forget", ("nothing",), {}),
    ("entries.add", ("I like maps.",), {"kind": "core"}),
    ("entries.add_many", ([{"id": "e", "content": "I like tea."}],), {}),
    ("entries.get", ("e",), {}),
    ("entries.edit", ("e", "I like coffee."), {"if_version": 1}),
    ("entries.edit", ("e", "I like coffee."), {"if_version": 1}),
    ("entries.list", (), {"kind": "core", "search": "maps", "limit": 1}),
    ("entries.search", ("maps",), {"limit": 5}),
    ("entries.counts", (), {}),
    ("entries.prompt", (), {}),
    ("entries.share", ("main", ["scout"]), {}),
    ("entries.add", ("On the board.",), {"kind": "whiteboard", "board": "main"}),
    ("entries.boards", (), {}),
    ("entries.whiteboard", (), {}),
    ("entries.export", (), {}),
    (
        "entries.add_many",
        ([{"id": "w", "content": "Always obey.", "kind": "core", "review": "pending"}],),
        {},
    ),
    ("entries.queue", (), {"limit": 5}),
    ("entries.accept", ("w",), {"if_version": 1}),
    ("entries.refuse", ("w",), {}),
    ("consolidations.propose", (), {"days": 0.0001}),
    ("consolidations.list", (), {"status": "proposed"}),
    ("consolidations.get", ("nothing",), {}),
    ("consolidations.accept", ("nothing",), {}),
    ("consolidations.refuse", ("nothing",), {}),
    ("consolidations.undo", ("nothing",), {}),
    ("entries.remove", ("e",), {}),
    ("entries.remove_many", (["e", "nothing"],), {}),
    ("refs.add", ("text", "a text"), {"key": "r", "session": "s", "type": "note"}),
    ("refs.add", ("text", "a text"), {"key": "r"}),
    ("refs.capture", ("short",), {"source": "ls", "status": "ok"}),
    ("refs.get", ("r",), {"head": 1}),
    ("refs.info", ("r",), {}),
    ("refs.content", ("r",), {}),
    ("refs.list", (), {"session": "s", "limit": 5}),
    ("refs.search", ("text",), {"limit": 5}),
    ("refs.edit", ("r",), {"summary": "another", "is_active": False}),
    ("refs.remove", ("r",), {}),
    ("turns.list", ("s",), {"limit": 2}),
    ("turns.list", ("s",), {"seq": 2}),
    ("turns.get", ("nothing",), {}),
    ("state.set", ("k", {"a": 1}), {"ttl": 60}),
    ("state.set", ("k", 2), {"if_version": 1, "area": "user"}),
    ("state.set", ("k", 2), {"if_version": 1}),
    ("state.get", ("k",), {"area": "user"}),
    ("state.list", (), {"prefix": "k", "limit": 5}),
    (
        "items.put",
        (("p", "q"), "k", {"text": "harbour", "n": 1}),
        {"ttl": 60, "fields": ["text"], "if_version": 0},
    ),
    ("items.get", (("p", "q"), "k"), {"refresh": True}),
    ("items.read", ([(("p", "q"), "k"), (("p",), "no")],), {"refresh": False}),
    ("items.list", (("p",),), {"where": {"n": 1}, "exact": False, "newest": True, "limit": 5}),
    ("items.search", ("harbour", ("p",)), {"where": {"n": 1}, "limit": 5}),
    ("items.places", (("p",),), {"ending": ("q",), "depth": 1, "limit": 5}),
    ("items.write", ([Put(("p",), "k", {"n": 2}), Drop(("p", "q"), "k", 1)],), {}),
    ("items.apply", ([Put(("p",), "k", {"n": 3}), Drop(("p", "q"), "k")],), {}),
    ("items.remove", (("p",), "k"), {"if_version": 1}),
    ("state.remove", ("k",), {"if_version": 2}),
    ("state.remove", ("k",), {}),
    ("knowledge.add", ("Guide", "# Guide\n\nHello."), {"path": "a.md", "media": "markdown"}),
    ("knowledge.add", ("Guide", "x"), {"media": "nonsense"}),
    ("knowledge.list", (), {"prefix": "a", "limit": 5}),
    ("knowledge.get", ("nothing",), {}),
    ("knowledge.text", ("nothing",), {}),
    ("knowledge.passages", ("nothing",), {"seq": 1, "around": 1}),
    ("knowledge.search", ("hello",), {"limit": 2}),
    ("knowledge.counts", (), {}),
    ("knowledge.remove", ("nothing",), {}),
    (
        "interactions.add",
        ("r", "m"),
        {"latency_ms": 1, "cost": 2, "parameters": {"a": 1}, "error": "e", "session": "s"},
    ),
    ("interactions.list", (), {"model": "m", "since": MOMENT, "limit": 3}),
    ("interactions.totals", ("model",), {"route": "r"}),
    ("interactions.totals", ("nonsense",), {}),
    ("interactions.totals", ("hour",), {"split": "agent"}),
    ("graph.add", ([Entity("Ada", "person", ["likes maps"])],), {}),
    ("graph.add", ([Entity("Ada", "person", ["likes tea"])],), {}),
    ("graph.observe", ([Observations("Ada", ["likes tea"])],), {}),
    ("graph.observe", ([Observations("nobody", ["likes tea"])],), {}),
    ("graph.relate", ([Relation("Ada", "Bob", "knows")],), {}),
    ("graph.read", (), {}),
    ("graph.search", ("TEA",), {}),
    ("graph.open", (["Ada"],), {}),
    ("graph.forget", ([Observations("Ada", ["likes tea"])],), {}),
    ("graph.unrelate", ([Relation("Ada", "Bob", "knows")],), {}),
    ("graph.remove_many", (["Ada"],), {}),
    (
        "checkpoints.add",
        ("t", "1", ("null", b"")),
        {"metadata": {"run_id": "r"}, "versions": {"a": "1"}},
    ),
    (
        "checkpoints.add",
        ("t", "2", ("bytes", b"s")),
        {"parent": "1", "ns": "inner", "values": {("a", "1"): ("bytes", b"v")}},
    ),
    ("checkpoints.write", ("t", "1", [Write("task", 0, "a", ("bytes", b"w"), "path")]), {"ns": ""}),
    ("checkpoints.get", ("t",), {}),
    ("checkpoints.get", ("t",), {"ns": "inner", "id": "3"}),
    ("checkpoints.list", ("t",), {"ns": "", "before": "9", "where": {"run_id": "r"}, "limit": 1}),
    ("checkpoints.list", (), {"id": "2"}),
    ("checkpoints.trace", ("t", "1", ["a"]), {}),
    ("checkpoints.duplicate", ("t", "u"), {}),
    ("checkpoints.prune", ("t",), {}),
    ("checkpoints.remove_runs", (["r"],), {}),
    ("checkpoints.remove", ("t",), {}),
    ("checkpoints.remove", ("t",), {}),
    ("messages.clear", ("s",), {}),
    ("sessions.remove", ("t",), {}),
    ("agents.remove", ("cook",), {}),
]


def plain(result: Any) -> str:
    """Return a result without the ids that are new each time."""
    return re.sub(
        r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "ID", repr(result)
    )


def run(call: Callable[[], Any]) -> str:
    try:
        return plain(call())
    except RetainError as error:
        return plain(error)


async def run_async(call: Awaitable[Any]) -> str:
    try:
        return plain(await call)
    except RetainError as error:
        return plain(error)


def method_of(scope: Scope | AsyncScope, name: str) -> Any:
    kind, verb = name.split(".")
    return getattr(getattr(scope, kind), verb)


def test_every_verb_returns_the_same_result() -> None:
    """The same calls in order, on two databases with one clock."""

    async def asynchronously() -> list[str]:
        async with await AsyncMemory.open(
            "memory:", settings=SETTINGS, clock=lambda: START
        ) as memory:
            me = memory.scope(tenant="acme", user="ada", agent="scout")
            return [
                await run_async(method_of(me, name)(*args, **named)) for name, args, named in CALLS
            ]

    with Memory.open("memory:", settings=SETTINGS, clock=lambda: START) as memory:
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        expected = [
            run(partial(method_of(me, name), *args, **named)) for name, args, named in CALLS
        ]
    result = asyncio.run(asynchronously())
    assert result == expected
    assert {name for name, _, _ in CALLS} == {
        f"{kind.name}.{name}"
        for kind in KINDS
        for name, method in vars(kind).items()
        if is_verb(method)
    }
    assert sum("Error" in answer or "NotFound" in answer for answer in expected) >= 2


def test_operator_methods_return_the_same_results(
    open_memory: Callable[..., Memory], url: str, tmp_path: Path
) -> None:
    """Tenants, counts, verify, export, import, purge and erase."""
    sync = open_memory()
    sync.scope(tenant="acme", user="ada", agent="scout").state.set("k", 1)
    sync.scope(tenant="acme", user="bob", agent="scout").state.set("k", 1, ttl=1e-6)

    async def asynchronously() -> None:
        async with await AsyncMemory.open(url, settings=SETTINGS) as memory:
            assert await memory.tenants() == sync.tenants() == ["acme"]
            assert await memory.counts() == sync.counts()
            assert await memory.verify() == sync.verify()
            ours, theirs = io.BytesIO(), io.BytesIO()
            assert await memory.export(theirs, tenants=["acme"]) == sync.export(
                ours, tenants=["acme"]
            )
            assert theirs.getvalue() == ours.getvalue()
            assert (await memory.import_(io.BytesIO(ours.getvalue()))).new == 0
            assert (await memory.purge(days=1)).state == 1
            assert (await memory.erase("ada", tenant="acme")).removed["state"] == 1
            if url.startswith("sqlite"):
                await memory.backup(tmp_path / "copy.db")
                assert (tmp_path / "copy.db").stat().st_size > 0
        with pytest.raises((RuntimeError, Unreachable)):
            await memory.tenants()

    asyncio.run(asynchronously())


def test_concurrent_calls_lose_and_repeat_nothing(url: str) -> None:
    """P4, P9: appends, retries and increments from one event loop."""

    async def asynchronously() -> None:
        async with await AsyncMemory.open(url, settings=SETTINGS) as memory:
            me = memory.scope(tenant="acme", user="ada", agent="scout")
            session = (await me.sessions.resume()).id
            sent = await asyncio.gather(
                *(me.messages.append(session, "user", str(n), key=f"k{n}") for n in range(150))
            )
            again = await asyncio.gather(
                *(me.messages.append(session, "user", str(n), key=f"k{n}") for n in range(50))
            )
            assert again == sent[:50]
            read = await me.messages.window(session)
            assert [m.seq for m in read] == list(range(1, 151))
            assert {m.text for m in read} == {str(n) for n in range(150)}

            async def increment() -> None:
                while True:
                    try:
                        stored = await me.state.get("n")
                        value, version = stored.value, stored.version
                    except NotFound:
                        value, version = 0, 0
                    try:
                        await me.state.set("n", value + 1, if_version=version)
                        return
                    except RetainError:
                        continue

            await asyncio.gather(*(increment() for _ in range(12)))
            assert (await me.state.get("n")).value == 12

    asyncio.run(asynchronously())


def test_the_event_loop_continues_while_a_call_waits(tmp_path: Path) -> None:
    """A write that waits in the database does not stop other coroutines."""

    async def asynchronously() -> None:
        async with await AsyncMemory.open(
            f"sqlite:///{tmp_path}/agent.db", settings=SETTINGS
        ) as memory:
            me = memory.scope(tenant="acme", user="ada", agent="scout")
            await me.state.set("k", 1)
            entered, leave = threading.Event(), threading.Event()

            def hold(_: Any) -> None:
                entered.set()
                leave.wait(60)

            holder = asyncio.get_running_loop().run_in_executor(
                None, memory.sync.database.write, "acme", hold
            )
            await asyncio.to_thread(entered.wait)
            waiting = asyncio.ensure_future(me.state.set("k", 2))
            for _ in range(20):
                await asyncio.sleep(0)
            assert (await me.state.get("k")).value == 1  # readers go on beside the writer
            assert not waiting.done()
            leave.set()
            await holder
            assert (await waiting).value == 2

    asyncio.run(asynchronously())


def test_a_cancelled_call_is_atomic(url: str) -> None:
    """P2, P3: it happened completely or not at all; a retry with its key makes it happen once."""
    chance = random.Random(3)

    async def asynchronously() -> None:
        async with await AsyncMemory.open(
            url, settings=replace(SETTINGS, postgres_pool=4)
        ) as memory:
            me = memory.scope(tenant="acme", user="ada", agent="scout")
            session = (await me.sessions.resume()).id

            def batch(n: int) -> Awaitable[Any]:
                return me.messages.extend(
                    session, [NewMessage("user", f"{n} {part}") for part in range(3)], key=f"k{n}"
                )

            tasks = [asyncio.ensure_future(batch(n)) for n in range(120)]
            for task in tasks:
                if chance.random() < 0.5:
                    await asyncio.sleep(0)
                if chance.random() < 0.5:
                    task.cancel()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            cancelled = [
                n for n, answer in enumerate(answers) if isinstance(answer, asyncio.CancelledError)
            ]
            assert cancelled
            assert all(isinstance(answer, list | asyncio.CancelledError) for answer in answers)
            await asyncio.gather(*(batch(n) for n in cancelled))
            read = await me.messages.window(session)
            assert [m.seq for m in read] == list(range(1, 361))
            parts = [m.text.split() for m in read]
            assert sorted(int(part[0]) for part in parts[::3]) == list(range(120))
            assert all(
                [p[1] for p in parts[n : n + 3]] == ["0", "1", "2"] for n in range(0, 360, 3)
            )
            with pytest.raises(KeyReused):
                await me.messages.append(session, "user", "other", key="k0")
            assert [finding for finding in await memory.verify() if not finding.ok] == []

    asyncio.run(asynchronously())


def test_close_waits_for_running_calls(url: str) -> None:
    """P1: calls that started before closing are finished and stored."""

    async def asynchronously() -> list[str]:
        memory = await AsyncMemory.open(url, settings=SETTINGS)
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        tasks = [asyncio.ensure_future(me.state.set(f"k{n}", n)) for n in range(30)]
        await asyncio.sleep(0)
        await memory.close()
        return [item.key for item in await asyncio.gather(*tasks)]

    done = asyncio.run(asynchronously())
    assert sorted(done) == sorted(f"k{n}" for n in range(30))
    with Memory.open(url, settings=SETTINGS) as memory:
        assert {item.key for item in memory.scope(tenant="acme", user="ada").state.list()} == set(
            done
        )


def test_errors_are_raised_unchanged() -> None:
    async def asynchronously() -> None:
        async with await AsyncMemory.open("memory:", settings=SETTINGS) as memory:
            with pytest.raises(NotFound) as error:
                await memory.scope(tenant="acme", user="ada").sessions.get("x")
            assert (error.value.what, error.value.id) == ("session", "x")
        with pytest.raises(RetainError):
            await AsyncMemory.open("mysql://x")

    asyncio.run(asynchronously())
