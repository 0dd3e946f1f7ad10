"""A command that is not one verb of one kind, and what such commands share."""

from __future__ import annotations

import argparse
import getpass
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from importlib import metadata
from typing import Any

from retain.access import audit
from retain.access.attended import Act, attended, recorded
from retain.access.principal import PERMISSIONS, Principal
from retain.errors import Full, Invalid, ReadOnly
from retain.kinds.kind import Who
from retain.memory import Memory
from retain.settings import Settings

Arguments = argparse.Namespace


def version() -> str:
    """What `--version` prints."""
    return f"retain {metadata.version('retain')}"


def open_memory(arguments: Arguments, *, migrate_up: bool = True, create: bool = False) -> Memory:
    """The database that flags, environment and settings file name; only commands that add something make a new one."""
    settings = Settings.load(arguments.config, database=arguments.database)
    return Memory.open(settings=settings, migrate_up=migrate_up, create=create)


def whose(arguments: Arguments, settings: Settings) -> tuple[str | None, str | None, str | None]:
    """The tenant, user and agent that flags and settings name."""
    return (
        arguments.tenant,
        arguments.user if arguments.user is not None else settings.user or None,
        arguments.agent if arguments.agent is not None else settings.agent or None,
    )


def tenants(arguments: Arguments, memory: Memory) -> list[str] | None:
    """Which tenants a command is about: one, unless all were asked for."""
    if arguments.all_tenants:
        if arguments.tenant is not None or getattr(arguments, "user", None) is not None:
            raise Invalid(field="--all-tenants", problem="cannot go with --tenant or --user")
        return None
    return [arguments.tenant or memory.settings.tenant]


def moment(given: str | None, name: str, *, days: bool = False) -> datetime | None:
    """A moment as the command line takes it; with `days` also a day, which is when it began here."""
    if given is None:
        return None
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise Invalid(
            field=name, problem=f"must be a moment like 2026-01-31T12:00:00Z, not {given!r}"
        ) from None
    return found.astimezone() if days and len(given) == len("2026-01-31") else found


def operator(tenant: str) -> Principal:
    """Whoever works at the command line, as the audit log calls them; who can open the database may do anything."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # nobody that this machine knows
        name = str(os.getuid())
    return Principal(tenant, PERMISSIONS, f"cli:{name}")


def on_record(memory: Memory, tenant: str, what: str, **named: Any) -> Memory:
    """The memory, with what is done to it next on record."""
    who = Who(tenant, source="admin")
    return Memory(attended(memory.home, who, operator(tenant), Act(what, named)), memory.migrations)


def put_on_record(memory: Memory, tenants: Iterable[str], what: str, subject: str = "") -> None:
    """Put on record what changes nothing or was already done; not where nothing can be written, and in no new tenant."""
    who, known = operator("").name, memory.tenants() if recorded(memory.settings, what) else []
    for tenant in {*tenants} & {*known}:
        with suppress(ReadOnly, Full):
            memory.database.write(tenant, lambda tx: audit.add(tx, who, what, subject))


EVERY = {
    "--all-tenants": {
        "action": "store_true",
        "help": "of every tenant, not only the one of --tenant or the settings",
    }
}


@dataclass(frozen=True)
class Command:
    """One command: what it does, an example, which part of the scope it heeds, and its own arguments."""

    name: str
    run: Callable[[Arguments], int]
    about: str
    example: str
    heeds: tuple[str, ...] = ()
    arguments: dict[str, dict[str, Any]] = field(default_factory=dict)
