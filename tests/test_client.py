"""The HTTP client: the same signatures, records and errors as the library."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from memorist import AsyncClient, Client, Scope
from memorist.api import problem
from memorist.api.endpoints import ENDPOINTS
from memorist.base import errors, ids
from memorist.base.errors import (
    Conflict,
    Forbidden,
    Full,
    Invalid,
    MemoristError,
    ModelUnavailable,
    NoServer,
    NotFound,
    Overloaded,
    SettingsError,
    TooLarge,
    TooMany,
    Unauthorized,
    Unreachable,
    WrongVersion,
)
from memorist.testing import ScriptedModel
from testkit.failures import invalid, raised
from testkit.memories import scope_of
from testkit.talking import WAIT, PausingModel, RunningServer, serve

talking = contextmanager(serve)


@pytest.fixture(scope="module")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server for the tests that do not depend on the engine."""
    with talking(f"sqlite:///{tmp_path_factory.mktemp('client')}/agent.db", None) as running_server:
        yield running_server


@pytest.fixture
def client(running_server: RunningServer) -> Iterator[Client]:
    with Client(running_server.url, running_server.key) as client:
        yield client


@pytest.fixture
def user() -> str:
    """A user without any memory."""
    return ids.uuid7()


@pytest.fixture
def remote_scope(client: Client, user: str) -> Scope:
    return client.scope(user=user, agent="scout")


@pytest.fixture
def local_scope(running_server: RunningServer, user: str) -> Scope:
    return scope_of(running_server.memory, user, "scout")


class LossyProxy(socketserver.ThreadingTCPServer):
    """A proxy that can lose a response or cut every connection."""

    daemon_threads = allow_reuse_address = True

    def __init__(self, url: str) -> None:
        self.behind = urlsplit(url)
        self.lose, self.lost = False, 0
        self.open: list[socket.socket] = []
        super().__init__(("127.0.0.1", 0), ProxyHandler)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def cut(self) -> None:
        """Close every connection."""
        for item in self.open:
            with suppress(OSError):
                item.shutdown(socket.SHUT_RDWR)

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.cut()
        self.server_close()


class ProxyHandler(socketserver.BaseRequestHandler):
    """Forwards data in both directions."""

    server: LossyProxy

    def handle(self) -> None:
        address = (self.server.behind.hostname or "", self.server.behind.port or 0)
        with socket.create_connection(address) as behind, suppress(OSError):
            self.server.open += [self.request, behind]
            threading.Thread(target=self.ask, args=(behind,), daemon=True).start()
            while piece := behind.recv(65536):
                if self.server.lose:
                    self.server.lose, self.server.lost = False, self.server.lost + 1
                    return
                self.request.sendall(piece)

    def ask(self, behind: socket.socket) -> None:
        with suppress(OSError):
            while piece := self.request.recv(65536):
                behind.sendall(piece)


class ScriptedHandler(BaseHTTPRequestHandler):
    """Sends scripted responses and records the requests."""

    server: ScriptedServer

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers["content-length"] or 0))
        self.server.requests.append(self)
        status, headers, body = self.server.answers.pop(0)
        if status == 0:  # hang up
            self.connection.close()
            return
        self.send_response(status)
        for name, value in {
            "retry-after": "0",
            "content-length": str(len(body)),
            **headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 the library's names

    def log_message(self, *_: object) -> None:
        pass


class ScriptedServer(ThreadingHTTPServer):
    """A server that is not memorist and sends scripted responses."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Mapping[str, str], bytes]] = []
        self.requests: list[ScriptedHandler] = []
        super().__init__(("127.0.0.1", 0), ScriptedHandler)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server
        server.shutdown()


# -- the same as the library -------------------------------------------------------------------------------------------


def test_every_verb_has_the_signature_of_the_library(
    remote_scope: Scope, local_scope: Scope
) -> None:
    for endpoint in ENDPOINTS:
        remote, own = (
            getattr(getattr(remote_scope, endpoint.kind), endpoint.verb),
            getattr(getattr(local_scope, endpoint.kind), endpoint.verb),
        )
        assert inspect.signature(remote) == inspect.signature(own)
        assert remote.__doc__ == own.__doc__


def test_a_list_with_a_comma_is_one_element(remote_scope: Scope, local_scope: Scope) -> None:
    place = ("tea, black", "coffee")
    stored = local_scope.items.put(place, "k", {"n": 1})
    assert remote_scope.items.list(place).items == [stored]


def test_a_blank_user_is_not_every_user() -> None:
    """A forgotten name must not widen access."""
    with Client("http://127.0.0.1:9") as client:
        for wrong in ("", " ", 5):
            invalid("user", client.scope, user=wrong)


def test_errors_equal_those_of_the_library(remote_scope: Scope) -> None:
    with pytest.raises(NotFound, match="no session 'nope'"):
        remote_scope.sessions.get("nope")
    invalid("role", remote_scope.messages.append, "nope", "nobody", "x")
    remote_scope.notes.overwrite("a")
    with pytest.raises(WrongVersion, match="at version 1, not 7"):
        remote_scope.notes.append("b", if_version=7)
    with pytest.raises(TypeError):
        remote_scope.sessions.get()  # type: ignore[call-arg]


def test_the_async_client_returns_the_same_records(
    running_server: RunningServer, user: str
) -> None:
    async def go() -> Any:
        async with AsyncClient(running_server.url, running_server.key) as remote:
            me = remote.scope(user=user, agent="scout")
            session = await me.sessions.resume()
            return await asyncio.gather(
                *[me.messages.append(session.id, "user", str(n)) for n in range(8)]
            )

    assert sorted(message.seq for message in asyncio.run(go())) == list(range(1, 9))


def test_names_that_headers_cannot_carry_round_trip(
    running_server: RunningServer, client: Client, user: str
) -> None:
    for name in (f" {user}", f"{user} ", f"Zoë {user}", f"文 {user}", f"a&b=c%20+ {user}"):
        client.scope(user=name, agent=f"{name} & co").state.set("k", name)
        assert client.scope(user=name, agent=f"{name} & co").state.get("k").value == name
        assert scope_of(running_server.memory, name).state.get("k").value == name
        client.scope(user=name, agent=f"{name} & co").notes.overwrite("x")
        assert scope_of(running_server.memory, name, f"{name} & co").notes.read().text == "x"
    invalid("user", client.scope, user="", agent="scout")


# -- when answers are lost ---------------------------------------------------------------------------------------------


def test_a_write_is_repeated_after_a_lost_response_and_happens_once(
    running_server: RunningServer, local_scope: Scope, user: str
) -> None:
    """P2: every kind of write has its effect once and returns the first result again."""
    with LossyProxy(running_server.url) as proxy, Client(proxy.url, running_server.key) as client:
        remote_scope = client.scope(user=user, agent="scout")

        def losing(verb: Callable[..., Any], *args: Any, **named: Any) -> Any:
            lost, proxy.lose = proxy.lost, True
            result = verb(*args, **named)
            assert proxy.lost == lost + 1
            return result

        session = losing(remote_scope.sessions.add, f"{user}-trip")
        assert losing(remote_scope.messages.append, session.id, "user", "Hello").seq == 1
        assert losing(remote_scope.notes.append, "One").version == 1
        assert losing(remote_scope.notes.overwrite, "Two", if_version=1) == local_scope.notes.read()
        assert losing(remote_scope.state.set, "k", 1).version == 1
        assert losing(remote_scope.state.set, "k", 2, if_version=1).version == 2
        assert local_scope.state.get("k").version == 2
        entry = losing(remote_scope.entries.add, "Ada likes tea", kind="core")
        assert losing(remote_scope.entries.edit, entry.id, "Ada likes coffee").version == 2
        assert losing(remote_scope.agents.add, user).version == 1
        assert losing(remote_scope.agents.edit, user, prompt="Be short.").version == 2
        assert losing(remote_scope.notes.clear).version == 3
        for remove, what in (
            (remote_scope.state.remove, "k"),
            (remote_scope.entries.remove, entry.id),
            (remote_scope.agents.remove, user),
        ):
            losing(remove, what)
            raised(NotFound, losing, remove, what)
        assert len(losing(remote_scope.messages.list, session.id).items) == 1
        losing(remote_scope.sessions.remove, session.id)
        assert not local_scope.sessions.list().items


def test_a_retry_has_the_same_idempotency_key(scripted: ScriptedServer) -> None:
    """P2: a client that lost the response sends the same request again."""
    body = b'{"type": "/problems/unauthorized", "detail": "A key is needed"}'
    scripted.answers = [(0, {}, b""), (503, {}, b""), (401, {}, body)]
    with Client(scripted.url) as client, pytest.raises(Unauthorized, match="A key is needed"):
        client.scope(user="ada").sessions.add("trip")
    assert len(scripted.requests) == 3
    assert len({request.headers["idempotency-key"] for request in scripted.requests}) == 1


def test_reads_have_no_idempotency_key(scripted: ScriptedServer) -> None:
    scripted.answers = [(404, {}, b"")] * 7
    with Client(scripted.url) as client:
        me = client.scope(user="ada", agent="scout")
        requests: tuple[Callable[[], object], ...] = (
            lambda: me.search("x"), lambda: me.context("s"), lambda: me.notes.read(),
            lambda: me.notes.append("x"), lambda: me.state.set("k", 1),
            lambda: me.agents.edit("a"), lambda: me.notes.clear(),
        )  # fmt: skip
        for verb in requests:
            raised(NotFound, verb)
    assert ["idempotency-key" in request.headers for request in scripted.requests] == [
        False
    ] * 3 + [True] * 4


@pytest.mark.parametrize(
    "said",
    ["0", "-3", "nan", "soon", "Fri, 31 Dec 1999 23:59:59 GMT", "", "Mon, 99 Foo 0000 00:00:00"],
)
def test_every_form_of_retry_after_is_parsed(scripted: ScriptedServer, said: str) -> None:
    scripted.answers = [
        (429, {"retry-after": said}, b"{}"),
        (503, {"retry-after": "0"}, b"{}"),
        (200, JSON, PAGE),
    ]
    with Client(scripted.url) as client:
        assert not client.scope(user="ada").sessions.list().items


def test_no_retry_before_the_time_that_the_server_asks_for(
    scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("memorist.client.time.sleep", pauses.append)
    scripted.answers = [(429, {"retry-after": "20"}, b"{}"), (200, JSON, PAGE)]
    with Client(scripted.url) as client:
        assert not client.scope(user="ada").sessions.list().items
    assert 20 < pauses[0] < 21


def test_a_long_retry_after_is_left_to_the_caller(scripted: ScriptedServer) -> None:
    scripted.answers = [(503, {"retry-after": "31"}, b"{}"), (200, JSON, PAGE)]
    with Client(scripted.url) as client, pytest.raises(Overloaded):
        client.scope(user="ada").sessions.list()
    assert len(scripted.requests) == 1


# -- what goes wrong ---------------------------------------------------------------------------------------------------

JSON = {"content-type": "application/json"}
PAGE = b'{"data": [], "next": null}'
KINDS: list[type[MemoristError]] = sorted(
    (
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, MemoristError)
    ),
    key=str,
)


def test_every_error_type_is_rebuilt_from_the_response(scripted: ScriptedServer) -> None:
    """Type, message, status and field are those of the library."""
    with Client(scripted.url, retries=0) as client:
        for kind in KINDS:
            named = re.sub("(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower()
            result = problem.response(kind.status, "Try this.", "r1", type=named, field="name")
            scripted.answers = [(result.status_code, dict(result.headers), bytes(result.body))]
            with pytest.raises(MemoristError, match=r"Try this\.") as error:
                client.scope(user="ada").sessions.list()
            assert (type(error.value), error.value.status) == (kind, kind.status)
            assert (error.value.field, error.value.request_id) == ("name", "r1")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Invalid), (401, Unauthorized), (403, Forbidden), (404, NotFound), (405, Invalid), (408, Invalid),
        (409, Conflict), (412, WrongVersion), (413, TooLarge), (415, Invalid), (421, Invalid), (422, Invalid),
        (429, TooMany), (500, MemoristError), (502, MemoristError), (503, Overloaded), (507, Full), (307, MemoristError),
    ],
)  # fmt: skip
def test_every_error_status_raises_a_memorist_error(
    scripted: ScriptedServer, status: int, kind: type[MemoristError]
) -> None:
    """Also if a proxy responds, or with an unknown error type."""
    with Client(scripted.url, retries=0) as client:
        for body in (b"<h1>Sorry</h1>", b"[1]", b'{"type": "/problems/other"}'):
            scripted.answers = [(status, {"location": "https://elsewhere/"}, body)]
            with pytest.raises(kind, match=str(status)) as error:
                client.scope(user="ada").sessions.list()
            assert error.value.status == status
            assert ("https://elsewhere/" in str(error.value)) == (status == 307)


def test_a_missing_server_is_unreachable() -> None:
    with Client("http://127.0.0.1:9", retries=0) as client:
        error = raised(Unreachable, client.scope(user="ada").sessions.list)
    assert "http://127.0.0.1:9" in str(error)


def test_a_value_that_json_cannot_represent_is_invalid() -> None:
    with Client("http://127.0.0.1:9", retries=0) as client:
        raised(Invalid, client.scope(user="ada").state.set, "k", {1, 2})


def test_another_server_is_rejected(scripted: ScriptedServer) -> None:
    scripted.answers = [(200, {"content-type": "text/html; charset=utf-8"}, b"<h1>Welcome</h1>")]
    with Client(scripted.url) as client, pytest.raises(NoServer, match="it sent text/html"):
        client.scope(user="ada").sessions.list()


@pytest.mark.parametrize(
    "url", ["127.0.0.1:7700", "localhost", "", "ftp://a", "http://", "http://[", "http://a:b"]
)
def test_an_invalid_address_is_rejected(url: str) -> None:
    with pytest.raises(SettingsError, match="url: "):
        Client(url)


@pytest.mark.parametrize("key", ["mst_a\nb", "mst_ä"])
def test_an_invalid_key_is_rejected_and_not_shown(key: str) -> None:
    with pytest.raises(SettingsError, match="key: ") as error:
        Client("http://127.0.0.1:9", key)
    assert "mst_" not in str(error.value)


def test_the_key_defaults_to_the_environment(
    running_server: RunningServer, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORIST_KEY", running_server.key)
    with Client(f"{running_server.url}/") as client:
        assert not client.scope(user=ids.uuid7()).sessions.list().items
    scripted.answers = [(200, JSON, PAGE)] * 2
    for key in ("mst_own", ""):
        with Client(scripted.url, key) as client:
            client.scope(user="ada").sessions.list()
    assert [request.headers["authorization"] for request in scripted.requests] == [
        "Bearer mst_own",
        None,
    ]


def test_closing_releases_the_connections(running_server: RunningServer, user: str) -> None:
    with LossyProxy(running_server.url) as proxy:
        client = Client(proxy.url, running_server.key)
        client.scope(user=user).sessions.list()
        client.close()
        client.close()
        proxy.open[0].settimeout(WAIT)
        assert proxy.open[0].fileno() == -1 or proxy.open[0].recv(1) == b""


# -- chat --------------------------------------------------------------------------------------------------------------

SAID = "Your sister Clara lives in Lisbon."


def test_a_chat_turn_as_a_whole_and_as_events(tmp_path: Path) -> None:
    """Sync and async; the same key returns the same answer."""

    async def go(url: str, key: str) -> tuple[Any, list[Any]]:
        async with AsyncClient(url, key) as client:
            answer = await client.chat("Where?", user="Zoë", key="one")
            return answer, [
                name async for name, _ in client.chat_events("Where?", user="Zoë", key="one")
            ]

    with (
        talking(f"sqlite:///{tmp_path}/a.db", ScriptedModel(SAID)) as running_server,
        Client(running_server.url, running_server.key) as client,
    ):
        events: list[tuple[str, Any]] = []
        answer = client.chat(
            "Where?", user="Zoë", key="one", on_event=lambda name, data: events.append((name, data))
        )
        assert (
            answer["message"]
            == "".join(data["text"] for name, data in events if name == "text")
            == SAID
        )
        assert [events[0][0], events[-1]] == ["start", ("message", answer)]
        again, names = asyncio.run(go(running_server.url, running_server.key))
        assert (again["message"], again["again"], names[-1]) == (SAID, True, "message")
        assert len(client.scope(user="Zoë").messages.list(answer["session_id"]).items) == 2
        client.scope(user="Zoë").agents.add(
            "scout"
        )  # a tenant without agents creates the named one
        with pytest.raises(NotFound, match="nobody"):
            client.chat("Where?", user="Zoë", agent="nobody")


def test_a_broken_chat_stream_resumes(tmp_path: Path) -> None:
    """No text is missing or repeated."""
    model, pieces = PausingModel(SAID), []
    with (
        talking(f"sqlite:///{tmp_path}/a.db", model) as running_server,
        LossyProxy(running_server.url) as proxy,
        Client(proxy.url, running_server.key) as client,
    ):
        for name, data in client.chat_events("Where?", user="ada"):
            if name == "text":
                pieces.append(data["text"])
                if len(pieces) == 1:
                    assert model.halted.acquire(timeout=WAIT)
                    proxy.cut()
                    model.going.set()
        assert "".join(pieces) == data["message"] == SAID
        assert len(proxy.open) == 4, "it came back on a connection of its own"


def test_another_server_continues_a_turn_when_the_first_one_stops(tmp_path: Path) -> None:
    """The stopping server gives up the turn; with the same key, it is answered and saved once."""
    database = f"sqlite:///{tmp_path}/a.db"
    model = PausingModel(SAID)
    with (
        talking(database, model) as first,
        talking(database, ScriptedModel("Never asked.")) as second,
        LossyProxy(first.url) as proxy,
        Client(proxy.url, first.key) as client,
    ):
        received: list[tuple[str, Any]] = []
        for event in client.chat_events("Where?", user="ada"):
            received.append(event)
            names = [name for name, _ in received]
            if names == ["start", "text"]:
                assert model.halted.acquire(timeout=WAIT)
                proxy.behind = urlsplit(second.url)
                asyncio.run(first.app.state.runs.stop(0))
                model.going.set()
        answer = received[-1][1]
        assert (names.count("start"), names[-1], answer["message"]) == (2, "message", SAID)
        assert "error" not in names
        messages = client.scope(user="ada").messages.list(answer["session_id"]).items
        assert [message.text for message in messages] == ["Where?", SAID]


def _overloaded_stream(*names: str) -> tuple[int, Mapping[str, str], bytes]:
    """Return the response of a server that gives up each turn right after its start."""
    error = {"type": "Overloaded", "detail": "Stopping.", "status": 503, "session_id": "s"}
    data = {"start": {"resume": "/api/chat/turns/1"}, "error": error}
    lines = [
        f"id: {number}\nevent: {name}\ndata: {json.dumps(data.get(name, {}))}\n\n"
        for number, name in enumerate(names, 1)
    ]
    return 200, {"content-type": "text/event-stream"}, "".join(lines).encode()


def test_a_turn_that_every_server_gives_up_fails_after_the_retries(
    scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New events do not reset the number of restarts, nor the length of the pauses."""
    pauses: list[float] = []
    monkeypatch.setattr("memorist.client.time.sleep", pauses.append)
    scripted.answers = [_overloaded_stream("start", "error", "done") for _ in range(20)]
    with Client(scripted.url, retries=3) as client, pytest.raises(Overloaded, match="Stopping"):
        client.chat("Where?", user="ada")
    assert [request.command for request in scripted.requests] == ["POST"] * 4
    assert len(pauses) == 3
    assert pauses == sorted(pauses)


def test_a_group_in_which_every_agent_is_overloaded_fails_without_a_retry(
    scripted: ScriptedServer,
) -> None:
    scripted.answers = [_overloaded_stream("start", "error", "error", "done") for _ in range(20)]
    names: list[str] = []
    with Client(scripted.url) as client, pytest.raises(Overloaded, match="Stopping"):
        client.chat(
            "Where?",
            user="ada",
            agents=["scout", "guide"],
            on_event=lambda name, _: names.append(name),
        )
    assert names == ["start", "error", "error"]
    assert len(scripted.requests) == 1


def test_a_failed_turn_raises_the_model_error(tmp_path: Path) -> None:
    failing = ScriptedModel(ModelUnavailable(model="m", problem="it is away"))
    away = pytest.raises(ModelUnavailable, match="it is away")
    with (
        talking(f"sqlite:///{tmp_path}/a.db", failing) as running_server,
        Client(running_server.url, running_server.key) as client,
        away as result,
    ):
        client.chat("Where?", user="ada", key="one")
    assert result.value.key == "one"  # type: ignore[attr-defined]
