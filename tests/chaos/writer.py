"""The writer processes that the tests kill, interrupt and starve: `python -m tests.chaos.writer '{"url": …}'`.

Several threads append with keys and note each step in a log that survives them: one `write` call to a file that is only
appended to, which the kernel completes whole even if the process is killed in the next instruction.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memorist import Memory, Scope, Settings
from memorist.base.errors import AlreadyExists, MemoristError, StorageError
from memorist.jobs import index_owners
from memorist.jobs.embed import EmbedJob
from memorist.storage.sqlite import connection as sqlite_connection

ROOT = Path(__file__).resolve().parents[2]
SESSION = "s"
TENANT = "acme"
USER = "ada"
AGENT = "scout"


def scope_of(memory: Memory) -> Scope:
    """Return the scope that these tests use."""
    return memory.scope(tenant=TENANT, user=USER, agent=AGENT)


@dataclass(frozen=True)
class Job:
    """The work of a writer process."""

    url: str
    log: str
    name: str
    threads: int = 4
    writes: int = 1_000_000  # by each thread
    size: int = 40  # of each message: its payload, and dots
    settings: dict[str, Any] = field(default_factory=dict)
    log_mib: int = 0  # above which the write-ahead log is started over; 0: the default
    retry: list[str] = field(
        default_factory=list
    )  # payloads of an earlier writer, sent again with their keys
    go: str = ""  # a file to wait for before opening
    tries: int = 1  # of one append, with the same key, after an error that is a promised one
    pause: float = 0.0  # between tries
    indexes: bool = False
    """Whether another thread indexes and embeds all the time. Payloads are words then, which a
    search can find."""


class Log:
    """Lines that survive the process."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, verb: str, payload: str, rest: object = "-") -> None:
        """Write one step with its time."""
        line = f"{verb} {time.monotonic():.9f} {payload} {str(rest).replace(chr(10), ' ')}\n"
        os.write(self._file, line.encode())


def start(job: Job, *prefix: str, **env: str) -> subprocess.Popen[bytes]:
    """Start a writer process, optionally under another program such as strace."""
    return subprocess.Popen(
        [*prefix, sys.executable, "-m", "tests.chaos.writer", json.dumps(asdict(job))],
        cwd=ROOT,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
    )


def append(me: Scope, log: Log, payload: str, job: Job) -> None:
    """Append one payload under its own key, and log the result."""
    log.note("invoke", payload)
    for attempt in range(job.tries):
        try:
            message = me.messages.append(SESSION, "user", payload.ljust(job.size, "."), key=payload)
        except StorageError as error:
            log.note("info", payload, type(error).__name__)
            if attempt + 1 < job.tries:
                time.sleep(job.pause)
        except Exception as error:
            log.note("untyped", payload, repr(error))
            return
        else:
            log.note("ok", payload, message.seq)
            return


def write(me: Scope, log: Log, job: Job, thread: int, stop: threading.Event) -> None:
    """Run one writer thread."""
    for payload in job.retry[thread :: job.threads]:
        append(me, log, payload, job)
    for number in range(job.writes):
        if stop.is_set():
            return
        payload = f"{job.name}-{thread}-{number}"
        append(me, log, spelled(payload) if job.indexes else payload, job)


def spelled(payload: str) -> str:
    """Return a payload as a word, which a search does not divide."""
    return "".join("bcdfghjklm"[int(c)] if c.isdigit() else "x" if c == "-" else c for c in payload)


def index(memory: Memory, log: Log, job: Job, stop: threading.Event) -> None:
    """Run the jobs of the search index again and again."""
    embed = EmbedJob()
    while not stop.is_set():
        try:
            index_owners.run(memory.services, TENANT)
            log.note("round", job.name)
            embed.run(memory.services, TENANT)
        except Exception as error:
            log.note("untyped", job.name, repr(error))


def opened(job: Job, log: Log) -> Memory:
    """Open the database, with as many attempts as the job allows."""
    settings = Settings(**job.settings)
    if job.log_mib:
        sqlite_connection.MAX_LOG_MIB = job.log_mib
    for _ in range(job.tries - 1):
        try:
            return Memory.open(job.url, settings=settings)
        except MemoristError as error:
            log.note("opening", job.name, repr(error))
            time.sleep(job.pause)
    return Memory.open(job.url, settings=settings)


def begin(me: Scope, job: Job, log: Log) -> None:
    """Create the session unless another process has."""
    for _ in range(job.tries):
        try:
            me.sessions.add(SESSION)
            return
        except AlreadyExists:
            return
        except MemoristError as error:
            log.note("beginning", job.name, repr(error))
            time.sleep(job.pause)
    log.note("error", job.name, "could not begin a session")


def main() -> None:
    """Open, write until done or stopped, close."""
    job = Job(**json.loads(sys.argv[1]))
    while job.go and not os.path.exists(job.go):
        time.sleep(0.001)
    log = Log(job.log)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with opened(job, log) as memory:
        me = scope_of(memory)
        begin(me, job, log)
        threads = [
            threading.Thread(target=write, args=(me, log, job, n, stop))
            for n in range(1, job.threads)
        ]
        if job.indexes:
            threads.append(threading.Thread(target=index, args=(memory, log, job, stop)))
        try:
            for thread in threads:
                thread.start()
            write(me, log, job, 0, stop)
        except KeyboardInterrupt:
            stop.set()
        for thread in threads:
            if thread.ident:
                thread.join()
    log.note("done", job.name)


if __name__ == "__main__":
    main()


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds; fail with its name."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"waited a minute for {what}"
        time.sleep(0.002)
