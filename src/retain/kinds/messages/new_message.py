"""Validate new messages and build the values of their rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

from retain.base import canonical, clock, limits
from retain.base.errors import Invalid
from retain.base.settings import Settings
from retain.kinds.kind import Owner
from retain.kinds.messages.message_index import message_rows, searchable_texts
from retain.messages import pairing, placeholder
from retain.messages.content import Content
from retain.messages.content import parse_content as read_content
from retain.messages.message import ROLES, TRAFFIC, TURN, NewMessage, message_fields
from retain.messages.shortening import is_long_text
from retain.search.search_engine import Item


def row(
    owner: Owner,
    settings: Settings,
    where: str,
    role: str,
    content: Content,
    author: str | None = None,
    tokens_in: int | None = None,
    tokens_out: int | None = None,
    cost: float | None = None,
    created_at: datetime | None = None,
) -> dict[str, Any]:
    """Validate a new message and return the values of its row."""
    if role not in ROLES:
        raise Invalid(
            field=f"{where}role", problem=f"must be one of {', '.join(ROLES)}, not {role!r}"
        )
    raw, size, calls_tools, value = read_content(
        content, where + "content", limits.MAX_MESSAGE_BYTES, settings.masking
    )
    if author is None and role == "assistant":
        author = owner.agent
    return {
        "role": role,
        "content": raw,
        "author": None
        if author is None
        else canonical.key(author, where + "author", settings.masking),
        "chatter": TRAFFIC
        if role in ("system", "tool")
        or (role == "assistant" and calls_tools)
        or _unsaid(role, content)
        else TURN,
        "tokens": size,
        "said": searchable_texts(role, value),
        "tokens_in": None
        if tokens_in is None
        else canonical.check_integer(tokens_in, where + "tokens_in"),
        "tokens_out": None
        if tokens_out is None
        else canonical.check_integer(tokens_out, where + "tokens_out"),
        "cost": None if cost is None else canonical.amount(cost, where + "cost"),
        "created_at": None
        if created_at is None
        else clock.from_datetime(created_at, where + "created_at"),
    }


def _unsaid(role: str, content: Content) -> bool:
    """Return whether a message has no text of its own.

    True for a user message that only holds tool results, as one provider sends them, and for an
    assistant message that only holds reasoning.
    """
    if isinstance(content, str):
        return False
    parts = (
        content.get("parts") if isinstance(content, Mapping) and not content.get("text") else None
    )
    kind = {"user": pairing.is_result, "assistant": pairing.is_reasoning}.get(role)
    return (
        kind is not None
        and isinstance(parts, list)
        and bool(parts)
        and all(kind(part) for part in parts)
    )


def new_rows(
    owner: Owner, settings: Settings, messages: Sequence[NewMessage | Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Validate new messages and return the values of their rows."""
    numbered = enumerate(canonical.check_list(messages, "messages", limits.MAX_BATCH))
    return [
        row(owner, settings, f"messages[{n}].", **message_fields(message, n))
        for n, message in numbered
    ]


def digest(rows: Sequence[Mapping[str, Any]]) -> str:
    """Hash the values that the caller sent; a retry must have the same hash."""
    sent = [
        {name: value for name, value in row.items() if name not in ("tokens", "chatter", "said")}
        for row in rows
    ]
    return hashlib.sha256(json.dumps(sent, sort_keys=True).encode()).hexdigest()


def items(session: str, user: str, agent: str, values: Sequence[Mapping[str, Any]]) -> list[Item]:
    """Return the index rows of a session's messages."""
    rows = map(itemgetter("seq", "role", "author", "said", "created_at", "content"), values)
    return [item for row in rows for item in message_rows(session, user, agent, *row)]


def mentioned(session: str, values: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the references that a session's messages mention.

    A long user message has a reference of its own.
    """
    rows = []
    for value in values:
        keys = []
        if placeholder.MARK in value["content"]:
            keys = placeholder.find_keys(value["content"])
        if value["role"] == "user" and is_long_text(value["tokens"], value["content"]):
            own_key = placeholder.message_key(session, value["seq"])
            if own_key and own_key not in keys:
                keys = [own_key, *keys]
        rows += [{"session": session, "seq": value["seq"], "key": key} for key in keys]
    return rows
