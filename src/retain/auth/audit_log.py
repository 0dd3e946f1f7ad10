"""The audit log: who did what to what and when, and the hashes of what it was before and after; nothing of what was said.

Rows are numbered without gaps in each tenant, and each has the hash of itself and of the one before it: a row that is
changed or taken out of the middle shows in `retain verify`. Who takes the last ones cannot be seen from within: note the
last number and its chain elsewhere from time to time. Rows can only be added; the database itself refuses anything else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from retain.base import canonical, clock, masking
from retain.kinds.kind import Check, Page, decode_cursor, make_page
from retain.storage.database import Database, Row, Transaction

MOST_SUBJECT = 2000
_COLUMNS = "number, at, who, what, subject, before, after, secrets, request_id, chain"
_LAST = "select number, chain from audit where tenant = :tenant order by number desc limit 1"
_ADD = f"""insert into audit (tenant, {_COLUMNS}) values (
    :tenant, :number, :now, :who, :what, :subject, :before, :after, :secrets, :request_id, :chain)"""
_LIST = f"""select {_COLUMNS} from audit where tenant = :tenant and number < :start and at >= :since and at < :until
            and who = coalesce(:who, who) and what = coalesce(:what, what) order by number desc limit :size"""
_ALL = f"select {_COLUMNS} from audit where tenant = :tenant order by number"


@dataclass(frozen=True)
class Deed:
    """Something that was done. `before` and `after` are SHA-256 of the row it was done to, where it is one row."""

    number: int
    at: datetime
    who: str
    what: str
    subject: str
    before: str | None
    after: str | None
    secrets: int
    request_id: str
    chain: str


def add(
    tx: Transaction,
    who: str,
    what: str,
    subject: str = "",
    *,
    before: str | None = None,
    after: str | None = None,
    secrets: int = 0,
    request_id: str = "",
) -> None:
    """Put something that is done in this transaction on record; the last thing in it, because others wait from here on."""
    tx.lock_rows("select 1 from tenants where tenant = :tenant")
    number, chain = tx.one(_LAST) or (0, "")
    about = masking.mask(
        subject[:MOST_SUBJECT]
    )  # whatever the setting says: what is here stays for good
    said = (number + 1, tx.now, who[:512], what, about, before, after, secrets, request_id[:200])
    names = ("number", "at", "who", "what", "subject", "before", "after", "secrets", "request_id")
    values = dict(zip(names, said, strict=True))
    del values["at"]
    tx.run(_ADD, **values, chain=_link(chain, said))


def listed(
    database: Database,
    tenant: str,
    *,
    who: str | None = None,
    what: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 100,
    after: str | None = None,
    most: int = 1000,
) -> Page[Deed]:
    """What was done in a tenant, the newest first."""
    size = canonical.whole(limit, "limit", 1, most)
    (start,) = decode_cursor(after, [int]) if after else (2**62,)
    values = {
        "who": None if who is None else canonical.key(who, "who"),
        "what": None if what is None else canonical.key(what, "what"),
        "since": 0 if since is None else clock.from_datetime(since, "since"),
        "until": 2**62 if until is None else clock.from_datetime(until, "until"),
    }
    rows = database.read(tenant, lambda tx: tx.all(_LIST, **values, start=start, size=size + 1))
    return make_page([_deed(row) for row in rows], size, lambda deed: [deed.number])


def broken(tx: Transaction) -> Sequence[str]:
    """Where the log is not what was written: the first number that is missing or whose chain does not follow."""
    chain = ""
    for number, row in enumerate(tx.each(_ALL), 1):
        *said, found = row.values()
        chain = _link(chain, said)
        if row["number"] != number or found != chain:
            return [f"number {number} of the audit log is missing or was changed"]
    return []


CHECKS = (Check("the audit log is as it was written", find=broken),)


def _link(before: str, said: Sequence[object]) -> str:
    """The hash of a row and of all before it."""
    return hashlib.sha256(f"{before}\n{json.dumps(said)}".encode()).hexdigest()


def _deed(row: Row) -> Deed:
    number, at, *rest = row
    return Deed(number, clock.to_datetime(at), *rest)
