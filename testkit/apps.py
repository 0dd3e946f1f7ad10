"""Fixtures of the server tests: an app over the test's database, and clients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from memorist import Memory
from memorist.admin.principal import PERMISSIONS
from testkit.keys import create_key

HERE = ("127.0.0.1", 50_000)
URL = "http://127.0.0.1:7700"

Calling = Callable[..., TestClient]


@pytest.fixture
def app(memory: Memory) -> Starlette:
    """An app over the test's database."""
    from memorist.server.http.app import create_app  # imports the whole server

    return create_app(memory)


@pytest.fixture
def calling(app: Starlette) -> Iterator[Calling]:
    """Return a function that makes clients: with a key of a tenant, or without one for None."""
    with ExitStack() as stack:

        def client(
            tenant: str | None = "acme",
            permissions: Iterable[str] = PERMISSIONS,
            *,
            over: Starlette = app,
            **bound: Any,
        ) -> TestClient:
            headers = {}
            if tenant is not None:
                _, text = create_key(over.state.memory, tenant, "a test", permissions, **bound)
                over.state.authenticator.forget()
                headers["Authorization"] = f"Bearer {text}"
            test_client = TestClient(
                over, URL, headers=headers, client=HERE, raise_server_exceptions=False
            )
            return stack.enter_context(test_client)

        yield client


@pytest.fixture
def http(calling: Calling) -> TestClient:
    """A client that may do everything in the tenant acme."""
    return calling()


@contextmanager
def app_with_records() -> Iterator[Starlette]:
    """Yield an app over a memory with the records that documented examples name, and more.

    The memory is verified at the end.
    """
    from memorist.api.examples import EXAMPLES
    from memorist.base.settings import Settings
    from memorist.server.http.app import create_app  # imports the whole server
    from testkit.examples import populate

    settings = Settings(summary_model="extractive", rate_per_second=0)
    with Memory.open("memory:", settings=settings) as memory:
        me = memory.scope(tenant=None, user="ada", agent="scout")
        populate(me)
        me.sessions.add("trip")
        me.agents.add("scout", prompt="You scout ahead.")
        me.state.set("theme", 1)
        me.notes.overwrite("# Preferences\n- coffee")
        me.refs.add("{}", key=EXAMPLES["refs.key"])
        me.messages.append("trip", "user", "Where do we go?")
        yield create_app(memory)
        assert not [finding for finding in memory.verify() if finding.problem]


def client_of_ada(app: Starlette) -> TestClient:
    """Return a client that may do everything in the tenant `default`, for Ada and the agent scout."""
    _, key = create_key(app.state.memory, "default", "a test", PERMISSIONS)
    headers = {
        "X-Memorist-User": "ada",
        "X-Memorist-Agent": "scout",
        "Authorization": f"Bearer {key}",
    }
    return TestClient(app, URL, client=HERE, headers=headers, raise_server_exceptions=False)
