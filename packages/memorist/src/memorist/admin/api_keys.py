"""API keys: permissions in one tenant, optionally bound to one user or one agent.

The text of a key is in the result of `add` only. It is not stored, not even as the response of a
repeated request: a retry adds another key.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from memorist.admin.admin_kind import AdminKind
from memorist.admin.credentials import PREFIX, KeyChecker, base32, digest, stored_permissions
from memorist.admin.principal import PERMISSION_ORDER, Permission, Principal, parse_permissions
from memorist.base import canonical, clock
from memorist.base.errors import Forbidden, Invalid, NotFound, TooLarge
from memorist.base.parameters import Key, OneOf, PageSize, Range, Texts
from memorist.base.verbs import verb
from memorist.kinds.page import Page, make_page, page_start
from memorist.storage.checksum import checksum
from memorist.storage.database import EVERY_TENANT, Transaction
from memorist.storage.rows import row_mapper
from memorist.storage.tables import Table

MAX_NAME_BYTES = 200
"""Short enough that the audit log stores name and id in full."""
SECONDS_PER_DAY = 86400
COLUMNS = "id, name, permissions, user_id, agent, created_at, expires_at, last_used_at, revoked_at"
Permissions = Annotated[Sequence[str], Texts(OneOf(PERMISSION_ORDER), min_items=1)]


@dataclass(frozen=True)
class ApiKey:
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
class NewKey(ApiKey):
    """A new key; `key` is its text, which is shown only once."""

    key: str = field(repr=False)
    is_first: bool
    """True if the database had no key: from now on, every request to its server needs one."""


class ApiKeys(AdminKind):
    """The API keys of a tenant."""

    name = "keys"
    tables = (
        Table("keys", order="id", checked=("name", "digest", "permissions", "user_id", "agent")),
    )
    parameter_help = {
        "agent": "The only agent that the key may act for. Default: every agent.",
        "days": "Valid for this many days, instead of `expires_at`.",
        "expires_at": "Time of expiry, with a time zone. Default: that of the credential that creates the key, "
        "otherwise none.",
        "id": "The id of the key.",
        "name": "A name that says what the key is for.",
        "permissions": "Any of read, write, delete and admin; no permission includes another.",
        "user": "The only user that the key may act for. Default: every user of the tenant.",
    }

    @verb(
        "POST /keys",
        effect="add",
        people_only=True,
        shows_secret=True,
        raw_output=True,
        example="memorist keys add ci --permissions read,write --days 90 > ci.key",
    )
    def add(
        self,
        name: Key,
        *,
        permissions: Permissions = ("read", "write"),
        user: Key | None = None,
        agent: Key | None = None,
        expires_at: datetime | None = None,
        days: Annotated[float, Range(above=0)] | None = None,
    ) -> NewKey:
        """Add a key with at most the permissions of the caller, and return it with its secret.

        The secret is shown only once. The key is not valid for longer than the caller's own credential.
        """
        if self._tenant == EVERY_TENANT:
            raise Invalid(field="tenant", problem="must be the name of one tenant")
        size = len(canonical.key(name, "name").encode())
        if size > MAX_NAME_BYTES:
            raise TooLarge(field="name", size=size, unit="bytes", limit=MAX_NAME_BYTES)
        for parameter, bound in (("user", user), ("agent", agent)):
            if bound is not None:
                canonical.key(bound, parameter)
        allowed = parse_permissions(permissions)
        until = _until(expires_at, days)
        if self._principal is not None:
            _reject_more_permissions(self._principal, allowed)
            until = _limited_until(self._principal, until)
        id = base32(secrets.token_bytes(10))
        text = f"{PREFIX}{base32(self._tenant.encode())}_{id}_{base32(secrets.token_bytes(32))}"
        values = {
            "id": id,
            "name": name,
            "digest": digest(text),
            "permissions": ",".join(allowed),
            "user": user,
            "agent": agent,
        }

        is_first = not KeyChecker(self._database).keys_exist()

        def work(tx: Transaction) -> NewKey:
            if until is not None and until <= tx.now:
                raise Invalid(field="expires_at", problem="must lie in the future")
            tx.send(
                "insert into keyed (tenant, since) values (:tenant, :now) on conflict do nothing"
            )
            (row,) = tx.all(
                f"""insert into keys (tenant, id, name, digest, permissions, user_id, agent,
                                      created_at, expires_at, checksum)
                    values (:tenant, :id, :name, :digest, :permissions, :user, :agent, :now, :until,
                            :checksum)
                    returning {COLUMNS}""",
                **values,
                until=until,
                checksum=checksum(name, values["digest"], values["permissions"], user, agent),
            )
            return NewKey(**vars(_key(row)), key=text, is_first=is_first)

        return self._change("add", work, id)

    @verb("GET /keys", effect="read", example="memorist keys list --tenant acme")
    def list(self, *, limit: PageSize = 100, after: str | None = None) -> Page[ApiKey]:
        """Return the keys of the tenant, oldest first, including expired and revoked keys."""
        size, (start, last) = page_start(limit, after, 0, "")
        rows = self._read(
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
            lambda key: [key.created_at, key.id],
        )

    @verb(
        "DELETE /keys/{id}",
        effect="remove",
        people_only=True,
        example="memorist keys revoke berdwsoyovifmg7h --tenant acme",
    )
    def revoke(self, id: Key) -> ApiKey:
        """Revoke a key: in this process at once, in other processes within seconds.

        A key that is already revoked stays revoked.
        """
        canonical.key(id, "id")

        def work(tx: Transaction) -> ApiKey:
            row = tx.one(
                f"""update keys set revoked_at = coalesce(revoked_at, :now)
                    where tenant = :tenant and id = :id returning {COLUMNS}""",
                id=id,
            )
            if row is None:
                raise NotFound(what="key", id=id)
            return _key(row)

        return self._change("revoke", work, id, idempotent=True)


def _until(expires_at: datetime | None, days: float | None) -> int | None:
    """Return the time of expiry in microseconds, from a time or a number of days."""
    if expires_at is not None:
        if days is not None:
            raise Invalid(field="days", problem="cannot be combined with expires_at")
        return clock.from_datetime(expires_at, "expires_at")
    return None if days is None else clock.after(clock.now(), days * SECONDS_PER_DAY, "days")


def _reject_more_permissions(maker: Principal, permissions: Sequence[Permission]) -> None:
    """Raise Forbidden if a new key would have a permission that its maker lacks."""
    for permission in permissions:
        if permission not in maker.permissions:
            raise Forbidden(
                problem=f"your key lacks the permission {permission}, so it cannot grant it"
            )


def _limited_until(maker: Principal, until: int | None) -> int | None:
    """Return the expiry of a new key: no later than that of the credential that creates it."""
    if maker.until is None:
        return until
    if until is not None and until > maker.until:
        last = clock.to_datetime(maker.until).isoformat()
        raise Forbidden(
            problem=f"your credential expires at {last}, and a key that it creates cannot be valid for longer"
        )
    return until or maker.until


_key = row_mapper(ApiKey, permissions=stored_permissions)
