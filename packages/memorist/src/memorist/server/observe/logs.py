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
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from logging.handlers import QueueHandler, QueueListener
from queue import SimpleQueue
from typing import IO, Any

import msgspec

from memorist.base.logging import FIELDS
from memorist.base.settings import Settings

QUEUE_SIZE = 10_000
MAX_UNWRITTEN_LINES = 1_000
"""The thread writes after this many lines, even if more are waiting: it keeps no more in memory."""
MAX_FRAMES = 40
MAX_CHAINED_EXCEPTIONS = 10
MAX_TEXT_LENGTH = 2000
FLUSH_SECONDS = 2.0
WRITE_SECONDS = 0.05
"""Pause of the thread that writes the log, once it has written all lines."""

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
CONFIGURED_LOGGERS = (
    "memorist",
    "uvicorn",
    "uvicorn.error",
    "uvicorn.access",
    "uvicorn.asgi",
    "mcp",
    "asyncio",
    "py.warnings",
)
TRUSTED_LOGGERS = ("memorist", "uvicorn")
"""Loggers whose messages quote no content."""
REQUEST_LOGGER = "memorist.requests"

_UNSAFE_CHARACTERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_encoder = msgspec.json.Encoder(enc_hook=lambda value: escape(str(value)))
_ONE_WORD = re.compile(r"[^\s=\"]+")
_handlers: list[LogQueue] = []


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


class LogQueue(QueueHandler):
    """Queues records for the thread that writes them; counts those for which there is no room."""

    queue: SimpleQueue[Any]

    def __init__(self) -> None:
        super().__init__(SimpleQueue())
        self.dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Leave the record as it is: the thread formats it."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a record, or drop it."""
        if self.queue.qsize() >= QUEUE_SIZE:
            self.dropped += 1
        else:
            self.queue.put(record)

    def flush(self) -> None:
        """Wait until all records are written, at most FLUSH_SECONDS."""
        written = threading.Event()
        self.queue.put(written)
        written.wait(FLUSH_SECONDS)


class LogThread(QueueListener):
    """Writes the queued records, and says how many are missing.

    It sleeps whenever the queue is empty, and then writes all lines that came meanwhile. Woken for
    each line, the thread of the standard library took a fifth of the CPU time of a request.
    """

    queue: SimpleQueue[Any]

    def __init__(self, handler: LogQueue, stream: IO[str], formatter: logging.Formatter) -> None:
        super().__init__(handler.queue)
        self._handler = handler
        self._stream = stream
        self._formatter = formatter
        self._lines: list[str] = []
        self._reported_drops = 0

    def dequeue(self, block: bool) -> Any:
        """Return the next entry, after a pause if there is none."""
        if self.queue.empty():
            self._write()
            time.sleep(WRITE_SECONDS)
        return super().dequeue(block)

    def handle(self, record: Any) -> None:
        """Format one record; set an event, which says that all lines before it are written."""
        if isinstance(record, threading.Event):
            self._write()
            record.set()
        else:
            self._lines.append(self._line(record))
            if len(self._lines) >= MAX_UNWRITTEN_LINES:
                self._write()

    def _write(self) -> None:
        dropped = self._handler.dropped - self._reported_drops
        if dropped:
            self._reported_drops += dropped
            self._lines.append(self._line(_missing_lines(dropped)))
        lines, self._lines = self._lines, []
        try:
            self._stream.write("".join(f"{line}\n" for line in lines))
            self._stream.flush()
        except (OSError, ValueError):  # The stream is closed.
            self._handler.dropped += len(lines)
            self._reported_drops += len(lines)

    def _line(self, record: logging.LogRecord) -> str:
        try:
            return self._formatter.format(record)
        except Exception as error:  # One bad record must not end the log.
            event = f"a line of the log failed: {type(error).__name__}"
            return json.dumps({"level": "error", "event": event})


def _missing_lines(count: int) -> logging.LogRecord:
    return logging.LogRecord(
        "memorist.log",
        logging.WARNING,
        __file__,
        0,
        "%d lines of the log are missing here: too many were waiting",
        (count,),
        None,
    )


def _is_no_duplicate(record: logging.LogRecord) -> bool:
    """Return whether a record of uvicorn is not the exception that the request's own line has."""
    return not str(record.msg).startswith("Exception in ASGI application")


def configure(settings: Settings, stream: IO[str] | None = None) -> LogQueue:
    """Send the log of memorist and its libraries to a stream (default: standard error)."""
    output = stream or sys.stderr
    level = LEVELS[settings.log_level]
    handler = LogQueue()
    LogThread(handler, output, LineFormatter(as_json=not output.isatty())).start()
    logging.getLogger("uvicorn.error").addFilter(_is_no_duplicate)
    for name in ("", *CONFIGURED_LOGGERS):
        logger = logging.getLogger(name)
        for old in list(logger.handlers):
            if isinstance(old, LogQueue) or name.startswith("uvicorn"):
                logger.removeHandler(old)
        logger.setLevel(logging.NOTSET if name else max(level, logging.WARNING))
        logger.propagate = True
    for name in TRUSTED_LOGGERS:
        logging.getLogger(name).setLevel(level)
    logging.getLogger("uvicorn.access").disabled = True  # It logs addresses with their queries.
    logging.getLogger().addHandler(handler)
    logging.captureWarnings(True)
    # Nothing shows these fields of a record, and filling them takes as long as the rest of it.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
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
