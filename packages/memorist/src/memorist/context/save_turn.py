"""Save a turn in one write: messages, references to large outputs, model call, report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from memorist.base import canonical, limits, tokens
from memorist.base.errors import InDoubt, Invalid
from memorist.content import pairing
from memorist.content.message import NewMessage, to_new_message
from memorist.content.message_content import Content
from memorist.context.report import Report
from memorist.kinds.interactions import Interactions, Usage, checked
from memorist.kinds.kind import Owner, Services
from memorist.kinds.messages.message_rows import new_rows
from memorist.kinds.messages.messages import AlreadyAdded, Messages
from memorist.kinds.refs import NewReference, Prepared, Refs
from memorist.kinds.turns import Turn, Turns
from memorist.storage.database import Transaction

MAX_COMMAND_CHARACTERS = 120


@dataclass(frozen=True)
class NewTurn:
    """A turn to be saved: its messages, its last model call and the report of its context."""

    session: str
    messages: Sequence[NewMessage | Mapping[str, Any]]
    usage: Usage | Mapping[str, Any] | None = None
    key: str | None = None
    report: Report | None = None


def save_turn(services: Services, owner: Owner, turn: NewTurn) -> Turn:
    """Add a turn to a session; with a `key`, a retry changes nothing and returns the same turn."""
    session = canonical.key(turn.session, "session")
    messages, usage, key, report = turn.messages, turn.usage, turn.key, turn.report
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence) or not messages:
        raise Invalid(field="messages", problem="must be a non-empty list of messages")
    call = None if usage is None else checked(owner, services.settings, _usage(usage), session)
    new_messages = [to_new_message(message, index) for index, message in enumerate(messages)]
    once = None if key is None else (canonical.key(key, "key"), _digest(new_messages))
    stored_report = None
    if report is not None:
        stored_report = json.dumps(report.as_json(), ensure_ascii=False, separators=(",", ":"))

    refs = Refs(services, replace(owner, source="tool"))
    turns = Turns(services, owner)
    stored_messages = Messages(services, owner)
    prepared: list[Prepared] = []

    def write(tx: Transaction) -> Turn:
        added = stored_messages.add_rows(tx, session, rows, None, once)
        for reference in prepared:
            refs.add_row(tx, reference)
        interaction = None
        if call is not None:
            Interactions(services, owner).insert_row(tx, call)
            interaction = call["id"]
        first = added[0].seq
        last = added[-1].seq
        return turns.add_row(tx, session, first, last, interaction, stored_report)

    def read_first_result(tx: Transaction) -> Turn:
        assert once is not None
        return turns.of_messages(tx, session, stored_messages.numbers(tx, session, *once)[1])

    is_settled = True
    try:
        shortened = _capture_outputs(refs, session, new_messages, prepared)
        rows = new_rows(owner, services.settings, shortened)
        return turns._write(
            "save",
            write,
            row=lambda turn: {"id": turn.id},
            idempotent=once is not None,
        )
    except AlreadyAdded:
        return services.database.read(owner.tenant, read_first_result)
    except InDoubt:
        is_settled = False  # it is unknown if the references are stored; the next purge cleans up
        raise
    finally:
        if is_settled:
            for reference in prepared:
                services.blobs.settle(owner.tenant, reference.stored)


def _usage(usage: Usage | Mapping[str, Any]) -> Usage:
    if isinstance(usage, Usage):
        return usage
    names = Usage.__dataclass_fields__
    if not isinstance(usage, Mapping):
        raise Invalid(field="usage", problem="must be a Usage, or an object with its fields")
    unknown = sorted(usage.keys() - names.keys(), key=str)
    if unknown or "model" not in usage:
        problem = f"has an unknown field {unknown[0]!r}" if unknown else "must name a model"
        raise Invalid(field="usage", problem=f"{problem}; its fields are {', '.join(names)}")
    return Usage(**usage)


def _digest(messages: Sequence[NewMessage]) -> str:
    """Return a hash of the messages as they were sent, before outputs became references."""
    hashed = []
    for message in messages:
        content = message.content
        raw: Any = {"text": content}
        if not isinstance(content, str) or isinstance(content, canonical.JsonText):
            raw = canonical.dump(content, "content", limits.MAX_REF_BYTES)
        rest = {
            name: str(value)
            for name, value in vars(message).items()
            if value is not None and name != "content"
        }
        hashed.append({**rest, "content": raw})
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()


def _capture_outputs(
    refs: Refs,
    session: str,
    messages: Sequence[NewMessage],
    prepared: list[Prepared],
) -> list[NewMessage]:
    """Replace each large tool output by a placeholder line; append its reference to `prepared`."""
    commands: dict[str, str] = {}

    def shrink(output: Any, id: str) -> Any:
        text = output
        if not isinstance(output, str):
            text = json.dumps(output, ensure_ascii=False, default=str)
        if tokens.estimate(text) <= limits.REF_TOKENS:
            return output
        command = commands.get(id, "")
        reference = refs.prepare(
            NewReference(output, source=command, session=session, type="command_output")
        )
        prepared.append(reference)
        return reference.line

    shortened: list[NewMessage] = []
    for index, message in enumerate(messages):
        content = message.content
        value: Any = content
        if isinstance(content, canonical.JsonText):
            value = canonical.parse(content, f"messages[{index}].content")
        if isinstance(value, Mapping):
            commands |= {call.id: _command(call) for call in pairing.tool_calls(value) if call.id}
        shrunk = _shrink(message.role, content, value, shrink)
        shortened.append(replace(message, content=shrunk))
    return shortened


def _command(call: pairing.ToolCall) -> str:
    """Return a tool call as one line: its name and its arguments."""
    arguments = call.arguments
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    values = arguments.values() if isinstance(arguments, Mapping) else [arguments]
    return " ".join([call.name, *map(_word, values)])[:MAX_COMMAND_CHARACTERS]


def _word(value: Any) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value)
    except RecursionError:
        return "…"


def _shrink(role: str, content: Content, value: Any, shrink: Callable[[Any, str], Any]) -> Content:
    """Return content with its tool outputs shrunk, or the same object if nothing changes."""
    if isinstance(value, str):
        return shrink(value, "") if role == "tool" else content
    if not isinstance(value, Mapping):
        return content
    shrunk = pairing.shrink_outputs(role, value, shrink)
    return content if shrunk == value else shrunk
