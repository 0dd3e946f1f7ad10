"""Journals that are about to fade: proposals to keep what matters in them, accepted at once where the settings say so."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from retain.base import clock
from retain.base.errors import Conflict, NoModel, NotFound, RetainError, StorageError
from retain.jobs.job import MOST_ERRORS, Done, Progress
from retain.kinds.consolidations.consolidations import Consolidations, run_proposals
from retain.kinds.entries.entry import JOURNAL_WINDOW_MICROS
from retain.kinds.kind import Owner, Services
from retain.models import Completion, Model, Models
from retain.models.recording import NotCalled
from retain.storage import leases
from retain.storage.database import Database, Transaction

AGE_DAYS = 5.0
"""How old a journal entry must be: two days before it fades."""
_TO_COMMIT = 30.0
"""How long a lease lasts besides the longest that one call of a model can take; it is renewed before each."""
_AGENTS = """select distinct agent from entries
             where tenant = :tenant and kind = 'journal' and created_at > :after and created_at <= :upto
             and review = 'accepted'
             and not exists (select 1 from consolidation_sources as used
                             where used.tenant = :tenant and used.entry_id = entries.id)
             order by agent"""


def run(services: Services, tenant: str, since: int = 0, progress: Progress | None = None) -> Done:
    """Look through the journals of a tenant that are due; an agent whose turn fails is reported, and the others go on.

    What is due depends on how old entries are and not on when they changed, so `since` does not matter here.
    """
    wanted = services.settings.consolidate
    if wanted == "off":
        return Done()
    total = Done()
    waiting = due(services, tenant)
    for place, agent in enumerate(waiting, 1):
        try:
            total += _propose(services, tenant, agent)
        except NoModel as error:  # the next agent would hear the same
            total += Done(
                failed=1, left=len(waiting) - place, errors=(f"tenant {tenant}: {error}",)
            )
            break
        except StorageError:  # the next agent would meet it too
            raise
        except RetainError as error:
            total += Done(failed=1, errors=(f"tenant {tenant}, agent {agent}: {error}",))
        if progress:
            progress(place, len(waiting))
    if wanted == "accept":
        _accept(services, tenant)
    return total


def due(services: Services, tenant: str) -> Sequence[str]:
    """The agents of a tenant whose journals have entries that are old enough and were not looked at."""

    def work(tx: Transaction) -> Sequence[str]:
        rows = tx.all(
            _AGENTS,
            after=tx.now - 2 * JOURNAL_WINDOW_MICROS,
            upto=tx.now - round(AGE_DAYS * clock.DAY),
        )
        return [str(row[0]) for row in rows]

    return services.database.read(tenant, work)


class _Lost(NotCalled):
    """The lease went to somebody else, who goes on from what is kept."""


class _Leased:
    """A model that is asked only while the lease is ours, for as long as a call can take."""

    def __init__(
        self, model: Model, database: Database, lease: leases.Lease, seconds: float
    ) -> None:
        self.name = model.name
        self._model = model
        self._renew = partial(leases.renew, database, lease, seconds)

    def complete(self, system: str, prompt: str, *, max_tokens: int) -> Completion:
        """What the model says."""
        if not self._renew():
            raise _Lost
        return self._model.complete(system, prompt, max_tokens=max_tokens)


def _propose(services: Services, tenant: str, agent: str) -> Done:
    """One agent's journal, while no other process looks at it."""
    seconds = services.settings.model_seconds + _TO_COMMIT
    lease = leases.claim(services.database, tenant, f"consolidate {agent}", seconds)
    if lease is None:
        return Done(left=1)
    model, models = services.models.main, services.models
    if model is not None:
        models = Models(services.settings, main=_Leased(model, services.database, lease, seconds))
    try:
        looked = run_proposals(
            replace(services, models=models), Owner(tenant, None, agent, "agent"), AGE_DAYS
        )
    except _Lost:
        return Done(left=1)
    finally:
        with suppress(StorageError):  # it runs out by itself
            leases.release(services.database, lease)
    errors = tuple(f"tenant {tenant}, agent {agent}: {error}" for error in looked.errors)
    return Done(done=len(looked.proposals), failed=len(errors), errors=errors[:MOST_ERRORS])


def _accept(services: Services, tenant: str) -> None:
    """Accept what is proposed, also what an earlier round left behind."""
    rows = services.database.read(
        tenant,
        lambda tx: tx.all(
            "select id, agent from consolidations where tenant = :tenant and status = 'proposed' order by created_at, id"
        ),
    )
    for id, agent in rows:
        try:
            Consolidations(services, Owner(tenant, None, agent, "agent")).accept(id)
        except (
            NotFound,
            Conflict,
        ):  # its entries were changed, or somebody else decided, since the look
            continue
