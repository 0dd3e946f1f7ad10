"""Microsoft Agent Framework: a history provider over our sessions, and a context provider that gives an agent its memory.

The history provider keeps the conversation, and loads it; the context provider tells what else is remembered, so the two
go together: `context_providers=[RetainHistoryProvider(me), RetainContextProvider(me)]`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from retain.base.errors import Invalid, NotFound
from retain.integrations import _sessions as sessions
from retain.integrations._require import extra, local
from retain.kinds.tool import Tool
from retain.memory import Scope
from retain.messages.formats import agent_framework as talk
from retain.messages.message import Message as Stored
from retain.messages.message import NewMessage

with extra("agent-framework"):
    from agent_framework import (
        AgentSession,
        Content,
        ContextProvider,
        FunctionInvocationContext,
        FunctionMiddleware,
        FunctionTool,
        HistoryProvider,
        Message,
        SessionContext,
        SupportsAgentRun,
    )
    from agent_framework._sessions import filter_new_messages


class RetainHistoryProvider(HistoryProvider):
    """The conversation of each session as our messages; a session is made when the first of them is saved."""

    DEFAULT_SOURCE_ID: ClassVar[str] = "retain_history"

    def __init__(
        self,
        scope: Scope,
        source_id: str = DEFAULT_SOURCE_ID,
        *,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        skip_excluded: bool = False,
    ) -> None:
        super().__init__(
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self.scope, self.skip_excluded = local(scope), skip_excluded

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Every message of a session, the oldest first; one that is not there has none."""
        found = await asyncio.to_thread(self._load, _named(session_id))
        return [
            one
            for one in found
            if not (self.skip_excluded and one.additional_properties.get("_excluded", False))
        ]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add those of the messages that are not there yet, all or none."""
        if messages:
            await asyncio.to_thread(self._save, _named(session_id), messages)

    def _load(self, session: str) -> list[Message]:
        with suppress(NotFound):
            return [_message(one) for one in self.scope.messages.window(session)]
        return []

    def _save(self, session: str, messages: Sequence[Message]) -> None:
        packed = [talk.to_message(one.to_dict()) for one in messages]

        def save(given: Sequence[NewMessage]) -> None:
            def work(inner: Scope) -> None:
                # The framework looks for what overlaps; no more can than there are new ones.
                recent = inner.messages.window(session, last=len(messages) + 1)
                new = filter_new_messages(
                    [_message(one) for one in recent], messages
                )  # the last of them
                sessions.extend(inner, session, given[len(given) - len(new) :])

            self.scope.transaction(work, lock=f"history {session}")

        sessions.keep(self.scope, session, packed, save)


class RetainContextProvider(ContextProvider):
    """What is remembered beside the conversation: told before each run, with tools to use it, and what the run took.

    Large outputs of other tools become references. The recent turns are the history provider's to tell.
    """

    DEFAULT_SOURCE_ID: ClassVar[str] = "retain_memory"

    def __init__(
        self,
        scope: Scope,
        source_id: str = DEFAULT_SOURCE_ID,
        *,
        budget: int | None = None,
        tools: Sequence[str] | None = None,
    ) -> None:
        super().__init__(source_id)
        self.scope, self.budget = local(scope), budget
        self._tools = scope.tools(tools)

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Tell the agent what is remembered for what it is asked, and give it our tools."""
        name, asked = (
            _named(context.session_id),
            "\n".join(one.text for one in context.input_messages if one.text),
        )
        told = sessions.remembered(
            await asyncio.to_thread(sessions.context, self.scope, name, asked, self.budget)
        )
        context.extend_instructions(
            self.source_id, [one.text for one in told if one.role == "system"]
        )
        context.extend_messages(
            self, [Message("user", [one.text]) for one in told if one.role == "user"]
        )
        context.extend_tools(self.source_id, [_tool(tool) for tool in self._tools])
        context.extend_middleware(
            self.source_id, _Offload(self.scope, name, {tool.name for tool in self._tools})
        )
        context.metadata[self.source_id] = time.monotonic()

    async def after_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Keep what the run took."""
        if context.response is None or context.response.usage_details is None:
            return
        used = context.response.usage_details
        took = (time.monotonic() - context.metadata.get(self.source_id, time.monotonic())) * 1000
        await asyncio.to_thread(
            self.scope.interactions.add,
            "chat",
            _model(agent, context.response.raw_representation),
            latency_ms=took,
            tokens_in=used.get("input_token_count") or 0,
            tokens_out=used.get("output_token_count") or 0,
            session=context.session_id,
        )


class _Offload(FunctionMiddleware):
    """Keeps a large output of a tool as a reference, and tells the model its placeholder."""

    def __init__(self, scope: Scope, session: str, ours: set[str]) -> None:
        self._scope, self._session, self._ours = scope, session, ours

    async def process(
        self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        await call_next()
        result = context.result
        if context.function.name in self._ours or not isinstance(result, list):
            return
        if result and all(isinstance(one, Content) and one.type == "text" for one in result):
            text = "\n".join(one.text or "" for one in result)
            source = f"{context.function.name} {context.arguments}"[:120]
            kept = await asyncio.to_thread(
                self._scope.refs.capture, text, source=source, session=self._session
            )
            if kept is not text:
                context.result = [Content.from_text(kept)]


def _named(session: str | None) -> str:
    if session is None:
        raise Invalid(
            field="session_id",
            problem="is needed here: run the agent with agent.create_session(session_id=…)",
        )
    return session


def _message(stored: Stored) -> Message:
    try:
        return Message.from_dict(talk.from_message(stored))
    except (TypeError, ValueError):  # not as the framework wrote it: somebody else did
        return Message.from_dict(talk.convert_foreign(stored))


def _model(agent: SupportsAgentRun, raw: Any) -> str:
    """The model that answered, as the service says, whole or piece by piece; else the one that it was asked for."""
    asked = [*(raw if isinstance(raw, list) else [raw]), getattr(agent, "client", None)]
    names = [getattr(one, "model", None) for one in asked]
    return next((name for name in names if isinstance(name, str) and name.strip()), "unknown")


def _tool(tool: Tool) -> FunctionTool:
    async def call(**arguments: Any) -> dict[str, Any]:
        return await asyncio.to_thread(tool.call, arguments)

    return FunctionTool(
        name=tool.name, description=tool.description, func=call, input_model=dict(tool.parameters)
    )
