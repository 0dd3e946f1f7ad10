"""Microsoft Agent Framework: a history provider and a context provider.

The history provider stores and loads the conversation; the context provider adds everything else
that is remembered. Use both:
`context_providers=[MemoristHistoryProvider(scope), MemoristContextProvider(scope)]`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar

from memorist.base.errors import Invalid, NotFound
from memorist.content.message import Message as StoredMessage
from memorist.content.message import NewMessage
from memorist.kinds.tool import Tool
from memorist.memory import Scope
from memorist_frameworks.formats import agent_framework as message_format
from memorist_frameworks.require import require_extra, require_local_scope
from memorist_frameworks.sessions import (
    extend,
    recall,
    save_within_limits,
    without_recent_turns,
)

with require_extra("agent-framework"):
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


class MemoristHistoryProvider(HistoryProvider):
    """The conversation of each session. The first saved message creates the session."""

    DEFAULT_SOURCE_ID: ClassVar[str] = "memorist_history"

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
        self.scope = require_local_scope(scope)
        self.skip_excluded = skip_excluded

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return every message of a session, oldest first; a missing session has none."""
        messages = await asyncio.to_thread(self._load, _require_id(session_id))
        if not self.skip_excluded:
            return messages
        return [
            message
            for message in messages
            if not message.additional_properties.get("_excluded", False)
        ]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Append the messages that are not stored yet, all or none."""
        if messages:
            await asyncio.to_thread(self._save, _require_id(session_id), messages)

    def _load(self, session: str) -> list[Message]:
        try:
            stored = self.scope.messages.window(session)
        except NotFound:
            return []
        return [_to_framework(message) for message in stored]

    def _save(self, session: str, messages: Sequence[Message]) -> None:
        def save(packed: Sequence[NewMessage]) -> None:
            def work(inner: Scope) -> None:
                # The framework finds the overlap, which is no longer than the new messages.
                recent = inner.messages.window(session, last=len(messages) + 1)
                stored = [_to_framework(message) for message in recent]
                new_count = len(filter_new_messages(stored, messages))
                extend(inner, session, packed[len(packed) - new_count :])

            self.scope.transaction(work, lock=f"history {session}")

        packed = [message_format.to_message(message.to_dict()) for message in messages]
        save_within_limits(self.scope, session, packed, save)


class MemoristContextProvider(ContextProvider):
    """Adds memory and its tools before each run, and records the usage afterwards.

    Large outputs of other tools become references. The history provider adds the recent turns.
    """

    DEFAULT_SOURCE_ID: ClassVar[str] = "memorist_memory"

    def __init__(
        self,
        scope: Scope,
        source_id: str = DEFAULT_SOURCE_ID,
        *,
        budget: int | None = None,
        tools: Sequence[str] | None = None,
    ) -> None:
        super().__init__(source_id)
        self.scope = require_local_scope(scope)
        self.budget = budget
        self._tools = scope.tools(tools)

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Add the recalled memory for the input, and our tools."""
        session_id = _require_id(context.session_id)
        question = "\n".join(message.text for message in context.input_messages if message.text)
        recalled = await asyncio.to_thread(recall, self.scope, session_id, question, self.budget)
        messages = without_recent_turns(recalled)
        instructions = [message.text for message in messages if message.role == "system"]
        memories = [
            Message("user", [message.text]) for message in messages if message.role == "user"
        ]
        tool_names = {tool.name for tool in self._tools}
        context.extend_instructions(self.source_id, instructions)
        context.extend_messages(self, memories)
        context.extend_tools(self.source_id, [_to_function_tool(tool) for tool in self._tools])
        context.extend_middleware(self.source_id, _Offload(self.scope, session_id, tool_names))
        context.metadata[self.source_id] = time.monotonic()

    async def after_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Record the tokens and the time of the run."""
        if context.response is None or context.response.usage_details is None:
            return
        usage = context.response.usage_details
        now = time.monotonic()
        started = context.metadata.get(self.source_id, now)
        await asyncio.to_thread(
            self.scope.interactions.add,
            "chat",
            _model_name(agent, context.response.raw_representation),
            latency_ms=(now - started) * 1000,
            tokens_in=usage.get("input_token_count") or 0,
            tokens_out=usage.get("output_token_count") or 0,
            session=context.session_id,
        )


class _Offload(FunctionMiddleware):
    """Stores a large tool output as a reference and shows the model its placeholder."""

    def __init__(self, scope: Scope, session: str, own_tools: set[str]) -> None:
        self._scope = scope
        self._session = session
        self._own_tools = own_tools

    async def process(
        self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        await call_next()
        result = context.result
        if context.function.name in self._own_tools or not isinstance(result, list):
            return
        if result and all(isinstance(part, Content) and part.type == "text" for part in result):
            text = "\n".join(part.text or "" for part in result)
            source = f"{context.function.name} {context.arguments}"[:120]
            captured = await asyncio.to_thread(
                self._scope.refs.capture, text, source=source, session=self._session
            )
            if captured is not text:
                context.result = [Content.from_text(captured)]


def _require_id(session_id: str | None) -> str:
    if session_id is None:
        raise Invalid(
            field="session_id",
            problem="is required: run the agent with agent.create_session(session_id=…)",
        )
    return session_id


def _to_framework(stored: StoredMessage) -> Message:
    try:
        return Message.from_dict(message_format.from_message(stored))
    except (TypeError, ValueError):  # not in the framework's form: another client wrote it
        return Message.from_dict(message_format.convert_foreign(stored))


def _model_name(agent: SupportsAgentRun, raw: Any) -> str:
    """Return the model that the response names, else the model of the agent's client."""
    responses = raw if isinstance(raw, list) else [raw]
    for source in (*responses, getattr(agent, "client", None)):
        name = getattr(source, "model", None)
        if isinstance(name, str) and name.strip():
            return name
    return "unknown"


def _to_function_tool(tool: Tool) -> FunctionTool:
    async def call(**arguments: Any) -> dict[str, Any]:
        return await asyncio.to_thread(tool.call, arguments)

    return FunctionTool(
        name=tool.name, description=tool.description, func=call, input_model=dict(tool.parameters)
    )
