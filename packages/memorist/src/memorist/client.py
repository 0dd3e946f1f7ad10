"""A client for a memorist server with the same verbs as the library.

`Client("https://…", key="mst_…").scope(user="ada", agent="scout")` returns a `Scope`. Each verb is one
request, built from its declaration. A request that gets no response is sent again; writes carry an
idempotency key, so that they happen once.
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

from memorist.aio import AsyncAdminAttributes, AsyncScope, WorkerThreads
from memorist.api.endpoints import SCOPE_ENDPOINTS, Endpoint
from memorist.api.record_parsing import from_json
from memorist.api.rendering import as_json
from memorist.base import canonical, errors, http, ids
from memorist.base.errors import (
    Invalid,
    MemoristError,
    NoServer,
    Overloaded,
    SettingsError,
)
from memorist.base.verbs import declared_verb
from memorist.context.assemble import Context
from memorist.kinds import KINDS
from memorist.kinds.kind import Kind, Owner
from memorist.memory import ADMIN_KINDS, AdminAttributes, Administration, Scope

KEY_VARIABLE = "MEMORIST_KEY"
MAX_PAUSE_SECONDS = 5.0  # in addition to Retry-After
MAX_RETRY_AFTER_SECONDS = 30.0
MAX_SILENCE_SECONDS = 60.0  # of a stream, which sends a heartbeat every few seconds

OnEvent = Callable[[str, dict[str, Any]], None]
"""A callback for the events of a turn: their name and data."""

_RETRIED_STATUSES = (429, 503)
_READ_ROUTES = frozenset(endpoint.route for endpoint in SCOPE_ENDPOINTS if endpoint.needs == "read")
_CONTENT_TYPES = ("application/json", "application/octet-stream", "")
_ERRORS_BY_STATUS = {  # for responses that name no error of memorist, such as a proxy's
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    412: errors.WrongVersion,
    413: errors.TooLarge,
    429: errors.TooMany,
    503: errors.Overloaded,
    507: errors.Full,
}


class Client(AdminAttributes):
    """A connection to a memorist server.

    url:     the address of the server
    key:     the API key; by default the environment variable MEMORIST_KEY
    seconds: timeout of a request
    retries: how often a request without a response is sent again
    """

    def __init__(
        self, url: str, key: str | None = None, *, seconds: float = 30.0, retries: int = 3
    ) -> None:
        import httpx2

        key = os.environ.get(KEY_VARIABLE, "") if key is None else key
        if not (key.isascii() and key.isprintable()):
            problem = "contains characters that are not valid in a key; copy it again"
            raise SettingsError(where="key", problem=problem)
        if not url.startswith(("http://", "https://")):
            problem = f"must begin with http:// or https://, not {url!r}"
            raise SettingsError(where="url", problem=problem)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            self._http = http.client(base_url=url.rstrip("/"), headers=headers, timeout=seconds)
        except httpx2.InvalidURL as error:
            problem = f"{url!r} is not a valid URL: {error}"
            raise SettingsError(where="url", problem=problem) from None
        host = self._http.base_url.host
        if not host or "%" in host:
            raise SettingsError(where="url", problem=f"{url!r} does not name a server")
        self._retries = retries
        self.url = url

    def scope(self, *, user: str | None = None, agent: str | None = None) -> Scope:
        """Return the memory of a user and an agent in the tenant of the key."""
        if user is not None:
            canonical.key(user, "user")
        if agent is not None:
            canonical.key(agent, "agent")
        return _RemoteScope(self, Owner("", user, agent))

    @property
    def admin(self) -> Administration:
        """The administration of the tenant of the key, which needs the permission admin."""
        return _RemoteAdministration(self)

    def send(
        self, method: str, path: str, owner: Owner, query: Mapping[str, Any], body: Any = None
    ) -> Any:
        """Send a request, retry it after a temporary failure, and return the response."""
        import httpx2

        headers, names = _scope_names(owner)
        if method != "GET" and path not in _READ_ROUTES:
            headers["Idempotency-Key"] = ids.uuid7()
        content = _encode_body(body, headers)
        for retries_left in reversed(range(self._retries + 1)):
            try:
                response = self._http.request(
                    method, path, params={**query, **names}, headers=headers, content=content
                )
            except httpx2.RequestError as error:
                if not retries_left:
                    raise self._no_server(_problem(error)) from None
                self._back_off(retries_left - 1)
                continue
            if response.status_code not in _RETRIED_STATUSES or not retries_left:
                break
            retry_after = http.retry_after(response.headers.get("retry-after"), default=1.0)
            if retry_after > MAX_RETRY_AFTER_SECONDS:
                break
            self._back_off(retries_left - 1, retry_after)
        if response.status_code >= 300:
            raise _error_of_response(response)
        content_type = response.headers.get("content-type", "").partition(";")[0]
        if content_type not in _CONTENT_TYPES:
            raise self._no_server(f"it sent {content_type}, which a memorist server never sends")
        return response

    def events(
        self, method: str, path: str, owner: Owner, body: Any = None, *, after: int = 0
    ) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Yield the number, name and data of each event of a stream.

        Raises NoServer if the stream breaks off.
        """
        import httpx2

        headers, names = _scope_names(owner)
        headers["Accept"] = "text/event-stream"
        if after:
            headers["Last-Event-ID"] = str(after)
        if names:
            path += ("&" if "?" in path else "?") + urlencode(names)
        content = _encode_body(body, headers)
        try:
            with self._http.stream(
                method, path, headers=headers, content=content, timeout=MAX_SILENCE_SECONDS
            ) as response:
                if response.status_code >= 300:
                    response.read()
                    raise _error_of_response(response)
                event: dict[str, str] = {}
                for line in response.iter_lines():
                    name, _, value = line.partition(": ")
                    if line:
                        event[name] = value
                    elif "event" in event:
                        yield int(event["id"]), event["event"], json.loads(event["data"])
                        event = {}
        except httpx2.RequestError as error:
            raise self._no_server(_problem(error)) from None

    def chat(
        self, message: str, *, on_event: OnEvent | None = None, **options: Any
    ) -> dict[str, Any]:
        """Run one turn with an agent and return its answer; options are those of `chat_events`."""
        answer: dict[str, Any] = {}
        for name, data in self.chat_events(message, **options):
            if on_event:
                on_event(name, data)
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
        """Run one turn and yield its events as they happen; a stream that breaks off is resumed.

        If the server stops during the turn, another server restarts the answer and sends a new
        `start` event. In a group, an agent that fails sends an `error` event. If no agent answers, the
        first error is raised at the end.
        """
        key = key or ids.uuid7()
        fields: dict[str, Any] = {
            "message": message,
            "session_id": session,
            "user": user,
            "agent_id": agent,
            "key": key,
            "agents": list(agents),
            "images": list(images),
            "stream": True,
        }
        body = {name: value for name, value in fields.items() if value not in (None, [])}
        first_error: MemoristError | None = None
        is_answered = False
        resume_path = ""
        last_number = 0
        retries_left = self._retries
        restarts_left = self._retries  # a new event does not reset it
        while True:
            if resume_path:
                owner = Owner("", user, agent)
                events = self.events("GET", resume_path, owner, after=last_number)
            else:
                events = self.events("POST", "/api/chat", Owner(""), body, after=last_number)
            try:
                for number, name, data in events:
                    if name == "done":
                        if first_error and not is_answered:
                            raise first_error
                        return
                    if number > last_number:
                        retries_left = self._retries
                    last_number = number
                    resume_path = data.get("resume", resume_path)
                    is_answered = is_answered or name == "message"
                    if name == "error":
                        error = make_error(
                            data["type"], data["detail"], data["status"], {"key": key}
                        )
                        if isinstance(error, Overloaded) and not agents and restarts_left:
                            # A request with the same key continues the turn.
                            restarts_left -= 1
                            resume_path, last_number = "", 0
                            body["session_id"] = data["session_id"]
                            break
                        first_error = first_error or error
                    yield name, data
                else:
                    raise self._no_server("it closed the stream before the end of the answer")
            except (NoServer, Overloaded) as failure:
                if failure is first_error or not retries_left:
                    raise
                retries_left -= 1
            self._back_off(min(retries_left, restarts_left))

    def _back_off(self, retries_left: int, retry_after: float = 0.0) -> None:
        """Wait before a retry: as long as the server asks, and some time more, longer each time."""
        attempt = self._retries - retries_left - 1
        seconds = min(0.1 * 4**attempt, MAX_PAUSE_SECONDS)
        time.sleep(retry_after + seconds * random.uniform(0.5, 1))

    def _no_server(self, problem: str) -> NoServer:
        return NoServer(url=self.url, problem=problem)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(AsyncAdminAttributes):
    """The same client for asyncio; each call waits for the server in a worker thread."""

    def __init__(
        self, url: str, key: str | None = None, *, seconds: float = 30.0, retries: int = 3
    ) -> None:
        self.sync = Client(url, key, seconds=seconds, retries=retries)
        self._threads = WorkerThreads()
        super().__init__(self.sync.admin, self._threads)

    def scope(self, *, user: str | None = None, agent: str | None = None) -> AsyncScope:
        """Return the memory of a user and an agent in the tenant of the key."""
        return AsyncScope(self.sync.scope(user=user, agent=agent), self._threads)

    async def chat(
        self, message: str, *, on_event: OnEvent | None = None, **options: Any
    ) -> dict[str, Any]:
        """Run one turn with an agent and return its answer; `on_event` runs in another thread."""
        return await self._threads(self.sync.chat, message, on_event=on_event, **options)

    async def chat_events(
        self, message: str, **options: Any
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Run one turn and yield its events as they happen."""
        events = self.sync.chat_events(message, **options)
        try:
            while event := await self._threads(next, events, None):
                yield event
        finally:
            with suppress(ValueError):  # a thread still waits for the next event
                events.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._threads.close()
        self.sync.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


# -- remote kinds and scope ---------------------------------------------------


def _remote_verb(endpoint: Endpoint, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a verb with the signature of the library's that sends a request."""
    signature = inspect.signature(method)

    def verb(self: Any, *args: Any, **named: Any) -> Any:
        bound = signature.bind(self, *args, **named).arguments
        arguments = {
            name: value for name, value in bound.items() if name != "self" and value is not None
        }
        if endpoint.verb == "set" and "value" in bound:
            arguments["value"] = bound["value"]  # None is a valid value
        return _call(self._client, self._owner, endpoint, method, arguments)

    verb.__doc__ = method.__doc__
    verb.__name__ = endpoint.verb
    verb.__signature__ = signature  # type: ignore[attr-defined]
    return verb


def _remote_kind(kind: type[Kind]) -> type[Kind]:
    """Return a kind whose verbs send requests."""

    def init(self: Any, client: Client, owner: Owner) -> None:
        self._client = client
        self._owner = owner

    members: dict[str, Any] = {"__init__": init, "__doc__": kind.__doc__}
    for endpoint in kind.verbs.values():
        if endpoint.request:
            members[endpoint.verb] = _remote_verb(endpoint, getattr(kind, endpoint.verb))
    return type(f"Remote{kind.__name__}", (kind,), members)


_REMOTE_KINDS = {kind.name: _remote_kind(kind) for kind in KINDS}
_REMOTE_ADMIN_KINDS = {kind.name: _remote_kind(kind) for kind in ADMIN_KINDS}


class _RemoteAdministration(Administration):
    """The administration of the tenant of the key, on a server."""

    def __init__(self, client: Client) -> None:
        for name, kind in _REMOTE_ADMIN_KINDS.items():
            setattr(self, name, kind(client, Owner("")))  # type: ignore[arg-type]


class _RemoteScope(Scope):
    """A scope on a server, in the tenant of the key."""

    def __init__(self, client: Client, owner: Owner) -> None:
        self._client = client
        self._owner = owner
        self.owner = owner
        for name, kind in _REMOTE_KINDS.items():
            setattr(self, name, kind(client, owner))  # type: ignore[arg-type]

    @property
    def admin(self) -> Administration:
        """The administration of the tenant of the key."""
        return self._client.admin

    def context(
        self,
        session: str,
        message: Any = "",
        *,
        budget: int | None = None,
        others: Sequence[str] = (),
    ) -> Context:
        """Return the context for a new message."""
        fields = {
            "session": session,
            "message": as_json(message),
            "budget": budget,
            "others": list(others),
            "whole": True,
        }
        body = {name: value for name, value in fields.items() if value not in (None, [], "")}
        route = declared_verb(Scope.context).route
        response = self._client.send("POST", route, self.owner, {}, body)
        return Context.from_json(response.json()["whole"])

    def save_turn(
        self,
        session: str,
        messages: Any,
        *,
        usage: Any = None,
        key: str | None = None,
        context: Context | None = None,
    ) -> Any:
        """Save a turn."""
        fields = {
            "session": session,
            "messages": as_json(list(messages)),
            "usage": as_json(usage),
            "key": key,
            "report": None if context is None else context.report.as_json(),
        }
        body = {name: value for name, value in fields.items() if value is not None}
        route = declared_verb(Scope.save_turn).route
        response = self._client.send("POST", route, self.owner, {}, body)
        return from_json(get_type_hints(Scope.save_turn)["return"], response.json())

    def tools(self, names: Sequence[str] | None = None, *, session: str | None = None) -> Any:
        """Raise Invalid: over HTTP, a model uses the server's tools through MCP."""
        raise Invalid(
            field="tools",
            problem="are not available over HTTP; connect the model to the MCP server at /mcp",
        )


_RemoteScope.search = _remote_verb(  # type: ignore[method-assign]
    declared_verb(Scope.search), Scope.search
)


# -- requests -----------------------------------------------------------------


def _problem(error: Exception) -> str:
    """Return the class of an error, and its text if it has one."""
    return ": ".join(filter(None, (type(error).__name__, str(error).rstrip("."))))


def _call(
    client: Client,
    owner: Owner,
    endpoint: Endpoint,
    method: Callable[..., Any],
    arguments: Mapping[str, Any],
) -> Any:
    """Send the request of a verb and return its result."""
    fields = {name: as_json(value) for name, value in arguments.items()}
    path = endpoint.route
    for name in list(fields):
        if f"{{{name}}}" in path or f"{{{name}:" in path:
            path = _fill_path(path, name, str(fields.pop(name)))
    if endpoint.method in ("GET", "DELETE"):
        query = {name: _query_value(value) for name, value in fields.items()}
        response = client.send(endpoint.method, path, owner, query)
    else:
        response = client.send(endpoint.method, path, owner, {}, fields)
    result = get_type_hints(method)["return"]
    if result is bytes:
        return response.content
    if result is NoneType:
        return None
    return from_json(result, response.json())


def _fill_path(path: str, name: str, value: str) -> str:
    """Replace `{name}` or `{name:path}` in a route."""
    before, _, after = path.partition(f"{{{name}")
    return before + quote(value, safe="") + after.partition("}")[2]


def _query_value(value: Any) -> Any:
    """Return a value in the form of a query parameter."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, list):
        if len(value) == 2 and all(isinstance(part, int) for part in value):
            return f"{value[0]}-{value[1]}"
        if any(canonical.split_list(item) != [item] for item in value):
            return json.dumps(value)
    return value


def _scope_names(owner: Owner) -> tuple[dict[str, str], dict[str, str]]:
    """Return user and agent as headers, or as parameters if a header cannot carry the name."""
    headers = {}
    query = {}
    for name, value in (("user", owner.user), ("agent", owner.agent)):
        if value is None:
            continue
        is_header_safe = value.isascii() and value.isprintable() and value == value.strip() != ""
        if is_header_safe:
            headers[f"X-Memorist-{name.title()}"] = value
        else:
            query[name] = value.encode("utf-8", "replace").decode()
    return headers, query


def _encode_body(body: Any, headers: dict[str, str]) -> bytes | None:
    """Return a body as JSON, and set its content type in the headers."""
    if body is None:
        return None
    headers["Content-Type"] = "application/json"
    try:
        return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    except (TypeError, ValueError) as error:
        raise Invalid(field="arguments", problem=f"cannot be sent as JSON: {error}") from None


# -- errors -------------------------------------------------------------------


def _error_of_response(response: Any) -> MemoristError:
    """Return the error that an error response describes."""
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    slug = str(problem.get("type", "")).rpartition("/")[2]
    name = "".join(part.title() for part in slug.split("-"))
    detail = str(problem.get("detail") or f"The server answered {response.status_code}.")
    location = response.headers.get("location")
    if location and response.status_code < 400:
        detail += f" It redirects to {location}: use that address for the client."
    details = {field: problem[field] for field in ("field", "request_id") if field in problem}
    return make_error(name, detail, response.status_code, details)


def make_error(name: str, detail: str, status: int, details: dict[str, Any]) -> MemoristError:
    """Return the error of a name, or of a status if there is no error of that name."""
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, MemoristError)):
        kind = _ERRORS_BY_STATUS.get(status, Invalid if 400 <= status < 500 else MemoristError)
    error: MemoristError = kind.__new__(kind)
    Exception.__init__(error, detail)
    error.set_details(details)
    error.status = status
    return error
