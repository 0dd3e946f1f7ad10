"""The audit log: who changed what and when, with hashes of the row before and after, no content.

Rows are numbered without gaps per tenant. Each row has a hash of itself and of the previous row, so
`memorist verify` finds a row that was changed or removed from the middle. Erasing a user replaces the
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

from memorist.admin.admin_kind import AdminKind
from memorist.base import canonical, clock, masking
from memorist.base.parameters import Key, PageSize
from memorist.base.verbs import verb
from memorist.kinds.kind import Check
from memorist.kinds.page import Page, make_page, page_start
from memorist.storage.database import Transaction
from memorist.storage.rows import row_mapper
from memorist.storage.transfer.erase import hash_subject

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


@dataclass(frozen=True)
class NewAuditRecord:
    """A row to add; the fields are those of `AuditRecord`."""

    who: str
    what: str
    subject: str = ""
    before: str | None = None
    after: str | None = None
    secrets: int = 0
    request_id: str = ""
    owner: str | None = None
    """The user whose data changed; erasing the user replaces the subject."""


def add(tx: Transaction, record: NewAuditRecord) -> None:
    """Add a row.

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
        "who": record.who[:MAX_WHO_LENGTH],
        "what": record.what,
        # Masked under all settings: audit rows are never deleted.
        "subject": masking.mask_secrets(record.subject[:MAX_SUBJECT_LENGTH]),
        "before": record.before,
        "after": record.after,
        "secrets": record.secrets,
        "request_id": record.request_id[:MAX_REQUEST_ID_LENGTH],
    }
    values["chain"] = _chain_hash(chain, _with_hashed_subject(list(values.values())))
    tx.send(
        f"""insert into audit (tenant, {COLUMNS}, owner)
            values (:tenant, :number, :at, :who, :what, :subject, :before, :after, :secrets,
                    :request_id, :chain, :owner)""",
        **values,
        owner=record.owner,
    )


class AuditLog(AdminKind):
    """The audit log of a tenant: who did what and when, without contents."""

    name = "audit"
    parameter_help = {
        "who": "Only actions of this caller: `NAME (ID)` of a key, or `cli:NAME`.",
        "what": "Only this action, such as notes_overwrite or users_erase.",
    }

    @verb("GET /audit", effect="read", example="memorist audit --what entries_remove")
    def list(
        self,
        *,
        who: Key | None = None,
        what: Key | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: PageSize = 100,
        after: str | None = None,
    ) -> Page[AuditRecord]:
        """Return the actions in the tenant, newest first."""
        size, (start,) = page_start(limit, after, 2**62)
        rows = self._read_rows(
            lambda tx: tx.send(
                f"""select {COLUMNS} from audit
                    where tenant = :tenant and number < :start and at >= :since and at < :until
                    and who = coalesce(:who, who) and what = coalesce(:what, what)
                    order by number desc limit :size""",
                who=None if who is None else canonical.key(who, "who"),
                what=None if what is None else canonical.key(what, "what"),
                since=0 if since is None else clock.from_datetime(since, "since"),
                until=2**62 if until is None else clock.from_datetime(until, "until"),
                start=start,
                size=size + 1,
            )
        )
        return make_page([_record(row) for row in rows], size, lambda record: [record.number])


def find_tampering(tx: Transaction) -> Sequence[str]:
    """Describe the first row that is missing or changed; return nothing if the log is intact."""
    chain = ""
    rows = tx.each(f"select {COLUMNS} from audit where tenant = :tenant order by number")
    for number, row in enumerate(rows, 1):
        *values, stored_chain = row.values()
        chain = _chain_hash(chain, _with_hashed_subject(values))
        if row["number"] != number or stored_chain != chain:
            return [f"number {number} of the audit log is missing or was changed"]
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


_record = row_mapper(AuditRecord)
