"""Browser sessions: a browser signs in with a key once and then sends a cookie instead.

A browser session belongs to its key: it has the key's permissions and ends with it. Its token is
`TENANT_SECRET`: the tenant in base 32, as in a key, and 256 random bits. The table stores the
SHA-256 of the token.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, replace

from memorist.admin.credentials import (
    INVALID_CREDENTIAL,
    Authentication,
    authenticate_row,
    base32,
    decode_tenant,
    digest,
)
from memorist.base import clock
from memorist.base.errors import Unauthorized
from memorist.storage.database import Database, Row, Transaction
from memorist.storage.writer import Change, Writer

SHORT_SESSION = clock.DAY // 2
LONG_SESSION = 30 * clock.DAY
MAX_SESSIONS_PER_KEY = 100
"""One more browser session ends the oldest session of the key."""
_SWEEP_SIZE = 500
_TOKEN_FORMAT = re.compile(r"([a-z2-7]{2,820})_[a-z2-7]{52}")


@dataclass(frozen=True)
class NewBrowserSession:
    """A browser session that was just created."""

    text: str
    """The token, which is not stored and cannot be read again."""
    seconds: float
    """Its lifetime."""


class BrowserSessions:
    """The browser sessions of a database."""

    def __init__(self, database: Database, writer: Writer | None = None) -> None:
        self._database = database
        self._writer = writer or Writer(database)

    def add(self, tenant: str, key: str, *, remember: bool = False) -> NewBrowserSession:
        """Create a session of an authenticated key: for half a day, with `remember` for a month."""
        text = f"{base32(tenant.encode())}_{base32(secrets.token_bytes(32))}"
        duration = LONG_SESSION if remember else SHORT_SESSION

        def work(tx: Transaction) -> int:
            row = tx.one(
                """select expires_at from keys
                   where tenant = :tenant and id = :key and revoked_at is null
                   and (expires_at is null or expires_at > :now)""",
                key=key,
            )
            if row is None:  # Revoked or erased since the authentication.
                raise Unauthorized(problem=INVALID_CREDENTIAL)
            until = min(tx.now + duration, row[0] or tx.now + duration)
            tx.send(
                """delete from signins where tenant = :tenant and key_id = :key and digest not in (
                       select digest from signins
                       where tenant = :tenant and key_id = :key and expires_at > :now
                       order by created_at desc, digest limit :limit)""",
                key=key,
                limit=MAX_SESSIONS_PER_KEY - 1,
            )
            tx.send(
                """insert into signins (tenant, digest, key_id, created_at, expires_at)
                   values (:tenant, :digest, :key, :now, :until)""",
                digest=digest(text),
                key=key,
                until=until,
            )
            return until - tx.now

        change = Change("signins", "add", tenant)
        return NewBrowserSession(text, self._writer.write(change, work) / clock.SECOND)

    def authenticate(self, text: str) -> Authentication:
        """Return the principal of a token: the current principal of its key."""
        match = _TOKEN_FORMAT.fullmatch(text)
        if match is None:
            raise Unauthorized(problem=INVALID_CREDENTIAL)
        tenant = decode_tenant(match[1])

        def work(tx: Transaction) -> tuple[int, Row | None]:
            row = tx.one(
                """select s.expires_at, k.id, k.name, k.permissions, k.user_id, k.agent,
                          k.expires_at, k.revoked_at
                   from signins s join keys k on k.tenant = s.tenant and k.id = s.key_id
                   where s.tenant = :tenant and s.digest = :digest""",
                digest=digest(text),
            )
            return tx.now, row

        now, row = self._database.read(tenant, work)
        if row is None or row[0] <= now:
            raise Unauthorized(problem=INVALID_CREDENTIAL)
        authentication = authenticate_row(tenant, row[1:], now)
        seconds = min(authentication.seconds, (row[0] - now) / clock.SECOND)
        return replace(authentication, seconds=seconds)

    def remove(self, text: str) -> None:
        """End a session. An invalid token is rejected first: it could name any tenant."""
        tenant = self.authenticate(text).principal.tenant

        def work(tx: Transaction) -> None:
            tx.send(
                "delete from signins where tenant = :tenant and digest = :digest",
                digest=digest(text),
            )

        change = Change("signins", "remove", tenant)
        self._writer.write(change, work, idempotent=True, frees_space=True)


def sweep_all(database: Database, tenant: str) -> None:
    """Delete the expired sessions of a tenant, in small transactions."""

    def has_expired(tx: Transaction) -> bool:
        sql = "select 1 from signins where tenant = :tenant and expires_at <= :now limit 1"
        return tx.one(sql) is not None

    def delete_batch(tx: Transaction) -> None:
        tx.send(
            """delete from signins where tenant = :tenant and digest in (
                   select digest from signins
                   where tenant = :tenant and expires_at <= :now limit :size)""",
            size=_SWEEP_SIZE,
        )

    while database.read(tenant, has_expired):
        database.write(tenant, delete_batch, frees_space=True)
