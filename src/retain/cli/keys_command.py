"""`retain keys`: manage the API keys of the server."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

from retain.api.rendering import as_json
from retain.auth.api_keys import Key, Keys, parse_permissions
from retain.base.errors import Invalid
from retain.cli.command import Arguments, Command, audited, open_memory, tenant_of
from retain.cli.output import plain, show
from retain.memory import Memory

_FIRST_KEY = (
    "This is the first key of this database: from now on, every request to its server needs a key, "
    "even from this machine."
)
_NO_ADMIN_KEY = """
WARNING: It has no admin permission, and there is no other key. Over HTTP, nobody can manage keys or
read the audit log. To create a key that can, run:
  retain keys create NAME --permissions read,write,delete,admin"""


def create(arguments: Arguments) -> int:
    """Create a key; only the key itself goes to standard output."""
    allowed = parse_permissions(
        word.strip() for word in arguments.permissions.split(",") if word.strip()
    )
    with open_memory(arguments, create=True) as memory:
        tenant = tenant_of(arguments, memory)
        first = not Keys(memory.database).exist()
        keys = _audited_keys(memory, tenant, "keys_create")
        key, text = keys.create(
            tenant,
            arguments.name,
            allowed,
            user=arguments.user,
            agent=arguments.agent,
            expires_at=_expiry(arguments.days),
        )
    if arguments.json:
        show({**as_json(key), "key": text}, json_wanted=True)
    else:
        print(text)
        _print_details(key, tenant)
    if first:
        warning = "" if "admin" in key.permissions else _NO_ADMIN_KEY
        print(_FIRST_KEY + warning, file=sys.stderr)
    return 0


def _print_details(key: Key, tenant: str) -> None:
    details = f"key {key.id} of tenant {tenant}: {', '.join(key.permissions)}"
    if key.user is not None:
        details += f", for the user {key.user}"
    if key.agent is not None:
        details += f", for the agent {key.agent}"
    if key.expires_at:
        details += f" until {key.expires_at:%Y-%m-%d}"
    print(plain(f"({details}; it is not shown again)"), file=sys.stderr)


def list_(arguments: Arguments) -> int:
    """List the keys of a tenant."""
    with open_memory(arguments) as memory:
        page = Keys(memory.database).list(
            tenant_of(arguments, memory), limit=arguments.limit, after=arguments.after
        )
    show(page, json_wanted=arguments.json)
    return 0


def revoke(arguments: Arguments) -> int:
    """Revoke a key."""
    with open_memory(arguments) as memory:
        tenant = tenant_of(arguments, memory)
        key = _audited_keys(memory, tenant, "keys_revoke").revoke(tenant, arguments.id)
    show(key, json_wanted=arguments.json)
    return 0


def _audited_keys(memory: Memory, tenant: str, action: str) -> Keys:
    """Return the keys of a tenant, whose next change is audited."""
    services = audited(memory, tenant, action).services
    return Keys(services.database, services.writer)


def _expiry(days: float | None) -> datetime | None:
    if days is None:
        return None
    try:
        return datetime.now(UTC) + timedelta(days=days)
    except (OverflowError, ValueError):
        raise Invalid(
            field="--days", problem="is too many days: the date would be after the year 9999"
        ) from None


COMMANDS = (
    Command(
        "keys create",
        create,
        "retain keys create ci --permissions read,write --tenant acme --days 90 > ci.key",
        ("tenant", "user", "agent"),
        {
            "name": {"metavar": "NAME", "help": "a name that says what the key is for"},
            "--permissions": {
                "metavar": "A,B",
                "default": "read,write",
                "help": "any of read, write, delete and admin; no permission includes another "
                "(default: read,write)",
            },
            "--days": {
                "type": float,
                "metavar": "N",
                "help": "valid for N days (default: until it is revoked)",
            },
        },
    ),
    Command(
        "keys list",
        list_,
        "retain keys list --tenant acme",
        ("tenant",),
        {
            "--limit": {
                "type": int,
                "metavar": "N",
                "default": 100,
                "help": "maximum number of keys (default: 100)",
            },
            "--after": {
                "metavar": "CURSOR",
                "help": "continue after this cursor, printed at the end of the previous page",
            },
        },
    ),
    Command(
        "keys revoke",
        revoke,
        "retain keys revoke berdwsoyovifmg7h --tenant acme",
        ("tenant",),
        {"id": {"metavar": "ID", "help": "the id of the key, from `retain keys list`"}},
    ),
)
