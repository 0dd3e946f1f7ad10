"""A short way to a thread and back: results, errors, contexts, many loops, and who stops waiting."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from retain.server.threads import Threads


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
        assert await asyncio.gather(*(threads(pow, n, 2) for n in range(500))) == [n**2 for n in range(500)]
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
