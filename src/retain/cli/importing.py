"""`retain import`: an export of ours, or what another memory wrote, with what became of everything in it."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from retain.api.rendering import progress, show, table
from retain.base.errors import Invalid
from retain.base.settings import Settings
from retain.cli.command import Arguments, add_to_audit_log, audited, open_memory, whose
from retain.integrations.importers import FORMATS, Report, detect_format, import_from
from retain.memory import Memory
from retain.storage.connect import absent

ABOUT = "Read an export, or with --from another memory's file (- from standard input); it can be repeated."
EXAMPLE = "retain import conversations.json --from chatgpt --user ada --dry-run"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "file": {
        "metavar": "FILE",
        "help": "a file; for langgraph and langchain also the address of a server",
    },
    "--from": {
        "dest": "format",
        "choices": FORMATS,
        "help": "whose file it is; without, an export of retain",
    },
    "--dry-run": {"action": "store_true", "help": "write nothing, and report the same"},
    "--shared": {
        "action": "store_true",
        "help": "what the source says of nobody is for every user",
    },
    "--table": {
        "metavar": "NAME",
        "help": "the table of LangChain's history (default: chat_message_history)",
    },
}
_SCOPE = ("tenant", "user", "agent")


def import_(arguments: Arguments) -> int:
    """Read a file."""
    if arguments.format is not None:
        return _from_elsewhere(arguments)
    for name, given in [
        *((f"--{name}", getattr(arguments, name)) for name in _SCOPE),
        ("--table", arguments.table),
    ]:
        if given is not None:
            raise Invalid(
                field=name, problem="goes with --from: an export of retain says itself whose it is"
            )
    if arguments.shared:
        raise Invalid(
            field="--shared",
            problem="goes with --from: an export of retain says itself whose it is",
        )
    if arguments.dry_run:
        raise Invalid(
            field="--dry-run",
            problem="goes with --from: an export of retain is checked before it is read",
        )
    with _file(arguments.file) as name:
        _refuse_what_is_not_ours(name)
        with (
            open_memory(arguments, create=True) as memory,
            progress("importing") as bar,
            Path(name).open("rb") as file,
        ):
            done = audited(memory, memory.settings.tenant, "import").import_(file, progress=bar)
    show(done, json_wanted=arguments.json)
    return 0


def _from_elsewhere(arguments: Arguments) -> int:
    with _memory(arguments) as memory, _file(arguments.file) as name:
        tenant, user, agent = whose(arguments, memory.settings)
        about: dict[str, Any] = {
            "tenant": tenant,
            "user": user,
            "agent": agent,
            "table": arguments.table,
            "shared": arguments.shared,
        }
        with progress("importing") as bar:
            report = import_from(
                memory, name, arguments.format, **about, dry_run=arguments.dry_run, progress=bar
            )
        if not arguments.dry_run:
            add_to_audit_log(
                memory, [tenant or memory.settings.tenant], "import", f"from {arguments.format}"
            )
    _show(report, json_wanted=arguments.json)
    return 0


def _memory(arguments: Arguments) -> Memory:
    """The database; one that is not there is made, but not for a dry run."""
    settings = Settings.load(arguments.config, database=arguments.database)
    if arguments.dry_run and absent(settings):
        return Memory.open(settings=replace(settings, database="memory:"))
    return open_memory(arguments, create=True)


def _show(report: Report, *, json_wanted: bool) -> None:
    if json_wanted:
        show(report, json_wanted=True)
        return
    rows = [
        (what, str(number), str(report.written[what]), str(report.there[what]))
        for what, number in report.read.items()
    ]
    table(("", "read", "would be written" if report.dry_run else "written", "there already"), rows)
    if report.unplaced:
        print(f"\n{len(report.unplaced)} of these, or beside them, have no place here:")
        table(
            ("what", "where", "why"), [(one.what, one.where, one.reason) for one in report.unplaced]
        )


def _refuse_what_is_not_ours(name: str) -> None:
    if "://" in name:
        raise Invalid(
            field="--from", problem="is needed for a server: --from langgraph, or --from langchain"
        )
    if format := detect_format(name):
        raise Invalid(
            field="--from", problem=f"is needed: the file looks like one for --from {format}"
        )


@contextmanager
def _file(name: str) -> Iterator[str]:
    """A file to read more than once; what comes through a pipe is put into one."""
    if name != "-":
        if "://" not in name and not Path(name).is_file():
            problem = "is a folder" if Path(name).is_dir() else "there is no such file"
            raise Invalid(field="file", problem=f"cannot be read: {problem}")
        yield name
        return
    with tempfile.NamedTemporaryFile() as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield copy.name
