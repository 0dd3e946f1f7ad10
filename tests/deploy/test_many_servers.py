"""Four servers and two job runners behind HAProxy, restarted and killed under load."""

from __future__ import annotations

import http.client
import json
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from testkit.receiver import Receiver
from tests.deploy.topology import PASSWORDS, PATIENCE, PROGRAMS, Client, Topology

SERVERS = [f"server-{number}" for number in range(1, 5)]
RUNNERS = ["jobs", "jobs-2"]
SESSIONS = 8
KILLS = 6
TEMPORARY = (502, 503, 504)
"""Statuses after which a client retries: of the proxy, and of a server that stops."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Topology, str]]:
    """The running services, and a key of an admin."""
    programs = ("pgbouncer", "haproxy", "psql")
    missing = [program for program in programs if not shutil.which(program, path=PROGRAMS)]
    if missing:
        assert not os.environ.get("CI"), f"not installed: {missing}"
        pytest.skip(f"not installed, `make test-all` does it: {missing}")
    topology = Topology("compose.postgres.yaml", PASSWORDS, servers=4, runners=2)
    for service in SERVERS + RUNNERS:
        topology.services[service]["environment"] |= {
            "MEMORIST_EMBEDDER": "static",
            "MEMORIST_EVENTS": "private",  # the receiver of webhooks is on this machine
            "MEMORIST_RATE_PER_SECOND": "0",
        }
    try:
        permissions = "read,write,delete,admin"
        key = topology.run("server-1", "keys", "add", "ops", "--permissions", permissions)
        topology.start()
        yield topology, key
    finally:
        topology.stop()


class Caller(threading.Thread):
    """A client that appends to its own session and reads it, over one connection at a time.

    retries: repeat a request that failed, with the same idempotency key
    """

    def __init__(
        self, topology: Topology, key: str, session: str, done: threading.Event, *, retries: bool
    ) -> None:
        super().__init__(daemon=True)
        self.session = session
        self.acknowledged: list[str] = []
        self.requests = 0
        self.failures: list[str] = []
        self._address = (topology.addresses["proxy"], 8080)
        self._headers = {
            "Content-Type": "application/json",
            "Host": "localhost:7700",
            "X-API-Key": key,
            "X-Memorist-User": "ada",
            "X-Memorist-Agent": "scout",
        }
        self._done = done
        self._retries = retries
        self._connection = self._connect()

    def run(self) -> None:
        number = 0
        while not self._done.is_set():
            text = f"{self.session} message {number}"
            append = {"role": "user", "content": text}
            if self._call("POST", f"/api/messages/{self.session}", append, f"k{number}") == 201:
                self.acknowledged.append(text)
            self._call("GET", f"/api/messages/{self.session}/window?last=20")
            if number % 8 == 0:
                self._call("POST", "/api/search", {"query": "message", "limit": 3})
            number += 1

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self._address, timeout=60)

    def _call(self, method: str, path: str, body: Any = None, key: str = "") -> int:
        """Send a request until it succeeds, or once; return its status."""
        sent = json.dumps(body) if body else None
        headers = self._headers | ({"Idempotency-Key": f"{self.session} {key}"} if key else {})
        while True:
            self.requests += 1
            status, problem = 0, ""
            try:
                self._connection.request(method, path, sent, headers)
                response = self._connection.getresponse()
                status = response.status
                content = response.read()
                if status not in (200, 201):
                    problem = f"{method} {path}: {status} {content[:200]!r}"
            except (OSError, http.client.HTTPException) as error:
                problem = f"{method} {path}: {error!r}"
                self._connection.close()
                self._connection = self._connect()
            if not problem:
                return status
            self.failures.append(problem)
            if not self._retries or status not in (0, *TEMPORARY):
                return status
            time.sleep(0.05)


class Follower(threading.Thread):
    """A client that follows the events of the tenant, and resumes when the stream ends."""

    def __init__(self, topology: Topology, key: str, after: int) -> None:
        super().__init__(daemon=True)
        self.numbers: list[int] = []
        self.streams = 0
        self.failures: list[str] = []
        self.stopped = False
        self._after = after
        self._address = (topology.addresses["proxy"], 8080)
        self._headers = {"Host": "localhost:7700", "X-API-Key": key}

    def run(self) -> None:
        while not self.stopped:
            self.streams += 1
            try:
                self._follow()
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                time.sleep(0.05)

    def _follow(self) -> None:
        connection = http.client.HTTPConnection(*self._address, timeout=60)
        headers = self._headers | {"Last-Event-ID": str(self._after)}
        connection.request("GET", "/api/events", headers=headers)
        response = connection.getresponse()
        if response.status != 200:
            raise http.client.HTTPException(f"{response.status} {response.read()!r}")
        id = 0
        while not self.stopped and (line := response.readline()):
            name, _, value = line.decode().strip().partition(": ")
            if name == "id":
                id = int(value)
            elif name == "data":
                self._after = id
                self.numbers.append(json.loads(value)["number"])
        connection.close()


class Load:
    """Callers, a follower and a webhook, while something happens to the servers."""

    def __init__(self, cluster: tuple[Topology, str], prefix: str, *, retries: bool) -> None:
        topology, key = cluster
        self.call = Client(topology, "proxy", 8080, key)
        self.done = threading.Event()
        self.callers = []
        for number in range(SESSIONS):
            session = f"{prefix} {number}".replace(" ", "-")
            assert self.call("POST", "/api/sessions", {"id": session})[0] == 201
            self.callers.append(Caller(topology, key, session, self.done, retries=retries))
        self.receiver = Receiver()
        status, webhook = self.call("POST", "/api/webhooks", {"url": self.receiver.url})
        assert status == 201, webhook
        self.webhook = webhook["id"]
        self.first = self.last_event() + 1
        self.follower = Follower(topology, key, self.first - 1)

    def __enter__(self) -> Load:
        for thread in (*self.callers, self.follower):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.follower.stopped = True
        self.call("DELETE", f"/api/webhooks/{self.webhook}")
        self.receiver.__exit__(None, None, None)

    def finish(self) -> list[int]:
        """Stop the callers; return the numbers of the events since the start, once all arrived."""
        self.done.set()
        for caller in self.callers:
            caller.join(PATIENCE)
            assert not caller.is_alive()
        numbers = list(range(self.first, self.last_event() + 1))
        until(lambda: numbers[-1] in self.follower.numbers)
        # Webhooks are sent one event after the other, so they may be minutes behind on a busy machine.
        sent = self.receiver.deliveries
        until(lambda: bool(sent) and sent[-1].data["number"] == numbers[-1], lambda: len(sent))
        return numbers

    def last_event(self) -> int:
        """Return the number of the newest event: the webhook's position is behind it."""
        connection = http.client.HTTPConnection(*self.call.address, timeout=30)
        headers = {"Host": "localhost:7700", "X-API-Key": self.call.key}
        connection.request("GET", "/api/events", headers=headers)
        line = connection.getresponse().readline()
        connection.close()
        return int(line.decode().removeprefix("id: "))

    def wait_for(self, requests: int) -> None:
        """Wait until all callers together have made more requests."""
        goal = self.requests + requests
        until(lambda: self.requests >= goal)

    @property
    def requests(self) -> int:
        return sum(caller.requests for caller in self.callers)

    @property
    def failures(self) -> list[str]:
        return [failure for caller in self.callers for failure in caller.failures]

    def check_messages(self) -> None:
        """Check that each acknowledged message is stored once, and no other one is."""
        for caller in self.callers:
            stored: list[str] = []
            before = ""
            while True:
                path = f"/api/messages/{caller.session}/window?last=500{before}"
                status, messages = self.call("GET", path)
                assert status == 200, messages
                if not messages:
                    break
                stored = [message["content"]["text"] for message in messages] + stored
                before = f"&before={messages[0]['seq']}"
            assert stored == caller.acknowledged


def until(condition: Callable[[], bool], progress: Callable[[], int] = lambda: 0) -> None:
    """Wait until a condition holds, while there is progress."""
    deadline = time.monotonic() + PATIENCE
    reached = progress()
    while not condition():
        if progress() != reached:
            deadline = time.monotonic() + PATIENCE
            reached = progress()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_a_rolling_restart_fails_no_request(cluster: tuple[Topology, str]) -> None:
    """Nobody retries: the proxy stops using a server before the server stops."""
    topology, _ = cluster
    with Load(cluster, "roll", retries=False) as load:
        for server in SERVERS:
            load.wait_for(50)
            assert topology.terminate(server) == 0, topology.log(server)
            topology.start_service(server)
        load.wait_for(50)
        numbers = load.finish()
        assert load.failures == []
        load.check_messages()
        # The stream ended with a server at least once, and was resumed on another one.
        assert load.follower.streams > 1
        assert load.follower.failures == []
        assert load.follower.numbers == numbers
        # Two job runners send each event once, in order.
        assert load.receiver.numbers == numbers


@pytest.mark.slow
def test_killed_servers_lose_and_repeat_nothing(cluster: tuple[Topology, str]) -> None:
    """Clients retry with their idempotency keys; a job runner is killed, too."""
    topology, _ = cluster
    chance = random.Random()
    with Load(cluster, "kill", retries=True) as load:
        for number in range(KILLS):
            load.wait_for(50)
            time.sleep(chance.uniform(0, 0.2))
            server = chance.choice(SERVERS)
            topology.kill(server)
            if number == 0:
                topology.kill("jobs")
                topology.start_service("jobs")
            load.wait_for(20)
            topology.start_service(server)
        numbers = load.finish()
        load.check_messages()
        assert load.follower.numbers == numbers
        # After the kill of a job runner, one event may arrive twice.
        assert sorted(set(load.receiver.numbers)) == numbers
        assert len(load.receiver.numbers) - len(numbers) <= 1
