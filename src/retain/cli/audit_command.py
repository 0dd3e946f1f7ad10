"""`retain audit`: show the audit log of a tenant."""

from __future__ import annotations

from retain.auth import audit_log
from retain.base import limits
from retain.base.clock import parse_time
from retain.cli.command import Arguments, Command, open_memory
from retain.cli.output import show


def audit(arguments: Arguments) -> int:
    """Show the audit log, newest first."""
    with open_memory(arguments) as memory:
        page = audit_log.list_records(
            memory.database,
            memory.scope(tenant=arguments.tenant).owner.tenant,
            who=arguments.who,
            what=arguments.what,
            since=parse_time(arguments.since, "--since", days=True),
            until=parse_time(arguments.until, "--until", days=True),
            limit=arguments.limit,
            after=arguments.after,
            max_limit=limits.MAX_PAGE,
        )
    show(page, json_wanted=arguments.json)
    return 0


COMMANDS = (
    Command(
        "audit",
        audit,
        "retain audit --what entries_remove --since 2026-01-31",
        ("tenant",),
        {
            "--who": {
                "metavar": "NAME",
                "help": "only actions of this caller: `NAME (ID)` of a key, or `cli:NAME`",
            },
            "--what": {
                "metavar": "NAME",
                "help": "only this action, such as notes_overwrite or users_erase",
            },
            "--since": {"metavar": "TIME", "help": "from this day or time on"},
            "--until": {"metavar": "TIME", "help": "before this day or time"},
            "--limit": {
                "type": int,
                "metavar": "N",
                "default": 50,
                "help": "maximum number of records (default: 50)",
            },
            "--after": {
                "metavar": "CURSOR",
                "help": "continue after this cursor, printed at the end of the previous page",
            },
        },
    ),
)
