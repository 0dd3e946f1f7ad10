"""What is due now, in numbers: for a person who looks, and not for those who do it."""

from __future__ import annotations

from retain.base import clock
from retain.jobs import consolidate, summarize
from retain.kinds.kind import Services
from retain.search.reindex import is_behind
from retain.storage.database import Transaction


def due(services: Services, tenant: str) -> dict[str, int]:
    """How much of each kind of work waits in a tenant; nothing waits for what the settings turn off.

    `index`: 1 while things are not in the index yet. `summaries`: sessions to be folded. `consolidations`: agents whose
    journals fade. `retention`: expired state, and sessions with messages that are older than `retention_days`. How far
    vectors are behind, `embed.lag` says.
    """
    settings = services.settings

    def work(tx: Transaction) -> tuple[int, int, int]:
        (expired,) = tx.one(
            "select count(*) from state where tenant = :tenant and expires_at <= :now"
        ) or (0,)
        if not settings.retention_days:
            return int(bool(is_behind(tx))), expired, 0
        cutoff = tx.now - round(settings.retention_days * clock.DAY)
        (old,) = tx.one(
            "select count(*) from sessions where tenant = :tenant and first_at < :cutoff",
            cutoff=cutoff,
        ) or (0,)
        return int(bool(is_behind(tx))), expired, old

    index, expired, old = services.database.read(tenant, work)
    return {
        "index": index,
        "summaries": sum(1 for _ in summarize.due(services, tenant, 0))
        if settings.summary_enabled
        else 0,
        "consolidations": 0
        if settings.consolidate == "off"
        else len(consolidate.due(services, tenant)),
        "retention": expired + old,
    }
