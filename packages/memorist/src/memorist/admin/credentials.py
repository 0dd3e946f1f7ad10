"""Credentials: how the text of an API key is built, and how it is checked.

A key is `mst_TENANT_ID_SECRET`: the tenant in base 32, the id of the row, and 256 random bits. As
the key names its tenant, its row is read under the row-level security of that tenant. The table
stores the SHA-256 of the key: 256 random bits need no slow hash, and nobody can sign in with the
rows of the table.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memorist.admin.principal import PERMISSION_ORDER, Permission, Principal
from memorist.base import canonical, clock
from memorist.base.errors import MemoristError, Unauthorized
from memorist.storage.database import EVERY_TENANT, Database, Row, Transaction

PREFIX = "mst_"
INVALID_CREDENTIAL = "the key is unknown, expired or revoked"
"""The error text of every invalid credential, for any reason."""
_KEY_FORMAT = re.compile(r"mst_([a-z2-7]{2,820})_([a-z2-7]{16})_[a-z2-7]{52}")
_UNKNOWN_DIGEST = "0" * 64
_UNKNOWN_ROW = ("", "", "", None, None, None, None)


@dataclass(frozen=True)
class Authentication:
    """A principal, and how long its credential is valid."""

    principal: Principal
    seconds: float
    key: str | None = None
    """The id of the API key, if it is one."""


class KeyChecker:
    """Checks the API keys of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def authenticate(self, text: str) -> Authentication:
        """Return the principal of a key. All invalid keys take the same time and raise one error."""
        match = _KEY_FORMAT.fullmatch(text)
        if match is None:
            raise Unauthorized(problem=INVALID_CREDENTIAL)
        tenant = decode_tenant(match[1])

        def work(tx: Transaction) -> tuple[int, Row | None]:
            row = tx.one(
                """select digest, id, name, permissions, user_id, agent, expires_at, revoked_at
                   from keys where tenant = :tenant and id = :id""",
                id=match[2],
            )
            return tx.now, row

        now, row = self._database.read(tenant, work)
        stored_digest, *key = row or (_UNKNOWN_DIGEST, *_UNKNOWN_ROW)
        is_same = hmac.compare_digest(stored_digest, digest(text))
        return authenticate_row(tenant, key if is_same else _UNKNOWN_ROW, now)

    def record_use(self, tenant: str, id: str) -> None:
        """Store that a key was used, at most once a minute."""

        def work(tx: Transaction) -> None:
            tx.send(
                """update keys set last_used_at = :now where tenant = :tenant and id = :id
                   and (last_used_at is null or last_used_at < :before)""",
                id=id,
                before=tx.now - clock.MINUTE,
            )

        self._database.write(tenant, work, idempotent=True)

    def keys_exist(self) -> bool:
        """Return whether a key was ever created, in any tenant."""
        sql = "select 1 from keyed limit 1"
        return bool(self._database.read(EVERY_TENANT, lambda tx: tx.unscoped(sql)))


def authenticate_row(tenant: str, row: Sequence[Any], now: int) -> Authentication:
    """Return the principal of a row: id, name, permissions, user, agent, expiry, revocation."""
    id, name, permissions, user, agent, expires, revoked = row
    if not id or revoked is not None or (expires is not None and expires <= now):
        raise Unauthorized(problem=INVALID_CREDENTIAL)
    allowed = frozenset(stored_permissions(permissions))
    principal = Principal(tenant, allowed, f"{name} ({id})", user, agent, expires)
    seconds = float("inf") if expires is None else (expires - now) / clock.SECOND
    return Authentication(principal, seconds, id)


def stored_permissions(text: str) -> list[Permission]:
    """Return the permissions of a row."""
    names = text.split(",")
    return [permission for permission in PERMISSION_ORDER if permission in names]


def digest(text: str) -> str:
    """Return the hash under which a credential is stored."""
    return hashlib.sha256(text.encode()).hexdigest()


def base32(data: bytes) -> str:
    """Encode bytes in lower-case letters and digits, for headers and cookies."""
    return base64.b32encode(data).decode().rstrip("=").lower()


def decode_tenant(encoded: str) -> str:
    """Return the tenant that a credential names; the credential is not checked."""
    try:
        return canonical.key(
            base64.b32decode(encoded.upper() + "=" * (-len(encoded) % 8)).decode(), "tenant"
        )
    except (MemoristError, UnicodeDecodeError, binascii.Error):
        raise Unauthorized(problem=INVALID_CREDENTIAL) from None
