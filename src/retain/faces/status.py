"""What database this is, how much is in it, and how far the vectors are behind: for the command line and for the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from retain.errors import ModelError, SettingsError
from retain.faces.command import version
from retain.memory import TABLES, Memory
from retain.storage.verify import count
from retain.work.embed import lag


@dataclass(frozen=True)
class Status:
    """What database this is."""

    version: str
    database: str
    schema: int
    tenants: int
    rows: dict[str, int]
    embedder: str
    vectors: dict[str, int]


def status(memory: Memory, tenant: str | None = None) -> Status:
    """How things are, over every tenant; of one tenant alone it is not said where the database is, nor who else is there."""
    tenants = memory.tenants() if tenant is None else [tenant]
    embedder, behind = _embedding(memory, tenants)
    schema = memory.database.version()
    release = version().removeprefix("retain ")
    if tenant is None:
        return Status(release, memory.database.name, schema, len(tenants), memory.counts(), embedder, behind)
    return Status(release, "", schema, 1, count(memory.database, TABLES, tenants), embedder, behind)


def _embedding(memory: Memory, tenants: Sequence[str]) -> tuple[str, dict[str, int]]:
    """Which embedder there is, and what waits for it; one that cannot be used is no reason to say nothing."""
    try:
        lags = [lag(memory.home, tenant) for tenant in tenants]
        name = memory.home.embedder.identity if memory.home.embedder else "none"
    except (ModelError, SettingsError) as error:
        return f"cannot be used now: {error}", {}
    longest = max((one.seconds for one in lags), default=0.0)
    return name, {"pending": sum(one.pending for one in lags), "embedding_lag_seconds": round(longest)}
