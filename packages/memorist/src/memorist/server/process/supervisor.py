"""Several processes on one port: each opens the memory for itself, and one that dies is replaced.

The supervisor of uvicorn has no time limit for stopping, restarts a failing worker without a pause
and always exits with 0; this one has them, and reports when all workers are ready. A worker is a new
process, which gets its configuration over its standard input. That pipe closes when the supervisor exits, so
that no worker outlives it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import FrameType

from memorist.base.settings import Settings

READY = b"R"
"""A worker writes this into the pipe for it once it is ready."""
EARLY_EXIT_SECONDS = 10.0
"""A worker that exits sooner is restarted after a pause."""
MAX_PAUSE_SECONDS = 5.0
_CHECK_SECONDS = 0.1


@dataclass(frozen=True)
class WorkerConfig:
    """The configuration that the supervisor sends to a worker."""

    settings: Settings
    listener: int  # file number of the listening socket
    ready: int  # file number of the pipe for READY
    readiness_mark: str
    """A file that exists once a proxy has checked the readiness of any worker."""
    jobs: bool

    def encode(self) -> bytes:
        """Return the line that a worker reads."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> WorkerConfig:
        """Parse the line that `encode` wrote."""
        fields = json.loads(line)
        return cls(**fields | {"settings": Settings(**fields["settings"])})


@dataclass(frozen=True)
class WorkerCommand:
    """How a worker is started."""

    arguments: Sequence[str]
    config: Callable[[int], bytes]
    """Returns what a worker reads, given the file number of the pipe for READY."""
    files: Sequence[int] = ()
    """Further file numbers that it inherits."""


class Supervisor:
    """Runs `count` worker processes that do the same work, and replaces those that end.

    on_ready:     called once all workers are ready
    on_exit:      called with the process id of each worker that ended
    stop_seconds: time to stop after a signal; workers that are left then are killed
    """

    def __init__(
        self,
        count: int,
        command: WorkerCommand,
        *,
        on_ready: Callable[[], None],
        on_exit: Callable[[int], None],
        stop_seconds: float,
    ) -> None:
        self._count = count
        self._command = command
        self._on_ready: Callable[[], None] | None = on_ready
        self._on_exit = on_exit
        self._stop_seconds = stop_seconds
        self._kill_at = float("inf")
        self._started: dict[subprocess.Popen[bytes], float] = {}
        self._restart_times: list[float] = []
        self._ready = self._signals = self._forwarded_signals = self._failures = 0
        self._status = 0

    def run(self) -> int:
        """Keep the workers running until a signal to stop; return the exit status."""
        self._ready_reader, self._ready_writer = os.pipe()
        stop_signals = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self._handle_signal) for number in stop_signals}
        try:
            self._restart_times = [0.0] * self._count
            self._watch()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self._ready_reader)
            os.close(self._ready_writer)
        return self._status

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: stop, and at the second signal kill."""
        self._signals += 1

    def _watch(self) -> None:
        while self._started or self._restart_times:
            if self._signals:
                self._stop()
            for restart_at in list(self._restart_times):
                if restart_at <= time.monotonic():
                    self._restart_times.remove(restart_at)
                    self._start()
            if select.select([self._ready_reader], [], [], _CHECK_SECONDS)[0]:
                self._ready += len(os.read(self._ready_reader, 1024))
            if self._ready >= self._count and self._on_ready:
                self._on_ready()
                self._on_ready = None
            self._reap()

    def _reap(self) -> None:
        for worker in list(self._started):
            if worker.poll() is not None:
                self._ended(worker)

    def _stop(self) -> None:
        """Pass each signal on once: a worker takes a second signal as an order to exit at once."""
        self._restart_times.clear()
        if self._signals > 1:
            self._status = 128 + signal.SIGKILL
            self._signal_all(signal.SIGKILL)
        elif not self._forwarded_signals:
            self._reap()  # a worker that ended before its signal did not fail to stop
            self._kill_at = time.monotonic() + self._stop_seconds
            self._signal_all(signal.SIGTERM)
        elif time.monotonic() >= self._kill_at:
            _report("killing workers that did not stop in time")
            self._kill_at = float("inf")
            self._signal_all(signal.SIGKILL)
        self._forwarded_signals = self._signals

    def _ended(self, worker: subprocess.Popen[bytes]) -> None:
        """Schedule a restart. Stop if a worker fails before all are ready."""
        started_at = self._started.pop(worker)
        status = worker.returncode
        with suppress(OSError):
            worker.stdin.close()  # type: ignore[union-attr]
        self._on_exit(worker.pid)
        if self._on_ready:
            self._status = self._status or abs(status)
            self._signals = max(1, self._signals)
        if self._forwarded_signals:
            self._status = self._status or int(status not in (0, -signal.SIGTERM))
        if self._signals:
            return
        pause = 0.0
        self._failures += 1
        if time.monotonic() - started_at < EARLY_EXIT_SECONDS:
            pause = _pause(self._failures)
        else:
            self._failures = 0
        self._restart_times.append(time.monotonic() + pause)
        _report(f"worker {worker.pid} exited with status {status}; restarting")

    def _signal_all(self, number: int) -> None:
        for worker in self._started:
            worker.send_signal(number)

    def _start(self) -> None:
        worker = subprocess.Popen(
            self._command.arguments,
            stdin=subprocess.PIPE,
            pass_fds=(self._ready_writer, *self._command.files),
            start_new_session=True,  # Ctrl-C in a terminal reaches only the supervisor
        )
        self._started[worker] = time.monotonic()
        with suppress(BrokenPipeError):  # it has ended already
            worker.stdin.write(self._command.config(self._ready_writer))  # type: ignore[union-attr]
            worker.stdin.flush()  # type: ignore[union-attr]


def _report(text: str) -> None:
    print(f"memorist: {text}", file=sys.stderr, flush=True)


def _pause(failures: int) -> float:
    """Return the seconds to wait before the next start; `failures` may be very large."""
    return min(0.1 * (1 << min(failures, 10)), MAX_PAUSE_SECONDS)
