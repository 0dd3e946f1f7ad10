"""The index of tenants that are behind: migrated from before there was one, or imported, and not filled to the end yet."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from retain.base.errors import NotFound, StorageError
from retain.jobs.job import Done, Progress
from retain.kinds import KINDS
from retain.kinds.kind import Services
from retain.search.reindex import Reindexed, Reindexer, is_behind
from retain.storage import leases
from retain.storage.database import EVERY_TENANT

__all__ = ["Reindexed", "catch_up", "reindex", "run"]

_LEASE = "index"
_SECONDS = 60.0
_BEHIND = "select tenant from search_behind where :tenant = '*' order by tenant"
_KINDS = tuple(kind.findable for kind in KINDS if kind.findable)
log = logging.getLogger("retain.search")


def reindex(
    services: Services, tenants: Sequence[str] | None = None, progress: Progress | None = None
) -> Reindexed:
    """Fill the index of some tenants, or of every one, whether they are behind or not."""
    known = services.database.tenants()
    for tenant in tenants or []:
        if tenant not in known:
            raise NotFound(what="tenant", id=tenant)
    total = Reindexed()
    for tenant in known if tenants is None else tenants:
        total += _fill(services, tenant, total.added, progress, whole=True)
    return total


def catch_up(services: Services, progress: Progress | None = None) -> Reindexed:
    """Fill the index of the tenants that are behind, but for those that another process is at."""
    total = Reindexed()
    for (tenant,) in services.database.read(EVERY_TENANT, lambda tx: tx.all(_BEHIND)):
        log.info("the index of tenant %s is behind: filling it", tenant)
        try:
            total += _alone(services, tenant, total.added, progress) or Reindexed()
        except StorageError as error:  # what there is can be used as it is
            log.warning(
                "the index of tenant %s is not filled: %s `retain reindex` goes on with it.",
                tenant,
                error,
            )
    return total


def run(services: Services, tenant: str, since: int = 0, progress: Progress | None = None) -> Done:
    """Go on where an import or a migration was stopped."""
    if not services.database.read(tenant, is_behind):
        return Done()
    made = _alone(services, tenant, 0, progress)
    return Done(left=1) if made is None else Done(done=made.added + made.reworded)


def _alone(
    services: Services, tenant: str, before: int, progress: Progress | None
) -> Reindexed | None:
    """Fill the index of a tenant, unless somebody else is at it: two would do no harm, and the same work twice."""
    lease = leases.claim(services.database, tenant, _LEASE, _SECONDS)
    if lease is None:
        return None

    def renewed(done: int, total: int) -> None:
        leases.renew(services.database, lease, _SECONDS)
        if progress:
            progress(done, total)

    try:
        return _fill(services, tenant, before, renewed)
    finally:
        leases.release(services.database, lease)


def _fill(
    services: Services, tenant: str, before: int, progress: Progress | None, *, whole: bool = False
) -> Reindexed:
    """Fill the index of a tenant; if the whole of it, what it has is looked at too."""
    done = before

    def added(rows: int) -> None:
        nonlocal done
        done += rows
        if progress:
            progress(done, 0)

    filling = Reindexer(services.database, services.index, services.blobs, tenant, added)
    return filling.run(_KINDS) + (filling.mend() if whole else Reindexed())
