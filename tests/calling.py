"""Fixtures of the server tests: an app over the test's database, and clients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from retain import Memory
from retain.auth.api_keys import Keys
from retain.auth.principal import PERMISSIONS
from retain.server.app import create_app

HERE = ("127.0.0.1", 50_000)
URL = "http://127.0.0.1:7700"

Calling = Callable[..., TestClient]


@pytest.fixture
def app(memory: Memory) -> Starlette:
    """An app over the test's database."""
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
                _, text = Keys(over.state.memory.database).create(
                    tenant, "a test", permissions, **bound
                )
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
