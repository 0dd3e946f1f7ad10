"""`retain audit`: who did what to what and when, the newest first."""

from __future__ import annotations

from typing import Any

from retain.api.rendering import show
from retain.auth import audit_log as log
from retain.base import limits
from retain.base.clock import parse_time
from retain.cli.command import Arguments, open_memory

ABOUT = "What was done in a tenant, by whom and when, the newest first; nothing of what was said."
EXAMPLE = "retain audit --what entries_remove --since 2026-01-31"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "--who": {
        "metavar": "NAME",
        "help": "only what this one did: a key as `NAME (ID)`, or `cli:NAME`",
    },
    "--what": {"metavar": "NAME", "help": "only this, such as notes_overwrite or users_erase"},
    "--since": {"metavar": "TIME", "help": "from this moment or day on"},
    "--until": {"metavar": "TIME", "help": "before this moment or day"},
    "--limit": {"type": int, "metavar": "N", "default": 50, "help": "the most records to show"},
    "--after": {
        "metavar": "TEXT",
        "help": "go on after this cursor, from the end of the page before",
    },
}


def audit(arguments: Arguments) -> int:
    """Show the log."""
    with open_memory(arguments) as memory:
        found = log.listed(
            memory.database,
            memory.scope(tenant=arguments.tenant).owner.tenant,
            who=arguments.who,
            what=arguments.what,
            since=parse_time(arguments.since, "--since", days=True),
            until=parse_time(arguments.until, "--until", days=True),
            limit=arguments.limit,
            after=arguments.after,
            most=limits.MAX_PAGE,
        )
    show(found, json_wanted=arguments.json)
    return 0
