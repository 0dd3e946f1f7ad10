"""Threads that append to and read one session, with all results in one history."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from memorist import Scope
from memorist.base.errors import InDoubt, Overloaded, StorageError
from tests.chaos.history import History
from tests.chaos.writer import SESSION


class Crowd:
    """Writers and readers of one session, from the start of the `with` block until its end or
    completion.
    """

    def __init__(
        self,
        me: Scope,
        history: History,
        *,
        writers: int,
        readers: int = 0,
        writes: int = 1_000_000,
        keyed: Callable[[int], bool] = lambda writer: True,
        name: str = "w",
    ) -> None:
        self._me, self._history, self._writes, self._keyed, self._name = (
            me,
            history,
            writes,
            keyed,
            name,
        )
        self._stop = threading.Event()
        self._writers = [
            threading.Thread(target=self._write, args=(n,), daemon=True) for n in range(writers)
        ]
        self._readers = [threading.Thread(target=self._read, daemon=True) for _ in range(readers)]

    def __enter__(self) -> Crowd:
        for thread in (*self._writers, *self._readers):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.finish()

    def finish(self) -> None:
        """Wait until every writer is done, then stop the readers."""
        for thread in self._writers:
            thread.join(240)
        self._stop.set()
        for thread in self._readers:
            thread.join(60)
        stuck = sum(thread.is_alive() for thread in (*self._writers, *self._readers))
        if stuck:
            self._history.surprise(f"{stuck} threads are stuck")

    def wait_for(self, more: int) -> None:
        """Wait until this many more appends were acknowledged."""
        wanted = len(self._history.of("ok")) + more
        deadline = time.monotonic() + 120
        while len(self._history.of("ok")) < wanted:
            assert time.monotonic() < deadline, (
                f"{len(self._history.of('ok'))} of {wanted} appends were acknowledged"
            )
            time.sleep(0.01)

    def _write(self, writer: int) -> None:
        for number in range(self._writes):
            if self._stop.is_set():
                return
            payload = f"{self._name}-{writer}-{number}"
            self._append(payload, payload if self._keyed(writer) else None)

    def _append(self, payload: str, key: str | None) -> None:
        """Append; with a key, storage errors are retried; without one, only a lost connection is in
        doubt.
        """
        self._history.invoke(payload)
        while True:
            try:
                message = self._me.messages.append(SESSION, "user", payload, key=key)
            except InDoubt:
                self._history.answer(payload, "info")
                if key is None:
                    return
                self._history.surprise(f"{payload} has a key and was left in doubt")
            except (StorageError, Overloaded) as error:  # the latter from a server
                self._history.answer(payload, "info" if key else "fail")
                self._history.errors.append(type(error).__name__)
                if key is None:
                    return
                time.sleep(0.05)
            except Exception as error:
                self._history.surprise(f"{payload}: {error!r}")
                return
            else:
                self._history.answer(payload, "ok", message.seq)
                return

    def _read(self) -> None:
        turn = 0
        while not self._stop.is_set():
            turn += 1
            started = time.monotonic()
            try:
                messages = self._me.messages.window(SESSION, last=None if turn % 10 == 0 else 50)
            except (StorageError, Overloaded) as error:
                self._history.errors.append(type(error).__name__)
                continue
            except Exception as error:
                self._history.surprise(f"a reader: {error!r}")
                return
            self._history.read(started, [(message.seq, message.text) for message in messages])
            time.sleep(0.002)
