"""Count the due work, for status pages."""

from __future__ import annotations

from memorist.base import clock
from memorist.jobs import consolidate, deliver_webhooks, learn, summarize
from memorist.kinds.kind import Services
from memorist.search.reindexer import is_behind
from memorist.storage.database import Transaction


def count_backlog(services: Services, tenant: str) -> dict[str, int]:
    """Return how much of each job is due in a tenant; jobs that the settings turn off count 0.

    index:          1 while records are missing from the index
    summaries:      sessions to fold
    facts:          sessions with turns to learn from
    consolidations: agents whose journals fade
    retention:      expired state, and sessions with messages older than `retention_days`
    webhooks:       events that webhooks have not yet been sent

    `embed.lag` tells how far the vectors are behind.
    """
    settings = services.settings

    def read(tx: Transaction) -> tuple[int, int, int]:
        row = tx.one("select count(*) from state where tenant = :tenant and expires_at <= :now")
        retention = row[0] if row else 0
        if settings.retention_days:
            row = tx.one(
                "select count(*) from sessions where tenant = :tenant and first_at < :cutoff",
                cutoff=tx.now - round(settings.retention_days * clock.DAY),
            )
            retention += row[0] if row else 0
        webhooks = 0 if settings.events == "off" else deliver_webhooks.count_due(tx)
        return int(bool(is_behind(tx))), retention, webhooks

    index, retention, webhooks = services.database.read(tenant, read)
    summaries = 0
    if settings.summary_enabled:
        summaries = len(summarize.due_sessions(services, tenant))
    consolidations = 0
    if settings.consolidate != "off":
        consolidations = len(consolidate.due(services, tenant))
    return {
        "index": index,
        "summaries": summaries,
        "facts": len(learn.due_sessions(services, tenant)),
        "consolidations": consolidations,
        "retention": retention,
        "webhooks": webhooks,
    }
