"""One turn of an agent: store the user's message, run the model and its tools, save the turn.

The message is stored first, so a failure never loses it. The same request with the same key
continues from there: a saved turn returns its answer again, an unsaved turn is run. No transaction
is open while a model writes.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

from memorist.base import canonical, ids, limits, masking
from memorist.base.errors import (
    BadAnswer,
    Conflict,
    Invalid,
    KeyReused,
    MemoristError,
    ModelError,
    ModelUnavailable,
)
from memorist.base.masking import OFF, Policy
from memorist.base.settings import Settings
from memorist.base.verbs import declared_verb
from memorist.chat import images as pictures
from memorist.chat import turn_lock
from memorist.chat.caller import Caller
from memorist.chat.enter_session import find_active_agent
from memorist.chat.events import Answer, ChatEvent, Emit, failure_event
from memorist.chat.images import Image, StoredImage
from memorist.chat.mcp_servers import McpConnections
from memorist.chat.no_model_answer import answer_without_model, with_cited
from memorist.chat.tools import Tools, prompt_call
from memorist.content import pairing
from memorist.content.message_content import (
    TOKENS_PER_IMAGE,
    WITHOUT_MODEL,
    Content,
    parse_content,
    spoken_text,
)
from memorist.context.assemble import Context
from memorist.jobs.summarize import fold_after_turn
from memorist.kinds.agents import NO_TOOLS, Agent
from memorist.kinds.extra_tools import ExtraTool, ToolFailure, function_tools
from memorist.kinds.interactions import Usage
from memorist.kinds.kind import Services
from memorist.kinds.page import encode_cursor
from memorist.kinds.sessions import Session
from memorist.kinds.turns import Turn
from memorist.memory import Scope
from memorist.models import ChatModel, Completion, ModelReply
from memorist.models.chat import MAX_CALLS
from memorist.models.recording import ModelCall

P = ParamSpec("P")
Result = TypeVar("Result")
_log = logging.getLogger("memorist.chat")
_MAX_NAME_LENGTH = 100
_LATENCY = "turn_latency_ms"
"""The parameter of a turn's last model call that holds the latency of all its calls."""


@dataclass(frozen=True)
class TurnInput:
    """What a user says in a turn: the message, and what belongs to it."""

    message: Content
    key: str | None = None
    """Idempotency key; a retry with the same key does only the steps that are not done yet."""
    images: Sequence[Image] = ()
    tools: Sequence[Callable[..., Any]] = ()
    """Python functions that the model may call in this turn, besides the agent's tools."""
    agents: Sequence[str] = ()
    """The agents of a group, in the order in which they answer; see `memorist.chat.group`."""


def run_turn(
    scope: Scope,
    session: str,
    turn_input: TurnInput,
    *,
    emit: Emit = lambda event: None,
    caller: Caller | None = None,
    fold: bool = True,
) -> Answer:
    """Run one turn of a session and return its answer.

    emit:   receives the events of the turn as they happen
    caller: the caller, whose permissions limit the tools
    fold:   summarize older messages after the turn if they are due; False if jobs do it

    Turns of one session run one after the other. Raises Busy after `turn_seconds` of waiting, and
    ModelError if the model fails; the message stays stored.
    """
    agent = None
    try:
        with begin_turn(scope, session, turn_input, caller) as open_turn:
            agent = open_turn.scope.owner.agent or ""
            result = answer_as(open_turn, agent, (), emit)
        if fold:
            fold_after_turn(scope.services, open_turn.scope.owner, open_turn.session.id)
        return result
    except MemoristError as error:
        emit(failure_event(error, agent, message_stored=agent is not None))
        raise
    finally:
        emit(ChatEvent("done"))


def turn_seconds(settings: Settings) -> float:
    """Return the time limit of a turn with all its tool calls, and of the wait for its session."""
    return max(limits.CHAT_SECONDS, limits.CHAT_MODEL_CALLS * settings.model_seconds)


@dataclass(frozen=True)
class OpenTurn:
    """A turn that holds its session and whose message is stored.

    again:     the message was stored by an earlier request with the same key
    overtaken: the session has later user messages
    functions: tools for this turn alone
    """

    scope: Scope
    session: Session
    key: str
    message: Content
    seq: int
    images: Sequence[StoredImage]
    again: bool
    overtaken: bool
    at: datetime | None = None
    caller: Caller | None = None
    functions: Sequence[ExtraTool] = ()

    @property
    def text(self) -> str:
        """The text of the message."""
        if isinstance(self.message, str):
            return self.message
        return spoken_text(_as_mapping(self.message))


def _functions(scope: Scope, functions: Sequence[Callable[..., Any]]) -> list[ExtraTool]:
    """Return functions as tools for one turn. Raise Invalid if one has a memory tool's name."""
    tools = function_tools(functions)
    for tool in scope.tools() if tools else ():
        if tool.name in tools:
            raise Invalid(field="tools", problem=f"{tool.name!r} is the name of a memory tool")
    return list(tools.values())


def check_message(settings: Settings, message: Content, images: Sequence[Image]) -> None:
    """Raise Invalid or TooLarge for a message that cannot be stored."""
    _check_content(settings, _message_to_store(message, pictures.check("", images)))


def _check_content(settings: Settings, content: Content) -> None:
    policy = Policy("reject") if settings.secrets == "reject" else OFF
    parse_content(content, "message", limits.MAX_MESSAGE_BYTES, policy)


@contextmanager
def begin_turn(
    scope: Scope, session: str, turn_input: TurnInput, caller: Caller | None
) -> Iterator[OpenTurn]:
    """Wait until the session is free, hold it, and store the message and its images.

    Raises Conflict if an agent of the turn (default: the scope's) is inactive and has not answered
    an earlier request with the same key.
    """
    functions = _functions(scope, turn_input.tools)
    message = turn_input.message
    key = ids.uuid7() if turn_input.key is None else canonical.key(turn_input.key, "key")
    database = scope.services.database
    stored = scope.sessions.get(session)
    scope = Scope(
        scope.services,
        replace(scope.owner, user=stored.user, agent=scope.owner.agent or stored.agent),
    )
    scope = scope if caller is None else caller.acting(scope, "chat", f"session {stored.id}")
    for name in turn_input.agents or [scope.owner.agent or ""]:
        try:
            find_active_agent(scope, name)
        except Conflict:
            if not has_answered(scope, stored.id, key, name):
                raise
    stored_images = pictures.check(stored.id, turn_input.images)
    content = _message_to_store(message, stored_images)
    _check_content(scope.services.settings, content)
    seconds = turn_seconds(scope.services.settings)
    with turn_lock.hold_session(database, scope.owner.tenant, stored.id, seconds):
        before = scope.sessions.get(stored.id).last_seq
        pictures.store(scope, stored.id, stored_images)
        try:
            user_message = _call(
                scope,
                scope.messages.append,
                stored.id,
                "user",
                content,
                key=derive_key(key, "asked"),
            )
        except KeyReused:
            raise KeyReused(key=key) from None  # name the caller's key, not the derived one
        again = user_message.seq <= before
        overtaken = again and database.read(
            scope.owner.tenant,
            lambda tx: scope.messages.has_user_message_after(tx, stored.id, user_message.seq),
        )
        yield OpenTurn(
            scope=scope,
            session=stored,
            key=key,
            message=content,
            seq=user_message.seq,
            images=stored_images,
            again=again,
            overtaken=overtaken,
            at=user_message.created_at,
            caller=caller,
            functions=functions,
        )


def answer_as(open_turn: OpenTurn, agent: str, others: Sequence[str], emit: Emit) -> Answer:
    """Return an agent's answer to the message: run and save the turn, or read the saved one."""
    scope = Scope(_lenient(open_turn.scope.services), replace(open_turn.scope.owner, agent=agent))
    session = open_turn.session.id
    key = answer_key(open_turn.key, agent)
    emit(
        ChatEvent(
            "start", agent, {"key": open_turn.key, "session": session, "asked_seq": open_turn.seq}
        )
    )
    turn = find_saved_turn(scope, session, key) if open_turn.again else None
    output = None
    if turn is None:
        output = _run_agent(scope, open_turn, others, emit)
        try:
            turn = _call(
                scope,
                scope.save_turn,
                session,
                output.messages,
                usage=output.usage,
                key=key,
                context=output.context,
            )
        except KeyReused:
            # This process lost its lease, and another one saved the turn.
            turn = find_saved_turn(scope, session, key)
            output = None
            if turn is None:
                raise
        except Invalid as error:
            # The user's message is stored already, so this is about the model's answer.
            raise BadAnswer(model=output.model, problem=f"it cannot be stored ({error})") from error
    result = build_answer(scope, open_turn, agent, turn, output)
    emit(ChatEvent("message", agent, result.as_json()))
    return result


@dataclass
class TurnOutput:
    """The messages of an agent in a turn, before they are saved."""

    messages: list[Mapping[str, Any]] = field(default_factory=list)
    replies: list[ModelReply] = field(default_factory=list)
    context: Context | None = None

    @property
    def model(self) -> str:
        """The name of the model; empty if none replied."""
        return _model_name(self.replies[-1].model) if self.replies else ""

    @property
    def usage(self) -> Usage | None:
        """The last model call, recorded with the turn; earlier calls are recorded already."""
        if not self.replies:
            return None
        last = self.replies[-1]
        parameters = {
            "round": len(self.replies),
            _LATENCY: _total_usage(self.replies)["latency_ms"],
        }
        return Usage(
            self.model,
            "chat",
            last.latency_ms,
            last.tokens_in,
            last.tokens_out,
            last.cost,
            parameters=parameters,
        )


def _run_agent(scope: Scope, open_turn: OpenTurn, others: Sequence[str], emit: Emit) -> TurnOutput:
    agent = find_active_agent(scope, scope.owner.agent or "")
    agent_model = agent.model if agent else ""
    services = scope.services
    model = services.models.named(agent_model)
    if model is None:
        session = open_turn.session.id
        text, cited = answer_without_model(scope, session, open_turn.text, open_turn.at)
        emit(ChatEvent("text", scope.owner.agent, {"delta": text, "round": 1}))
        # The context that a model would have received.
        context = _context(scope, open_turn, services.settings.context_budget(agent_model), others)
        context = with_cited(context, cited, session)
        return TurnOutput(
            [{"role": "assistant", "content": {"text": text, WITHOUT_MODEL: True}}], context=context
        )
    if not isinstance(model, ChatModel):
        raise ModelError(
            model=_model_name(model.name),
            problem="the model has no method `converse`, which a chat requires",
        )
    return _ToolLoop(scope, open_turn, model, agent, emit).run(others)


def _call(scope: Scope, verb: Callable[P, Result], *arguments: P.args, **named: P.kwargs) -> Result:
    """Call a verb of a scope; it is counted and traced like a request for it."""
    operation = declared_verb(verb).operation
    return scope.services.observer.call(operation, scope.owner, verb, *arguments, **named)


def _context(scope: Scope, open_turn: OpenTurn, room: int, others: Sequence[str]) -> Context:
    """Assemble the context of the turn.

    An empty message makes `assemble` ask for the last stored user message, which is this turn's,
    unless later ones overtook it.
    """
    return _call(
        scope,
        scope.context,
        open_turn.session.id,
        open_turn.message if open_turn.overtaken else "",
        budget=room,
        others=others,
    )


class _ToolLoop:
    """The rounds of a turn: call the model and its tools until it calls no more tools."""

    def __init__(
        self,
        scope: Scope,
        open_turn: OpenTurn,
        model: ChatModel,
        agent: Agent | None,
        emit: Emit,
    ) -> None:
        self._settings = scope.services.settings
        self._scope = scope
        self._open_turn = open_turn
        self._model = model
        self._emit = emit
        self._room = self._settings.context_budget(agent.model if agent else "")
        self._names = agent.tools if agent else []
        self._end = time.monotonic() + turn_seconds(self._settings)
        self._output = TurnOutput()
        self._missing: list[str] = []  # the agent's tools that cannot be used now

    def run(self, others: Sequence[str]) -> TurnOutput:
        """Run all rounds and return the messages of the turn."""
        with McpConnections(lambda: self._end - time.monotonic()) as servers:
            self._tools = Tools(
                self._scope,
                self._open_turn.session.id,
                self._names,
                self._room,
                self._open_turn.caller,
                [*self._extra_tools(servers), *self._open_turn.functions],
            )
            try:
                return self._run_rounds(others)
            except ModelError as error:
                if self._tools.changes:
                    raise error.after_changes(self._tools.changes) from error
                raise

    def _extra_tools(self, servers: McpConnections) -> Iterator[ExtraTool]:
        """Yield the agent's extra tools; collect the names of tools that cannot be used."""
        extra_tools = self._scope.services.extra_tools
        memory_tools = {tool.name for tool in self._scope.tools()}
        for name in dict.fromkeys(self._names):
            if name in memory_tools or name == NO_TOOLS:
                continue
            try:
                if name in extra_tools.servers:
                    yield from servers.tools(extra_tools.servers[name])
                else:
                    yield extra_tools.function(name)
            except ToolFailure as failure:
                _log.warning("Agent %s has no tool %s: %s", self._scope.owner.agent, name, failure)
                self._missing.append(name)

    def _run_rounds(self, others: Sequence[str]) -> TurnOutput:
        open_turn = self._open_turn
        output = self._output
        agent = self._scope.owner.agent
        room = max(
            self._room - TOKENS_PER_IMAGE * len(open_turn.images),
            self._room // 2,
        )
        output.context = _context(self._scope, open_turn, room, others)
        self._tools.check_earlier_results(output.context.messages)
        messages = pictures.show(output.context.messages, open_turn.images)
        if self._missing:
            notice = f"These tools cannot be used now: {', '.join(self._missing)}."
            messages[0] = {**messages[0], "content": f"{messages[0]['content']}\n\n{notice}"}
        for round in range(1, limits.CHAT_ROUNDS + 2):
            last = round > limits.CHAT_ROUNDS or self._tools.is_exhausted
            reply = self._clean_reply(self._call_model(messages, round, last))
            output.replies.append(reply)
            if last or not reply.calls:
                break
            self._record_call(reply, "")
            results = []
            for call in reply.calls:
                data = {"id": call.id, "name": call.name, "arguments": call.arguments}
                self._emit(ChatEvent("tool_call", agent, data))
            for result in self._tools.run(reply.calls):
                self._emit(ChatEvent("tool_result", agent, result.event_data()))
                results.append(result)
            result_messages = [result.message() for result in results]
            output.messages += [_assistant_message(reply), *result_messages]
            shortened = replace(reply, calls=[prompt_call(result) for result in results])
            messages += [_assistant_message(shortened), *result_messages]
        output.messages.append(self._final_message(reply))
        return output

    def _call_model(
        self, messages: Sequence[Mapping[str, Any]], round: int, last: bool
    ) -> ModelReply:
        started = time.monotonic()
        agent = self._scope.owner.agent
        left = self._end - started
        if left <= 0:
            seconds = turn_seconds(self._settings)
            problem = f"the turn took longer than {seconds:g} s; model_seconds can be raised"
            raise ModelUnavailable(model=_model_name(self._model.name), problem=problem)
        try:
            return self._model.converse(
                messages,
                self._tools.definitions,
                max_tokens=limits.CHAT_TOKENS,
                on_text=lambda delta: self._emit(
                    ChatEvent("text", agent, {"delta": delta, "round": round})
                ),
                use_tools=not last,
                seconds=left,
            )
        except Exception as error:  # a custom model may raise anything; each failure is recorded
            took = (time.monotonic() - started) * 1000
            self._record_call(
                ModelReply("", (), self._model.name, latency_ms=took),
                f"{type(error).__name__}: {error}",
            )
            if isinstance(error, MemoristError):
                raise
            problem = f"{type(error).__name__}: {error}"
            raise ModelError(model=_model_name(self._model.name), problem=problem) from error

    def _clean_reply(self, reply: ModelReply) -> ModelReply:
        """Return a reply that can be stored: its text cleaned, its tool calls limited."""
        policy = masking.derived(self._settings.masking)
        if policy.secrets == "flag":  # counted when the answer is stored
            policy = replace(policy, secrets="off")
        text = canonical.text(str(reply.text), "answer", 1 << 40, policy)
        return replace(reply, text=text, calls=self._tools.limit_arguments(reply.calls[:MAX_CALLS]))

    def _record_call(self, reply: ModelReply, error: str) -> None:
        """Record a model call before the last one of the turn."""
        completion = Completion(
            reply.text, reply.model, reply.tokens_in, reply.tokens_out, reply.cost, reply.latency_ms
        )
        call = ModelCall(
            _model_name(reply.model), reply.latency_ms, None if error else completion, error
        )
        services = self._scope.services
        services.record(services, self._scope.owner, "chat", call, self._open_turn.session.id)

    def _final_message(self, reply: ModelReply) -> Mapping[str, Any]:
        problem = ""
        if not reply.text.strip():
            problem = "it is empty"
            if reply.calls:
                problem = f"it still calls tools after {limits.CHAT_ROUNDS} rounds"
        elif len(reply.text.encode()) > limits.MAX_MESSAGE_BYTES // 2:
            problem = "it exceeds the maximum size of a message"
        if problem:
            self._record_call(reply, f"BadAnswer: {problem}")
            raise BadAnswer(model=_model_name(reply.model), problem=problem)
        content = {"text": reply.text, "cut": True} if reply.cut else reply.text
        totals = _total_usage(self._output.replies)
        del totals["latency_ms"]
        return {"role": "assistant", "content": content, **totals}


def build_answer(
    scope: Scope, open_turn: OpenTurn, agent: str, turn: Turn, output: TurnOutput | None
) -> Answer:
    """Return the answer of a turn, from its new messages or, if `output` is None, from storage."""
    result = Answer(
        open_turn.session.id,
        agent,
        open_turn.key,
        turn.id,
        first_seq=turn.first_seq,
        last_seq=turn.last_seq,
    )
    result = replace(result, asked_seq=open_turn.seq, again=output is None)
    if output is None:
        model_call = scope.services.database.read(
            scope.owner.tenant, lambda tx: scope.interactions.of_turn(tx, turn.interaction)
        )
        messages = scope.messages.list(
            turn.session,
            after=encode_cursor([turn.first_seq - 1]),
            limit=turn.last_seq - turn.first_seq + 1,
        )
        # Raises NotFound if the message was removed since.
        last = scope.messages.get(turn.session, turn.last_seq)
        called = []
        for message in messages:
            if message.seq <= last.seq:
                called += [call.name for call in pairing.tool_calls(message.content)]
        totals: dict[str, Any] = {
            "tokens_in": last.tokens_in or 0,
            "tokens_out": last.tokens_out or 0,
            "cost": last.cost,
        }
        if model_call is not None:
            latency = model_call.parameters.get(_LATENCY, model_call.latency_ms)
            totals |= {"model": model_call.model, "latency_ms": latency or 0.0}
        return replace(
            result,
            **totals,
            text=last.text,
            tools=called,
            without_model=WITHOUT_MODEL in last.content,
            cut="cut" in last.content,
        )
    if not output.replies:
        return replace(result, text=output.messages[-1]["content"]["text"], without_model=True)
    last_reply = output.replies[-1]
    called = [call.name for reply in output.replies[:-1] for call in reply.calls]
    totals = _total_usage(output.replies)
    return replace(
        result, **totals, text=last_reply.text, model=output.model, tools=called, cut=last_reply.cut
    )


def _total_usage(replies: Sequence[ModelReply]) -> dict[str, Any]:
    costs = [reply.cost for reply in replies if reply.cost is not None]
    return {
        "tokens_in": sum(reply.tokens_in for reply in replies),
        "tokens_out": sum(reply.tokens_out for reply in replies),
        "cost": sum(costs) if costs else None,
        "latency_ms": sum(reply.latency_ms for reply in replies),
    }


def _assistant_message(reply: ModelReply) -> dict[str, Any]:
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in reply.calls
    ]
    return {"role": "assistant", "content": reply.text, "tool_calls": calls}


def _lenient(services: Services) -> Services:
    """Return the services for a model's messages: they mask a secret instead of rejecting it."""
    settings = services.settings
    if settings.secrets != "reject":
        return services
    return replace(services, settings=replace(settings, secrets="mask"))


def answer_key(key: str, agent: str) -> str:
    """Return the key under which an agent's answer in a turn is saved."""
    return derive_key(key, f"answer of {agent}")


def has_answered(scope: Scope, session: str, key: str, agent: str) -> bool:
    """Return whether an agent's answer to an earlier request with the same key is saved."""
    scope = Scope(scope.services, replace(scope.owner, agent=agent))
    return find_saved_turn(scope, session, answer_key(key, agent)) is not None


def find_saved_turn(scope: Scope, session: str, key: str) -> Turn | None:
    """Return the turn that was saved with a key, or None."""
    return scope.services.database.read(
        scope.owner.tenant, lambda tx: scope.turns.of_key(tx, session, key)
    )


def _message_to_store(message: Content, images: Sequence[StoredImage]) -> Content:
    """Return the message to store, with a placeholder for each image."""
    if isinstance(message, str) and not isinstance(message, canonical.JsonText):
        value: Mapping[str, Any] = {"text": message}
    else:
        value = _as_mapping(message)
    if not spoken_text(value).strip() and not images:
        raise Invalid(field="message", problem="must contain text or an image")
    if not images:
        return message
    parts = value.get("parts", [])
    if not isinstance(parts, list):
        raise Invalid(field="message", problem="has `parts` that are not a list")
    return {**value, "parts": [*parts, *(image.part() for image in images)]}


def _as_mapping(message: Content) -> Mapping[str, Any]:
    value: Any = message
    if isinstance(message, canonical.JsonText):
        value = canonical.parse(message, "message")
    if not isinstance(value, Mapping):
        raise Invalid(field="message", problem="must be text or a JSON object")
    return value


def derive_key(key: str, step: str) -> str:
    """Return the idempotency key of one step of a turn."""
    return f"chat {hashlib.sha256(f'{key} {step}'.encode()).hexdigest()[:40]}"


def _model_name(model: str) -> str:
    return str(model)[:_MAX_NAME_LENGTH].strip() or "unnamed"
