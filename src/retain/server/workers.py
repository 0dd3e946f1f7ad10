"""Several processes on one port: each opens the memory for itself, and one that dies is replaced.

Workers are forks of a parent that has no memory open and no threads. The parent only waits for a
pipe into which signals and workers write. Another pipe closes when the parent exits, so that no
worker outlives it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from retain.base.errors import RetainError

Work = Callable[[Callable[[], None], int], int]
"""Runs a worker and returns its exit status. Arguments: a callback for when the worker is ready,
and the pipe that closes when the parent exits."""
_READY = b"R"
_SOON_SECONDS = 10.0  # a worker that dies sooner is restarted after a pause
_MAX_PAUSE_SECONDS = 5.0


class Workers:
    """`count` worker processes that do the same work.

    on_ready:     called once all workers are ready
    gone:         called with the process id of each worker that ended
    stop_seconds: time to stop after a signal; workers that are left then are killed
    """

    def __init__(
        self,
        count: int,
        work: Work,
        on_ready: Callable[[], None],
        gone: Callable[[int], None],
        stop_seconds: float,
    ) -> None:
        self._count = count
        self._work = work
        self._on_ready: Callable[[], None] | None = on_ready
        self._gone = gone
        self._stop_seconds = stop_seconds
        self._killed_at = float("inf")
        self._started: dict[int, float] = {}
        self._due: list[float] = []
        self._ready = self._asked = self._passed_on = self._failures = 0
        self._status = 0

    def run(self) -> int:
        """Keep the workers running until a signal to stop; return the exit status."""
        self._heard, self._say = os.pipe()
        self._lives, self._life = os.pipe()
        os.set_blocking(self._heard, False)
        os.set_blocking(self._say, False)
        before = {
            number: signal.signal(number, self._ask) for number in (signal.SIGTERM, signal.SIGINT)
        }
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._say)
        try:
            for _ in range(self._count):
                self._start()
            self._watch()
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)
            for end in (self._heard, self._say, self._lives, self._life):
                os.close(end)
        return self._status

    def _ask(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: stop, and at the second signal kill."""
        self._asked += 1

    def _watch(self) -> None:
        while self._started or self._due:
            until = min([self._killed_at, *self._due])
            self._hear(max(0.0, until - time.monotonic()) if until < float("inf") else None)
            self._bury()
            if self._asked:
                self._stop()
            while self._due and min(self._due) <= time.monotonic():
                self._due.remove(min(self._due))
                self._start()

    def _stop(self) -> None:
        """Pass each signal on once: a worker takes a second signal as an order to exit at once."""
        self._due.clear()
        if self._asked > 1:
            self._status = 128 + signal.SIGKILL
            self._tell(signal.SIGKILL)
        elif not self._passed_on:
            self._killed_at = time.monotonic() + self._stop_seconds
            self._tell(signal.SIGTERM)
        elif time.monotonic() >= self._killed_at:
            print(
                "retain: workers that did not stop in time are killed", file=sys.stderr, flush=True
            )
            self._killed_at = float("inf")
            self._tell(signal.SIGKILL)
        self._passed_on = self._asked

    def _hear(self, seconds: float | None) -> None:
        """Wait for a signal or for a worker to be ready."""
        if select.select([self._heard], [], [], seconds)[0]:
            with suppress(BlockingIOError):
                self._ready += os.read(self._heard, 1024).count(_READY)
        if self._ready >= self._count and self._on_ready:
            self._on_ready()
            self._on_ready = None

    def _bury(self) -> None:
        """Reap ended workers and schedule restarts. Stop if a worker fails before all are ready."""
        while self._started:
            pid, wait_status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            began = self._started.pop(pid, time.monotonic())
            self._gone(pid)
            status = os.waitstatus_to_exitcode(wait_status)
            if self._on_ready:
                self._status = self._status or abs(status)
                self._asked = max(1, self._asked)
            if self._asked:
                self._status = self._status or int(status not in (0, -signal.SIGTERM))
                continue
            soon = time.monotonic() - began < _SOON_SECONDS
            self._failures = self._failures + 1 if soon else 0
            self._due.append(time.monotonic() + (_pause(self._failures) if soon else 0.0))
            print(
                f"retain: the worker {pid} ended with {status}; another one is started",
                file=sys.stderr,
                flush=True,
            )

    def _tell(self, number: int) -> None:
        for pid in self._started:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _start(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            self._started[pid] = time.monotonic()
            return
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            os.close(self._life)
            if self._asked:  # the signal came before the worker could handle it
                os._exit(0)
            status = self._work(lambda: _say(self._say), self._lives)
        except RetainError as error:
            print(f"retain: {error}", file=sys.stderr)
            status = error.exit_code
        except BaseException:  # a child must exit here and never continue as the parent
            traceback.print_exc()
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)


def _pause(failures: int) -> float:
    """Return the seconds to wait before the next start; `failures` may be very large."""
    return min(0.1 * (1 << min(failures, 10)), _MAX_PAUSE_SECONDS)


def _say(pipe: int) -> None:
    with suppress(OSError):
        os.write(pipe, _READY)
