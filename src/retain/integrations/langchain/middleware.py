"""LangChain's agents with a memory: told before each model call, kept small by references, and kept after each run."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from retain.base.errors import Invalid, KeyReused
from retain.context.assemble import Context
from retain.context.render import openai
from retain.integrations import _sessions as sessions
from retain.integrations._require import extra, local
from retain.kinds.interactions import Usage
from retain.kinds.tool import Tool
from retain.memory import Scope
from retain.messages.formats import langchain as talk

with extra("langchain"):
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langchain.agents.middleware.types import ToolCallRequest
    from langchain_core.messages import (
        AIMessage,
        AnyMessage,
        BaseMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
        convert_to_messages,
        message_to_dict,
    )
    from langchain_core.tools import BaseTool, StructuredTool
    from langgraph.config import get_config
    from langgraph.runtime import Runtime
    from langgraph.types import Command

OPENING = ("retrieve_memory", "search_memory")
"""The tools that open what the prompt only names."""
_RUNS = 256


class RetainMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Memory for `create_agent(middleware=[RetainMiddleware(memory.scope(tenant="acme", user="ada", agent="scout"))])`.

    The session is the run's `thread_id`, or `session` of the runtime's context. What is remembered is told in requests
    alone, not in the agent's state, so that memory is not remembered. An agent that has its history from a checkpointer is
    told everything but the recent turns. `budget` is how many tokens the context may have; without `offload`, a tool's
    large outputs stay in the agent's messages.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        budget: int | None = None,
        offload: bool = True,
        tools: Sequence[str] | None = OPENING,
    ) -> None:
        super().__init__()
        self.scope, self.budget, self.offload = local(scope), budget, offload
        self.tools: Sequence[BaseTool] = [_tool(tool) for tool in scope.tools(tools)]
        self._runs: OrderedDict[tuple[str, str | None], tuple[Context, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Tell the model what is remembered."""
        return handler(self._remembering(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Tell the model what is remembered."""
        return await handler(await asyncio.to_thread(self._remembering, request))

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Keep a large output as a reference, so that the model sees its placeholder."""
        return self._offloaded(request, handler(request))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Keep a large output as a reference, so that the model sees its placeholder."""
        return await asyncio.to_thread(self._offloaded, request, await handler(request))

    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Keep the turn, once for each run."""
        self._save(state["messages"], runtime)

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Keep the turn, once for each run."""
        await asyncio.to_thread(self._save, state["messages"], runtime)

    def _remembering(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """A request with what is remembered: own words as system text, what others may have said in a fence."""
        messages = request.messages
        at = max(
            (place for place, one in enumerate(messages) if isinstance(one, HumanMessage)),
            default=0,
        )
        has_history = any(isinstance(one, AIMessage) for one in messages[:at])
        context = self._context(_session(request.runtime), messages[at] if messages else None)
        system = "\n\n".join(one.text for one in context.said if one.role == "system")
        told = sessions.remembered(context) if has_history else context.said
        told = [one for one in told if one.role != "system"]
        if (
            request.system_message is not None
        ):  # who the agent is says the framework's own prompt, where there is one
            prompt = next(
                (text for source, text in context.texts.items() if source.startswith("agents ")), ""
            )
            system = system.removeprefix(prompt).strip()
        return request.override(
            system_message=_joined(request.system_message, system),
            messages=[*messages[:at], *convert_to_messages(openai(told)), *messages[at:]],  # type: ignore[list-item]
        )

    def _context(self, session: str, asked: BaseMessage | None) -> Context:
        """What is remembered for a message, the same for every model call of a run."""
        words = str(asked.text) if isinstance(asked, HumanMessage) else ""
        run = session, asked.id if asked is not None else None
        with self._lock:
            known = self._runs.get(run)
        if known is None:
            known = sessions.context(self.scope, session, words, self.budget), time.monotonic()
            with self._lock:
                self._runs[run] = known
                while len(self._runs) > _RUNS:  # runs that never came to their end
                    self._runs.popitem(last=False)
        return known[0]

    def _offloaded(
        self, request: ToolCallRequest, result: ToolMessage | Command[Any]
    ) -> ToolMessage | Command[Any]:
        call = request.tool_call
        if not self.offload or call["name"] in {tool.name for tool in self.tools}:
            return result
        source = " ".join([call["name"], *map(str, call["args"].values())])[:120]
        if isinstance(result, ToolMessage):
            return self._shrunk(result, source, request)
        if isinstance(result.update, Mapping) and isinstance(result.update.get("messages"), list):
            given = result.update["messages"]
            kept = [
                self._shrunk(one, source, request) if isinstance(one, ToolMessage) else one
                for one in given
            ]
            return replace(result, update={**result.update, "messages": kept})
        return result

    def _shrunk(self, message: ToolMessage, source: str, request: ToolCallRequest) -> ToolMessage:
        """The message with a line in place of an output that is too large for a prompt; one with images stays."""
        output = message.content
        if isinstance(output, list):
            texts = [one if isinstance(one, str) else one.get("text") for one in output]
            if not all(isinstance(text, str) for text in texts):
                return message
            output = "\n".join(map(str, texts))
        session, status = _session(request.runtime), message.status.capitalize()
        about: dict[str, Any] = {"source": source, "status": status, "session": session}
        line = sessions.there(self.scope, session, lambda: self.scope.refs.capture(output, **about))
        return message if line == output else message.model_copy(update={"content": line})

    def _save(self, messages: Sequence[AnyMessage], runtime: Runtime[Any]) -> None:
        session, turn = _session(runtime), messages[_start(messages) :]
        question = next((one for one in turn[::-1] if isinstance(one, HumanMessage)), None)
        asked = None if question is None else question.id
        run = runtime.execution_info.run_id if runtime.execution_info is not None else None
        with self._lock:
            context, began = self._runs.pop((session, asked), (None, time.monotonic()))
        new = [
            talk.to_message(message_to_dict(one), f"messages[{place}]")
            for place, one in enumerate(turn)
        ]
        usage = _usage(
            [one for one in turn if isinstance(one, AIMessage)], (time.monotonic() - began) * 1000
        )
        about: dict[str, Any] = {
            "usage": usage,
            "key": _key(run, question) if run else asked,
            "context": context,
        }
        with suppress(KeyReused):  # a run that was repeated: it is kept as it was the first time
            sessions.keep(
                self.scope, session, new, lambda said: self.scope.save_turn(session, said, **about)
            )


def _key(run: str, question: HumanMessage | None) -> str:
    """A run that is repeated is kept once; another question under its id is another turn."""
    said = json.dumps(None if question is None else question.content, sort_keys=True, default=str)
    return f"{run} {hashlib.sha256(said.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _session(runtime: Any) -> str:
    given = getattr(runtime, "context", None)
    named = given.get("session") if isinstance(given, Mapping) else getattr(given, "session", None)
    named = get_config().get("configurable", {}).get("thread_id") if named is None else named
    if named is None:
        problem = (
            'is needed to know the session: agent.invoke(…, {"configurable": {"thread_id": "…"}})'
        )
        raise Invalid(field="thread_id", problem=problem)
    return str(named)


def _start(messages: Sequence[AnyMessage]) -> int:
    """Where the last turn begins: with everything that was said to the agent since it last said something."""
    last = max(
        (place for place, one in enumerate(messages) if isinstance(one, HumanMessage)), default=0
    )
    while last and not isinstance(messages[last - 1], AIMessage | ToolMessage):
        last -= 1
    return last


def _joined(before: SystemMessage | None, text: str) -> SystemMessage | None:
    if not text:
        return before
    if before is None:
        return SystemMessage(content=text)
    if isinstance(before.content, str):
        return before.model_copy(update={"content": f"{before.content}\n\n{text}"})
    return before.model_copy(update={"content": [*before.content, {"type": "text", "text": text}]})


def _usage(answers: Sequence[AIMessage], took: float) -> Usage | None:
    """What the model calls of a turn took, None where no model was called."""
    if not answers:
        return None
    said = [one.response_metadata for one in answers[::-1]]
    names = (metadata.get("model_name") or metadata.get("model") for metadata in said)
    spent = [one.usage_metadata for one in answers if one.usage_metadata]
    model = next((name for name in names if isinstance(name, str) and name), "unknown")
    tokens_in, tokens_out = (
        sum(one["input_tokens"] for one in spent),
        sum(one["output_tokens"] for one in spent),
    )
    return Usage(model, latency_ms=took, tokens_in=tokens_in, tokens_out=tokens_out)


def _tool(tool: Tool) -> BaseTool:
    def call(**arguments: Any) -> dict[str, Any]:
        return tool.call(arguments)

    async def acall(**arguments: Any) -> dict[str, Any]:
        return await asyncio.to_thread(tool.call, arguments)

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=dict(tool.parameters),
        func=call,
        coroutine=acall,
    )
