"""Files of some kilobytes that unpack to hundreds of megabytes: uploads stay within their limits."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

import psutil
import pytest
from starlette.testclient import TestClient

from memorist import Memory
from memorist.server.http.app import create_app
from testkit import pdfs
from testkit.apps import HERE, URL
from testkit.databases import SETTINGS

UNPACKED = 400 << 20
HEADERS = {"X-Memorist-User": "ada", "X-Memorist-Agent": "scout"}


def archive(*names: str, size: int = UNPACKED) -> bytes:
    """Return a zip archive whose files contain `size` zeros in all."""
    out = io.BytesIO()
    block = bytes(1 << 20)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        for name in names:
            with target.open(name, "w") as file:
                for _ in range(size // len(names) >> 20):
                    file.write(block)
    return out.getvalue()


@pytest.fixture(scope="module")
def bombs() -> dict[str, bytes]:
    """Return files that unpack to 400 MiB, by the names of their formats."""
    return {
        "pdf": pdfs.bomb(UNPACKED),
        "docx": archive("[Content_Types].xml", "word/document.xml"),
        "zip": archive("conversations.json", "memories.json"),
    }


@pytest.fixture
def http() -> Iterator[TestClient]:
    with Memory.open("memory:", settings=SETTINGS) as memory:
        app = create_app(memory, jobs=False)
        yield TestClient(app, URL, client=HERE, headers=HEADERS)


def test_the_bombs_are_real(bombs: dict[str, bytes]) -> None:
    for name in ("docx", "zip"):
        with zipfile.ZipFile(io.BytesIO(bombs[name])) as unpacked:
            assert sum(member.file_size for member in unpacked.infolist()) == UNPACKED
    assert all(len(data) < 8 << 20 for data in bombs.values())


@pytest.mark.parametrize("name", ["pdf", "docx", "zip"])
@pytest.mark.parametrize("media_type", ["application/octet-stream", "true", "text/plain"])
def test_a_bomb_is_no_document(
    http: TestClient, bombs: dict[str, bytes], name: str, media_type: str
) -> None:
    """Also under a false media type: nothing is stored, and the server stays small."""
    if media_type == "true":
        media_type = "application/pdf" if name == "pdf" else "application/zip"
    process = psutil.Process()
    before = process.memory_info().rss
    response = http.post(
        "/api/documents",
        params={"title": f"bomb.{name}"},
        content=bombs[name],
        headers={"Content-Type": media_type},
    )
    assert response.status_code == 422, response.text
    assert process.memory_info().rss - before < 200 << 20
    assert http.get("/api/documents").json()["data"] == []


def test_a_bomb_as_a_reference_is_stored_as_it_is(
    http: TestClient, bombs: dict[str, bytes]
) -> None:
    """The bytes of an upload are never unpacked, not to describe them either."""
    for name, data in bombs.items():
        process = psutil.Process()
        before = process.memory_info().rss
        response = http.post(
            "/api/refs", content=data, headers={"Content-Type": "application/octet-stream"}
        )
        assert response.status_code == 201, name
        assert process.memory_info().rss - before < 200 << 20
        stored = http.get(f"/api/refs/{response.json()['key']}/content")
        assert stored.content == data
