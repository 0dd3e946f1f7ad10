"""Puts our session where the tests of OpenAI's Agents SDK have the one over SQLite."""

from __future__ import annotations

import hashlib
import os
import uuid
from functools import cache
from pathlib import Path
from typing import Any

import agents
import agents.memory
import agents.memory.sqlite_session

from retain import Memory
from retain.adapters.openai_agents import RetainSession
from retain.settings import Settings


@cache
def memory() -> Memory:
    """The database that the runner gave us; each of their files is a tenant of its own in it."""
    return Memory.open(os.environ["SESSION_DATABASE"], settings=Settings(sqlite_ballast_mib=0, postgres_pool=4))


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
        tenant = uuid.uuid4().hex if str(db_path) == ":memory:" else hashlib.sha256(named.encode()).hexdigest()
        super().__init__(memory().scope(tenant, "ada", "scout"), session_id, session_settings=session_settings)
        self.db_path = db_path

    def close(self) -> None:
        """A memory is closed by whoever opened it."""


for module in (agents, agents.memory, agents.memory.sqlite_session):
    setattr(module, "SQLiteSession", Session)  # noqa: B010 - a type is not to be assigned to, says mypy
