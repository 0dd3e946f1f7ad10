"""Answers that are given once: a request with a key that comes again gets the first answer, and changes nothing.

A key belongs to one principal and one route. The row is written in the transaction of the change itself, so the change and
its answer are both there or neither; who comes while another is writing waits for it. The same key with other content
is an error (422). Where a verb takes several transactions, the first claims the key and each says that somebody is still
at it: who asks meanwhile gets a conflict (409), and who asks when nobody was for `patience` goes on.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from retain.base import canonical, clock
from retain.base.errors import Conflict, KeyReused
from retain.storage.database import Database, Transaction
from retain.storage.tables import Table

KEPT = clock.DAY
TABLES = (
    Table("answers", order="principal, route, key", owned="(user_id = :user or user_id is null)"),
)
"""For erasing alone: what a request without a user was answered may be about any."""
_FIND = """select digest, status, version, body, created_at from answers
           where tenant = :tenant and principal = :principal and route = :route and key = :key"""
_CLAIM = """insert into answers (tenant, principal, route, key, user_id, digest, status, version, body, created_at)
            values (:tenant, :principal, :route, :key, :user, :digest, 0, null, '', :now)
            on conflict (tenant, principal, route, key) do update set created_at = :now
            where answers.status = 0 and answers.digest = :digest and answers.created_at < :cutoff returning key"""
_RENEW = """update answers set created_at = :now
            where tenant = :tenant and principal = :principal and route = :route and key = :key and status = 0"""
_SETTLE = """update answers set status = :status, version = :version, body = :body
             where tenant = :tenant and principal = :principal and route = :route and key = :key"""
_RELEASE = """delete from answers where tenant = :tenant and principal = :principal and route = :route and key = :key
              and status = 0"""
_OLD = "select 1 from answers where tenant = :tenant and created_at < :cutoff limit 1"
_SWEEP = """delete from answers where tenant = :tenant and created_at < :cutoff and (principal, route, key) in (
                select principal, route, key from answers where tenant = :tenant and created_at < :cutoff limit :size)"""


@dataclass(frozen=True)
class StoredResponse:
    """What a request is answered, as it goes over the wire; `version` is that of the record, for its ETag."""

    status: int
    body: str
    version: int | None = None
    replayed: bool = False


class Replayed(Exception):
    """Raised in the transaction of a request that was answered before: it is undone, and the first answer given."""

    def __init__(self, answer: StoredResponse) -> None:
        super().__init__("this was answered before")
        self.answer = answer


@dataclass(frozen=True)
class IdempotentRequest:
    """A request that must have its effect once: who asks, which route, the key, and what is asked, as a digest."""

    principal: str
    route: str
    key: str
    digest: str
    user: str | None = None
    patience: int = clock.MINUTE
    """For how long, in microseconds, one that was begun counts as being worked on."""

    @classmethod
    def of(
        cls, principal: str, route: str, key: str, *asked: bytes | str, user: str | None = None
    ) -> IdempotentRequest:
        """One for a request; `asked` is all that makes it this request: its path, its parameters, its body."""
        parts = [
            part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            for part in asked
        ]
        digest = hashlib.sha256(
            b"".join(b"%d:%s" % (len(part), part) for part in parts)
        ).hexdigest()
        return cls(principal[:512], route, canonical.key(key, "Idempotency-Key"), digest, user)

    @property
    def _names(self) -> dict[str, str]:
        return {"principal": self.principal, "route": self.route, "key": self.key}

    def find(self, database: Database, tenant: str) -> StoredResponse | None:
        """The answer that was given, before anything is begun."""
        return database.read(tenant, self._found)

    def claim(self, tx: Transaction) -> None:
        """Be the request with this key from here on; who was it before raises its answer."""
        cutoff = tx.now - self.patience
        claimed = tx.one(_CLAIM, **self._names, user=self.user, digest=self.digest, cutoff=cutoff)
        if claimed is None and (found := self._found(tx)):
            raise Replayed(found)

    def renew(self, tx: Transaction) -> None:
        """Say that somebody is at it."""
        tx.run(_RENEW, **self._names)

    def settle(self, tx: Transaction, answer: StoredResponse) -> None:
        """Keep the answer."""
        tx.run(
            _SETTLE, **self._names, status=answer.status, version=answer.version, body=answer.body
        )

    def release(self, tx: Transaction) -> None:
        """There will be no answer: whoever asks again may try."""
        tx.run(_RELEASE, **self._names)

    def _found(self, tx: Transaction) -> StoredResponse | None:
        row = tx.one(_FIND, **self._names)
        if row is None:
            return None
        digest, status, version, body, at = row
        if digest != self.digest:
            raise KeyReused(key=self.key)
        if not status and at < tx.now - self.patience:  # whoever was at it is gone
            return None
        if not status:
            problem = f"the request with the idempotency key {self.key!r} is being worked on; try again in a moment"
            raise Conflict(problem=problem)
        return replace(StoredResponse(status, body, version), replayed=True)


def sweep(tx: Transaction, size: int) -> int:
    """Forget a batch of answers that are older than a day; how many."""
    return tx.run(_SWEEP, cutoff=tx.now - KEPT, size=size)


def sweep_all(database: Database, tenant: str, size: int = 500) -> int:
    """Forget every answer of a tenant that is older than a day, in small batches that nobody has to wait for; how many."""
    swept = 0
    while database.read(
        tenant, lambda tx: tx.one(_OLD, cutoff=tx.now - KEPT)
    ):  # to look costs no writer anything
        swept += database.write(tenant, lambda tx: sweep(tx, size), frees_space=True)
    return swept
