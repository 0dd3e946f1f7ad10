"""`retain mcp`: the MCP server over standard input and output, for a client that starts it as a process of its own.

Whoever can start it owns the file, so it asks for no key. Nothing but the protocol goes to standard output; what else there
is to say goes to standard error. Any number of such processes may have one file open.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
from typing import Any

from retain.auth.principal import PERMISSIONS, Permission, Principal
from retain.base.errors import SettingsError
from retain.cli.command import Arguments, open_memory, scope_of
from retain.kinds.graph import is_empty
from retain.memory import Memory

ABOUT = "Serve the memory to an MCP client that starts this command."
EXAMPLE = "retain mcp --user ada --agent scout --database sqlite:///agent.db"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "--profile": {
        "choices": ("agent", "all", "graph"),
        "default": "agent",
        "help": "agent: the tools of an agent (the default); all: every verb of every kind as a tool; "
        "graph: the tools of the official memory server",
    },
    "--read-only": {"action": "store_true", "help": "offer only what changes nothing"},
}


def mcp(arguments: Arguments) -> int:
    """Serve until the client closes our standard input."""
    try:
        import anyio

        from retain.mcp.server import Caller, over_stdio
    except ImportError as error:
        problem = (
            f"is not there ({error.name} is missing): install retain[mcp] from where you got retain"
        )
        raise SettingsError(where="mcp", problem=problem) from None
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="retain mcp: %(message)s")
    with open_memory(arguments, create=True) as memory:
        owner = scope_of(arguments, memory).owner
        graph = arguments.profile == "graph"  # a graph is a user's or the tenant's, and no agent's
        for name, value in () if graph else (("user", owner.user), ("agent", owner.agent)):
            if value is None:
                print(
                    f"retain mcp: without --{name}, what belongs to one {name} cannot be kept",
                    file=sys.stderr,
                )
        file = os.environ.get("MEMORY_FILE_PATH", "") if graph else ""
        note = unread(memory, file, arguments.database, arguments.tenant, owner.user)
        if note:
            print(f"retain mcp: {note}", file=sys.stderr)
        allowed: frozenset[Permission] = frozenset({"read"}) if arguments.read_only else PERMISSIONS
        principal = Principal(
            owner.tenant, allowed, "local", owner.user, None if graph else owner.agent
        )
        anyio.run(
            over_stdio, Caller(memory, principal, owner.user, owner.agent), arguments.profile, note
        )
    return 0


def unread(
    memory: Memory, path: str, database: str | None, tenant: str | None, user: str | None
) -> str:
    """How to bring in the file of the official memory server, where it is there and the graph is empty yet."""
    if (
        not path
        or not os.path.exists(path)
        or not is_empty(memory.scope(tenant=tenant, user=user).graph)
    ):
        return ""
    flags = (("--database", database), ("--tenant", tenant), ("--user", user))
    words = ["retain", "import", path, "--from", "mcp-memory"]
    words += [word for flag, value in flags if value for word in (flag, value)]
    return f"This memory is empty, and {path} has not been imported: {shlex.join(words)}"
