"""A tenant with one object of each kind, whose ids others try to use."""

from __future__ import annotations

import json
from typing import Any

from starlette.testclient import TestClient

from memorist import Scope
from testkit.examples import EXAMPLES

MARK = "their mark"
UNUSED_IDS = {
    "id": "01234567-89ab-7cde-8f01-23456789abcd",
    "session": "a session of nobody",
    "name": "an agent of nobody",
    "key": "nothing-0a1b2c3d",
}


def filled(scope: Scope) -> Scope:
    for make in EXAMPLES.values():
        make(scope, MARK)
    return scope


def ids(scope: Scope) -> dict[str, str]:
    """Return the id of one object of each kind."""
    talking = f"session of {MARK} talking"
    item = next(iter(scope.items.list()))
    return {
        "items": item.key,
        "place": json.dumps(item.place),
        "agents": f"agent of {MARK}",
        "sessions": talking,
        "messages": talking,
        "summaries": f"session of {MARK} folding",
        "facts": next(iter(scope.facts.list())).id,
        "entries": next(iter(scope.entries.list())).id,
        "consolidations": next(iter(scope.consolidations.list())).id,
        "refs": next(iter(scope.refs.list())).key,
        "state": f"session of {MARK} keeping",
        "documents": next(iter(scope.documents.list())).id,
        "turns": next(iter(scope.turns.list(f"session of {MARK} taking turns"))).id,
    }


ADA = {"X-Memorist-User": "ada", "X-Memorist-Agent": "scout"}
ACCEPT = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


def mcp_request(http: TestClient, path: str, method: str, **params: Any) -> Any:
    """Send one MCP message and return the response."""
    payload = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return http.post(path, json=payload, headers={**ACCEPT, **ADA})
