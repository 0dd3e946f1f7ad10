"""Sign-ins: a browser that was shown a key once, and comes with a cookie from then on, so that no page ever holds the key.

A sign-in belongs to its key: it allows what the key allows, and ends with it. Its text is `TENANT_SECRET`, the tenant in
base 32 as in a key, and 256 random bits; the row has the SHA-256 of it, so whoever reads the table cannot come in.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, replace

from retain.auth.api_keys import UNKNOWN, Admitted, admitted, base32, digest, tenant_of
from retain.base import clock
from retain.base.errors import Unauthorized
from retain.storage.database import Database, Transaction
from retain.storage.writer import Change, Writer

KEPT = clock.DAY // 2
REMEMBERED = 30 * clock.DAY
MOST_OF_A_KEY = 100
"""So many browsers can be signed in with one key; one more, and the oldest sign-in ends."""
_TEXT = re.compile(r"([a-z2-7]{2,820})_[a-z2-7]{52}")


@dataclass(frozen=True)
class Signin:
    """A sign-in that was just made: its text, which cannot be had again, and for how many seconds it is good."""

    text: str
    seconds: float


class Signins:
    """The sign-ins of a database."""

    def __init__(self, database: Database, writer: Writer | None = None) -> None:
        self._database = database
        self._writer = writer or Writer(database)

    def add(self, tenant: str, key: str, *, remember: bool = False) -> Signin:
        """Sign in with a key that was checked: for half a day, or a month where it is to be remembered."""
        text = f"{base32(tenant.encode())}_{base32(secrets.token_bytes(32))}"
        length = REMEMBERED if remember else KEPT

        def work(tx: Transaction) -> int:
            row = tx.one(_KEY, key=key)
            if row is None:  # it was revoked or erased since it was looked at
                raise Unauthorized(problem=UNKNOWN)
            until = min(tx.now + length, row[0] or tx.now + length)
            tx.run(_MAKE_ROOM, key=key, kept=MOST_OF_A_KEY - 1)
            tx.run(_INSERT, digest=digest(text), key=key, until=until)
            return until - tx.now

        change = Change("signins", "add", tenant)
        return Signin(text, self._writer.write(change, work) / clock.SECOND)

    def check(self, text: str) -> Admitted:
        """Whom a sign-in lets in, as its key is now."""
        tenant = _tenant(text)
        now, row = self._database.read(
            tenant, lambda tx: (tx.now, tx.one(_CHECK, digest=digest(text)))
        )
        if row is None or row[0] <= now:
            raise Unauthorized(problem=UNKNOWN)
        found = admitted(tenant, row[1:], now)
        return replace(found, seconds=min(found.seconds, (row[0] - now) / clock.SECOND))

    def remove(self, text: str) -> None:
        """End a sign-in; one that lets nobody in is looked at no further, or its text could name any tenant."""
        tenant = self.check(text).principal.tenant
        change = Change("signins", "remove", tenant)
        self._writer.write(change, lambda tx: tx.run(_REMOVE, digest=digest(text)), idempotent=True)


_KEY = """select expires_at from keys where tenant = :tenant and id = :key and revoked_at is null
          and (expires_at is null or expires_at > :now)"""
_MAKE_ROOM = """delete from signins where tenant = :tenant and key_id = :key and digest not in (
                    select digest from signins where tenant = :tenant and key_id = :key and expires_at > :now
                    order by created_at desc, digest limit :kept)"""
_INSERT = """insert into signins (tenant, digest, key_id, created_at, expires_at)
             values (:tenant, :digest, :key, :now, :until)"""
_CHECK = """select s.expires_at, k.id, k.name, k.permissions, k.user_id, k.agent, k.expires_at, k.revoked_at
            from signins s join keys k on k.tenant = s.tenant and k.id = s.key_id
            where s.tenant = :tenant and s.digest = :digest"""
_REMOVE = "delete from signins where tenant = :tenant and digest = :digest"
_OLD = "select 1 from signins where tenant = :tenant and expires_at <= :now limit 1"
_SWEEP = """delete from signins where tenant = :tenant and digest in (
                select digest from signins where tenant = :tenant and expires_at <= :now limit :size)"""


def sweep_all(database: Database, tenant: str, size: int = 500) -> None:
    """Forget every sign-in of a tenant that has ended, in small batches that nobody has to wait for."""
    while database.read(tenant, lambda tx: tx.one(_OLD)):
        database.write(tenant, lambda tx: tx.run(_SWEEP, size=size), frees_space=True)


def _tenant(text: str) -> str:
    found = _TEXT.fullmatch(text)
    if found is None:
        raise Unauthorized(problem=UNKNOWN)
    return tenant_of(found[1])
