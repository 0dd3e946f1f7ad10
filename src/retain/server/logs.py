"""The server's log: one line per request and event, as JSON or text.

Lines have names, ids and sizes, never content. Of an exception, the log has its type and where it
was raised; its message may quote content. A thread writes the lines, so that a blocked terminal or
pipe does not stop the server. When too many are waiting, lines are dropped and counted.
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
from functools import lru_cache
from typing import IO, Any

import msgspec

from retain.base.logging import FIELDS
from retain.base.settings import Settings

QUEUE_SIZE = 10_000
MAX_FRAMES = 40
MAX_CHAINED_EXCEPTIONS = 10
MAX_TEXT_LENGTH = 2000
FLUSH_SECONDS = 2.0
WRITE_SECONDS = 0.05
"""A line is written this much later, together with those that came meanwhile."""

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
CONFIGURED_LOGGERS = (
    "retain",
    "uvicorn",
    "uvicorn.error",
    "uvicorn.access",
    "uvicorn.asgi",
    "mcp",
    "asyncio",
    "py.warnings",
)
TRUSTED_LOGGERS = ("retain", "uvicorn")
"""Loggers whose messages quote no content."""
REQUEST_LOGGER = "retain.requests"

_UNSAFE_CHARACTERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_encoder = msgspec.json.Encoder(enc_hook=lambda value: escape(str(value)))
_ONE_WORD = re.compile(r"[^\s=\"]+")
_request_logger = logging.getLogger(REQUEST_LOGGER)
_REQUEST_RECORD = vars(
    logging.LogRecord(REQUEST_LOGGER, logging.INFO, __file__, 0, "request", None, None)
)
_handlers: list[LogWriter] = []


def escape(text: str) -> str:
    """Escape characters that could start a line, move the cursor or reverse the text."""
    if len(text) <= MAX_TEXT_LENGTH and text.isprintable():
        return text
    return _UNSAFE_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text[:MAX_TEXT_LENGTH])


def describe_exception(error: BaseException) -> list[str]:
    """Return the types and places of an exception and its causes, without their messages."""
    lines: list[str] = []
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain and len(chain) < MAX_CHAINED_EXCEPTIONS:
        chain.append(current)
        lines.append(type(current).__name__)
        for frame in traceback.extract_tb(current.__traceback__)[-MAX_FRAMES:]:
            lines.append(f"{_short_path(frame.filename)}:{frame.lineno} in {frame.name}")
        context = None if current.__suppress_context__ else current.__context__
        current = current.__cause__ or context
    return lines


class LineFormatter(logging.Formatter):
    """Formats a record as one line of JSON or text."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        fields = self._fields(record)
        if self._as_json:
            return _as_json(fields)
        head = f"{fields.pop('time')} {fields.pop('level'):<7} {fields.pop('event')}"
        exception = fields.pop("exception", [])
        pairs = [f"{name}={_quote(value)}" for name, value in fields.items()]
        return "\n    ".join([" ".join([head, *pairs]), *exception])

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        second = int(record.created)
        milliseconds = int((record.created - second) * 1000)
        fields: dict[str, Any] = {
            "time": f"{_second(second)}.{milliseconds:03}Z",
            "level": record.levelname.lower(),
            "event": escape(_event(record)),
        }
        if record.name != REQUEST_LOGGER:
            fields["logger"] = record.name
        if not record.name.startswith(TRUSTED_LOGGERS):
            fields["at"] = f"{_short_path(record.pathname)}:{record.lineno}"
        for name, value in getattr(record, FIELDS, {}).items():
            if value is not None:
                fields[name] = escape(value) if isinstance(value, str) else value
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            fields["exception"] = [escape(line) for line in describe_exception(error)]
        return fields


def _as_json(fields: Mapping[str, Any]) -> str:
    """Return fields as one line of ASCII: a stream may have no other characters."""
    line = _encoder.encode(fields).decode()
    return line if line.isascii() else json.dumps(json.loads(line))


def _event(record: logging.LogRecord) -> str:
    """Return the message of a record.

    Of a library's record, which may quote content, return only the fixed part.
    """
    if record.name.startswith(TRUSTED_LOGGERS):
        return record.getMessage()
    if record.name == "py.warnings":  # FILE:LINE: CATEGORY: TEXT
        return ": ".join(record.getMessage().split(": ", 2)[:2])
    if record.name == "asyncio" and record.args:
        return str(record.msg).partition("\n")[0]
    return "a library reported something"


@lru_cache(16)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _short_path(path: str) -> str:
    """Return the path of a source file, from its package on."""
    return path.rpartition("site-packages/")[2]


def _quote(value: object) -> str:
    """Quote a value that could be read as more than one."""
    text = str(value)
    return text if _ONE_WORD.fullmatch(text) else json.dumps(text)


class LogWriter(logging.Handler):
    """Collects records; a thread writes all that are waiting at once, every WRITE_SECONDS.

    With the standard library's QueueListener, whose thread wakes up for each line, the log took a
    fifth of the CPU time of a request.
    """

    def __init__(self, stream: IO[str], *, as_json: bool) -> None:
        super().__init__()
        self.setFormatter(LineFormatter(as_json=as_json))
        self.dropped = 0
        self._stream = stream
        self._waiting: deque[logging.LogRecord] = deque()
        self._has_waiting = threading.Event()
        self._is_started = False
        self._is_writing = False
        self._reported_drops = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Add a record, and start the thread with the first one (after any fork)."""
        if len(self._waiting) >= QUEUE_SIZE:
            self.dropped += 1
            return
        self._waiting.append(record)
        if not self._has_waiting.is_set():
            self._has_waiting.set()
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._run, name="retain-log", daemon=True).start()

    def flush(self) -> None:
        """Wait until all records are written, at most FLUSH_SECONDS."""
        deadline = time.monotonic() + FLUSH_SECONDS
        while (self._waiting or self._is_writing) and time.monotonic() < deadline:
            time.sleep(0.005)

    def _run(self) -> None:
        while True:
            self._has_waiting.wait()
            time.sleep(WRITE_SECONDS)
            self._has_waiting.clear()
            self._is_writing = True
            self._write([self._waiting.popleft() for _ in range(len(self._waiting))])
            dropped = self.dropped - self._reported_drops
            if dropped:
                self._reported_drops += dropped
                self._write([_missing_lines(dropped)])
            self._is_writing = False

    def _write(self, records: list[logging.LogRecord]) -> None:
        lines = [self._line(record) + "\n" for record in records]
        try:
            self._stream.write("".join(lines))
            self._stream.flush()
        except (OSError, ValueError):  # The stream is closed.
            self.dropped += len(lines)
            self._reported_drops += len(lines)

    def _line(self, record: logging.LogRecord) -> str:
        try:
            return self.format(record)
        except Exception as error:  # One bad record must not end the log.
            event = f"a line of the log failed: {type(error).__name__}"
            return json.dumps({"level": "error", "event": event})


def _missing_lines(count: int) -> logging.LogRecord:
    return logging.LogRecord(
        "retain.log",
        logging.WARNING,
        __file__,
        0,
        "%d lines of the log are missing here: too many were waiting",
        (count,),
        None,
    )


class _DuplicateFilter(logging.Filter):
    """Drops uvicorn's report of an exception that the request's own line has."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("Exception in ASGI application")


def configure(settings: Settings, stream: IO[str] | None = None) -> LogWriter:
    """Send the log of retain and its libraries to a stream (default: standard error)."""
    output = stream or sys.stderr
    level = LEVELS[settings.log_level]
    handler = LogWriter(output, as_json=not output.isatty())
    handler.addFilter(_DuplicateFilter())
    for name in ("", *CONFIGURED_LOGGERS):
        logger = logging.getLogger(name)
        for old in list(logger.handlers):
            if isinstance(old, LogWriter) or name.startswith("uvicorn"):
                logger.removeHandler(old)
        logger.setLevel(logging.NOTSET if name else max(level, logging.WARNING))
        logger.propagate = True
    for name in TRUSTED_LOGGERS:
        logging.getLogger(name).setLevel(level)
    logging.getLogger("uvicorn.access").disabled = True  # It logs addresses with their queries.
    logging.getLogger().addHandler(handler)
    logging.captureWarnings(True)
    atexit.register(handler.flush)
    _handlers[:] = [handler]
    return handler


def dropped() -> int:
    """Return how many lines of this process were dropped."""
    return sum(handler.dropped for handler in _handlers)


def flush() -> None:
    """Write what waits in the queue: call before the process ends."""
    for handler in _handlers:
        handler.flush()


def request(level: int, fields: Mapping[str, Any], error: BaseException | None = None) -> None:
    """Log one request.

    Its record is a changed copy of another one. The constructor looks up the thread, the process
    and the source file, which takes longer than all other steps here.
    """
    if not _request_logger.isEnabledFor(level):
        return
    record = logging.LogRecord.__new__(logging.LogRecord)
    record.__dict__.update(_REQUEST_RECORD)
    record.levelno = level
    record.levelname = logging.getLevelName(level)
    record.created = time.time()
    if error is not None:
        record.exc_info = (type(error), error, error.__traceback__)
    record.__dict__[FIELDS] = fields
    _request_logger.handle(record)
