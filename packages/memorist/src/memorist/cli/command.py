"""The definition of a command, and helpers that commands share."""

from __future__ import annotations

import argparse
import getpass
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memorist.admin.audited_writer import AuditedAction, acting_as, record_action
from memorist.admin.principal import PERMISSIONS, Principal
from memorist.base.errors import Full, Invalid, ReadOnly
from memorist.base.settings import Settings, check_names
from memorist.coding_agents.project import make_folder, project_settings
from memorist.kinds.trust import Source
from memorist.memory import Memory, Scope

Arguments = argparse.Namespace


def load_settings(arguments: Arguments, **flags: Any) -> Settings:
    """Return the settings; flags win over `--set name=value`."""
    values: dict[str, Any] = {}
    for text in [*(arguments.set_first or ()), *(getattr(arguments, "set", None) or ())]:
        name, separator, value = text.partition("=")
        if not separator:
            problem = f"must be name=value, such as context_tokens=8000, not {text!r}"
            raise Invalid(field="--set", problem=problem)
        values[name.strip().replace("-", "_")] = value
    check_names(values, "flag")
    flags = {"database": arguments.database, **flags}
    values |= {name: value for name, value in flags.items() if value is not None}
    if getattr(arguments, "project", False):
        settings = project_settings(Path.cwd(), arguments.config, **values)
        make_folder(settings)
        return settings
    return Settings.load(arguments.config, **values)


def open_memory(arguments: Arguments, *, migrate_up: bool = True, create: bool = False) -> Memory:
    """Open the configured database; create it only for commands that write."""
    return Memory.open(settings=load_settings(arguments), migrate_up=migrate_up, create=create)


@contextmanager
def naming(file: str) -> Iterator[None]:
    """Add the name of the file to errors about it."""
    try:
        yield
    except Invalid as error:
        if type(error) is not Invalid or error.field != "file":
            raise
        name = "standard input" if file == "-" else file
        raise Invalid(field="file", problem=f"{name} {error.problem}") from None


def scope_names(
    arguments: Arguments, settings: Settings
) -> tuple[str | None, str | None, str | None]:
    """Return the tenant, user and agent from flags and settings."""
    return (
        arguments.tenant,
        arguments.user if arguments.user is not None else settings.user or None,
        arguments.agent if arguments.agent is not None else settings.agent or None,
    )


def scope_of(arguments: Arguments, memory: Memory, source: Source = "user") -> Scope:
    """Return the scope from flags and settings."""
    tenant, user, agent = scope_names(arguments, memory.settings)
    return memory.scope(tenant=tenant, user=user, agent=agent, source=source)


def tenant_of(arguments: Arguments, memory: Memory) -> str:
    """Return the tenant of `--tenant`, else that of the settings."""
    return memory.scope(tenant=arguments.tenant).owner.tenant


def tenants(arguments: Arguments, memory: Memory) -> list[str] | None:
    """Return the selected tenant, or None for all tenants."""
    if arguments.all_tenants:
        if arguments.tenant is not None or getattr(arguments, "user", None) is not None:
            raise Invalid(
                field="--all-tenants", problem="cannot be combined with --tenant or --user"
            )
        return None
    return [arguments.tenant or memory.settings.tenant]


def operator(tenant: str) -> Principal:
    """Return the principal for the audit log; anyone who can open the database may do anything."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # the user id has no name
        name = str(os.getuid())
    return Principal(tenant, PERMISSIONS, f"cli:{name}")


def audited(memory: Memory, tenant: str, action: str) -> Memory:
    """Return the memory, whose next change is audited as an action of the operator."""
    services = acting_as(memory.services, operator(tenant), AuditedAction(action))
    return Memory(services, memory.migrations)


def add_to_audit_log(
    memory: Memory, tenants: Iterable[str], action: str, subject: str = ""
) -> None:
    """Add an audit row about an action, in each of the tenants that exists.

    For actions that write nothing themselves, or that have already finished.
    """
    for tenant in {*tenants} & {*memory.tenants()}:
        with suppress(ReadOnly, Full):
            record_action(memory.services, operator(tenant), AuditedAction(action, subject=subject))


ALL_TENANTS: dict[str, dict[str, Any]] = {
    "--all-tenants": {
        "action": "store_true",
        "help": "for every tenant, not only that of --tenant or the settings",
    }
}


@dataclass(frozen=True)
class Command:
    """A command. The first sentence of its help is in `memorist.cli.main.COMMANDS`.

    For a command of another package it is the summary of the distribution.
    """

    name: str  # with a space for a command of a group: "keys add"
    run: Callable[[Arguments], int]  # returns the exit status
    example: str
    scope: tuple[str, ...] = ()  # the scope options of the command
    arguments: dict[str, dict[str, Any]] = field(default_factory=dict)  # for add_argument
    details: str = ""  # the help after its first sentence
