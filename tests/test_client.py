"""The library's calls over HTTP: the same signatures, records and errors."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from retain import AsyncClient, Client, Memory, Scope
from retain.errors import Invalid, NotFound, Unauthorized, Unreachable, WrongVersion
from retain.faces.ways import WAYS
from retain.server.app import create_app
from tests.serving import serving


@pytest.fixture
def client(memory: Memory) -> Iterator[Client]:
    with serving(create_app(memory)) as url, Client(url) as client:
        yield client


@pytest.fixture
def there(client: Client) -> Scope:
    return client.scope(user="ada", agent="scout")


@pytest.fixture
def here(memory: Memory) -> Scope:
    return memory.scope(user="ada", agent="scout")


def test_every_verb_is_there_with_its_own_signature(there: Scope, here: Scope) -> None:
    for way in WAYS:
        remote, own = getattr(getattr(there, way.kind), way.verb), getattr(getattr(here, way.kind), way.verb)
        assert inspect.signature(remote) == inspect.signature(own)
        assert remote.__doc__ == own.__doc__


def test_what_is_written_there_is_the_same_record_here(there: Scope, here: Scope) -> None:
    session = there.sessions.add("trip/1 ü", label="A trip")
    assert session == here.sessions.get(session.id)
    said = there.messages.append(session.id, "user", {"text": "Hi — ä", "n": [1, None]}, key="k")
    assert said == here.messages.get(session.id, 1)
    assert there.messages.append(session.id, "user", {"text": "Hi — ä", "n": [1, None]}, key="k").seq == 1
    assert there.messages.extend(session.id, [{"role": "assistant", "content": "Hello"}])[0].text == "Hello"
    assert there.messages.list(session.id, limit=1).next == here.messages.list(session.id, limit=1).next
    assert there.notes.overwrite("# Likes\n- tea") == here.notes.read()
    assert there.state.set("theme", None) == here.state.get("theme")
    assert there.refs.get(there.refs.add("a\nb\nc\n", key="abc"), lines=(2, 3)) == here.refs.get("abc", lines=(2, 3))
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
    turn = there.save_turn(session, [{"role": "assistant", "content": "Lisbon"}], usage={"model": "m"}, context=context)
    assert turn == here.turns.get(turn.id)
    assert turn.report == json.loads(json.dumps(own.report.as_json()))


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


def test_the_same_for_asyncio(client: Client, here: Scope) -> None:
    async def go() -> Any:
        async with AsyncClient(client.url) as remote:
            me = remote.scope(user="ada", agent="scout")
            session = await me.sessions.resume()
            return await asyncio.gather(*[me.messages.append(session.id, "user", str(n)) for n in range(8)])

    assert sorted(message.seq for message in asyncio.run(go())) == list(range(1, 9))


def test_a_server_that_is_not_there_is_said_so() -> None:
    with Client("http://127.0.0.1:9", retries=0) as client, pytest.raises(Unreachable, match="127.0.0.1:9"):
        client.scope(user="ada").sessions.list()


class Reluctant(BaseHTTPRequestHandler):
    """Answers with the statuses it was told, and remembers the keys it was sent."""

    statuses: list[int] = []
    keys: list[str] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.keys.append(self.headers["idempotency-key"])
        status = self.statuses.pop(0)
        if status == 0:  # hang up
            self.connection.close()
            return
        body = b'{"type": "/problems/unauthorized", "detail": "A key is needed"}'
        self.send_response(status)
        self.send_header("retry-after", "0")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_what_may_be_repeated_is_with_the_same_key() -> None:
    """P2: a client that lost the answer sends the very same request again."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Reluctant)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    Reluctant.statuses[:] = [0, 503, 401]
    with Client(f"http://127.0.0.1:{server.server_port}") as client, pytest.raises(Unauthorized, match="A key is needed"):
        client.scope(user="ada").sessions.add("trip")
    server.shutdown()
    assert len(Reluctant.keys) == 3
    assert len(set(Reluctant.keys)) == 1
