"""Every verb of every kind as a route, built from the table of ways and the verbs' own signatures."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_type_hints

from fastapi import Body, FastAPI, Path, Query, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from retain import canonical
from retain.errors import Invalid, WrongVersion
from retain.faces.render import as_json
from retain.faces.ways import SCOPE_WAYS, WAYS, Way, word
from retain.kinds import KINDS
from retain.server.door import Door
from retain.server.problem import MEDIA, Problem
from retain.server.shapes import PATH_TYPES, Whose, asked, method_of, shape

BY_HAND = ("context", "save_turn")
"""Ways whose requests are not the verb's own parameters."""
ONCE, IF_MATCH, IF_NONE_MATCH = "idempotency-key", "if-match", "if-none-match"
_KINDS: dict[str, type] = {kind.name: kind for kind in KINDS}
_IN_PATH = re.compile(r"\{(\w+):?(\w*)\}")
_MADE = ("add", "append", "extend", "capture", "add_many")
_STATUSES = (400, 401, 403, 404, 409, 413, 422, 429, 503, 507)
_ETAG = re.compile(r'(?:W/)?"(\d{1,15})"')


def add(app: FastAPI, door: Door) -> None:
    """Give an app every way; the routes that say more come first, or the ones that take anything would hide them."""
    app.router.route_class = Route
    ways = [way for way in (*WAYS, *SCOPE_WAYS) if way.verb not in BY_HAND]
    for way in sorted(ways, key=_vagueness):
        method = method_of(way, _KINDS)
        result = get_type_hints(method).get("return")
        app.add_api_route(
            way.route,
            _endpoint(way, method, door),
            methods=[way.method],
            name=way.name,
            operation_id=way.name,
            tags=[way.kind or "memory"],
            summary=(inspect.getdoc(method) or "").split("\n")[0],
            description=f"{inspect.getdoc(method)}\n\nOn the command line: `{way.example}`",
            status_code=_status(way, result),
            response_model=None if result is type(None) or result is bytes else shape(result),
            responses=problems(*_STATUSES),
            openapi_extra=_extra(way, method),
        )


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How a route may fail, for its documentation."""
    return {status: {"model": Problem, "description": "A problem", "content": {MEDIA: {}}} for status in statuses}


class Route(APIRoute):
    """A route whose bodies are read by our rule for JSON: deep nesting, NaN and bad UTF-8 are the caller's mistakes."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        """The handler, given requests that read JSON so."""
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            found: Response = await handle(_Read(request.scope, request.receive))
            return found

        return handler


class _Read(Request):
    async def json(self) -> Any:
        try:
            text = (await self.body()).decode()
        except UnicodeDecodeError:
            raise Invalid(field="body", problem="is not UTF-8 text") from None
        return canonical.parse(text, "body")


def _vagueness(way: Way) -> tuple[int, int]:
    """How much a route would match: its last part, and how many parameters it has; the longer first."""
    last = way.route.rpartition("/")[2]
    return (2 if ":path" in last else 1 if "{" in last else 0), -way.route.count("/")


def _endpoint(way: Way, method: Callable[..., Any], door: Door) -> Callable[..., Any]:
    """A function with the signature that the framework reads, and behind it the verb."""
    in_path = {name: PATH_TYPES[kind] for name, kind in _IN_PATH.findall(way.route)}
    model = asked(way, method, list(in_path))
    in_query = way.method in ("GET", "DELETE")
    positional = [one.name for one in inspect.signature(method).parameters.values() if one.kind is not one.KEYWORD_ONLY][1:]

    async def endpoint(request: Request, **given: Any) -> Response:
        principal = await door.admit(request, way.needs)
        said: BaseModel = given.pop("said")
        named = {name: getattr(said, name) for name in said.model_fields_set}
        whose = named if in_query else given.pop("whose").model_dump()
        scope = door.scope(request, principal, whose.pop("user", None), whose.pop("agent", None))
        named = {**(named if not in_query else whose), **given}
        named = {name: _value(value, name) for name, value in named.items()}
        precondition = _conditions(request, method, named)
        first = [named.pop(name) for name in positional if name in named]
        verb = getattr(getattr(scope, way.kind) if way.kind else scope, way.verb)
        try:
            return answer(await run_in_threadpool(verb, *first, **named), status)
        except WrongVersion as error:
            if precondition:
                error.status = 412
            raise

    parameters = [inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)]
    for name, kind in in_path.items():
        about = Path(description=word(way.kind, name))
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, about]))
    where = Query() if in_query else Body()
    parameters.append(inspect.Parameter("said", inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[model, where]))
    if not in_query:
        parameters.append(inspect.Parameter("whose", inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[Whose, Query()]))
    status = _status(way, get_type_hints(method).get("return"))
    endpoint.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    endpoint.__name__ = way.name
    return endpoint


def _value(value: Any, name: str) -> Any:
    """A validated value, as a verb takes it."""
    if isinstance(value, list) and value and isinstance(value[0], BaseModel):
        return [one.model_dump(exclude_unset=True) for one in value]
    if name == "lines" and isinstance(value, str):
        first, _, last = value.partition("-")
        return int(first), int(last)
    return value


def _conditions(request: Request, method: Callable[..., Any], named: dict[str, Any]) -> bool:
    """Take what the headers say of versions and retries for the verb's own parameters; whether a version was said so."""
    known = inspect.signature(method).parameters
    if (once := request.headers.get(ONCE)) and "key" in known and "expected_last_seq" in known:
        named.setdefault("key", once)
    if "if_version" not in known:
        return False
    if match := request.headers.get(IF_MATCH):
        found = _ETAG.fullmatch(match.strip())
        if not found:
            raise Invalid(field="If-Match", problem=f'must be an ETag as it was sent, such as "3", not {match!r}')
        named["if_version"] = int(found[1])
        return True
    if request.headers.get(IF_NONE_MATCH, "").strip() == "*":
        named["if_version"] = 0
        return True
    return False


def _status(way: Way, result: Any) -> int:
    if result is type(None):
        return 204
    return 201 if way.method == "POST" and way.verb in _MADE else 200


def answer(found: Any, status: int = 200) -> Response:
    """What a verb returned, as a response; what has a version has it as its ETag."""
    if found is None:
        return Response(status_code=204)
    if isinstance(found, bytes):
        return Response(found, status, media_type="application/octet-stream")
    body = json.dumps(as_json(found), ensure_ascii=False, separators=(",", ":"))
    version = getattr(found, "version", None)
    headers = {"ETag": f'"{version}"'} if isinstance(version, int) else None
    return Response(body.encode("utf-8", "replace"), status, headers, "application/json")


def _extra(way: Way, method: Callable[..., Any]) -> dict[str, Any]:
    """What of a route the framework does not see: the headers that every request may have."""
    known = inspect.signature(method).parameters
    headers: Mapping[str, str] = {
        "X-Retain-User": "Whose memory is meant.",
        "X-Retain-Agent": "Which agent's memory is meant.",
        **({"If-Match": "Only if it is at this version."} if "if_version" in known else {}),
        **({"Idempotency-Key": "A retry with the same key changes nothing."} if way.method == "POST" else {}),
    }
    said = [
        {"name": name, "in": "header", "required": False, "description": about, "schema": {"type": "string"}}
        for name, about in headers.items()
    ]
    return {"parameters": said, "x-retain-permission": way.needs}
