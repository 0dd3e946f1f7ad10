"""The audit log: who changed what and when, with hashes of the row before and after, no content.

Rows are numbered without gaps per tenant. Each row has a hash of itself and of the previous row, so
`retain verify` finds a row that was changed or removed from the middle. Erasing a user replaces the
subjects of their rows by hashes, which the chain allows. `verify` cannot detect rows that were
removed from the end: store the last number and its chain elsewhere from time to time. The database
itself rejects changes of existing rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from retain.base import canonical, clock, masking
from retain.kinds.kind import Check
from retain.kinds.page import Page, decode_cursor, make_page
from retain.storage.database import Database, Row, Transaction
from retain.storage.erase import hash_subject

MAX_SUBJECT_LENGTH = 2000
MAX_WHO_LENGTH = 512
MAX_REQUEST_ID_LENGTH = 200
COLUMNS = "number, at, who, what, subject, before, after, secrets, request_id, chain"
SUBJECT_COLUMN = COLUMNS.split(", ").index("subject")


@dataclass(frozen=True)
class AuditRecord:
    """One row of the audit log."""

    number: int
    at: datetime
    who: str
    what: str
    subject: str
    """The record that changed; its `sha256:…` once its owner was erased."""
    before: str | None
    """SHA-256 of the changed row before the change, if it was one row."""
    after: str | None
    secrets: int
    """The number of secrets found in the written content."""
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
    owner: str | None = None,
) -> None:
    """Add a row about data of `owner`.

    Call it last in a transaction: it blocks other audited writers of the tenant.
    """
    tx.lock_rows("select 1 from tenants where tenant = :tenant")
    last = tx.one(
        "select number, chain from audit where tenant = :tenant order by number desc limit 1"
    )
    number, chain = last or (0, "")
    values: dict[str, str | int | None] = {
        "number": number + 1,
        "at": tx.now,
        "who": who[:MAX_WHO_LENGTH],
        "what": what,
        # Masked under all settings: audit rows are never deleted.
        "subject": masking.mask(subject[:MAX_SUBJECT_LENGTH]),
        "before": before,
        "after": after,
        "secrets": secrets,
        "request_id": request_id[:MAX_REQUEST_ID_LENGTH],
    }
    values["chain"] = _chain_hash(chain, _with_hashed_subject(list(values.values())))
    tx.send(
        f"""insert into audit (tenant, {COLUMNS}, owner)
            values (:tenant, :number, :at, :who, :what, :subject, :before, :after, :secrets,
                    :request_id, :chain, :owner)""",
        **values,
        owner=owner,
    )


def list_records(
    database: Database,
    tenant: str,
    *,
    who: str | None = None,
    what: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 100,
    after: str | None = None,
    max_limit: int = 1000,
) -> Page[AuditRecord]:
    """Return a page of a tenant's audit log, newest first."""
    size = canonical.check_integer(limit, "limit", 1, max_limit)
    (start,) = decode_cursor(after, [int]) if after else (2**62,)
    values = {
        "who": None if who is None else canonical.key(who, "who"),
        "what": None if what is None else canonical.key(what, "what"),
        "since": 0 if since is None else clock.from_datetime(since, "since"),
        "until": 2**62 if until is None else clock.from_datetime(until, "until"),
        "start": start,
        "size": size + 1,
    }
    rows = database.read(
        tenant,
        lambda tx: tx.all(
            f"""select {COLUMNS} from audit
                where tenant = :tenant and number < :start and at >= :since and at < :until
                and who = coalesce(:who, who) and what = coalesce(:what, what)
                order by number desc limit :size""",
            **values,
        ),
    )
    return make_page([_record(row) for row in rows], size, lambda record: [record.number])


def find_tampering(tx: Transaction) -> Sequence[str]:
    """Describe the first row that is missing or changed; return nothing if the log is intact."""
    chain = ""
    rows = tx.each(f"select {COLUMNS} from audit where tenant = :tenant order by number")
    for number, row in enumerate(rows, 1):
        *values, stored_chain = row.values()
        # Rows of schemas before 19 have the subject itself in the chain.
        chains = {_chain_hash(chain, _with_hashed_subject(values)), _chain_hash(chain, values)}
        if row["number"] != number or stored_chain not in chains:
            return [f"number {number} of the audit log is missing or was changed"]
        chain = stored_chain
    return []


CHECKS = (Check("the audit log is as it was written", find=find_tampering),)


def _with_hashed_subject(values: Sequence[object]) -> list[object]:
    """Return a row with the hash of its subject, as an erasure would leave it."""
    hashed = list(values)
    hashed[SUBJECT_COLUMN] = hash_subject(str(values[SUBJECT_COLUMN]))
    return hashed


def _chain_hash(previous: str, values: Sequence[object]) -> str:
    """Return the hash of a row and, through `previous`, of all rows before it."""
    return hashlib.sha256(f"{previous}\n{json.dumps(values)}".encode()).hexdigest()


def _record(row: Row) -> AuditRecord:
    number, at, *rest = row
    return AuditRecord(number, clock.to_datetime(at), *rest)
