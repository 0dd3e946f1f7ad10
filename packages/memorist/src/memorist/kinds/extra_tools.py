"""Extra tools, besides the memory tools, that agents can use: Python functions and MCP servers.

An agent names them in its `tools`. Functions come from `Memory.open(tools=…)` and from installed
packages, through the entry point group `memorist.tools`. MCP servers come only from the settings:
permission to edit an agent must not allow running commands on the server.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from memorist.base import limits
from memorist.base.deadline import run_in_thread
from memorist.base.error_text import error_text
from memorist.base.errors import Invalid, SettingsError, StorageError, install_hint
from memorist.base.settings import Settings
from memorist.kinds.tool import Tool, ToolOutput

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "memorist.tools"
MAX_NAME_CHARACTERS = 64
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_SERVER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,29}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MAX_ERROR_CHARACTERS = 1000


class ToolFailure(Exception):
    """Raised by an extra tool; the model reads the text."""


@dataclass(frozen=True)
class ExtraTool(Tool):
    """An extra tool. `run` gets the arguments as a mapping; the output has a `result`."""

    def attempt(self, arguments: Mapping[str, Any] | str | None = None) -> ToolOutput:
        """Run the tool with a model's arguments; a failure is an output with `error`."""
        if not isinstance(arguments, Mapping | None):
            return {"error": f"The arguments of {self.name} must be a JSON object."}
        try:
            return {"result": self.run(arguments or {})}
        except ToolFailure as failure:
            return {"error": str(failure)[:_MAX_ERROR_CHARACTERS]}
        except StorageError as error:
            return {"error": f"{self.name} failed: {error_text(error)}"}
        except (Exception, SystemExit) as error:  # a tool may raise anything; the turn continues
            problem = f"{type(error).__name__}: {error}"[:_MAX_ERROR_CHARACTERS]
            return {"error": f"{self.name} failed: {problem}"}


@dataclass(frozen=True, eq=False)
class McpServer:
    """An MCP server in the settings: a command to start, or an address."""

    name: str
    command: str = ""
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class ExtraTools:
    """The functions and MCP servers that agents can name."""

    def __init__(self, functions: Sequence[Callable[..., Any]], settings: Settings) -> None:
        self._tools = function_tools(functions)
        self.servers = parse_servers(settings.mcp_servers)
        for name in self.servers:
            if name in self._tools:
                raise Invalid(field="tools", problem=f"{name!r} is also the name of an MCP server")

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        """The tools of installed packages. They are imported when an agent uses them."""
        from importlib.metadata import entry_points  # slow to import

        return {point.name: point for point in entry_points(group=ENTRY_POINTS)}

    def reject_names(self, names: Collection[str]) -> None:
        """Raise Invalid if a tool has one of these names, which memorist uses itself."""
        for name in (*self._tools, *self.servers):
            if name in names:
                raise Invalid(
                    field="tools", problem=f"{name!r} is a name that memorist uses itself"
                )

    def names(self) -> list[str]:
        """Return all names that an agent can use."""
        return list(dict.fromkeys([*self._tools, *self.servers, *self._entry_points]))

    def descriptions(self) -> dict[str, str]:
        """Return a description of each tool for people, by name."""
        described = {name: tool.description for name, tool in self._tools.items()}
        for name in self.servers:
            described[name] = "The tools of an MCP server."
        for name, point in self._entry_points.items():
            described.setdefault(name, f"A tool of {point.value.partition(':')[0]}.")
        return described

    def function(self, name: str) -> ExtraTool:
        """Return the tool of a function. Raise ToolFailure if no function has this name."""
        if name in self._tools:
            return self._tools[name]
        if name not in self._entry_points:
            raise ToolFailure("the tool no longer exists")
        try:
            self._tools[name] = function_tool(self._entry_points[name].load(), name)
        except Exception as error:  # importing a package may raise anything
            raise ToolFailure(f"{type(error).__name__}: {error}") from error
        return self._tools[name]


def function_tools(functions: Sequence[Callable[..., Any]]) -> dict[str, ExtraTool]:
    """Return the tools of Python functions, by name."""
    tools: dict[str, ExtraTool] = {}
    for function in functions:
        tool = function_tool(function)
        if tool.name in tools:
            raise Invalid(field="tools", problem=f"has two functions named {tool.name!r}")
        tools[tool.name] = tool
    return tools


def function_tool(function: Callable[..., Any], name: str = "") -> ExtraTool:
    """Return a tool from a function: its name, docstring and annotated parameters.

    The function may be asynchronous. Each call runs in a separate thread. After `TOOL_SECONDS`
    the model gets an error; the thread cannot be stopped and ends when the function returns.
    """
    name = name or getattr(function, "__name__", "")
    if not callable(function) or not _NAME.fullmatch(name):
        problem = f"must be functions with a name of letters, digits and _, not {function!r}"
        raise Invalid(field="tools", problem=problem[:200])
    try:
        from pydantic import TypeAdapter, ValidationError
        from pydantic_core import ArgsKwargs
    except ImportError as error:
        problem = f"need the extra `models` ({error.name} is missing); {install_hint('models')}"
        raise Invalid(field="tools", problem=problem) from error
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(function)  # type: ignore[arg-type]
        schema = adapter.json_schema()
    except Exception as error:  # Pydantic raises several types
        problem = f"{name}: a parameter has no JSON schema ({str(error).splitlines()[0][:200]})"
        raise Invalid(field="tools", problem=problem) from error
    if schema.get("type") != "object":
        problem = f"{name}: parameters must have names that a caller can use"
        raise Invalid(field="tools", problem=problem)

    async def call(arguments: Mapping[str, Any]) -> Any:
        try:
            result = adapter.validate_python(ArgsKwargs((), dict(arguments)))
            return await result if inspect.isawaitable(result) else result
        except ValidationError as error:
            if error.title != f"call[{getattr(function, '__name__', '')}]":
                raise  # raised inside the function
            raise ToolFailure(_explain(name, error.errors())) from None
        except TimeoutError as error:  # raised by the function itself
            raise ToolFailure(f"{name} failed: TimeoutError: {error}") from error

    def run(arguments: Mapping[str, Any]) -> Any:
        from asyncio import CancelledError  # slow to import

        seconds = limits.TOOL_SECONDS
        try:
            return run_in_thread(call(arguments), seconds, "memorist-tool")
        except TimeoutError:
            raise ToolFailure(f"{name} did not finish within {seconds:g} s.") from None
        except CancelledError as error:  # not an Exception: it would end the turn
            raise ToolFailure(f"{name} failed: it was cancelled.") from error

    return ExtraTool(name, inspect.getdoc(function) or name, schema, run)


def _explain(name: str, errors: Sequence[Mapping[str, Any]]) -> str:
    problems = [f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in errors]
    return f"The arguments of {name} are not valid: {'; '.join(problems)}."


def parse_servers(section: Any) -> dict[str, McpServer]:
    """Return the MCP servers of the settings, by name. Raise SettingsError if one is not valid."""
    if not isinstance(section, Mapping):
        problem = "must be a section with a name for each server"
        raise SettingsError(where="mcp_servers", problem=problem)
    return {str(name): _parse_server(str(name), value) for name, value in section.items()}


def _parse_server(name: str, value: Any) -> McpServer:
    where = f"mcp_servers.{name[:50]}"
    if not _SERVER_NAME.fullmatch(name):
        problem = "a name has up to 30 letters, digits and hyphens and begins with a letter"
        raise SettingsError(where=where, problem=problem)
    if not isinstance(value, Mapping) or bool(value.get("command")) == bool(value.get("url")):
        raise SettingsError(where=where, problem="must have a `command` or a `url`")
    allowed = ("url", "headers") if value.get("url") else ("command", "args", "env", "cwd")
    unknown = [key for key in value if key not in (*allowed, "type")]
    if unknown:
        problem = f"has an unknown field {unknown[0]!r}; it may have {', '.join(allowed)}"
        raise SettingsError(where=where, problem=problem)
    fields: dict[str, Any] = {
        key: _expand(value[key], f"{where}.{key}") for key in allowed if value.get(key)
    }
    for key, expected in (("args", list), ("env", Mapping), ("headers", Mapping)):
        if key in fields and not isinstance(fields[key], expected):
            shape = "a list" if expected is list else "a section with names and values"
            raise SettingsError(where=f"{where}.{key}", problem=f"must be {shape}")
    if "url" in fields and not str(fields["url"]).startswith(("http://", "https://")):
        raise SettingsError(where=f"{where}.url", problem="must begin with http:// or https://")
    return McpServer(name, **fields)


def _expand(value: Any, where: str) -> Any:
    """Replace `${NAME}` by the environment variable, so that keys need not be in a file."""
    if isinstance(value, Mapping):
        return {str(key): _expand(item, where) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, where) for item in value]

    def variable(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            problem = f"the environment has no variable {match[1]}"
            raise SettingsError(where=where, problem=problem)
        return os.environ[match[1]]

    return _VARIABLE.sub(variable, str(value))
