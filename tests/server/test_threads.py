"""A short way to a thread and back: results, errors, contexts, many loops, and who stops waiting."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from retain import Memory
from retain.base.errors import Busy, Overloaded
from retain.models import Models
from retain.server.app import create_app
from retain.server.threads import Threads, patient
from retain.testing import ScriptedModel
from tests.conftest import SETTINGS, Limited
from tests.serving import serving


def test_what_is_done_and_what_goes_wrong_comes_back() -> None:
    threads, said = Threads(2), contextvars.ContextVar("said", default="")

    def fail() -> None:
        raise LookupError("gone")

    async def all_of_it() -> None:
        said.set("by the caller")
        assert await threads(said.get) == "by the caller"
        assert await threads(lambda *given, **named: (given, named), 1, two=2) == ((1,), {"two": 2})
        with pytest.raises(LookupError, match="gone"):
            await threads(fail)
        assert await asyncio.gather(*(threads(pow, n, 2) for n in range(500))) == [
            n**2 for n in range(500)
        ]
        assert await threads(threading.current_thread) is not threading.current_thread()

    for _ in range(3):  # each time another loop
        asyncio.run(all_of_it())


def test_what_nobody_waits_for_is_done_to_its_end() -> None:
    threads, may_go_on, done = Threads(1), threading.Event(), threading.Event()

    def work() -> None:
        may_go_on.wait(5)
        done.set()

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await threads(work)
        may_go_on.set()
        assert await threads(done.is_set), "and the thread is free again"

    asyncio.run(leave())


def test_who_waits_too_long_for_a_thread_is_refused_and_nothing_of_it_is_done() -> None:
    """F8: behind a stuck database a crowd is answered at once, and not one threadful after the other."""
    threads, may_go_on, done = Threads(1, wait_seconds=0.05), threading.Event(), list[int]()

    async def crowd() -> None:
        first = threads(may_go_on.wait, 5)
        waiting = [threads(done.append, n) for n in range(20)]
        await asyncio.sleep(0.1)
        may_go_on.set()
        assert await first
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(error) for error in found] == [Busy] * 20
        assert done == []
        assert await threads(pow, 2, 2) == 4

    asyncio.run(crowd())


def test_each_has_a_thread_while_there_may_be_more() -> None:
    """The second does not wait for the first, also where no third comes."""
    threads, go_on = Threads(3), threading.Event()

    async def both() -> None:
        first = threads(go_on.wait, 5)
        assert await threads(lambda: "at once") == "at once"
        go_on.set()
        assert await first

    asyncio.run(both())


def test_who_would_wait_for_a_model_behind_others_is_refused() -> None:
    threads, go_on = Threads(2, refuse=True), threading.Event()

    async def three() -> None:
        two = [threads(go_on.wait, 5) for _ in range(2)]
        with pytest.raises(Overloaded):
            threads(go_on.wait, 5)
        go_on.set()
        assert await asyncio.gather(*two) == [True, True]
        assert await threads(lambda: "again") == "again"

    asyncio.run(three())


def test_who_waits_for_models_keeps_nobody_else_from_the_database(
    tmp_path: Path, limited: Limited
) -> None:
    """F8: as many folds as may wait at once; the next is refused, and everything else is answered."""
    go_on = threading.Event()

    class Slow(ScriptedModel):
        def complete(self, *given: Any, **named: Any) -> Any:
            go_on.wait(10)
            return super().complete(*given, **named)

    limited(MAX_IN_FLIGHT=6)
    settings = replace(SETTINGS, work_inside=False)
    models = Models(settings, summary=Slow(*["a summary"] * 9))
    with Memory.open(f"sqlite:///{tmp_path}/a.db", settings=settings, models=models) as memory:
        me = memory.scope(tenant=None, user="ada", agent="scout")
        for name in "abcd":
            me.messages.extend(
                me.sessions.add(name).id, [{"role": "user", "content": f"{n}"} for n in range(40)]
            )
        with (
            serving(create_app(memory)) as address,
            httpx2.Client(base_url=address, timeout=20) as client,
            ThreadPoolExecutor(3) as three,
        ):

            def fold(name: str) -> int:
                return client.post(f"/api/summaries/{name}/fold", json={"force": True}).status_code

            waiting = [three.submit(fold, name) for name in "abc"]
            while patient(3)._open < 3:
                time.sleep(0.01)
            refused = client.post("/api/summaries/d/fold", json={"force": True})
            assert (refused.status_code, "Retry-After" in refused.headers) == (503, True)
            assert (
                client.post("/api/messages/d", json={"role": "user", "content": "x"}).status_code
                == 201
            )
            go_on.set()
            assert [one.result() for one in waiting] == [200] * 3


def test_an_end_of_something_inside_is_an_error_and_no_end_of_the_others() -> None:
    """A future takes no StopIteration: whoever waited, and all who were done after it, would wait for ever."""

    async def ask() -> list[object]:
        threads = Threads(1)
        both = (threads(next, iter(())), threads(lambda: 1))
        return await asyncio.wait_for(asyncio.gather(*both, return_exceptions=True), 10)

    error, found = asyncio.run(ask())
    assert isinstance(error, RuntimeError)
    assert found == 1
