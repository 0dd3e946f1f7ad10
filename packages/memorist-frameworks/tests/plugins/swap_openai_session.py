"""A pytest plugin that replaces the SQLite session in the tests of OpenAI's Agents SDK by ours,
once per database.
"""

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

from memorist import Memory
from memorist.base.settings import Settings
from memorist_frameworks.openai_agents import MemoristSession

DATABASES: dict[str, str] = json.loads(os.environ["SESSION_DATABASES"])
used = [""]


@cache
def memory(database: str) -> Memory:
    """Return a database of the runner; each of their files has its own tenant."""
    return Memory.open(DATABASES[database], settings=Settings(postgres_pool=4))


@pytest.fixture(autouse=True, params=DATABASES)
def database(request: pytest.FixtureRequest) -> None:
    """Run each test on every database, in one process, because importing the package is slow."""
    used[0] = request.param


class Session(MemoristSession):
    """Our session with the extra methods that their tests call."""

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
        """Do nothing: whoever opened a memory closes it."""


for module in (agents, agents.memory, agents.memory.sqlite_session):
    setattr(module, "SQLiteSession", Session)  # noqa: B010 - a type is not to be assigned to, says mypy
