"""A server in a thread for tests that need a real connection, and a reader of its events."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import uvicorn

from memorist import Memory
from memorist.admin.principal import PERMISSIONS
from memorist.models import Model, ModelReply, Models
from memorist.server.http.app import create_app
from memorist.testing import ScriptedModel
from memorist.testing.models import pieces
from testkit.databases import SETTINGS
from testkit.keys import create_key

WAIT = 20.0


@dataclass
class RunningServer:
    """A memory behind a server."""

    memory: Memory
    url: str
    key: str
    app: Any

    def client(self, user: str | None = "ada", **headers: str) -> httpx2.Client:
        """Return a client of a user, with the tenant's key."""
        payload = {
            "Authorization": f"Bearer {self.key}",
            **({"X-Memorist-User": user} if user else {}),
            **headers,
        }
        # Loading the system's certificates for a plain HTTP server would take longer than most
        # tests.
        return httpx2.Client(base_url=self.url, headers=payload, timeout=WAIT, verify=False)


def serve(url: str, main: Model | None, **changes: Any) -> Iterator[RunningServer]:
    """Run a server on a free port until the generator is resumed."""
    settings = replace(SETTINGS, database=url, **changes)
    with Memory.open(settings=settings, models=Models(settings, main=main)) as memory:
        app = create_app(memory, jobs=False)
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=5)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), name="test-server")
        thread.start()
        _, key = create_key(memory, "acme", "a test", PERMISSIONS)
        try:
            yield RunningServer(memory, f"http://127.0.0.1:{listener.getsockname()[1]}", key, app)
        finally:
            app.state.stopping.set()
            server.should_exit = True
            thread.join(WAIT)
            listener.close()


@dataclass(frozen=True)
class Event:
    """An event as a client reads it."""

    id: int
    name: str
    data: dict[str, Any]


def events(lines: Iterator[str]) -> Iterator[Event]:
    """Yield the events in the lines of a stream."""
    event: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line and name:
            event[name] = value
        elif not line and "event" in event:
            yield Event(int(event["id"]), event["event"], json.loads(event["data"]))
            event = {}


def stream(client: httpx2.Client, **said: Any) -> list[Event]:
    """Return all events of one turn."""
    with client.stream("POST", "/api/chat", json={"stream": True, **said}) as response:
        assert response.status_code == 200, response.read()
        return list(events(response.iter_lines()))


def numbered(lines: Iterator[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield id and data of the events of a stream without names."""
    id = 0
    for line in lines:
        if line.startswith("id: "):
            id = int(line[4:])
        elif line.startswith("data: "):
            yield id, json.loads(line[6:])


def events_in(response: httpx2.Response) -> list[Event]:
    """Return the events of a response that has come to its end."""
    return list(events(iter(response.text.split("\n"))))


def say(client: httpx2.Client, **body: Any) -> httpx2.Response:
    """Send a message to the chat."""
    return client.post("/api/chat", json=body)


@contextmanager
def talk(client: httpx2.Client, **body: Any) -> Iterator[Iterator[Event]]:
    """Send a message to the chat and yield the events of its answer while they come."""
    with client.stream("POST", "/api/chat", json={"stream": True, **body}) as response:
        yield events(response.iter_lines())


class PausingModel(ScriptedModel):
    """A model that sends the first words, then waits for a signal; `asked` counts the calls."""

    def __init__(self, *answers: Any, words: int = 2) -> None:
        super().__init__(*answers)
        self.words = words
        self.going = threading.Event()
        self.halted = threading.Semaphore(0)

    def converse(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        max_tokens: int,
        on_text: Callable[[str], None] | None = None,
        use_tools: bool = True,
        seconds: float | None = None,
    ) -> ModelReply:
        """Send the first words, wait, send the rest."""
        reply = super().converse(
            messages, tools, max_tokens=max_tokens, use_tools=use_tools, seconds=seconds
        )
        for place, piece in enumerate(pieces(reply.text)):
            if place == self.words:
                self.halted.release()
                assert self.going.wait(WAIT)
            if on_text:
                on_text(piece)
        return reply
