"""The same memory over HTTP: `Client("http://…", key="rtn_…").scope(user="ada", agent="scout")` is a Scope like any other.

Its verbs are the library's own, by name and signature; each is one request, built from the table of ways. A request that may
be repeated is: reads, and writes, which carry an idempotency key so that they happen once.
"""

from __future__ import annotations

import inspect
import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

from retain import errors, ids
from retain.aio import AsyncScope, Hop
from retain.canonical import JsonText
from retain.context.assemble import Context
from retain.errors import Invalid, RetainError, SettingsError, Unreachable
from retain.faces.render import as_json
from retain.faces.ways import SCOPE_WAYS, WAYS, Way
from retain.kinds import KINDS
from retain.kinds.kind import Kind, Page, Who
from retain.kinds.state import Item
from retain.memory import Scope
from retain.talk.message import Message

KEY = "RETAIN_KEY"
"""The environment's variable with the key, where none is given."""
_AGAIN = (429, 503)
_SILENCE = 60.0
"""How long a stream may say nothing, which has a beat every few seconds."""
_INSTALL = "the client needs one more library: install retain[client] from where you got retain"


class Client:
    """A retain server, by its address; `key` is taken from RETAIN_KEY where it is not given."""

    def __init__(self, url: str, key: str | None = None, *, seconds: float = 30.0, retries: int = 3) -> None:
        try:
            import httpx2
        except ImportError:
            raise SettingsError(where="client", problem=_INSTALL) from None
        key = os.environ.get(KEY, "") if key is None else key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = httpx2.Client(base_url=url.rstrip("/"), headers=headers, timeout=seconds, follow_redirects=False)
        self._retries = retries
        self.url = url

    def scope(self, user: str | None = None, agent: str | None = None) -> Scope:
        """Whose memory, in the tenant that the key belongs to."""
        return _RemoteScope(self, Who("", user, agent))

    def send(self, method: str, path: str, who: Who, query: Mapping[str, Any], body: Any = None) -> Any:
        """One request, tried again where that may help; the response, or the error that the server answered with."""
        import httpx2

        headers = _names(who)
        if method == "POST":
            headers["Idempotency-Key"] = ids.uuid7().encode()
        said = {"content": json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")} if body is not None else {}
        headers |= {"Content-Type": b"application/json"} if said else {}
        for left in reversed(range(self._retries + 1)):
            try:
                response = self._http.request(method, path, params=dict(query), headers=headers, **said)  # type: ignore[arg-type]
            except httpx2.TransportError as error:
                if not left:
                    raise Unreachable(problem=f"{self.url} does not answer ({type(error).__name__})") from None
                wait = 0.1
            else:
                if response.status_code not in _AGAIN or not left:
                    break
                wait = min(float(response.headers.get("retry-after") or 1), 5.0)
            time.sleep(wait * random.uniform(0.5, 1))
        if response.status_code >= 400:
            raise _error(response)
        return response

    def events(
        self, method: str, path: str, who: Who, body: Any = None, *, after: int = 0
    ) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """The events of a stream as they come: number, name and data. One that breaks off is Unreachable."""
        import httpx2

        headers: dict[str, Any] = {"Accept": "text/event-stream", **({"Last-Event-ID": str(after)} if after else {})}
        headers |= _names(who)
        try:
            with self._http.stream(method, path, headers=headers, json=body, timeout=_SILENCE) as response:
                if response.status_code >= 400:
                    response.read()
                    raise _error(response)
                event: dict[str, str] = {}
                for line in response.iter_lines():
                    name, _, value = line.partition(": ")
                    if line:
                        event[name] = value
                    elif "event" in event:
                        yield int(event["id"]), event["event"], json.loads(event["data"])
                        event = {}
        except httpx2.TransportError as error:
            raise Unreachable(problem=f"{self.url} does not answer ({type(error).__name__})") from None

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _names(who: Who) -> dict[str, bytes]:
    """Whose memory, as headers say it."""
    return {name: value.encode() for name, value in (("X-Retain-User", who.user), ("X-Retain-Agent", who.agent)) if value}


class AsyncClient:
    """The same for asyncio: each call is one hop to a thread that waits for the server."""

    def __init__(self, url: str, key: str | None = None, *, seconds: float = 30.0, retries: int = 3) -> None:
        self.sync = Client(url, key, seconds=seconds, retries=retries)
        self._hop = Hop()

    def scope(self, user: str | None = None, agent: str | None = None) -> AsyncScope:
        """Whose memory, in the tenant that the key belongs to."""
        return AsyncScope(self.sync.scope(user, agent), self._hop)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._hop.close()
        self.sync.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _call(client: Client, who: Who, way: Way, method: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Send what a verb was given, and read what it returns."""
    said = {name: as_json(value) for name, value in given.items()}
    path = way.route
    for name in [name for name in said if f"{{{name}}}" in path or f"{{{name}:" in path]:
        path = _filled(path, name, str(said.pop(name)))
    if way.method in ("GET", "DELETE"):
        response = client.send(way.method, path, who, {name: _flat(value) for name, value in said.items()})
    else:
        response = client.send(way.method, path, who, {}, said)
    result = get_type_hints(method)["return"]
    return response.content if result is bytes else None if result is NoneType else _read(result, response.json())


def _filled(path: str, name: str, value: str) -> str:
    from urllib.parse import quote

    before, _, after = path.partition(f"{{{name}")
    return before + quote(value, safe="") + after.partition("}")[2]


def _flat(value: Any) -> Any:
    """A value as a query says it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and len(value) == 2 and all(isinstance(part, int) for part in value):
        return f"{value[0]}-{value[1]}"
    return value


def _verb(way: Way, method: Callable[..., Any]) -> Callable[..., Any]:
    """A verb with the signature of the library's, that asks the server."""
    signature = inspect.signature(method)

    def verb(self: Any, *args: Any, **named: Any) -> Any:
        bound = signature.bind(self, *args, **named).arguments
        given = {name: value for name, value in bound.items() if name != "self" and value is not None}
        if way.verb == "set" and "value" in bound:
            given["value"] = bound["value"]  # where None is a value, too
        return _call(self._client, self._who, way, method, given)

    verb.__doc__, verb.__name__, verb.__signature__ = method.__doc__, way.verb, signature  # type: ignore[attr-defined]
    return verb


def _remote(kind: type[Kind]) -> type[Kind]:
    """A kind whose verbs ask the server."""

    def start(self: Any, client: Client, who: Who) -> None:
        self._client, self._who = client, who

    verbs = {way.verb: _verb(way, getattr(kind, way.verb)) for way in WAYS if way.kind == kind.name}
    return type(f"Remote{kind.__name__}", (kind,), {"__init__": start, "__doc__": kind.__doc__, **verbs})


_REMOTE = {kind.name: _remote(kind) for kind in KINDS}
_OWN = {way.verb: way for way in SCOPE_WAYS}


class _RemoteScope(Scope):
    """A scope whose kinds are on a server; its tenant is the key's."""

    def __init__(self, client: Client, who: Who) -> None:
        self._client, self._who, self.who = client, who, who
        for name, kind in _REMOTE.items():
            setattr(self, name, kind(client, who))  # type: ignore[arg-type]

    def context(self, session: str, message: Any = "", *, budget: int | None = None, others: Sequence[str] = ()) -> Context:
        """What a model is given for a new message."""
        given = {"session": session, "message": as_json(message), "budget": budget, "others": list(others), "whole": True}
        body = {name: value for name, value in given.items() if value not in (None, [], "")}
        return Context.of_json(self._client.send("POST", _OWN["context"].route, self.who, {}, body).json()["whole"])

    def save_turn(
        self, session: str, messages: Any, *, usage: Any = None, key: str | None = None, context: Context | None = None
    ) -> Any:
        """Keep a turn."""
        body = {"session": session, "messages": as_json(list(messages)), "usage": as_json(usage), "key": key}
        body["report"] = None if context is None else context.report.as_json()
        body = {name: value for name, value in body.items() if value is not None}
        found = self._client.send("POST", _OWN["save_turn"].route, self.who, {}, body).json()
        return _read(get_type_hints(Scope.save_turn)["return"], found)

    def tools(self, names: Sequence[str] | None = None) -> Any:
        """Not over HTTP: a model reaches the server's tools by MCP, at /mcp."""
        raise Invalid(field="tools", problem="run where the memory is; over HTTP a model uses them by MCP, at /mcp")


_RemoteScope.search = _verb(_OWN["search"], Scope.search)  # type: ignore[method-assign]


def _read(hint: Any, value: Any) -> Any:
    """A JSON value as the record that it was."""
    origin, inside = get_origin(hint), get_args(hint)
    if value is None or hint is Any:
        return value
    if origin in (Union, UnionType):
        return _read(next(part for part in inside if part is not NoneType), value)
    if origin is Page:
        return Page([_read(inside[0], one) for one in value["data"]], value["next"])
    if origin in (list, Sequence):
        return [_read(inside[0], one) for one in value]
    if origin is tuple:
        return tuple(value)
    if origin in (dict, Mapping):
        return {name: _read(inside[1], one) for name, one in value.items()}
    if hint is datetime:
        return datetime.fromisoformat(value)
    if is_dataclass(hint) and isinstance(hint, type):
        return _record(hint, value)
    return value


def _record(kind: type, value: Mapping[str, Any]) -> Any:
    hints = get_type_hints(kind)
    raw = {Message: "content", Item: "value"}.get(kind)
    made = {one.name: _read(hints[one.name], value.get(one.name)) for one in fields(kind) if one.name != "raw"}
    if raw:
        made["raw"] = JsonText(json.dumps(value[raw], ensure_ascii=False, separators=(",", ":")))
    return kind(**made)


def _error(response: Any) -> RetainError:
    """The error that a problem stands for, as the library would have raised it."""
    try:
        said = response.json()
    except ValueError:
        said = {}
    name = "".join(part.title() for part in str(said.get("type", "")).rpartition("/")[2].split("-"))
    detail = str(said.get("detail") or f"The server answered {response.status_code}.")
    return error_of(
        name, detail, response.status_code, {name: said[name] for name in ("field", "request_id") if name in said}
    )


def error_of(name: str, detail: str, status: int, details: dict[str, Any]) -> RetainError:
    """An error of the library by its name, as a server tells it."""
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, RetainError)):
        kind = RetainError
    error: RetainError = kind.__new__(kind)
    Exception.__init__(error, detail)
    error.details, error.status = details, status
    return error
