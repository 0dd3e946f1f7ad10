"""Pydantic AI's capability: adds memory to model requests, offloads outputs, saves each turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any

from memorist.base.errors import Invalid
from memorist.context.assemble import Context
from memorist.context.render import openai
from memorist.kinds.interactions import Usage
from memorist.kinds.tool import Tool as MemoristTool
from memorist.memory import Scope
from memorist.models.chat import to_pydantic_ai
from memorist.models.provider import price
from memorist_frameworks.formats import pydantic_ai as message_format
from memorist_frameworks.pydantic_ai.store import dump_messages
from memorist_frameworks.require import require_extra, require_local_scope
from memorist_frameworks.sessions import recall, save_within_limits, without_recent_turns

with require_extra("pydantic-ai"):
    from pydantic_ai import FunctionToolset, RunContext, Tool
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        ModelMessage,
        ModelResponse,
        TextContent,
        ToolCallPart,
        UserContent,
    )
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import ToolDefinition


class MemoristMemory(AbstractCapability[Any]):
    """Memory for `Agent(capabilities=[MemoristMemory(scope)])`.

    Memory is added to model requests only, not to the messages of the run, so that it is not stored
    again. An agent with a history (a conversation store, `message_history`) gets everything but the
    recent turns.

    session: where turns are saved; without it, the run's conversation
    budget:  maximum number of tokens of the added context
    tools:   names of the memory tools that the agent gets; without it, all
    save:    save each turn; use False if a conversation store does
    """

    def __init__(
        self,
        scope: Scope,
        session: str | None = None,
        *,
        budget: int | None = None,
        tools: Sequence[str] | None = None,
        save: bool = True,
    ) -> None:
        self.scope = require_local_scope(scope)
        self.session = session
        self.budget = budget
        self.save = save
        self._tools = {tool.name: tool for tool in scope.tools(tools)}
        self._context: Context | None = None
        self._recalled: list[ModelMessage] = []
        self._started = 0.0

    def get_toolset(self) -> FunctionToolset[Any]:
        """Return the memory tools as a toolset."""
        return FunctionToolset([_to_pydantic_tool(tool) for tool in self._tools.values()])

    async def for_run(self, ctx: RunContext[Any]) -> MemoristMemory:
        """Return the capability of one run, with the recalled memory for its prompt."""
        run = copy(self)
        run.session = self.session or ctx.conversation_id
        run._started = time.monotonic()
        context = await asyncio.to_thread(
            recall, self.scope, run.session or "", _prompt_text(ctx.prompt), self.budget
        )
        messages = without_recent_turns(context) if ctx.messages else context.prompt
        run._context = context
        run._recalled = to_pydantic_ai(openai(messages))
        return run

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Insert the recalled memory before the messages of the request."""
        return replace(request_context, messages=[*self._recalled, *request_context.messages])

    async def after_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        result: Any,
    ) -> Any:
        """Replace a large output by the placeholder of its reference."""
        if call.tool_name in self._tools or not isinstance(result, str | dict | list):
            return result
        with suppress(Invalid):  # the result holds something that is not JSON
            source = f"{call.tool_name} {call.args_as_json_str()}"[:120]
            return await asyncio.to_thread(
                self.scope.refs.capture, result, source=source, session=self.session
            )
        return result

    async def after_run(
        self, ctx: RunContext[Any], *, result: AgentRunResult[Any]
    ) -> AgentRunResult[Any]:
        """Save the turn with its usage."""
        if self.save:
            latency_ms = (time.monotonic() - self._started) * 1000
            await asyncio.to_thread(self._save, result, latency_ms)
        return result

    def _save(self, result: AgentRunResult[Any], latency_ms: float) -> None:
        session = self.session or ""
        messages = result.new_messages()
        usage = _usage(messages, latency_ms)
        packed = [
            message_format.to_message({**message, "instructions": None})
            for message in dump_messages(messages)
        ]
        save_within_limits(
            self.scope,
            session,
            packed,
            lambda new: self.scope.save_turn(
                session, new, usage=usage, key=result.run_id, context=self._context
            ),
        )


def _usage(messages: Sequence[ModelMessage], latency_ms: float) -> Usage:
    answers = [message for message in messages if isinstance(message, ModelResponse)]
    names = [answer.model_name for answer in answers if answer.model_name]
    costs = [
        answer.usage.cost or price(answer.model_name or "", answer.usage) for answer in answers
    ]
    return Usage(
        names[-1] if names else "unknown",
        latency_ms=latency_ms,
        tokens_in=sum(answer.usage.input_tokens for answer in answers),
        tokens_out=sum(answer.usage.output_tokens for answer in answers),
        cost=None if None in costs else float(sum(cost for cost in costs if cost)),
    )


def _to_pydantic_tool(tool: MemoristTool) -> Tool[Any]:
    def call(**arguments: Any) -> dict[str, Any]:
        return tool.call(arguments)

    return Tool.from_schema(call, tool.name, tool.description, dict(tool.parameters))


def _prompt_text(prompt: str | Sequence[UserContent] | None) -> str:
    if prompt is None:
        return ""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(
        part if isinstance(part, str) else part.content
        for part in prompt
        if isinstance(part, str | TextContent)
    )
