"""Saving a turn: its messages, the references its big outputs became, the model call and the report, whole or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from retain.base import canonical, limits, tokens
from retain.base.errors import InDoubt, Invalid
from retain.context.explain import Report
from retain.kinds.interactions import Interactions, Usage, checked
from retain.kinds.kind import Owner, Services
from retain.kinds.messages.messages import Messages, Seen
from retain.kinds.messages.new_message import new_rows
from retain.kinds.refs.refs import Prepared, Refs
from retain.kinds.turns import Turn, Turns
from retain.messages import pairing
from retain.messages.content import Content
from retain.messages.message import NewMessage, message_fields
from retain.storage.database import Transaction

_SHORT = 120


def save(
    services: Services,
    owner: Owner,
    session: str,
    messages: Sequence[NewMessage | Mapping[str, Any]],
    usage: Usage | Mapping[str, Any] | None,
    key: str | None,
    report: Report | None,
) -> Turn:
    """Add a turn to a session; with a `key`, doing it again changes nothing and answers as the first time."""
    canonical.key(session, "session")
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence) or not messages:
        raise Invalid(field="messages", problem="must be a list of messages that is not empty")
    call = None if usage is None else checked(owner, services.settings, _usage(usage), session)
    given = [message_fields(message, place) for place, message in enumerate(messages)]
    once = None if key is None else (canonical.key(key, "key"), _digest(services, given))
    refs, turns, kept = (
        Refs(services, replace(owner, source="tool")),
        Turns(services, owner),
        Messages(services, owner),
    )
    written = (
        None
        if report is None
        else json.dumps(report.as_json(), ensure_ascii=False, separators=(",", ":"))
    )
    prepared: list[Prepared] = []

    def work(tx: Transaction) -> Turn:
        added = kept.add_rows(tx, session, rows, None, once)
        for reference in prepared:
            refs.add_row(tx, reference)
        interaction = None if call is None else Interactions(services, owner).add_row(tx, call).id
        return turns.add_row(tx, session, added[0].seq, added[-1].seq, interaction, written)

    def again(tx: Transaction) -> Turn:
        assert once is not None
        return turns.of_messages(tx, session, kept.numbers(tx, session, *once)[1])

    settled = True
    try:
        rows = new_rows(
            owner, services.settings, _captured(services, refs, session, given, prepared)
        )
        return turns._write(
            "save", work, row=lambda turn: {"id": turn.id}, idempotent=once is not None
        )
    except Seen:
        return services.database.read(owner.tenant, again)
    except InDoubt:
        settled = False  # nobody knows whether the references are there: the next purge will
        raise
    finally:
        for reference in prepared if settled else ():
            services.blobs.settle(owner.tenant, reference.stored)


def _usage(given: Usage | Mapping[str, Any]) -> Usage:
    if isinstance(given, Usage):
        return given
    if not isinstance(given, Mapping):
        raise Invalid(field="usage", problem="must be a Usage, or an object with its fields")
    unknown = sorted(given.keys() - Usage.__dataclass_fields__.keys(), key=str)
    if unknown or "model" not in given:
        problem = f"has an unknown field {unknown[0]!r}" if unknown else "needs a model"
        raise Invalid(
            field="usage", problem=f"{problem}; it has {', '.join(Usage.__dataclass_fields__)}"
        )
    return Usage(**given)


def _digest(services: Services, messages: Sequence[Mapping[str, Any]]) -> str:
    """What a retry must repeat: the messages as they were sent, before their outputs became references."""
    sent = []
    for message in messages:
        said = message["content"]
        is_text = isinstance(said, str) and not isinstance(said, canonical.JsonText)
        raw = {"text": said} if is_text else canonical.dump(said, "content", limits.MAX_REF_BYTES)
        rest = {
            name: str(value)
            for name, value in message.items()
            if value is not None and name != "content"
        }
        sent.append({**rest, "content": raw})
    return hashlib.sha256(json.dumps(sent, sort_keys=True).encode()).hexdigest()


def _captured(
    services: Services,
    refs: Refs,
    session: str,
    messages: Sequence[Mapping[str, Any]],
    prepared: list[Prepared],
) -> list[Mapping[str, Any]]:
    """The messages with a line instead of each tool output above the threshold; what is to be stored is in `prepared`."""
    shrunk: list[Mapping[str, Any]] = []
    names: dict[str, str] = {}

    def shrink(output: Any, id: str) -> Any:
        text = (
            output
            if isinstance(output, str)
            else json.dumps(output, ensure_ascii=False, default=str)
        )
        if tokens.estimate(text) <= limits.REF_TOKENS:
            return output
        prepared.append(
            refs.prepare(output, source=names.get(id, ""), session=session, type="command_output")
        )
        return prepared[-1].line

    for place, message in enumerate(messages):
        said = message["content"]
        value = (
            canonical.parse(said, f"messages[{place}].content")
            if isinstance(said, canonical.JsonText)
            else said
        )
        if isinstance(value, Mapping):
            names |= {call.id: _command(call) for call in pairing.tool_calls(value) if call.id}
        shrunk.append({**message, "content": _shrunk(message["role"], said, value, shrink)})
    return shrunk


def _command(call: pairing.Call) -> str:
    """A call as a line that says what was run."""
    given = call.arguments
    if isinstance(given, str):
        with suppress(ValueError, RecursionError):
            given = json.loads(given)
    words = given.values() if isinstance(given, Mapping) else [given]
    return " ".join([call.name, *map(_word, words)])[:_SHORT]


def _word(given: Any) -> str:
    try:
        return given if isinstance(given, str) else json.dumps(given)
    except RecursionError:  # nobody reads what is nested so deep
        return "…"


def _shrunk(role: str, said: Content, value: Any, shrink: Any) -> Content:
    """Content with its tool outputs shrunk; what has none stays the very object that it was."""
    if isinstance(value, str):
        return shrink(value, "") if role == "tool" else said
    if not isinstance(value, Mapping):
        return said
    found = pairing.shrink_outputs(role, value, shrink)
    return said if found == value else found
