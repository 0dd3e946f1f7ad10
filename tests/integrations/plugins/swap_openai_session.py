"""Puts our session where the tests of OpenAI's Agents SDK have the one over SQLite: each test once for each database."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from functools import cache
from pathlib import Path
from typing import Any

import agents
import agents.memory
import agents.memory.sqlite_session
import pytest

from retain import Memory
from retain.base.settings import Settings
from retain.integrations.openai_agents import RetainSession

DATABASES: dict[str, str] = json.loads(os.environ["SESSION_DATABASES"])
used = [""]


@cache
def memory(database: str) -> Memory:
    """A database that the runner gave us; each of their files is a tenant of its own in it."""
    return Memory.open(DATABASES[database], settings=Settings(postgres_pool=4))


@pytest.fixture(autouse=True, params=DATABASES)
def database(request: pytest.FixtureRequest) -> None:
    """Which of them a test uses; an import of their package takes longer than its tests."""
    used[0] = request.param


class Session(RetainSession):
    """What their tests do with a session besides using it."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: Any = None,
    ) -> None:
        named = f"{db_path} {sessions_table} {messages_table}"
        tenant = (
            uuid.uuid4().hex
            if str(db_path) == ":memory:"
            else hashlib.sha256(named.encode()).hexdigest()
        )
        super().__init__(
            memory(used[0]).scope(tenant=tenant, user="ada", agent="scout"),
            session_id,
            session_settings=session_settings,
        )
        self.db_path = db_path

    def close(self) -> None:
        """A memory is closed by whoever opened it."""


for module in (agents, agents.memory, agents.memory.sqlite_session):
    setattr(module, "SQLiteSession", Session)  # noqa: B010 - a type is not to be assigned to, says mypy
