"""The commands for whoever runs retain: migrations, checks, copies, retention, erasure, settings."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from retain.errors import Invalid, SettingsError
from retain.faces.render import progress, show, table
from retain.memory import Memory
from retain.settings import FIELDS, Settings
from retain.storage import migrate

Command = Callable[[argparse.Namespace], int]


def version() -> str:
    """What `--version` prints."""
    return f"retain {metadata.version('retain')}"


def add_to(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add every command of this room."""

    def add(name: str, run: Command, about: str, example: str, to: Any = commands) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = to.add_parser(
            name,
            help=about,
            description=about,
            parents=[common],
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        added.set_defaults(run=run)
        return added

    add("status", status, "What database this is, and how much is in it.", "retain status")
    about = "The schema: where it is, and moving it up or down."
    steps = commands.add_parser("migrate", help=about, description=about)
    steps = steps.add_subparsers(title="commands", metavar="VERB", required=True)
    add("status", migrate_status, "Which migrations are applied and which wait.", "retain migrate status", steps)
    for name, run, what in (("up", migrate_up, "Apply what is missing."), ("down", migrate_down, "Take back migrations.")):
        command = add(name, run, what, f"retain migrate {name} --sql", steps)
        command.add_argument("--to", type=int, metavar="N", help="stop at this version")
        command.add_argument("--sql", action="store_true", help="print the statements and run nothing")
        if name == "down":
            command.add_argument("--yes", action="store_true", help="do not ask: what the migrations held is lost")
    add("verify", verify, "Prove that order, references, indexes and isolation are whole; status 1 if not.", "retain verify")
    command = add("export", export, "Write everything as JSON Lines.", "retain export memory.jsonl --user ada")
    command.add_argument("file", metavar="FILE", help="where to, or - for standard output")
    command = add("import", import_, "Read an export; it can be repeated.", "retain import memory.jsonl")
    command.add_argument("file", metavar="FILE", type=Path)
    command = add("purge", purge, "Remove old messages and expired state, in small batches.", "retain purge --days 90")
    command.add_argument("--days", type=float, metavar="N", help="messages older than this (default: retention_days)")
    command.add_argument("--emergency", action="store_true", help="for a full disk: give up the reserve file first")
    command = add("erase", erase, "Remove everything of one user, with a receipt.", "retain erase --user ada --yes")
    command.add_argument("--yes", action="store_true", help="do not ask")
    command = add("backup", backup, "Write a consistent copy while it is in use.", "retain backup retain-monday.db")
    command.add_argument("file", metavar="FILE", type=Path)
    about = "The settings: what they are and where each came from."
    config = commands.add_parser("config", help=about, description=about)
    config = config.add_subparsers(title="commands", metavar="VERB", required=True)
    add("show", config_show, "Every setting, its value and where it came from.", "retain config show", config)
    add("example", config_example, "A settings file with every default.", "retain config example > retain.yaml", config)


@dataclass(frozen=True)
class Status:
    """What database this is."""

    database: str
    schema: int
    tenants: int
    rows: dict[str, int]


def status(arguments: argparse.Namespace) -> int:
    """Count what there is."""
    with open_memory(arguments) as memory:
        shown = Status(memory.database.name, memory.database.version(), len(memory.tenants()), memory.counts())
    show(shown, json_wanted=arguments.json)
    return 0


def migrate_status(arguments: argparse.Namespace) -> int:
    """List the migrations."""
    with open_memory(arguments, migrate_up=False) as memory:
        found = migrate.check(memory.database, memory.migrations)
        rows = [(f"{m.number:04}", m.name, "applied" if m.number <= found else "waiting") for m in memory.migrations]
    if arguments.json:
        show({"version": found, "migrations": [dict(zip(("number", "name", "state"), r, strict=True)) for r in rows]},
             json_wanted=True)  # fmt: skip
    else:
        table(("number", "name", "state"), rows)
    return 0


def migrate_up(arguments: argparse.Namespace) -> int:
    """Apply what is missing, or print it."""
    with open_memory(arguments, migrate_up=False) as memory:
        if arguments.sql:
            due = migrate.due_up(memory.database, memory.migrations, arguments.to)
            return _print_sql(memory, due, up=True)
        done = migrate.up(memory.database, memory.migrations, arguments.to)
        return _say_done(memory, done, arguments, "applied")


def migrate_down(arguments: argparse.Namespace) -> int:
    """Take migrations back, or print how."""
    with open_memory(arguments, migrate_up=False) as memory:
        to = max(0, memory.database.version() - 1) if arguments.to is None else arguments.to
        due = migrate.due_down(memory.database, memory.migrations, to)
        if arguments.sql:
            return _print_sql(memory, due, up=False)
        names = ", ".join(migration.name for migration in due) or "nothing"
        _ask(arguments, f"This takes back {names} in {memory.database.name} and deletes what it held.")
        return _say_done(memory, migrate.down(memory.database, memory.migrations, to), arguments, "taken back")


def verify(arguments: argparse.Namespace) -> int:
    """Run every check."""
    with open_memory(arguments) as memory:
        findings = memory.verify()
    wrong = [finding for finding in findings if not finding.ok]
    if arguments.json:
        show({"ok": not wrong, "checks": findings}, json_wanted=True)
    else:
        table(("check", "result"), [(finding.check, finding.problem or "ok") for finding in findings])
        print(
            f"{len(wrong)} of {len(findings)} checks found something." if wrong else f"All {len(findings)} checks are well."
        )
    return 1 if wrong else 0


def export(arguments: argparse.Namespace) -> int:
    """Write an export; a file appears only when it is whole."""
    with open_memory(arguments) as memory, progress("exporting") as bar:
        tenants = None if arguments.tenant is None else [arguments.tenant]
        user = arguments.user
        if arguments.file == "-":
            memory.export(sys.stdout.buffer, tenants=tenants, user=user, progress=bar)
            return 0
        target = Path(arguments.file)
        partial = target.with_name(target.name + ".partial")
        with _create(partial) as out:
            done = memory.export(out, tenants=tenants, user=user, progress=bar)
            out.flush()
            os.fsync(out.fileno())
        partial.replace(target)
    show(done, json_wanted=arguments.json)
    return 0


def import_(arguments: argparse.Namespace) -> int:
    """Read an export."""
    with open_memory(arguments) as memory, progress("importing") as bar:
        try:
            file = arguments.file.open("rb")
        except OSError as error:
            raise Invalid(field="file", problem=f"cannot be read: {error.strerror}") from None
        with file:
            done = memory.import_(file, progress=bar)
    show(done, json_wanted=arguments.json)
    return 0


def purge(arguments: argparse.Namespace) -> int:
    """Apply retention."""
    with open_memory(arguments) as memory, progress("purging") as bar:
        done = memory.purge(days=arguments.days, emergency=arguments.emergency, progress=bar)
    show(done, json_wanted=arguments.json)
    return 0


def erase(arguments: argparse.Namespace) -> int:
    """Erase one user."""
    if not arguments.user:
        raise Invalid(field="user", problem="is needed: whom to erase, as in --user ada")
    with open_memory(arguments) as memory:
        tenant = arguments.tenant or memory.settings.tenant
        _ask(arguments, f"This removes everything of user {arguments.user} of tenant {tenant} for good.")
        receipt = memory.erase(arguments.user, tenant=tenant)
    show(receipt, json_wanted=arguments.json)
    return 0


def backup(arguments: argparse.Namespace) -> int:
    """Copy the database."""
    with open_memory(arguments) as memory:
        memory.backup(arguments.file)
    show({"backup": str(arguments.file), "bytes": arguments.file.stat().st_size}, json_wanted=arguments.json)
    return 0


def config_show(arguments: argparse.Namespace) -> int:
    """Show the settings without their secrets."""
    settings = Settings.load(arguments.config, database=arguments.database, tenant=arguments.tenant)
    rows = [(f.name, settings.shown(f.name), settings.origins.get(f.name, "default")) for f in FIELDS]
    if arguments.json:
        show({name: {"value": value, "from": origin} for name, value, origin in rows}, json_wanted=True)
    else:
        table(("setting", "value", "from"), rows)
    return 0


def config_example(arguments: argparse.Namespace) -> int:
    """Print a settings file."""
    print(Settings.example(), end="")
    return 0


def open_memory(arguments: argparse.Namespace, *, migrate_up: bool = True) -> Memory:
    """The database that flags, environment and settings file name."""
    settings = Settings.load(arguments.config, database=arguments.database)
    return Memory.open(settings=settings, migrate_up=migrate_up)


def _print_sql(memory: Memory, due: list[migrate.Migration], *, up: bool) -> int:
    for migration in due:
        print(memory.database.script(migration.step(up=up)))
    return 0


def _say_done(memory: Memory, done: list[migrate.Migration], arguments: argparse.Namespace, what: str) -> int:
    found = memory.database.version()
    if arguments.json:
        show({"version": found, "migrations": [migration.number for migration in done]}, json_wanted=True)
        return 0
    for migration in done:
        print(f"{migration.number:04} {migration.name} {what}")
    print(f"{memory.database.name} is at schema {found}.")
    return 0


def _ask(arguments: argparse.Namespace, warning: str) -> None:
    """Go on only with a yes: from a flag, or from a person."""
    if arguments.yes:
        return
    if not sys.stdin.isatty():
        raise SettingsError(where="--yes", problem=f"{warning} Nobody is here to ask: add --yes")
    print(warning, file=sys.stderr)
    if input("Type yes to go on: ").strip().lower() != "yes":
        raise KeyboardInterrupt


def _create(path: Path) -> IO[bytes]:
    """A new file that only its owner can read."""
    path.unlink(missing_ok=True)
    try:
        return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")
    except OSError as error:
        raise Invalid(field="file", problem=f"cannot be written: {error.strerror}") from None
