"""Who is let in by a request, and who is not."""

from __future__ import annotations

from starlette.testclient import TestClient


def test_a_key_lets_its_holder_in(http: TestClient) -> None:
    assert http.get("/api/sessions").status_code == 200
