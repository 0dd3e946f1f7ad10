"""Extensions: installed packages that add commands, routes, tools, importers or database engines.

The core finds them by entry points. Listing extensions imports none of them. The names of the
groups are public.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMANDS = "memorist.commands"
"""Each entry point is a `memorist.cli.command.Command`. `memorist --help` shows the summary of its
distribution, or what `memorist.cli.main` says about commands of our packages."""
ENGINES = "memorist.engines"
"""Each entry point is a `memorist.storage.extra_engines.Engine`, named after the scheme of its addresses."""
HOOKS = "memorist.hooks"
"""The entry point `memorist` is a function that runs `memorist hook` with its arguments."""
IMPORTERS = "memorist.importers"
"""Each entry point is a `memorist.importing.Importer`, named after its format."""
MCP_PROFILES = "memorist.mcp_profiles"
"""Each entry point is a `memorist.mcp.server.Offer`, named after its profile."""
ROUTES = "memorist.routes"
"""Each entry point is a function that takes the server's `RequestAuthenticator` and returns a list of
`memorist.api.route.ApiRoute`, which the server adds."""


@cache
def extensions(group: str) -> dict[str, EntryPoint]:
    """Return the extensions of a group, by name, that were installed at the first call."""
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    points = sorted(entry_points(group=group), key=lambda point: point.name)
    return {point.name: point for point in points}


def summary(extension: EntryPoint) -> str:
    """Return the one-line description of the distribution of an extension."""
    return extension.dist.metadata["Summary"] if extension.dist else ""
