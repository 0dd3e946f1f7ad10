"""LangChain's agent middleware: adds memory to model calls, offloads outputs, saves each turn."""

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

from memorist.base.errors import Invalid, KeyReused
from memorist.context.assemble import Context
from memorist.context.render import openai
from memorist.kinds.interactions import Usage
from memorist.kinds.tool import Tool
from memorist.memory import Scope
from memorist_frameworks.formats import langchain as message_format
from memorist_frameworks.require import require_extra, require_local_scope
from memorist_frameworks.sessions import (
    create_if_missing,
    recall,
    save_within_limits,
    without_recent_turns,
)

with require_extra("langchain"):
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

READ_TOOLS = ("retrieve_memory", "search_memory")
"""Tools that open the references and memories that a prompt only names."""
MAX_OPEN_RUNS = 256


class MemoristMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Memory for `create_agent(middleware=[MemoristMiddleware(memory.scope(user="ada"))])`.

    The session is the run's `thread_id`, or `session` of the runtime's context. Memory is added to
    model requests only, not to the agent's state, so that it is not stored again. An agent with a
    checkpointer has its own history: its requests get everything but the recent turns.

    budget:  maximum number of tokens of the added context
    offload: store large tool outputs as references, and show the model their placeholders
    tools:   names of the memory tools that the agent gets
    """

    def __init__(
        self,
        scope: Scope,
        *,
        budget: int | None = None,
        offload: bool = True,
        tools: Sequence[str] | None = READ_TOOLS,
    ) -> None:
        super().__init__()
        self.scope = require_local_scope(scope)
        self.budget = budget
        self.offload = offload
        self.tools: Sequence[BaseTool] = [_to_langchain_tool(tool) for tool in scope.tools(tools)]
        # The context of each open run and when it started, by session and question.
        self._runs: OrderedDict[tuple[str, str | None], tuple[Context, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Add the recalled memory to the request."""
        return handler(self._add_memory(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Add the recalled memory to the request."""
        return await handler(await asyncio.to_thread(self._add_memory, request))

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Replace a large output by the placeholder of its reference."""
        return self._offload_output(request, handler(request))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Replace a large output by the placeholder of its reference."""
        return await asyncio.to_thread(self._offload_output, request, await handler(request))

    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Save the turn, once per run."""
        self._save(state["messages"], runtime)

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Save the turn, once per run."""
        await asyncio.to_thread(self._save, state["messages"], runtime)

    def _add_memory(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Return the request with its context: our text as system text, recalled text fenced."""
        messages = request.messages
        position = _last_question(messages)
        has_history = any(isinstance(message, AIMessage) for message in messages[:position])
        question = messages[position] if messages else None
        context = self._context(_session(request.runtime), question)
        system = "\n\n".join(message.text for message in context.prompt if message.role == "system")
        if request.system_message is not None:
            # The framework's own prompt says who the agent is: leave out ours.
            own_prompt = next(
                (text for source, text in context.texts.items() if source.startswith("agents ")), ""
            )
            system = system.removeprefix(own_prompt).strip()
        recalled = without_recent_turns(context) if has_history else context.prompt
        recalled = [message for message in recalled if message.role != "system"]
        added = convert_to_messages(openai(recalled))
        return request.override(
            system_message=_append_text(request.system_message, system),
            messages=[*messages[:position], *added, *messages[position:]],  # type: ignore[list-item]
        )

    def _context(self, session: str, question: BaseMessage | None) -> Context:
        """Return the context for a question, the same for every model call of a run."""
        text = str(question.text) if isinstance(question, HumanMessage) else ""
        run = (session, question.id if question is not None else None)
        with self._lock:
            cached = self._runs.get(run)
        if cached is None:
            cached = (recall(self.scope, session, text, self.budget), time.monotonic())
            with self._lock:
                self._runs[run] = cached
                while len(self._runs) > MAX_OPEN_RUNS:  # runs that never finished
                    self._runs.popitem(last=False)
        return cached[0]

    def _offload_output(
        self, request: ToolCallRequest, result: ToolMessage | Command[Any]
    ) -> ToolMessage | Command[Any]:
        call = request.tool_call
        if not self.offload or call["name"] in {tool.name for tool in self.tools}:
            return result
        source = " ".join([call["name"], *map(str, call["args"].values())])[:120]
        if isinstance(result, ToolMessage):
            return self._shrink(result, source, request)
        if isinstance(result.update, Mapping) and isinstance(result.update.get("messages"), list):
            messages = [
                self._shrink(message, source, request)
                if isinstance(message, ToolMessage)
                else message
                for message in result.update["messages"]
            ]
            return replace(result, update={**result.update, "messages": messages})
        return result

    def _shrink(self, message: ToolMessage, source: str, request: ToolCallRequest) -> ToolMessage:
        """Replace a large text output by its placeholder; keep a message with images."""
        output = message.content
        if isinstance(output, list):
            texts = [part if isinstance(part, str) else part.get("text") for part in output]
            if not all(isinstance(text, str) for text in texts):
                return message
            output = "\n".join(map(str, texts))
        session = _session(request.runtime)
        status = message.status.capitalize()
        captured = create_if_missing(
            self.scope,
            session,
            lambda: self.scope.refs.capture(output, source=source, status=status, session=session),
        )
        if captured == output:
            return message
        return message.model_copy(update={"content": captured})

    def _save(self, messages: Sequence[AnyMessage], runtime: Runtime[Any]) -> None:
        session = _session(runtime)
        turn = messages[_turn_start(messages) :]
        question = next(
            (message for message in reversed(turn) if isinstance(message, HumanMessage)), None
        )
        question_id = None if question is None else question.id
        now = time.monotonic()
        with self._lock:
            context, started = self._runs.pop((session, question_id), (None, now))
        run_id = None if runtime.execution_info is None else runtime.execution_info.run_id
        key = _key(run_id, question) if run_id else question_id
        answers = [message for message in turn if isinstance(message, AIMessage)]
        usage = _usage(answers, (now - started) * 1000)
        packed = [
            message_format.to_message(message_to_dict(message), f"messages[{n}]")
            for n, message in enumerate(turn)
        ]
        with suppress(KeyReused):  # a repeated run: what it saved the first time stays
            save_within_limits(
                self.scope,
                session,
                packed,
                lambda new: self.scope.save_turn(
                    session, new, usage=usage, key=key, context=context
                ),
            )


def _key(run_id: str, question: HumanMessage | None) -> str:
    """Return the idempotency key of a turn: the run, and a hash of the question."""
    content = json.dumps(
        None if question is None else question.content, sort_keys=True, default=str
    )
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{run_id} {digest[:16]}"


def _session(runtime: Any) -> str:
    context = getattr(runtime, "context", None)
    if isinstance(context, Mapping):
        session = context.get("session")
    else:
        session = getattr(context, "session", None)
    if session is None:
        session = get_config().get("configurable", {}).get("thread_id")
    if session is None:
        problem = (
            "is required to identify the session: "
            'agent.invoke(…, {"configurable": {"thread_id": "…"}})'
        )
        raise Invalid(field="thread_id", problem=problem)
    return str(session)


def _last_question(messages: Sequence[AnyMessage]) -> int:
    """Return the position of the last human message, 0 if there is none."""
    positions = [n for n, message in enumerate(messages) if isinstance(message, HumanMessage)]
    return positions[-1] if positions else 0


def _turn_start(messages: Sequence[AnyMessage]) -> int:
    """Return where the last turn starts: after the last answer that precedes the question."""
    start = _last_question(messages)
    while start and not isinstance(messages[start - 1], AIMessage | ToolMessage):
        start -= 1
    return start


def _append_text(message: SystemMessage | None, text: str) -> SystemMessage | None:
    if not text:
        return message
    if message is None:
        return SystemMessage(content=text)
    content: Any
    if isinstance(message.content, str):
        content = f"{message.content}\n\n{text}"
    else:
        content = [*message.content, {"type": "text", "text": text}]
    return message.model_copy(update={"content": content})


def _usage(answers: Sequence[AIMessage], latency_ms: float) -> Usage | None:
    """Return the usage of the model calls of a turn, None if no model was called."""
    if not answers:
        return None
    model = "unknown"
    for answer in reversed(answers):
        metadata = answer.response_metadata
        name = metadata.get("model_name") or metadata.get("model")
        if isinstance(name, str) and name:
            model = name
            break
    usages = [answer.usage_metadata for answer in answers if answer.usage_metadata]
    return Usage(
        model,
        latency_ms=latency_ms,
        tokens_in=sum(usage["input_tokens"] for usage in usages),
        tokens_out=sum(usage["output_tokens"] for usage in usages),
    )


def _to_langchain_tool(tool: Tool) -> BaseTool:
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
