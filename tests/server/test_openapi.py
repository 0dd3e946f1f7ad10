"""The OpenAPI document matches the server: generated requests, valid and invalid, per operation.

All requests have an admin key. A few per operation in every run; OPENAPI_EXAMPLES=200 runs more.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import just
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi import checks
from starlette.applications import Starlette
from starlette.testclient import TestClient

from memorist import Memory
from memorist.api.examples import EXAMPLES
from memorist.api.openapi import document
from memorist.base.settings import Settings
from memorist.kinds import KINDS
from memorist.server.http.app import create_app
from memorist.server.http.thread_pool import in_file_reader, in_thread
from testkit.apps import HERE, URL, app_with_records, client_of_ada
from testkit.routes import operations

EXAMPLES_PER_OPERATION = int(os.environ.get("OPENAPI_EXAMPLES", "2"))
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
UPLOADS = ("documents_add", "refs_add", "refs_capture")
"""Operations with parameters in the query that are only for a body that is not JSON."""
INEXPRESSIBLE = {
    ("agents_add", "tools"): "names of tools that this server has",
    ("agents_edit", "tools"): "names of tools that this server has",
    ("agent_run", "images"): "bytes of an image",
    ("agent_vision", "images"): "bytes of an image",
    ("chat", "images"): "bytes of an image",
    ("context", "budget"): "depends on the system prompt and the message",
    ("context", "message"): "text or images",
    ("entries_add_many", "created_at"): "depends on today's date",
    ("entries_add", "board"): "only with the kind whiteboard",
    ("entries_list", "board"): "only with the kind whiteboard",
    ("interactions_totals", "split"): "must differ from `by`",
    ("items_put", "ttl"): "depends on today's date",
    ("items_put", "fields"): "paths",
    ("items_list", "where"): "JSON in a query",
    ("items_search", "where"): "operators",
    ("keys_add", "expires_at"): "depends on today's date",
    ("keys_add", "days"): "depends on today's date",
    ("documents_add", "title"): "may be blank if the text has a heading",
    ("refs_get", "lines"): "the last is not before the first",
    ("refs_get", "view"): "one of several parameters",
    ("state_set", "ttl"): "depends on today's date",
    ("webhooks_add", "url"): "a host that can be resolved",
    ("webhooks_edit", "url"): "a host that can be resolved",
}
"""Rules of operations that OpenAPI cannot express, by the field that an error names."""
PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAACAUwAOw=="
ENDLESS = ("notes_stream",)
"""Operations whose responses do not end."""
ORDER = ("PUT", "POST", "GET", "PATCH", "DELETE")
MEMORY = ("memory", *(kind.name for kind in KINDS))
ABSENT = ("notes_replace_section", "notes_delete_section", "notes_diff", "summaries_get")
"""Operations whose example refers to something the earlier examples removed or did not create."""


@pytest.fixture(scope="module")
def app() -> Iterator[Starlette]:
    with app_with_records() as app, pytest.MonkeyPatch.context() as patch:
        for pool in (in_thread, in_file_reader):
            patch.setattr(pool, "_max_wait_seconds", 60.0)  # a busy machine is no failure
        yield app


@pytest.fixture(scope="module")
def client(app: Starlette) -> TestClient:
    return client_of_ada(app)


@pytest.fixture(scope="module")
def schema(app: Starlette) -> Any:
    return schemathesis.openapi.from_dict(document(app))


def _follow_earlier_responses(request: dict[str, Any]) -> None:
    """Make valid what no schema can: keys are new, cursors are `next` of a response."""
    for header in request["headers"]:
        if header.lower() == "idempotency-key":
            key = uuid.uuid4().hex
            request["headers"][header] = key
            body = request.get("json")
            if isinstance(body, dict) and body.get("key") is not None:
                body["key"] = key  # of a turn: the same in both places
    query = request.get("params") or {}
    query.pop("after", None)


def _do_not_wait(request: dict[str, Any]) -> None:
    """Remove a valid `wait`: without a lifespan, each request has an event loop of its own."""
    query = request.get("params") or {}
    wait = query.get("wait")
    if isinstance(wait, int | float) and 0 <= wait <= 300:
        del query["wait"]


@pytest.mark.parametrize(
    "mode",
    [
        GenerationMode.POSITIVE,
        # tests/security/test_inputs.py sends wrong values to every place of every operation.
        pytest.param(GenerationMode.NEGATIVE, marks=pytest.mark.slow),
    ],
    ids=["valid", "invalid"],
)
@pytest.mark.parametrize(
    ("name", "method", "path"),
    [one for one in operations() if one[0] not in ENDLESS],
    ids=lambda part: str(part),
)
def test_an_operation_conforms_to_the_document(
    client: TestClient, schema: Any, name: str, method: str, path: str, mode: GenerationMode
) -> None:
    """4.6: no 5xx, no undocumented status, and every response matches its schema."""
    operation = schema[path][method]
    if mode == GenerationMode.NEGATIVE and not (operation.query or operation.body):
        pytest.skip("any text is valid in a path, and would only be not found")

    def check(case: Any, is_valid: bool) -> None:
        sent = case.as_transport_kwargs(base_url=URL)
        for unused in ("cookies", "timeout", "verify", "allow_redirects"):
            sent.pop(unused, None)
        for known in [
            name
            for name in sent["headers"]
            if name.lower() in ("authorization", "x-api-key", "user-agent")
        ]:
            del sent["headers"][known]  # otherwise most requests would have no key
        _do_not_wait(sent)
        if is_valid:
            _follow_earlier_responses(sent)
        data = sent.pop("data", None)
        if isinstance(data, bytes | str):
            sent["content"] = data
        elif data is not None:
            sent["data"] = data
        response = client.request(**sent)
        case.validate_response(response, checks=CHECKS)
        if is_valid and response.status_code == 422:
            field = str(response.json().get("field")).partition("[")[0]
            is_upload = name in UPLOADS and (sent.get("params") or "content" in sent)
            allowed = is_upload or (name, field) in INEXPRESSIBLE
            assert allowed, f"{name} rejected a valid request: {response.text}"

    cases = operation.as_strategy(generation_mode=mode)
    run = given(case=cases, is_valid=just(mode == GenerationMode.POSITIVE))(check)
    quick = settings(
        max_examples=EXAMPLES_PER_OPERATION,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with suppress(Unsatisfiable):  # an operation without parameters has no invalid request
        seed(0)(quick(run))()


def test_every_operation_is_documented(app: Starlette) -> None:
    documented = [
        (operation["operationId"], method.upper(), path)
        for path, item in document(app)["paths"].items()
        for method, operation in item.items()
    ]
    assert sorted(documented) == sorted(operations())


def test_the_documented_examples_work() -> None:
    """Each succeeds, or its id is not found."""
    with Memory.open(
        "memory:", settings=Settings(summary_model="extractive", rate_per_second=0)
    ) as memory:
        app = create_app(memory)
        scope = memory.scope(tenant=None, user="ada", agent="scout")
        scope.sessions.add("trip")
        scope.notes.overwrite("# Preferences\n- coffee")
        scope.refs.add("{}", key=EXAMPLES["refs.key"])
        here = TestClient(
            app, URL, client=HERE, headers={"X-Memorist-User": "ada", "X-Memorist-Agent": "scout"}
        )
        for name, method, path in sorted(
            operations(), key=lambda one: (ORDER.index(one[1]), one[0] == "sessions_remove")
        ):
            told = document(app)["paths"][path][method.lower()]
            if name in ENDLESS or told["tags"][0] not in MEMORY:
                continue
            query: dict[str, Any] = {}
            asked = path
            for one in told.get("parameters", ()):
                shown = (one["schema"].get("examples") or [EXAMPLES.get(one["name"], "x")])[0]
                asked = (
                    asked.replace(f"{{{one['name']}}}", quote(str(shown), safe=""))
                    if one["in"] == "path"
                    else asked
                )
                query |= (
                    {one["name"]: shown} if one["in"] == "query" and one.get("required") else {}
                )
            body = (
                told.get("requestBody", {})
                .get("content", {})
                .get("application/json", {})
                .get("example")
            )
            found = here.request(method, asked, params=query, json=body)
            absent = "/0199c0de" in asked or name in ABSENT
            assert found.status_code < 400 or (absent and found.status_code in (404, 409)), (
                name,
                found.text,
            )


def test_aliases_of_chat_have_complete_examples() -> None:
    with Memory.open("memory:") as memory:
        paths = document(create_app(memory))["paths"]
    for path in ("/agent/run", "/agent/vision"):
        body = paths[path]["post"]["requestBody"]["content"]["application/json"]["example"]
        assert body["message"], path
        assert '"message"' in paths[path]["post"]["x-codeSamples"][0]["source"], path


def test_other_methods_are_rejected_with_those_that_are_allowed(
    app: Starlette, client: TestClient
) -> None:
    """A path with several methods names all of them, also for OPTIONS."""
    for path, item in document(app)["paths"].items():
        documented = {method.upper() for method in item}
        sent_path = path.replace("{", "").replace("}", "")
        for method in {"OPTIONS", "TRACE", "PUT", "PATCH"} - documented:
            response = client.request(method, sent_path)
            assert response.status_code == 405, (method, path)
            allowed = set(response.headers["Allow"].split(", ")) - {"HEAD"}
            # A session id may have a slash: to append to the session `a/1` is a POST to `a/1`.
            surplus = {"POST"} if path == "/api/messages/{session}/{seq}" else set()
            assert allowed - surplus == documented, (method, path)


def test_the_document_says_that_names_must_not_be_blank(app: Starlette, client: TestClient) -> None:
    """A request that fits the document is not rejected for a blank user."""
    paths = document(app)["paths"]
    parameters = paths["/api/sessions"]["get"]["parameters"]
    schemas = [one["schema"] for one in parameters if one["name"].lower().endswith("user")]
    schemas += [one["schema"] for one in parameters if one["name"].lower().endswith("agent")]
    schemas.append(paths["/api/sessions/{id}"]["get"]["parameters"][0]["schema"])
    schemas.append(paths["/api/chat/turns/{key}"]["get"]["parameters"][0]["schema"])
    chat = document(app)["components"]["schemas"]["ChatRequest"]["properties"]
    schemas += [chat[name]["anyOf"][0] for name in ("user", "agent_id", "session_id", "key")]
    assert len(schemas) == 10
    for schema in schemas:
        assert re.search(schema["pattern"], "Ada Lovelace")
        for blank in ("", "  ", "a\nb", "a\x00"):
            assert not re.search(schema["pattern"], blank)
    assert client.get("/api/sessions", params={"user": " "}).status_code == 422
    for header in ("X-Memorist-User", "X-Memorist-Agent"):
        blank_header = client.get("/api/sessions?user=ada&agent=scout", headers={header: ""})
        assert blank_header.status_code == 422, header
    message = {"message": "Where do we go?", "user": " "}
    assert client.post("/api/chat", json=message).status_code == 422


def test_a_whole_number_may_have_a_decimal_point(client: TestClient) -> None:
    """JSON schema counts 10.0 as an integer."""
    body = {"query": "where", "limit": 10.0}
    assert client.post("/api/search", json=body).status_code == 200


def test_a_huge_time_to_live_is_rejected(client: TestClient) -> None:
    response = client.put("/api/state/huge", json={"value": 1, "ttl": 1e308})
    assert (response.status_code, response.json()["field"]) == (422, "ttl")


def test_the_document_says_which_content_is_blank(app: Starlette, client: TestClient) -> None:
    """In the same way for regular expressions of Python, JavaScript and Rust."""
    body = document(app)["components"]["schemas"]["EntriesAddRequest"]
    validator = jsonschema_rs.validator_for(body["properties"]["content"])
    for content in ("\x1c", "\x85", "\u200b", "\u00ad", "a", "\ue000", "\u3164"):
        response = client.post("/api/entries", json={"content": content})
        assert validator.is_valid(content) == (response.status_code == 201), repr(content)


def test_the_document_states_rules_between_fields(app: Starlette, client: TestClient) -> None:
    """The server rejects exactly those requests that the document says are not valid."""
    schemas = document(app)["components"]["schemas"]
    hello = {"message": "Hello"}
    cases: list[tuple[str, str, dict[str, Any], bool]] = [
        ("/api/chat", "ChatRequest", hello, True),
        ("/api/chat", "ChatRequest", {**hello, "agent_id": None, "agents": ["scout"]}, True),
        ("/api/chat", "ChatRequest", {**hello, "agent_id": "scout", "agents": []}, True),
        ("/api/chat", "ChatRequest", {**hello, "agent_id": "scout", "agents": ["scout"]}, False),
        ("/api/chat", "ChatRequest", {**hello, "agents": ["scout", "scout"]}, False),
        ("/api/chat", "ChatRequest", {"message": " \n"}, False),
        ("/api/chat", "ChatRequest", {"message": "", "images": [PIXEL]}, True),
        ("/agent/run", "RunRequest", {"input": "Hello"}, True),
        ("/agent/run", "RunRequest", {"input": None, **hello}, True),
        ("/agent/run", "RunRequest", {"input": "Hello", **hello}, False),
        ("/agent/run", "RunRequest", {"prompt": "Hello"}, True),
        ("/agent/run", "RunRequest", {"prompt": "Hello", **hello}, False),
        ("/agent/run", "RunRequest", {"prompt": "Hello", "input": "Hello"}, False),
        ("/agent/run", "RunRequest", {"prompt": " "}, False),
        ("/agent/run", "RunRequest", {"input": " "}, False),
        ("/agent/run", "RunRequest", {}, False),
        ("/agent/vision", "VisionRequest", {"message": "", "images": [PIXEL]}, True),
        ("/agent/vision", "VisionRequest", {"images": [PIXEL]}, False),
        ("/api/documents", "DocumentsAddRequest", {"title": "T", "text": "x", "media": None}, True),
        (
            "/api/documents",
            "DocumentsAddRequest",
            {"title": "T", "text": "x", "media": "pdf"},
            False,
        ),
        ("/api/refs", "RefsAddRequest", {"content": "x", "key": "a/b"}, False),
    ]
    for path, name, body, is_valid in cases:
        validator = jsonschema_rs.validator_for(schemas[name])
        assert validator.is_valid(body) == is_valid, (name, body)
        status = client.post(path, json=body).status_code
        assert (status == 422) == (not is_valid), (name, body, status)


def test_a_body_with_only_alternatives_is_required(app: Starlette) -> None:
    paths = document(app)["paths"]
    assert paths["/agent/run"]["post"]["requestBody"]["required"]
    assert not paths["/api/chat/sessions"]["post"]["requestBody"]["required"]


def test_the_audit_log_has_filters_by_name(app: Starlette, client: TestClient) -> None:
    parameters = document(app)["paths"]["/api/audit"]["get"]["parameters"]
    schemas = {one["name"]: one["schema"] for one in parameters if one["name"] in ("who", "what")}
    for name, schema in schemas.items():
        for text in ("cli:ada", "a\tb", ""):
            response = client.get("/api/audit", params={name: text})
            assert bool(re.search(schema["pattern"], text)) == (response.status_code == 200)
    assert len(schemas) == 2


def test_the_document_states_which_parts_of_a_reference_can_be_read(
    app: Starlette, client: TestClient
) -> None:
    parameters = document(app)["paths"]["/api/refs/{key}"]["get"]["parameters"]
    schemas = {parameter["name"]: parameter["schema"] for parameter in parameters}
    cases: list[tuple[str, Any, bool]] = [
        ("page", 1, True),
        ("page", 0, False),
        ("head", 1, True),
        ("head", 0, False),
        ("tail", 1, True),
        ("tail", 2**53 + 1, False),
        ("lines", "1-5", True),
        ("lines", "0-5", False),
        ("grep", "a", True),
        ("grep", "", False),
        ("path", "$", True),
        ("path", "a", False),
    ]
    # Generated requests of other tests may have removed it.
    client.post("/api/refs", json={"content": "{}", "key": EXAMPLES["refs.key"]})
    for name, value, is_valid in cases:
        assert jsonschema_rs.validator_for(schemas[name]).is_valid(value) == is_valid, (name, value)
        response = client.get(f"/api/refs/{EXAMPLES['refs.key']}", params={name: value})
        assert response.status_code == (200 if is_valid else 422), (name, value, response.text)
