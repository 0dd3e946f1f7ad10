"""Turns that run in this process, each in its own thread, and their buffered events.

A turn does not depend on a connection. Its events are written once, into a buffer of limited size.
A reader is only a position in that buffer: a slow reader blocks nothing, and one that reconnects
continues where it stopped.
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

from memorist.base.errors import KeyReused, MemoristError, Overloaded
from memorist.chat import serialization
from memorist.server.http.sse import HEARTBEAT, HEARTBEAT_SECONDS, encode_event

_log = logging.getLogger("memorist.chat")

KEEP_SECONDS = 300.0
"""The events of a finished turn can be read again for this time."""
MAX_EVENT_BYTES = 512 << 10
"""Buffer size per turn. The oldest events are dropped first; the last ones have the whole text."""
MAX_FINISHED_TURNS = 128
"""Finished turns whose events are kept."""
FINISHING_SHARE = 0.6
"""Share of the stop time for running turns; the rest is for their last events."""
_MAX_PER_SESSION = 8
"""Turns of one session that run or wait; at most half of all, so that others get a slot."""
_RETRY_SECONDS = 2
_STOPPING = "it is being stopped"

Emit = Callable[[str, Mapping[str, Any]], None]
Name = tuple[str, str | None, str, str]
"""A turn's name: tenant, user, session and key."""


class RunningTurn:
    """One turn: its events so far, and its result or error."""

    def __init__(self, name: Name, digest: bytes) -> None:
        self.name = name
        self.digest = digest
        """Hash of the request."""
        self.ended = 0.0
        """Monotonic time of the end; 0 while it runs."""
        self.message_stored = False
        """True once the message is stored: a retry with the key then continues from it."""
        self._lock = threading.Lock()
        self._events: deque[tuple[int, bytes]] = deque()
        self._last = 0
        self._size = 0
        self._result: Any = None
        self._error: Exception | None = None
        self._wakes: set[Callable[[], None]] = set()

    def emit(self, event: str, data: Mapping[str, Any]) -> None:
        """Add an event, from any thread. Events after the end are ignored."""
        with self._lock:
            if not self.ended:
                self.message_stored = self.message_stored or event == "start"
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
        """End the turn, with an optional last event. Only the first call counts."""
        with self._lock:
            if self.ended:
                return
            if last is not None:
                self._add(*last)
            self._add("done", {})
            self._result = result
            self._error = error
            self.ended = time.monotonic()
            wakes = tuple(self._wakes)
        for wake in wakes:
            wake()

    @property
    def failed(self) -> bool:
        """True if the turn ended with an error."""
        return self._error is not None

    async def result(self) -> Any:
        """Wait for the end; return the result or raise the error."""
        with self._woken() as woken:
            while not self.ended:
                woken.clear()
                if not self.ended:
                    await woken.wait()
        if isinstance(self._error, MemoristError):
            raise self._error.copy()
        if self._error is not None:
            raise self._error
        return self._result

    async def events(
        self, after: int = 0, beat: float = HEARTBEAT_SECONDS
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events after number `after` until the end, with heartbeats while idle."""
        after = after if after <= self._last else 0  # the number is of another run of this key
        with self._woken() as woken:
            while True:
                woken.clear()
                new_events, after, over = self._since(after)
                if new_events:
                    yield new_events
                if over:
                    return
                if not new_events:
                    try:
                        async with asyncio.timeout(beat):
                            await woken.wait()
                    except TimeoutError:
                        yield HEARTBEAT

    def _add(self, event: str, data: Mapping[str, Any]) -> None:
        self._last += 1
        encoded = encode_event(self._last, event, data)
        self._events.append((self._last, encoded))
        self._size += len(encoded)
        while self._size > MAX_EVENT_BYTES and len(self._events) > 1:
            self._size -= len(self._events.popleft()[1])

    def _since(self, after: int) -> tuple[bytes, int, bool]:
        """Return the events after a number, the last number, and whether the turn has ended."""
        with self._lock:
            newest_first: list[bytes] = []
            for number, encoded in reversed(self._events):
                if number <= after:
                    break
                newest_first.append(encoded)
            return b"".join(reversed(newest_first)), self._last, bool(self.ended)

    @contextlib.contextmanager
    def _woken(self) -> Iterator[asyncio.Event]:
        """Provide an asyncio event that is set whenever the turn has a new event."""
        woken = asyncio.Event()
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(woken.set)

        with self._lock:
            self._wakes.add(wake)
        try:
            yield woken
        finally:
            with self._lock:
                self._wakes.discard(wake)


class RunningTurns:
    """The turns of this process: at most `max_running` that run, and those that ended recently."""

    def __init__(self, max_running: int) -> None:
        self._max_running = max_running
        self._lock = threading.Lock()
        self._running: dict[Name, RunningTurn] = {}
        self._finished: dict[Name, RunningTurn] = {}
        self._stopping = False

    def start(self, name: Name, digest: bytes, work: Callable[[Emit], Any]) -> RunningTurn:
        """Start a turn, or return the running turn of that name if the request is the same."""
        with self._lock:
            if running := self._running.get(name):
                if self._stopping or not running.ended:
                    if running.digest != digest:
                        raise KeyReused(key=name[3])
                    return running
                del self._running[name]  # its thread has not removed it yet
            if self._stopping:
                raise Overloaded(problem=_STOPPING, seconds=_RETRY_SECONDS)
            if len(self._running) >= self._max_running:
                raise Overloaded(
                    problem=f"{self._max_running} turns are running", seconds=_RETRY_SECONDS
                )
            before = sum(other[:3] == name[:3] for other in self._running)
            if before >= max(1, min(_MAX_PER_SESSION, self._max_running // 2)):
                raise Overloaded(
                    problem=f"{before} turns of this session are waiting", seconds=_RETRY_SECONDS
                )
            self._sweep()
            run = self._running[name] = RunningTurn(name, digest)
            if before:
                run.emit("waiting", {"session_id": name[2], "key": name[3], "before": before})
        try:
            threading.Thread(
                target=self._work, args=(run, work), name="memorist-chat", daemon=True
            ).start()
        except RuntimeError:
            # The machine has no thread left. Remove the turn, so that no request waits for it.
            error = Overloaded(problem="no thread can be started", seconds=_RETRY_SECONDS)
            with self._lock:
                del self._running[name]
            run.end(
                error=error,
                last=("error", serialization.failure_data(error, *name[2:], message_stored=False)),
            )
            raise error from None
        return run

    def get(self, name: Name) -> RunningTurn | None:
        """Return a turn that runs or ended recently, or None."""
        with self._lock:
            self._sweep()
            return self._running.get(name) or self._finished.get(name)

    def forget(self, tenant: str, user: str | None = None) -> None:
        """Drop the events of finished turns of a tenant, or of one user: they were erased."""
        with self._lock:
            for name in [
                name for name in self._finished if name[0] == tenant and user in (None, name[1])
            ]:
                del self._finished[name]

    @contextlib.asynccontextmanager
    async def during(self, stopping: asyncio.Event, seconds: float) -> AsyncIterator[None]:
        """Run with the server; once it is stopping, turns have `seconds` to finish."""

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
        """Start no more turns, wait `seconds` for running ones, then end them with a retry hint."""
        with self._lock:
            self._stopping = True
        deadline = time.monotonic() + seconds
        while self._running and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        with self._lock:
            left = list(self._running.values())
        for run in left:
            error = Overloaded(problem=_STOPPING, seconds=_RETRY_SECONDS)
            run.end(
                error=error,
                last=(
                    "error",
                    serialization.failure_data(
                        error, *run.name[2:], message_stored=run.message_stored
                    ),
                ),
            )

    def _work(self, run: RunningTurn, work: Callable[[Emit], Any]) -> None:
        try:
            result = work(run.emit)
        except Exception as error:  # raised again in result()
            failure = None
            if not isinstance(error, MemoristError):
                # A bug of ours; the stream has had no error event yet.
                _log.exception("a turn failed")
                failure = serialization.failure_data(
                    error, *run.name[2:], message_stored=run.message_stored
                )
            run.end(error=error, last=None if failure is None else ("error", failure))
        else:
            run.end(result)
        finally:
            with self._lock:
                if self._running.get(run.name) is run:  # a retry may have replaced it
                    del self._running[run.name]
                    self._finished.pop(run.name, None)
                    self._finished[run.name] = run

    def _sweep(self) -> None:
        """Drop finished turns that are too old or too many."""
        old = time.monotonic() - KEEP_SECONDS
        for name, run in list(self._finished.items()):
            if run.ended > old and len(self._finished) <= MAX_FINISHED_TURNS:
                break
            del self._finished[name]
