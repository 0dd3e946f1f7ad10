"""`retain serve`: the server, until somebody stops it."""

from __future__ import annotations

import json
from typing import Any

from retain.base.errors import SettingsError
from retain.base.settings import Settings
from retain.cli.command import Arguments

ABOUT = "Serve REST, chat and MCP on one port, until it is told to stop."
EXAMPLE = "retain serve --port 7700 --workers 2"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "--host": {
        "metavar": "ADDRESS",
        "help": "the address to listen on; any but this machine's own needs keys",
    },
    "--port": {"type": int, "metavar": "PORT", "help": "the port; 0 takes any that is free"},
    "--workers": {"type": int, "metavar": "COUNT", "help": "how many processes share the port"},
}


def serve(arguments: Arguments) -> int:
    """Serve; the exit status is 0 where it was told to stop."""
    settings = Settings.load(
        arguments.config,
        database=arguments.database,
        host=arguments.host,
        port=arguments.port,
        workers=arguments.workers,
    )
    try:
        from retain.server.serve import serve as run
    except ImportError as error:
        problem = f"it needs the extra `server` ({error}): install retain[server] from where you got retain"
        raise SettingsError(where="serve", problem=problem) from error

    def told(address: str) -> None:
        if arguments.json:
            print(json.dumps({"url": address}), flush=True)
        else:
            print(
                f"retain listens on {address}/ (calls: {address}/docs, MCP: {address}/mcp). Ctrl-C stops it.",
                flush=True,
            )

    return run(settings, told)
