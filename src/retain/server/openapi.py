"""The OpenAPI document.

Endpoints and routes are described from the models that they validate requests with. Every operation
also gets its error responses, an example and a curl command.
"""

from __future__ import annotations

import inspect
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, TypeAdapter
from starlette.applications import Starlette

from retain.api.endpoints import KIND_HELP, Endpoint, parameter_help
from retain.api.examples import EXAMPLES
from retain.api.problem import Problem
from retain.api.schemas import OwnerParameters, shape
from retain.api.value_limits import ETAG, KEY, NOT_BLANK, parameter_limits
from retain.base.version import VERSION
from retain.server.api_route import ApiRoute
from retain.server.handler import Handler
from retain.server.routes import DESCRIPTIONS, OCTETS, generality, path_parameters, problems

COMMON_STATUSES = (400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 429, 431, 500, 503)
"""Error statuses that any operation may return."""
METHODS = ("get", "post", "put", "patch", "delete")
TAGS = {
    "memory": "Search, context and turns over all kinds of memory.",
    "chat": "Chat with an agent that has this memory.",
    "access": "API keys and their permissions.",
    "events": "The stream of events, and webhooks that receive them.",
    "web": "Sign-in and start data of the web app.",
    "admin": "The audit log; export and erasure of a user's data.",
    "operations": "Health and status of the server.",
} | KIND_HELP
_BASE_URL = "http://127.0.0.1:7700"
_EXAMPLE_OWNER = {"X-Retain-User": "ada", "X-Retain-Agent": "scout"}
_MODEL_ENDPOINTS = ("summaries_fold", "consolidations_propose", "refs_capture", "refs_add")
_CONVERTOR = re.compile(r":\w+\}")
_REF = "#/components/schemas/{model}"

Json = dict[str, Any]


_ABOUT = """Memory for AI agents.

The tenant comes from the key; the user and the agent from the headers `X-Retain-User` and `X-Retain-Agent`, or from the
parameters `user` and `agent`. Lists are pages: `limit` and `after` in, `data` and `next` out. Failures are problems
(RFC 9457) that name the field and say what to do."""


def document(app: Starlette) -> Json:
    """Return the document of an app; it is written when first requested."""
    if not hasattr(app.state, "openapi"):
        api_routes = [route for route in app.state.routes if isinstance(route, ApiRoute)]
        app.state.openapi = describe(app.state.handlers, api_routes)
    result: Json = app.state.openapi
    return result


def describe(handlers: Mapping[str, Handler], routes: Sequence[ApiRoute]) -> Json:
    """Return the document of the endpoints of the table and the routes beside it."""
    schemas: Json = {}
    paths: Json = {}
    operations = describe_endpoints(handlers, schemas) + describe_routes(routes, schemas)
    for path, method, operation in operations:
        paths.setdefault(path, {})[method] = operation
    schemas["Problem"] = Problem.model_json_schema()
    schemas = dict(sorted(schemas.items()))
    components: Json = {"schemas": schemas}
    document: Json = {
        "openapi": "3.1.0",
        "info": {"title": "retain", "version": VERSION, "description": _ABOUT},
        "paths": paths,
        "components": components,
    }
    components["securitySchemes"] = {
        "key": {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key (rtn_…) or a signed token.",
        },
        "header": {
            "type": "apiKey",
            "in": "header",
            "name": "X-API-Key",
            "description": "An API key.",
        },
    }
    # No key at all is accepted from the same machine while the database has none.
    document["security"] = [{"key": []}, {"header": []}, {}]
    responses: Json = components.setdefault("responses", {})
    used_tags: set[str] = set()
    for path, item in paths.items():
        for method, operation in item.items():
            if method in METHODS:
                _add_shared_parts(operation, path, method, schemas, responses)
                used_tags |= set(operation.get("tags", ()))
    document["tags"] = [
        {"name": name, "description": text} for name, text in TAGS.items() if name in used_tags
    ]
    return document


def describe_endpoints(
    handlers: Mapping[str, Handler], schemas: Json
) -> list[tuple[str, str, Json]]:
    """Return path, method and operation of each endpoint; add their schemas to `schemas`."""
    inputs: list[tuple[str, Any, TypeAdapter[Any]]] = []
    for name, handler in handlers.items():
        inputs.append((name, "validation", TypeAdapter(handler.request_model)))
        if not handler.media_type and handler.result_type is not type(None):
            inputs.append((name, "serialization", TypeAdapter(shape(handler.result_type))))
    by_key, definitions = TypeAdapter.json_schemas(inputs, ref_template=_REF)
    defined: Json = definitions.get("$defs", {})
    operations = []
    for name, handler in sorted(
        handlers.items(), key=lambda item: generality(item[1].endpoint.route)
    ):
        endpoint = handler.endpoint
        if endpoint.in_query:  # these are parameters, not a schema
            body = None
            defined.pop(handler.request_model.__name__, None)
        else:
            body = by_key[name, "validation"]
        result = by_key.get((name, "serialization"))
        path = _CONVERTOR.sub("}", endpoint.route)
        operation = _describe(handler, body, result)
        operations.append((path, endpoint.method.lower(), operation))
    schemas.update(defined)
    _remove_null_defaults([defined, operations])
    return operations


def describe_routes(routes: Sequence[ApiRoute], schemas: Json) -> list[tuple[str, str, Json]]:
    """Return path, method and operation of each route; add their schemas to `schemas`."""
    inputs: list[tuple[str, Any, TypeAdapter[Any]]] = []
    for route in routes:
        if route.body is not None:
            inputs.append((route.name, "validation", TypeAdapter(route.body)))
        if route.result is not None:
            inputs.append((route.name, "serialization", TypeAdapter(route.result)))
    by_key, definitions = TypeAdapter.json_schemas(inputs, ref_template=_REF)
    defined: Json = definitions.get("$defs", {})
    operations = []
    for route in routes:
        body = by_key.get((route.name, "validation"))
        result = by_key.get((route.name, "serialization"))
        path = _CONVERTOR.sub("}", route.path)
        operations.append((path, route.method.lower(), _describe_route(route, body, result)))
    schemas.update(defined)
    _remove_null_defaults([defined, operations])
    return operations


def _describe_route(route: ApiRoute, body: Json | None, result: Json | None) -> Json:
    documentation = inspect.getdoc(route.handler) or ""
    parameters = []
    for name, text in route.path_help.items():
        example = EXAMPLES.get(name, _EXAMPLE_OWNER["X-Retain-User"])
        schema: Json = {"type": "string", "examples": [example], **KEY}
        parameters.append(_parameter(name, "path", text, schema))
    if route.query is not None:
        parameters += _query_parameters(route.query)
    for name, text in route.headers.items():
        limits = KEY if name.startswith("X-Retain-") else NOT_BLANK
        parameters.append(_parameter(name, "header", text, {"type": "string", **limits}, False))
    content: Json = {}
    if result is not None:
        content["application/json"] = {"schema": result}
    if route.media_type:
        content[route.media_type] = {"schema": {"type": "string"}}
    success: Json = {"description": route.response_help, "content": content}
    responses: Json = {str(route.status): success}
    for status, described in problems(*route.error_statuses).items():
        responses[str(status)] = described
    operation: Json = {
        "tags": [route.tag],
        "summary": documentation.split("\n")[0],
        "description": documentation,
        "operationId": route.name,
        "parameters": parameters,
        "responses": responses,
    }
    if route.permission is not None:
        operation["x-retain-permission"] = route.permission
    if body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": body}}}
    return operation


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


def _describe(handler: Handler, body: Json | None, result: Json | None) -> Json:
    endpoint = handler.endpoint
    documentation = inspect.getdoc(handler.method) or ""
    command = f"\n\nOn the command line: `{endpoint.example}`" if endpoint.example else ""
    parameters = _path_parameters(endpoint)
    if body is None:
        parameters += _query_parameters(handler.request_model)
    else:
        parameters += _query_parameters(OwnerParameters)
    parameters += _header_parameters(handler)
    operation: Json = {
        "tags": [endpoint.kind or "memory"],
        "summary": documentation.split("\n")[0],
        "description": documentation + command,
        "operationId": endpoint.name,
        "parameters": parameters,
        "responses": _responses(handler, result),
        "x-retain-permission": endpoint.needs,
    }
    if body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": body}}}
    if handler.upload_model is not None:
        parameters += _upload_parameters(handler.upload_model)
        binary = {"schema": {"type": "string", "format": "binary"}}
        operation["requestBody"]["content"][OCTETS] = binary
    return operation


def _path_parameters(endpoint: Endpoint) -> list[Json]:
    parameters = []
    for name, kind in path_parameters(endpoint).items():
        example = EXAMPLES.get(f"{endpoint.kind}.{name}", EXAMPLES.get(name))
        schema = {
            "type": "integer" if kind is int else "string",
            "examples": [example],
            **parameter_limits(endpoint.name, endpoint.kind, name),
        }
        parameters.append(_parameter(name, "path", parameter_help(endpoint.kind, name), schema))
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


def _header_parameters(handler: Handler) -> list[Json]:
    headers = [
        ("X-Retain-User", "The user whose memory is used.", KEY),
        ("X-Retain-Agent", "The agent whose memory is used.", KEY),
    ]
    if "if_version" in inspect.signature(handler.method).parameters:
        text = "Change the record only if it is at this version (an ETag)."
        headers.append(("If-Match", text, ETAG))
    if handler.endpoint.needs != "read":
        text = "A retry with the same key has no further effect."
        headers.append(("Idempotency-Key", text, NOT_BLANK))
    return [
        _parameter(name, "header", text, {"type": "string", **limits}, False)
        for name, text, limits in headers
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


def _responses(handler: Handler, result: Json | None) -> Json:
    endpoint = handler.endpoint
    success: Json = {"description": "Successful response."}
    if handler.media_type:
        binary = {"type": "string", "format": "binary"}
        success["content"] = {handler.media_type: {"schema": binary}}
    elif result is not None:
        success["content"] = {"application/json": {"schema": result}}
    responses: Json = {str(handler.status): success}
    statuses = [409, 507]  # besides COMMON_STATUSES
    if endpoint.name in _MODEL_ENDPOINTS:
        statuses.append(502)
    if "if_version" in inspect.signature(handler.method).parameters:
        statuses.append(412)
    for status, described in problems(*statuses).items():
        responses[str(status)] = described
    fields = getattr(handler.result_type, "__dataclass_fields__", ())
    if endpoint.method == "GET" and "version" in fields:
        responses["304"] = {"description": DESCRIPTIONS[304]}
    return responses


def _add_shared_parts(
    operation: Json, path: str, method: str, schemas: Json, shared_responses: Json
) -> None:
    """Add what all operations have: error responses by reference, an example, a curl command."""
    responses: Json = operation["responses"]
    errors = [int(status) for status in responses if status.isdigit() and int(status) >= 400]
    for status in (*errors, *COMMON_STATUSES):
        shared_responses.setdefault(str(status), problems(status)[status])
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
    command += [shlex.quote(url), "-H", '"Authorization: Bearer $RETAIN_KEY"']
    headers = {parameter["name"] for parameter in parameters if parameter["in"] == "header"}
    for name, value in _EXAMPLE_OWNER.items():
        if name in headers:
            command += ["-H", f"'{name}: {value}'"]
    if body is not None:
        data = shlex.quote(json.dumps(body, ensure_ascii=False))
        command += ["-H", "'Content-Type: application/json'", "-d", data]
    return " ".join(command)
