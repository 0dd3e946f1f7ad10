"""`retain keys`: who may come in over HTTP. Whoever can open the database may make keys of any tenant."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from retain.api.rendering import as_json, plain, show
from retain.auth.api_keys import Key, Keys, chosen
from retain.base.errors import Invalid
from retain.cli.command import Arguments, audited, open_memory
from retain.memory import Memory

GROUP = "Keys for the server: who may come in, and what they may do there."
CREATE = "Make a key. It is printed alone, so that it can go into a file, and cannot be had again."
CREATE_EXAMPLE = "retain keys create ci --permissions read,write --tenant acme --days 90 > ci.key"
CREATE_ARGUMENTS: dict[str, dict[str, Any]] = {
    "name": {"metavar": "NAME", "help": "what it is for"},
    "--permissions": {
        "metavar": "A,B",
        "default": "read,write",
        "help": "some of read, write, delete and admin; none includes another (default: read,write)",
    },
    "--days": {
        "type": float,
        "metavar": "N",
        "help": "for so many days (default: until it is revoked)",
    },
}
LIST = "The keys of a tenant, without what would let anybody in."
LIST_EXAMPLE = "retain keys list --tenant acme"
LIST_ARGUMENTS: dict[str, dict[str, Any]] = {
    "--limit": {"type": int, "metavar": "N", "default": 100, "help": "the most keys to show"},
    "--after": {
        "metavar": "TEXT",
        "help": "go on after this cursor, from the end of the page before",
    },
}
REVOKE = "Let nobody in with a key any more; a server that runs knows it within seconds."
REVOKE_EXAMPLE = "retain keys revoke berdwsoyovifmg7h --tenant acme"
REVOKE_ARGUMENTS: dict[str, dict[str, Any]] = {
    "id": {"metavar": "ID", "help": "the key's id, as `retain keys list` shows it"}
}
_FIRST = "This is the first key of this database: from now on every request to its server needs a key, on this machine too."
_NO_ADMIN = """
WARNING: it is no admin's, and there is no other: nobody can make or revoke keys, or see the audit log, over HTTP.
`retain keys create NAME --permissions read,write,delete,admin` makes a key that can."""


def create(arguments: Arguments) -> int:
    """Make a key; it alone goes to standard output."""
    allowed = chosen(word.strip() for word in arguments.permissions.split(",") if word.strip())
    with open_memory(arguments, create=True) as memory:
        tenant = _tenant(arguments, memory)
        first = not Keys(memory.database).any()
        keys = _audited_keys(memory, tenant, "keys_create")
        key, text = keys.create(
            tenant,
            arguments.name,
            allowed,
            user=arguments.user,
            agent=arguments.agent,
            expires_at=_end(arguments.days),
        )
    if arguments.json:
        show({**as_json(key), "key": text}, json_wanted=True)
    else:
        print(text)
        _tell(key, tenant)
    if first:
        print(_FIRST + ("" if "admin" in key.permissions else _NO_ADMIN), file=sys.stderr)
    return 0


def _tell(key: Key, tenant: str) -> None:
    whose = "".join(
        f", for the {name} {one}"
        for name, one in (("user", key.user), ("agent", key.agent))
        if one is not None
    )
    until = f" until {key.expires_at:%Y-%m-%d}" if key.expires_at else ""
    said = f"(key {key.id} of tenant {tenant}: {', '.join(key.permissions)}{whose}{until}; it is not shown again)"
    print(plain(said), file=sys.stderr)


def list_(arguments: Arguments) -> int:
    """List the keys of a tenant."""
    with open_memory(arguments) as memory:
        found = Keys(memory.database).list(
            _tenant(arguments, memory), limit=arguments.limit, after=arguments.after
        )
    show(found, json_wanted=arguments.json)
    return 0


def revoke(arguments: Arguments) -> int:
    """Revoke a key."""
    with open_memory(arguments) as memory:
        tenant = _tenant(arguments, memory)
        key = _audited_keys(memory, tenant, "keys_revoke").revoke(tenant, arguments.id)
    show(key, json_wanted=arguments.json)
    return 0


def _audited_keys(memory: Memory, tenant: str, action: str) -> Keys:
    """Return the keys of a tenant, whose next change is audited."""
    services = audited(memory, tenant, action).services
    return Keys(services.database, services.writer)


def _tenant(arguments: Arguments, memory: Memory) -> str:
    return memory.scope(tenant=arguments.tenant).owner.tenant


def _end(days: float | None) -> datetime | None:
    if days is None:
        return None
    try:
        return datetime.now(UTC) + timedelta(days=days)
    except (OverflowError, ValueError):
        raise Invalid(
            field="--days", problem="must be a number of days that the calendar has"
        ) from None
