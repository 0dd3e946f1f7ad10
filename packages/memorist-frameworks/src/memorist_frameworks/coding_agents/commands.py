"""`memorist install`, `memorist uninstall` and `memorist hook`: memory for coding agents."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memorist.base.errors import Invalid, install_hint
from memorist.base.settings import PASSWORD_IN_URL
from memorist.cli.command import Arguments, Command
from memorist.coding_agents.project import config_folder
from memorist_frameworks.coding_agents.hook import process_seconds, run_hook
from memorist_frameworks.coding_agents.hosts import HOSTS, Host, Place
from memorist_frameworks.coding_agents.install import (
    apply_changes,
    check_installed,
    plan_install,
    plan_uninstall,
)

DETAILS = """\
Shows the changes as a diff and asks before it writes. Comments and the order of the files stay. All
coding agents in a project share one memory, in a database of the user; secrets are masked. `memorist
status --project` shows what the hooks did."""

CACHE_FOLDER = re.compile(r"(archive|builds|environments)-v\d+")  # of uv


def install(arguments: Arguments) -> int:
    """Add memorist to the settings of a coding agent."""
    host, place = _target(arguments)
    try:
        check_installed(host, place)
    except Invalid as error:
        if arguments.dry_run:
            print(f"Note: {error.problem}.", file=sys.stderr)
        elif not arguments.force:
            raise
    _check_database(arguments.database)
    command = _command(arguments)
    _warn_of_cache(Path(command[0]))
    changes = plan_install(host, place, command)
    if not changes:
        print(f"memorist is already installed in {host.title}.")
        return 0
    if not _show_and_confirm(arguments, [change.diff() for change in changes]):
        return 0
    apply_changes(changes)
    print(f"memorist is installed in {host.title}. Restart it to use the memory.")
    if host.note:
        print(host.note)
    if importlib.util.find_spec("mcp") is None:
        print(f"The MCP entry requires the extra `mcp`: {install_hint('mcp')}.", file=sys.stderr)
    return 0


def uninstall(arguments: Arguments) -> int:
    """Remove memorist from the settings of a coding agent."""
    host, place = _target(arguments)
    changes = plan_uninstall(host, place, _command(arguments))
    if not changes:
        print(f"memorist is not installed in {host.title}.")
        return 0
    if not _show_and_confirm(arguments, [change.diff() for change in changes]):
        return 0
    apply_changes(changes)
    print(f"memorist is removed from {host.title}. The memory itself is kept.")
    return 0


def hook(arguments: Arguments) -> int:
    """Run a hook. `main` has a faster way for hooks without options before the command."""
    flags = {"database": arguments.database}
    run_hook(arguments.host, arguments.event, arguments.config, flags, process_seconds())
    return 0


def _target(arguments: Arguments) -> tuple[Host, Place]:
    project = Path.cwd() if arguments.for_project else None
    return HOSTS[arguments.host], Place(Path.home(), project)


def _command(arguments: Arguments) -> list[str]:
    """Return the command that starts memorist, and the options that name its database.

    Files of a project may be shared, so they contain no path if `memorist` is on the search path.
    """
    program = Path(sys.argv[0])
    if program.name not in ("memorist", "memorist.exe"):
        program = Path(sys.executable).parent / "memorist"
    on_path = shutil.which("memorist")
    if arguments.for_project and on_path and Path(on_path).resolve() == program.resolve():
        command = ["memorist"]
    else:
        command = [str(program.absolute())]
    if arguments.config is not None:
        command += ["--config", str(arguments.config.absolute())]
    if arguments.database is not None:
        command += ["--database", arguments.database]
    return command


def _check_database(url: str | None) -> None:
    """Raise Invalid for a password, which other programs could read in the settings."""
    if url is not None and PASSWORD_IN_URL.search(url):
        file = config_folder() / "memorist.yaml"
        problem = (
            "contains a password, and would be written into the settings of the coding agent. "
            f"Write `database:` into {file}, and run the command without --database"
        )
        raise Invalid(field="--database", problem=problem)


def _warn_of_cache(program: Path) -> None:
    """Warn of a program that uv deletes when it cleans its cache."""
    if any(CACHE_FOLDER.fullmatch(part) for part in program.resolve().parts):
        print(
            f"{program} is in uv's cache, which uv may delete; the coding agent could then no longer start "
            "memorist. Install memorist permanently, for example with `uv tool install "
            "'memorist[mcp]'`, and run this command again.",
            file=sys.stderr,
        )


def _show_and_confirm(arguments: Arguments, diffs: Sequence[str]) -> bool:
    """Print the changes; report if they are to be made."""
    for diff in diffs:
        print(diff)
    if arguments.dry_run:
        return False
    if arguments.yes:
        return True
    if not sys.stdin.isatty():
        raise Invalid(field="--yes", problem="is required without a terminal; nothing was changed")
    try:
        answer = input("Make these changes? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() in ("y", "yes"):
        return True
    print("Nothing was changed.")
    return False


_FLAG: dict[str, Any] = {"action": "store_true"}
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "host": {"metavar": "HOST", "choices": tuple(HOSTS), "help": ", ".join(HOSTS)},
    "--project": {
        **_FLAG,
        "dest": "for_project",
        "help": "in the settings of the project in the current folder",
    },
    "--user": {
        "action": "store_false",
        "dest": "for_project",
        "help": "in the settings of the user, for all projects (default)",
    },
    "--dry-run": {**_FLAG, "help": "only show the changes"},
    "--yes": {**_FLAG, "help": "do not ask for confirmation"},
}

INSTALL = Command(
    "install",
    install,
    "memorist install claude-code --dry-run",
    (),
    {**_ARGUMENTS, "--force": {**_FLAG, "help": "even if the coding agent was not found"}},
    details=DETAILS,
)
UNINSTALL = Command("uninstall", uninstall, "memorist uninstall claude-code", (), _ARGUMENTS)
HOOK = Command(
    "hook",
    hook,
    "memorist hook claude-code SessionStart < event.json",
    (),
    {
        "host": {"metavar": "HOST", "help": "the coding agent"},
        "event": {"metavar": "EVENT", "help": "the name of the event, such as SessionStart"},
    },
    details="Reads the event from standard input. Always succeeds, within a time limit.",
)
