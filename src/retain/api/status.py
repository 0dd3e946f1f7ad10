"""What database this is, how much is in it, and what is due: for the command line and for the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from retain.base.errors import ModelError, SettingsError
from retain.base.version import version
from retain.jobs.due import due
from retain.jobs.embed import lag
from retain.memory import TABLES, Memory
from retain.storage.verify import count


@dataclass(frozen=True)
class Status:
    """What database this is, and what is due there; how a server that answers is, where one does.

    `work` is how much waits of each kind: texts without a vector, sessions to fold, agents whose journals fade, what is
    too old to keep, and tenants whose index is not whole. `worked_at` is when this process last did what was due.
    """

    version: str
    database: str
    schema: int
    tenants: int
    rows: dict[str, int]
    embedder: str
    vectors: dict[str, int]
    model: str
    work: dict[str, int]
    started_at: datetime | None = None
    worked_at: datetime | None = None


def status(memory: Memory, tenant: str | None = None) -> Status:
    """How things are, over every tenant; of one tenant alone it is not said where the database is, nor who else is there."""
    tenants = memory.tenants() if tenant is None else [tenant]
    embedder, behind = _embedding(memory, tenants)
    main = memory.services.models.main
    return Status(
        version().removeprefix("retain "),
        memory.database.name if tenant is None else "",
        memory.database.version(),
        len(tenants),
        memory.counts() if tenant is None else count(memory.database, TABLES, tenants),
        embedder,
        behind,
        main.name if main else "none",
        _work(memory, tenants, behind),
    )


def _work(memory: Memory, tenants: Sequence[str], behind: dict[str, int]) -> dict[str, int]:
    total = Counter({"vectors": behind.get("pending", 0)})
    for tenant in tenants:
        total.update(due(memory.services, tenant))
    return dict(total)


def _embedding(memory: Memory, tenants: Sequence[str]) -> tuple[str, dict[str, int]]:
    """Which embedder there is, and what waits for it; one that cannot be used is no reason to say nothing."""
    try:
        lags = [lag(memory.services, tenant) for tenant in tenants]
        name = memory.services.embedder.identity if memory.services.embedder else "none"
    except (ModelError, SettingsError) as error:
        return f"cannot be used now: {error}", {}
    longest = max((one.seconds for one in lags), default=0.0)
    return name, {
        "pending": sum(one.pending for one in lags),
        "embedding_lag_seconds": round(longest),
    }
