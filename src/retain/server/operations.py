"""What is done with memory through this server, by REST, MCP or chat: counted, traced, and a reason for later work.

Every scope that is made of the server's services has its verbs wrapped; the kinds know nothing of it. A verb that calls another
is one operation.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from fastapi import FastAPI

from retain.api.endpoints import ENDPOINTS, SCOPE_ENDPOINTS, Endpoint
from retain.base.errors import RetainError
from retain.kinds import KINDS
from retain.kinds.interactions import Usage
from retain.kinds.kind import Kind, Owner, Page, Services
from retain.kinds.tool import Answer, Tool
from retain.kinds.turns import Turn
from retain.memory import Memory, Scope
from retain.models.recording import ModelCall
from retain.server import traces
from retain.server.background import Background
from retain.server.metrics import Metrics

_log = logging.getLogger("retain.observe")
_APPENDS = ("messages.append", "messages.extend", "save_turn")
_CALLS = ("interactions.add", "save_turn")


class _Inside(threading.local):
    verb = False


_inside = _Inside()


class Observer:
    """Sees what is called, and what came of it."""

    def __init__(self, memory: Memory, metrics: Metrics, background: Background) -> None:
        self._record = memory.services.record
        self._metrics = metrics
        self._background = background
        wrapped = {
            endpoint.verb: self._wrapped(endpoint, getattr(Scope, endpoint.verb))
            for endpoint in SCOPE_ENDPOINTS
        }
        kinds = {kind.name: _swapped(kind.name, self._observed(kind)) for kind in KINDS}
        self._scope = type("Scope", (Scope,), {**wrapped, **kinds, "tools": self._tools()})

    def scope(self, scope: Scope) -> None:
        """Have everything that can be called of a scope observed: its class becomes one that says so."""
        scope.__class__ = self._scope

    def record(
        self,
        services: Services,
        owner: Owner,
        route: str,
        call: ModelCall,
        session: str | None = None,
    ) -> None:
        """A model was called by retain itself."""
        answer = call.answer
        spent = (answer.tokens_in, answer.tokens_out, answer.cost) if answer else (0, 0, None)
        self._model(Usage(call.model, route, call.latency_ms, *spent, error=call.error))
        self._record(services, owner, route, call, session)

    def _model(self, used: Usage) -> None:
        counts = (used.latency_ms, used.tokens_in, used.tokens_out)
        if not all(type(count) in (int, float) and 0 <= count < 1 << 40 for count in counts):
            return  # a service that says so is not believed
        cost = (
            used.cost
            if type(used.cost) in (int, float) and 0 <= (used.cost or 0) < 1 << 40
            else None
        )
        name = str(used.model)[:100]
        self._metrics.model(
            name,
            used.latency_ms / 1000,
            used.tokens_in,
            used.tokens_out,
            cost,
            failed=bool(used.error),
        )
        if traces.on:
            traces.model_call(name, str(used.route)[:100], *counts, str(used.error))

    def _observed(self, kind: type[Kind]) -> type[Kind]:
        """A kind whose verbs are observed."""
        endpoints = [endpoint for endpoint in ENDPOINTS if endpoint.kind == kind.name]
        return type(
            kind.__name__,
            (kind,),
            {
                endpoint.verb: self._wrapped(endpoint, getattr(kind, endpoint.verb))
                for endpoint in endpoints
            },
        )

    def _wrapped(self, endpoint: Endpoint, method: Callable[..., Any]) -> Callable[..., Any]:
        name, writes, scoped = (
            f"{endpoint.kind}.{endpoint.verb}".removeprefix("."),
            endpoint.needs != "read",
            not endpoint.kind,
        )
        seen, used, wake = self._seen, self._used, self._background.wake
        traced = _traced(endpoint, method)

        @functools.wraps(method)
        def observed(self: Any, *given: Any, **named: Any) -> Any:
            if _inside.verb:
                return method(self, *given, **named)
            outcome, found, started = "failed", None, time.perf_counter()
            _inside.verb = True
            try:
                found = (traced if traces.on else method)(self, *given, **named)
                outcome = "ok"
                return found
            except RetainError as error:
                outcome = "refused" if error.status < 500 else "failed"
                raise
            finally:
                _inside.verb = False
                try:
                    if writes and outcome == "ok":
                        wake((self.owner if scoped else self._owner).tenant)
                    seen(name, outcome, time.perf_counter() - started, found)
                    if outcome == "ok" and name in _CALLS:
                        used(name, given, named)
                except Exception as error:  # what was done is done: whoever asked for it must not be told otherwise
                    _log.error("%s could not be counted", name, exc_info=error)

        return observed

    def _used(self, name: str, given: Sequence[Any], named: Mapping[str, Any]) -> None:
        """A model was called by the client, who says what it took."""
        usage = named.get("usage")
        if name == "interactions.add":
            fields = {
                key: value for key, value in named.items() if key in Usage.__dataclass_fields__
            }
            usage = Usage(**{**dict(zip(("route", "model"), given, strict=False)), **fields})
        if usage:
            self._model(usage if isinstance(usage, Usage) else Usage(**usage))

    def _seen(self, name: str, outcome: str, seconds: float, found: Any) -> None:
        appended = 0
        if found is not None and name in _APPENDS:
            turn = isinstance(found, Turn)
            appended = (
                found.last_seq - found.first_seq + 1
                if turn
                else len(found)
                if isinstance(found, list)
                else 1
            )
        self._metrics.operation(name, outcome, seconds, appended)

    def _tools(self) -> Callable[..., list[Tool]]:
        @functools.wraps(Scope.tools)
        def tools(scope: Scope, names: Sequence[str] | None = None) -> list[Tool]:
            return [
                replace(tool, run=self._tool(tool, scope.owner))
                for tool in Scope.tools(scope, names)
            ]

        return tools

    def _tool(self, tool: Tool, owner: Owner) -> Callable[..., Answer]:
        attributes = {
            traces.OPERATION: "execute_tool",
            traces.TOOL: tool.name,
            traces.STORE: owner.tenant,
        }

        @functools.wraps(tool.run)
        def run(*given: Any, **named: Any) -> Answer:
            outcome = "failed"
            try:
                with (
                    traces.span(f"execute_tool {tool.name}", attributes)
                    if traces.on
                    else nullcontext()
                ):
                    found = tool.run(*given, **named)
                outcome = "refused" if "error" in found else "ok"
                return found
            except RetainError as error:
                outcome = "refused" if error.status < 500 else "failed"
                raise
            finally:
                self._metrics.tool(tool.name, outcome)
                if tool.effect != "read":
                    self._background.wake(owner.tenant)

        return run


def _swapped(name: str, observed: type[Kind]) -> property:
    """A kind of a scope, observed from when it is asked for: of all that a scope has, a request uses one or two."""

    def kind(scope: Scope) -> Kind:
        found: Kind = scope.__dict__[name]
        found.__class__ = observed
        return found

    return property(kind)


def _traced(endpoint: Endpoint, method: Callable[..., Any]) -> Callable[..., Any]:
    """A verb inside a span."""
    convention = traces.operation(endpoint.kind, endpoint.verb, writes=endpoint.needs != "read")
    name = f"{endpoint.kind}.{endpoint.verb}".removeprefix(".")
    title = f"{convention} {endpoint.kind}".rstrip() if convention else f"retain {name}"
    always = {"retain.operation": name, **({traces.OPERATION: convention} if convention else {})}

    def traced(self: Any, *given: Any, **named: Any) -> Any:
        owner: Owner = self._owner if endpoint.kind else self.owner
        with traces.span(title, {**always, traces.STORE: owner.tenant}) as span:
            found = method(self, *given, **named)
            span.set_attributes(_told(found))
            return found

    return traced


def _told(found: Any) -> dict[str, str | int]:
    """What is known of a result without looking into it: an id, or how many there are."""
    items = getattr(found, "hits", found)
    if isinstance(items, list | Page):
        return {traces.COUNT: len(items)}
    id = getattr(found, "id", None) or getattr(found, "key", None)
    return {traces.RECORD: id, traces.COUNT: 1} if isinstance(id, str) else {}


def install(app: FastAPI) -> None:
    """Observe what is done through an app's memory."""
    memory: Memory = app.state.memory
    observer = Observer(memory, app.state.metrics, app.state.background)
    memory.services = replace(memory.services, record=observer.record, observe=observer.scope)
