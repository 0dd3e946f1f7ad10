"""Every endpoint over HTTP: parsing, responses and rejections, by the same rules for all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from memorist import Memory
from memorist.api.endpoints import ENDPOINTS, SCOPE_ENDPOINTS
from memorist.api.openapi import document
from memorist.api.responses import encoded, written
from memorist.server.http.app import create_app
from testkit.apps import HERE, URL, Calling
from testkit.databases import one_engine

ADA = {"X-Memorist-User": "ada", "X-Memorist-Agent": "scout"}
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def http(calling: Calling) -> TestClient:
    """Ada's client, with the agent scout."""
    client = calling()
    client.headers.update(ADA)
    return client


@pytest.fixture(scope="module")
def here() -> Any:
    """A client on this machine over a memory shared by this module: for requests that are rejected."""
    with Memory.open("memory:") as memory:
        client = TestClient(
            create_app(memory), URL, headers=ADA, client=HERE, raise_server_exceptions=False
        )
        client.post("/api/sessions", json={"id": "trip"})
        yield client


def assert_problem(response: Any, status: int, field: str | None = None, *words: str) -> None:
    """Check that a response is a problem document."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    payload = response.json()
    assert payload["status"] == status
    assert payload["request_id"] == response.headers["x-request-id"]
    assert payload["type"].startswith("/problems/")
    if field is not None:
        assert payload["field"] == field, payload
    for word in words:
        assert word in payload["detail"], payload


# -- what is answered -------------------------------------------------------------------------------------------------


@one_engine
def test_every_endpoint_has_a_route(app: Starlette) -> None:
    operations = {
        (method.upper(), path): value["operationId"]
        for path, item in document(app)["paths"].items()
        for method, value in item.items()
    }
    for endpoint in (*ENDPOINTS, *SCOPE_ENDPOINTS):
        path = endpoint.route.replace(":path", "").replace(":int", "")
        assert operations[endpoint.method, path] == endpoint.name


@one_engine
def test_short_messages_equal_full_ones(memory: Memory) -> None:
    """The short form of a message is stored like the full form."""
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    me.sessions.add('a "quoted" é😀')
    for content in (
        "plain",
        'with "quotes"\n\u2028 é',
        {"text": "x", "parts": [{"n": 1.5}]},
        "half \ud83d letter",
    ):
        me.messages.append('a "quoted" é😀', "user", content, author="Zoë", cost=0.25, tokens_in=3)
    from memorist.api.rendering import as_json

    for item in (page := me.messages.list('a "quoted" é😀'), page.items, page.items[0], []):
        assert json.loads(encoded(written(item))) == as_json(item)


@one_engine
def test_an_id_with_slashes_is_one_path_segment(http: TestClient) -> None:
    """An id that looks like a path is an id when it is sent as %2F."""
    for id in ("a/b", "a/b/window", "a", "x/1", "ü?#&", "100%"):
        assert http.post("/api/sessions", json={"id": id}).status_code == 201
        http.post(f"/api/messages/{_quoted(id)}", json={"role": "user", "content": f"in {id}"})
    for id in ("a/b", "a/b/window", "a", "x/1", "ü?#&", "100%"):
        assert http.get(f"/api/sessions/{_quoted(id)}").json()["id"] == id
        assert (
            http.get(f"/api/messages/{_quoted(id)}").json()["data"][0]["content"]["text"]
            == f"in {id}"
        )
        assert http.get(f"/api/messages/{_quoted(id)}/window").json()[0]["session"] == id
        assert http.get(f"/api/messages/{_quoted(id)}/1").json()["seq"] == 1
    assert http.get("/api/sessions/a/b").json()["id"] == "a/b", "and a person may leave it as it is"
    assert http.delete("/api/sessions/a%2Fb").status_code == 204
    assert_problem(http.get("/api/sessions/a/b"), 404)


def _quoted(id: str) -> str:
    from urllib.parse import quote

    return quote(id, safe="")


def test_a_turn_is_saved_once_with_the_report_of_its_context(http: TestClient) -> None:
    http.post("/api/sessions", json={"id": "trip"})
    ask = {"session": "trip", "message": "Hello?", "text": True}
    payload = http.post("/api/context", json=ask).json()
    assert "Hello?" in payload["text"]
    messages = [
        {"role": "user", "content": "What do I like?"},
        {"role": "assistant", "content": "Tea."},
    ]
    body = {
        "session": "trip",
        "messages": messages,
        "usage": {"model": "m", "tokens_in": 9},
        "report": payload["report"],
    }
    turn = http.post("/api/turns", json=body, headers={"Idempotency-Key": "t1"})
    assert turn.status_code == 201
    assert turn.json()["report"] == payload["report"]
    again = http.post("/api/turns", json=body, headers={"Idempotency-Key": "t1"})
    assert again.json() == turn.json()
    assert "idempotent-replayed" not in again.headers, "the key is that of the verb"
    assert_problem(
        http.post("/api/turns", json={**body, "report": {"budget": 1}}),
        422,
        "report.tokens",
        "is required",
    )
    assert_problem(
        http.post("/api/turns", json={**body, "usage": {"tokens_in": 1}}), 422, "usage", "model"
    )
    assert_problem(http.post("/api/context", json={"session": "nowhere"}), 404)


# -- versions and retries ---------------------------------------------------------------------------------------------


@one_engine
def test_a_version_is_an_etag(http: TestClient) -> None:
    """412 where a header is not met, 409 where a parameter is not, 304 where there is nothing new."""
    first = http.put(
        "/api/state/theme", json={"value": {"dark": True}}, headers={"If-None-Match": "*"}
    )
    assert (first.status_code, first.headers["etag"]) == (200, '"1"')
    assert_problem(
        http.put("/api/state/theme", json={"value": 0}, headers={"If-None-Match": "*"}),
        412,
        None,
        "version 1",
    )
    assert (
        http.put("/api/state/theme", json={"value": 2}, headers={"If-Match": '"1"'}).headers["etag"]
        == '"2"'
    )
    assert_problem(
        http.put("/api/state/theme", json={"value": 3}, headers={"If-Match": '"1"'}), 412
    )
    assert_problem(http.put("/api/state/theme", json={"value": 3, "if_version": 1}), 409)
    assert_problem(http.delete("/api/state/theme", headers={"If-Match": '"1"'}), 412)
    assert_problem(
        http.put("/api/state/theme", json={"value": 3}, headers={"If-Match": "2"}), 422, "If-Match"
    )
    assert_problem(
        http.delete("/api/sessions/trip", headers={"If-Match": '"1"'}),
        422,
        "If-Match",
        "not supported",
    )
    for known in ('"2"', 'W/"2"', '"1", "2"', "*"):
        same = http.get("/api/state/theme", headers={"If-None-Match": known})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", '"2"')
    assert http.get("/api/state/theme", headers={"If-None-Match": '"1"'}).json()["value"] == 2
    assert http.get("/api/notes", headers={"If-None-Match": '"0"'}).status_code == 304


def test_an_idempotency_key_has_its_effect_once(http: TestClient) -> None:
    """The same key and request return the first response; another request with the key is
    rejected.
    """
    once = {"Idempotency-Key": "k1"}
    first = http.post("/api/entries", json={"content": "Ada prefers trains."}, headers=once)
    again = http.post("/api/entries", json={"content": "Ada prefers trains."}, headers=once)
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert again.headers["idempotent-replayed"] == "true"
    assert len(http.get("/api/entries").json()["data"]) == 1
    assert_problem(
        http.post("/api/entries", json={"content": "Other."}, headers=once), 422, None, "k1"
    )
    assert_problem(
        http.post(
            "/api/entries",
            json={"content": "Ada prefers trains."},
            headers={**once, "X-Memorist-User": "bob"},
        ),
        422,
    )
    http.post("/api/sessions", json={"id": "trip"})
    payload = {"role": "user", "content": "Where?"}
    assert [
        http.post("/api/messages/trip", json=payload, headers=once).json()["seq"] for _ in range(2)
    ] == [1, 1]
    assert_problem(
        http.post("/api/messages/trip", json={**payload, "content": "Who?"}, headers=once),
        422,
        None,
        "k1",
    )
    assert (
        http.post("/api/messages/trip", json={**payload, "key": "k2"}, headers=once).json()["seq"]
        == 2
    ), "what it says wins"
    assert_problem(
        http.post("/api/entries", json={"content": "x"}, headers={"Idempotency-Key": "k" * 600}),
        413,
    )


# -- contents ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 10, 3 << 20])
def test_content_is_returned_byte_for_byte(http: TestClient, size: int) -> None:
    """Stored content is a download, never rendered as a page of ours."""
    data = (b"<script>alert(1)</script>\xff\x00\r\n" * (size // 29 + 1))[:size]
    response = http.post(
        "/api/refs",
        content=data,
        params={
            "description": "a page",
            "type": "file_content",
            "key": "page",
            "metadata": '{"from": "here"}',
        },
        headers={"Content-Type": "text/html"},
    )
    assert (response.status_code, response.json()["key"]) == (201, "page")
    payload = http.get("/api/refs/page/info").json()
    assert (payload["bytes"], payload["summary"], payload["metadata"]["from"]) == (
        size,
        "a page",
        "here",
    )
    out = http.get("/api/refs/page/content", headers={"Range": "bytes=0-1"})
    assert out.status_code == 200
    assert out.content == data
    assert out.headers["content-type"] == "application/octet-stream"
    assert out.headers["content-disposition"] == "attachment"
    assert out.headers["x-content-type-options"] == "nosniff"
    assert out.headers["content-length"] == str(size)
    assert_problem(http.get("/api/refs/other/content"), 404)


@one_engine
def test_capture_replaces_large_output_and_returns_small_output(http: TestClient) -> None:
    """R2, over HTTP: as JSON and as plain text."""
    http.post("/api/sessions", json={"id": "trip"})
    plain = {"Content-Type": "text/plain"}
    small = http.post("/api/refs/capture", content=b"ok", params={"source": "make"}, headers=plain)
    assert (small.status_code, small.json()) == (201, "ok")
    for large in (b"line of output\n" * 1000, b"line of output\n" * 100_000):
        line = http.post(
            "/api/refs/capture",
            content=large,
            params={"source": "make", "session": "trip"},
            headers=plain,
        ).json()
        assert line.startswith("Ran `make`. [MemoryRef: make-")
        key = line.split("MemoryRef: ")[1].split(" ")[0]
        assert http.get(f"/api/refs/{key}/content").content == large
        assert http.get(f"/api/refs/{key}/info").json()["type"] == "command_output"
    assert http.post("/api/refs/capture", json={"output": {"a": 1}}).json() == {"a": 1}
    assert (
        "\ud83d"
        in http.post(
            "/api/refs/capture", content=b'{"output": "half \\ud83d"}', headers=JSON
        ).json()
    )
    assert_problem(
        http.post("/api/refs/capture", content=b"x", params={"unknown": "1"}, headers=plain),
        422,
        "unknown",
    )
    assert_problem(
        http.post("/api/refs", content=b"x", params={"metadata": "[1]"}, headers=plain),
        422,
        "metadata",
    )


@one_engine
def test_a_document_is_uploaded_as_a_file(http: TestClient) -> None:
    """Parsed by its declared type or by its content."""
    page = b"<!doctype html><title>Trips</title><p>Lisbon has trams."
    response = http.post("/api/documents", content=page, headers={"Content-Type": "text/html"})
    assert (response.json()["title"], response.json()["media"]) == ("Trips", "html")
    path = {"path": "docs/guide.md", "title": "Guide"}
    response = http.post(
        "/api/documents",
        content=b"# Trams\n\nLine 28.",
        params=path,
        headers={"Content-Type": "text/markdown"},
    )
    assert (response.json()["path"], response.json()["title"]) == ("docs/guide.md", "Guide")
    hits = http.get("/api/documents/search", params={"query": "which line"}).json()["data"]
    assert any("Line 28" in hit["text"] for hit in hits)
    octets = {"Content-Type": "application/octet-stream"}
    assert_problem(
        http.post(
            "/api/documents", content=b"\x00\x01\x02" * 99, params={"path": "x"}, headers=octets
        ),
        422,
        "file",
    )
    assert_problem(
        http.post("/api/documents", content=b"no title", headers={"Content-Type": "text/plain"}),
        422,
        "title",
    )


@pytest.mark.parametrize("lines", [1_000, 100_000])
@pytest.mark.parametrize("path", ["/api/refs", "/api/refs/capture", "/api/documents?title=Log"])
def test_other_content_under_the_same_key_is_rejected(
    here: TestClient, path: str, lines: int
) -> None:
    """A request is identified by content and type, whatever its size; no content is dropped
    silently.
    """
    once = {"Idempotency-Key": f"{path} {lines}", "Content-Type": "text/plain"}
    first, other = b"one more line\n" * lines, b"two more line\n" * lines
    created = here.post(path, content=first, headers=once)
    again = here.post(path, content=first, headers=once)
    assert (again.status_code, again.text, again.headers["idempotent-replayed"]) == (
        created.status_code,
        created.text,
        "true",
    )
    assert_problem(here.post(path, content=other, headers=once), 422, None, once["Idempotency-Key"])
    assert_problem(
        here.post(path, content=first, headers={**once, "Content-Type": "text/markdown"}), 422
    )


# -- what is refused --------------------------------------------------------------------------------------------------

DEEP = b'{"value": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"
MALFORMED = {
    "no JSON": b"{",
    "nothing": b" ",
    "garbage behind it": b'{"value": 1} x',
    "NaN": b'{"value": NaN}',
    "Infinity": b'{"value": -Infinity}',
    "digits": b'{"value": ' + b"9" * 5000 + b"}",
    "deep": DEEP,
    "bad UTF-8": b'{"value": "\xff"}',
    "a mark": b'\xef\xbb\xbf{"value": 1}',
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_malformed_json_is_400(here: TestClient, body: bytes) -> None:
    assert_problem(here.put("/api/state/theme", content=body, headers=JSON), 400)


INVALID: dict[str, tuple[bytes, str]] = {
    "a list": (b"[1]", "body"),
    "a word": (b'"x"', "body"),
    "null": (b"null", "body"),
    "an unknown field": (b'{"value": 1, "valeu": 2}', "valeu"),
    "no value": (b"{}", "value"),
    "no body": (b"", "value"),
    "text for a number": (b'{"value": 1, "if_version": "1"}', "if_version"),
    "a number for text": (b'{"value": 1, "area": 5}', "area"),
    "too large a number": (b'{"value": 1e999}', "value"),
    "a wait without end": (b'{"value": 1, "ttl": 1e999}', "ttl"),
    "half a letter in a name": (b'{"value": 1, "area": "\\ud800"}', "area"),
    "too deep": (b'{"value": ' + b"[" * 100 + b"]" * 100 + b"}", "value"),
}


@pytest.mark.parametrize(("body", "field"), INVALID.values(), ids=INVALID)
def test_an_invalid_value_is_422_and_names_the_field(
    here: TestClient, body: bytes, field: str
) -> None:
    assert_problem(here.put("/api/state/theme", content=body, headers=JSON), 422, field)


def test_a_lone_surrogate_is_stored_as_the_library_stores_it(here: TestClient) -> None:
    """An emoji that was cut in half must not break a session."""
    body = b'{"role": "user", "content": "cut \\ud83d"}'
    assert (
        here.post("/api/messages/trip", content=body, headers=JSON).json()["content"]["text"]
        == "cut �"
    )
    body = b'{"messages": [{"role": "user", "content": "cut \\ud83d"}]}'
    assert (
        here.post("/api/messages/trip/batch", content=body, headers=JSON).json()[0]["content"][
            "text"
        ]
        == "cut �"
    )
    body = b'{"content": "cut \\udc00"}'
    assert here.post("/api/entries", content=body, headers=JSON).json()["content"] == "cut �"


QUERIES = {
    "an unknown one": ("/api/sessions?limt=3", "limt"),
    "twice": ("/api/sessions?limit=3&limit=4", "limit"),
    "no number": ("/api/sessions?limit=many", "limit"),
    "digits": ("/api/sessions?limit=" + "9" * 5000, "limit"),
    "too many": ("/api/sessions?limit=100000", "limit"),
    "not UTF-8": ("/api/sessions?after=%FF", "query"),
    "no end": ("/api/sessions?" + "&".join(f"a{n}=1" for n in range(200)), "query"),
    "no moment": ("/api/entries?since=yesterday", "since"),
    "nothing needed": ("/api/entries/search", "query"),
    "not one of": ("/api/entries?kind=other", "kind"),
    "a wait without end": ("/api/notes/changes?wait=inf", "wait"),
    "no number of seconds": ("/api/notes/changes?wait=nan", "wait"),
    "too long a wait": ("/api/notes/changes?wait=301", "wait"),
    "lines": ("/api/refs/x?lines=40-1", "lines"),
}


@pytest.mark.parametrize(("address", "field"), QUERIES.values(), ids=QUERIES)
def test_an_invalid_query_is_422(here: TestClient, address: str, field: str) -> None:
    assert_problem(here.get(address), 422, field)


def test_requests_with_a_body_accept_only_scope_parameters(here: TestClient) -> None:
    assert here.put("/api/state/theme?user=bob", json={"value": 1}).status_code == 200
    assert_problem(here.put("/api/state/theme?area=tenant", json={"value": 1}), 422, "area")


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json"]
)
def test_a_body_without_json_content_type_is_415(here: TestClient, media: str) -> None:
    """A simple request of another site's page is never accepted."""
    assert_problem(
        here.put("/api/state/theme", content=b'{"value": 1}', headers={"Content-Type": media}), 415
    )
    assert_problem(
        here.request("PATCH", "/api/refs/x", content=b"{}", headers={"Content-Type": media}), 415
    )
    request = here.build_request("PUT", "/api/state/theme", content=b'{"value": 1}')
    request.headers.pop("content-type", None)
    assert_problem(here.send(request), 415)


def test_unknown_paths_are_404_and_wrong_methods_405(here: TestClient) -> None:
    for address in (
        "/api/nothing",
        "/nothing",
        "/api",
        "/api/",
        "/api/sessions/",
        "/api/messages/trip/1/2/3x",
    ):
        value = here.get(address)
        assert value.status_code in (404, 422), address
        assert_problem(value, value.status_code)
    assert_problem(here.get("/api/messages/trip/" + "9" * 5000), 404)
    assert_problem(here.get("/api/sessions/%ff"), 400)
    for method, address, allowed in (
        ("POST", "/api/notes", "DELETE, GET, PUT"),
        ("PUT", "/api/sessions/trip", "DELETE, GET, PATCH"),
        ("HEAD", "/api/sessions", "GET, POST"),
        ("OPTIONS", "/api/search", "POST"),
        ("TRACE", "/api/search", "POST"),
    ):
        value = here.request(method, address)
        assert value.status_code == 405
        assert value.headers["allow"] == allowed, address


@one_engine
def test_a_key_reads_and_changes_only_what_it_may(calling: Calling, memory: Memory) -> None:
    """P11: a delete-only key receives no content, and an agent's key cannot change tenant-wide
    data.
    """
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    me.messages.append(me.sessions.add("s").id, "user", "the secret")
    memory.scope(tenant="acme").items.put(("m",), "k", {"a": 1}, ttl=60)
    ada = {"X-Memorist-User": "ada"}
    assert_problem(
        calling(permissions=["delete"]).post("/api/messages/s/pop", json={}, headers=ada),
        403,
        None,
        "may not read",
    )
    assert (
        calling(permissions=["delete", "read"])
        .post("/api/messages/s/pop", json={}, headers=ada)
        .status_code
        == 200
    )
    scout = calling(agent="scout")
    calls: list[tuple[str, str, Any]] = [
        ("PUT", "/api/items/new", {"json": {"place": ["m"], "value": {}}}),
        ("DELETE", "/api/items/k?place=m", {}),
        ("GET", "/api/items/k?place=m&refresh=true", {}),
    ]
    for method, path, text in calls:
        assert_problem(scout.request(method, path, **text), 403, None, "bound to one user or agent")
        assert scout.request(method, path, headers=ada, **text).status_code in (200, 404)
    assert scout.get("/api/items/k?place=m").json()["value"] == {"a": 1}


# -- the documentation ------------------------------------------------------------------------------------------------


def test_the_document_lists_the_error_responses(here: TestClient) -> None:
    document = here.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert "HTTPValidationError" not in json.dumps(document)
    names = [
        element["operationId"] for item in document["paths"].values() for element in item.values()
    ]
    assert len(names) == len(set(names))
    for path, item in document["paths"].items():
        for element in item.values():
            assert {"400", "401", "422", "500"} <= element["responses"].keys(), path
            assert element["tags"], path
            assert element["tags"][0] in {tag["name"] for tag in document["tags"]}, path
            assert element["x-codeSamples"], path
            if "application/json" in element.get("requestBody", {}).get("content", {}):
                assert "example" in element["requestBody"]["content"]["application/json"], path
    assert all(
        shared["content"].keys() == {"application/problem+json"}
        for shared in document["components"]["responses"].values()
    )


def test_apps_of_one_process_share_the_document_but_no_memory(here: TestClient) -> None:
    """The documentation of a route is computed once; each app has its own handlers."""
    with Memory.open("memory:") as memory:
        app = create_app(memory)
        other = TestClient(app, URL, headers=ADA, client=HERE)
        assert document(app) == here.get("/openapi.json").json()
        assert (
            here.get("/api/sessions/trip").status_code,
            other.get("/api/sessions/trip").status_code,
        ) == (200, 404)
