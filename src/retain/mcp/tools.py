"""The tools of an agent over MCP: the same list that a scope has, with what a client wants to know of each.

A mistake is answered as text that a model can read and act on. What nobody expected is answered without its details, which
the log has.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Container, Mapping
from functools import cache
from typing import Any

from mcp_types import INVALID_PARAMS, CallToolResult, TextContent, ToolAnnotations
from mcp_types import Tool as Offered

from mcp import MCPError
from retain.api import problem
from retain.base.errors import RetainError
from retain.kinds.tool import Answer, Tool
from retain.mcp.guest import Caller
from retain.memory import Memory

UNEXPECTED = "Something failed that should not have: the log of the server has more. It may work when it is tried again."
_log = logging.getLogger("retain.mcp")


class Tools:
    """The tools that an agent has, as MCP offers and calls them."""

    def __init__(self, memory: Memory) -> None:
        self._all = {tool.name: tool for tool in memory.scope().tools()}
        self._for = cache(self._offer)

    def offered(self, guest: Caller) -> list[Offered]:
        """The tools that somebody may use."""
        return self._for(guest.principal.permissions)

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """What a tool takes, None where there is no such tool."""
        return self._all[name].parameters if name in self._all else None

    def call(self, guest: Caller, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Call a tool for somebody."""
        effect, deed = self._all[name].does(arguments), self._all[name].deed(arguments)
        scope = guest.scope()
        guest.principal.require_for(effect, deed.partition("_")[0], arguments, scope.owner.user)
        if effect != "read":
            scope = guest.acting(scope, deed)
        (tool,) = scope.tools([name])
        return scope.services.observer.call_tool(tool, scope.owner, arguments)

    def result(self, guest: Caller, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """What a call gives, or why it gives nothing."""
        return result(lambda: self.call(guest, name, arguments), name, self._all)

    def _offer(self, permissions: frozenset[str]) -> list[Offered]:
        limited = (tool.limited(permissions) for tool in self._all.values())
        return [_offered(tool) for tool in limited if tool]


def _offered(tool: Tool) -> Offered:
    operations = tool.parameters["properties"].get("operation", {}).get("enum", ("",))
    effects = {tool.does({"operation": operation}) for operation in operations}
    reads = effects == {"read"}
    return Offered(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.parameters),
        output_schema=dict(tool.answers),
        annotations=hints(
            tool.title, reads=reads, removes="delete" in effects, replaces=tool.repeatable
        ),
    )


def hints(title: str, *, reads: bool, removes: bool, replaces: bool) -> ToolAnnotations:
    """What a client may tell people before a tool is called; nothing here reaches beyond the memory."""
    return ToolAnnotations(
        title=title,
        read_only_hint=reads,
        destructive_hint=not reads and (removes or replaces),
        idempotent_hint=reads or replaces,
        open_world_hint=False,
    )


def result(call: Callable[[], Answer], name: str, known: Container[str]) -> CallToolResult:
    """What a call gives, or why it gives nothing, as a client takes it: as JSON, and the same as text."""
    if name not in known:
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {name[:200]!r}")
    try:
        answer = call()
    except RetainError as error:
        return _failed(problem.told(error))
    except Exception:
        _log.exception("the tool %s failed", name)
        return _failed(UNEXPECTED)
    if set(answer) == {"error"}:
        return _failed(answer["error"])
    text = json.dumps(answer, ensure_ascii=False)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=answer)


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
