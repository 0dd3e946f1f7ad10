"""A tool as a model is offered it: a name, a description, a JSON schema, and the call behind it.

Every face and every framework is served from the same list, so that a tool means the same everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from retain.base.errors import RetainError

Answer = dict[str, Any]
Effect = Literal["read", "write", "delete"]
"""What a call does to what is remembered: look at it, add to it or change it, or take something out."""
_DEEDS = {
    "save_to_journal": "entries_add",
    "save_to_core": "entries_add",
    "save_to_whiteboard": "entries_add",
    "store_memory": "refs_add",
    "set_state": "state_set",
    "remove_state": "state_remove",
    "overwrite": "notes_overwrite",
    "append": "notes_append",
    "prepend": "notes_prepend",
    "replace_section_by_header": "notes_replace_section",
    "delete_section_by_header": "notes_delete_section",
    "delete_all_notes": "notes_clear",
}
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


@dataclass(frozen=True)
class Tool:
    """Something that a model can do; `call` answers with a JSON object, and with `{"error": …}` where it cannot."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[..., Answer]
    title: str = ""
    """What people see in place of the name."""
    answers: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    """The JSON schema of an answer that is no error."""
    effect: Effect = "write"
    operations: Mapping[str, Effect] = field(default_factory=dict)
    """What each value of the argument `operation` does, where a tool has one; the first is what it does without it."""
    repeatable: bool = False
    """Whether the same call again changes nothing more."""

    def does(self, arguments: Mapping[str, Any] | None) -> Effect:
        """What a call with these arguments would do."""
        operation = (arguments or {}).get("operation") or next(iter(self.operations), "")
        return (
            self.operations.get(operation, self.effect)
            if isinstance(operation, str)
            else self.effect
        )

    def deed(self, arguments: Mapping[str, Any] | None) -> str:
        """What a call with these arguments is called on record: as if the verb behind it had been called."""
        operation = (arguments or {}).get("operation") or next(iter(self.operations), self.name)
        return _DEEDS.get(str(operation), self.name)

    def limited(self, allowed: Collection[str]) -> Tool | None:
        """The tool as it is offered to whoever may do only this; None where nothing of it is left."""
        if not self.operations:
            return self if self.effect in allowed else None
        kept = [operation for operation, effect in self.operations.items() if effect in allowed]
        if not kept or len(kept) == len(self.operations):
            return self if kept else None
        known = self.parameters["properties"]
        choice = {
            name: value for name, value in known["operation"].items() if name != "default"
        } | {"enum": kept}
        if next(iter(self.operations)) in kept:
            choice["default"] = kept[0]
        return replace(
            self, parameters={**self.parameters, "properties": {**known, "operation": choice}}
        )

    def call(self, arguments: Mapping[str, Any] | str | None = None) -> Answer:
        """Run it with the arguments that a model gave, an object or its JSON; a mistake is answered with what to do."""
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments or "{}")
            except (ValueError, RecursionError):
                return {"error": f"The arguments of {self.name} are not valid JSON."}
        if arguments is not None and not isinstance(arguments, Mapping):
            return {"error": f"The arguments of {self.name} must be a JSON object."}
        known = self.parameters["properties"]
        given = {
            name: value  # where any value will do, null is one; elsewhere it is how some models leave something out
            for name, value in (arguments or {}).items()
            if value is not None or (name in known and "type" not in known[name])
        }
        problem = self._problem(given)
        if problem:
            return {"error": problem}
        try:
            return self.run(**given)
        except RetainError as error:
            return {"error": str(error)}

    def openai(self) -> dict[str, Any]:
        """As an OpenAI-compatible service takes it."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }
        return {"type": "function", "function": function}

    def anthropic(self) -> dict[str, Any]:
        """As Anthropic takes it."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": dict(self.parameters),
        }

    def _problem(self, given: Mapping[str, Any]) -> str:
        known: Mapping[str, Any] = self.parameters["properties"]
        for name in given:
            if name not in known:
                return f"{self.name} has no argument {name!r}; it has {', '.join(known)}."
        for name in self.parameters.get("required", ()):
            if name not in given:
                return f"{self.name} needs the argument {name!r}."
        for name, value in given.items():
            wanted = known[name].get("type", "")
            of_type = isinstance(value, _TYPES.get(wanted, object)) and not (
                isinstance(value, bool) and wanted != "boolean"
            )
            if wanted and not of_type:
                return f"The argument {name!r} must be of type {wanted}."
            choices = known[name].get("enum")
            if choices and value not in choices:
                return f"The argument {name!r} must be one of {', '.join(choices)}, not {value!r}."
        return ""


class AsyncTool:
    """A tool for asyncio: the same, and its call is awaited."""

    def __init__(self, tool: Tool, threads: Callable[..., Awaitable[Answer]]) -> None:
        self.name, self.description, self.parameters = tool.name, tool.description, tool.parameters
        self.openai, self.anthropic = tool.openai, tool.anthropic
        self._tool = tool
        self._threads = threads

    async def call(self, arguments: Mapping[str, Any] | str | None = None) -> Answer:
        """Run it with the arguments that a model gave."""
        return await self._threads(self._tool.call, arguments)


def schema(required: tuple[str, ...] = (), **properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
