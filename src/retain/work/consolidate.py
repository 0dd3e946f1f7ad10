"""Journals that are about to fade: proposals to keep what matters in them, accepted at once where the settings say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from retain import clock
from retain.errors import Conflict, ModelError, NoModel, NotFound
from retain.kinds import entry
from retain.kinds.consolidations import Consolidations
from retain.kinds.interactions import Interactions
from retain.kinds.kind import Home, Who
from retain.models import Models
from retain.storage import leases
from retain.storage.database import Transaction
from retain.work.job import Done, Progress
from retain.work.watch import Call, Watched, record

ROUTE = "consolidate"
AGE_DAYS = 5.0
"""How old a journal entry must be: two days before it fades."""
_LEASE_SECONDS = 1800.0
_AGENTS = """select distinct agent from entries
             where tenant = :tenant and kind = 'journal' and created_at > :after and created_at <= :upto
             and not exists (select 1 from consolidation_sources as used
                             where used.tenant = :tenant and used.entry_id = entries.id)
             order by agent"""


def run(home: Home, tenant: str, since: int = 0, progress: Progress | None = None) -> Done:
    """Look through the journals of a tenant that are due; an agent whose turn fails is reported, and the others go on.

    What is due depends on how old entries are and not on when they changed, so `since` does not matter here.
    """
    wanted = home.settings.consolidate
    if wanted == "off":
        return Done()
    total = Done()
    waiting = due(home, tenant)
    for place, agent in enumerate(waiting, 1):
        try:
            total += _propose(home, tenant, agent)
        except NoModel as error:  # the next agent would hear the same
            total += Done(failed=1, left=len(waiting) - place, errors=(f"tenant {tenant}: {error}",))
            break
        except ModelError as error:
            total += Done(failed=1, errors=(f"tenant {tenant}, agent {agent}: {error}",))
        if progress:
            progress(place, len(waiting))
    if wanted == "accept":
        _accept(home, tenant)
    return total


def due(home: Home, tenant: str) -> Sequence[str]:
    """The agents of a tenant whose journals have entries that are old enough and were not looked at."""

    def work(tx: Transaction) -> Sequence[str]:
        rows = tx.all(_AGENTS, after=tx.now - 2 * entry.WINDOW, upto=tx.now - round(AGE_DAYS * clock.DAY))
        return [str(row[0]) for row in rows]

    return home.database.read(tenant, work)


def _propose(home: Home, tenant: str, agent: str) -> Done:
    """One agent's journal, while no other process looks at it; every call of a model is on record."""
    lease = leases.claim(home.database, tenant, f"consolidate {agent}", _LEASE_SECONDS)
    if lease is None:
        return Done(left=1)
    calls: list[Call] = []
    who = Who(tenant, None, agent, "agent")
    model = home.models.main
    models = Models(home.settings, main=Watched(model, calls.append)) if model else home.models
    try:
        return Done(done=len(Consolidations(replace(home, models=models), who).propose(days=AGE_DAYS)))
    finally:
        for call in calls:
            record(Interactions(home, who), ROUTE, call)
        leases.release(home.database, lease)


def _accept(home: Home, tenant: str) -> None:
    """Accept what is proposed, also what an earlier round left behind."""
    rows = home.database.read(
        tenant,
        lambda tx: tx.all(
            "select id, agent from consolidations where tenant = :tenant and status = 'proposed' order by created_at, id"
        ),
    )
    for id, agent in rows:
        try:
            Consolidations(home, Who(tenant, None, agent, "agent")).accept(id)
        except (NotFound, Conflict):  # its entries were changed, or somebody else decided, since the look
            continue
