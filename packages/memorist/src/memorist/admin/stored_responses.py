"""The header `Idempotency-Key`: a repeated request with the same key gets the first response again.

Verbs with a `key` of their own (`append`, `extend`, `save_turn`) and chat turns store no response: the
header becomes their `key`, which finds the messages that the first call added (`AlreadyAdded` in
`kinds/messages/messages.py`), in the library too.

A key belongs to one principal and one route. Its row is written in the transaction of the change
itself: both exist or neither does, and a concurrent request waits. The same key with another
request is an error (422). A verb with several transactions claims the key in the first and renews
the claim in each. A request with a claimed key gets a conflict (409), until the claim was not
renewed for `patience`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from memorist.base import canonical, clock
from memorist.base.errors import Conflict, KeyReused
from memorist.storage.checksum import checksum
from memorist.storage.database import Database, Transaction
from memorist.storage.tables import Table

KEEP_RESPONSES = clock.DAY
_SWEEP_SIZE = 500
TABLES = (
    Table(
        "stored_responses",
        order="principal, route, key",
        owned="(user_id = :user or user_id is null)",
        checked=("body",),
    ),
)
"""Used to erase and to check. A response without a user may be about any user, so it is erased too."""
_FIND = """select digest, status, version, body, created_at from stored_responses
           where tenant = :tenant and principal = :principal and route = :route and key = :key"""
_CLAIM = """insert into stored_responses (tenant, principal, route, key, user_id, digest, status, version, body, created_at, checksum)
            values (:tenant, :principal, :route, :key, :user, :digest, 0, null, '', :now, :checksum)
            on conflict (tenant, principal, route, key) do update set created_at = :now
            where stored_responses.status = 0 and stored_responses.digest = :digest and stored_responses.created_at < :cutoff returning key"""
_RENEW = """update stored_responses set created_at = :now
            where tenant = :tenant and principal = :principal and route = :route and key = :key and status = 0"""
_SETTLE = """update stored_responses set status = :status, version = :version, body = :body, checksum = :checksum
             where tenant = :tenant and principal = :principal and route = :route and key = :key"""
_RELEASE = """delete from stored_responses where tenant = :tenant and principal = :principal and route = :route and key = :key
              and status = 0"""
_OLD = "select 1 from stored_responses where tenant = :tenant and created_at < :cutoff limit 1"
_SWEEP = """delete from stored_responses where tenant = :tenant and created_at <= (
                select max(created_at) from (
                    select created_at from stored_responses where tenant = :tenant and created_at < :cutoff
                    order by created_at limit :size) oldest)"""


@dataclass(frozen=True)
class StoredResponse:
    """A response as it goes over the wire."""

    status: int
    body: str
    version: int | None = None
    """The version of the record, for the ETag."""
    replayed: bool = False


class Replayed(Exception):
    """Raised to roll back the transaction of a repeated request and return the first response."""

    def __init__(self, response: StoredResponse) -> None:
        super().__init__("this request has a stored response")
        self.response = response


@dataclass(frozen=True)
class IdempotentRequest:
    """A request with an idempotency key; the digest identifies its content."""

    principal: str
    route: str
    key: str
    digest: str
    user: str | None = None
    patience: int = clock.MINUTE
    """The lifetime of a claim without a renewal, in microseconds."""

    @classmethod
    def of(
        cls, principal: str, route: str, key: str, *content: bytes | str, user: str | None = None
    ) -> IdempotentRequest:
        """Create a request from the parts that identify it: path, parameters, body."""
        parts = [
            part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            for part in content
        ]
        digest = hashlib.sha256(
            b"".join(b"%d:%s" % (len(part), part) for part in parts)
        ).hexdigest()
        return cls(principal[:512], route, canonical.key(key, "Idempotency-Key"), digest, user)

    @property
    def _names(self) -> dict[str, str]:
        return {"principal": self.principal, "route": self.route, "key": self.key}

    def find(self, database: Database, tenant: str) -> StoredResponse | None:
        """Return the stored response, or None."""
        return database.read(tenant, self._find)

    def claim(self, tx: Transaction) -> None:
        """Claim the key. Raise Replayed if it has a response, Conflict if it is claimed."""
        cutoff = tx.now - self.patience
        claimed = tx.one(
            _CLAIM,
            **self._names,
            user=self.user,
            digest=self.digest,
            cutoff=cutoff,
            checksum=checksum(""),
        )
        response = self._find(tx) if claimed is None else None
        if response is not None:
            raise Replayed(response)

    def renew(self, tx: Transaction) -> None:
        """Renew the claim."""
        tx.send(_RENEW, **self._names)

    def store(self, tx: Transaction, response: StoredResponse) -> None:
        """Store the response."""
        tx.send(
            _SETTLE,
            **self._names,
            status=response.status,
            version=response.version,
            body=response.body,
            checksum=checksum(response.body),
        )

    def release(self, tx: Transaction) -> None:
        """Release the claim, so that a retry can claim the key."""
        tx.send(_RELEASE, **self._names)

    def _find(self, tx: Transaction) -> StoredResponse | None:
        row = tx.one(_FIND, **self._names)
        if row is None:
            return None
        digest, status, version, body, at = row
        if digest != self.digest:
            raise KeyReused(key=self.key)
        if not status and at < tx.now - self.patience:  # The claim expired.
            return None
        if not status:
            raise Conflict(
                problem=f"A request with the idempotency key {self.key!r} is in progress. Retry in a moment."
            )
        return replace(StoredResponse(status, body, version), replayed=True)


def sweep_all(database: Database, tenant: str) -> int:
    """Delete the responses of a tenant older than a day, in small transactions; return how many."""

    def delete_batch(tx: Transaction) -> int:
        return tx.run(_SWEEP, cutoff=tx.now - KEEP_RESPONSES, size=_SWEEP_SIZE)

    swept = 0
    while database.read(tenant, lambda tx: tx.one(_OLD, cutoff=tx.now - KEEP_RESPONSES)):
        swept += database.write(tenant, delete_batch, frees_space=True)
    return swept
