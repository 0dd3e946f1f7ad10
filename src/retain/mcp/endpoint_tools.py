"""Every verb of every kind as an MCP tool, for programs and for whoever wants all of it: built from the table of ways."""

from __future__ import annotations

import base64
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import NoneType
from typing import Any, get_type_hints

from mcp_types import CallToolResult
from mcp_types import Tool as Offered
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model

from retain.api.endpoints import ENDPOINTS, FOR_PEOPLE, SCOPE_ENDPOINTS, Endpoint
from retain.api.invoke import invoke
from retain.api.rendering import as_json
from retain.api.schemas import Used, asked, messages, method_of, shape, whose
from retain.base.errors import Invalid, NotFound
from retain.context.assemble import Context
from retain.kinds import KINDS
from retain.kinds.entries.entry import Entry
from retain.kinds.tool import Answer
from retain.mcp.guest import Caller
from retain.mcp.tools import hints, result

_KINDS: dict[str, type] = {kind.name: kind for kind in KINDS}
_LISTS = "entries_list"
_DONE = {"type": "object", "properties": {"success": {"const": True}}, "required": ["success"]}
_BYTES = {
    "type": "object",
    "properties": {"result": {"type": "string"}, "encoding": {"enum": ["utf-8", "base64"]}},
    "required": ["result", "encoding"],
}
_CONTEXT = {
    "type": "object",
    "properties": {
        "messages": {"type": "array", "items": {"type": "object"}},
        "report": {"type": "object"},
    },
    "required": ["messages", "report"],
}


@dataclass(frozen=True)
class Verb:
    """One way as a tool."""

    endpoint: Endpoint

    @cached_property
    def method(self) -> Callable[..., Any]:
        """The verb behind it."""
        return method_of(self.endpoint, _KINDS)

    @cached_property
    def asks(self) -> type[BaseModel]:
        """What a call may say: the verb's own parameters, and whose memory is meant."""
        more: dict[str, Any] = whose()
        leave: tuple[str, ...] = ("review",) if self.endpoint.name == _LISTS else ()
        if self.endpoint.verb == "save_turn":
            leave = ("usage", "context")
            more["usage"] = (
                Used | None,
                Field(None, description="The model call: its model, tokens, cost and latency."),
            )
        base = asked(self.endpoint, self.method, leave, in_query=False, name="Call")
        return create_model(base.__name__, __base__=base, **more)

    @cached_property
    def takes(self) -> dict[str, Any]:
        """The JSON schema of that."""
        return self.asks.model_json_schema()

    @cached_property
    def gives(self) -> tuple[dict[str, Any], bool]:
        """The JSON schema of an answer, which is an object; and whether the result is inside of one for that."""
        hint = get_type_hints(self.method).get("return")
        if hint in (NoneType, bytes, Context):
            return {NoneType: _DONE, bytes: _BYTES, Context: _CONTEXT}[hint], False
        found = TypeAdapter(shape(hint)).json_schema(mode="serialization")
        if found.get("type") == "object":
            return found, False
        known = found.pop("$defs", None)
        wrapped = {"type": "object", "properties": {"result": found}, "required": ["result"]}
        return ({**wrapped, "$defs": known} if known else wrapped), True

    @cached_property
    def offered(self) -> Offered:
        """The tool, as a client is told of it."""
        title = f"{self.endpoint.kind} {self.endpoint.verb}".strip().replace("_", " ").capitalize()
        reads, removes = self.endpoint.needs == "read", self.endpoint.needs == "delete"
        replaces = self.endpoint.method in ("PUT", "PATCH", "DELETE")
        return Offered(
            name=self.endpoint.name,
            title=title,
            description=inspect.getdoc(self.method),
            input_schema=self.takes,
            output_schema=self.gives[0],
            annotations=hints(title, reads=reads, removes=removes, replaces=replaces),
        )

    def named(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What a call said, as the verb takes it."""
        try:
            said = self.asks.model_validate(arguments)
        except ValidationError as error:
            first = error.errors()[0]
            raise Invalid(
                field=".".join(map(str, first["loc"])) or "arguments", problem=first["msg"]
            ) from None
        named = {name: getattr(said, name) for name in said.model_fields_set}
        if "messages" in named:
            named["messages"] = messages(named["messages"])
        if isinstance(named.get("lines"), str):
            first_line, _, last_line = named["lines"].partition("-")
            named["lines"] = int(first_line), int(last_line)
        return named

    def answer(self, found: Any) -> Answer:
        """What the verb returned, as JSON; it is an object."""
        if found is None and self.gives[0] is _DONE:
            return {"success": True}
        if isinstance(found, bytes):
            return _bytes(found)
        if isinstance(found, Context):
            return {"messages": found.messages, "report": found.report.as_json()}
        told = as_json(found)
        return {"result": told} if self.gives[1] else told


class Verbs:
    """All of them, as MCP offers and calls them."""

    def __init__(self) -> None:
        self._all = {
            endpoint.name: Verb(endpoint)
            for endpoint in (*ENDPOINTS, *SCOPE_ENDPOINTS)
            if endpoint.name not in FOR_PEOPLE
        }
        self._for = cache(self._offer)

    def offered(self, guest: Caller) -> list[Offered]:
        """The tools that somebody may use."""
        return self._for(guest.principal.permissions)

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """What a tool takes, None where there is no such tool."""
        return self._all[name].takes if name in self._all else None

    def call(self, guest: Caller, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Call a verb for somebody."""
        verb = self._all[name]
        endpoint = verb.endpoint
        guest.principal.require(endpoint.needs)
        if endpoint.returns_removed:
            guest.principal.require("read")
        named = verb.named(arguments)
        scope = guest.scope(user=named.pop("user", None), agent=named.pop("agent", None))
        guest.principal.require_for(endpoint.needs, endpoint.kind, named, scope.owner.user)
        if endpoint.needs != "read":
            scope = guest.acting(scope, endpoint.name)
        if endpoint.name == _LISTS:
            named["review"] = "accepted"
        found = invoke(endpoint, scope, named)
        return verb.answer(_counting(found) if endpoint.needs == "read" else found)

    def result(self, guest: Caller, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """What a call gives, or why it gives nothing."""
        return result(lambda: self.call(guest, name, arguments), name, self._all)

    def _offer(self, permissions: frozenset[str]) -> list[Offered]:
        may = [verb for verb in self._all.values() if verb.endpoint.needs in permissions]
        return [
            verb.offered
            for verb in may
            if "read" in permissions or not verb.endpoint.returns_removed
        ]


def _counting(found: Any) -> Any:
    """What was read, without entries that wait for a person: a tool's answer is in a model's prompt too."""
    if isinstance(found, Entry) and found.review != "accepted":
        raise NotFound(what="entry", id=found.id)
    if isinstance(found, list):
        return [one for one in found if not isinstance(one, Entry) or one.review == "accepted"]
    return found


def _bytes(found: bytes) -> Answer:
    try:
        return {"result": found.decode(), "encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"result": base64.b64encode(found).decode(), "encoding": "base64"}
