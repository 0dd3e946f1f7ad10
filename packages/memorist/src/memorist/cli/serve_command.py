"""`memorist serve`: run the server."""

from __future__ import annotations

import gc
import json
from importlib.util import find_spec

from memorist.base.errors import SettingsError, install_hint
from memorist.cli.command import Arguments, Command, load_settings


def serve(arguments: Arguments) -> int:
    """Run the server until it is stopped."""
    # Until it listens, the server only loads code: looking for garbage takes 8 % of the time.
    gc.disable()
    try:
        return _serve(arguments)
    finally:
        gc.enable()


def _serve(arguments: Arguments) -> int:
    """Import the server, announce its address when it listens, and return its exit status."""
    settings = load_settings(
        arguments, host=arguments.host, port=arguments.port, workers=arguments.workers
    )
    try:
        # Imported here because it needs the extra `server`.
        from memorist.server.process.serve import serve as run_server
    except ImportError as error:
        problem = f"requires the extra `server` ({error}); {install_hint('server')}"
        raise SettingsError(where="serve", problem=problem) from error

    def announce(address: str) -> None:
        if arguments.json:
            print(json.dumps({"url": address}), flush=True)
        else:
            mcp = f", MCP: {address}/mcp" if find_spec("mcp") else ""
            print(
                f"memorist listens on {address}/ (API: {address}/docs{mcp}). Press Ctrl-C to stop.",
                flush=True,
            )

    return run_server(settings, announce, jobs=not arguments.no_jobs)


COMMANDS = (
    Command(
        "serve",
        serve,
        "memorist serve --port 7700 --workers 2 --set model=gpt-5-mini",
        (),
        {
            "--host": {
                "metavar": "ADDRESS",
                "help": "address to listen on; addresses other than localhost require an API key, `jwt_issuer` or `auth: keys`",
            },
            "--port": {"type": int, "metavar": "PORT", "help": "port; 0 for any free port"},
            "--workers": {
                "type": int,
                "metavar": "COUNT",
                "help": "number of processes that share the port",
            },
            "--no-jobs": {
                "action": "store_true",
                "help": "leave the background jobs to `memorist jobs`",
            },
        },
    ),
)
