"""A command, run so that its output is seen as it comes and kept as it is.

Through pipes, standard output and standard error stay two streams for whoever watches, and are kept in the order in which
they arrive. Through a terminal of its own, the command behaves as it does by hand: colours, progress bars, questions.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from retain.cli.signals import Signals, from_keyboard, name_of

NOT_FOUND = 127
NOT_RUNNABLE = 126
_READ = 64 << 10
_POLL = 0.1
_GRACE = (
    1.0  # seconds after the end of the command in which what it left behind may still say something
)
_IN_FLIGHT = 64  # reads that hold all that can be on its way then; who still writes after them does not stop by itself
_MOST_KEYS = 64 << 10


class NotStarted(Exception):
    """The command could not be started: why, and the exit status that a shell has for it."""

    def __init__(self, code: int, problem: str) -> None:
        super().__init__(problem)
        self.code = code


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


def execute(command: Sequence[str], streams: Streams, signals: Signals, *, tty: bool) -> Ended:
    """Run a command to its end; with a `tty` it has a terminal of its own, and our keyboard if we have one.

    Input that is no keyboard is the command's as it is: through a terminal, bytes would be keys and long lines cut.
    Raises NotStarted.
    """
    start = time.monotonic()
    try:
        code = (
            _in_terminal(command, streams, signals)
            if tty
            else _through_pipes(command, streams, signals)
        )
    finally:
        signals.ended()
    return Ended(
        128 - code if code < 0 else code,
        name_of(-code) if code < 0 else "",
        time.monotonic() - start,
    )


def _start(command: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
    name = command[0]
    try:
        return subprocess.Popen(command, **how)
    except FileNotFoundError:
        found = shutil.which(name)
        if found is None:
            raise NotStarted(NOT_FOUND, f"there is no command {name!r}") from None
        raise NotStarted(
            NOT_RUNNABLE, f"{name!r} cannot be run: {_what_is_missing(found)}"
        ) from None
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        why = getattr(error, "strerror", None) or error
        raise NotStarted(NOT_RUNNABLE, f"{name!r} cannot be run: {why}") from None


def _what_is_missing(program: str) -> str:
    """Why a file that is there was not found: something else that it needs was not."""
    try:
        with open(program, "rb") as file:
            first = file.readline(256)
    except OSError:
        first = b""
    asks = re.match(rb"#![ \t]*([^ \t\n]+)", first)
    if asks is None:
        return "a file that it needs, such as its loader, does not exist"
    return f"its first line asks for {asks[1].decode('utf-8', 'replace')!r}, which does not exist"


def _through_pipes(command: Sequence[str], streams: Streams, signals: Signals) -> int:
    with _start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as child:
        signals.to(child, group=False, spare=from_keyboard())
        with selectors.DefaultSelector() as ready:
            ready.register(child.stdout or 0, selectors.EVENT_READ, streams.out)
            ready.register(child.stderr or 0, selectors.EVENT_READ, streams.err)
            for key, _ in _readable(ready, child):
                data = os.read(key.fd, _READ)
                streams.keep(data)
                if not data or not streams.show(key.data, data):
                    ready.unregister(key.fileobj)
                    _close(
                        key.fileobj
                    )  # the command hears of a reader that is gone, as it would without us
        for pipe in (child.stdout, child.stderr):
            _close(pipe)
        return child.wait()


def _in_terminal(command: Sequence[str], streams: Streams, signals: Signals) -> int:
    typed = os.isatty(0)
    child, ours = _start_in_terminal(command, typed=typed)
    keep = _Unix(streams.keep)
    with child:
        try:
            with _raw_keyboard(typed), _resized(ours), selectors.DefaultSelector() as ready:
                signals.to(child, group=True, spare=())
                ready.register(ours, selectors.EVENT_READ, "output")
                keys = _Keys(ready, ours, typed)
                for key, events in _readable(ready, child):
                    if key.data == "input":
                        keys.take()
                        continue
                    if events & selectors.EVENT_WRITE:
                        keys.hand_over()
                    if events & selectors.EVENT_READ and not _copy(ours, child, keep, streams):
                        ready.unregister(ours)
        finally:
            keep(b"")
            os.close(
                ours
            )  # never before the command has ended, unless its reader is gone: to it, this is a hangup
        return child.wait()


def _start_in_terminal(
    command: Sequence[str], *, typed: bool
) -> tuple[subprocess.Popen[bytes], int]:
    """The command, and our side of its terminal, where no write waits."""
    import fcntl
    import termios

    def take_terminal() -> None:
        fcntl.ioctl(1, termios.TIOCSCTTY, 0)

    try:
        ours, its = os.openpty()
    except OSError as error:
        raise NotStarted(
            NOT_RUNNABLE, f"there is no terminal for {command[0]!r}: {error.strerror or error}"
        ) from None
    try:
        os.set_blocking(ours, False)
        _copy_size(ours)
        how = {"stdin": its if typed else None, "stdout": its, "stderr": its}
        return _start(
            command, **how, start_new_session=True, preexec_fn=take_terminal
        ), ours  # one thread so far
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(its)


def _copy(
    terminal: int, child: subprocess.Popen[bytes], keep: Callable[[bytes], None], streams: Streams
) -> bool:
    """Keep and show what the command said; False at the end, or where nobody looks any more."""
    try:
        data = os.read(terminal, _READ)
    except BlockingIOError:
        return True
    except OSError:  # how Linux says that nobody has the other side open
        data = b""
    if data:
        keep(data)
        return streams.show(streams.out, data)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_POLL)
        return False
    return True  # it closed its streams, and may open its terminal again


def _readable(
    ready: selectors.BaseSelector, child: subprocess.Popen[bytes]
) -> Iterator[tuple[selectors.SelectorKey, int]]:
    """What is ready, until all is closed, or the command has ended and what it left behind had its time."""
    ended = waited = 0.0
    reads = 0
    while any(key.data != "input" for key in ready.get_map().values()):
        before = time.monotonic()
        events = ready.select(_POLL)
        if ended:
            waited += (
                time.monotonic() - before
            )  # a reader that lets us wait takes nothing of that time
            reads += len(events)
        for key, which in events:
            if key.fd in ready.get_map():
                yield key, which
        if not ended:
            ended = time.monotonic() if child.poll() is not None else 0.0
        elif waited > _GRACE or (reads > _IN_FLIGHT and time.monotonic() - ended > _GRACE):
            return


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


class _Keys:
    """Hands what is typed to the command as fast as its terminal takes it: a paste must not stop what it says."""

    def __init__(self, ready: selectors.BaseSelector, terminal: int, typed: bool) -> None:
        self._ready, self._terminal = ready, terminal
        self._left = b""
        self._listening = False
        self._listen(typed)

    def take(self) -> None:
        """Take what was typed."""
        try:
            data = os.read(0, _READ)
        except BlockingIOError:
            return
        except OSError:  # the terminal is gone, and its end says so to the command too
            data = b""
        self._left += data
        self._listen(bool(data) and len(self._left) < _MOST_KEYS)
        self._wait_for_room()

    def hand_over(self) -> None:
        """Give the command's terminal what it has room for."""
        try:
            self._left = self._left[os.write(self._terminal, self._left) :]
        except BlockingIOError:
            return
        except OSError:
            self._left = b""
        if not self._left:
            self._listen(os.isatty(0))
        self._wait_for_room()

    def _listen(self, wanted: bool) -> None:
        if wanted and not self._listening:
            self._ready.register(0, selectors.EVENT_READ, "input")
        elif self._listening and not wanted:
            self._ready.unregister(0)
        self._listening = wanted

    def _wait_for_room(self) -> None:
        if self._terminal in self._ready.get_map():
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._left else 0)
            self._ready.modify(self._terminal, events, "output")


class _Unix:
    """Keeps what a terminal shows with the line ends that the command wrote."""

    def __init__(self, keep: Callable[[bytes], None]) -> None:
        self._keep = keep
        self._held = b""

    def __call__(self, data: bytes) -> None:
        whole = self._held + data
        self._held = b"\r" if data and whole.endswith(b"\r") else b""
        self._keep(
            whole.removesuffix(self._held).replace(b"\r\n", b"\n")
            if self._held
            else whole.replace(b"\r\n", b"\n")
        )


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


def fill_closed_streams() -> None:
    """Put nothing where a standard stream was closed before us (`>&-`), or the next file that is opened takes its place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:  # for which print would take standard output
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: SIM115


def stdio_is_terminal() -> bool:
    """Whether somebody watches."""
    return sys.platform != "win32" and os.isatty(1)
