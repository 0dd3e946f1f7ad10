"""A lock per session: its turns run one after the other.

Within a process, turns wait in the order of their arrival; between processes, a lease decides. The
lease is short and is renewed while a turn runs, so a process that dies blocks the session only
briefly. The lease only keeps the order: the turn's key prevents that a turn is saved twice.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from memorist.base.errors import Busy, MemoristError
from memorist.storage import leases
from memorist.storage.database import Database

LEASE_SECONDS = 15.0
FIRST_RETRY_SECONDS = 0.02
MAX_RETRY_SECONDS = 0.25

_queues: dict[tuple[str, str], deque[threading.Event]] = {}
_lock = threading.Lock()


@contextmanager
def hold_session(database: Database, tenant: str, session: str, seconds: float) -> Iterator[None]:
    """Hold the lock of a session. Raise Busy if it is not free within `seconds`."""
    deadline = time.monotonic() + seconds
    with _wait_in_queue(tenant, session, deadline):
        lease = _claim_lease(database, tenant, f"chat {session}", deadline)
        finished = threading.Event()
        renewer = threading.Thread(
            target=_renew, args=(database, lease, finished), name="memorist-chat-lease", daemon=True
        )
        renewer.start()
        try:
            yield
        finally:
            finished.set()
            renewer.join()
            with suppress(MemoristError):  # The lease expires by itself.
                leases.release(database, lease)


@contextmanager
def _wait_in_queue(tenant: str, session: str, deadline: float) -> Iterator[None]:
    """Wait until all earlier turns of the session in this process have ended."""
    name = (tenant, session)
    my_turn = threading.Event()
    with _lock:
        queue = _queues.setdefault(name, deque())
        queue.append(my_turn)
        queue[0].set()
    try:
        if not my_turn.wait(max(0.0, deadline - time.monotonic())):
            raise _busy()
        yield
    finally:
        with _lock:
            queue.remove(my_turn)
            if queue:
                queue[0].set()
            else:
                del _queues[name]


def _claim_lease(database: Database, tenant: str, name: str, deadline: float) -> leases.Lease:
    pause = FIRST_RETRY_SECONDS
    while (lease := leases.claim(database, tenant, name, LEASE_SECONDS)) is None:
        if time.monotonic() + pause > deadline:
            raise _busy()
        time.sleep(pause)
        pause = min(2 * pause, MAX_RETRY_SECONDS)
    return lease


def _renew(database: Database, lease: leases.Lease, finished: threading.Event) -> None:
    while not finished.wait(LEASE_SECONDS / 3):
        with suppress(MemoristError):  # The next try may succeed.
            if not leases.renew(database, lease, LEASE_SECONDS):
                return


def _busy() -> Busy:
    return Busy(problem="another turn of this session is still running")


def _reset_after_fork() -> None:
    """Reset the lock and the queues in a forked child, where no other thread runs."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    _queues.clear()


os.register_at_fork(after_in_child=_reset_after_fork)
