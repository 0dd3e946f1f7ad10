"""Take fresh documents into the segments of the search index."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from memorist.base.errors import Full, ReadOnly, StorageError, Unreachable
from memorist.jobs.job import JobResult, Progress
from memorist.kinds.kind import Services
from memorist.search.indexer import Indexer, due_owners
from memorist.storage import leases
from memorist.storage.database import Transaction

LEASE_NAME = "index"
LEASE_SECONDS = 60.0
OWNERS_PER_READ = 200


def run(services: Services, tenant: str, progress: Progress | None = None) -> JobResult:
    """Index the owners of a tenant that have fresh documents."""
    database = services.database
    if not database.read(tenant, lambda tx: due_owners(tx, "", 1)):
        return JobResult()
    lease = leases.claim(database, tenant, LEASE_NAME, LEASE_SECONDS)
    if lease is None:
        return JobResult(left=1)
    renewed = time.monotonic()
    done = 0
    result = JobResult()
    after = ""
    try:
        while owners := database.read(
            tenant,
            lambda tx, after=after: due_owners(tx, after, OWNERS_PER_READ),  # type: ignore[misc]
        ):
            for owner in owners:
                if time.monotonic() - renewed > LEASE_SECONDS / 3:
                    if not leases.renew(database, lease, LEASE_SECONDS):
                        return JobResult(done=done, left=1)  # another process continues
                    renewed = time.monotonic()
                try:
                    done += index_owner(services, tenant, owner)
                except StorageError as error:
                    if isinstance(error, Unreachable | ReadOnly | Full):
                        raise
                    result += JobResult(failed=1, errors=(f"tenant {tenant}: {error}",))
                if progress:
                    progress(done, 0)
            after = owners[-1]
    finally:
        with suppress(StorageError):  # the lease expires by itself
            leases.release(database, lease)
    return result + JobResult(done=done)


def index_owner(services: Services, tenant: str, owner: str) -> int:
    """Index the fresh documents of one owner, and return their number."""
    return Indexer(services.database, services.index, services.findables).run(tenant, owner)


def index_owners(services: Services, tenant: str, owners: Iterable[str]) -> None:
    """Index the fresh documents of some owners now."""
    for owner in dict.fromkeys(owners):
        index_owner(services, tenant, owner)


def owners_of(services: Services, tenant: str, kind: str, ids: Sequence[str]) -> set[str]:
    """Return the owners of the documents of records."""
    findable = services.findables[kind]

    def read(tx: Transaction) -> set[str]:
        sent = [findable.send(tx, id) for id in ids]
        return {
            document.owner
            for result in sent
            for row in result.rows()
            for document in findable.documents(row)
        }

    return services.database.read(tenant, read)
