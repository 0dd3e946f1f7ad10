"""Options that all commands share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SCOPE = ("tenant", "user", "agent")
_SCOPE_HELP = {
    "tenant": "the tenant (default: the setting)",
    "user": "the user (default: all users of the tenant)",
    "agent": "the agent (default: all agents)",
}


PROJECT_OPTION: dict[str, dict[str, Any]] = {
    "--project": {
        "action": "store_true",
        "help": "use the memory that coding agents share in the project of the current folder",
    }
}
"""For commands that can use the memory of `memorist install`."""


def common_options(scope: Sequence[str], *, top: bool = False) -> argparse.ArgumentParser:
    """Return the options that commands share.

    An option after the command overrides the same option before it.
    """
    options = argparse.ArgumentParser(
        add_help=False, argument_default=None if top else argparse.SUPPRESS
    )
    group = options.add_argument_group("scope and database" if scope else "database")
    group.add_argument(
        "--database", metavar="URL", help="sqlite:///FILE, postgresql://…, oracle://… or memory:"
    )
    group.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="the settings file (default: memorist.yaml, if it exists)",
    )
    group.add_argument(
        "--set",
        dest="set_first" if top else "set",
        metavar="NAME=VALUE",
        action="append",
        help="any other setting, such as context_tokens=8000; may be repeated",
    )
    for name in scope:
        group.add_argument(f"--{name}", help=_SCOPE_HELP[name])
    default = False if top else argparse.SUPPRESS
    group.add_argument("--json", action="store_true", default=default, help="print JSON")
    return options
