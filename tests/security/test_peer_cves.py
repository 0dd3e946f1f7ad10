"""Vulnerabilities of other memory servers (reliability, section 2, S1–S14): one test per row."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from memorist import Memory
from memorist.admin.principal import PERMISSIONS
from memorist.api import openapi
from memorist.base.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    MemoristError,
)
from memorist.kinds.page import encode_cursor
from memorist.models import Models
from memorist.server.http.app import create_app
from memorist.testing import ScriptedModel
from testkit import hostile_inputs as inputs
from testkit.apps import HERE, URL
from testkit.databases import SETTINGS
from testkit.examples import populate
from testkit.keys import create_key
from testkit.limited import Limited
from testkit.routes import routes
from testkit.tokens import KEYS, write_keys

MARK = "their mark"
ACCEPT = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
HEADERS = {"X-Memorist-User": "ada", "X-Memorist-Agent": "scout"}
UNKNOWN = ("tenant", "tenant_id", "user_id", "usr", "filter", "where", "__class__")
"""Names that no endpoint has; two for each, all of them with ATTACK=full."""
PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAACAUwAOw=="

only_sqlite = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
two_engines = pytest.mark.parametrize("engine", ["sqlite", "modern"], indirect=True)


@contextmanager
def client(
    memory: Memory, *, key: bool = True, app: Starlette | None = None
) -> Iterator[TestClient]:
    """Return a client of an app over a memory, for Ada and her agent."""
    headers = dict(HEADERS)
    with suppress(AlreadyExists):
        memory.scope(tenant="acme").agents.add("scout")
    if key:
        headers["Authorization"] = f"Bearer {create_key(memory, 'acme', 'a test', PERMISSIONS)[1]}"
    with TestClient(
        app or create_app(memory, jobs=False),
        URL,
        client=HERE,
        headers=headers,
        raise_server_exceptions=False,
    ) as created:
        yield created


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    """Open memories in one file, with other settings and models."""
    with ExitStack() as stack:

        def open_it(main: Any = None, **changes: Any) -> Memory:
            settings = replace(SETTINGS, database=f"sqlite:///{tmp_path}/a.db", **changes)
            return stack.enter_context(
                Memory.open(settings=settings, models=Models(settings, main=main))
            )

        yield open_it


def exported(memory: Memory) -> bytes:
    out = io.BytesIO()
    memory.export(out)
    return out.getvalue()


# -- S1 to S5 ----------------------------------------------------------------------------------------------------------


def test_s1_the_text_of_an_agent_is_not_executed(opened: Any, tmp_path: Path) -> None:
    """That nothing is open without a key: tests/server/test_request_authenticator.py."""
    target = tmp_path / "executed"
    code = f"__import__('os').system('touch {target}')"
    with client(opened()) as http:
        for name, prompt in (("a", code), ("b", "{" + code + "}")):
            assert http.post("/api/agents", json={"name": name, "prompt": prompt}).is_success
            answer = http.post("/api/chat", json={"message": code, "agent_id": name})
            assert answer.status_code < 500
    assert not target.exists()


def test_s2_no_secret_of_the_settings_is_returned(opened: Any) -> None:
    """The model's key and the database password are in no response to anyone."""
    canary = "sk-canary-4f1d"
    memory = opened(
        api_key=canary,
        summary_api_key=canary,
        embedding_api_key=canary,
        model="openai:gpt-5-mini",
        base_url=f"http://user:{canary}@127.0.0.1:9/v1",
    )
    app = create_app(memory, jobs=False)
    with client(memory, app=app) as http:
        http.post("/api/sessions", json={"id": "x"})
        seen = 0
        for method, path, _ in routes(app):
            if method == "GET" and path not in ("/api/notes/stream",):
                seen += 1
                assert canary not in http.get(path).text, path
        for what in (
            "/api/config",
            "/api/settings",
            "/config",
            "/api/v1/config",
            "/debug",
            "/.env",
        ):
            assert http.get(what).status_code == 404
        response = http.post("/api/chat", json={"message": "hello"})  # the model is unreachable
        assert (response.status_code, canary in response.text) == (503, False), response.text
    assert seen > 40


class Trap:
    """A port that must never be connected to."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.called = threading.Event()
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/latest/meta-data"
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return
        self.called.set()
        connection.close()


def test_s2_no_input_makes_the_server_connect_anywhere(opened: Any, tmp_path: Path) -> None:
    """S2, P0.8: neither an agent's model, image, document, reference, token header nor any field."""
    trap = Trap()
    memory = opened(
        ScriptedModel("Well."),
        jwt_issuer="https://issuer.example",
        jwt_audience="a",
        jwt_keys=write_keys(KEYS, tmp_path),
    )
    app = create_app(memory, jobs=False)
    with client(memory, app=app) as http:
        for name in (
            trap.url,
            f"openai:{trap.url}",
            f"ollama:{trap.url}",
            f"openai:m@{trap.url}",
            f"litellm:{trap.url}",
        ):
            http.post("/api/agents", json={"name": f"agent {name}", "model": name})
            http.post("/api/chat", json={"message": "hello", "agent_id": f"agent {name}"})
        for image in (
            trap.url,
            f"data:image/svg+xml,<svg><image href='{trap.url}'/></svg>",
            f"url({trap.url})",
        ):
            assert (
                http.post("/agent/vision", json={"message": "look", "images": [image]}).status_code
                == 422
            )
        page = f"<html><link rel=stylesheet href={trap.url}><img src={trap.url}><iframe src={trap.url}></iframe>hello</html>"
        xml = f'<!DOCTYPE x [<!ENTITY e SYSTEM "{trap.url}">]><html>&e;</html>'
        for text in (page, xml, f"![x]({trap.url})"):
            for media in ("text/html", "text/markdown"):
                response = http.post(
                    "/api/documents?title=t", content=text.encode(), headers={"Content-Type": media}
                )
                assert response.status_code < 500
        parts = [
            {"type": "image_url", "image_url": {"url": trap.url}},
            {"type": "input_file", "file_url": trap.url},
        ]
        session = http.post("/api/sessions", json={}).json()["id"]
        http.post(f"/api/messages/{session}", json={"role": "user", "content": parts})
        http.post("/api/chat", json={"message": "what is in it?", "session_id": session})
        for item in openapi.document(app)["paths"].items():
            path, methods = item
            for method, result in methods.items():
                if result["operationId"] == "notes_stream":
                    continue
                payload = {
                    parameter["name"]: trap.url
                    for parameter in result.get("parameters", ())
                    if parameter["in"] == "query"
                }
                example = (
                    result.get("requestBody", {})
                    .get("content", {})
                    .get("application/json", {})
                    .get("example")
                    or {}
                )
                body = {
                    name: trap.url if isinstance(value, str) else value
                    for name, value in example.items()
                }
                response = http.request(
                    method, re.sub(r"\{\w+\}", "x", path), params=payload, json=body or None
                )
                assert response.status_code < 500, (path, response.text)
        head = base64.urlsafe_b64encode(
            json.dumps({"alg": "RS256", "kid": "x", "jku": trap.url, "x5u": trap.url}).encode()
        )
        claims = base64.urlsafe_b64encode(json.dumps({"iss": trap.url, "aud": "a"}).encode())
        token = f"{head.decode().rstrip('=')}.{claims.decode().rstrip('=')}.AAAA"
        assert http.get("/api/me", headers={"Authorization": f"Bearer {token}"}).status_code in (
            401,
            503,
        )
        for base in ("Host", "X-Forwarded-Host"):
            http.get("/docs", headers={base: trap.url.removeprefix("http://").partition("/")[0]})
    assert not trap.called.is_set()
    trap.listener.close()


LISTS = (
    "agents",
    "sessions",
    "entries",
    "consolidations",
    "refs",
    "state",
    "documents",
    "interactions",
    "notes/history",
)
"""Paths of paged lists."""


@two_engines
def test_s4_keys_operators_and_cursors_inject_nothing(memory: Memory) -> None:
    """A forged cursor, an operator, or a key as a filter is an error."""
    populate(memory.scope(tenant="acme", user="ada", agent="scout"))
    created: list[list[Any]] = [
        [],
        [{}],
        [[1]],
        [None],
        [1.5],
        [True],
        [2**70],
        [-1],
        ["x"] * 9,
        [{"$gt": ""}],
    ]
    forged = [encode_cursor(item) for item in (*created, *([text] for text in inputs.INJECTIONS))]
    forged += [
        "",
        "x",
        "====",
        "é",
        base64.urlsafe_b64encode(inputs.nested_list(5000)).decode(),
        encode_cursor(["\x00"]),
        encode_cursor(["\ud800"]),
    ]
    with client(memory) as http:
        for name in (*LISTS, "keys", "audit", "turns?session=x", "chat/sessions"):
            whole = json.dumps(_data(http, f"/api/{name}"))
            for cursor in forged:
                response = http.get(f"/api/{name}", params={"after": cursor})
                assert response.status_code in (200, 404, 422), (name, cursor, response.text)
                if response.status_code == 200:
                    assert all(json.dumps(item) in whole for item in response.json()["data"]), (
                        name,
                        cursor,
                    )
        for query in (
            "limit[$gt]=1",
            "prefix[$ne]=x",
            "metadata->>'a'=1",
            "user[]=ada",
            "limit=1;drop",
            "limit=1--",
        ):
            assert http.get(f"/api/state?{query}").status_code == 422, query
        assert http.post("/api/search", json={"query": {"$gt": ""}}).status_code == 422
        assert (
            http.get(
                "/api/interactions/totals", params={"by": "day; drop table messages"}
            ).status_code
            == 422
        )
        order = http.get("/api/sessions", params={"order": "1", "sort": "(select 1)"})
        assert order.status_code == 422
    assert not [finding for finding in memory.verify() if finding.problem]


# -- S6 to S9 ----------------------------------------------------------------------------------------------------------


@only_sqlite
def test_s7_paths_and_ranges_lead_to_nothing_else(memory: Memory) -> None:
    """Paths that a proxy may read differently, and ranges that multiply a body."""
    with client(memory) as http:
        for path in (
            "/healthz/../api/sessions",
            "/%2e/api/keys",
            "/healthz%2f..%2fapi%2fsessions",
            "/API/keys",
        ):
            response = http.get(path, headers={"Authorization": ""})
            assert response.status_code in (401, 404), (path, response.status_code)
        key = http.post("/api/refs", json={"content": "0123456789" * 1000}).json()["key"]
        many = "bytes=" + ",".join(f"{n}-" for n in range(2000))
        response = http.get(f"/api/refs/{key}/content", headers={"Range": many})
        assert (response.status_code, len(response.content)) == (200, 10_000)


@only_sqlite
def test_s8_an_unknown_filter_is_an_error(memory: Memory) -> None:
    """On every route, in query and body, instead of returning everything; no field selects a
    tenant.
    """
    app = create_app(memory, jobs=False)
    with client(memory, app=app) as http:
        populate(memory.scope(tenant="theirs", user="ada", agent="scout"), MARK)
        seen = 0
        for path, methods in openapi.document(app)["paths"].items():
            for method, value in methods.items():
                address = re.sub(r"\{\w+\}", "1", path)
                content = value.get("requestBody", {}).get("content", {}).get("application/json")
                for unknown in UNKNOWN if inputs.FULL else islice(cycle(UNKNOWN), seen, seen + 2):
                    if content is not None:
                        response = http.request(
                            method,
                            address,
                            json={**(content.get("example") or {}), unknown: "theirs"},
                        )
                        assert response.status_code == 422, (method, path, unknown, response.text)
                    if (
                        value["tags"][0] != "access"
                        and "stream" not in path
                        and path != "/api/status"
                    ):
                        response = http.request(
                            method,
                            address,
                            params={unknown: "theirs"},
                            json=None if content is None else {},
                        )
                        assert response.status_code in (404, 422), (
                            method,
                            path,
                            unknown,
                            response.status_code,
                        )
                    assert MARK not in response.text, (method, path)
                    seen += 1
        assert seen > 170


# -- S10 to S14 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "digest", ["../../evil", "/tmp/evil", "..", "x" * 64, "", "a/b", "AB" * 32]
)
def test_s10_an_archive_writes_nothing_elsewhere(
    opened: Any, tmp_path: Path, digest: str, limited: Limited
) -> None:
    """A forged export with a valid checksum and a path for a hash."""
    limited(REF_FILE_BYTES=1024)
    with Memory.open("memory:", settings=replace(SETTINGS)) as source:
        source.scope(tenant="acme", user="ada").refs.add("0123456789" * 1000, "d", key="k")
        *lines, end = exported(source).splitlines(keepends=True)
    true = re.search(rb'"digest":"([^"]+)"', b"".join(lines))
    assert true
    body = b"".join(lines).replace(true[1], json.dumps(digest)[1:-1].encode())
    closing = {**json.loads(end), "sha256": hashlib.sha256(body).hexdigest()}
    limited(REF_FILE_BYTES=1024)
    memory = opened(ref_folder=str(tmp_path / "refs"))
    before = set(tmp_path.parent.rglob("*evil*"))
    with pytest.raises(MemoristError) as caught:
        memory.import_(io.BytesIO(body + json.dumps(closing).encode()))
    assert isinstance(caught.value, Invalid | Conflict) or "hash" in str(caught.value), caught.value
    assert set(tmp_path.parent.rglob("*evil*")) == before
    assert not [
        path
        for path in (tmp_path / "refs").rglob("*")
        if path.is_file() and digest and digest in path.name
    ]


def test_s11_a_stored_script_never_runs(opened: Any) -> None:
    """Every response has a type and a policy that forbids scripts; our pages embed no stored
    data.
    """
    memory = opened()
    app = create_app(memory, jobs=False)
    for place, script in enumerate(inputs.SCRIPTS):
        populate(memory.scope(tenant="acme", user="ada", agent="scout"), f"{script} {place}")
    for script in inputs.SCRIPTS:
        memory.scope(tenant="acme", user=script, agent=script).notes.overwrite(script)
    with client(memory, app=app) as http:
        shown = 0
        for method, path, _ in routes(app):
            if method != "GET" or path == "/api/notes/stream":
                continue
            for address in (
                path,
                path.replace("/x", "/" + _quoted(f"session of {inputs.SCRIPTS[0]} 0 talking")),
            ):
                response = http.get(address)
                shown += inputs.SCRIPTS[0] in response.text
                _assert_harmless(response, path)
        assert shown > 10, "there was something to see"
        for item in _data(http, "/api/refs"):
            response = http.get(
                f"/api/refs/{_quoted(item['key'])}/content", headers={"Accept": "text/html"}
            )
            assert response.headers["content-disposition"] == "attachment"
            _assert_harmless(response, "content")
        for script in inputs.SCRIPTS:
            echoed = (
                http.get(f"/{_quoted(script)}"),
                http.get(f"/api/agents/{_quoted(script)}"),
                http.get("/api/sessions", params={script: script}),
                http.get("/", headers={"Host": script}),
                http.post("/api/chat", json={"message": script}),
                http.post("/api/chat", json={"message": script, "stream": True}),
                http.post("/mcp", json=_message(script), headers=ACCEPT),
                http.get("/docs", params={"q": script}),
                http.get(
                    "/", params={"q": script}, headers={"Referer": script, "X-Request-ID": script}
                ),
            )
            for response in echoed:
                _assert_harmless(response, script)
        for page in ("/", "/docs"):
            text = re.sub(
                r'<script( type="module" crossorigin)? src="/(assets|docs)/[\w.-]+"( defer)?></script>',
                "",
                http.get(page).text,
            )
            assert not any(script in text for script in inputs.SCRIPTS[:4])
            assert not re.search(r"<script|\son\w+=|javascript:|src=|@import|url\(", text), page


def _assert_harmless(found: Any, where: str) -> None:
    """Check that a browser opening the response runs nothing."""
    media = found.headers.get("content-type", "").partition(";")[0]
    if where.startswith("/docs/"):  # files of the package itself
        return
    known = (
        "application/json",
        "application/problem+json",
        "application/octet-stream",
        "text/event-stream",
        "text/plain",
    )
    assert media in known or (
        media == "text/html" and not any(script in found.text for script in inputs.SCRIPTS)
    ), (
        where,
        media,
    )
    policy = found.headers["content-security-policy"]
    allowed = "style-src 'self' 'unsafe-inline'" if "swagger-ui" in found.text else ""  # Swagger UI
    assert "unsafe" not in policy.replace(allowed, ""), where
    assert "default-src" in policy, where
    assert found.headers["x-content-type-options"] == "nosniff", where


@pytest.mark.parametrize("mode", ["mask", "reject"])
def test_s13_a_secret_is_neither_stored_nor_repeated(opened: Any, mode: str) -> None:
    """Through every text input; neither stored, nor found, nor sent to the model."""
    secret = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
    model = ScriptedModel("Well.")
    memory = opened(model, secrets=mode)
    with client(memory) as http:
        session = http.post("/api/sessions", json={}).json()["id"]
        received = [
            http.post(
                f"/api/messages/{session}", json={"role": "user", "content": f"my key is {secret}"}
            ),
            http.post("/api/entries", json={"content": f"the key is {secret}", "kind": "core"}),
            http.put("/api/notes", json={"text": f"# Keys\n{secret}"}),
            http.put("/api/state/key", json={"value": {"token": secret}}),
            http.post("/api/documents", json={"title": "keys", "text": f"the key is {secret}"}),
            http.post(
                "/api/refs", json={"content": f"export TOKEN={secret}", "description": "a file"}
            ),
            http.post("/api/chat", json={"message": f"remember my key {secret}"}),
        ]
        assert {item.status_code for item in received} <= (
            {422} if mode == "reject" else {200, 201}
        ), [f.text for f in received]
        http.post("/api/chat", json={"message": "what is my key?"})
        assert secret not in http.post("/api/search", json={"query": "my key"}).text
    assert secret.encode() not in exported(memory)
    assert secret not in str([request.messages for request in model.requests])


def test_s14_erased_data_does_not_return(opened: Any) -> None:
    """Not by a retry with the old key, events of an old turn, or a session of the same id."""
    canary, session = "my canary sings", "0199c0de-0000-7000-8000-00000000cafe"
    memory = opened(ScriptedModel("Your canary sings."))
    app = create_app(memory, jobs=False)
    with client(memory, app=app) as http:
        for stream in (False, True):
            payload = {
                "message": canary,
                "session_id": session,
                "key": f"turn {stream}",
                "stream": stream,
            }
            assert http.post("/api/chat", json=payload).status_code == 200
        stored: Any = {
            "json": {"content": canary, "kind": "core"},
            "headers": {"Idempotency-Key": "once"},
        }
        assert http.post("/api/entries", **stored).status_code == 201
        assert http.post("/api/users/ada/erase").status_code == 200
        assert b"canary" not in exported(memory)
        assert not app.state.runs._finished, "nor in the memory of the process"
        events = f"/api/chat/turns/turn%20True/events?session_id={session}"
        assert http.get(events).status_code == 404
        assert (
            "idempotent-replayed"
            not in http.post("/api/entries", json={"content": "x", "kind": "core"}).headers
        )
        assert http.post("/api/chat/sessions", json={"session_id": session}).status_code == 200
        for key in ("turn True", "turn False"):
            response = http.get(f"/api/chat/turns/{_quoted(key)}/events?session_id={session}")
            assert (response.status_code, "canary" in response.text) == (404, False), response.text
        assert "canary" not in http.post("/api/search", json={"query": "canary"}).text
        again = {"message": canary, "session_id": session, "key": "turn 3", "stream": True}
        assert http.post("/api/chat", json=again).status_code == 200
        assert http.delete(f"/api/sessions/{session}").status_code == 204
        http.post("/api/chat/sessions", json={"session_id": session})
        assert http.get(f"/api/chat/turns/turn%203/events?session_id={session}").status_code == 404


def _data(http: TestClient, path: str, **parameters: Any) -> list[Any]:
    response = http.get(path, params=parameters or None)
    assert response.status_code in (200, 404), response.text
    return response.json().get("data", []) if response.status_code == 200 else []


def _message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")
