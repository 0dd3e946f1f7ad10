"""Tools for models: a name, a description, a JSON schema, and the function behind it.

Every interface and every framework uses the same list, so that a tool is the same everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, cast

from memorist.base.error_text import error_text
from memorist.base.errors import MemoristError, StorageError
from memorist.base.masking import Policy, mask_personal_json
from memorist.base.verbs import declared_verb

ToolOutput = dict[str, Any]
Effect = Literal["read", "write", "delete"]
"""The effect of a call on memory: read it, add to or change it, or delete from it."""


class Operation(NamedTuple):
    """The effect and the audit action of one value of the argument `operation`."""

    effect: Effect
    action: str

    @classmethod
    def of(cls, verb: Callable[..., Any]) -> Operation:
        """Return the operation that calls a verb of a kind."""
        declared = declared_verb(verb)
        return cls(cast(Effect, declared.needs), declared.name)


_PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


@dataclass(frozen=True)
class Tool:
    """A function for a model. `call` returns a JSON object, `{"error": …}` if it fails."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[..., ToolOutput]
    title: str = ""
    """The name for people."""
    output_schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    """The JSON schema of a successful output."""
    effect: Effect = "write"
    action: str = ""
    """The action in the audit log, such as `state_set`; the tool's name if empty."""
    operations: Mapping[str, Operation] = field(default_factory=dict)
    """The values of the argument `operation`, if any; the first is the default."""
    repeatable: bool = False
    """True if repeating a call changes nothing more."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of arguments that a call may use; they are not in the schema."""

    def effect_of(self, arguments: Mapping[str, Any] | None) -> Effect:
        """Return the effect of a call with these arguments."""
        return self._operation(arguments).effect

    def action_of(self, arguments: Mapping[str, Any] | None) -> str:
        """Return the name of a call in the audit log: that of the verb that it calls."""
        return self._operation(arguments).action

    def _operation(self, arguments: Mapping[str, Any] | None) -> Operation:
        name = (arguments or {}).get("operation") or next(iter(self.operations), "")
        default = Operation(self.effect, self.action or self.name)
        return self.operations.get(name, default) if isinstance(name, str) else default

    def limited(self, allowed: Collection[str]) -> Tool | None:
        """Return the tool with only the allowed effects; None if nothing is left."""
        if not self.operations:
            return self if self.effect in allowed else None
        operations = [
            name for name, operation in self.operations.items() if operation.effect in allowed
        ]
        if not operations or len(operations) == len(self.operations):
            return self if operations else None
        known = self.parameters["properties"]
        choice = {
            name: value for name, value in known["operation"].items() if name != "default"
        } | {"enum": operations}
        if next(iter(self.operations)) in operations:
            choice["default"] = operations[0]
        return replace(
            self, parameters={**self.parameters, "properties": {**known, "operation": choice}}
        )

    def call(self, arguments: Mapping[str, Any] | str | None = None) -> ToolOutput:
        """Run the tool with a model's arguments, an object or its JSON.

        A mistake in the arguments returns an error that says what to do.
        """
        try:
            return self.attempt(arguments)
        except StorageError as error:
            return {"error": error_text(error)}

    def attempt(self, arguments: Mapping[str, Any] | str | None = None) -> ToolOutput:
        """Do the same as `call`, but raise StorageError if the database fails."""
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments or "{}")
            except (ValueError, RecursionError):
                return {"error": f"The arguments of {self.name} are not valid JSON."}
        if arguments is not None and not isinstance(arguments, Mapping):
            return {"error": f"The arguments of {self.name} must be a JSON object."}
        known = self.parameters["properties"]
        values = {
            # Some models send null to omit an argument; an argument of any type may be null.
            name: value
            for name, value in self._rename(arguments or {}).items()
            if value is not None or (name in known and "type" not in known[name])
        }
        problem = self._problem(values)
        if problem:
            return {"error": problem}
        try:
            return self.run(**values)
        except StorageError:
            raise
        except MemoristError as error:
            return {"error": str(error)}

    def masked(self, policy: Policy) -> Tool:
        """Return a copy of the tool that masks personal data in its outputs."""
        run = self.run

        def run_masked(**arguments: Any) -> ToolOutput:
            output: ToolOutput = mask_personal_json(run(**arguments), policy)
            return output

        return replace(self, run=run_masked)

    def openai(self) -> dict[str, Any]:
        """Return the tool in the format of OpenAI-compatible APIs."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }
        return {"type": "function", "function": function}

    def anthropic(self) -> dict[str, Any]:
        """Return the tool in the format of the Anthropic API."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": dict(self.parameters),
        }

    def _rename(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Replace other names of arguments, unless the argument is there under both names."""
        renamed = {}
        for name, value in arguments.items():
            real = self.aliases.get(name, name)
            renamed[name if real in arguments else real] = value
        return renamed

    def _problem(self, arguments: Mapping[str, Any]) -> str:
        known: Mapping[str, Any] = self.parameters["properties"]
        for name in arguments:
            if name not in known:
                return f"{self.name} has no argument {name!r}; it has {', '.join(known)}."
        for name in self.parameters.get("required", ()):
            if name not in arguments:
                return f"{self.name} needs the argument {name!r}."
        for name, value in arguments.items():
            wanted = known[name].get("type", "")
            of_type = isinstance(value, _PYTHON_TYPES.get(wanted, object)) and not (
                isinstance(value, bool) and wanted != "boolean"
            )
            if wanted and not of_type:
                return f"The argument {name!r} must be of type {wanted}."
            choices = known[name].get("enum")
            if choices and value not in choices:
                return f"The argument {name!r} must be one of {', '.join(choices)}, not {value!r}."
        return ""


class AsyncTool:
    """A tool for asyncio, with an awaitable `call`."""

    def __init__(self, tool: Tool, threads: Callable[..., Awaitable[ToolOutput]]) -> None:
        self.name = tool.name
        self.description = tool.description
        self.parameters = tool.parameters
        self.openai = tool.openai
        self.anthropic = tool.anthropic
        self._tool = tool
        self._threads = threads

    async def call(self, arguments: Mapping[str, Any] | str | None = None) -> ToolOutput:
        """Run the tool with a model's arguments."""
        return await self._threads(self._tool.call, arguments)


def string(description: str = "", **rules: Any) -> dict[str, Any]:
    """Return the schema of a text."""
    about = {"description": description} if description else {}
    return {"type": "string", **about, **rules}


def schema(required: tuple[str, ...] = (), **properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
