"""The documents of the app: written once, not on the event loop, and known again by their mark."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from fastapi import FastAPI

from retain.server.docs_page import Documents
from tests.calling import Calling


@pytest.fixture
def engine() -> str:
    """One is enough: nothing of this knows what the engine is."""
    return "sqlite"


def test_both_are_kept_and_known_by_their_mark(calling: Calling) -> None:
    client = calling()
    for path in ("/docs", "/openapi.json"):
        first, second = client.get(path), client.get(path)
        assert first.content == second.content
        assert first.headers["cache-control"] == "private, no-cache"
        again = client.get(path, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content, again.headers["etag"]) == (
            304,
            b"",
            first.headers["etag"],
        )
        assert client.head(path).status_code == 200


def test_they_are_written_once_and_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes seconds, and nobody else waits for that."""
    app = FastAPI(title="a test", version="1", description="About.")
    writers: list[int] = []

    def openapi() -> dict[str, Any]:
        writers.append(threading.get_ident())
        return {
            "info": {"title": "a test", "version": "1", "description": "About."},
            "paths": {},
            "components": {},
        }

    monkeypatch.setattr(app, "openapi", openapi)
    documents = Documents(app)

    async def many() -> set[bytes]:
        return {
            body for body, _ in await asyncio.gather(*(documents.get("/docs") for _ in range(5)))
        }

    assert len(asyncio.run(many())) == 1
    assert len(writers) == 1
    assert writers != [threading.get_ident()]
