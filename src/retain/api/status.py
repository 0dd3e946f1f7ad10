"""The status of a database: its size, its embedder and model, and the jobs that are due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from retain.base.errors import ModelError, SettingsError
from retain.base.version import VERSION
from retain.jobs import deliver, learn, summarize
from retain.jobs.backlog import count_backlog
from retain.jobs.embed import lag
from retain.memory import TABLES, Memory
from retain.storage.verify import count

MAX_PROBLEMS = 20
FILE_PREFIX = "sqlite:///"


@dataclass(frozen=True)
class Status:
    """The status of a database."""

    version: str
    database: str
    schema: int
    tenants: int
    rows: dict[str, int]  # by table
    embedder: str
    vectors: dict[str, int]
    model: str
    work: dict[str, int]  # number of due items, by job
    started_at: datetime | None = None  # of the server
    worked_at: datetime | None = None  # when this process last ran jobs
    problems: list[str] = field(default_factory=list)  # of background jobs


def status(memory: Memory, tenant: str | None = None) -> Status:
    """Return the status of all tenants, or of one tenant without the address of the database."""
    tenants = memory.tenants() if tenant is None else [tenant]
    embedder, backlog = _embedding(memory, tenants)
    main = memory.services.models.main
    return Status(
        VERSION,
        database_address(memory) if tenant is None else "",
        memory.database.version(),
        len(tenants),
        memory.counts() if tenant is None else count(memory.database, TABLES, tenants),
        embedder,
        backlog,
        main.name if main else "none",
        _due_jobs(memory, tenants, backlog),
        problems=job_problems(memory, tenants),
    )


def job_problems(memory: Memory, tenants: Sequence[str]) -> list[str]:
    """Return the problems of background jobs that a person must solve, at most `MAX_PROBLEMS`."""
    problems: list[str] = []
    for tenant in tenants:
        problems += summarize.problems(memory.services, tenant)
        problems += learn.problems(memory.services, tenant)
        problems += deliver.problems(memory.services, tenant)
        if len(problems) >= MAX_PROBLEMS:
            break
    return problems[:MAX_PROBLEMS]


def database_address(memory: Memory) -> str:
    """Return the address of the database, with the absolute path of a file."""
    name = memory.database.name
    if not name.startswith(FILE_PREFIX):
        return name
    return f"{FILE_PREFIX}{Path(name.removeprefix(FILE_PREFIX)).resolve()}"


def _due_jobs(memory: Memory, tenants: Sequence[str], backlog: dict[str, int]) -> dict[str, int]:
    total = Counter({"vectors": backlog.get("pending", 0)})
    for tenant in tenants:
        total.update(count_backlog(memory.services, tenant))
    return dict(total)


def _embedding(memory: Memory, tenants: Sequence[str]) -> tuple[str, dict[str, int]]:
    """Return the name of the embedder and its backlog, or why it cannot be used."""
    try:
        lags = [lag(memory.services, tenant) for tenant in tenants]
        name = memory.services.embedder.identity if memory.services.embedder else "none"
    except (ModelError, SettingsError) as error:
        return f"unavailable: {error}", {}
    longest = max((item.seconds for item in lags), default=0.0)
    return name, {
        "pending": sum(item.pending for item in lags),
        "embedding_lag_seconds": round(longest),
    }
