"""A command, run so that its output is seen as it comes and kept as it is.

Through pipes, standard output and standard error stay two streams for whoever watches, and are kept in the order in which
they arrive. Through a terminal of its own, the command behaves as it does by hand: colours, progress bars, questions.
"""

from __future__ import annotations

import contextlib
import io
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

_READ = 64 << 10
_POLL = 0.1
_GRACE = 1.0  # seconds without output after the end, for which somebody else may still hold the pipe
_FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
_KEYBOARD = ("SIGINT", "SIGQUIT")
_END_OF_INPUT = b"\x04"


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit status as a shell has it, the signal that killed it if one did, and how long it took."""

    code: int
    signal: str
    seconds: float

    @property
    def status(self) -> str:
        """The same in words."""
        if self.signal:
            return f"Killed by {self.signal}"
        return f"Failed with exit code {self.code}" if self.code else "Success"


@dataclass
class Streams:
    """Where the output is shown (None: nowhere), and what keeps it."""

    keep: Callable[[bytes], None]
    out: int | None = 1
    err: int | None = 2
    problem: str = ""

    def show(self, where: int | None, data: bytes) -> bool:
        """Show it; False where nobody looks any more."""
        if where is None:
            return True
        try:
            _write(where, data)
        except BrokenPipeError:
            return False
        except OSError as error:
            self.problem = f"the output could not be shown: {error.strerror}"
            return False
        return True


def execute(command: Sequence[str], streams: Streams, *, tty: bool, typed: bool) -> Ended:
    """Run a command to its end; with a `tty` it has a terminal of its own, and its input too where it is `typed`.

    Raises OSError where the command cannot be started.
    """
    start = time.monotonic()
    with _signals() as pass_on:
        code = _in_terminal(command, streams, pass_on, typed=typed) if tty else _through_pipes(command, streams, pass_on)
    name = signal.Signals(-code).name if code < 0 else ""
    return Ended(128 - code if code < 0 else code, name, time.monotonic() - start)


def _through_pipes(command: Sequence[str], streams: Streams, pass_on: _PassOn) -> int:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as child:
        pass_on.to(child, group=False, spare=_from_keyboard())
        with selectors.DefaultSelector() as ready:
            ready.register(child.stdout or 0, selectors.EVENT_READ, streams.out)
            ready.register(child.stderr or 0, selectors.EVENT_READ, streams.err)
            for key in _readable(ready, child):
                data = os.read(key.fd, _READ)
                streams.keep(data)
                if not data or not streams.show(key.data, data):
                    ready.unregister(key.fileobj)
                    _close(key.fileobj)  # the command hears of a reader that is gone, as it would without us
        for pipe in (child.stdout, child.stderr):
            _close(pipe)
        return child.wait()


def _in_terminal(command: Sequence[str], streams: Streams, pass_on: _PassOn, *, typed: bool) -> int:
    import fcntl
    import termios

    ours, its = os.openpty()
    if not os.isatty(0):
        modes = termios.tcgetattr(its)
        modes[3] &= ~termios.ECHO  # what comes from a file or a pipe is not typed, and is no output
        termios.tcsetattr(its, termios.TCSANOW, modes)
    _copy_size(ours)

    def take_terminal() -> None:
        fcntl.ioctl(1, termios.TIOCSCTTY, 0)

    stdin = its if typed else None
    try:
        child = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=its,
            stderr=its,
            start_new_session=True,
            preexec_fn=take_terminal,  # noqa: PLW1509 - this process has one thread so far
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(its)
    with child, _raw_keyboard(typed), _resized(ours), selectors.DefaultSelector() as ready:
        pass_on.to(child, group=True, spare=())
        ready.register(ours, selectors.EVENT_READ, "output")
        if typed:
            with contextlib.suppress(PermissionError):  # an ordinary file is always ready, and cannot be waited for
                ready.register(0, selectors.EVENT_READ, "input")
            if len(ready.get_map()) == 1:
                _type_file(ours)
        keep = _Unix(streams.keep)
        for key in _readable(ready, child):
            if key.data == "input":
                _type(ready, ours)
                continue
            data = _read_terminal(ours)
            keep(data)
            if not data or not streams.show(streams.out, data):
                ready.unregister(ours)
                break
        os.close(ours)
        return child.wait()


def _readable(ready: selectors.BaseSelector, child: subprocess.Popen[bytes]) -> Iterator[selectors.SelectorKey]:
    """What can be read, until all is closed, or the command has ended and nothing more comes from what it left behind."""
    ended = 0.0
    while any(key.data != "input" for key in ready.get_map().values()):
        events = ready.select(_POLL)
        for key, _ in events:
            if key.fd in ready.get_map():
                yield key
        if any(key.data != "input" for key, _ in events):
            ended = 0.0
        elif child.poll() is not None:
            ended = ended or time.monotonic()
            if time.monotonic() - ended > _GRACE:
                return


class _PassOn:
    """Passes the signals that we get on to the command."""

    def __init__(self) -> None:
        self._send: Callable[[int], None] | None = None
        self._spare: set[int] = set()
        self._waiting: list[int] = []

    def to(self, child: subprocess.Popen[bytes], *, group: bool, spare: Sequence[int]) -> None:
        """Who gets them from now on; those to `spare` it gets from the terminal itself."""
        self._spare = set(spare)
        self._send = (lambda number: os.killpg(child.pid, number)) if group else child.send_signal
        for number in self._waiting:
            self(number)

    def __call__(self, number: int, frame: Any = None) -> None:
        """Pass one on."""
        if self._send is None:
            self._waiting.append(number)
        elif number not in self._spare:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                self._send(number)


@contextlib.contextmanager
def _signals() -> Iterator[_PassOn]:
    """While the command runs, signals end it and not us; one that was ignored stays so for both."""
    pass_on = _PassOn()
    before: dict[int, Any] = {}
    try:
        for name in _FORWARDED:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                with contextlib.suppress(ValueError):  # only the main thread may
                    before[number] = signal.signal(number, pass_on)
        yield pass_on
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _from_keyboard() -> tuple[int, ...]:
    """The signals that a keyboard sends to the command as well as to us, because both are in its foreground."""
    try:
        with open("/dev/tty", "rb", buffering=0) as terminal:
            mine = os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return ()
    return tuple(getattr(signal, name) for name in _KEYBOARD) if mine else ()


@contextlib.contextmanager
def _raw_keyboard(typed: bool) -> Iterator[None]:
    """Every key goes to the command, Ctrl-C too: its own terminal makes of it what it should be."""
    if not (typed and os.isatty(0)):
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(0)
    try:
        tty.setraw(0)
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _resized(terminal: int) -> Iterator[None]:
    """The command's terminal has the size of ours, also when that changes."""
    try:
        before = signal.signal(signal.SIGWINCH, lambda number, frame: _copy_size(terminal))
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def _copy_size(terminal: int) -> None:
    import fcntl
    import struct
    import termios

    size = struct.pack("HHHH", 24, 80, 0, 0)
    for ours in (1, 2, 0):
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(ours, termios.TIOCGWINSZ, size)
            break
    with contextlib.suppress(OSError):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)


def _read_terminal(terminal: int) -> bytes:
    try:
        return os.read(terminal, _READ)
    except OSError:  # how Linux says that nobody has the other side open any more
        return b""


def _type(ready: selectors.BaseSelector, terminal: int) -> None:
    """Hand what was typed to the command."""
    data = os.read(0, 1024)
    if not data:
        ready.unregister(0)
    with contextlib.suppress(OSError):
        _write(terminal, data or _END_OF_INPUT)


def _type_file(terminal: int) -> None:
    """The same where the input is an ordinary file: as much as a terminal takes at once."""
    with contextlib.suppress(OSError):
        _write(terminal, os.read(0, 2048) + _END_OF_INPUT)


class _Unix:
    """Keeps what a terminal shows with the line ends that the command wrote."""

    def __init__(self, keep: Callable[[bytes], None]) -> None:
        self._keep = keep
        self._held = b""

    def __call__(self, data: bytes) -> None:
        whole = self._held + data
        self._held = b"\r" if data and whole.endswith(b"\r") else b""
        self._keep(whole.removesuffix(self._held).replace(b"\r\n", b"\n") if self._held else whole.replace(b"\r\n", b"\n"))


def _write(where: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(where, left) :]
        except BlockingIOError:  # somebody made our terminal so
            time.sleep(0.005)


def _close(pipe: Any) -> None:
    if isinstance(pipe, io.IOBase) and not pipe.closed:
        pipe.close()


def flush(stream: IO[str]) -> None:
    """Bring out what Python holds back, before a command writes around it."""
    with contextlib.suppress(OSError, ValueError):
        stream.flush()


def stdio_is_terminal() -> bool:
    """Whether somebody watches."""
    return sys.platform != "win32" and os.isatty(1)
