"""The server's log: one line for each request and each event, in JSON or as text, with ids and sizes and never with content.

What stored text, headers or a caller's mistakes say is nobody's business here: of an exception the log has its type and
where it was raised, not its message, which may quote them. Lines are written by a thread of their own, because a log that
nobody reads must not stop the server; when too many wait, the newest are dropped and counted.
"""

from __future__ import annotations

import atexit
import json
import logging
import re
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import IO, Any

from retain.base.logging import FIELDS
from retain.base.settings import Settings

MOST_WAITING = 10_000
"""So many lines may wait to be written."""
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_OURS = (
    "retain",
    "uvicorn",
    "uvicorn.error",
    "uvicorn.access",
    "uvicorn.asgi",
    "fastapi",
    "mcp",
    "asyncio",
    "py.warnings",
)
_TRUSTED = ("retain", "uvicorn")
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_ONE_WORD = re.compile(r"[^\s=\"]+")
_MOST_FRAMES = 40
_FLUSH_SECONDS = 2.0
_MOST_OF_A_TEXT = 2000
_REQUESTS = "retain.requests"
_json = json.JSONEncoder(default=lambda value: safe(str(value))).encode
_NAMES = {number: name.upper() for name, number in _LEVELS.items()}
_EMPTY = {
    **logging.makeLogRecord({"name": _REQUESTS, "msg": "request", "module": "watch"}).__dict__,
    "args": None,
}
_log = logging.getLogger(_REQUESTS)
_current: list[Writer] = []


def safe(text: str) -> str:
    """Text that cannot begin a line of its own, move a cursor or turn a line around."""
    text = text[:_MOST_OF_A_TEXT]
    return (
        _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) if _UNSAFE.search(text) else text
    )


def stack(error: BaseException) -> list[str]:
    """Where an exception was raised, and what kind it is, with those that led to it; nothing of what it says."""
    found: list[str] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen and len(seen) < 10:
        seen.add(id(error))
        frames = traceback.extract_tb(error.__traceback__)[-_MOST_FRAMES:]
        places = [f"{_short(frame.filename)}:{frame.lineno} in {frame.name}" for frame in frames]
        found += [type(error).__name__, *places]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)  # type: ignore[assignment]
    return found


def _short(path: str) -> str:
    """The path of a source file, from its package on."""
    return path.rpartition("site-packages/")[2]


def _said(record: logging.LogRecord) -> str:
    """What a record says; a library may quote what it was given, so there is only where it said something."""
    if record.name.startswith(_TRUSTED):
        return record.getMessage()
    if record.name == "py.warnings":  # FILE:LINE: CATEGORY: TEXT
        return ": ".join(record.getMessage().split(": ", 2)[:2])
    fixed = record.name == "asyncio" and record.args  # others may have put it together before
    return str(record.msg).partition("\n")[0] if fixed else "a library reported something"


def _value(value: object) -> str:
    """A value as a line of text has it: in quotes where it could be taken for more than one."""
    text = str(value)
    return text if _ONE_WORD.fullmatch(text) else _json(text)


class Lines(logging.Formatter):
    """A record as one line."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self._second = (0, "")

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        told: dict[str, Any] = {
            "time": self._time(record.created),
            "level": record.levelname.lower(),
            "event": safe(_said(record)),
        }
        if record.name != _REQUESTS:
            told["logger"] = record.name
        if not record.name.startswith(_TRUSTED):
            told["at"] = f"{_short(record.pathname)}:{record.lineno}"
        for name, value in getattr(record, FIELDS, {}).items():
            if value is not None:
                told[name] = safe(value) if isinstance(value, str) else value
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            told["exception"] = [safe(line) for line in stack(error)]
        if self._as_json:
            return _json(told)
        head = f"{told.pop('time')} {told.pop('level'):<7} {told.pop('event')}"
        trace = told.pop("exception", [])
        return "\n    ".join(
            [" ".join([head, *(f"{name}={_value(value)}" for name, value in told.items())]), *trace]
        )

    def _time(self, moment: float) -> str:
        """A moment as text; most are in the same second as the one before."""
        second = int(moment)
        if second != self._second[0]:
            self._second = (
                second,
                datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S"),
            )
        return f"{self._second[1]}.{int((moment - second) * 1000):03}Z"


class Writer(logging.Handler):
    """Writes lines to a stream from a thread of its own."""

    def __init__(self, stream: IO[str], *, as_json: bool) -> None:
        super().__init__()
        self.setFormatter(Lines(as_json=as_json))
        self.dropped = self._said = 0
        self._stream = stream
        self._waiting: deque[logging.LogRecord] = deque()
        self._some = threading.Event()
        self._busy = False
        self._thread: threading.Thread | None = None

    def createLock(self) -> None:  # noqa: N802 - the library's name
        """None is needed: a deque is safe, and one thread alone writes."""
        self.lock = None

    def emit(self, record: logging.LogRecord) -> None:
        """Have a record written, soon."""
        if len(self._waiting) >= MOST_WAITING:
            self.dropped += 1
            return
        self._waiting.append(record)
        if not self._some.is_set():
            self._some.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="retain-log", daemon=True)
            self._thread.start()

    def flush(self) -> None:
        """Wait for what waits to be written, but not forever."""
        deadline = time.monotonic() + _FLUSH_SECONDS
        while (self._waiting or self._busy) and time.monotonic() < deadline:
            time.sleep(0.005)

    def _write(self) -> None:
        while True:
            self._some.wait()
            self._some.clear()
            self._busy = (
                True  # before anything is taken: what is not written yet waits, or this says so
            )
            while self._waiting:
                records = [self._waiting.popleft() for _ in range(min(len(self._waiting), 500))]
                try:
                    self._stream.write(
                        "".join(
                            f"{self._line(record)}\n" for record in (*records, *self._missing())
                        )
                    )
                    self._stream.flush()
                except (OSError, ValueError):  # nobody reads it any more
                    self.dropped += len(records)
            self._busy = False

    def _missing(self) -> list[logging.LogRecord]:
        """A line that says how many are missing, where some were dropped since the last one that said so."""
        missing, self._said = self.dropped - self._said, self.dropped
        told = {
            "name": "retain.log",
            "levelno": logging.WARNING,
            "levelname": "WARNING",
            "args": (missing,),
        }
        text = "%d lines of the log are missing here: too many were waiting"
        return [logging.makeLogRecord({**told, "msg": text})] if missing else []

    def _line(self, record: logging.LogRecord) -> str:
        try:
            return self.format(record)
        except Exception as error:  # a line that cannot be made must not end all others
            return json.dumps(
                {"level": "error", "event": f"a line of the log failed: {type(error).__name__}"}
            )


class _AlreadyTold(logging.Filter):
    """The web server reports again, without the request's id, what was on record for a request."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("Exception in ASGI application")


def configure(settings: Settings, stream: IO[str] | None = None) -> Writer:
    """Send the log of this process, retain's and its libraries', to a stream (standard error) as the settings say."""
    out = stream or sys.stderr
    as_json = not out.isatty()
    writer = Writer(out, as_json=as_json)
    writer.addFilter(_AlreadyTold())
    for name in ("", *_OURS):
        logger = logging.getLogger(name)
        for handler in list(logger.handlers):
            if isinstance(handler, Writer) or name.startswith("uvicorn"):
                logger.removeHandler(handler)
        logger.setLevel(
            logging.NOTSET if name else max(_LEVELS[settings.log_level], logging.WARNING)
        )
        logger.propagate = True
    for name in _TRUSTED:
        logging.getLogger(name).setLevel(_LEVELS[settings.log_level])
    logging.getLogger(
        "uvicorn.access"
    ).disabled = True  # it would have addresses with their queries
    logging.getLogger().addHandler(writer)
    logging.captureWarnings(True)
    atexit.register(writer.flush)
    _current[:] = [writer]
    return writer


def dropped() -> int:
    """How many lines of this process were not written."""
    return sum(writer.dropped for writer in _current)


def flush() -> None:
    """Wait for what waits to be written, but not forever: for a process that is about to end as it stands."""
    for writer in _current:
        writer.flush()


def request(level: int, fields: Mapping[str, Any], error: BaseException | None = None) -> None:
    """Put a request on record; the library's own way to make a record takes longer than all else here."""
    if not _log.isEnabledFor(level):
        return
    record = logging.LogRecord.__new__(logging.LogRecord)
    told = {"levelno": level, "levelname": _NAMES[level], "created": time.time(), FIELDS: fields}
    told["exc_info"] = None if error is None else (type(error), error, error.__traceback__)
    record.__dict__ = _EMPTY | told
    _log.handle(record)
