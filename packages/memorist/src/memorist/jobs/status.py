"""The status of a database: its size, its embedder and model, and the jobs that are due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from memorist.admin.admin_kind import AdminKind
from memorist.base.errors import CorruptRecord, ModelError, SettingsError
from memorist.base.verbs import verb
from memorist.base.version import VERSION
from memorist.base.wording import counted
from memorist.jobs.embed import lag
from memorist.jobs.job import JobProblem
from memorist.kinds.kind import Services
from memorist.storage.damage import count_damage
from memorist.storage.database import Database
from memorist.storage.transfer.verify import count

MAX_PROBLEMS = 20
FILE_PREFIX = "sqlite:///"


@dataclass(frozen=True)
class SystemStatus:
    """The status of a database."""

    version: str
    database: str
    schema_version: int
    tenants: int
    rows: dict[str, int]  # by table
    embedder: str
    vectors: dict[str, int]
    model: str
    work: dict[str, int]  # number of due items, by job
    started_at: datetime | None = None  # of the server
    worked_at: datetime | None = None  # when this process last ran jobs
    problems: list[str] = field(default_factory=list)  # of background jobs, and damaged records


class DatabaseStatus(AdminKind):
    """The status of a tenant; for the tenant of the settings, that of the whole database."""

    name = "status"

    @verb("GET /status", effect="read", is_slow=True, example="memorist status")
    def get(self) -> SystemStatus:
        """Return the numbers of stored records, due jobs and missing vectors.

        They are those of the tenant; the tenant of the settings gets those of all tenants, and the
        address of the database.
        """
        database = self._database
        tenants = database.tenants() if self._is_operator else [self._tenant]
        embedder, backlog = _embedding(self._services, tenants)
        main = self._services.models.main
        counted_tenants = None if self._is_operator else tenants
        return SystemStatus(
            version=VERSION,
            database=database_address(database) if self._is_operator else "",
            schema_version=database.version(),
            tenants=len(tenants),
            rows=count(database, self._services.tables, counted_tenants),
            embedder=embedder,
            vectors=backlog,
            model=main.name if main else "none",
            work=_due_jobs(self._services, tenants, backlog),
            problems=[
                *_damage(database, tenants),
                *(
                    f"{found.problem} {found.todo}"
                    for found in job_problems(self._services, tenants)
                ),
            ],
        )


def _damage(database: Database, tenants: Sequence[str]) -> list[str]:
    """Return what the last `verify` or `backup` of each tenant found."""
    counts = [(tenant, database.read(tenant, count_damage)) for tenant in tenants]
    return [
        f"Tenant {tenant} has {counted(count, 'damaged record')}. Run `memorist verify`, and again "
        "after the repair."
        for tenant, count in counts
        if count
    ][:MAX_PROBLEMS]


def job_problems(services: Services, tenants: Sequence[str]) -> list[JobProblem]:
    """Return the problems of background jobs that a person must solve, at most `MAX_PROBLEMS`."""
    from memorist.jobs import deliver_webhooks, learn, summarize  # most programs never need them

    problems: list[JobProblem] = []
    for tenant in tenants:
        for job in (summarize, learn, deliver_webhooks):
            try:
                problems += job.problems(services, tenant)
            except CorruptRecord as error:
                problem = f"The text of {error.details['record']} is damaged."
                problems.append(JobProblem(problem, "Run `memorist verify`."))
        if len(problems) >= MAX_PROBLEMS:
            break
    return problems[:MAX_PROBLEMS]


def database_address(database: Database) -> str:
    """Return the address of the database, with the absolute path of a file."""
    name = database.name
    if not name.startswith(FILE_PREFIX):
        return name
    return f"{FILE_PREFIX}{Path(name.removeprefix(FILE_PREFIX)).resolve()}"


def _due_jobs(
    services: Services, tenants: Sequence[str], backlog: dict[str, int]
) -> dict[str, int]:
    from memorist.jobs.backlog import count_backlog  # imports all jobs

    total = Counter({"vectors": backlog.get("pending", 0)})
    for tenant in tenants:
        total.update(count_backlog(services, tenant))
    return dict(total)


def _embedding(services: Services, tenants: Sequence[str]) -> tuple[str, dict[str, int]]:
    """Return the name of the embedder and its backlog, or why it cannot be used."""
    try:
        lags = [lag(services, tenant) for tenant in tenants]
        name = services.embedder.identity if services.embedder else "none"
    except (ModelError, SettingsError) as error:
        return f"unavailable: {error}", {}
    longest = max((item.seconds for item in lags), default=0.0)
    return name, {
        "pending": sum(item.pending for item in lags),
        "embedding_lag_seconds": round(longest),
    }
