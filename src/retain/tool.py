"""A tool as a model is offered it: a name, a description, a JSON schema, and the call behind it.

Every face and every framework is served from the same list, so that a tool means the same everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from retain.errors import RetainError

Answer = dict[str, Any]
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

    def call(self, arguments: Mapping[str, Any] | str | None = None) -> Answer:
        """Run it with the arguments that a model gave, an object or its JSON; a mistake is answered with what to do."""
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments or "{}")
            except (ValueError, RecursionError):
                return {"error": f"The arguments of {self.name} are not valid JSON."}
        if arguments is not None and not isinstance(arguments, Mapping):
            return {"error": f"The arguments of {self.name} must be a JSON object."}
        given = {name: value for name, value in (arguments or {}).items() if value is not None}
        problem = self._problem(given)
        if problem:
            return {"error": problem}
        try:
            return self.run(**given)
        except RetainError as error:
            return {"error": str(error)}

    def openai(self) -> dict[str, Any]:
        """As an OpenAI-compatible service takes it."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}

    def anthropic(self) -> dict[str, Any]:
        """As Anthropic takes it."""
        return {"name": self.name, "description": self.description, "input_schema": dict(self.parameters)}

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
            of_type = isinstance(value, _TYPES.get(wanted, object)) and not (isinstance(value, bool) and wanted != "boolean")
            if wanted and not of_type:
                return f"The argument {name!r} must be of type {wanted}."
            choices = known[name].get("enum")
            if choices and value not in choices:
                return f"The argument {name!r} must be one of {', '.join(choices)}, not {value!r}."
        return ""


class AsyncTool:
    """A tool for asyncio: the same, and its call is awaited."""

    def __init__(self, tool: Tool, hop: Callable[..., Awaitable[Answer]]) -> None:
        self.name, self.description, self.parameters = tool.name, tool.description, tool.parameters
        self.openai, self.anthropic = tool.openai, tool.anthropic
        self._tool = tool
        self._hop = hop

    async def call(self, arguments: Mapping[str, Any] | str | None = None) -> Answer:
        """Run it with the arguments that a model gave."""
        return await self._hop(self._tool.call, arguments)


def schema(required: tuple[str, ...] = (), **properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
