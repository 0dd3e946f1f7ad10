"""Puts our store where LangGraph's tests of its own have theirs, and lets the clock go on where they would sleep."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import langgraph.store.sqlite
import langgraph.store.sqlite.aio
import pytest

from memorist import Memory, Scope
from memorist.base.settings import Settings
from memorist.kinds.kind import Owner
from memorist_frameworks.langgraph import AsyncMemoristStore, LangChainEmbedder, MemoristStore

now = [1_760_000_000_000_000]


@cache
def memory() -> Memory:
    """The database that the runner gave us; each store in it is of a tenant of its own."""
    settings = Settings(postgres_pool=4)
    return Memory.open(os.environ["STORE_DATABASE"], settings=settings, clock=lambda: now[0])


def scope(index: Any) -> Scope:
    """A memory that is empty, with their embeddings where they give some."""
    embedder = (
        memory().services.embedder if index is None else LangChainEmbedder(index, family="static")
    )
    return Scope(replace(memory().services, embedder=embedder), Owner(uuid.uuid4().hex, "ada"))


def config(ttl: Any) -> Any:
    """Reads prolong an item's life where nothing is configured, says the interface; in their SQLite store they do not."""
    return None if ttl is None else {"refresh_on_read": False, **ttl}


class Store(MemoristStore):
    """What their tests do with a store besides using it."""

    @classmethod
    @contextmanager
    def from_conn_string(cls, _: str, *, index: Any = None, ttl: Any = None) -> Iterator[Store]:
        """A store that is empty."""
        yield cls(scope(index), index=index, ttl=config(ttl))

    def setup(self) -> None:
        """A memory that is open is set up."""


class AsyncStore(AsyncMemoristStore):
    """The same for asyncio."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(
        cls, _: str, *, index: Any = None, ttl: Any = None
    ) -> AsyncIterator[AsyncStore]:
        """A store that is empty."""
        created = cls(scope(index), index=index, ttl=config(ttl))
        created.store = Store(created.store.scope, index=index, ttl=created.ttl_config)
        yield created

    async def setup(self) -> None:
        """A memory that is open is set up."""


for module in (langgraph.store.sqlite, langgraph.store.sqlite.aio):
    setattr(module, "AsyncSqliteStore", AsyncStore)  # noqa: B010 - a type is not to be assigned to, says mypy
setattr(langgraph.store.sqlite, "SqliteStore", Store)  # noqa: B010


@pytest.fixture(autouse=True)
def no_waiting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a test would sleep, the memory's clock goes on."""

    def sleep(seconds: float) -> None:
        now[0] += round(seconds * 1e6)

    async def asleep(seconds: float) -> None:
        sleep(seconds)

    module = request.module
    if hasattr(module, "time"):
        monkeypatch.setattr(module, "time", SimpleNamespace(sleep=sleep))
    if hasattr(module, "asyncio"):
        monkeypatch.setattr(
            module, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": asleep})
        )
