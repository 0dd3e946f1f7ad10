"""`memorist documents add` and `memorist documents search`: documents from files and folders."""

from __future__ import annotations

import sys
from typing import Any

from memorist.base import limits
from memorist.base.errors import Invalid
from memorist.base.verbs import declared_verb
from memorist.chat.caller import Caller
from memorist.cli import search_command
from memorist.cli.command import Arguments, Command, load_settings, open_memory, operator, scope_of
from memorist.cli.options import SCOPE
from memorist.cli.output import plain, progress, show
from memorist.kinds.documents import Loaded, sources
from memorist.memory import Scope
from memorist.storage.connect import in_memory, is_missing


def search(arguments: Arguments) -> int:
    """Search in documents only."""
    arguments.kind = ["documents"]
    arguments.session = None
    return search_command.search(arguments)


def add(arguments: Arguments) -> int:
    """Add files; report the ones that cannot be read at the end."""
    settings = load_settings(arguments)
    reads_stdin = "-" in arguments.files
    has_no_database = is_missing(settings) and not in_memory(settings)
    if arguments.dry_run and not reads_stdin and has_no_database:
        # A dry run does not create the database; all documents would be new.
        with progress("reading") as bar:
            loaded = sources.load(
                arguments.files,
                arguments.title,
                arguments.pattern,
                limits.MAX_DOCUMENT_BYTES,
                sources.check_readable,
                bar,
            )
    else:
        with open_memory(arguments, create=not arguments.dry_run) as memory:
            scope = scope_of(arguments, memory)
            scope = Caller(operator(scope.owner.tenant)).acting(
                scope, declared_verb(scope.documents.add).name
            )
            if reads_stdin:
                return _add_text(scope, arguments)
            with progress("adding") as bar:
                loaded = scope.documents.add_files(
                    arguments.files,
                    title=arguments.title,
                    pattern=arguments.pattern,
                    dry_run=arguments.dry_run,
                    progress=bar,
                )
    if arguments.json:
        show(loaded, json_wanted=True)
    else:
        _report(loaded, dry_run=arguments.dry_run)
    return 1 if loaded.failed else 0


def _add_text(scope: Scope, arguments: Arguments) -> int:
    """Add a text from standard input."""
    if arguments.files != ["-"] or arguments.dry_run or arguments.pattern:
        raise Invalid(
            field="-",
            problem="(standard input) cannot be combined with files, --pattern or --dry-run",
        )
    if not arguments.title:
        raise Invalid(field="--title", problem="is required for a text from standard input")
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    show(scope.documents.add(arguments.title, text), json_wanted=arguments.json)
    return 0


def _report(loaded: Loaded, *, dry_run: bool) -> None:
    prefix = "would be " if dry_run else ""
    for word, files in (("added", loaded.added), ("replaced", loaded.replaced)):
        for file in files:
            print(f"{prefix}{word}  {plain(file)}")
    for file, reason in loaded.failed.items():
        print(f"failed  {plain(file)}: {plain(reason)}", file=sys.stderr)
    counts = {
        "added": len(loaded.added),
        "replaced": len(loaded.replaced),
        "unchanged": len(loaded.unchanged),
        "failed": len(loaded.failed),
    }
    summary = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    if not summary:
        print("No documents found.")
    else:
        print(f"{summary}{'; nothing was written' if dry_run else ''}.")


_SEARCH_ARGUMENTS: dict[str, dict[str, Any]] = {
    name: options
    for name, options in search_command.ARGUMENTS.items()
    if name not in ("--kind", "--session")
}
COMMANDS = (
    Command(
        "documents add",
        add,
        "memorist documents add handbook.pdf docs/ --pattern '*.md'",
        SCOPE,
        {
            "files": {
                "nargs": "+",
                "metavar": "FILE",
                "help": "a text, Markdown, HTML or PDF file, a folder, or - for standard input",
            },
            "--title": {
                "metavar": "TEXT",
                "default": "",
                "help": "title (default: the document's own title, or its file name)",
            },
            "--pattern": {
                "metavar": "GLOB",
                "help": "only these files of a folder, such as '*.md' (default: every document)",
            },
            "--dry-run": {"action": "store_true", "help": "show what would be done, write nothing"},
        },
    ),
    Command(
        "documents search",
        search,
        "memorist documents search 'how do I reset the router'",
        SCOPE,
        _SEARCH_ARGUMENTS,
    ),
)
