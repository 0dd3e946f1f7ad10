"""The command line: all verbs of all kinds, and the commands for operators.

argparse is used because other libraries take longer to import than the rest of `memorist --help`.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from memorist.base import extensions
from memorist.base.errors import Invalid, MemoristError, SettingsError, install_hint
from memorist.base.version import version
from memorist.cli.options import SCOPE, common_options
from memorist.cli.verb_table import KINDS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from memorist.cli.command import Command

EXIT_CODES = """exit status:
  0    success
  1    a check failed, or an unexpected error
  2    invalid input
  3    not found
  4    conflict
  5    database error
  6    settings error
  7    model error
  8    not allowed: missing or wrong key, or too many requests
  130  interrupted"""
COMMANDS = {
    "operator_commands": {
        "status": "Show the database, its size and the jobs that are due.",
        "migrate status": "List the migrations and whether they are applied.",
        "migrate up": "Create the database, or apply missing migrations.",
        "migrate down": "Revert the newest migrations and delete their data.",
        "migrate views": "Create read-only views with the names of the tables of earlier designs.",
        "migrate liquibase": "Write the migrations for Oracle Database as a Liquibase changelog.",
        "verify": "Check the order of messages, references, indexes and isolation.",
        "export": "Export a tenant or one user as JSON Lines.",
        "reindex": "Repair the search index: add what is missing, remove what has no record.",
        "purge": "Remove old messages and what has expired, in small batches.",
        "erase": "Remove all data of one user, or of one agent, and print a receipt.",
        "backup": "Write a consistent copy of the database while it is in use.",
        "models": "List the models that the configured model service offers.",
        "config show": "List every setting, its value and where it comes from.",
        "config example": "Print a settings file with all defaults.",
    },
    "doctor": {
        "doctor": "Check settings, database, models and server, and say what to do.",
    },
    "import_command": {
        "import": "Import an export of memorist or, with --from, the data of another system. Safe to repeat.",
    },
    "jobs_command": {
        "jobs": "Run the background jobs that are due: vectors, summaries, facts, consolidation, retention, webhooks.",
    },
    "context_command": {
        "context": "Show the context of a message or a saved turn, and the reason for each part.",
    },
    "search_command": {
        "search": "Search the memory by words and by meaning.",
    },
    "documents_command": {
        "documents add": "Add files, or all documents in folders. A document with the same path is replaced.",
        "documents search": "Find passages of documents that answer a question, by words and by meaning.",
    },
    "chat_command": {
        "chat": "Chat with an agent that has memory. Lines from a pipe are answered one by one.",
    },
    "mcp_command": {
        "mcp": "Serve the memory to an MCP client that starts this command.",
    },
    "run_command": {
        "run": "Run a command. Store a large output and print a placeholder for it.",
    },
    "serve_command": {
        "serve": "Run the server: REST, chat, MCP and the web app on one port.",
    },
    "events_command": {
        "events": "Show what was added, changed, learned, removed and erased in a tenant.",
    },
}
"""Every command, by the module that defines it, with its help. A module is imported when one of its
commands is named: importing all takes several times as long as `memorist --help` itself."""
_GROUPS = {
    "migrate": "Show, apply and revert schema migrations.",
    "config": "Show the settings and where they come from.",
}
EXTRA_COMMANDS = {
    "eval": (
        "eval",
        "Measure search and answers on benchmark files: LoCoMo, LongMemEval and BEAM.",
    ),
    "install": (
        "mcp",
        "Add memorist to a coding agent: its MCP entry, and hooks that recall and save.",
    ),
    "uninstall": ("mcp", "Remove from a coding agent what `memorist install` added."),
    "hook": ("mcp", "Run a hook of a coding agent. The settings of the coding agent call it."),
}
"""Commands of our packages that may not be installed: the extra that installs each, and its help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # escape what cannot be encoded
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["hook"] and not {"-h", "--help"} & {*words}:
        return _run_hook(words)
    arguments = parser(words).parse_args(words)
    try:
        _check_scope_options(arguments)
        status = int(arguments.run(arguments) or 0)
        sys.stdout.flush()
        return status
    except MemoristError as error:
        _print_error(error, arguments)
        return error.exit_code
    except BrokenPipeError:
        # Python would report the closed pipe once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        from memorist.cli.output import plain  # only for errors

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"memorist: {plain(_file_problem(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130


def _run_hook(words: Sequence[str]) -> int:
    """Run a hook of a coding agent, which would treat a failure as a wish to block it.

    So this always succeeds. It also starts faster than other commands.
    """
    with suppress(Exception, SystemExit):
        extensions.extensions(extensions.HOOKS)["memorist"].load()(words[1:])
    return 0


def _file_problem(error: OSError) -> str:
    """Return the names of the files that an error is about, and its reason."""
    files = [str(name) for name in (error.filename, error.filename2) if name is not None]
    return ": ".join([*files, error.strerror or str(error)])


def _open_closed_streams() -> None:
    """Open the null device for closed standard streams, to reserve their numbers."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_RDWR), number)
                setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Build the parser of a command line.

    Every command is listed, but only commands that the words name get their arguments: adding the
    arguments of all commands takes as long as running a short command.
    """
    top = argparse.ArgumentParser(
        prog="memorist",
        description="Memory for AI agents.",
        epilog=f"Start with:\n  memorist sessions resume --user ada --agent scout\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common_options(SCOPE, top=True)],
    )
    top.add_argument("--version", action="version", version=version())
    commands = top.add_subparsers(title="commands", metavar="COMMAND")
    _show_help_alone(top)
    groups = {}
    help_by_name = {name: text for module in COMMANDS.values() for name, text in module.items()}
    for kind, (about, verbs) in KINDS.items():
        if kind in help_by_name:  # it has a command of its own
            continue
        if isinstance(verbs, str):
            _add_verb(commands, words, kind, kind, verbs, about)
            continue
        groups[kind] = _add_group(commands, kind, about)
        if kind not in words:
            continue
        for verb, summary in verbs.items():
            if f"{kind} {verb}" not in help_by_name:  # it has no command of its own
                _add_verb(groups[kind], words, verb, kind, verb, summary)
    groups |= {name: _add_group(commands, name, about) for name, about in _GROUPS.items()}
    for name, about in help_by_name.items():
        group, _, verb = name.rpartition(" ")
        if (group or verb) in words:
            _add_command(groups[group] if group else commands, verb, load_command(name), about)
        elif not group:
            commands.add_parser(verb, help=about, add_help=False)
    if {*EXTRA_COMMANDS} & {*words} or not {*groups, *help_by_name} & {*words}:
        _add_extra_commands(commands, words)
    return top


def _add_verb(
    commands: Any, words: Sequence[str], command: str, kind: str, verb: str, summary: str
) -> None:
    """Add the command of a verb; only a command that the words name imports the kinds."""
    if command in words:
        from memorist.cli.verb_commands import add_verb

        add_verb(commands, kind, verb)
    else:
        commands.add_parser(command, help=summary, add_help=False)


def _add_extra_commands(commands: Any, words: Sequence[str]) -> None:
    """Add the commands of other packages; finding them takes as long as a short command."""
    installed = extensions.extensions(extensions.COMMANDS)
    for name, extension in installed.items():
        about = summary_of(name, extension)
        if name in words:
            _add_command(commands, name, extension.load(), about)
        else:
            commands.add_parser(name, help=about, add_help=False)
    for name, (extra, _) in EXTRA_COMMANDS.items():
        if name not in installed and name in words:
            _add_missing_command(commands, name, extra)


def summary_of(name: str, extension: EntryPoint) -> str:
    """Return the help of a command of another package: for a foreign one, that of the package."""
    return EXTRA_COMMANDS[name][1] if name in EXTRA_COMMANDS else extensions.summary(extension)


def load_command(name: str) -> Command:
    """Import the module of a command and return its definition."""
    module = next(module for module, commands in COMMANDS.items() if name in commands)
    commands: Sequence[Command] = importlib.import_module(f"memorist.cli.{module}").COMMANDS
    return next(command for command in commands if command.name == name)


def _add_group(commands: Any, name: str, about: str) -> Any:
    group = commands.add_parser(name, help=about, description=about)
    _show_help_alone(group)
    return group.add_subparsers(title="commands", metavar="VERB")


def _show_help_alone(command: argparse.ArgumentParser) -> None:
    """Print the help of a command that is called without a subcommand."""

    def show_help(arguments: argparse.Namespace) -> int:
        command.print_help()
        return 0

    command.set_defaults(run=show_help, scope_options=SCOPE)


def _add_command(commands: Any, verb: str, command: Command, about: str) -> None:
    added = commands.add_parser(
        verb,
        help=about,
        description=f"{about}\n\n{command.details}".rstrip(),
        parents=[common_options(command.scope)],
        epilog=f"example:\n  {command.example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for argument, options in command.arguments.items():
        added.add_argument(argument, **options)
    added.set_defaults(run=command.run, scope_options=command.scope)


def _add_missing_command(commands: Any, name: str, extra: str) -> None:
    """Add a command that says how to install it, whatever its arguments."""

    def report(arguments: argparse.Namespace) -> int:
        problem = f"requires the extra `{extra}`; {install_hint(extra)}"
        raise SettingsError(where=f"memorist {name}", problem=problem)

    # No argument starts with a null byte, so all of them are positional.
    command = commands.add_parser(name, prefix_chars="\0", add_help=False)
    command.add_argument("arguments", nargs="*")
    command.set_defaults(run=report, scope_options=SCOPE)


def _check_scope_options(arguments: argparse.Namespace) -> None:
    """Reject a scope option that the command does not use."""
    for name in SCOPE:
        if getattr(arguments, name) is not None and name not in arguments.scope_options:
            raise Invalid(field=f"--{name}", problem="is not an option of this command")


def _print_error(error: MemoristError, arguments: argparse.Namespace) -> None:
    if getattr(arguments, "json", False):
        details = {name: str(value) for name, value in error.details.items()}
        body = {"error": type(error).__name__, "message": str(error), "details": details}
        print(json.dumps(body, ensure_ascii=False), file=sys.stderr)
    else:
        from memorist.cli.output import plain  # only for errors

        print(f"memorist: {plain(str(error))}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
