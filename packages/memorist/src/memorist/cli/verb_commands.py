"""Commands for the verbs of all kinds, from their declarations and signatures."""

from __future__ import annotations

import argparse
import inspect
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from memorist.api.parameter_help import parameter_help
from memorist.base import canonical
from memorist.base.canonical import JsonText
from memorist.base.clock import parse_time
from memorist.base.errors import Invalid
from memorist.base.verbs import Endpoint
from memorist.chat.caller import Caller
from memorist.cli.command import open_memory, operator, scope_of
from memorist.cli.options import SCOPE, common_options
from memorist.cli.output import show, show_raw, show_warning
from memorist.content.message import NewMessage
from memorist.content.message_content import Content
from memorist.kinds import KINDS
from memorist.kinds.kind import Kind
from memorist.kinds.refs.reference import Output
from memorist.memory import ADMIN_KINDS, Memory, Scope

_KINDS: dict[str, type[Kind]] = {kind.name: kind for kind in (*KINDS, *ADMIN_KINDS)}
_STDIN_PARAMETERS = ("content", "text")


def add_verb(verbs: Any, kind: str, word: str) -> None:
    """Add the command of a verb of a kind."""
    endpoint = _KINDS[kind].verbs[word.replace("-", "_")]
    method = getattr(_KINDS[kind], endpoint.verb)
    parameters = list(inspect.signature(method).parameters.values())[1:]
    scope: tuple[str, ...] = ("tenant",) if endpoint.is_admin else SCOPE
    about = inspect.getdoc(method) or ""
    command = verbs.add_parser(
        endpoint.command.rpartition(" ")[2],
        help=about.split("\n")[0],
        description=about,
        epilog=f"example:\n  {endpoint.example}",
        parents=[common_options(scope)],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    hints = get_type_hints(method)
    for parameter in parameters:
        _add_parameter(command, endpoint.kind, parameter, hints[parameter.name])
    if endpoint.command == "refs get":
        command.add_argument(
            "--raw", action="store_true", help="write the whole content, unchanged"
        )
    scope += tuple(parameter.name for parameter in parameters)
    command.set_defaults(run=_call, endpoint=endpoint, scope_options=scope)


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
            # A boolean that is not False by default has three states: --active, --no-active, none.
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
    values = values_of(arguments)
    with open_memory(arguments, create=endpoint.creates or endpoint.upserts) as memory:
        scope = _scope(arguments, memory, endpoint)
        if getattr(arguments, "raw", False):
            return _copy_content(scope, **values)
        if endpoint.effect != "read":
            caller = Caller(operator(scope.owner.tenant))
            scope = caller.acting(scope, endpoint.name)
        kinds = scope.admin if endpoint.is_admin else scope
        result = getattr(getattr(kinds, endpoint.kind), endpoint.verb)(**values)
    if endpoint.raw_output and not arguments.json:
        show_raw(result)
    else:
        show(result, json_wanted=arguments.json)
    show_warning(result)
    return 1 if getattr(result, "is_failure", False) else 0


def _scope(arguments: argparse.Namespace, memory: Memory, endpoint: Endpoint) -> Scope:
    """Return the scope of a verb: of administration a whole tenant, whatever user is set."""
    if endpoint.is_admin:
        return memory.scope(tenant=arguments.tenant)
    return scope_of(arguments, memory)


def values_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of a verb from those of its command."""
    endpoint: Endpoint = arguments.endpoint
    hints = get_type_hints(getattr(_KINDS[endpoint.kind], endpoint.verb))
    hints.pop("return", None)
    given = {name: getattr(arguments, name) for name in hints}
    return {
        name: _convert(value, _without_none(hints[name]), name, arguments)
        for name, value in given.items()
        if value is not None
    }


def _copy_content(scope: Scope, key: str, **part: Any) -> int:
    """Copy the whole content of a reference to standard output."""
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
        message["created_at"] = parse_time(message["created_at"], "created_at", days=True)
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
    (datetime, lambda value, name, arguments: parse_time(value, name, days=True)),
    (Content, _content),
    (Output, _output),
    (tuple[int, int], _range),
    (Any, lambda value, name, arguments: JsonText(value)),
    (Mapping[str, Any], lambda value, name, arguments: JsonText(value)),
    (Sequence[str], lambda value, name, arguments: canonical.split_list(value)),
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
