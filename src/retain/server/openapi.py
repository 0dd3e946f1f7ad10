"""The OpenAPI document: what the framework writes of the routes, and what holds for all of them said once."""

from __future__ import annotations

import inspect
import json
import shlex
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI

from retain.api.examples import EXAMPLES
from retain.api.problem import Problem
from retain.kinds import KINDS
from retain.server.routes import problems

EVERYWHERE = (400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 429, 431, 500, 503)
"""How any request may end, whatever it asks for."""
METHODS = ("get", "post", "put", "patch", "delete")
TAGS = {
    "memory": "Over all kinds of memory: search, the context of a model, and the turn that came of it.",
    "chat": "An agent with this memory: one turn of a conversation, whole or as a stream.",
    "access": "Who may come in, and to do what.",
    "web": "What the page at `/` asks first, and how a browser signs in with a key.",
    "admin": "The audit log, and everything of one user: out, or gone.",
    "operations": "How the server is.",
} | {kind.name: (inspect.getdoc(kind) or "").split("\n")[0] for kind in KINDS}
_WHOSE = {"X-Retain-User": "ada", "X-Retain-Agent": "scout"}
_URL = "http://127.0.0.1:7700"
_WRONG = ("HTTPValidationError", "ValidationError")


def install(app: FastAPI) -> None:
    """Let an app describe itself so; written when it is first asked for."""
    write = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _whole(write())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _whole(found: dict[str, Any]) -> dict[str, Any]:
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in _WRONG:
        schemas.pop(name, None)
    schemas["Problem"] = Problem.model_json_schema()
    components["securitySchemes"] = {
        "key": {
            "type": "http",
            "scheme": "bearer",
            "description": "A key (rtn_…) or a signed token.",
        },
        "header": {
            "type": "apiKey",
            "in": "header",
            "name": "X-API-Key",
            "description": "A key, in a header of its own.",
        },
    }
    found["security"] = [
        {"key": []},
        {"header": []},
        {},
    ]  # none at all, on the machine of a file that has no key
    shared: dict[str, Any] = components.setdefault("responses", {})
    used: set[str] = set()
    for path, item in found["paths"].items():
        for method, operation in item.items():
            if method in METHODS:
                _complete(operation, path, method, schemas, shared)
                used |= set(operation.get("tags", ()))
    found["tags"] = [
        {"name": name, "description": about} for name, about in TAGS.items() if name in used
    ]
    return found


def _complete(
    operation: dict[str, Any],
    path: str,
    method: str,
    schemas: dict[str, Any],
    shared: dict[str, Any],
) -> None:
    """What all operations have: their failures, by reference; an example; a line to try."""
    responses: dict[str, Any] = operation["responses"]
    for status in (
        *(int(status) for status in responses if status.isdigit() and int(status) >= 400),
        *EVERYWHERE,
    ):
        shared.setdefault(str(status), problems(status)[status])
        responses[str(status)] = {"$ref": f"#/components/responses/{status}"}
    body = operation.get("requestBody")
    said = None
    if body is not None:
        media = body["content"].get("application/json", {})
        shape = _resolved(media.get("schema", {}), schemas)
        said = example(shape, schemas)
        if media:
            body["required"] = bool(shape.get("required"))
            media.setdefault("example", said)
    operation["x-codeSamples"] = [
        {"lang": "Shell", "label": "curl", "source": curl(operation, path, method, said)}
    ]


def example(shape: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """What a shape has for an example, else the least that a body of it says."""
    if shape.get("examples"):
        return dict(shape["examples"][0])
    properties = shape.get("properties", {})
    return {
        name: _value(_resolved(properties.get(name, {}), schemas), schemas)
        for name in shape.get("required", ())
    }


def _value(shape: dict[str, Any], schemas: dict[str, Any]) -> Any:
    for name in ("examples", "enum"):
        if shape.get(name):
            return shape[name][0]
    for name in ("example", "const", "default"):
        if name in shape:
            return shape[name]
    for name in ("anyOf", "oneOf", "allOf"):
        if shape.get(name):
            return _value(_resolved(shape[name][0], schemas), schemas)
    if shape.get("type") == "object":
        return example(shape, schemas)
    if shape.get("type") == "array":
        return [_value(_resolved(shape.get("items", {}), schemas), schemas)]
    return {"integer": 1, "number": 1.0, "boolean": True, "null": None}.get(
        str(shape.get("type")), "text"
    )


def _resolved(shape: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    name = shape.get("$ref", "").rpartition("/")[2]
    return schemas.get(name, {}) if name else shape


def curl(operation: dict[str, Any], path: str, method: str, said: Any) -> str:
    """A line that a person would try first."""
    query = []
    for one in operation.get("parameters", ()):
        shown = one.get(
            "example", (one["schema"].get("examples") or [EXAMPLES.get(one["name"], "…")])[0]
        )
        if one["in"] == "path":
            path = path.replace(f"{{{one['name']}}}", quote(str(shown), safe=""))
        elif one["in"] == "query" and one.get("required"):
            query.append(f"{one['name']}={quote(str(shown), safe='')}")
    line = ["curl", shlex.quote(_URL + path + ("?" + "&".join(query) if query else ""))]
    if method != "get":
        line[1:1] = ["-X", method.upper()]
    line += ["-H", '"Authorization: Bearer $RETAIN_KEY"']
    headers = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "header"}
    line += [
        part
        for name, shown in _WHOSE.items()
        if name in headers
        for part in ("-H", f"'{name}: {shown}'")
    ]
    if said is not None:
        line += [
            "-H",
            "'Content-Type: application/json'",
            "-d",
            shlex.quote(json.dumps(said, ensure_ascii=False)),
        ]
    return " ".join(line)
