"""Logs: one machine-readable line per request and event, without stored content."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from memorist import Memory, Settings
from memorist.base.logging import FIELDS
from memorist.server.http.app import create_app
from memorist.server.observe import logs
from testkit.apps import Calling

SECRET = "my sister lives in Graz"


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


class Log:
    """Captured log output."""

    def __init__(self, *, terminal: bool = False, **changes: Any) -> None:
        self.out = Terminal() if terminal else io.StringIO()
        self.writer = logs.configure(Settings(**changes), self.out)

    @property
    def text(self) -> str:
        self.writer.flush()
        return self.out.getvalue()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    def requests(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == "request"]


@pytest.fixture
def engine() -> str:
    """The log does not depend on the engine."""
    return "sqlite"


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root, handlers, level = (
        logging.getLogger(),
        list(logging.getLogger().handlers),
        logging.getLogger().level,
    )
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    for name in ("memorist", "uvicorn"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_one_line_per_request(calling: Calling) -> None:
    client = calling()
    log = Log()
    response = client.post("/api/sessions?user=ada&agent=scout", json={"id": "trip"})
    (line,) = log.requests()
    assert line.pop("time").endswith("Z")
    assert 0 < line.pop("ms") < 60_000
    assert line == {
        "level": "info",
        "event": "request",
        "request_id": response.headers["x-request-id"],
        "method": "POST",
        "route": "/api/sessions",
        "status": 201,
        "bytes": len(response.content),
        "tenant": "acme",
        "principal": line["principal"],
    }
    assert "ada" not in log.text


def test_no_content_query_or_key_is_logged(calling: Calling) -> None:
    """Neither stored content, nor queries, nor credentials."""
    client = calling()
    log = Log(log_level="debug")
    client.post(
        "/api/sessions", json={"id": "trip", "label": SECRET}, headers={"X-Memorist-User": "ada"}
    )
    client.post("/api/messages/trip", json={"role": "user", "content": SECRET})
    client.post("/api/search", json={"query": SECRET})
    client.get("/api/entries/search", params={"query": SECRET})
    client.post(
        "/api/messages/trip", json={"role": "Graz", "content": {"a": SECRET}, "wrong": SECRET}
    )
    client.get(f"/api/sessions/{SECRET}")
    client.get(f"/{SECRET}")
    client.get(
        "/api/sessions", headers={"Authorization": "Bearer mst_aa_bb_cc", "X-Memorist-User": SECRET}
    )
    assert len(log.requests()) == 8
    assert "Graz" not in log.text
    assert "mst_" not in log.text
    assert client.headers["authorization"][7:] not in log.text


def test_an_exception_logs_its_location_and_not_its_text(memory: Memory, calling: Calling) -> None:
    app = create_app(memory)

    async def breaks(request: Request) -> Response:
        quoted = SECRET
        try:
            raise KeyError(quoted)
        except KeyError as error:
            raise ValueError(f"cannot read {quoted}") from error

    app.add_route("/breaks", breaks)
    client = calling(over=app)
    log = Log()
    answer = client.get("/breaks")
    assert answer.status_code == 500
    assert "Graz" not in answer.text + log.text
    (line,) = log.requests()
    assert (line["level"], line["status"], line["request_id"]) == (
        "error",
        500,
        answer.json()["request_id"],
    )
    assert line["exception"][0] == "ValueError"
    assert "KeyError" in line["exception"]
    assert any(
        "test_logs.py" in place and place.endswith("in breaks") for place in line["exception"]
    )
    logging.getLogger("uvicorn.error").error(
        "Exception in ASGI application\n", exc_info=ValueError(SECRET)
    )
    assert len(log.lines) == 1  # logged with the request


def test_log_lines_cannot_be_forged() -> None:
    """CR, LF, escape sequences and bidirectional control characters."""
    evil = 'x\r\n{"level":"info","event":"forged"}\x1b[2J\u202egnp\u2028y\x85z'
    for terminal in (False, True):
        log = Log(terminal=terminal)
        logging.getLogger("memorist.test").warning(
            "said %s", evil, extra={FIELDS: {"tenant": evil}}
        )
        text = log.text
        assert text.count("\n") == 1
        assert not set(text[:-1]) & {"\r", "\x1b", "\u202e", "\u2028", "\x85"}
        assert "\\u000d\\u000a" in text or "\\\\u000d\\\\u000a" in text


def test_messages_of_libraries_are_not_logged_verbatim() -> None:
    log = Log()
    logging.getLogger("mcp.server").error(f"failed on {SECRET}")
    logging.getLogger("psycopg").error(f"Key (content)=({SECRET})\nDETAIL %s", 1)
    logging.getLogger("asyncio").error(
        "Task exception was never retrieved\nfuture: <Task exception=%r>", SECRET
    )
    warnings.warn(f"bad value {SECRET}", stacklevel=1)
    first, other, second, third = log.lines
    assert other["event"] == "a library reported something"
    assert first["event"] == "a library reported something"
    assert first["at"].startswith("tests/") or "test_logs.py" in first["at"]
    assert second["event"] == "Task exception was never retrieved"
    assert third["event"].endswith("UserWarning")
    assert "Graz" not in log.text


def test_levels_and_quiet_routes(calling: Calling) -> None:
    client = calling()
    log = Log()
    client.get("/healthz")
    assert not log.requests()
    log = Log(log_level="debug")
    client.get("/healthz")
    assert [line["level"] for line in log.requests()] == ["debug"]
    log = Log(log_level="error")
    client.get("/api/sessions")
    assert not log.lines


def test_text_format_on_a_terminal(calling: Calling) -> None:
    client = calling()
    log = Log(terminal=True)
    client.get("/api/sessions")
    assert " info    request " in log.text
    assert "route=/api/sessions status=200" in log.text


def test_a_name_cannot_look_like_another_field() -> None:
    log = Log(terminal=True)
    fields = {"principal": 'bob status=200 "x', "status": 403}
    logging.getLogger(logs.REQUEST_LOGGER).info("request", extra={FIELDS: fields})
    assert log.text.rstrip().endswith('request principal="bob status=200 \\"x" status=403')


def test_rejected_requests_are_logged(calling: Calling) -> None:
    log = Log()
    answer = calling().get("/api/sessions", headers={"Host": "evil.example"})
    (line,) = log.requests()
    assert (line["status"], line["request_id"]) == (421, answer.headers["x-request-id"])
    calling("acme", ["read"]).post("/api/sessions", json={})
    line = log.requests()[-1]
    assert (line["status"], line["tenant"]) == (403, "acme")


def test_a_blocked_log_stream_blocks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    class Stuck(io.StringIO):
        def __init__(self) -> None:
            super().__init__()
            self.free = threading.Event()

        def write(self, text: str) -> int:
            self.free.wait(10)
            return super().write(text)

    monkeypatch.setattr(logs, "QUEUE_SIZE", 100)
    stream = Stuck()
    writer = logs.configure(Settings(), stream)
    for number in range(1000):
        logging.getLogger("memorist.test").warning("line %d", number)
    assert writer.dropped == logs.dropped() >= 300
    stream.free.set()
    writer.flush()
    received = [json.loads(line) for line in stream.getvalue().splitlines()]
    missing = [line["event"] for line in received if line["logger"] == "memorist.log"]
    assert len(received) - len(missing) + writer.dropped == 1000
    assert missing == [f"{writer.dropped} lines of the log are missing here: too many were waiting"]


def test_lines_are_written_although_the_queue_is_never_empty() -> None:
    """Under load, the thread holds a limited number of lines that are not written yet."""
    stream = io.StringIO()
    formatter = logs.LineFormatter(as_json=True)
    thread = logs.LogThread(logs.LogQueue(), stream, formatter)
    record = logging.LogRecord("memorist.test", logging.WARNING, __file__, 0, "busy", (), None)
    for number in range(1, 2 * logs.MAX_UNWRITTEN_LINES + 2):
        thread.handle(record)  # without a pause between them
        written = stream.getvalue().count("\n")
        assert number - written < logs.MAX_UNWRITTEN_LINES
    assert written == 2 * logs.MAX_UNWRITTEN_LINES


def test_a_closed_stream_is_no_error() -> None:
    stream = io.StringIO()
    writer = logs.configure(Settings(), stream)
    stream.close()
    logging.getLogger("memorist.test").warning("nobody hears this")
    writer.flush()
    assert writer.dropped == 1


def test_an_unconfigured_app_logs_nothing(
    app: Starlette, calling: Calling, capfd: pytest.CaptureFixture[str]
) -> None:
    calling().get("/api/sessions")
    assert capfd.readouterr().err == ""


def test_a_line_is_ascii_and_has_any_value() -> None:
    log = Log()
    fields = {"principal": "Zoë", "folder": Path("é"), "ms": 0.5}
    logging.getLogger(logs.REQUEST_LOGGER).info("request", extra={FIELDS: fields})
    line = log.text
    assert line.isascii()
    assert line.count("\n") == 1
    fields = json.loads(line)
    assert (fields["principal"], fields["folder"], fields["ms"]) == ("Zoë", "é", 0.5)
