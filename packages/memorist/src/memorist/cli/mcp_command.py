"""`memorist mcp`: serve the memory over standard input and output to an MCP client.

Standard output carries only the protocol; messages go to standard error. No key is needed, because
the user who starts the command can open the database. Several such processes may share one database.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys

from memorist.admin.principal import PERMISSIONS, Permission, Principal
from memorist.base.errors import SettingsError, install_hint
from memorist.cli.command import Arguments, Command, open_memory, scope_of
from memorist.cli.options import PROJECT_OPTION, SCOPE
from memorist.kinds.graph import is_empty
from memorist.memory import Memory


def mcp(arguments: Arguments) -> int:
    """Serve until the client closes standard input."""
    try:
        # Imported here because they need the extra `mcp`.
        import anyio

        from memorist.mcp.server import McpCaller, over_stdio
    except ImportError as error:
        problem = f"requires the extra `mcp` ({error.name} is missing); {install_hint('mcp')}"
        raise SettingsError(where="mcp", problem=problem) from None
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="memorist mcp: %(message)s"
    )
    is_graph = arguments.profile == "graph"
    with open_memory(arguments, create=True) as memory:
        owner = scope_of(arguments, memory).owner
        if not is_graph:  # a graph belongs to a user or to the tenant, never to an agent
            _warn_if_missing("user", owner.user)
            _warn_if_missing("agent", owner.agent)
        file = os.environ.get("MEMORY_FILE_PATH", "") if is_graph else ""
        hint = import_hint(memory, file, arguments.database, arguments.tenant, owner.user)
        if hint:
            print(f"memorist mcp: {hint}", file=sys.stderr)
        allowed: frozenset[Permission] = frozenset({"read"}) if arguments.read_only else PERMISSIONS
        agent = None if is_graph else owner.agent
        principal = Principal(owner.tenant, allowed, "local", owner.user, agent)
        caller = McpCaller(memory, principal, owner.user, owner.agent)
        anyio.run(over_stdio, caller, arguments.profile, hint)
    return 0


def _warn_if_missing(name: str, value: str | None) -> None:
    if value is None:
        message = f"without --{name}, memories of a single {name} cannot be stored"
        print(f"memorist mcp: {message}", file=sys.stderr)


def import_hint(
    memory: Memory, path: str, database: str | None, tenant: str | None, user: str | None
) -> str:
    """Return a hint to import the official memory server's file, if the graph is empty."""
    if not path or not os.path.exists(path):
        return ""
    if not is_empty(memory.scope(tenant=tenant, user=user).graph):
        return ""
    command = ["memorist", "import", path, "--from", "mcp-memory"]
    for flag, value in (("--database", database), ("--tenant", tenant), ("--user", user)):
        if value:
            command += [flag, value]
    return f"This memory is empty, and {path} has not been imported: {shlex.join(command)}"


COMMANDS = (
    Command(
        "mcp",
        mcp,
        "memorist mcp --user ada --agent scout --database sqlite:///agent.db",
        SCOPE,
        {
            "--profile": {
                "choices": ("agent", "all", "graph"),
                "default": "agent",
                "help": "agent: the tools of an agent (default); all: every verb of every kind; "
                "graph: the tools of the official memory server",
            },
            **PROJECT_OPTION,
            "--read-only": {"action": "store_true", "help": "offer only tools that change nothing"},
        },
    ),
)
