"""Leases: who is at work on what, so that two processes do not pay a model for the same thing.

A lease saves work; it does not make it safe. It runs out when its holder dies or is too slow, and somebody else may then
have it: whoever commits asks `held` in the same transaction, and checks besides that nothing changed underneath.
Times are the database's, so that the clocks of two machines need not agree.
"""

from __future__ import annotations

from dataclasses import dataclass

from retain.base import clock
from retain.storage.database import Database, Transaction

_CLAIM = """insert into leases (tenant, what, fence, expires_at) values (:tenant, :what, :now, :expires)
            on conflict (tenant, what) do update
            set fence = case when leases.fence < :now then :now else leases.fence + 1 end, expires_at = excluded.expires_at
            where leases.expires_at <= :now
            returning fence"""


@dataclass(frozen=True)
class Lease:
    """Something that this process alone works on, until the lease runs out; another holder has another fence."""

    tenant: str
    what: str
    fence: int


def claim(database: Database, tenant: str, what: str, seconds: float) -> Lease | None:
    """The lease on something for so many seconds, or None while somebody else has it."""

    def work(tx: Transaction) -> Lease | None:
        row = tx.one(_CLAIM, what=what, expires=clock.after(tx.now, seconds, "seconds"))
        return Lease(tenant, what, row[0]) if row else None

    return database.write(tenant, work)


def renew(database: Database, lease: Lease, seconds: float) -> bool:
    """Keep a lease for so many seconds from now; False if it went to somebody else."""

    def work(tx: Transaction) -> int:
        return tx.run(
            "update leases set expires_at = :expires where tenant = :tenant and what = :what and fence = :fence",
            what=lease.what,
            fence=lease.fence,
            expires=clock.after(tx.now, seconds, "seconds"),
        )

    return bool(database.write(lease.tenant, work, idempotent=True))


def held(tx: Transaction, lease: Lease) -> bool:
    """Whether a lease is still this holder's; while this transaction lasts, nobody can take it."""
    tx.lock_rows("select 1 from leases where tenant = :tenant and what = :what", what=lease.what)
    row = tx.one(
        "select fence from leases where tenant = :tenant and what = :what", what=lease.what
    )
    return row is not None and bool(row[0] == lease.fence)


def taken(database: Database, tenant: str, what: str) -> bool:
    """Whether somebody is at work on something now."""
    sql = "select 1 from leases where tenant = :tenant and what = :what and expires_at > :now"
    return database.read(tenant, lambda tx: tx.one(sql, what=what)) is not None


def release(database: Database, lease: Lease) -> None:
    """Let somebody else have it; a lease that went to somebody else stays theirs."""

    def work(tx: Transaction) -> int:
        return tx.run(
            "delete from leases where tenant = :tenant and what = :what and fence = :fence",
            what=lease.what,
            fence=lease.fence,
        )

    database.write(lease.tenant, work, idempotent=True)


def sweep(database: Database, tenant: str) -> int:
    """Remove the leases that nobody gave back and that ran out a day ago; how many there were."""
    return database.write(
        tenant,
        lambda tx: tx.run(
            "delete from leases where tenant = :tenant and expires_at < :old",
            old=tx.now - clock.DAY,
        ),
        idempotent=True,
    )
