"""A server killed or stopped under load: acknowledged writes are stored once, retries finish the
rest.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memorist import Client, Memory
from memorist.storage.database import Transaction
from testkit import sizes
from testkit.databases import SETTINGS, new_database
from testkit.model_service import FakeService
from tests.chaos.crowd import Crowd
from tests.chaos.history import History, messages_of
from tests.chaos.server import Server
from tests.chaos.writer import AGENT, SESSION, TENANT, USER, scope_of

CLIENTS = 64


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of the test's engine with a session in it."""
    created = (
        new_database(request.param)
        if request.param != "sqlite"
        else iter([f"sqlite:///{tmp_path}/agent.db"])
    )
    url = next(created)
    with Memory.open(url, settings=SETTINGS) as memory:
        scope_of(memory).sessions.add(SESSION)
    yield url
    list(created)


@pytest.mark.slow
@pytest.mark.slow_on_postgres
@pytest.mark.parametrize(
    ("database", "workers"), sizes.HTTP_SERVERS, indirect=["database"], ids=str
)
def test_restarts_under_load_lose_nothing(database: str, workers: int) -> None:
    """64 clients with keys; kill -9 or SIGTERM at any time, then a new server."""
    history, chance = History(), random.Random()
    with Server(database, workers) as server, Client(server.url, server.key) as client:
        crowd = Crowd(client.scope(user=USER, agent=AGENT), history, writers=CLIENTS, readers=2)
        with crowd:
            for number in range(sizes.HTTP_KILLS):
                crowd.wait_for(CLIENTS)
                time.sleep(chance.uniform(0, 0.1))
                server.kill() if number % 2 == 0 else server.stop()
                server.start()
            crowd.wait_for(CLIENTS)
    with Memory.open(database, settings=SETTINGS) as memory:
        assert history.of("info") == [], "a keyed retry ends every doubt"
        assert history.problems(messages_of(scope_of(memory), SESSION)) == []
        assert [finding for finding in memory.verify() if not finding.ok] == []
    assert history.errors, "no client ever met a server that was gone: this proves nothing"


@pytest.mark.slow_on_postgres
@pytest.mark.parametrize("database", ["sqlite", "modern"], indirect=True)
def test_requests_in_flight_at_sigterm_are_completed(database: str) -> None:
    """Appends that wait for the database during shutdown finish, and their responses arrive."""
    held, leave = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        tx.run("update sessions set label = label where tenant = :tenant")
        held.set()
        assert leave.wait(30)

    with (
        Memory.open(database, settings=SETTINGS) as memory,
        Server(database, postgres_pool=CLIENTS) as server,
    ):
        holder = threading.Thread(target=memory.database.write, args=(TENANT, hold))
        holder.start()
        assert held.wait(30)

        def append(number: int) -> int:
            return sent(
                server, "/api/messages/" + SESSION, {"role": "user", "content": f"{number}"}
            )[0]

        with ThreadPoolExecutor(CLIENTS) as pool:
            waiting = [pool.submit(append, number) for number in range(16)]
            until(lambda: in_flight(server) >= 16, "all to be in flight")
            stopping = pool.submit(server.stop)
            until(
                lambda: server.process.request("GET", "/readyz")[0] == 503,
                "the server to stop taking work",
            )
            leave.set()
            assert [answer.result() for answer in waiting] == [201] * 16
            stopping.result()
        holder.join()
        assert sorted(text for _, text in messages_of(scope_of(memory), SESSION)) == sorted(
            map(str, range(16))
        )


@pytest.mark.slow
@pytest.mark.slow_on_postgres
@pytest.mark.parametrize("database", ["sqlite", "modern"], indirect=True)
def test_a_killed_turn_is_completed_once(database: str) -> None:
    """Kill -9 during the model call; the same key completes the turn; a repetition changes
    nothing.
    """
    payload = {"message": "Where to?", "session_id": SESSION, "agent_id": AGENT, "key": "k"}
    with FakeService("To Lisbon.") as service:
        service.misbehave("hang", 1)
        model: dict[str, Any] = {"model": "openai:fake", "base_url": service.url, "api_key": "none"}
        with (
            Server(database, limits={"MODEL_RETRIES": 0}, **model) as server,
            ThreadPoolExecutor(1) as pool,
        ):
            asking = pool.submit(sent, server, "/api/chat", payload)
            until(lambda: bool(service.requests), "the model to be asked")
            server.kill()
            with pytest.raises((OSError, http.client.HTTPException)):
                asking.result()
            expire_leases(database)
            server.start()
            first, again = sent(server, "/api/chat", payload), sent(server, "/api/chat", payload)
    assert [first[0], again[0]] == [200, 200]
    assert first[1]["message"] == again[1]["message"]
    with Memory.open(database, settings=SETTINGS) as memory:
        stored = [
            (message.role, message.text) for message in scope_of(memory).messages.window(SESSION)
        ]
        assert stored == [("user", "Where to?"), ("assistant", "To Lisbon.")]
        assert [finding for finding in memory.verify() if not finding.ok] == []
    assert len(service.requests) == 2


@pytest.mark.slow
def test_a_client_continues_the_turn_of_a_killed_server(tmp_path: Path) -> None:
    """The stream breaks; the next server says that nobody is at the turn, and then answers it."""
    database = f"sqlite:///{tmp_path}/agent.db"
    with Memory.open(database, settings=SETTINGS) as memory:
        scope_of(memory).sessions.add(SESSION)
    with FakeService("To Lisbon.") as service:
        service.misbehave("hang", 1)
        model: dict[str, Any] = {"model": "openai:fake", "base_url": service.url, "api_key": "none"}
        with (
            Server(database, limits={"MODEL_RETRIES": 0}, **model) as server,
            Client(server.url, server.key, retries=30) as client,
            ThreadPoolExecutor(1) as pool,
        ):
            events: list[str] = []
            asking = pool.submit(
                client.chat,
                "Where to?",
                session=SESSION,
                user=USER,
                agent=AGENT,
                on_event=lambda name, data: events.append(name),
            )
            until(lambda: bool(service.requests), "the model to be asked")
            until(lambda: "start" in events, "the stream to start")
            server.kill()
            expire_leases(database)
            server.start()
            assert asking.result()["message"] == "To Lisbon."
    assert (events.count("start"), events.count("error")) == (2, 0)
    with Memory.open(database, settings=SETTINGS) as memory:
        messages = scope_of(memory).messages.window(SESSION)
        assert [message.text for message in messages] == ["Where to?", "To Lisbon."]
    assert len(service.requests) == 2


def expire_leases(database: str) -> None:
    """Let the leases of a killed server expire, which they would do a little later."""
    with Memory.open(database, settings=SETTINGS) as memory:
        memory.database.write(
            TENANT, lambda tx: tx.run("update leases set expires_at = 0 where tenant = :tenant")
        )


def sent(server: Server, path: str, body: Any) -> tuple[int, Any]:
    """Send a request over a new connection; return status and JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        whose = {"X-Memorist-User": USER, "X-Memorist-Agent": AGENT}
        headers = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {server.key}",
            **whose,
        }
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def in_flight(server: Server) -> int:
    """Return how many requests the server reports in flight."""
    _, text = server.process.request("GET", "/metrics")
    line = next(
        line
        for line in text.decode().splitlines()
        if line.startswith("memorist_requests_in_flight")
    )
    return int(float(line.split()[-1]))


def until(true: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, f"waited a minute for {what}"
        time.sleep(0.02)
