"""The server's log: one line per request and event, as JSON or text.

Lines have names, ids and sizes, never content. Of an exception, the log has its type and where it
was raised; its message may quote content. The standard library's queue handler writes from a
thread, so that a blocked terminal or pipe does not stop the server. When the queue is full, lines
are dropped and counted.
"""

from __future__ import annotations

import atexit
import json
import logging
import logging.handlers
import queue
import re
import sys
import time
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import IO, Any

from retain.base.logging import FIELDS
from retain.base.settings import Settings

QUEUE_SIZE = 10_000
MAX_FRAMES = 40
MAX_CHAINED_EXCEPTIONS = 10
MAX_TEXT_LENGTH = 2000
FLUSH_SECONDS = 2.0

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
    "fastapi",
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
_ONE_WORD = re.compile(r"[^\s=\"]+")
_handlers: list[DroppingQueueHandler] = []


def escape(text: str) -> str:
    """Escape characters that could start a line, move the cursor or reverse the text."""
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
            return json.dumps(fields, default=lambda value: escape(str(value)))
        head = f"{fields.pop('time')} {fields.pop('level'):<7} {fields.pop('event')}"
        exception = fields.pop("exception", [])
        pairs = [f"{name}={_quote(value)}" for name, value in fields.items()]
        return "\n    ".join([" ".join([head, *pairs]), *exception])

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        time = datetime.fromtimestamp(record.created, UTC)
        fields: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03}Z",
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


def _short_path(path: str) -> str:
    """Return the path of a source file, from its package on."""
    return path.rpartition("site-packages/")[2]


def _quote(value: object) -> str:
    """Quote a value that could be read as more than one."""
    text = str(value)
    return text if _ONE_WORD.fullmatch(text) else json.dumps(text)


class DroppingQueueHandler(logging.handlers.QueueHandler):
    """Hands records to a thread that writes them; drops and counts them when the queue is full."""

    def __init__(self, stream: IO[str], *, as_json: bool) -> None:
        self.records: queue.Queue[logging.LogRecord] = queue.Queue(QUEUE_SIZE)
        super().__init__(self.records)
        self.dropped = 0
        self._output = _StreamHandler(stream, self)
        self._output.setFormatter(LineFormatter(as_json=as_json))
        self._listener = logging.handlers.QueueListener(self.records, self._output)
        self._is_started = False

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return the record as it is: the thread formats it."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Add a record to the queue, and start the thread with the first one (after any fork)."""
        if not self._is_started:
            self._is_started = True
            self._listener.start()
        try:
            self.records.put_nowait(record)
        except queue.Full:
            self.dropped += 1

    def flush(self) -> None:
        """Wait until the queue is written, at most FLUSH_SECONDS."""
        deadline = time.monotonic() + FLUSH_SECONDS
        while self.records.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(0.005)


class _StreamHandler(logging.StreamHandler[IO[str]]):
    """Writes lines, and says where some are missing."""

    def __init__(self, stream: IO[str], queue_handler: DroppingQueueHandler) -> None:
        super().__init__(stream)
        self._queue_handler = queue_handler
        self._reported_drops = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(self._line(record))
            missing = self._queue_handler.dropped - self._reported_drops
            if missing:
                self._reported_drops += missing
                self._write(self._line(_missing_lines(missing)))
        except (OSError, ValueError):  # The stream is closed.
            self._queue_handler.dropped += 1
            self._reported_drops += 1

    def _write(self, line: str) -> None:
        self.stream.write(line + self.terminator)
        self.stream.flush()

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


def configure(settings: Settings, stream: IO[str] | None = None) -> DroppingQueueHandler:
    """Send the log of retain and its libraries to a stream (default: standard error)."""
    output = stream or sys.stderr
    level = LEVELS[settings.log_level]
    handler = DroppingQueueHandler(output, as_json=not output.isatty())
    handler.addFilter(_DuplicateFilter())
    for name in ("", *CONFIGURED_LOGGERS):
        logger = logging.getLogger(name)
        for old in list(logger.handlers):
            if isinstance(old, DroppingQueueHandler) or name.startswith("uvicorn"):
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
    """Log one request."""
    logging.getLogger(REQUEST_LOGGER).log(level, "request", exc_info=error, extra={FIELDS: fields})
