"""The OpenAPI document.

Endpoints and routes are described from the models that they validate requests with. Every operation
also gets its error responses, an example and a curl command.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, TypeAdapter
from starlette.applications import Starlette

from memorist.api.endpoints import ADMIN_KIND_HELP, KIND_HELP
from memorist.api.examples import EXAMPLES
from memorist.api.problem import MEDIA, Problem
from memorist.api.route import OCTETS, ApiRoute, path_parameters
from memorist.api.schemas import ETAG
from memorist.base import parameters as rules
from memorist.base.version import VERSION

Json = dict[str, Any]

COMMON_STATUSES = (400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 429, 431, 500, 503)
"""Error statuses that any operation may return."""
TAGS = {
    "memory": "Search, context and turns over all kinds of memory.",
    "chat": "Chat with an agent that has this memory.",
    "access": "API keys and their permissions.",
    "events": "The stream of events, and webhooks that receive them.",
    "web": "Sign-in and start data of the web app.",
    "admin": "The audit log; export and erasure of a user's data.",
    "operations": "Health and status of the server.",
}
TAGS |= KIND_HELP | ADMIN_KIND_HELP
DESCRIPTIONS = {
    304: "Not modified: it is still at the version of If-None-Match.",
    400: "The request cannot be parsed.",
    401: "The key is missing or not valid.",
    403: "The key does not permit this.",
    404: "Not found, or not visible to this key.",
    405: "The path does not support this method.",
    408: "The request took too long to arrive.",
    409: "The request conflicts with the current state.",
    412: "The record is not at the version of If-Match.",
    413: "The request is too large.",
    415: "The media type of the body is not supported.",
    421: "The host name is not one of this server's.",
    422: "The request is not valid; `field` names the parameter.",
    429: "Too many requests; Retry-After says when to retry.",
    431: "The headers are too large.",
    500: "Unexpected error.",
    502: "The model failed.",
    503: "The server is overloaded or stopping; Retry-After says when to retry.",
    507: "The disk is almost full.",
}
_SECURITY_SCHEMES: Json = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key (mst_…) or a signed token.",
    },
    "header": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "An API key.",
    },
}
_BASE_URL = "http://127.0.0.1:7700"
_EXAMPLE_OWNER = {"X-Memorist-User": "ada", "X-Memorist-Agent": "scout"}
_CONVERTOR = re.compile(r":\w+\}")
_KEY = rules.KEY.schema()
_NOT_BLANK = rules.NOT_BLANK.schema()
_HEADER_LIMITS = {"X-Memorist-User": _KEY, "X-Memorist-Agent": _KEY, "If-Match": ETAG}
_REF = "#/components/schemas/{model}"


_ABOUT = """Memory for AI agents.

The tenant comes from the key; the user and the agent from the headers `X-Memorist-User` and `X-Memorist-Agent`, or from the
parameters `user` and `agent`. Lists are pages: `limit` and `after` in, `data` and `next` out. Failures are problems
(RFC 9457) that name the field and say what to do."""


def document(app: Starlette) -> Json:
    """Return the document of an app; it is written when first requested."""
    if not hasattr(app.state, "openapi"):
        app.state.openapi = describe(app.state.routes)
    result: Json = app.state.openapi
    return result


def describe(routes: Sequence[ApiRoute]) -> Json:
    """Return the document of the routes that have a name."""
    described = [route for route in routes if route.name]
    schemas, paths = _describe_all(described)
    schemas["Problem"] = Problem.model_json_schema()
    schemas = dict(sorted(schemas.items()))
    responses: Json = {}
    for path, item in paths.items():
        for method, operation in item.items():
            _add_shared_parts(operation, path, method, schemas, responses)
    used_tags = {route.tag for route in described}
    return {
        "openapi": "3.1.0",
        "info": {"title": "memorist", "version": VERSION, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": _SECURITY_SCHEMES,
            "responses": responses,
        },
        # No key at all is accepted from the same machine while the database has none.
        "security": [{"key": []}, {"header": []}, {}],
        "tags": [
            {"name": name, "description": text} for name, text in TAGS.items() if name in used_tags
        ],
    }


def _describe_all(routes: Sequence[ApiRoute]) -> tuple[Json, Json]:
    """Return the schemas of all requests and responses, and the operations by path and method."""
    inputs: list[tuple[str, Any, TypeAdapter[Any]]] = []
    for route in routes:
        if route.body is not None:
            inputs.append((route.name, "validation", TypeAdapter(route.body)))
        if route.result is not None:
            inputs.append((route.name, "serialization", TypeAdapter(route.result)))
    by_key, definitions = TypeAdapter.json_schemas(inputs, ref_template=_REF)
    schemas: Json = definitions.get("$defs", {})
    paths: Json = {}
    for route in routes:
        body = by_key.get((route.name, "validation"))
        result = by_key.get((route.name, "serialization"))
        path = _CONVERTOR.sub("}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _describe(route, body, result)
    _remove_null_defaults([schemas, paths])
    return schemas, paths


def _describe(route: ApiRoute, body: Json | None, result: Json | None) -> Json:
    operation: Json = {
        "tags": [route.tag],
        "summary": route.description.split("\n")[0],
        "description": route.description,
        "operationId": route.name,
        "parameters": _parameters(route),
        "responses": _responses(route, result),
    }
    if route.permission is not None:
        operation["x-memorist-permission"] = route.permission
    if body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": body}}}
    if route.upload is not None:
        binary = {"schema": {"type": "string", "format": "binary"}}
        operation["requestBody"]["content"][OCTETS] = binary
    return operation


def _parameters(route: ApiRoute) -> list[Json]:
    parameters = []
    for name, kind in path_parameters(route.path).items():
        example = EXAMPLES.get(f"{route.tag}.{name}", EXAMPLES.get(name, "ada"))
        schema = {"type": "integer" if kind is int else "string", "examples": [example]}
        schema |= route.path_rules.get(name, _KEY)
        parameters.append(_parameter(name, "path", route.path_help[name], schema))
    if route.query is not None:
        parameters += _query_parameters(route.query)
    for name, text in route.headers.items():
        schema = {"type": "string", **_HEADER_LIMITS.get(name, _NOT_BLANK)}
        parameters.append(_parameter(name, "header", text, schema, False))
    if route.upload is not None:
        parameters += _upload_parameters(route.upload)
    return parameters


def _query_parameters(model: type[BaseModel]) -> list[Json]:
    schema = model.model_json_schema()
    required = schema.get("required", ())
    return [
        _parameter(name, "query", details.pop("description", ""), details, name in required)
        for name, details in schema["properties"].items()
    ]


def _upload_parameters(model: type[BaseModel]) -> list[Json]:
    prefix = "Only if the body is not JSON but the content itself: "
    return [
        {**parameter, "required": False, "description": prefix + parameter["description"]}
        for parameter in _query_parameters(model)
        if parameter["name"] not in ("user", "agent")
    ]


def _parameter(name: str, place: str, text: str, schema: Json, required: bool = True) -> Json:
    schema.pop("title", None)
    return {
        "name": name,
        "in": place,
        "required": required,
        "description": text,
        "schema": schema,
    }


def _responses(route: ApiRoute, result: Json | None) -> Json:
    content: Json = {}
    if result is not None:
        content["application/json"] = {"schema": result}
    if route.media_type:
        binary = {"format": "binary"} if route.media_type == OCTETS else {}
        content[route.media_type] = {"schema": {"type": "string", **binary}}
    success: Json = {"description": route.response_help}
    if content:
        success["content"] = content
    responses: Json = {str(route.status): success}
    for status in route.error_statuses:
        responses[str(status)] = _problem(status)
    if route.is_versioned:
        responses["304"] = {"description": DESCRIPTIONS[304]}
    return responses


def _problem(status: int) -> Json:
    """Return the response for an error status."""
    content = {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": DESCRIPTIONS.get(status, "An error."), "content": content}


def _remove_null_defaults(value: Any) -> None:
    """Remove `default: null`: an omitted parameter is not the same as one that is null."""
    if isinstance(value, dict):
        if value.get("default", "") is None:
            del value["default"]
        for part in value.values():
            _remove_null_defaults(part)
    elif isinstance(value, list | tuple):
        for part in value:
            _remove_null_defaults(part)


def _add_shared_parts(
    operation: Json, path: str, method: str, schemas: Json, shared_responses: Json
) -> None:
    """Add what all operations have: error responses by reference, an example, a curl command."""
    responses: Json = operation["responses"]
    errors = [int(status) for status in responses if status.isdigit() and int(status) >= 400]
    for status in (*errors, *COMMON_STATUSES):
        shared_responses.setdefault(str(status), _problem(status))
        responses[str(status)] = {"$ref": f"#/components/responses/{status}"}
    request_body = operation.get("requestBody")
    body = None
    if request_body is not None:
        media = request_body["content"].get("application/json", {})
        schema = _resolve(media.get("schema", {}), schemas)
        body = example_body(schema, schemas)
        if media:
            request_body["required"] = bool(schema.get("required") or schema.get("oneOf"))
            media.setdefault("example", body)
    command = curl(operation, path, method, body)
    operation["x-codeSamples"] = [{"lang": "Shell", "label": "curl", "source": command}]


def example_body(schema: Json, schemas: Json) -> Json:
    """Return the example of an object schema, or the smallest valid object."""
    if schema.get("examples"):
        return dict(schema["examples"][0])
    properties = schema.get("properties", {})
    return {
        name: _example_value(_resolve(properties.get(name, {}), schemas), schemas)
        for name in schema.get("required", ())
    }


def _example_value(schema: Json, schemas: Json) -> Any:
    for name in ("examples", "enum"):
        if schema.get(name):
            return schema[name][0]
    for name in ("example", "const", "default"):
        if name in schema:
            return schema[name]
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            return _example_value(_resolve(schema[name][0], schemas), schemas)
    kind = str(schema.get("type"))
    if kind == "object":
        return example_body(schema, schemas)
    if kind == "array":
        return [_example_value(_resolve(schema.get("items", {}), schemas), schemas)]
    return {"integer": 1, "number": 1.0, "boolean": True, "null": None}.get(kind, "text")


def _resolve(schema: Json, schemas: Json) -> Json:
    name = schema.get("$ref", "").rpartition("/")[2]
    return schemas.get(name, {}) if name else schema


def curl(operation: Json, path: str, method: str, body: Any) -> str:
    """Return a curl command that calls an operation with its required parameters."""
    query = []
    parameters = operation.get("parameters", ())
    for parameter in parameters:
        name = parameter["name"]
        examples = parameter["schema"].get("examples") or [EXAMPLES.get(name, "…")]
        value = quote(str(parameter.get("example", examples[0])), safe="")
        if parameter["in"] == "path":
            path = path.replace(f"{{{name}}}", value)
        elif parameter["in"] == "query" and parameter.get("required"):
            query.append(f"{name}={value}")
    url = _BASE_URL + path + ("?" + "&".join(query) if query else "")
    command = ["curl"]
    if method != "get":
        command += ["-X", method.upper()]
    command += [shlex.quote(url), "-H", '"Authorization: Bearer $MEMORIST_KEY"']
    headers = {parameter["name"] for parameter in parameters if parameter["in"] == "header"}
    for name, value in _EXAMPLE_OWNER.items():
        if name in headers:
            command += ["-H", f"'{name}: {value}'"]
    if body is not None:
        data = shlex.quote(json.dumps(body, ensure_ascii=False))
        command += ["-H", "'Content-Type: application/json'", "-d", data]
    return " ".join(command)
