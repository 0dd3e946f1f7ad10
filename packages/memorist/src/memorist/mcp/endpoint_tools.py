"""Every endpoint as an MCP tool, built from the declared verbs: the `all` profile."""

from __future__ import annotations

import base64
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from types import NoneType
from typing import Any, get_type_hints

from mcp_types import CallToolResult
from mcp_types import Tool as ToolDefinition
from pydantic import BaseModel, TypeAdapter, ValidationError, create_model

from memorist.admin.principal import Permission, Principal
from memorist.api.endpoints import ADMIN_ENDPOINTS, ENDPOINTS, SCOPE_ENDPOINTS, Endpoint, method_of
from memorist.api.invoke import invoke
from memorist.api.rendering import as_json
from memorist.api.schemas import build_request_model, messages, owner_fields, shape
from memorist.base.errors import Invalid, NotFound
from memorist.base.parameters import HiddenFromAgents, annotations_of
from memorist.context.assemble import Context
from memorist.kinds import KINDS
from memorist.kinds.entries.entry import Entry
from memorist.kinds.facts.fact import Fact
from memorist.kinds.page import Page
from memorist.kinds.tool import ToolOutput
from memorist.mcp.mcp_caller import McpCaller
from memorist.mcp.tool_adapter import call_result, tool_annotations
from memorist.memory import ADMIN_KINDS

_KINDS: dict[str, type] = {kind.name: kind for kind in (*KINDS, *ADMIN_KINDS)}
_SUCCESS_SCHEMA = {
    "type": "object",
    "properties": {"success": {"const": True}},
    "required": ["success"],
}
_BYTES_SCHEMA = {
    "type": "object",
    "properties": {"result": {"type": "string"}, "encoding": {"enum": ["utf-8", "base64"]}},
    "required": ["result", "encoding"],
}
_CONTEXT_SCHEMA = {
    "type": "object",
    "properties": {
        "messages": {"type": "array", "items": {"type": "object"}},
        "report": {"type": "object"},
    },
    "required": ["messages", "report"],
}
_SPECIAL_SCHEMAS: dict[Any, dict[str, Any]] = {
    NoneType: _SUCCESS_SCHEMA,
    bytes: _BYTES_SCHEMA,
    Context: _CONTEXT_SCHEMA,
}
"""Schemas of results that are not records, by return type."""


@dataclass(frozen=True)
class EndpointTool:
    """One endpoint as a tool."""

    endpoint: Endpoint

    @cached_property
    def method(self) -> Callable[..., Any]:
        """The verb of the endpoint."""
        return method_of(self.endpoint, _KINDS)

    @cached_property
    def call_model(self) -> type[BaseModel]:
        """The model of a call: the parameters of the verb, and the user and agent."""
        leave = tuple(self.hidden)
        base = build_request_model(self.endpoint, self.method, leave, in_query=False, name="Call")
        owner = {} if self.endpoint.is_admin else owner_fields()
        return create_model(base.__name__, __base__=base, **owner)

    @cached_property
    def hidden(self) -> dict[str, str]:
        """The parameters that agents cannot set, with their values."""
        return {
            name: note.value
            for name, hint in get_type_hints(self.method, include_extras=True).items()
            for note in annotations_of(hint)
            if isinstance(note, HiddenFromAgents)
        }

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of a call."""
        return self.call_model.model_json_schema()

    @cached_property
    def output_schema(self) -> tuple[dict[str, Any], bool]:
        """The JSON schema of the answer, and True if the result is wrapped to make it an object."""
        hint = get_type_hints(self.method).get("return")
        if hint in _SPECIAL_SCHEMAS:
            return _SPECIAL_SCHEMAS[hint], False
        schema = TypeAdapter(shape(hint)).json_schema(mode="serialization")
        if schema.get("type") == "object":
            return schema, False
        definitions = schema.pop("$defs", None)
        wrapped = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
        if definitions:
            wrapped["$defs"] = definitions
        return wrapped, True

    @cached_property
    def definition(self) -> ToolDefinition:
        """The definition of the tool for clients."""
        title = f"{self.endpoint.kind} {self.endpoint.verb}".strip().replace("_", " ").capitalize()
        reads = self.endpoint.effect == "read"
        removes = self.endpoint.effect in ("remove", "forget")
        replaces = self.endpoint.method in ("PUT", "PATCH", "DELETE")
        return ToolDefinition(
            name=self.endpoint.name,
            title=title,
            description=inspect.getdoc(self.method),
            input_schema=self.input_schema,
            output_schema=self.output_schema[0],
            annotations=tool_annotations(title, reads=reads, removes=removes, replaces=replaces),
        )

    def parse(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the arguments of a call to those of the verb."""
        try:
            call = self.call_model.model_validate(arguments)
        except ValidationError as error:
            first = error.errors()[0]
            raise Invalid(
                field=".".join(map(str, first["loc"])) or "arguments", problem=first["msg"]
            ) from None
        values = {name: getattr(call, name) for name in call.model_fields_set}
        if "messages" in values:
            values["messages"] = messages(values["messages"])
        if isinstance(values.get("lines"), str):
            first_line, _, last_line = values["lines"].partition("-")
            values["lines"] = int(first_line), int(last_line)
        return values

    def render(self, result: Any) -> ToolOutput:
        """Render the result of the verb as a JSON object."""
        if result is None and self.output_schema[0] is _SUCCESS_SCHEMA:
            return {"success": True}
        if isinstance(result, bytes):
            return _render_bytes(result)
        if isinstance(result, Context):
            return {"messages": result.messages, "report": result.report.as_json()}
        answer = as_json(result)
        return {"result": answer} if self.output_schema[1] else answer


class EndpointTools:
    """All endpoint tools."""

    def __init__(self) -> None:
        self._tools = {
            endpoint.name: EndpointTool(endpoint)
            for endpoint in (*ENDPOINTS, *SCOPE_ENDPOINTS, *ADMIN_ENDPOINTS)
            if endpoint.for_agents
        }
        self._definitions = cache(self._define)

    def definitions(self, caller: McpCaller) -> list[ToolDefinition]:
        """Return the tools that the caller may use."""
        principal = caller.principal
        is_bound = principal.user is not None or principal.agent is not None
        return self._definitions(principal.permissions, is_bound)

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the input schema of a tool, or None if there is no such tool."""
        return self._tools[name].input_schema if name in self._tools else None

    def call(self, caller: McpCaller, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        """Call a tool on behalf of the caller."""
        tool = self._tools[name]
        endpoint = tool.endpoint
        caller.principal.require_verb(endpoint)
        values = tool.parse(arguments)
        scope = caller.scope(user=values.pop("user", None), agent=values.pop("agent", None))
        caller.principal.require_for(endpoint.needs, endpoint.kind, values, scope.owner.user)
        if endpoint.effect != "read":
            scope = caller.acting(scope, endpoint.name)
        values |= tool.hidden
        if endpoint.kind == "facts" and endpoint.effect != "read" and "id" in values:
            _without_pending(scope.facts.get(values["id"]))
        result = invoke(endpoint, scope, values, caller.principal)
        hide = _without_pending if endpoint.effect == "read" else _without_pending_text
        return tool.render(hide(result))

    def result(self, caller: McpCaller, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call a tool; errors become error results."""
        return call_result(lambda: self.call(caller, name, arguments), name, self._tools)

    def _define(self, permissions: frozenset[Permission], is_bound: bool) -> list[ToolDefinition]:
        principal = Principal("", permissions, "", user="" if is_bound else None)
        return [
            tool.definition for tool in self._tools.values() if principal.may_call(tool.endpoint)
        ]


def _without_pending(result: Any) -> Any:
    """Drop records that await review: the answer of a tool reaches a model's prompt."""
    if _is_pending(result):
        raise NotFound(what=type(result).__name__.lower(), id=result.id)
    if isinstance(result, Page):
        return replace(result, items=[item for item in result if not _is_pending(item)])
    if isinstance(result, list):
        return [item for item in result if not _is_pending(item)]
    return result


def _without_pending_text(result: Any) -> Any:
    """Remove the text of a record that awaits review; the model learns that it was saved.

    The text may be another one than the model sent, if the same was saved before.
    """
    if not _is_pending(result):
        return result
    if isinstance(result, Fact):
        return replace(result, subject="", statement="", predicate="", object="", evidence=[])
    return replace(result, content="")


def _is_pending(record: Any) -> bool:
    if isinstance(record, Fact):
        return record.status == "pending"
    return isinstance(record, Entry) and record.review != "accepted"


def _render_bytes(result: bytes) -> ToolOutput:
    try:
        return {"result": result.decode(), "encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"result": base64.b64encode(result).decode(), "encoding": "base64"}
