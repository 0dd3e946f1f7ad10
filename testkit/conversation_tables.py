"""Conversations in tables of another application, and what an import makes of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memorist import Memory
from memorist.importing import ImportReport, import_from

DAY = datetime(2025, 5, 21, 10, tzinfo=UTC)


def said(kind: str, text: str) -> str:
    return json.dumps({"type": kind, "data": {"content": text, "type": kind}})


CONVERSATION_ROWS: dict[str, list[tuple[Any, ...]]] = {
    "conversations": [
        (1, "acme", "ada", "Invoices", "2025-05-21 10:00:00+00", "2025-05-21 12:00:00+00", '{"channel":"web"}'),
        (2, "globex", "zoe", None, "2025-05-22 10:00:00+00", None, None),
    ],
    "messages": [
        (10, 1, "acme", "user", '{"text":"Hello","attachments":[]}', None, None, None, None, "2025-05-21 10:00:00+00"),
        (11, 1, "acme", "assistant", None, "Hello Ada", 12, 3, 0.25, "2025-05-21 10:00:05+00"),
        (12, 2, "globex", "user", '{"text":"Hi"}', None, None, None, None, "2025-05-22 10:00:00+00"),
    ],
    "memory_kv": [
        (1, "acme", "ada", "theme", '{"dark":true}', None, "2025-05-21 10:00:00+00"),
        (2, "acme", "1", "step", "3", "2099-01-01 00:00:00+00", "2025-05-21 10:00:00+00"),
        (3, "acme", None, "motto", '"plain"', None, "2025-05-21 10:00:00+00"),
        (4, "acme", "ada", "gone", "1", "2025-06-01 00:00:00+00", "2025-05-21 10:00:00+00"),
    ],
    "memory_long": [(1, "Ada said hello.", "2025-05-21 11:00:00+00")],
    "interactions": [
        (7, "acme", "/chat", "gpt-5-mini", '{"temperature":0}', 812.5, 900, 40, 0.01, "2025-05-21 10:00:05+00"),
        (8, "globex", "/chat", "gpt-5-mini", None, None, None, None, None, "2025-05-22 10:00:00+00"),
    ],
}  # fmt: skip


def unplaced(report: ImportReport) -> set[tuple[str, str]]:
    return {(item.what, item.where) for item in report.unplaced}


def twice(memory: Memory, source: Path | str, map: str, **how: Any) -> ImportReport:
    """Import with a dry run before and a second run after; return the report of the import."""
    dry = import_from(memory, source, "sql", map=map, dry_run=True, **how)
    report = import_from(memory, source, "sql", map=map, **how)
    again = import_from(memory, source, "sql", map=map, **how)
    assert (dry.read, dry.written, dry.there) == (report.read, report.written, report.there)
    assert again.read == report.read
    assert not again.written
    assert not [finding for finding in memory.verify() if not finding.ok]
    return report


def check_conversations(memory: Memory, source: Path | str) -> None:
    report = twice(memory, source, "conversations")
    assert dict(report.written) == {"conversations": 2, "messages": 3, "state": 3, "model calls": 2}
    assert report.tenants == ["acme", "globex"]
    assert ("state", "ada / gone") in unplaced(report)  # it has expired
    ada = memory.scope(tenant="acme", user="ada", agent="conversations")
    session = ada.sessions.get("1")
    assert session.label == "Invoices"
    assert session.attributes["channel"] == "web"
    assert session.summary == ada.summaries.get("1").text == "Ada said hello."
    assert session.summarized_count == 0  # of unknown reach: it hides no message
    assert session.created_at == DAY
    first, second = ada.messages.window("1")
    assert first.content == {"text": "Hello", "attachments": []}
    assert second.text == "Hello Ada"
    assert (second.tokens_in, second.tokens_out, second.cost) == (12, 3, 0.25)
    assert second.created_at == DAY.replace(second=5)
    assert ada.state.get("theme").value == {"dark": True}
    assert ada.state.get("theme").updated_at == DAY
    assert ada.state.get("step", area="session:1").value == 3
    assert ada.state.get("step", area="session:1").expires_at == datetime(2099, 1, 1, tzinfo=UTC)
    assert ada.state.get("motto", area="tenant").value == "plain"
    (call,) = memory.scope(tenant="acme").interactions.list()
    assert (call.route, call.model, call.latency_ms, call.tokens_in) == (
        "/chat",
        "gpt-5-mini",
        812.5,
        900,
    )
    assert call.parameters == {"temperature": 0}
    assert call.created_at == DAY.replace(second=5)
    (unknown,) = memory.scope(tenant="globex").interactions.list()
    assert (unknown.latency_ms, unknown.tokens_in, unknown.tokens_out) == (None, None, None)
    zoe = memory.scope(tenant="globex", user="zoe", agent="conversations")
    assert [message.text for message in zoe.messages.window("2")] == ["Hi"]
    only = import_from(memory, source, "sql", map="conversations", tenant="acme", dry_run=True)
    assert ("conversation", "2") in unplaced(only)
