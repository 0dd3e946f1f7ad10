"""API keys: permissions in one tenant, optionally bound to one user or one agent.

A key is `rtn_TENANT_ID_SECRET`: the tenant in base 32, the id of the row, and 256 random bits. As
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
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retain.auth.principal import PERMISSIONS, Permission, Principal
from retain.base import canonical, clock
from retain.base.errors import Invalid, NotFound, RetainError, TooLarge, Unauthorized
from retain.kinds.page import Page, decode_cursor, make_page
from retain.storage.database import EVERY_TENANT, Database, Row, Transaction
from retain.storage.writer import Change, Writer

PREFIX = "rtn_"
MAX_NAME_BYTES = 200
"""Short enough that the audit log stores name and id in full."""
INVALID_CREDENTIAL = "the key is unknown, expired or revoked"
"""The error text of every invalid credential, for any reason."""
PERMISSION_ORDER: tuple[Permission, ...] = ("read", "write", "delete", "admin")
COLUMNS = "id, name, permissions, user_id, agent, created_at, expires_at, last_used_at, revoked_at"
_KEY_FORMAT = re.compile(r"rtn_([a-z2-7]{2,820})_([a-z2-7]{16})_[a-z2-7]{52}")
_UNKNOWN_DIGEST = "0" * 64
_UNKNOWN_ROW = ("", "", "", None, None, None, None)


@dataclass(frozen=True)
class Key:
    """An API key, without its secret."""

    id: str
    name: str
    permissions: list[Permission]
    user: str | None
    agent: str | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True)
class Authentication:
    """A principal, and how long its credential is valid."""

    principal: Principal
    seconds: float
    key: str | None = None
    """The id of the API key, if it is one."""


class Keys:
    """The API keys of a database."""

    def __init__(self, database: Database, writer: Writer | None = None) -> None:
        self._database = database
        self._writer = writer or Writer(database)

    def create(
        self,
        tenant: str,
        name: str,
        permissions: Iterable[str],
        *,
        user: str | None = None,
        agent: str | None = None,
        expires_at: datetime | None = None,
    ) -> tuple[Key, str]:
        """Create a key. Return it with its text, which is not stored and cannot be read again."""
        if canonical.key(tenant, "tenant") == EVERY_TENANT:
            raise Invalid(field="tenant", problem="must be the name of one tenant")
        size = len(canonical.key(name, "name").encode())
        if size > MAX_NAME_BYTES:
            raise TooLarge(field="name", size=size, unit="bytes", limit=MAX_NAME_BYTES)
        for field, bound in (("user", user), ("agent", agent)):
            if bound is not None:
                canonical.key(bound, field)
        until = None if expires_at is None else clock.from_datetime(expires_at, "expires_at")
        id = base32(secrets.token_bytes(10))
        text = f"{PREFIX}{base32(tenant.encode())}_{id}_{base32(secrets.token_bytes(32))}"
        values = {
            "id": id,
            "name": name,
            "digest": digest(text),
            "permissions": ",".join(parse_permissions(permissions)),
            "user": user,
            "agent": agent,
            "until": until,
        }

        def work(tx: Transaction) -> Row:
            if until is not None and until <= tx.now:
                raise Invalid(field="expires_at", problem="must lie in the future")
            tx.send(
                "insert into keyed (tenant, since) values (:tenant, :now) on conflict do nothing"
            )
            (row,) = tx.all(
                f"""insert into keys (tenant, id, name, digest, permissions, user_id, agent,
                                      created_at, expires_at)
                    values (:tenant, :id, :name, :digest, :permissions, :user, :agent, :now, :until)
                    returning {COLUMNS}""",
                **values,
            )
            return row

        change = Change("keys", "create", tenant, subject=id, event="none")
        return _key(self._writer.write(change, work)), text

    def list(self, tenant: str, *, limit: int = 100, after: str | None = None) -> Page[Key]:
        """Return the keys of a tenant, oldest first, including expired and revoked keys."""
        size = canonical.check_integer(limit, "limit", 1, 1000)
        start, last = decode_cursor(after, [int, str]) if after else (0, "")
        rows = self._database.read(
            tenant,
            lambda tx: tx.all(
                f"""select {COLUMNS} from keys
                    where tenant = :tenant
                    and (created_at > :start or created_at = :start and id > :last)
                    order by created_at, id limit :size""",
                start=start,
                last=last,
                size=size + 1,
            ),
        )
        return make_page(
            [_key(row) for row in rows],
            size,
            lambda key: [clock.from_datetime(key.created_at, "after"), key.id],
        )

    def revoke(self, tenant: str, id: str) -> Key:
        """Revoke a key. A key that is already revoked stays revoked."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> Row:
            row = tx.one(
                f"""update keys set revoked_at = coalesce(revoked_at, :now)
                    where tenant = :tenant and id = :id returning {COLUMNS}""",
                id=id,
            )
            if row is None:
                raise NotFound(what="key", id=id)
            return row

        change = Change("keys", "revoke", tenant, subject=id, event="none")
        return _key(self._writer.write(change, work, idempotent=True))

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

    def exist(self) -> bool:
        """Return whether a key was ever created, in any tenant."""
        sql = "select 1 from keyed where :tenant = '*' limit 1"
        return self._database.read(EVERY_TENANT, lambda tx: tx.one(sql)) is not None


def parse_permissions(permissions: Iterable[str]) -> list[Permission]:
    """Return sorted, distinct permissions. Raise Invalid if there are none or one is unknown."""
    names = [permissions] if isinstance(permissions, str) else list(permissions)
    unknown = [name for name in names if name not in PERMISSIONS]
    if unknown or not names:
        problem = f"must be some of {', '.join(PERMISSION_ORDER)}"
        if unknown:
            problem += f", not {str(unknown[0])[:50]!r}"
        raise Invalid(field="permissions", problem=problem)
    return [permission for permission in PERMISSION_ORDER if permission in names]


def _stored_permissions(text: str) -> list[Permission]:
    names = text.split(",")
    return [permission for permission in PERMISSION_ORDER if permission in names]


def _key(row: Row) -> Key:
    id, name, permissions, user, agent, created_at, expires_at, last_used_at, revoked_at = row
    return Key(
        id,
        name,
        _stored_permissions(permissions),
        user,
        agent,
        clock.to_datetime(created_at),
        clock.to_datetime_or_none(expires_at),
        clock.to_datetime_or_none(last_used_at),
        clock.to_datetime_or_none(revoked_at),
    )


def authenticate_row(tenant: str, row: Sequence[Any], now: int) -> Authentication:
    """Return the principal of a row: id, name, permissions, user, agent, expiry, revocation."""
    id, name, permissions, user, agent, expires, revoked = row
    if not id or revoked is not None or (expires is not None and expires <= now):
        raise Unauthorized(problem=INVALID_CREDENTIAL)
    allowed = frozenset(_stored_permissions(permissions))
    principal = Principal(tenant, allowed, f"{name} ({id})", user, agent, expires)
    seconds = float("inf") if expires is None else (expires - now) / clock.SECOND
    return Authentication(principal, seconds, id)


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
    except (RetainError, UnicodeDecodeError, binascii.Error):
        raise Unauthorized(problem=INVALID_CREDENTIAL) from None
