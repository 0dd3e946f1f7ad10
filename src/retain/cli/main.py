"""The command line: every verb of every kind, built from the table of ways and the verbs' own signatures.

Built on argparse, because the library that was tried took longer to import than all else that `retain --help` does.
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
from retain.api.rendering import plain, show, show_itself
from retain.base import canonical
from retain.base.canonical import JsonText
from retain.base.clock import parse_time
from retain.base.errors import Invalid, RetainError
from retain.base.version import version
from retain.cli import operations
from retain.cli.command import Command, open_memory, scope_of
from retain.kinds import KINDS
from retain.kinds.refs.reference import Output
from retain.memory import Scope
from retain.messages.content import Content
from retain.messages.message import NewMessage

EXIT_CODES = """exit status: 0 done · 1 a check found something, or an unexpected error · 2 bad input · 3 not found ·
4 conflict · 5 the database · 6 the settings · 7 a model ·
8 not allowed: no key, a wrong one, or too many requests · 130 stopped"""
SCOPE = {
    "tenant": "the tenant (default: the setting)",
    "user": "the user; without one, every user of the tenant",
    "agent": "the agent; without one, every agent",
}
_KINDS = {kind.name: kind for kind in KINDS}
_MAKES = (
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
_FROM_STDIN = ("content", "text")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    _have_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a terminal that cannot show a letter is no reason to fail
    arguments = parser().parse_args(argv)
    try:
        _refuse_what_is_not_heeded(arguments)
        status = int(arguments.run(arguments) or 0)
        sys.stdout.flush()
        return status
    except RetainError as error:
        _complain(error, arguments)
        return error.exit_code
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # or Python complains once more at its end
        return 0
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"retain: cannot go on: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130


def _have_streams() -> None:
    """In place of a closed standard stream put nothing, or the next file that is opened would be taken for it."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_RDWR), number)
                setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="retain",
        description="Memory for AI agents that never loses a write, and the context that their models are given.",
        epilog=f"Start with:\n  retain sessions resume --user ada --agent scout\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common(tuple(SCOPE), top=True)],
    )
    top.add_argument("--version", action="version", version=version())
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    by_hand = {command.name for command in operations.COMMANDS}
    groups = {}
    for kind in _KINDS.values():
        groups[kind.name] = _add_group(
            commands, kind.name, (inspect.getdoc(kind) or "").split("\n")[0]
        )
        for endpoint in ENDPOINTS:
            if endpoint.kind == kind.name and endpoint.command not in by_hand:
                _add_verb(groups[kind.name], endpoint)
    groups |= {name: _add_group(commands, name, about) for name, about in operations.GROUPS.items()}
    for command in operations.COMMANDS:
        group, _, verb = command.name.rpartition(" ")
        _add_operation(groups[group] if group else commands, verb, command)
    return top


def common(scope: Sequence[str], *, top: bool = False) -> argparse.ArgumentParser:
    """The options that commands share; they may stand before the command too, and what stands after it wins."""
    options = argparse.ArgumentParser(
        add_help=False, argument_default=None if top else argparse.SUPPRESS
    )
    group = options.add_argument_group("whose memory, and where" if scope else "which database")
    group.add_argument(
        "--database", metavar="URL", help="sqlite:///FILE, postgresql://…, or memory:"
    )
    group.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="the settings file (default: retain.yaml, if there)",
    )
    for name in scope:
        group.add_argument(f"--{name}", help=SCOPE[name])
    no = False if top else argparse.SUPPRESS
    group.add_argument("--json", action="store_true", default=no, help="print JSON")
    return options


def _add_group(commands: Any, name: str, about: str) -> Any:
    group = commands.add_parser(name, help=about, description=about)
    return group.add_subparsers(title="commands", metavar="VERB", required=True)


def _add_operation(commands: Any, name: str, command: Command) -> None:
    added = commands.add_parser(
        name,
        help=command.about,
        description=command.about,
        parents=[common(command.heeds)],
        epilog=f"example:\n  {command.example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for argument, options in command.arguments.items():
        added.add_argument(argument, **options)
    added.set_defaults(run=command.run, heeds=command.heeds)


def _refuse_what_is_not_heeded(arguments: argparse.Namespace) -> None:
    """A scope given before a command that does not look at it would be a scope ignored."""
    for name in SCOPE:
        if getattr(arguments, name) is not None and name not in arguments.heeds:
            raise Invalid(field=f"--{name}", problem="means nothing to this command")


def _add_verb(verbs: Any, endpoint: Endpoint) -> None:
    method = getattr(_KINDS[endpoint.kind], endpoint.verb)
    about = inspect.getdoc(method) or ""
    command = verbs.add_parser(
        endpoint.word,
        help=about.split("\n")[0],
        description=about,
        epilog=f"example:\n  {endpoint.example}",
        parents=[common(tuple(SCOPE))],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    hints = get_type_hints(method)
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        _add_parameter(command, endpoint.kind, parameter, hints[parameter.name])
    if endpoint.command == "refs get":
        command.add_argument(
            "--raw", action="store_true", help="The whole content as it is, however large."
        )
    command.set_defaults(run=_call, endpoint=endpoint, heeds=tuple(SCOPE))


def _add_parameter(
    command: argparse.ArgumentParser, kind: str, parameter: inspect.Parameter, hint: Any
) -> None:
    """One parameter of a verb as an argument or an option."""
    hint = _without_none(hint)
    options: dict[str, Any] = {"help": parameter_help(kind, parameter.name).replace("%", "%%")}
    if get_origin(hint) is Literal:
        options["choices"] = get_args(hint)
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
        flag = "--" + parameter.name.replace("_", "-")
        if hint is bool:
            either = parameter.default is None  # --expired, --no-expired, or no matter
            command.add_argument(
                flag, action=argparse.BooleanOptionalAction if either else "store_true", **options
            )
            return
        if parameter.default is inspect.Parameter.empty:
            options["required"] = True
        command.add_argument(flag, metavar=_meta(hint), **options)
        return
    if parameter.default is not inspect.Parameter.empty:
        options["nargs"] = "?"
    command.add_argument(parameter.name, metavar=parameter.name.upper(), **options)
    if hint == Content:
        command.add_argument(
            "--as-json", action="store_true", help="the content is a JSON object, kept as it is"
        )


def _call(arguments: argparse.Namespace) -> int:
    """Call the verb that was asked for, and show what it returns."""
    endpoint: Endpoint = arguments.endpoint
    method = getattr(_KINDS[endpoint.kind], endpoint.verb)
    hints = get_type_hints(method)
    positional, named = [], {}
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        given = getattr(arguments, parameter.name)
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            if given is not None:
                named[parameter.name] = _convert(
                    given, _without_none(hints[parameter.name]), parameter.name, arguments
                )
        elif given is not None:
            positional.append(
                _convert(given, _without_none(hints[parameter.name]), parameter.name, arguments)
            )
    with open_memory(arguments, create=endpoint.verb in _MAKES) as memory:
        scope = scope_of(arguments, memory)
        if getattr(arguments, "raw", False):
            return _copy(scope, *positional, **named)
        found = getattr(getattr(scope, endpoint.kind), endpoint.verb)(*positional, **named)
    if endpoint.raw_output and not arguments.json:
        show_itself(found)
    else:
        show(found, json_wanted=arguments.json)
    return 0


def _copy(scope: Scope, key: str, **part: Any) -> int:
    """A whole content to standard output, piece by piece."""
    if part:
        raise Invalid(
            field="--raw", problem=f"is the whole content, and cannot go with --{next(iter(part))}"
        )
    with scope.refs.opening(key) as content:
        shutil.copyfileobj(content, sys.stdout.buffer)
    return 0


def _convert(given: Any, hint: Any, name: str, arguments: argparse.Namespace) -> Any:
    """A word of the command line in the type that the verb wants."""
    if hint is str and name in _FROM_STDIN and given == "-":
        return _stdin()
    if hint in (bool, str) or get_origin(hint) is Literal:
        return given
    for wanted, convert in _CONVERTERS:
        if hint == wanted:
            return convert(given, name, arguments)
    raise TypeError(f"the command line cannot give a {hint} as {name}")


def _number(kind: type) -> Callable[[str, str, argparse.Namespace], Any]:
    def convert(given: str, name: str, arguments: argparse.Namespace) -> Any:
        try:
            return kind(given)
        except ValueError:
            wanted = "a whole number" if kind is int else "a number"
            raise Invalid(field=name, problem=f"must be {wanted}, not {given!r}") from None

    return convert


def _stdin() -> str:
    """What is on standard input, without the line ending that a shell puts behind it."""
    return sys.stdin.buffer.read().decode("utf-8", "replace").removesuffix("\n")


def _content(given: str, name: str, arguments: argparse.Namespace) -> Content:
    text = _stdin() if given == "-" else given
    return JsonText(text) if arguments.as_json else text


def _messages(given: str, name: str, arguments: argparse.Namespace) -> list[Mapping[str, Any]]:
    """Messages out of a file: JSON Lines, or one JSON list."""
    try:
        data = sys.stdin.buffer.read() if given == "-" else Path(given).read_bytes()
        text = data.decode()
    except OSError as error:
        raise Invalid(
            field=name, problem=f"cannot be read from {given}: {error.strerror}"
        ) from None
    except UnicodeDecodeError:
        raise Invalid(field=name, problem=f"in {given} are not UTF-8 text") from None
    if text.lstrip().startswith("["):
        found = canonical.parse(text, name)
    else:
        lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
        found = [canonical.parse(line, f"{given}, line {n}") for n, line in lines]
    return [_message(message, name) for message in found]


def _message(message: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(message, dict):
        raise Invalid(field=name, problem=f"must be JSON objects, not {json.dumps(message)[:50]}")
    if isinstance(message.get("created_at"), str):
        message["created_at"] = parse_time(message["created_at"], "created_at")
    return message


def _output(given: str, name: str, arguments: argparse.Namespace) -> Output:
    return sys.stdin.buffer.read() if given == "-" else given


def _range(given: str, name: str, arguments: argparse.Namespace) -> tuple[int, int]:
    first, _, last = given.partition("-")
    if not (first.isdecimal() and last.isdecimal()):
        raise Invalid(
            field=name, problem=f"must be the first and the last line, such as 1-40, not {given!r}"
        )
    return int(first), int(last)


_CONVERTERS: tuple[tuple[Any, Callable[[str, str, argparse.Namespace], Any]], ...] = (
    (int, _number(int)),
    (float, _number(float)),
    (datetime, lambda given, name, arguments: parse_time(given, name)),
    (Content, _content),
    (Output, _output),
    (tuple[int, int], _range),
    (Any, lambda given, name, arguments: JsonText(given)),
    (Mapping[str, Any], lambda given, name, arguments: JsonText(given)),
    (Sequence[str], lambda given, name, arguments: canonical.listed(given)),
    (Sequence[NewMessage | Mapping[str, Any]], _messages),
    (Sequence[Mapping[str, Any]], _messages),
)


def _without_none(hint: Any) -> Any:
    """The type of an optional parameter when it is given."""
    if get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint):
        kept = [part for part in get_args(hint) if part is not NoneType]
        return kept[0] if len(kept) == 1 else Content
    return hint


def _meta(hint: Any) -> str | None:
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


def _complain(error: RetainError, arguments: argparse.Namespace) -> None:
    if getattr(arguments, "json", False):
        details = {name: str(value) for name, value in error.details.items()}
        body = {"error": type(error).__name__, "message": str(error), "details": details}
        print(json.dumps(body, ensure_ascii=False), file=sys.stderr)
    else:
        print(f"retain: {plain(str(error))}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
