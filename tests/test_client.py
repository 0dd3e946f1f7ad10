"""The library's calls over HTTP: the same signatures, records and errors."""

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
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from retain import AsyncClient, Client, Memory, Scope
from retain.api import problem
from retain.api.endpoints import ENDPOINTS
from retain.auth.api_keys import Keys
from retain.auth.principal import PERMISSIONS
from retain.base import clock, errors, ids
from retain.base.errors import (
    Conflict,
    Forbidden,
    Full,
    Invalid,
    ModelUnavailable,
    NoServer,
    NotFound,
    Overloaded,
    RetainError,
    SettingsError,
    TooLarge,
    TooMany,
    Unauthorized,
    Unreachable,
    WrongVersion,
)
from retain.client import retry_after_seconds
from retain.server.app import create_app
from retain.testing import ScriptedModel
from tests.server.talking import WAIT, PausingModel, RunningServer, serve
from tests.serving import serving

talking = contextmanager(serve)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One server for the tests that are about the client, and not about an engine."""
    with talking(f"sqlite:///{tmp_path_factory.mktemp('client')}/agent.db", None) as served:
        yield served


@pytest.fixture
def client(served: RunningServer) -> Iterator[Client]:
    with Client(served.url, served.key) as client:
        yield client


@pytest.fixture
def user() -> str:
    """Somebody who has no memory yet."""
    return ids.uuid7()


@pytest.fixture
def there(client: Client, user: str) -> Scope:
    return client.scope(user=user, agent="scout")


@pytest.fixture
def here(served: RunningServer, user: str) -> Scope:
    return served.memory.scope(tenant="acme", user=user, agent="scout")


class Losing(socketserver.ThreadingTCPServer):
    """A proxy that loses an answer once it is told to, and can cut every connection."""

    daemon_threads = allow_reuse_address = True

    def __init__(self, url: str) -> None:
        self.behind = urlsplit(url)
        self.lose, self.lost = False, 0
        self.open: list[socket.socket] = []
        super().__init__(("127.0.0.1", 0), Passing)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def cut(self) -> None:
        """End every connection."""
        for one in self.open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.cut()
        self.server_close()


class Passing(socketserver.BaseRequestHandler):
    """Passes on what comes, both ways."""

    server: Losing

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


class Answering(BaseHTTPRequestHandler):
    """Answers as it was told, and remembers the requests."""

    server: Scripted

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers["content-length"] or 0))
        self.server.asked.append(self)
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


class Scripted(ThreadingHTTPServer):
    """A server that is no retain: it answers with what it was told."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Mapping[str, str], bytes]] = []
        self.asked: list[Answering] = []
        super().__init__(("127.0.0.1", 0), Answering)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    with Scripted() as server:
        yield server
        server.shutdown()


# -- the same as the library -------------------------------------------------------------------------------------------


def test_every_verb_is_there_with_its_own_signature(there: Scope, here: Scope) -> None:
    for endpoint in ENDPOINTS:
        remote, own = (
            getattr(getattr(there, endpoint.kind), endpoint.verb),
            getattr(getattr(here, endpoint.kind), endpoint.verb),
        )
        assert inspect.signature(remote) == inspect.signature(own)
        assert remote.__doc__ == own.__doc__


def test_what_is_written_there_is_the_same_record_here(memory: Memory) -> None:
    """A1: on each engine, since records are what an engine returns."""
    here = memory.scope(tenant="acme", user="ada", agent="scout")
    _, key = Keys(memory.database).create("acme", "a test", PERMISSIONS)
    with serving(create_app(memory)) as url, Client(url, key) as client:
        _same_records(client.scope(user="ada", agent="scout"), here)


def _same_records(there: Scope, here: Scope) -> None:
    session = there.sessions.add("trip/1 ü", label="A trip")
    assert session == here.sessions.get(session.id)
    said = there.messages.append(session.id, "user", {"text": "Hi — ä", "n": [1, None]}, key="k")
    assert said == here.messages.get(session.id, 1)
    assert (
        there.messages.append(session.id, "user", {"text": "Hi — ä", "n": [1, None]}, key="k").seq
        == 1
    )
    assert (
        there.messages.extend(session.id, [{"role": "assistant", "content": "Hello"}])[0].text
        == "Hello"
    )
    assert (
        there.messages.list(session.id, limit=1).next
        == here.messages.list(session.id, limit=1).next
    )
    assert there.notes.overwrite("# Likes\n- tea") == here.notes.read()
    assert there.state.set("theme", None) == here.state.get("theme")
    place = ("a,b", '["c"]')  # a query says it otherwise than most
    assert there.items.put(place, "k/1", {"text": "harbour", "n": 1}) == here.items.get(
        place, "k/1"
    )
    assert there.items.list(place, where={"n": {"$gte": 1}}) == here.items.list()
    assert there.items.search("harbour", place) == here.items.search("harbour")
    assert there.items.places(("*",)) == here.items.places()
    assert there.refs.get(there.refs.add("a\nb\nc\n", key="abc"), lines=(2, 3)) == here.refs.get(
        "abc", lines=(2, 3)
    )
    assert there.refs.content("abc") == b"a\nb\nc\n"
    assert there.entries.add("Ada likes tea", kind="core") == here.entries.list().items[0]
    there.sessions.remove(session.id)
    assert not here.sessions.list().items


def test_what_is_found_and_assembled_is_the_same(there: Scope, here: Scope) -> None:
    session = here.sessions.add("trip").id
    here.messages.append(session, "user", "My sister Clara lives in Lisbon")
    found = there.search("Where does Clara live?", kinds=["messages"])
    assert found.hits[0].text == "My sister Clara lives in Lisbon"
    assert found.hits[0].legs == here.search("Where does Clara live?").hits[0].legs
    context = there.context(session, "Where does Clara live?", budget=1000)
    own = here.context(session, "Where does Clara live?", budget=1000)
    assert context.messages == own.messages
    assert context.report == own.report
    turn = there.save_turn(
        session, [{"role": "assistant", "content": "Lisbon"}], usage={"model": "m"}, context=context
    )
    assert turn == here.turns.get(turn.id)
    assert turn.report == json.loads(json.dumps(own.report.as_json()))


def test_a_blank_user_is_not_every_user() -> None:
    """S8: a name that was forgotten must not widen what is seen."""
    with Client("http://127.0.0.1:9") as client:
        for wrong in ("", " ", 5):
            with pytest.raises(Invalid, match="user: must"):
                client.scope(user=wrong)  # type: ignore[arg-type]


def test_errors_are_the_library_s(there: Scope) -> None:
    with pytest.raises(NotFound, match="no session 'nope'"):
        there.sessions.get("nope")
    with pytest.raises(Invalid) as wrong:
        there.messages.append("nope", "nobody", "x")  # type: ignore[arg-type]
    assert wrong.value.field == "role"
    there.notes.overwrite("a")
    with pytest.raises(WrongVersion, match="at version 1, not 7"):
        there.notes.append("b", if_version=7)
    with pytest.raises(TypeError):
        there.sessions.get()  # type: ignore[call-arg]


def test_the_same_for_asyncio(served: RunningServer, user: str) -> None:
    async def go() -> Any:
        async with AsyncClient(served.url, served.key) as remote:
            me = remote.scope(user=user, agent="scout")
            session = await me.sessions.resume()
            return await asyncio.gather(
                *[me.messages.append(session.id, "user", str(n)) for n in range(8)]
            )

    assert sorted(message.seq for message in asyncio.run(go())) == list(range(1, 9))


def test_names_that_no_header_carries_are_exact_too(
    served: RunningServer, client: Client, user: str
) -> None:
    for name in (f" {user}", f"{user} ", f"Zoë {user}", f"文 {user}", f"a&b=c%20+ {user}"):
        client.scope(user=name, agent=f"{name} & co").state.set("k", name)
        assert client.scope(user=name, agent=f"{name} & co").state.get("k").value == name
        assert (
            served.memory.scope(tenant="acme", user=name, agent=None).state.get("k").value == name
        )
        client.scope(user=name, agent=f"{name} & co").notes.overwrite("x")
        assert (
            served.memory.scope(tenant="acme", user=name, agent=f"{name} & co").notes.read().text
            == "x"
        )
    with pytest.raises(Invalid, match="user: must not be blank"):
        client.scope(user="", agent="scout").sessions.list()


# -- when answers are lost ---------------------------------------------------------------------------------------------


def test_a_lost_answer_is_given_again_and_nothing_happens_twice(
    served: RunningServer, here: Scope, user: str
) -> None:
    """P2: each kind of write, sent again after its answer was lost, has its effect once and answers as the first time."""
    with Losing(served.url) as proxy, Client(proxy.url, served.key) as client:
        there = client.scope(user=user, agent="scout")

        def losing(verb: Callable[..., Any], *args: Any, **named: Any) -> Any:
            lost, proxy.lose = proxy.lost, True
            found = verb(*args, **named)
            assert proxy.lost == lost + 1
            return found

        session = losing(there.sessions.add, f"{user}-trip")
        assert losing(there.messages.append, session.id, "user", "Hello").seq == 1
        assert losing(there.notes.append, "One").version == 1
        assert losing(there.notes.overwrite, "Two", if_version=1) == here.notes.read()
        assert losing(there.state.set, "k", 1).version == 1
        assert losing(there.state.set, "k", 2, if_version=1).version == 2
        assert here.state.get("k").version == 2
        entry = losing(there.entries.add, "Ada likes tea", kind="core")
        assert losing(there.entries.edit, entry.id, "Ada likes coffee").version == 2
        assert losing(there.agents.add, user).version == 1
        assert losing(there.agents.edit, user, prompt="Be short.").version == 2
        assert losing(there.notes.clear).version == 3
        for remove, what in (
            (there.state.remove, "k"),
            (there.entries.remove, entry.id),
            (there.agents.remove, user),
        ):
            losing(remove, what)
            with pytest.raises(NotFound):
                losing(remove, what)
        assert len(losing(there.messages.list, session.id).items) == 1
        losing(there.sessions.remove, session.id)
        assert not here.sessions.list().items


def test_what_may_be_repeated_is_with_the_same_key(scripted: Scripted) -> None:
    """P2: a client that lost the answer sends the very same request again."""
    body = b'{"type": "/problems/unauthorized", "detail": "A key is needed"}'
    scripted.answers = [(0, {}, b""), (503, {}, b""), (401, {}, body)]
    with Client(scripted.url) as client, pytest.raises(Unauthorized, match="A key is needed"):
        client.scope(user="ada").sessions.add("trip")
    assert len(scripted.asked) == 3
    assert len({one.headers["idempotency-key"] for one in scripted.asked}) == 1


def test_what_changes_nothing_has_no_key(scripted: Scripted) -> None:
    scripted.answers = [(404, {}, b"")] * 7
    with Client(scripted.url) as client:
        me = client.scope(user="ada", agent="scout")
        asked: tuple[Callable[[], object], ...] = (
            lambda: me.search("x"), lambda: me.context("s"), lambda: me.notes.read(),
            lambda: me.notes.append("x"), lambda: me.state.set("k", 1),
            lambda: me.agents.edit("a"), lambda: me.notes.clear(),
        )  # fmt: skip
        for verb in asked:
            with pytest.raises(NotFound):
                verb()
    assert ["idempotency-key" in one.headers for one in scripted.asked] == [False] * 3 + [True] * 4


@pytest.mark.parametrize(
    "said",
    ["0", "-3", "nan", "soon", "Fri, 31 Dec 1999 23:59:59 GMT", "", "Mon, 99 Foo 0000 00:00:00"],
)
def test_any_retry_after_is_understood(scripted: Scripted, said: str) -> None:
    scripted.answers = [
        (429, {"retry-after": said}, b"{}"),
        (503, {"retry-after": "0"}, b"{}"),
        (200, JSON, PAGE),
    ]
    with Client(scripted.url) as client:
        assert not client.scope(user="ada").sessions.list().items


def test_a_moment_to_try_again_at_is_one_to_wait_for() -> None:
    soon = format_datetime(clock.to_datetime(clock.now() + 4 * clock.SECOND), usegmt=True)
    assert 1 < retry_after_seconds(soon) <= 4
    assert retry_after_seconds("Fri, 31 Dec 9999 23:59:59 GMT") == retry_after_seconds("120") == 5
    assert retry_after_seconds(None) == 1


# -- what goes wrong ---------------------------------------------------------------------------------------------------

JSON = {"content-type": "application/json"}
PAGE = b'{"data": [], "next": null}'
KINDS: list[type[RetainError]] = sorted(
    (
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, RetainError)
    ),
    key=str,
)


def test_every_error_of_a_server_is_the_library_s(scripted: Scripted) -> None:
    """A1: type, message, status and field are those that the library would have raised."""
    with Client(scripted.url, retries=0) as client:
        for kind in KINDS:
            named = re.sub("(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower()
            told = problem.answer(kind.status, "Try this.", "r1", type=named, field="name")
            scripted.answers = [(told.status_code, dict(told.headers), bytes(told.body))]
            with pytest.raises(RetainError, match=r"Try this\.") as found:
                client.scope(user="ada").sessions.list()
            assert (type(found.value), found.value.status) == (kind, kind.status)
            assert (found.value.field, found.value.request_id) == ("name", "r1")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Invalid), (401, Unauthorized), (403, Forbidden), (404, NotFound), (405, Invalid), (408, Invalid),
        (409, Conflict), (412, WrongVersion), (413, TooLarge), (415, Invalid), (421, Invalid), (422, Invalid),
        (429, TooMany), (500, RetainError), (502, RetainError), (503, Overloaded), (507, Full), (307, RetainError),
    ],
)  # fmt: skip
def test_every_status_is_an_error_of_ours(
    scripted: Scripted, status: int, kind: type[RetainError]
) -> None:
    """… also where it is a proxy that answers, or with a type that is no error of the library."""
    with Client(scripted.url, retries=0) as client:
        for body in (b"<h1>Sorry</h1>", b"[1]", b'{"type": "/problems/other"}'):
            scripted.answers = [(status, {"location": "https://elsewhere/"}, body)]
            with pytest.raises(kind, match=str(status)) as found:
                client.scope(user="ada").sessions.list()
            assert found.value.status == status
            assert ("https://elsewhere/" in str(found.value)) == (status == 307)


def test_a_server_that_is_not_there_is_said_so() -> None:
    with Client("http://127.0.0.1:9", retries=0) as client, pytest.raises(Unreachable) as found:
        client.scope(user="ada").sessions.list()
    assert str(found.value).startswith(
        "The server at http://127.0.0.1:9 does not answer: ConnectError. Check the address"
    )


def test_what_is_no_retain_server_is_said_so(scripted: Scripted) -> None:
    scripted.answers = [(200, {"content-type": "text/html; charset=utf-8"}, b"<h1>Welcome</h1>")]
    with Client(scripted.url) as client, pytest.raises(NoServer, match="answers with text/html"):
        client.scope(user="ada").sessions.list()


@pytest.mark.parametrize(
    "url", ["127.0.0.1:7700", "localhost", "", "ftp://a", "http://", "http://[", "http://a:b"]
)
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(SettingsError, match="url: "):
        Client(url)


@pytest.mark.parametrize("key", ["rtn_a\nb", "rtn_ä"])
def test_a_key_that_is_none_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(SettingsError, match="key: ") as found:
        Client("http://127.0.0.1:9", key)
    assert "rtn_" not in str(found.value)


def test_the_key_is_the_environment_s_where_none_is_given(
    served: RunningServer, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_KEY", served.key)
    with Client(f"{served.url}/") as client:
        assert not client.scope(user=ids.uuid7()).sessions.list().items
    scripted.answers = [(200, JSON, PAGE)] * 2
    for key in ("rtn_own", ""):
        with Client(scripted.url, key) as client:
            client.scope(user="ada").sessions.list()
    assert [one.headers["authorization"] for one in scripted.asked] == ["Bearer rtn_own", None]


def test_closing_lets_go_of_the_connections(served: RunningServer, user: str) -> None:
    with Losing(served.url) as proxy:
        client = Client(proxy.url, served.key)
        client.scope(user=user).sessions.list()
        client.close()
        client.close()
        proxy.open[0].settimeout(WAIT)
        assert proxy.open[0].fileno() == -1 or proxy.open[0].recv(1) == b""


# -- chat --------------------------------------------------------------------------------------------------------------

SAID = "Your sister Clara lives in Lisbon."


def test_a_turn_is_answered_whole_or_as_it_happens(tmp_path: Path) -> None:
    """A1: sync and async, whole and as events; the same key gives the same answer."""

    async def go(url: str, key: str) -> tuple[Any, list[Any]]:
        async with AsyncClient(url, key) as client:
            answer = await client.chat("Where?", user="Zoë", key="one")
            return answer, [
                name async for name, _ in client.chat_events("Where?", user="Zoë", key="one")
            ]

    with (
        talking(f"sqlite:///{tmp_path}/a.db", ScriptedModel(SAID)) as served,
        Client(served.url, served.key) as client,
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
        again, names = asyncio.run(go(served.url, served.key))
        assert (again["message"], again["again"], names[-1]) == (SAID, True, "message")
        assert len(client.scope(user="Zoë").messages.list(answer["session_id"]).items) == 2
        with pytest.raises(NotFound, match="nobody"):
            client.chat("Where?", user="Zoë", agent="nobody")


def test_a_turn_s_stream_that_breaks_off_is_taken_up_where_it_was(tmp_path: Path) -> None:
    """A6: nothing that was said is missing, and nothing is there twice."""
    model, pieces = PausingModel(SAID), []
    with (
        talking(f"sqlite:///{tmp_path}/a.db", model) as served,
        Losing(served.url) as proxy,
        Client(proxy.url, served.key) as client,
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


def test_a_turn_that_fails_is_the_model_s_error(tmp_path: Path) -> None:
    failing = ScriptedModel(ModelUnavailable(model="m", problem="it is away"))
    away = pytest.raises(ModelUnavailable, match="it is away")
    with (
        talking(f"sqlite:///{tmp_path}/a.db", failing) as served,
        Client(served.url, served.key) as client,
        away as found,
    ):
        client.chat("Where?", user="ada", key="one")
    assert found.value.key == "one"  # type: ignore[attr-defined]
