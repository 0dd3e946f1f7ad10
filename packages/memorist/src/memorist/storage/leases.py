"""Leases on background work, so that two processes do not pay a model for the same result.

A lease saves work; it does not make it safe. It expires if its holder dies or is too slow, and
another process may then take it. So a job calls `is_held` in the transaction that stores its result,
and also checks that its input did not change. Times are the database's, so the clocks of two
machines need not agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from memorist.base import clock
from memorist.base.errors import StorageError
from memorist.storage.database import Database, Transaction

_CLAIM = """insert into leases (tenant, what, fence, expires_at) values (:tenant, :what, :now, :expires)
            on conflict (tenant, what) do update
            set fence = case when leases.fence < :now then :now else leases.fence + 1 end, expires_at = excluded.expires_at
            where leases.expires_at <= :now
            returning fence"""


@dataclass(frozen=True)
class Lease:
    """The exclusive right to a piece of work until it expires; each holder has its own fence."""

    tenant: str
    what: str
    fence: int


def claim(
    database: Database, tenant: str, what: str, seconds: float, *, frees_space: bool = False
) -> Lease | None:
    """Take a lease for a number of seconds; return None while another process holds it.

    frees_space: True for work that deletes data. Other work is refused while the disk is nearly
                 full, before it pays a model for a result that cannot be stored.
    """

    def work(tx: Transaction) -> Lease | None:
        row = tx.one(_CLAIM, what=what, expires=clock.after(tx.now, seconds, "seconds"))
        return Lease(tenant, what, row[0]) if row else None

    return database.write(tenant, work, frees_space=frees_space)


@contextmanager
def held(
    database: Database, tenant: str, what: str, seconds: float, *, frees_space: bool = False
) -> Iterator[Lease | None]:
    """Hold a lease inside of the block, or None while another process holds it; as in `claim`."""
    lease = claim(database, tenant, what, seconds, frees_space=frees_space)
    try:
        yield lease
    finally:
        # If the release fails, the lease expires; an earlier exception must not be hidden.
        with suppress(StorageError):
            if lease is not None:
                release(database, lease)


def renew(database: Database, lease: Lease, seconds: float) -> bool:
    """Extend a lease to a number of seconds from now; return False if it was lost."""

    def work(tx: Transaction) -> int:
        return tx.run(
            "update leases set expires_at = :expires where tenant = :tenant and what = :what and fence = :fence",
            what=lease.what,
            fence=lease.fence,
            expires=clock.after(tx.now, seconds, "seconds"),
        )

    return bool(database.write(lease.tenant, work, idempotent=True, frees_space=True))


def is_held(tx: Transaction, lease: Lease) -> bool:
    """Return True if the lease is still held; no process can take it during this transaction."""
    tx.lock_rows("select 1 from leases where tenant = :tenant and what = :what", what=lease.what)
    row = tx.one(
        "select fence from leases where tenant = :tenant and what = :what", what=lease.what
    )
    return row is not None and bool(row[0] == lease.fence)


def taken(database: Database, tenant: str, what: str) -> bool:
    """Return True if a process holds the lease now."""
    sql = "select 1 from leases where tenant = :tenant and what = :what and expires_at > :now"
    return database.read(tenant, lambda tx: tx.one(sql, what=what)) is not None


def release(database: Database, lease: Lease) -> None:
    """Release a lease, unless another process took it meanwhile."""

    def work(tx: Transaction) -> int:
        return tx.run(
            "delete from leases where tenant = :tenant and what = :what and fence = :fence",
            what=lease.what,
            fence=lease.fence,
        )

    database.write(lease.tenant, work, idempotent=True, frees_space=True)


def sweep(database: Database, tenant: str) -> int:
    """Delete leases that expired more than a day ago, and return their number."""
    return database.write(
        tenant,
        lambda tx: tx.run(
            "delete from leases where tenant = :tenant and expires_at < :old",
            old=tx.now - clock.DAY,
        ),
        idempotent=True,
        frees_space=True,
    )
