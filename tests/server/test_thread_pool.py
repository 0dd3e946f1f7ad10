"""The thread pools of request handlers: results, errors, waiting times, and rejection when full."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from memorist import Memory
from memorist.base.errors import Busy, Overloaded
from memorist.models import Models
from memorist.server.http.app import create_app
from memorist.server.http.thread_pool import (
    FILE_READER_THREADS,
    ThreadPool,
    in_file_reader,
    model_threads,
)
from memorist.testing import ScriptedModel
from testkit.databases import SETTINGS
from testkit.limited import Limited
from testkit.serving import serving


def test_results_errors_and_context_variables_pass_between_caller_and_thread() -> None:
    in_thread = ThreadPool(2)
    name = contextvars.ContextVar("name", default="")

    def fail() -> None:
        raise LookupError("gone")

    async def call() -> None:
        name.set("of the caller")
        assert await in_thread(name.get) == "of the caller"
        assert await in_thread(dict, [("a", 1)], b=2) == {"a": 1, "b": 2}
        with pytest.raises(LookupError, match="gone"):
            await in_thread(fail)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await in_thread(next, iter(()))
        squares = await asyncio.gather(*(in_thread(pow, n, 2) for n in range(500)))
        assert squares == [n**2 for n in range(500)]

    for _ in range(3):  # a new event loop each time
        asyncio.run(call())


def test_started_work_runs_to_its_end_when_the_caller_stops_waiting() -> None:
    in_thread = ThreadPool(1)
    may_go_on = threading.Event()
    finished = threading.Event()

    def work() -> None:
        may_go_on.wait(5)
        finished.set()

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await in_thread(work)
        may_go_on.set()
        assert await in_thread(finished.is_set), "the thread is free again"

    asyncio.run(leave())


def test_a_call_that_waits_too_long_for_a_thread_is_rejected_without_running() -> None:
    """Behind a stuck database a crowd is rejected at once, not one threadful after the other."""
    in_thread = ThreadPool(1, max_wait_seconds=0.05)
    may_go_on = threading.Event()
    ran: list[int] = []

    async def crowd() -> None:
        first = in_thread(may_go_on.wait, 5)
        waiting = [in_thread(ran.append, n) for n in range(20)]
        await asyncio.sleep(0.1)
        may_go_on.set()
        assert await first
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(error) for error in results] == [Busy] * 20
        assert ran == []
        assert await in_thread(pow, 2, 2) == 4

    asyncio.run(crowd())


def test_a_full_pool_for_models_rejects_the_next_call() -> None:
    in_thread = ThreadPool(2, reject_when_full=True)
    go_on = threading.Event()

    async def three() -> None:
        both = [in_thread(go_on.wait, 5) for _ in range(2)]
        with pytest.raises(Overloaded):
            in_thread(go_on.wait, 5)
        go_on.set()
        assert await asyncio.gather(*both) == [True, True]
        assert await in_thread(lambda: "again") == "again"

    asyncio.run(three())


def test_requests_that_wait_for_models_do_not_block_other_requests(
    tmp_path: Path, limited: Limited
) -> None:
    """As many folds as may wait at once; the next is rejected, and everything else works."""
    go_on = threading.Event()

    class SlowModel(ScriptedModel):
        def complete(self, *args: Any, **kwargs: Any) -> Any:
            go_on.wait(10)
            return super().complete(*args, **kwargs)

    limited(MAX_IN_FLIGHT=6)
    settings = SETTINGS
    models = Models(settings, summary=SlowModel(*["a summary"] * 9))
    with Memory.open(f"sqlite:///{tmp_path}/a.db", settings=settings, models=models) as memory:
        me = memory.scope(tenant=None, user="ada", agent="scout")
        for name in "abcd":
            me.messages.extend(
                me.sessions.add(name).id, [{"role": "user", "content": f"{n}"} for n in range(40)]
            )
        with (
            serving(create_app(memory, jobs=False)) as address,
            httpx2.Client(base_url=address, timeout=20) as client,
            ThreadPoolExecutor(3) as three,
        ):

            def fold(name: str) -> int:
                return client.post(f"/api/summaries/{name}/fold", json={"force": True}).status_code

            waiting = [three.submit(fold, name) for name in "abc"]
            while model_threads(3).pending < 3:
                time.sleep(0.01)
            rejected = client.post("/api/summaries/d/fold", json={"force": True})
            assert (rejected.status_code, "Retry-After" in rejected.headers) == (503, True)
            message = {"role": "user", "content": "x"}
            assert client.post("/api/messages/d", json=message).status_code == 201
            go_on.set()
            assert [future.result() for future in waiting] == [201] * 3


def test_other_requests_do_not_wait_for_short_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(in_file_reader, "_max_wait_seconds", 60.0)

    async def occupy() -> None:
        await asyncio.gather(*[in_file_reader(go_on.wait, 60) for _ in range(FILE_READER_THREADS)])

    with (
        Memory.open(f"sqlite:///{tmp_path}/a.db", settings=SETTINGS) as memory,
        serving(create_app(memory, jobs=False)) as address,
        httpx2.Client(base_url=address, timeout=60) as client,
        ThreadPoolExecutor(2) as two,
    ):
        memory.scope(tenant=None, user="ada", agent="scout").sessions.add("a")
        occupied = two.submit(asyncio.run, occupy())
        while in_file_reader.pending < FILE_READER_THREADS:
            time.sleep(0.01)
        short = two.submit(client.get, "/api/messages/a/window?last=2")
        message = {"role": "user", "content": "x"}
        assert client.post("/api/messages/a", json=message).status_code == 201
        assert len(client.get("/api/messages/a/window").json()) == 1
        assert client.get("/api/messages/a/window?last=201").status_code == 200
        assert not short.done()
        go_on.set()
        occupied.result()
        assert len(short.result().json()) == 1
