"""The signals that we get while a command runs, which are meant for the command, and after it, which are meant for us."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
_KEYBOARD = ("SIGINT", "SIGQUIT")


class Interrupted(KeyboardInterrupt):
    """A signal came after the command had ended: nobody wants to wait for the rest."""


class Signals:
    """While the command runs, the signals that we get are the command's; later ones interrupt what is left to do.

    One that was ignored before us stays so for both.
    """

    def __init__(self) -> None:
        self._send: Callable[[int], None] | None = None
        self._spare: set[int] = set()
        self._waiting: list[int] = []
        self._interrupts = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        for name in _FORWARDED:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                with contextlib.suppress(ValueError):  # only the main thread may
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def to(self, child: subprocess.Popen[bytes], *, group: bool, spare: Sequence[int]) -> None:
        """Who gets them from now on; those to `spare` it gets from the terminal itself."""
        self._spare = set(spare)
        self._send = (lambda number: os.killpg(child.pid, number)) if group else child.send_signal
        waiting, self._waiting = self._waiting, []
        for number in waiting:
            self._handle(number)

    def ended(self) -> None:
        """The command is gone."""
        self._send = None

    @contextlib.contextmanager
    def interrupt(self) -> Iterator[None]:
        """Work that a signal since the end of the command stops with Interrupted."""
        self._interrupts = True
        try:
            if self._waiting:
                self._waiting.clear()
                raise Interrupted
            yield
        finally:
            self._interrupts = False

    def _handle(self, number: int, frame: Any = None) -> None:
        if self._interrupts:
            raise Interrupted
        if self._send is None:
            self._waiting.append(number)
        elif number not in self._spare:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                self._send(number)


def name_of(number: int) -> str:
    """The name of a signal; Python has none for those of real time."""
    try:
        return signal.Signals(number).name
    except ValueError:
        first = getattr(signal, "SIGRTMIN", number)
        return f"SIGRTMIN+{number - first}" if number > first else f"signal {number}"


def from_keyboard() -> tuple[int, ...]:
    """The signals that a keyboard sends to the command as well as to us, because both are in its foreground."""
    try:
        with open("/dev/tty", "rb", buffering=0) as terminal:
            mine = os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return ()
    return tuple(getattr(signal, name) for name in _KEYBOARD) if mine else ()
