"""Documents from the command line: files and folders, with a report of what became of each; and a search in them alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from retain.api.rendering import plain, progress, show
from retain.base import limits
from retain.base.errors import Invalid
from retain.base.settings import Settings
from retain.cli import search
from retain.cli.command import Arguments, open_memory, scope_of
from retain.kinds.knowledge import document
from retain.kinds.knowledge.knowledge import Loaded
from retain.memory import Scope

ABOUT = (
    "Add files, or all documents in folders; what was added before with the same path is replaced."
)
EXAMPLE = "retain knowledge add handbook.pdf docs/ --pattern '*.md'"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "files": {
        "nargs": "+",
        "metavar": "FILE",
        "help": "a file of text, Markdown, HTML or PDF, a folder, or - for a text",
    },
    "--title": {
        "metavar": "TEXT",
        "default": "",
        "help": "what it is called (default: as it calls itself, or its name)",
    },
    "--pattern": {
        "metavar": "GLOB",
        "help": "of folders only files like this, such as '*.md' (default: every document)",
    },
    "--dry-run": {"action": "store_true", "help": "say what would be done, and do nothing"},
}

FIND_ABOUT = "Find the passages of documents that answer a question, by words and by meaning."
FIND_EXAMPLE = "retain knowledge search 'how do I reset the router'"
FIND_ARGUMENTS = {
    name: told for name, told in search.ARGUMENTS.items() if name not in ("--kind", "--session")
}


def find(arguments: Arguments) -> int:
    """Search in documents, and show what was found as any search does."""
    arguments.kind, arguments.session = ["knowledge"], None
    return search.search(arguments)


def add(arguments: Arguments) -> int:
    """Add files; those that cannot be read are told at the end."""
    settings = Settings.load(arguments.config, database=arguments.database)
    if arguments.dry_run and "-" not in arguments.files and _lacks_database(settings):
        with progress("reading") as bar:
            done = document.load(
                arguments.files,
                arguments.title,
                arguments.pattern,
                limits.MAX_DOCUMENT_BYTES,
                document.as_new,
                bar,
            )
    else:
        with open_memory(arguments, create=not arguments.dry_run) as memory:
            me = scope_of(arguments, memory)
            if "-" in arguments.files:
                return _add_text(me, arguments)
            with progress("adding") as bar:
                done = me.knowledge.add_files(
                    arguments.files,
                    title=arguments.title,
                    pattern=arguments.pattern,
                    dry_run=arguments.dry_run,
                    progress=bar,
                )
    if arguments.json:
        show(done, json_wanted=True)
    else:
        _tell(done, dry_run=arguments.dry_run)
    return 1 if done.failed else 0


def _lacks_database(settings: Settings) -> bool:
    """Whether the database is a file that is not there yet: then nothing is in it, and a dry run need not make it."""
    file = settings.database.removeprefix("sqlite:///")
    return (
        settings.database.startswith("sqlite:///")
        and file != ":memory:"
        and not Path(file).exists()
    )


def _add_text(me: Scope, arguments: Arguments) -> int:
    """A text from standard input."""
    if arguments.files != ["-"] or arguments.dry_run or arguments.pattern:
        raise Invalid(
            field="-",
            problem="stands alone: a text from standard input cannot go with files or --dry-run",
        )
    if not arguments.title:
        raise Invalid(field="--title", problem="is needed for a text from standard input")
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    show(me.knowledge.add(arguments.title, text), json_wanted=arguments.json)
    return 0


def _tell(done: Loaded, *, dry_run: bool) -> None:
    for word, files in (("added", done.added), ("replaced", done.replaced)):
        for file in files:
            print(f"{'would be ' if dry_run else ''}{word}  {plain(file)}")
    for file, reason in done.failed.items():
        print(f"failed  {plain(file)}: {plain(reason)}", file=sys.stderr)
    counts = [
        (len(done.added), "added"),
        (len(done.replaced), "replaced"),
        (len(done.unchanged), "unchanged"),
    ]
    told = ", ".join(
        f"{count} {word}" for count, word in [*counts, (len(done.failed), "failed")] if count
    )
    print(
        f"{told or 'There are no documents there'}{'; nothing was written' if dry_run and told else ''}."
    )
