"""`retain run -- CMD`: a command as it always was, and its output, where that is large, stored behind a placeholder (R5).

Its output goes where it always went, byte for byte, so the line with the placeholder goes to standard error. An agent that
should read only what belongs in its prompt takes `--quiet`: then standard output has the output itself where that is small,
and the line alone where it is not. The exit status is the command's, whatever happens to the store.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import json
import shlex
import sys
import tempfile
from dataclasses import dataclass, replace
from typing import IO, Any

from retain.api.rendering import as_json, plain
from retain.base import canonical
from retain.base.errors import AlreadyExists, Busy, Invalid, RetainError, StorageError
from retain.base.settings import Settings
from retain.base.tokens import estimate
from retain.cli.command import Arguments, open_memory, scope_of
from retain.cli.process import (
    Ended,
    NotStarted,
    Streams,
    execute,
    fill_closed_streams,
    flush,
    stdio_is_terminal,
)
from retain.cli.signals import Interrupted, Signals
from retain.kinds.refs.refs import Prepared, Ref
from retain.memory import Scope

_IN_MEMORY = 1 << 20
_BLOCK = 1 << 20
_TRIES = 3
ABOUT = "Run a command; a large output is stored, and a placeholder stands for it."
EXAMPLE = "retain run -- ls -l"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "--session": {"metavar": "ID", "help": "the session that the reference belongs to"},
    "--type": {
        "metavar": "T",
        "default": "command_output",
        "help": "what the reference is (default: command_output)",
    },
    "--tokens": {
        "metavar": "N",
        "type": int,
        "help": "store outputs above this many tokens (default: ref_tokens)",
    },
    "--tty": {
        "action": argparse.BooleanOptionalAction,
        "help": "run it in a terminal of its own (default: where standard output is one)",
    },
    "--quiet": {
        "action": "store_true",
        "help": "for agents: print the output itself if it is small, and only the placeholder's line if not",
    },
    "command": {
        "metavar": "CMD",
        "nargs": argparse.REMAINDER,
        "help": "the command and its arguments",
    },
}


class Spool:
    """The output so far: in memory while it is small, then in a file without a name; never more than a reference can be."""

    def __init__(self, limit: int) -> None:
        self.file: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
        self.size = 0
        self.problem = ""
        self._limit = limit

    def keep(self, data: bytes) -> None:
        """Add to it; once that fails, the rest is only shown."""
        if self.problem or not data:
            return
        if self.size + len(data) > self._limit:
            self.problem = f"the output is over {self._limit:,} bytes, the setting max_ref_bytes; its beginning was kept"
            data = data[: self._limit - self.size]
        try:
            self.file.write(data)
            self.size += len(data)
        except OSError as error:
            self.problem = f"the output could not be kept beside the command ({error.strerror}); its beginning was kept"

    def over(self, tokens: int) -> bool:
        """Whether it is more than so many tokens, without reading more of it than it takes to know."""
        self.file.seek(0)
        counted = 0
        while block := self.file.read(_BLOCK):
            counted += estimate(block.decode("utf-8", "replace"))
            if counted > tokens:
                return True
        return False


@dataclass(frozen=True)
class Done:
    """A command that was run, and what became of its output."""

    command: str
    ended: Ended
    spool: Spool
    ref: Ref | None = None
    line: str = ""
    problems: tuple[str, ...] = ()


def run(arguments: Arguments) -> int:
    """Run the command, show its output, store it if it is large, and end as the command did."""
    fill_closed_streams()
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise Invalid(field="command", problem="is needed, as in: retain run -- make test")
    settings = Settings.load(arguments.config, database=arguments.database)
    tokens = (
        settings.ref_tokens
        if arguments.tokens is None
        else canonical.whole(arguments.tokens, "tokens")
    )
    canonical.key(arguments.type, "type")
    _check_session(arguments, settings)
    flush(sys.stdout)
    with Signals() as signals:
        try:
            done = _done(command, signals, arguments, settings)
        except NotStarted as error:
            _say(str(error))
            return error.code
        try:
            with signals.interrupt():
                stored = _stored(done, arguments, settings) if done.spool.over(tokens) else done
        except Interrupted:
            stored = replace(
                done, problems=(*done.problems, "the output was not stored: interrupted")
            )
        for problem in stored.problems:
            _say(problem)
        with (
            contextlib.suppress(OSError, Interrupted),
            signals.interrupt(),
        ):  # a reader that is gone changes no status
            _tell(stored, arguments)
        return done.ended.code


def _done(command: list[str], signals: Signals, arguments: Arguments, settings: Settings) -> Done:
    spool = Spool(settings.max_ref_bytes)
    out, err = (None, None) if arguments.quiet else (2, 2) if arguments.json else (1, 2)
    tty = (
        stdio_is_terminal() and not arguments.quiet and not arguments.json
        if arguments.tty is None
        else arguments.tty
    )
    streams = Streams(spool.keep, out, err)
    ended = execute(command, streams, signals, tty=tty)
    return Done(
        shlex.join(command),
        ended,
        spool,
        problems=tuple(filter(None, (streams.problem, spool.problem))),
    )


def _check_session(arguments: Arguments, settings: Settings) -> None:
    """Say that a session does not exist before the command runs, and not after; a database that is away can wait."""
    if arguments.session is None:
        return
    with contextlib.suppress(StorageError), open_memory(arguments, create=True) as memory:
        scope_of(arguments, memory).sessions.get(arguments.session)


def _stored(done: Done, arguments: Arguments, settings: Settings) -> Done:
    """The output behind a reference, or why it is not: the command ran, and its exit status and output stand."""
    kept = done
    try:
        with open_memory(arguments, create=True) as memory:
            # A tool wrote the output, no matter who started the command.
            scope = scope_of(arguments, memory, source="tool")
            prepared, ref = _kept(done, scope, arguments)
            kept = replace(done, ref=ref, line=prepared.line)
    except Interrupted:
        if kept.ref is None:
            raise  # else only the closing was interrupted
    except (RetainError, OSError) as error:
        return replace(done, problems=(*done.problems, f"the output was not stored: {error}"))
    return kept


def _kept(done: Done, scope: Scope, arguments: Arguments) -> tuple[Prepared, Ref]:
    """Prepare and keep; again where a new key was taken, or where the same content was just being removed."""
    ended = done.ended
    metadata: dict[str, Any] = {"exit_code": ended.code, "duration_ms": round(ended.seconds * 1000)}
    metadata |= {"signal": ended.signal} if ended.signal else {}
    metadata |= {"cut": True} if done.spool.problem else {}
    for left in range(_TRIES, -1, -1):
        done.spool.file.seek(0)
        try:
            prepared = scope.refs.prepare(
                done.spool.file, type=arguments.type, source=done.command, status=ended.status,
                session=arguments.session, metadata=metadata,
            )  # fmt: skip
            return prepared, scope.refs.prepare.keep(prepared)
        except (AlreadyExists, Busy):
            if not left:
                raise
    raise AssertionError


def _tell(done: Done, arguments: Arguments) -> None:
    """What is left to say after the command."""
    if arguments.json:
        _tell_record(done, shown=not arguments.quiet)
    elif arguments.quiet and not done.line:
        _copy(done.spool.file)
    elif done.line:
        print(plain(done.line), file=sys.stdout if arguments.quiet else sys.stderr)
    flush(sys.stdout)


def _tell_record(done: Done, *, shown: bool) -> None:
    """The same for programs; an output that was neither shown nor stored is in it, piece by piece: it may be large."""
    record = {
        "command": done.command,
        "status": done.ended.status,
        "exit_code": done.ended.code,
        "duration_ms": round(done.ended.seconds * 1000),
        "bytes": done.spool.size,
        "line": done.line or None,
        "ref": as_json(done.ref),
    }
    written = json.dumps(record, ensure_ascii=False)
    if shown or done.ref is not None:
        print(written)
        return
    print(written.removesuffix("}"), '"output": "', sep=", ", end="")
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    done.spool.file.seek(0)
    while block := done.spool.file.read(_BLOCK):
        print(json.dumps(decoder.decode(block), ensure_ascii=False)[1:-1], end="")
    print(json.dumps(decoder.decode(b"", True), ensure_ascii=False)[1:-1] + '"}')


def _copy(file: IO[bytes]) -> None:
    file.seek(0)
    while block := file.read(_BLOCK):
        sys.stdout.buffer.write(block)
    sys.stdout.buffer.flush()


def _say(problem: str) -> None:
    with contextlib.suppress(OSError):
        print(f"retain: {plain(problem)}", file=sys.stderr)
