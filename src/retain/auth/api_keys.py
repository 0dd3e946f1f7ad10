"""Keys: a text that lets its holder in, for one tenant, to do some things, perhaps as one user or one agent alone.

A key's text is `rtn_TENANT_ID_SECRET`: the tenant in base 32, so that its row is looked for in that tenant alone (and
row-level security holds here too), the id of the row, and 256 random bits. The row has the SHA-256 of the text: so many
random bits need no slow hash, and whoever reads the table cannot come in.
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
from retain.kinds.kind import Page, decode_cursor, make_page
from retain.storage.database import EVERY_TENANT, Database, Row, Transaction
from retain.storage.writer import Change, Writer

PREFIX = "rtn_"
MOST_NAME_BYTES = 200
"""A name and an id together are who somebody is, on record: neither is cut off there."""
UNKNOWN = "it is unknown, expired or revoked"
"""What whoever sends a wrong key is told, whatever is wrong with it."""
_TEXT = re.compile(r"rtn_([a-z2-7]{2,820})_([a-z2-7]{16})_[a-z2-7]{52}")
_NO_DIGEST = "0" * 64
_NOBODY = ("", "", "", None, None, None, None)
_ORDER: tuple[Permission, ...] = ("read", "write", "delete", "admin")
_COLUMNS = "id, name, permissions, user_id, agent, created_at, expires_at, last_used_at, revoked_at"


@dataclass(frozen=True)
class Key:
    """A key as it can be shown: what it allows and when it was used, and nothing that would let anybody in."""

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
class Admitted:
    """Whom a credential lets in, for how many seconds more at most, and the id of the key, if it is one."""

    principal: Principal
    seconds: float
    key: str | None = None


class Keys:
    """The keys of a database."""

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
        """A new key, and its text, which cannot be had again."""
        if canonical.key(tenant, "tenant") == EVERY_TENANT:
            raise Invalid(field="tenant", problem="must be the name of one tenant")
        if (size := len(canonical.key(name, "name").encode())) > MOST_NAME_BYTES:
            raise TooLarge(field="name", size=size, unit="bytes", limit=MOST_NAME_BYTES)
        allowed = chosen(permissions)
        for field, bound in (("user", user), ("agent", agent)):
            if bound is not None:
                canonical.key(bound, field)
        until = None if expires_at is None else clock.from_datetime(expires_at, "expires_at")
        id = base32(secrets.token_bytes(10))
        text = f"{PREFIX}{base32(tenant.encode())}_{id}_{base32(secrets.token_bytes(32))}"
        values: dict[str, Any] = {
            "id": id,
            "name": name,
            "digest": digest(text),
            "permissions": ",".join(allowed),
        }
        values |= {"user": user, "agent": agent, "until": until}

        def work(tx: Transaction) -> Row:
            if until is not None and until <= tx.now:
                raise Invalid(field="expires_at", problem="must lie in the future")
            tx.run(
                "insert into keyed (tenant, since) values (:tenant, :now) on conflict do nothing"
            )
            (row,) = tx.all(_INSERT, **values)
            return row

        change = Change("keys", "create", tenant, subject=id)
        return _key(self._writer.write(change, work)), text

    def list(self, tenant: str, *, limit: int = 100, after: str | None = None) -> Page[Key]:
        """The keys of a tenant, the oldest first, with those that no longer let anybody in."""
        size = canonical.whole(limit, "limit", 1, 1000)
        start, last = decode_cursor(after, [int, str]) if after else (0, "")
        rows = self._database.read(
            tenant, lambda tx: tx.all(_LIST, start=start, last=last, size=size + 1)
        )
        return make_page(
            [_key(row) for row in rows],
            size,
            lambda key: [clock.from_datetime(key.created_at, "after"), key.id],
        )

    def revoke(self, tenant: str, id: str) -> Key:
        """Let nobody in with this key any more; one that was revoked before stays so."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> Row:
            row = tx.one(_REVOKE, id=id)
            if row is None:
                raise NotFound(what="key", id=id)
            return row

        change = Change("keys", "revoke", tenant, subject=id)
        return _key(self._writer.write(change, work, idempotent=True))

    def check(self, text: str) -> Admitted:
        """Whom a key lets in. Whatever is wrong with one is answered alike, after the same work."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise Unauthorized(problem=UNKNOWN)
        tenant = tenant_of(found[1])
        now, row = self._database.read(tenant, lambda tx: (tx.now, tx.one(_CHECK, id=found[2])))
        held, *rest = row or (_NO_DIGEST, *_NOBODY)
        same = hmac.compare_digest(held, digest(text))
        return admitted(tenant, rest if same else _NOBODY, now)

    def used(self, tenant: str, id: str) -> None:
        """Note that a key was used, at most once a minute."""
        self._database.write(
            tenant, lambda tx: tx.run(_USED, id=id, before=tx.now - clock.MINUTE), idempotent=True
        )

    def any(self) -> bool:
        """Whether a key was ever made, in any tenant."""
        sql = "select 1 from keyed where :tenant = '*' limit 1"
        return self._database.read(EVERY_TENANT, lambda tx: tx.one(sql)) is not None


_INSERT = f"""insert into keys (tenant, id, name, digest, permissions, user_id, agent, created_at, expires_at)
              values (:tenant, :id, :name, :digest, :permissions, :user, :agent, :now, :until) returning {_COLUMNS}"""
_LIST = f"""select {_COLUMNS} from keys
            where tenant = :tenant and (created_at > :start or created_at = :start and id > :last)
            order by created_at, id limit :size"""
_REVOKE = f"""update keys set revoked_at = coalesce(revoked_at, :now) where tenant = :tenant and id = :id
              returning {_COLUMNS}"""
_CHECK = """select digest, id, name, permissions, user_id, agent, expires_at, revoked_at from keys
            where tenant = :tenant and id = :id"""
_USED = """update keys set last_used_at = :now
           where tenant = :tenant and id = :id and (last_used_at is null or last_used_at < :before)"""


def chosen(permissions: Iterable[str]) -> list[Permission]:
    """Permissions as they were named, each once and in their order; at least one."""
    named = [permissions] if isinstance(permissions, str) else list(permissions)
    unknown = [name for name in named if name not in PERMISSIONS]
    if unknown or not named:
        problem = f"must be some of {', '.join(_ORDER)}" + (
            f", not {str(unknown[0])[:50]!r}" if unknown else ""
        )
        raise Invalid(field="permissions", problem=problem)
    return [permission for permission in _ORDER if permission in named]


def _permissions(written: str) -> frozenset[Permission]:
    return frozenset(permission for permission in _ORDER if permission in written.split(","))


def _key(row: Row) -> Key:
    id, name, permissions, user, agent, *times = row
    created, expires, used, revoked = times
    maybe = clock.to_datetime_or_none
    allowed = [permission for permission in _ORDER if permission in _permissions(permissions)]
    return Key(
        id,
        name,
        allowed,
        user,
        agent,
        clock.to_datetime(created),
        maybe(expires),
        maybe(used),
        maybe(revoked),
    )


def admitted(tenant: str, row: Sequence[Any], now: int) -> Admitted:
    """Whom a key's row lets in: its id, name, permissions, user, agent, end, and when it was revoked."""
    id, name, permissions, user, agent, expires, revoked = row
    if not id or revoked is not None or (expires is not None and expires <= now):
        raise Unauthorized(problem=UNKNOWN)
    principal = Principal(tenant, _permissions(permissions), f"{name} ({id})", user, agent, expires)
    return Admitted(
        principal, float("inf") if expires is None else (expires - now) / clock.SECOND, id
    )


def digest(text: str) -> str:
    """What is kept of a text that lets somebody in."""
    return hashlib.sha256(text.encode()).hexdigest()


def base32(data: bytes) -> str:
    """Bytes in letters and digits that a header, a cookie and a double click take whole."""
    return base64.b32encode(data).decode().rstrip("=").lower()


def tenant_of(written: str) -> str:
    """The tenant that is written in a key, which it alone proves nothing about."""
    try:
        return canonical.key(
            base64.b32decode(written.upper() + "=" * (-len(written) % 8)).decode(), "tenant"
        )
    except (RetainError, UnicodeDecodeError, binascii.Error):
        raise Unauthorized(problem=UNKNOWN) from None
