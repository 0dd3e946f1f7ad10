"""The API document and its page: cached by their ETags, and complete without another host."""

from __future__ import annotations

import re

import pytest

from testkit.apps import Calling


@pytest.fixture
def engine() -> str:
    """The pages do not depend on the engine."""
    return "sqlite"


def test_the_document_and_the_page_have_etags(calling: Calling) -> None:
    client = calling()
    for path in ("/docs", "/openapi.json"):
        first = client.get(path)
        second = client.get(path)
        assert first.content == second.content
        assert first.headers["cache-control"] == "private, no-cache"
        again = client.get(path, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
        assert client.head(path).status_code == 200


def test_the_page_loads_only_files_of_this_server(calling: Calling) -> None:
    client = calling()
    page = client.get("/docs")
    policy = page.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "http" not in policy
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(addresses) == 3
    for address in addresses:
        assert address.startswith("/docs/")
        assert client.get(address).status_code == 200
    assert "/openapi.json" in client.get("/docs/start.js").text
