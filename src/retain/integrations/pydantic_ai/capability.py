"""Pydantic AI: a store that keeps its conversations as our sessions, and a capability that gives an agent its memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any

from retain.base.errors import Invalid
from retain.context.assemble import Context
from retain.context.render import openai
from retain.integrations import _sessions as sessions
from retain.integrations._require import extra, local
from retain.integrations.pydantic_ai.store import written
from retain.kinds.interactions import Usage
from retain.kinds.tool import Tool as OurTool
from retain.memory import Scope
from retain.messages.formats import pydantic_ai as talk
from retain.models.chat import to_pydantic_ai
from retain.models.provider import price

with extra("pydantic-ai"):
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


class RetainMemory(AbstractCapability[Any]):
    """An agent's memory: what it is told before each run, tools to use it, and each turn kept after it.

    What is remembered is added to the requests alone, not to the messages of the run, so that memory is not remembered. The
    session is the run's conversation where none is given. An agent that is given its history by others (a conversation
    store, `message_history`) is told everything but the recent turns; `save=False` leaves the keeping to them, too.
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
        self.scope, self.session, self.budget, self.save = local(scope), session, budget, save
        self._tools = {tool.name: tool for tool in scope.tools(tools)}
        self._context: Context | None = None
        self._told: list[ModelMessage] = []
        self._began = 0.0

    def get_toolset(self) -> FunctionToolset[Any]:
        """Our tools, as Pydantic AI offers them to a model."""
        return FunctionToolset([_tool(tool) for tool in self._tools.values()])

    async def for_run(self, ctx: RunContext[Any]) -> RetainMemory:
        """The capability of one run, with what is remembered for its prompt."""
        run = copy(self)
        run.session, run._began = self.session or ctx.conversation_id, time.monotonic()
        asked = _words(ctx.prompt)
        found = await asyncio.to_thread(
            sessions.context, self.scope, run.session or "", asked, self.budget
        )
        run._context = found
        run._told = to_pydantic_ai(
            openai(sessions.remembered(found) if ctx.messages else found.said)
        )
        return run

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Tell the model what is remembered, before everything else."""
        return replace(request_context, messages=[*self._told, *request_context.messages])

    async def after_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        result: Any,
    ) -> Any:
        """Keep a large output as a reference, and tell the model its placeholder."""
        if call.tool_name in self._tools or not isinstance(result, str | dict | list):
            return result
        with suppress(Invalid):  # it has something in it that is no JSON
            source = f"{call.tool_name} {call.args_as_json_str()}"[:120]
            return await asyncio.to_thread(
                self.scope.refs.capture, result, source=source, session=self.session
            )
        return result

    async def after_run(
        self, ctx: RunContext[Any], *, result: AgentRunResult[Any]
    ) -> AgentRunResult[Any]:
        """Keep the turn, with what it took."""
        if self.save:
            await asyncio.to_thread(self._save, result, (time.monotonic() - self._began) * 1000)
        return result

    def _save(self, result: AgentRunResult[Any], took: float) -> None:
        new = result.new_messages()
        answers = [message for message in new if isinstance(message, ModelResponse)]
        model = next(
            (answer.model_name for answer in answers[::-1] if answer.model_name), "unknown"
        )
        costs = [
            answer.usage.cost or price(answer.model_name or "", answer.usage) for answer in answers
        ]
        usage = Usage(
            model,
            latency_ms=took,
            tokens_in=sum(answer.usage.input_tokens for answer in answers),
            tokens_out=sum(answer.usage.output_tokens for answer in answers),
            cost=None if None in costs else float(sum(cost for cost in costs if cost)),
        )
        said = [talk.to_message({**message, "instructions": None}) for message in written(new)]
        about: dict[str, Any] = {"usage": usage, "key": result.run_id, "context": self._context}
        session = self.session or ""
        sessions.keep(
            self.scope, session, said, lambda new: self.scope.save_turn(session, new, **about)
        )


def _tool(tool: OurTool) -> Tool[Any]:
    def call(**arguments: Any) -> dict[str, Any]:
        return tool.call(arguments)

    return Tool.from_schema(call, tool.name, tool.description, dict(tool.parameters))


def _words(prompt: str | Sequence[UserContent] | None) -> str:
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    return "\n".join(
        part if isinstance(part, str) else part.content
        for part in prompt
        if isinstance(part, str | TextContent)
    )
