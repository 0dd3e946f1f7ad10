"""`memorist run -- CMD`: run a command and store a large output behind a placeholder.

A small output is printed when the command ends. A large output is stored, and only a line with its
placeholder is printed. With `--tee` the output is shown as it arrives, standard output and standard
error each on its own stream, and the line goes to standard error. If the output can no longer be
captured, the rest is shown in the same way. The exit status is always that of the command. If
storing fails, the output is printed.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import io
import json
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from memorist.api.rendering import as_json
from memorist.base import canonical, limits
from memorist.base.errors import AlreadyExists, Busy, Invalid, MemoristError, StorageError
from memorist.base.tokens import estimate
from memorist.cli.command import Arguments, Command, load_settings, open_memory, scope_of
from memorist.cli.options import SCOPE
from memorist.cli.output import plain
from memorist.kinds.refs import NewReference, Ref
from memorist.memory import Scope

EXIT_NOT_FOUND = 127
EXIT_NOT_RUNNABLE = 126

MAX_SEPARATE_BYTES = 1 << 20  # of an output that is shown with each stream on its own
BLOCK_BYTES = 1 << 20
READ_BYTES = 64 << 10
POLL_SECONDS = 0.1
MAX_STORE_ATTEMPTS = 4

# After the command has ended, processes that it started may still hold its pipes open. Their output
# is read for a short time, so that nothing in the pipes is lost.
GRACE_SECONDS = 1.0
GRACE_BYTES = 256 << 10


class NotStarted(Exception):
    """The command could not be started; `exit_code` is the exit code that a shell would use."""

    def __init__(self, exit_code: int, problem: str) -> None:
        super().__init__(problem)
        self.exit_code = exit_code


class Interrupted(KeyboardInterrupt):
    """A signal arrived after the command had ended."""


class Spool:
    """The captured output, in a temporary file; in memory where there is no folder for one."""

    def __init__(self, limit: int) -> None:
        self.file: IO[bytes]
        try:
            # Without a buffer, so that every byte counted in `size` can be read after a failure.
            self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        except OSError:
            self.file = io.BytesIO()
        self.size = 0
        self.problem = ""
        self._limit = limit
        # The stream (1 or 2) and the end of each part, while the output is small.
        self._parts: list[tuple[int, int]] = []

    def write(self, data: bytes, stream: int = 1) -> int:
        """Append output of a stream; return the number of captured bytes.

        After the first problem, nothing more is captured.
        """
        if self.problem:
            return 0
        start = self.size
        if start + len(data) > self._limit:
            self.problem = f"the output is over {self._limit:,} bytes; only its beginning was kept"
            data = data[: self._limit - start]
        try:
            self._append(data)
        except OSError as error:
            self.problem = (
                f"the output could not be buffered ({error.strerror}); only its beginning was kept"
            )
        self._add_part(stream)
        return self.size - start

    def _append(self, data: bytes) -> None:
        remaining = memoryview(data)
        while remaining:
            count = self.file.write(remaining)
            self.size += count
            remaining = remaining[count:]

    def blocks(self) -> Iterator[bytes]:
        """Yield the captured output from its beginning."""
        self.file.seek(0)
        while block := self.file.read(BLOCK_BYTES):
            yield block

    def parts(self) -> Iterator[tuple[int, bytes]]:
        """Yield the captured output with its stream; a large output counts as standard output."""
        if self.size > MAX_SEPARATE_BYTES:
            for block in self.blocks():
                yield 1, block
            return
        start = 0
        self.file.seek(0)
        for stream, end in self._parts:
            yield stream, self.file.read(end - start)
            start = end

    def _add_part(self, stream: int) -> None:
        if self.size > MAX_SEPARATE_BYTES:
            self._parts.clear()
            return
        if self._parts and self._parts[-1][0] == stream:
            self._parts.pop()
        self._parts.append((stream, self.size))

    def exceeds(self, tokens: int) -> bool:
        """Return whether the output has more than `tokens` tokens."""
        total = 0
        for block in self.blocks():
            total += estimate(block.decode("utf-8", "replace"))
            if total > tokens:
                return True
        return False


@dataclass
class Execution:
    """A command that was run, and where its output went."""

    command: str
    spool: Spool
    exit_code: int = 0
    signal_name: str = ""
    duration_ms: int = 0
    shown: bool = False  # the output is shown as it arrives
    ref: Ref | None = None
    line: str = ""  # the line for a prompt: command, status, placeholder
    problems: list[str] = field(default_factory=list)

    @property
    def status(self) -> str:
        """The result as a short text."""
        if self.signal_name:
            return f"Killed by {self.signal_name}"
        return f"Failed with exit code {self.exit_code}" if self.exit_code else "Success"


class SignalForwarder:
    """Forward signals to the command while it runs; later signals interrupt storing its output.

    Signals that were ignored when `memorist run` started stay ignored.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._sent_by_terminal: tuple[int, ...] = ()
        self._pending: list[int] = []
        self._interruptible = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> SignalForwarder:
        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                with contextlib.suppress(ValueError):  # only the main thread may set handlers
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def forward_to(self, child: subprocess.Popen[bytes]) -> Iterator[None]:
        """Forward signals to a child process."""
        self._sent_by_terminal = _signals_sent_by_terminal()
        self._child = child
        pending = self._pending
        self._pending = []
        for number in pending:
            self._handle(number)
        try:
            yield
        finally:
            self._child = None

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Raise Interrupted on a signal, including one received since the command ended."""
        self._interruptible = True
        try:
            if self._pending:
                self._pending.clear()
                raise Interrupted
            yield
        finally:
            self._interruptible = False

    def _handle(self, number: int, frame: Any = None) -> None:
        if self._interruptible:
            raise Interrupted
        if self._child is None:
            self._pending.append(number)
        elif number not in self._sent_by_terminal:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                self._child.send_signal(number)


def _signals_sent_by_terminal() -> tuple[int, ...]:
    """Return the signals that the terminal sends to the command itself, as part of its group."""
    try:
        with open("/dev/tty", "rb", buffering=0) as terminal:
            in_foreground = os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return ()
    return (signal.SIGINT, signal.SIGQUIT) if in_foreground else ()


def run(arguments: Arguments) -> int:
    """Run the command, store its output if it is large, and return the command's exit status."""
    if arguments.tee and arguments.quiet:
        raise Invalid(field="--tee", problem="cannot be combined with --quiet")
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise Invalid(field="command", problem="is missing; for example: memorist run -- make test")
    load_settings(arguments)  # report invalid settings before the command runs
    tokens = limits.REF_TOKENS
    if arguments.tokens is not None:
        tokens = canonical.check_integer(arguments.tokens, "tokens")
    canonical.key(arguments.type, "type")
    _check_session(arguments)
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with SignalForwarder() as signals:
        try:
            execution = _execute(command, signals, arguments)
        except NotStarted as error:
            _print_problem(str(error))
            return error.exit_code
        try:
            with signals.interruptible():
                if execution.spool.exceeds(tokens):
                    _store(execution, arguments)
        except Interrupted:
            execution.problems.append("the output was not stored: interrupted")
        for problem in execution.problems:
            _print_problem(problem)
        # A closed output pipe does not change the exit status.
        with contextlib.suppress(OSError, Interrupted), signals.interruptible():
            _report(execution, arguments)
        return execution.exit_code


def _check_session(arguments: Arguments) -> None:
    """Raise before the command runs if its session does not exist."""
    if arguments.session is None:
        return
    # If the database is unavailable, the command runs anyway.
    with contextlib.suppress(StorageError), open_memory(arguments, create=True) as memory:
        scope_of(arguments, memory).sessions.get(arguments.session)


def _execute(command: Sequence[str], signals: SignalForwarder, arguments: Arguments) -> Execution:
    """Run a command to its end, showing and capturing its output."""
    execution = Execution(shlex.join(command), Spool(limits.MAX_REF_BYTES), shown=arguments.tee)
    targets = {1: 1, 2: 1 if arguments.quiet else 2}
    if arguments.json:
        targets = {1: 2, 2: 2}  # standard output is for the JSON record
    started = time.monotonic()
    with _start(command) as child, signals.forward_to(child):
        _copy_output(child, execution, targets)
        code = child.wait()
    execution.duration_ms = round((time.monotonic() - started) * 1000)
    execution.exit_code = 128 - code if code < 0 else code
    execution.signal_name = _signal_name(-code) if code < 0 else ""
    if execution.spool.problem:
        execution.problems.append(execution.spool.problem)
    return execution


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command with pipes for its output; raise NotStarted if that fails."""
    name = command[0]
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    except FileNotFoundError:
        if shutil.which(name) is None:
            raise NotStarted(EXIT_NOT_FOUND, f"command not found: {name!r}") from None
        reason = "its interpreter (the #! line) or its loader does not exist"
        raise NotStarted(EXIT_NOT_RUNNABLE, f"cannot run {name!r}: {reason}") from None
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NotStarted(EXIT_NOT_RUNNABLE, f"cannot run {name!r}: {reason}") from None


def _copy_output(
    child: subprocess.Popen[bytes], execution: Execution, targets: Mapping[int, int]
) -> None:
    """Copy the child's output to the spool and to standard output, until its pipes are closed.

    targets: the file descriptor for each stream, when the output is shown
    """
    waited_seconds = 0.0  # since the child ended, waiting for output
    late_bytes = 0
    with selectors.DefaultSelector() as selector:
        for stream, pipe in ((1, child.stdout), (2, child.stderr)):
            assert pipe is not None
            selector.register(pipe, selectors.EVENT_READ, (stream, pipe))
        while selector.get_map() and waited_seconds < GRACE_SECONDS and late_bytes < GRACE_BYTES:
            has_ended = child.poll() is not None
            before = time.monotonic()
            events = selector.select(POLL_SECONDS)
            if has_ended:
                waited_seconds += time.monotonic() - before
            for key, _ in events:
                stream, pipe = key.data
                data = os.read(key.fd, READ_BYTES)
                if has_ended:
                    late_bytes += len(data)
                if not data or not _take(data, stream, execution, targets):
                    # Closing the pipe tells the command that nobody reads its output.
                    selector.unregister(pipe)
                    pipe.close()


def _take(data: bytes, stream: int, execution: Execution, targets: Mapping[int, int]) -> bool:
    """Capture output, and show it if requested; return False if it can no longer be shown.

    When no more can be captured, show the captured output, and from then on all output.
    """
    captured_bytes = execution.spool.write(data, stream)
    if execution.shown:
        return _show(data, targets[stream], execution)
    if not execution.spool.problem:
        return True
    execution.shown = True
    for captured_stream, block in execution.spool.parts():
        if not _show(block, targets[captured_stream], execution):
            return False
    return _show(data[captured_bytes:], targets[stream], execution)


def _show(data: bytes, target: int, execution: Execution) -> bool:
    """Write output to a file descriptor; return False if it is closed or fails."""
    remaining = memoryview(data)
    try:
        while remaining:
            try:
                remaining = remaining[os.write(target, remaining) :]
            except BlockingIOError:  # a terminal that another process made non-blocking
                time.sleep(0.005)
    except BrokenPipeError:
        return False
    except OSError as error:
        execution.problems.append(f"the output could not be shown: {error.strerror}")
        return False
    return True


def _store(execution: Execution, arguments: Arguments) -> None:
    """Store the output as a reference, or add the reason of the failure to the problems."""
    try:
        with open_memory(arguments, create=True) as memory:
            _add_reference(execution, scope_of(arguments, memory, source="tool"), arguments)
    except Interrupted:
        if execution.ref is None:
            raise  # otherwise only closing the database was interrupted
    except (MemoristError, OSError) as error:
        execution.problems.append(f"the output was not stored: {error}")


def _add_reference(execution: Execution, scope: Scope, arguments: Arguments) -> None:
    """Store the output; retry if the new key is taken or the same content is being removed."""
    metadata: dict[str, Any] = {
        "exit_code": execution.exit_code,
        "duration_ms": execution.duration_ms,
    }
    if execution.signal_name:
        metadata["signal"] = execution.signal_name
    if execution.spool.problem:
        metadata["cut"] = True
    new = NewReference(
        execution.spool.file,
        type=arguments.type,
        source=execution.command,
        status=execution.status,
        session=arguments.session,
        metadata=metadata,
    )
    for attempt in range(1, MAX_STORE_ATTEMPTS + 1):
        execution.spool.file.seek(0)
        try:
            prepared = scope.refs.prepare(new)
            execution.ref = scope.refs.prepare.keep(prepared)
            execution.line = prepared.line
            return
        except (AlreadyExists, Busy):
            if attempt == MAX_STORE_ATTEMPTS:
                raise


def _report(execution: Execution, arguments: Arguments) -> None:
    """Print the record, the placeholder or the output, after the command has ended."""
    if arguments.json:
        _print_record(execution)
    elif execution.line:
        use_stderr = execution.shown and not arguments.quiet
        print(plain(execution.line), file=sys.stderr if use_stderr else sys.stdout)
    elif not execution.shown:
        for stream, block in execution.spool.parts():
            output = sys.stderr if stream == 2 and not arguments.quiet else sys.stdout
            output.buffer.write(block)
            output.flush()
    sys.stdout.flush()


def _print_record(execution: Execution) -> None:
    """Print a JSON record; it includes the output if that was neither shown nor stored."""
    record = {
        "command": execution.command,
        "status": execution.status,
        "exit_code": execution.exit_code,
        "duration_ms": execution.duration_ms,
        "bytes": execution.spool.size,
        "line": execution.line or None,
        "ref": as_json(execution.ref),
    }
    text = json.dumps(record, ensure_ascii=False)
    if execution.shown or execution.ref is not None:
        print(text)
        return
    # Written block by block, because the output may be large.
    print(text.removesuffix("}"), '"output": "', sep=", ", end="")
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for block in execution.spool.blocks():
        print(json.dumps(decoder.decode(block), ensure_ascii=False)[1:-1], end="")
    print(json.dumps(decoder.decode(b"", True), ensure_ascii=False)[1:-1] + '"}')


def _signal_name(number: int) -> str:
    """Return the name of a signal; Python has none for real-time signals."""
    try:
        return signal.Signals(number).name
    except ValueError:
        first = getattr(signal, "SIGRTMIN", number)
        return f"SIGRTMIN+{number - first}" if number > first else f"signal {number}"


def _print_problem(problem: str) -> None:
    with contextlib.suppress(OSError):
        print(f"memorist: {plain(problem)}", file=sys.stderr)


COMMANDS = (
    Command(
        "run",
        run,
        "memorist run -- ls -l\n  memorist run --tee -- make test",
        SCOPE,
        {
            "--session": {"metavar": "ID", "help": "session that the reference belongs to"},
            "--type": {
                "metavar": "TYPE",
                "default": "command_output",
                "help": "type of the reference (default: command_output)",
            },
            "--tokens": {
                "metavar": "N",
                "type": int,
                "help": "store outputs of more than N tokens (default: 500)",
            },
            "--tee": {
                "action": "store_true",
                "help": "show all output as it arrives; the placeholder goes to standard error",
            },
            "--quiet": {
                "action": "store_true",
                "help": "for agents: print everything to standard output, including errors",
            },
            "command": {
                "metavar": "CMD",
                "nargs": argparse.REMAINDER,
                "help": "the command and its arguments",
            },
        },
    ),
)
