"""The same memory over HTTP: `Client("http://…", key="rtn_…").scope(user="ada", agent="scout")` is a Scope like any other.

Its verbs are the library's own, by name and signature; each is one request, built from the table of ways. A request whose
answer is lost is sent again: writes carry an idempotency key, so that they happen once and answer as the first time.
"""

from __future__ import annotations

import inspect
import json
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from types import NoneType
from typing import Any, Self, get_type_hints
from urllib.parse import quote, urlencode

from retain.aio import AsyncScope, WorkerThreads
from retain.api.endpoints import ENDPOINTS, SCOPE_ENDPOINTS, Endpoint
from retain.api.records import of_json
from retain.api.rendering import as_json
from retain.base import canonical, errors, ids
from retain.base.errors import Invalid, NoServer, RetainError, SettingsError
from retain.context.assemble import Context
from retain.kinds import KINDS
from retain.kinds.kind import Kind, Owner
from retain.memory import Scope

KEY = "RETAIN_KEY"
"""The environment's variable with the key, where none is given."""
Heard = Callable[[str, dict[str, Any]], None]
"""Who is told what happens in a turn: the name of an event, and its data."""
_AGAIN = (429, 503)
_LONGEST = 5.0
_READS = frozenset(endpoint.route for endpoint in SCOPE_ENDPOINTS if endpoint.needs == "read")
"""What is asked with POST and changes nothing."""
_MEDIA = ("application/json", "application/octet-stream", "")
_STATUSES = {
    401: errors.Unauthorized, 403: errors.Forbidden, 404: errors.NotFound, 409: errors.Conflict, 412: errors.WrongVersion,
    413: errors.TooLarge, 429: errors.TooMany, 503: errors.Overloaded, 507: errors.Full,
}  # fmt: skip
"""The errors of answers that do not name one of ours: a proxy's, or a request's that no verb has seen."""
_SILENCE = 60.0
"""How long a stream may say nothing, which has a beat every few seconds."""
_INSTALL = "the client needs one more library: install retain[client] from where you got retain"


class Client:
    """A retain server, by its address; `key` is taken from RETAIN_KEY where it is not given."""

    def __init__(
        self, url: str, key: str | None = None, *, seconds: float = 30.0, retries: int = 3
    ) -> None:
        try:
            import httpx2
        except ImportError:
            raise SettingsError(where="client", problem=_INSTALL) from None
        key = os.environ.get(KEY, "") if key is None else key
        if not (key.isascii() and key.isprintable()):
            raise SettingsError(where="key", problem="has letters that no key has; copy it again")
        if not url.startswith(("http://", "https://")):
            raise SettingsError(
                where="url", problem=f"must begin with http:// or https://, not {url!r}"
            )
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            self._http = httpx2.Client(
                base_url=url.rstrip("/"), headers=headers, timeout=seconds, follow_redirects=False
            )
        except httpx2.InvalidURL as error:
            raise SettingsError(where="url", problem=f"{url!r} is no address: {error}") from None
        if not (host := self._http.base_url.host) or "%" in host:
            raise SettingsError(where="url", problem=f"{url!r} names no server")
        self._retries = retries
        self.url = url

    def scope(self, *, user: str | None = None, agent: str | None = None) -> Scope:
        """Whose memory, in the tenant that the key belongs to."""
        for field, value in (("user", user), ("agent", agent)):
            if value is not None:
                canonical.key(value, field)
        return _RemoteScope(self, Owner("", user, agent))

    def send(
        self, method: str, path: str, owner: Owner, query: Mapping[str, Any], body: Any = None
    ) -> Any:
        """One request, tried again where that may help; the response, or the error that the server answered with."""
        import httpx2

        headers, names = _names(owner)
        if method != "GET" and path not in _READS:
            headers["Idempotency-Key"] = ids.uuid7()
        said = _said(body, headers)
        for left in reversed(range(self._retries + 1)):
            try:
                response = self._http.request(
                    method, path, params={**query, **names}, headers=headers, content=said
                )
            except httpx2.RequestError as error:
                if not left:
                    raise self._silent(type(error).__name__) from None
                self._rest(left - 1)
            else:
                if response.status_code not in _AGAIN or not left:
                    break
                time.sleep(pause(response.headers.get("retry-after")) * random.uniform(0.5, 1))
        if response.status_code >= 300:
            raise _error(response)
        media = response.headers.get("content-type", "").partition(";")[0]
        if media not in _MEDIA:
            raise self._silent(f"what is there answers with {media}, which retain does not")
        return response

    def events(
        self, method: str, path: str, owner: Owner, body: Any = None, *, after: int = 0
    ) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """The events of a stream as they come: number, name and data. One that breaks off is NoServer."""
        import httpx2

        headers, names = _names(owner)
        headers |= {
            "Accept": "text/event-stream",
            **({"Last-Event-ID": str(after)} if after else {}),
        }
        path += ("&" if "?" in path else "?") + urlencode(names) if names else ""
        said = _said(body, headers)
        try:
            with self._http.stream(
                method, path, headers=headers, content=said, timeout=_SILENCE
            ) as response:
                if response.status_code >= 300:
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
        except httpx2.RequestError as error:
            raise self._silent(type(error).__name__) from None

    def chat(self, message: str, *, heard: Heard | None = None, **how: Any) -> dict[str, Any]:
        """One turn with an agent: its answer. `heard` is told what happens meanwhile; `how` is as for `chat_events`."""
        answer: dict[str, Any] = {}
        for name, data in self.chat_events(message, **how):
            if heard:
                heard(name, data)
            if name == "message":
                answer = data
        return answer

    def chat_events(
        self,
        message: str,
        *,
        session: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        agents: Sequence[str] = (),
        images: Sequence[str] = (),
        key: str | None = None,
    ) -> Generator[tuple[str, dict[str, Any]]]:
        """One turn as it happens: names of events and their data. A stream that breaks off is taken up again.

        An agent of a group that fails is an `error` among the others' events; where nobody answers, it is raised at the end.
        """
        key = key or ids.uuid7()
        said: dict[str, Any] = {
            "message": message,
            "session_id": session,
            "user": user,
            "agent_id": agent,
            "key": key,
        }
        said |= {"agents": list(agents), "images": list(images), "stream": True}
        body = {name: value for name, value in said.items() if value not in (None, [])}
        failed, answered, resume, last, left = None, False, "", 0, self._retries
        while True:
            asked = (
                ("GET", resume, Owner("", user, agent))
                if resume
                else ("POST", "/api/chat", Owner(""), body)
            )
            try:
                for number, name, data in self.events(*asked, after=last):
                    if name == "done":
                        if failed and not answered:
                            raise failed
                        return
                    last, left = number, self._retries if number > last else left
                    resume, answered = data.get("resume", resume), answered or name == "message"
                    if name == "error":
                        failed = failed or error_of(
                            data["type"], data["detail"], data["status"], {"key": key}
                        )
                    yield name, data
                raise self._silent("it ended the answer in the middle")
            except NoServer:
                if not left:
                    raise
                left -= 1
            self._rest(left)

    def _rest(self, left: int) -> None:
        """Wait before a server that did not answer is asked again: longer each time, as it may be starting."""
        time.sleep(min(0.1 * 4 ** (self._retries - left - 1), _LONGEST) * random.uniform(0.5, 1))

    def _silent(self, problem: str) -> NoServer:
        return NoServer(url=self.url, problem=problem)

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _names(owner: Owner) -> tuple[dict[str, str], dict[str, str]]:
    """Whose memory, as headers, or as parameters where a header would not carry the name exactly."""
    headers, query = {}, {}
    for name, value in (("user", owner.user), ("agent", owner.agent)):
        if (
            value is not None
            and value.isascii()
            and value.isprintable()
            and value == value.strip() != ""
        ):
            headers[f"X-Retain-{name.title()}"] = value
        elif value is not None:
            query[name] = value.encode("utf-8", "replace").decode()
    return headers, query


def _said(body: Any, headers: dict[str, str]) -> bytes | None:
    """A body as it is sent, and what it is among the headers."""
    if body is None:
        return None
    headers["Content-Type"] = "application/json"
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def pause(said: str | None) -> float:
    """How many seconds to wait, as a `Retry-After` says it: so many, or until a moment."""
    from email.utils import parsedate_to_datetime

    try:
        seconds = float(said or 1)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(str(said)).timestamp() - time.time()
        except (ValueError, OverflowError):
            seconds = 1.0
    return min(max(0.0, seconds), _LONGEST)


class AsyncClient:
    """The same for asyncio: each call is one hop to a thread that waits for the server."""

    def __init__(
        self, url: str, key: str | None = None, *, seconds: float = 30.0, retries: int = 3
    ) -> None:
        self.sync = Client(url, key, seconds=seconds, retries=retries)
        self._threads = WorkerThreads()

    def scope(self, *, user: str | None = None, agent: str | None = None) -> AsyncScope:
        """Whose memory, in the tenant that the key belongs to."""
        return AsyncScope(self.sync.scope(user=user, agent=agent), self._threads)

    async def chat(self, message: str, *, heard: Heard | None = None, **how: Any) -> dict[str, Any]:
        """One turn with an agent: its answer. `heard` is told what happens meanwhile, in another thread."""
        return await self._threads(self.sync.chat, message, heard=heard, **how)

    async def chat_events(
        self, message: str, **how: Any
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """One turn as it happens, as the other client tells it."""
        events = self.sync.chat_events(message, **how)
        try:
            while found := await self._threads(next, events, None):
                yield found
        finally:
            with suppress(ValueError):  # its thread still waits for the next one, and ends with it
                events.close()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._threads.close()
        self.sync.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _call(
    client: Client,
    owner: Owner,
    endpoint: Endpoint,
    method: Callable[..., Any],
    given: Mapping[str, Any],
) -> Any:
    """Send what a verb was given, and read what it returns."""
    said = {name: as_json(value) for name, value in given.items()}
    path = endpoint.route
    for name in [name for name in said if f"{{{name}}}" in path or f"{{{name}:" in path]:
        path = _filled(path, name, str(said.pop(name)))
    if endpoint.method in ("GET", "DELETE"):
        response = client.send(
            endpoint.method, path, owner, {name: _flat(value) for name, value in said.items()}
        )
    else:
        response = client.send(endpoint.method, path, owner, {}, said)
    result = get_type_hints(method)["return"]
    return (
        response.content
        if result is bytes
        else None
        if result is NoneType
        else of_json(result, response.json())
    )


def _filled(path: str, name: str, value: str) -> str:
    before, _, after = path.partition(f"{{{name}")
    return before + quote(value, safe="") + after.partition("}")[2]


def _flat(value: Any) -> Any:
    """A value as a query says it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and len(value) == 2 and all(isinstance(part, int) for part in value):
        return f"{value[0]}-{value[1]}"
    if isinstance(value, dict) or (
        isinstance(value, list) and any(canonical.listed(one) != [one] for one in value)
    ):
        return json.dumps(value)
    return value


def _verb(endpoint: Endpoint, method: Callable[..., Any]) -> Callable[..., Any]:
    """A verb with the signature of the library's, that asks the server."""
    signature = inspect.signature(method)

    def verb(self: Any, *args: Any, **named: Any) -> Any:
        bound = signature.bind(self, *args, **named).arguments
        given = {
            name: value for name, value in bound.items() if name != "self" and value is not None
        }
        if endpoint.verb == "set" and "value" in bound:
            given["value"] = bound["value"]  # where None is a value, too
        return _call(self._client, self._owner, endpoint, method, given)

    verb.__doc__, verb.__name__, verb.__signature__ = method.__doc__, endpoint.verb, signature  # type: ignore[attr-defined]
    return verb


def _remote(kind: type[Kind]) -> type[Kind]:
    """A kind whose verbs ask the server."""

    def start(self: Any, client: Client, owner: Owner) -> None:
        self._client, self._owner = client, owner

    verbs = {
        endpoint.verb: _verb(endpoint, getattr(kind, endpoint.verb))
        for endpoint in ENDPOINTS
        if endpoint.kind == kind.name
    }
    return type(
        f"Remote{kind.__name__}", (kind,), {"__init__": start, "__doc__": kind.__doc__, **verbs}
    )


_REMOTE = {kind.name: _remote(kind) for kind in KINDS}
_OWN = {endpoint.verb: endpoint for endpoint in SCOPE_ENDPOINTS}


class _RemoteScope(Scope):
    """A scope whose kinds are on a server; its tenant is the key's."""

    def __init__(self, client: Client, owner: Owner) -> None:
        self._client, self._owner, self.owner = client, owner, owner
        for name, kind in _REMOTE.items():
            setattr(self, name, kind(client, owner))  # type: ignore[arg-type]

    def context(
        self,
        session: str,
        message: Any = "",
        *,
        budget: int | None = None,
        others: Sequence[str] = (),
    ) -> Context:
        """What a model is given for a new message."""
        given = {
            "session": session,
            "message": as_json(message),
            "budget": budget,
            "others": list(others),
            "whole": True,
        }
        body = {name: value for name, value in given.items() if value not in (None, [], "")}
        return Context.from_json(
            self._client.send("POST", _OWN["context"].route, self.owner, {}, body).json()["whole"]
        )

    def save_turn(
        self,
        session: str,
        messages: Any,
        *,
        usage: Any = None,
        key: str | None = None,
        context: Context | None = None,
    ) -> Any:
        """Keep a turn."""
        body = {
            "session": session,
            "messages": as_json(list(messages)),
            "usage": as_json(usage),
            "key": key,
        }
        body["report"] = None if context is None else context.report.as_json()
        body = {name: value for name, value in body.items() if value is not None}
        found = self._client.send("POST", _OWN["save_turn"].route, self.owner, {}, body).json()
        return of_json(get_type_hints(Scope.save_turn)["return"], found)

    def tools(self, names: Sequence[str] | None = None) -> Any:
        """Not over HTTP: a model reaches the server's tools by MCP, at /mcp."""
        raise Invalid(
            field="tools",
            problem="run where the memory is; over HTTP a model uses them by MCP, at /mcp",
        )


_RemoteScope.search = _verb(_OWN["search"], Scope.search)  # type: ignore[method-assign]


def _error(response: Any) -> RetainError:
    """The error that a problem stands for, as the library would have raised it."""
    try:
        said = response.json()
    except ValueError:
        said = {}
    said = said if isinstance(said, dict) else {}
    name = "".join(part.title() for part in str(said.get("type", "")).rpartition("/")[2].split("-"))
    detail = str(said.get("detail") or f"The server answered {response.status_code}.")
    if "location" in response.headers and response.status_code < 400:
        detail = f"{detail} It wants to be asked at {response.headers['location']}: give the client that address."
    return error_of(
        name,
        detail,
        response.status_code,
        {name: said[name] for name in ("field", "request_id") if name in said},
    )


def error_of(name: str, detail: str, status: int, details: dict[str, Any]) -> RetainError:
    """An error of the library by its name, as a server tells it; else by its status."""
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, RetainError)):
        kind = _STATUSES.get(status, Invalid if 400 <= status < 500 else RetainError)
    error: RetainError = kind.__new__(kind)
    Exception.__init__(error, detail)
    error.details, error.status = details, status
    return error
