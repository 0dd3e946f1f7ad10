"""The tools of an agent over MCP: the tools of a scope, with MCP annotations.

Expected errors are returned as text that a model can act on. Unexpected errors are returned without
details, which are only in the log. The kinds define the tools (`Kind.tools`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Container, Mapping
from functools import cache
from typing import Any

from mcp import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, TextContent, ToolAnnotations
from mcp_types import Tool as ToolDefinition

from memorist.base.error_text import error_text
from memorist.base.errors import MemoristError
from memorist.kinds.tool import Tool, ToolOutput
from memorist.mcp.mcp_caller import McpCaller
from memorist.memory import Memory

UNEXPECTED = "Internal error; the server log has the details. Try again."
_log = logging.getLogger("memorist.mcp")


class AgentTools:
    """The tools of an agent."""

    def __init__(self, memory: Memory) -> None:
        self._tools = {tool.name: tool for tool in memory.scope().tools()}
        self._definitions = cache(self._define)

    def definitions(self, caller: McpCaller) -> list[ToolDefinition]:
        """Return the tools that the caller may use."""
        return self._definitions(caller.principal.permissions)

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the input schema of a tool, or None if there is no such tool."""
        return self._tools[name].parameters if name in self._tools else None

    def call(self, caller: McpCaller, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        """Call a tool on behalf of the caller."""
        effect = self._tools[name].effect_of(arguments)
        action = self._tools[name].action_of(arguments)
        scope = caller.scope()
        caller.principal.require_for(effect, action.partition("_")[0], arguments, scope.owner.user)
        if effect != "read":
            scope = caller.acting(scope, action)
        (tool,) = scope.tools([name])
        return scope.services.observer.call_tool(tool, scope.owner, arguments)

    def result(self, caller: McpCaller, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call a tool; errors become error results."""
        return call_result(lambda: self.call(caller, name, arguments), name, self._tools)

    def _define(self, permissions: frozenset[str]) -> list[ToolDefinition]:
        limited = (tool.limited(permissions) for tool in self._tools.values())
        return [_definition(tool) for tool in limited if tool]


def _definition(tool: Tool) -> ToolDefinition:
    operations = tool.parameters["properties"].get("operation", {}).get("enum", ("",))
    effects = {tool.effect_of({"operation": operation}) for operation in operations}
    reads = effects == {"read"}
    return ToolDefinition(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.parameters),
        output_schema=dict(tool.output_schema),
        annotations=tool_annotations(
            tool.title, reads=reads, removes="delete" in effects, replaces=tool.repeatable
        ),
    )


def tool_annotations(title: str, *, reads: bool, removes: bool, replaces: bool) -> ToolAnnotations:
    """Return the hints that a client may show before a call. All tools act on the memory only."""
    return ToolAnnotations(
        title=title,
        read_only_hint=reads,
        destructive_hint=not reads and (removes or replaces),
        idempotent_hint=reads or replaces,
        open_world_hint=False,
    )


def call_result(call: Callable[[], ToolOutput], name: str, known: Container[str]) -> CallToolResult:
    """Call a tool and return its output as JSON and as text; errors become error results."""
    if name not in known:
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {name[:200]!r}")
    try:
        output = call()
    except MemoristError as error:
        return error_result(error_text(error))
    except Exception:  # a defect: logged, and reported to the model without details
        _log.exception("Tool %s failed.", name)
        return error_result(UNEXPECTED)
    if set(output) == {"error"}:
        return error_result(output["error"])
    text = json.dumps(output, ensure_ascii=False)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=output)


def error_result(text: str) -> CallToolResult:
    """Return an error that the model reads."""
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
