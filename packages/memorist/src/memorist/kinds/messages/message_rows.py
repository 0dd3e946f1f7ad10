"""Rows of messages: validate new messages, and build the values of their rows and documents.

In the index, the id of a message is its session and `seq` its number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from memorist.base import canonical, clock, limits
from memorist.base.settings import Settings
from memorist.content import pairing, placeholder
from memorist.content.message import ROLES, TRAFFIC, TURN, NewMessage, to_new_message
from memorist.content.message_content import Content, is_long_text, parse_content, searchable_text
from memorist.kinds import trust
from memorist.kinds.kind import Owner
from memorist.search.index import split_text
from memorist.search.search_document import WHOLE, Findable, SearchDocument
from memorist.storage.checksum import checksum
from memorist.storage.database import Row

_DERIVED = frozenset(["checksum", "tokens", "chatter"])
"""The values of a row that follow from what the caller sent."""


def new_row(
    owner: Owner, settings: Settings, message: NewMessage, where: str = ""
) -> dict[str, Any]:
    """Validate a new message and return the values of its row.

    `where` is the place of the message in the request, for errors.
    """
    role = message.role
    canonical.one_of(role, f"{where}role", ROLES)
    masking = settings.masking
    raw, size, calls_tools, _ = parse_content(
        message.content, where + "content", limits.MAX_MESSAGE_BYTES, masking
    )
    author = message.author
    if author is None and role == "assistant":
        author = owner.agent
    if author is not None:
        author = canonical.key(author, where + "author", masking)
    if role == "system" and not trust.is_person(owner.source):
        author = owner.source  # a context fences the message
    is_traffic = (
        role in ("system", "tool")
        or (role == "assistant" and calls_tools)
        or _has_no_own_text(role, message.content)
    )
    tokens_in = message.tokens_in
    if tokens_in is not None:
        tokens_in = canonical.check_integer(tokens_in, where + "tokens_in")
    tokens_out = message.tokens_out
    if tokens_out is not None:
        tokens_out = canonical.check_integer(tokens_out, where + "tokens_out")
    cost = message.cost
    if cost is not None:
        cost = canonical.amount(cost, where + "cost")
    created_at = None
    if message.created_at is not None:
        created_at = clock.from_datetime(message.created_at, where + "created_at")
    return {
        "role": role,
        "content": raw,
        "checksum": checksum(raw, author),
        "author": author,
        "chatter": TRAFFIC if is_traffic else TURN,
        "tokens": size,
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
        "cost": cost,
        "created_at": created_at,
    }


def new_rows(
    owner: Owner, settings: Settings, messages: Sequence[NewMessage | Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Validate new messages and return the values of their rows."""
    numbered = enumerate(canonical.check_list(messages, "messages", limits.MAX_BATCH))
    return [
        new_row(owner, settings, to_new_message(message, n), f"messages[{n}].")
        for n, message in numbered
    ]


def _has_no_own_text(role: str, content: Content) -> bool:
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


def digest(rows: Sequence[Mapping[str, Any]]) -> str:
    """Hash the values that the caller sent; a retry must have the same hash."""
    sent = [{name: value for name, value in row.items() if name not in _DERIVED} for row in rows]
    return hashlib.sha256(json.dumps(sent, sort_keys=True).encode()).hexdigest()


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


# -- documents ---------------------------------------------------------------------------------


def _documents(row: Row) -> list[SearchDocument]:
    session, seq, user, agent, role, author, raw, at = row
    content = json.loads(raw)
    text = searchable_text(role, content) if isinstance(content, dict) else ""
    return [
        SearchDocument(
            "messages",
            session,
            part_text,
            at,
            seq=seq,
            part=part,
            user=user,
            agent=agent,
            session=session,
            author=author or "",
            role=role,
        )
        for part, part_text in enumerate(split_text(text))
    ]


# The user and the agent are looked up row by row. With a join, a server without statistics, such as
# after an import, would read the whole table for each row.
MESSAGE_INDEX = Findable(
    kind="messages",
    key=("session_id", "seq"),
    select="""select session_id, seq,
                     (select user_id from sessions where tenant = :tenant and id = session_id),
                     (select agent from sessions where tenant = :tenant and id = session_id),
                     role, author, content, created_at
              from messages where tenant = :tenant and chatter < 2 and {where}""",
    documents=_documents,
    key_of=lambda id, seq: (id,) if seq == WHOLE else (id, seq),
    first=("", 0),
)
