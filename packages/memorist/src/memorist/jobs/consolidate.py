"""Propose what to keep of journal entries that expire soon; accept it if the settings say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from memorist.base import clock
from memorist.base.errors import Conflict, Forbidden, MemoristError, NoModel, NotFound, StorageError
from memorist.jobs.job import MAX_ERRORS, JobResult, Progress
from memorist.kinds.consolidations.consolidations import Consolidations, Target, run_proposals
from memorist.kinds.entries.entry import JOURNAL_WINDOW_MICROS
from memorist.kinds.kind import Owner, Services
from memorist.models import Completion, Model, Models
from memorist.models.recording import NotCalled
from memorist.storage import leases
from memorist.storage.database import Database, Transaction

AGE_DAYS = 5.0
"""Minimum age of a journal entry: two days before it expires."""
COMMIT_SECONDS = 30.0
"""A lease lasts this long plus the longest model call; it is renewed before each call."""
_AGENTS = """select distinct agent from entries
             where tenant = :tenant and kind = 'journal' and created_at > :after and created_at <= :upto
             and review = 'accepted'
             and not exists (select 1 from consolidation_sources as used
                             where used.tenant = :tenant and used.entry_id = entries.id)
             order by agent"""


def run(services: Services, tenant: str, progress: Progress | None = None) -> JobResult:
    """Consolidate the due journals of a tenant; a failure does not stop the others."""
    wanted = services.settings.consolidate
    if wanted == "off":
        return JobResult()
    total = JobResult()
    waiting = due(services, tenant)
    for place, agent in enumerate(waiting, 1):
        try:
            total += _propose(services, tenant, agent)
        except NoModel as error:  # the next agent would fail in the same way
            total += JobResult(
                failed=1, left=len(waiting) - place, errors=(f"tenant {tenant}: {error}",)
            )
            break
        except StorageError:  # the next agent would fail in the same way
            raise
        except MemoristError as error:
            total += JobResult(failed=1, errors=(f"tenant {tenant}, agent {agent}: {error}",))
        if progress:
            progress(place, len(waiting))
    if wanted == "accept":
        _accept(services, tenant, "core")
    elif wanted == "documents":
        _accept(services, tenant, "documents")
    return total


def due(services: Services, tenant: str) -> Sequence[str]:
    """Return the agents whose journals have old entries that no consolidation has used."""

    def work(tx: Transaction) -> Sequence[str]:
        rows = tx.all(
            _AGENTS,
            after=tx.now - 2 * JOURNAL_WINDOW_MICROS,
            upto=tx.now - round(AGE_DAYS * clock.DAY),
        )
        return [str(row[0]) for row in rows]

    return services.database.read(tenant, work)


class _TakenOver(NotCalled):
    """Raised when another process took over the lease."""


class _Leased:
    """A model that renews the lease before each call."""

    def __init__(
        self, model: Model, database: Database, lease: leases.Lease, seconds: float
    ) -> None:
        self.name = model.name
        self._model = model
        self._renew = partial(leases.renew, database, lease, seconds)

    def complete(self, system: str, prompt: str, *, max_tokens: int) -> Completion:
        """Return the model's answer."""
        if not self._renew():
            raise _TakenOver
        return self._model.complete(system, prompt, max_tokens=max_tokens)


def _propose(services: Services, tenant: str, agent: str) -> JobResult:
    """Consolidate one agent's journal under a lease."""
    seconds = services.settings.model_seconds + COMMIT_SECONDS
    models = services.models
    with leases.held(services.database, tenant, f"consolidate {agent}", seconds) as lease:
        if lease is None:
            return JobResult(left=1)
        if (model := models.main) is not None:
            leased = _Leased(model, services.database, lease, seconds)
            models = Models(services.settings, main=leased)
        try:
            outcome = run_proposals(
                replace(services, models=models), Owner(tenant, None, agent, "agent"), AGE_DAYS
            )
        except _TakenOver:
            return JobResult(left=1)
    errors = tuple(f"tenant {tenant}, agent {agent}: {error}" for error in outcome.errors)
    return JobResult(done=len(outcome.proposals), failed=len(errors), errors=errors[:MAX_ERRORS])


def _accept(services: Services, tenant: str, into: Target) -> None:
    """Accept all proposals, also those of earlier runs; a person decides on untrusted ones."""
    rows = services.database.read(
        tenant,
        lambda tx: tx.all(
            "select id, agent from consolidations where tenant = :tenant and status = 'proposed' order by created_at, id"
        ),
    )
    for id, agent in rows:
        try:
            Consolidations(services, Owner(tenant, None, agent, "agent")).accept(id, into=into)
        except (NotFound, Conflict, Forbidden):
            continue  # its entries changed, another process decided, or a person has to
