"""`memorist import`: read an export of memorist, or the data of another system."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from memorist.base.errors import Invalid
from memorist.base.settings import PASSWORD_IN_URL
from memorist.cli.command import (
    Arguments,
    Command,
    add_to_audit_log,
    audited,
    load_settings,
    naming,
    open_memory,
    scope_names,
)
from memorist.cli.options import SCOPE
from memorist.cli.output import print_table, progress, show
from memorist.importing import (
    ImportReport,
    detect_format,
    formats,
    import_from,
    ready_maps,
)
from memorist.memory import Memory
from memorist.storage.connect import is_missing

MAX_SHOWN_UNPLACED = 10


def import_(arguments: Arguments) -> int:
    """Import a file."""
    if (arguments.file is None) == (arguments.url is None):
        raise Invalid(field="file", problem="is required: a file, or the --url of a database")
    arguments.file = arguments.file or arguments.url
    with naming(PASSWORD_IN_URL.sub(r"\1\3***\2", arguments.file)):
        return _import(arguments)


def _import(arguments: Arguments) -> int:
    if arguments.format is not None:
        return _import_other(arguments)
    options = {f"--{name}": getattr(arguments, name) for name in (*SCOPE, "map")}
    options |= {"--shared": arguments.shared or None, "--dry-run": arguments.dry_run or None}
    for option, value in options.items():
        if value is not None:
            problem = "requires --from; it does not apply to an export of memorist"
            raise Invalid(field=option, problem=problem)
    with _file(arguments.file) as name:
        _check_is_export(name)
        settings = load_settings(arguments)
        with (
            # With its address, it is also created beside a database of retain.
            Memory.open(settings.database, settings=settings) as memory,
            progress("importing") as bar,
            Path(name).open("rb") as file,
        ):
            imported = audited(memory, memory.settings.tenant, "import").import_(file, progress=bar)
    show(imported, json_wanted=arguments.json)
    return 0


def _import_other(arguments: Arguments) -> int:
    with _memory(arguments) as memory, _file(arguments.file) as name:
        tenant, user, agent = scope_names(arguments, memory.settings)
        options: dict[str, Any] = {
            "tenant": tenant,
            "user": user,
            "agent": agent,
            "map": arguments.map,
            "shared": arguments.shared,
        }
        with progress("importing") as bar:
            report = import_from(
                memory, name, arguments.format, **options, dry_run=arguments.dry_run, progress=bar
            )
        if not arguments.dry_run:
            add_to_audit_log(memory, report.tenants, "import", f"from {arguments.format}")
    _show(report, json_wanted=arguments.json)
    is_imported = report.written.total() or report.there.total() or not report.unplaced
    return 0 if is_imported else 1


def _memory(arguments: Arguments) -> Memory:
    """Open the database; a dry run does not create it."""
    settings = load_settings(arguments)
    if arguments.dry_run and is_missing(settings):
        return Memory.open(settings=replace(settings, database="memory:"))
    return open_memory(arguments, create=True)


def _show(report: ImportReport, *, json_wanted: bool) -> None:
    if json_wanted:
        show(report, json_wanted=True)
        return
    rows = [
        (kind, str(number), str(report.written[kind]), str(report.there[kind]))
        for kind, number in report.read.items()
    ]
    written_heading = "would be written" if report.dry_run else "written"
    print_table(("", "read", written_heading, "already there"), rows)
    if report.unplaced:
        print(f"\n{len(report.unplaced)} records were not imported:")
        shown = report.unplaced[:MAX_SHOWN_UNPLACED]
        print_table(
            ("what", "where", "why"), [(item.what, item.where, item.reason) for item in shown]
        )
        if len(report.unplaced) > len(shown):
            print(f"… and {len(report.unplaced) - len(shown)} more; --json lists all of them.")


def _check_is_export(name: str) -> None:
    if "://" in name:
        raise Invalid(
            field="--from",
            problem="is required for a server: --from langgraph or --from sql",
        )
    if format := detect_format(name):
        raise Invalid(field="--from", problem=f"is required: the file looks like --from {format}")


@contextmanager
def _file(name: str) -> Iterator[str]:
    """Yield the name of a file that can be read twice; standard input is copied to a file."""
    if name != "-":
        if "://" not in name and not Path(name).is_file():
            problem = "it is a folder" if Path(name).is_dir() else "it does not exist"
            raise Invalid(field="file", problem=f"cannot be read: {problem}")
        yield name
        return
    with tempfile.NamedTemporaryFile() as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield copy.name


COMMANDS = (
    Command(
        "import",
        import_,
        "memorist import conversations.json --from chatgpt --user ada --dry-run",
        SCOPE,
        {
            "file": {
                "metavar": "FILE",
                "nargs": "?",
                "help": "a file, or - for standard input; for langgraph and sql also "
                "the URL of a database",
            },
            "--url": {"metavar": "URL", "help": "the URL of a database, instead of FILE"},
            "--from": {
                "dest": "format",
                "metavar": "FORMAT",
                "help": f"the format of the file: {', '.join(formats())} (default: an export of "
                "memorist)",
            },
            "--dry-run": {
                "action": "store_true",
                "help": "report what would be done, write nothing",
            },
            "--shared": {
                "action": "store_true",
                "help": "import records that belong to no user, for all users",
            },
            "--map": {
                "metavar": "NAME",
                "help": "for --from sql: a built-in map "
                f"({', '.join(ready_maps())}), or a YAML or JSON file",
            },
        },
    ),
)
