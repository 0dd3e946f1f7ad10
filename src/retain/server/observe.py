"""What is done with memory through this server, by REST, MCP or chat: counted, traced, and a reason for later work.

Every scope that is made of the server's home has its verbs wrapped; the kinds know nothing of it. A verb that calls another
is one operation.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from fastapi import FastAPI

from retain import masking
from retain.errors import RetainError
from retain.faces.ways import SCOPE_WAYS, WAYS
from retain.kinds import KINDS
from retain.kinds.interactions import Usage
from retain.kinds.kind import Home, Page, Who
from retain.kinds.turns import Turn
from retain.memory import Memory, Scope
from retain.models.watch import Call
from retain.server import traces
from retain.server.background import Background
from retain.server.metrics import Metrics
from retain.tool import Answer, Tool

_APPENDS = ("messages.append", "messages.extend", "save_turn")
_CALLS = ("interactions.add", "save_turn")
_inside = threading.local()


class Observer:
    """Sees what is called, and what came of it."""

    def __init__(self, memory: Memory, metrics: Metrics, background: Background) -> None:
        self._record = memory.home.record
        self._metrics = metrics
        self._background = background
        self._kinds = {kind.name: self._observed(kind) for kind in KINDS}
        self._verbs = {way.verb: self._wrapped("", way.verb, getattr(Scope, way.verb)) for way in SCOPE_WAYS}

    def scope(self, scope: Scope) -> None:
        """Have everything that can be called of a scope observed."""
        for name, observed in self._kinds.items():
            getattr(scope, name).__class__ = observed
        for verb, wrapped in self._verbs.items():
            setattr(scope, verb, functools.partial(wrapped, scope))
        scope.tools = functools.partial(self._tools, scope)  # type: ignore[method-assign]

    def record(self, home: Home, who: Who, route: str, call: Call, session: str | None = None) -> None:
        """A model was called by retain itself."""
        answer = call.answer
        spent = (answer.tokens_in, answer.tokens_out, answer.cost) if answer else (0, 0, None)
        self._model(Usage(call.model, route, call.latency_ms, *spent, error=call.error))
        self._record(home, who, route, call, session)

    def _model(self, used: Usage) -> None:
        counts = (used.latency_ms, used.tokens_in, used.tokens_out)
        if not all(type(count) in (int, float) and 0 <= count < 1 << 40 for count in counts):
            return  # what a caller says of its own model is refused by the verb, not here
        cost = used.cost if type(used.cost) in (int, float) and 0 <= (used.cost or 0) < 1 << 40 else None
        self._metrics.model(str(used.model)[:100], *counts, cost, failed=bool(used.error))
        if traces.on():
            traces.model_call(str(used.model)[:100], str(used.route)[:100], *counts, str(used.error))

    def _observed(self, kind: type) -> type:
        """A kind whose verbs are observed."""
        verbs = [way for way in WAYS if way.kind == kind.name]  # type: ignore[attr-defined]
        wrapped = {way.verb: self._wrapped(way.kind, way.verb, getattr(kind, way.verb)) for way in verbs}
        return type(kind.__name__, (kind,), wrapped)

    def _wrapped(self, kind: str, verb: str, method: Callable[..., Any]) -> Callable[..., Any]:
        name = f"{kind}.{verb}".removeprefix(".")
        writes = next(way.needs for way in (*WAYS, *SCOPE_WAYS) if (way.kind, way.verb) == (kind, verb)) != "read"
        convention = traces.operation(kind, verb, writes=writes)
        title = f"{convention} {kind}".rstrip() if convention else f"retain {name}"

        @functools.wraps(method)
        def observed(self: Any, *given: Any, **named: Any) -> Any:
            if getattr(_inside, "verb", False):
                return method(self, *given, **named)
            who: Who = self.who if kind == "" else self._who
            outcome, found, secrets, started = "failed", None, masking.seen(), time.perf_counter()
            _inside.verb = True
            try:
                with _span(title, convention, name, who) as span:
                    found = method(self, *given, **named)
                    if span is not None:
                        span.set_attributes(_told(found))
                outcome = "ok"
                return found
            except RetainError as error:
                outcome = "refused" if error.status < 500 else "failed"
                raise
            finally:
                _inside.verb = False
                seen(name, outcome, time.perf_counter() - started, found, masking.seen() - secrets)
                if outcome == "ok" and writes:
                    wake(who.tenant)
                    if name in _CALLS:
                        used(name, given, named)

        seen, used, wake = self._seen, self._used, self._background.wake
        return observed

    def _used(self, name: str, given: Sequence[Any], named: Mapping[str, Any]) -> None:
        """A model was called by the client, who says what it took."""
        usage = named.get("usage")
        if name == "interactions.add":
            fields = {key: value for key, value in named.items() if key in Usage.__dataclass_fields__}
            usage = Usage(**{**dict(zip(("route", "model"), given, strict=False)), **fields})
        if usage:
            self._model(usage if isinstance(usage, Usage) else Usage(**usage))

    def _seen(self, name: str, outcome: str, seconds: float, found: Any, secrets: int) -> None:
        appended = 0
        if found is not None and name in _APPENDS:
            turn = isinstance(found, Turn)
            appended = found.last_seq - found.first_seq + 1 if turn else len(found) if isinstance(found, list) else 1
        self._metrics.operation(name, outcome, seconds, appended, secrets)

    def _tools(self, scope: Scope, names: Sequence[str] | None = None) -> list[Tool]:
        return [replace(tool, run=self._tool(tool, scope.who)) for tool in Scope.tools(scope, names)]

    def _tool(self, tool: Tool, who: Who) -> Callable[..., Answer]:
        attributes = {traces.OPERATION: "execute_tool", traces.TOOL: tool.name, traces.STORE: who.tenant}

        @functools.wraps(tool.run)
        def run(*given: Any, **named: Any) -> Answer:
            outcome = "failed"
            try:
                with traces.span(f"execute_tool {tool.name}", attributes) if traces.on() else nullcontext():
                    found = tool.run(*given, **named)
                outcome = "refused" if "error" in found else "ok"
                return found
            except RetainError as error:
                outcome = "refused" if error.status < 500 else "failed"
                raise
            finally:
                self._metrics.tool(tool.name, outcome)
                if tool.effect != "read":
                    self._background.wake(who.tenant)

        return run


def _span(title: str, convention: str | None, name: str, who: Who) -> Any:
    if not traces.on():
        return nullcontext()
    attributes = {traces.STORE: who.tenant, "retain.operation": name}
    return traces.span(title, {**attributes, traces.OPERATION: convention} if convention else attributes)


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
    memory.home = replace(memory.home, record=observer.record, observe=observer.scope)
