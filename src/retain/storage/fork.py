"""Having nobody inside at the moment of a fork.

SQLite keeps what it knows about a file's locks in the process, and the locks themselves are not inherited. A child that
starts with its parent's open connections believes in locks that it does not hold: it waits for a writer that does not
exist, and when the parent closes the file, the log is deleted that the child goes on writing to. So a fork waits until the
connections are not in use and has them closed first; parent and child then open their own.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable

PATIENCE = 10.0  # seconds; a fork in the middle of a long read goes ahead, and the child leaves what it finds alone


class Doors:
    """Who is using a database's connections; entered with `with`, also twice by one thread."""

    def __init__(self, let_go: Callable[[], None], start_over: Callable[[], object]) -> None:
        self._let_go = let_go
        self._start_over = start_over
        self._inside: dict[int, int] = {}
        self._shut = False
        self._opened = threading.Event()
        _ALL.add(self)

    def __enter__(self) -> None:
        me = threading.get_ident()
        inside = self._inside
        if me in inside:
            inside[me] += 1
            return
        inside[me] = 1
        while (
            self._shut
        ):  # first said to be inside, then asked: so one of the two sides always sees the other
            del inside[me]
            self._opened.wait()
            inside[me] = 1

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        if self._inside[me] > 1:
            self._inside[me] -= 1
        else:
            del self._inside[me]

    def shut(self) -> None:
        """Let nobody in, wait for the others to come out, and close what they used."""
        self._opened.clear()
        self._shut = True
        me = threading.get_ident()
        deadline = time.monotonic() + PATIENCE
        while any(other != me for other in list(self._inside)) and time.monotonic() < deadline:
            time.sleep(0.001)
        if not self._inside:
            self._let_go()

    def open(self) -> None:
        """The fork is over: the parent goes on."""
        self._shut = False
        self._opened.set()

    def open_in_child(self) -> None:
        """The fork is over: nobody but this thread is left."""
        self._inside = {}
        self._opened = threading.Event()
        self._shut = False
        _ABANDONED.append(self._start_over())


_ALL: weakref.WeakSet[Doors] = weakref.WeakSet()
_ABANDONED: list[object] = []


def _each(step: Callable[[Doors], None]) -> Callable[[], None]:
    def run() -> None:
        for doors in list(_ALL):
            step(doors)

    return run


os.register_at_fork(
    before=_each(Doors.shut),
    after_in_parent=_each(Doors.open),
    after_in_child=_each(Doors.open_in_child),
)
