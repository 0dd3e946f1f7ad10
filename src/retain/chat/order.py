"""One turn of a session after the other: in this process in the order in which they came, between processes by a lease.

A lease is short and renewed while a turn runs, so that a process that dies holds nobody up for long. It keeps order; it is
the turn's key, not the lease, that keeps a turn from being saved twice.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from retain.base.errors import Busy, RetainError
from retain.storage import leases
from retain.storage.database import Database

LEASE_SECONDS = 15.0
_FIRST_LOOK, _LAST_LOOK = 0.02, 0.25

_lines: dict[tuple[str, str], deque[threading.Event]] = {}
_lock = threading.Lock()


@contextmanager
def alone(database: Database, tenant: str, session: str, seconds: float) -> Iterator[None]:
    """Be the only turn of a session, after those that came before; Busy after so many seconds."""
    end = time.monotonic() + seconds
    with _next(tenant, session, end):
        lease = _claimed(database, tenant, f"chat {session}", end)
        over = threading.Event()
        keeper = threading.Thread(
            target=_keep, args=(database, lease, over), name="retain-chat-lease", daemon=True
        )
        keeper.start()
        try:
            yield
        finally:
            over.set()
            keeper.join()
            with suppress(RetainError):  # it runs out by itself
                leases.release(database, lease)


@contextmanager
def _next(tenant: str, session: str, end: float) -> Iterator[None]:
    """Stand in line in this process."""
    place, mine = (tenant, session), threading.Event()
    with _lock:
        line = _lines.setdefault(place, deque())
        line.append(mine)
        line[0].set()
    try:
        if not mine.wait(max(0.0, end - time.monotonic())):
            raise _busy()
        yield
    finally:
        with _lock:
            line.remove(mine)
            if line:
                line[0].set()
            else:
                del _lines[place]


def _claimed(database: Database, tenant: str, what: str, end: float) -> leases.Lease:
    look = _FIRST_LOOK
    while (lease := leases.claim(database, tenant, what, LEASE_SECONDS)) is None:
        if time.monotonic() + look > end:
            raise _busy()
        time.sleep(look)
        look = min(2 * look, _LAST_LOOK)
    return lease


def _keep(database: Database, lease: leases.Lease, over: threading.Event) -> None:
    while not over.wait(LEASE_SECONDS / 3):
        with suppress(RetainError):  # the next try may do better
            if not leases.renew(database, lease, LEASE_SECONDS):
                return


def _busy() -> Busy:
    return Busy(problem="another turn of this session is still running")


def _in_child() -> None:
    """In the child of a fork: nobody else is there to give a lock back, and nobody stands in line."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    _lines.clear()


os.register_at_fork(after_in_child=_in_child)
