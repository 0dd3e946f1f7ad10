"""Turns that run in this process: each in a thread of its own, whoever listens, and what it said kept for a while.

A turn belongs to nobody's connection. What happens in it is written once, into a buffer of bounded size; a reader is no more
than a place in that buffer, so a slow one holds nothing, and one that comes back goes on where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from typing import Any

from retain.base.errors import KeyReused, Overloaded, RetainError
from retain.chat import serialization
from retain.server.sse import HEARTBEAT, HEARTBEAT_SECONDS, encode_event

_log = logging.getLogger("retain.chat")

KEEP_SECONDS = 300.0
"""So long the events of a turn that is over can be asked for again."""
MAX_EVENT_BYTES = 512 << 10
"""The most that is kept of one turn's events; the oldest go first, and the whole text comes with its last ones."""
MAX_FINISHED_TURNS = 128
"""The most turns that are over and kept."""
_PER_SESSION = 8
"""The most turns of one session that run and wait, at most a half of all, so that others have a place."""
_AGAIN_SECONDS = 2
_STOPPING = "it is being stopped"

Say = Callable[[str, Mapping[str, Any]], None]
Name = tuple[str, str | None, str, str]
"""A turn's name: tenant, user, session and key."""


class RunningTurn:
    """One turn: what it said so far, and how it ended."""

    def __init__(self, name: Name, digest: bytes) -> None:
        self.name = name
        self.digest = digest
        """What was asked for."""
        self.ended = 0.0
        """When, on the clock of this process; 0 while it runs."""
        self.kept = False
        """Whether the message is: from then on, the key goes on with it."""
        self._lock = threading.Lock()
        self._events: deque[tuple[int, bytes]] = deque()
        self._last = 0
        self._size = 0
        self._result: Any = None
        self._error: Exception | None = None
        self._wakes: set[Callable[[], None]] = set()

    def say(self, event: str, data: Mapping[str, Any]) -> None:
        """Something happened; from any thread. What is said after the end is heard by nobody."""
        with self._lock:
            if not self.ended:
                self.kept = self.kept or event == "start"
                self._add(event, data)
            wakes = tuple(self._wakes)
        for wake in wakes:
            wake()

    def end(
        self,
        result: Any = None,
        error: Exception | None = None,
        last: tuple[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """It is over, with a last event if one is given; the first end counts."""
        with self._lock:
            if self.ended:
                return
            if last is not None:
                self._add(*last)
            self._add("done", {})
            self._result, self._error, self.ended = result, error, time.monotonic()
            wakes = tuple(self._wakes)
        for wake in wakes:
            wake()

    @property
    def failed(self) -> bool:
        """Whether it is over, and nothing came of it."""
        return self._error is not None

    async def result(self) -> Any:
        """What the turn came to, once it is over; or its error."""
        with self._woken() as woken:
            while not self.ended:
                woken.clear()
                if not self.ended:
                    await woken.wait()
        if isinstance(self._error, RetainError):
            raise self._error.again()
        if self._error is not None:
            raise self._error
        return self._result

    async def events(
        self, after: int = 0, beat: float = HEARTBEAT_SECONDS
    ) -> AsyncGenerator[bytes, None]:
        """What was said after an event, then what is being said, to the end; with a beat while nothing is."""
        after = after if after <= self._last else 0  # of another run with the same key
        with self._woken() as woken:
            while True:
                woken.clear()
                found, after, over = self._since(after)
                if found:
                    yield found
                if over:
                    return
                if not found:
                    try:
                        async with asyncio.timeout(beat):
                            await woken.wait()
                    except TimeoutError:
                        yield HEARTBEAT

    def _add(self, event: str, data: Mapping[str, Any]) -> None:
        self._last += 1
        said = encode_event(self._last, event, data)
        self._events.append((self._last, said))
        self._size += len(said)
        while self._size > MAX_EVENT_BYTES and len(self._events) > 1:
            self._size -= len(self._events.popleft()[1])

    def _since(self, after: int) -> tuple[bytes, int, bool]:
        """What was said after an event, the number of the last one, and whether that was all."""
        with self._lock:
            found: list[bytes] = []
            for number, said in reversed(self._events):
                if number <= after:
                    break
                found.append(said)
            return b"".join(reversed(found)), self._last, bool(self.ended)

    @contextlib.contextmanager
    def _woken(self) -> Iterator[asyncio.Event]:
        """An event of this loop that is set whenever something happens."""
        woken, loop = asyncio.Event(), asyncio.get_running_loop()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(woken.set)

        with self._lock:
            self._wakes.add(wake)
        try:
            yield woken
        finally:
            with self._lock:
                self._wakes.discard(wake)


class RunningTurns:
    """The turns of this process, so many at once and no more, and those that were over a moment ago."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._running: dict[Name, RunningTurn] = {}
        self._over: dict[Name, RunningTurn] = {}
        self._stopping = False

    def start(self, name: Name, digest: bytes, work: Callable[[Say], Any]) -> RunningTurn:
        """Run a turn; one of that name that runs already is that one, if the same is asked for."""
        with self._lock:
            if found := self._running.get(name):
                if found.digest != digest:
                    raise KeyReused(key=name[3])
                return found
            if self._stopping:
                raise Overloaded(problem=_STOPPING, seconds=_AGAIN_SECONDS)
            if len(self._running) >= self._most:
                raise Overloaded(problem=f"{self._most} turns are running", seconds=_AGAIN_SECONDS)
            before = sum(other[:3] == name[:3] for other in self._running)
            if before >= max(1, min(_PER_SESSION, self._most // 2)):
                raise Overloaded(
                    problem=f"{before} turns of this session are waiting", seconds=_AGAIN_SECONDS
                )
            self._sweep()
            run = self._running[name] = RunningTurn(name, digest)
            if before:
                run.say("waiting", {"session_id": name[2], "key": name[3], "before": before})
        try:
            threading.Thread(
                target=self._work, args=(run, work), name="retain-chat", daemon=True
            ).start()
        except (
            RuntimeError
        ):  # the machine has no thread left; nobody must wait for this turn, nor be told of it
            error = Overloaded(problem="no thread can be started", seconds=_AGAIN_SECONDS)
            with self._lock:
                del self._running[name]
            run.end(
                error=error,
                last=("error", serialization.failure_data(error, *name[2:], kept=False)),
            )
            raise error from None
        return run

    def get(self, name: Name) -> RunningTurn | None:
        """A turn that runs, or was over a moment ago."""
        with self._lock:
            self._sweep()
            return self._running.get(name) or self._over.get(name)

    def forget(self, tenant: str, user: str) -> None:
        """Keep nothing of what a user's turns said: the user was erased."""
        with self._lock:
            for name in [name for name in self._over if name[:2] == (tenant, user)]:
                del self._over[name]

    @contextlib.asynccontextmanager
    async def during(self, stopping: asyncio.Event, seconds: float) -> AsyncIterator[None]:
        """As long as the server runs; once it is stopping, turns have so many seconds to finish."""

        async def watch() -> None:
            await stopping.wait()
            await self.stop(seconds)

        self._stopping = False
        watching = asyncio.ensure_future(watch())
        try:
            yield
        finally:
            watching.cancel()
            await self.stop(0)

    async def stop(self, seconds: float) -> None:
        """Start no more, let those that run finish for so long, then end their streams with how to go on."""
        with self._lock:
            self._stopping = True
        deadline = time.monotonic() + seconds
        while self._running and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        with self._lock:
            left = list(self._running.values())
        for run in left:
            error = Overloaded(problem=_STOPPING, seconds=_AGAIN_SECONDS)
            run.end(
                error=error,
                last=("error", serialization.failure_data(error, *run.name[2:], kept=run.kept)),
            )

    def _work(self, run: RunningTurn, work: Callable[[Say], Any]) -> None:
        try:
            result = work(run.say)
        except Exception as error:  # it is raised where somebody waits for the turn
            told = None
            if not isinstance(
                error, RetainError
            ):  # a mistake of ours, which a reader of the stream is not told
                _log.exception("a turn failed")
                told = serialization.failure_data(error, *run.name[2:], kept=run.kept)
            run.end(error=error, last=None if told is None else ("error", told))
        else:
            run.end(result)
        finally:
            with self._lock:
                del self._running[run.name]
                self._over.pop(run.name, None)
                self._over[run.name] = run

    def _sweep(self) -> None:
        """Forget what was over long ago, and the oldest of too many."""
        old = time.monotonic() - KEEP_SECONDS
        for name, run in list(self._over.items()):
            if run.ended > old and len(self._over) <= MAX_FINISHED_TURNS:
                break
            del self._over[name]
