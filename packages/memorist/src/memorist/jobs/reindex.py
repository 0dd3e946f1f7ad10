"""Complete the search index of tenants that were imported or migrated."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from memorist.base.errors import NotFound, StorageError
from memorist.jobs import index_owners
from memorist.jobs.job import JobResult, Progress
from memorist.kinds.kind import Services
from memorist.search.reindexer import Reindexed, Reindexer, is_behind
from memorist.storage import leases
from memorist.storage.database import EVERY_TENANT

__all__ = ["Reindexed", "catch_up", "reindex", "run"]

LEASE_NAME = "reindex"
LEASE_SECONDS = 60.0
LEASE_POLL_SECONDS = 0.5
_BEHIND = "select tenant from search_behind order by tenant"
log = logging.getLogger("memorist.search")


def reindex(
    services: Services, tenants: Sequence[str] | None = None, progress: Progress | None = None
) -> Reindexed:
    """Complete the index of some tenants, or of all, and remove what has no record."""
    known = services.database.tenants()
    for tenant in tenants or []:
        if tenant not in known:
            raise NotFound(what="tenant", id=tenant)
    total = Reindexed()
    for tenant in known if tenants is None else tenants:
        total += _fill(services, tenant, total.added, progress)
    return total


def catch_up(
    services: Services, progress: Progress | None = None, *, wait: bool = False
) -> Reindexed:
    """Complete the index of the tenants that are behind, unless another process does.

    With `wait`, return only when no tenant is behind: wait for another process, or take over from
    it when its lease expires, and raise what keeps the index from being completed.
    """
    total = Reindexed()
    for (tenant,) in services.database.read(EVERY_TENANT, lambda tx: tx.unscoped(_BEHIND)):
        log.info("The index of tenant %s is incomplete; completing it.", tenant)
        try:
            result = _fill_under_lease(services, tenant, total.added, progress)
            while wait and services.database.read(tenant, is_behind):
                if result is None:
                    time.sleep(LEASE_POLL_SECONDS)
                else:
                    total += result
                result = _fill_under_lease(services, tenant, total.added, progress)
        except StorageError as error:
            if wait:
                raise
            # The index can be used as it is.
            log.warning(
                "The index of tenant %s is still incomplete: %s Run `memorist reindex` to complete it.",
                tenant,
                error,
            )
        else:
            total += result or Reindexed()
    return total


def run(services: Services, tenant: str, progress: Progress | None = None) -> JobResult:
    """Continue where an import or a migration was interrupted, and index fresh documents."""
    result = JobResult()
    if services.database.read(tenant, is_behind):
        filled = _fill_under_lease(services, tenant, 0, progress)
        result = JobResult(left=1) if filled is None else JobResult(filled.added + filled.removed)
    return result + index_owners.run(services, tenant, progress)


def _fill_under_lease(
    services: Services, tenant: str, before: int, progress: Progress | None
) -> Reindexed | None:
    """Complete the index of a tenant; None if another process is doing it."""
    lease = leases.claim(services.database, tenant, LEASE_NAME, LEASE_SECONDS)
    if lease is None:
        return None

    def renewed(done: int, total: int) -> None:
        leases.renew(services.database, lease, LEASE_SECONDS)
        if progress:
            progress(done, total)

    try:
        return _fill(services, tenant, before, renewed)
    finally:
        leases.release(services.database, lease)


def _fill(services: Services, tenant: str, before: int, progress: Progress | None) -> Reindexed:
    """Mark what the index of a tenant lacks, and index it."""
    done = before

    def marked(count: int) -> None:
        nonlocal done
        done += count
        if progress:
            progress(done, 0)

    reindexer = Reindexer(services.database, services.index, services.findables, tenant, marked)
    result = reindexer.run()
    index_owners.run(services, tenant, progress)
    return result
