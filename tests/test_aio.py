"""AsyncMemory: the same verbs, signatures and results as Memory, and cancellation."""

from __future__ import annotations

import asyncio
import inspect
import io
import random
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memorist import AsyncMemory, AsyncScope, Memory, NewMessage, Scope
from memorist.aio import ASYNC_KINDS, is_verb
from memorist.base.errors import KeyReused, MemoristError, NotFound, Unreachable
from memorist.kinds import KINDS
from testkit.databases import SETTINGS

ROOT = Path(__file__).parent.parent


def test_the_generated_file_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "generate_aio.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        *((kind, ASYNC_KINDS[kind.name]) for kind in KINDS if kind.verbs),
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
            assert (await memory.scope(tenant="acme").admin.users.erase("ada")).removed[
                "state"
            ] == 1
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
                    except MemoristError:
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
        with pytest.raises(MemoristError):
            await AsyncMemory.open("mysql://x")

    asyncio.run(asynchronously())
