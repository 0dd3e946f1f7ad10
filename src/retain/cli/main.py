"""The command line: all verbs of all kinds, built from the endpoint table and the signatures.

argparse is used because other libraries take longer to import than the rest of `retain --help`.
"""

from __future__ import annotations

import argparse
import inspect
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from retain.api.endpoints import ENDPOINTS, Endpoint, parameter_help
from retain.base import canonical
from retain.base.canonical import JsonText
from retain.base.clock import parse_time
from retain.base.errors import Invalid, RetainError
from retain.base.version import version
from retain.cli import (
    audit_command,
    chat_command,
    context_command,
    doctor,
    import_command,
    jobs_command,
    keys_command,
    knowledge_command,
    mcp_command,
    operator_commands,
    run_command,
    search_command,
    serve_command,
)
from retain.cli.command import SCOPE, Command, open_memory, scope_of
from retain.cli.output import plain, show, show_raw
from retain.kinds import KINDS
from retain.kinds.refs.reference import Output
from retain.memory import Scope
from retain.messages.content import Content
from retain.messages.message import NewMessage

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
_SCOPE_HELP = {
    "tenant": "the tenant (default: the setting)",
    "user": "the user (default: all users of the tenant)",
    "agent": "the agent (default: all agents)",
}
_MODULES = (
    operator_commands,
    doctor,
    import_command,
    jobs_command,
    context_command,
    search_command,
    knowledge_command,
    chat_command,
    mcp_command,
    run_command,
    serve_command,
    keys_command,
    audit_command,
)
COMMANDS: tuple[Command, ...] = tuple(command for module in _MODULES for command in module.COMMANDS)
_GROUPS = {**operator_commands.GROUPS, **keys_command.GROUPS}
_KINDS = {kind.name: kind for kind in KINDS}
_CREATING_VERBS = (
    "add",
    "add_many",
    "append",
    "capture",
    "extend",
    "overwrite",
    "prepend",
    "resume",
    "set",
    "share",
)
_STDIN_PARAMETERS = ("content", "text")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # never fail on an odd character
    words = sys.argv[1:] if argv is None else list(argv)
    arguments = parser(words).parse_args(words)
    try:
        _check_scope_options(arguments)
        status = int(arguments.run(arguments) or 0)
        sys.stdout.flush()
        return status
    except RetainError as error:
        _print_error(error, arguments)
        return error.exit_code
    except BrokenPipeError:
        # Python would report the closed pipe once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"retain: {plain(_file_problem(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130


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

    Every command is listed, but only those that the words name get their arguments: adding those
    of all commands takes as long as a short command itself.
    """
    top = argparse.ArgumentParser(
        prog="retain",
        description="Memory for AI agents.",
        epilog=f"Start with:\n  retain sessions resume --user ada --agent scout\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common(SCOPE, top=True)],
    )
    top.add_argument("--version", action="version", version=version())
    commands = top.add_subparsers(title="commands", metavar="COMMAND")
    _show_help_alone(top)
    special = {command.name for command in COMMANDS}
    groups = {}
    for kind in _KINDS.values():
        groups[kind.name] = _add_group(
            commands, kind.name, (inspect.getdoc(kind) or "").split("\n")[0]
        )
        for endpoint in ENDPOINTS if kind.name in words else ():
            if endpoint.kind == kind.name and endpoint.command not in special:
                _add_verb(groups[kind.name], endpoint)
    groups |= {name: _add_group(commands, name, about) for name, about in _GROUPS.items()}
    for command in COMMANDS:
        group, _, verb = command.name.rpartition(" ")
        if not group:
            _add_command(commands, verb, command, with_arguments=verb in words)
        elif group in words:
            _add_command(groups[group], verb, command)
    return top


def common(scope: Sequence[str], *, top: bool = False) -> argparse.ArgumentParser:
    """Return the options that commands share; given twice, the one after the command wins."""
    options = argparse.ArgumentParser(
        add_help=False, argument_default=None if top else argparse.SUPPRESS
    )
    group = options.add_argument_group("scope and database" if scope else "database")
    group.add_argument(
        "--database", metavar="URL", help="sqlite:///FILE, postgresql://…, or memory:"
    )
    group.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="the settings file (default: retain.yaml, if it exists)",
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


def _add_group(commands: Any, name: str, about: str) -> Any:
    group = commands.add_parser(name, help=about, description=about)
    _show_help_alone(group)
    return group.add_subparsers(title="commands", metavar="VERB")


def _show_help_alone(command: argparse.ArgumentParser) -> None:
    """Show the help of a command that was given without one of its own commands."""

    def show_help(arguments: argparse.Namespace) -> int:
        command.print_help()
        return 0

    command.set_defaults(run=show_help, scope_options=SCOPE)


def _add_command(
    commands: Any, name: str, command: Command, *, with_arguments: bool = True
) -> None:
    if not with_arguments:
        commands.add_parser(name, help=command.about, add_help=False)
        return
    added = commands.add_parser(
        name,
        help=command.about,
        description=f"{command.about}\n\n{command.details}".rstrip(),
        parents=[common(command.scope)],
        epilog=f"example:\n  {command.example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for argument, options in command.arguments.items():
        added.add_argument(argument, **options)
    added.set_defaults(run=command.run, scope_options=command.scope)


def _check_scope_options(arguments: argparse.Namespace) -> None:
    """Refuse a scope option that the command does not use."""
    for name in SCOPE:
        if getattr(arguments, name) is not None and name not in arguments.scope_options:
            raise Invalid(field=f"--{name}", problem="is not an option of this command")


def _add_verb(verbs: Any, endpoint: Endpoint) -> None:
    method = getattr(_KINDS[endpoint.kind], endpoint.verb)
    about = inspect.getdoc(method) or ""
    command = verbs.add_parser(
        endpoint.word,
        help=about.split("\n")[0],
        description=about,
        epilog=f"example:\n  {endpoint.example}",
        parents=[common(SCOPE)],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    hints = get_type_hints(method)
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        _add_parameter(command, endpoint.kind, parameter, hints[parameter.name])
    if endpoint.command == "refs get":
        command.add_argument(
            "--raw", action="store_true", help="write the whole content, unchanged"
        )
    command.set_defaults(run=_call, endpoint=endpoint, scope_options=SCOPE)


def _add_parameter(
    command: argparse.ArgumentParser, kind: str, parameter: inspect.Parameter, hint: Any
) -> None:
    """Add a parameter of a verb as an argument or an option."""
    hint = _without_none(hint)
    options: dict[str, Any] = {"help": parameter_help(kind, parameter.name).replace("%", "%%")}
    if get_origin(hint) is Literal:
        options["choices"] = get_args(hint)
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
        flag = "--" + parameter.name.replace("_", "-")
        if hint is bool:
            # A boolean that is not off by default has three states: --active, --no-active, none.
            is_optional = parameter.default is not False
            action = argparse.BooleanOptionalAction if is_optional else "store_true"
            command.add_argument(flag, action=action, **options)
            return
        if parameter.default is inspect.Parameter.empty:
            options["required"] = True
        command.add_argument(flag, metavar=_metavar(hint), **options)
        return
    if parameter.default is not inspect.Parameter.empty:
        options["nargs"] = "?"
    command.add_argument(parameter.name, metavar=parameter.name.upper(), **options)
    if hint == Content:
        command.add_argument("--as-json", action="store_true", help="the content is a JSON object")


def _call(arguments: argparse.Namespace) -> int:
    """Call a verb and show its result."""
    endpoint: Endpoint = arguments.endpoint
    method = getattr(_KINDS[endpoint.kind], endpoint.verb)
    hints = get_type_hints(method)
    positional = []
    keywords = {}
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        value = getattr(arguments, parameter.name)
        if value is None:
            continue
        hint = _without_none(hints[parameter.name])
        converted = _convert(value, hint, parameter.name, arguments)
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            keywords[parameter.name] = converted
        else:
            positional.append(converted)
    with open_memory(arguments, create=endpoint.verb in _CREATING_VERBS) as memory:
        scope = scope_of(arguments, memory)
        if getattr(arguments, "raw", False):
            return _copy_content(scope, *positional, **keywords)
        result = getattr(getattr(scope, endpoint.kind), endpoint.verb)(*positional, **keywords)
    if endpoint.raw_output and not arguments.json:
        show_raw(result)
    else:
        show(result, json_wanted=arguments.json)
    return 0


def _copy_content(scope: Scope, key: str, **part: Any) -> int:
    """Copy a whole content to standard output."""
    if part:
        raise Invalid(field="--raw", problem=f"cannot be combined with --{next(iter(part))}")
    with scope.refs.opening(key) as content:
        shutil.copyfileobj(content, sys.stdout.buffer)
    return 0


def _convert(value: Any, hint: Any, name: str, arguments: argparse.Namespace) -> Any:
    """Convert a command-line value to the type of a parameter."""
    if hint is str and name in _STDIN_PARAMETERS and value == "-":
        return _read_stdin()
    if hint in (bool, str) or get_origin(hint) is Literal:
        return value
    for type_, convert in _CONVERTERS:
        if hint == type_:
            return convert(value, name, arguments)
    raise TypeError(f"no conversion to {hint} for the parameter {name}")


def _number(kind: type) -> Callable[[str, str, argparse.Namespace], Any]:
    def convert(value: str, name: str, arguments: argparse.Namespace) -> Any:
        try:
            return kind(value)
        except ValueError:
            expected = "a whole number" if kind is int else "a number"
            raise Invalid(field=name, problem=f"must be {expected}, not {value!r}") from None

    return convert


def _read_stdin() -> str:
    """Return the text on standard input, without its last line ending."""
    return sys.stdin.buffer.read().decode("utf-8", "replace").removesuffix("\n")


def _content(value: str, name: str, arguments: argparse.Namespace) -> Content:
    text = _read_stdin() if value == "-" else value
    return JsonText(text) if arguments.as_json else text


def _messages(value: str, name: str, arguments: argparse.Namespace) -> list[Mapping[str, Any]]:
    """Read messages from a file of JSON Lines or one JSON array."""
    try:
        data = sys.stdin.buffer.read() if value == "-" else Path(value).read_bytes()
        text = data.decode()
    except OSError as error:
        raise Invalid(
            field=name, problem=f"cannot be read from {value}: {error.strerror}"
        ) from None
    except UnicodeDecodeError:
        raise Invalid(field=name, problem=f"in {value} are not UTF-8 text") from None
    if text.lstrip().startswith("["):
        messages = canonical.parse(text, name)
    else:
        messages = [
            canonical.parse(line, f"{value}, line {number}")
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip()
        ]
    return [_message(message, name) for message in messages]


def _message(message: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(message, dict):
        raise Invalid(field=name, problem=f"must be JSON objects, not {json.dumps(message)[:50]}")
    if isinstance(message.get("created_at"), str):
        message["created_at"] = parse_time(message["created_at"], "created_at")
    return message


def _output(value: str, name: str, arguments: argparse.Namespace) -> Output:
    return sys.stdin.buffer.read() if value == "-" else value


def _range(value: str, name: str, arguments: argparse.Namespace) -> tuple[int, int]:
    first, _, last = value.partition("-")
    if not (first.isdecimal() and last.isdecimal()):
        raise Invalid(
            field=name, problem=f"must be a first and a last line, such as 1-40, not {value!r}"
        )
    return int(first), int(last)


_CONVERTERS: tuple[tuple[Any, Callable[[str, str, argparse.Namespace], Any]], ...] = (
    (int, _number(int)),
    (float, _number(float)),
    (datetime, lambda value, name, arguments: parse_time(value, name)),
    (Content, _content),
    (Output, _output),
    (tuple[int, int], _range),
    (Any, lambda value, name, arguments: JsonText(value)),
    (Mapping[str, Any], lambda value, name, arguments: JsonText(value)),
    (Sequence[str], lambda value, name, arguments: canonical.listed(value)),
    (Sequence[NewMessage | Mapping[str, Any]], _messages),
    (Sequence[Mapping[str, Any]], _messages),
)


def _without_none(hint: Any) -> Any:
    """Return the type of an optional parameter without None."""
    if get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint):
        parts = [part for part in get_args(hint) if part is not NoneType]
        return parts[0] if len(parts) == 1 else Content
    return hint


def _metavar(hint: Any) -> str | None:
    if get_origin(hint) is Literal:
        return None
    names = {
        int: "N",
        float: "N",
        str: "TEXT",
        datetime: "WHEN",
        Mapping[str, Any]: "JSON",
        Sequence[str]: "A,B",
    }
    return names.get(hint, "VALUE")


def _print_error(error: RetainError, arguments: argparse.Namespace) -> None:
    if getattr(arguments, "json", False):
        details = {name: str(value) for name, value in error.details.items()}
        body = {"error": type(error).__name__, "message": str(error), "details": details}
        print(json.dumps(body, ensure_ascii=False), file=sys.stderr)
    else:
        print(f"retain: {plain(str(error))}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
