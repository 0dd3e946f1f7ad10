"""Long messages as references: a prompt shows their beginning and end, and a key opens them.

Nothing is stored twice: the key names the session and the number of the message.
"""

from __future__ import annotations

import io
import json
import re
from typing import IO

from memorist.content import placeholder
from memorist.content.message import Message, records
from memorist.content.message_content import whole_text
from memorist.kinds.refs.reference import Ref
from memorist.storage.database import Row, Transaction

TYPE = "message"
BEGINNING_CHARACTERS = 300
"""Characters of a stored content that are read for a description."""
_TEXT_START = re.compile(r'"text":\s*"((?:[^"\\]|\\.)*)')
_SOURCES = {"user": "user", "assistant": "agent", "system": "user", "tool": "tool"}


def find_message(tx: Transaction, key: str, user: str | None) -> Message | None:
    """Return the message that a key names, if a session of the user has it."""
    place = placeholder.message_of_key(key)
    if place is None:
        return None
    session, seq = place
    row = tx.one(
        """select seq, role, content, author, tokens, tokens_in, tokens_out, cost, created_at
            from messages
            where tenant = :tenant and session_id = :session and seq = :seq and chatter < 2
            and exists (
                select 1 from sessions where tenant = :tenant and id = :session
                and user_id = coalesce(:user, user_id))""",
        session=session,
        seq=seq,
        user=user,
    )
    return None if row is None else records(session, [row])[0]


def long_messages(tx: Transaction, session: str, limit: int) -> list[Row]:
    """Return the long user messages of a session, as rows for `reference.piece`, newest first."""
    rows = tx.all(
        """select mentions.key, mentions.seq, messages.tokens,
                  substr(content, 1, :characters), created_at
           from mentions join messages on messages.tenant = :tenant
               and messages.session_id = :session and messages.seq = mentions.seq
           where mentions.tenant = :tenant and mentions.session_id = :session
           and mentions.key like 'message-%' and chatter < 2
           order by mentions.seq desc limit :size""",
        session=session,
        characters=BEGINNING_CHARACTERS,
        size=limit,
    )
    messages: list[Row] = []
    for key, seq, size, beginning, created_at in rows:
        if key == placeholder.message_key(session, seq):
            description = placeholder.message_description(seq, size, _first_words(beginning))
            messages.append((key, description, created_at, 1))
    return messages


def _first_words(beginning: str) -> str:
    """Return the first words of a message from the beginning of its JSON."""
    match = _TEXT_START.search(beginning)
    try:
        return str(json.loads(f'"{match[1]}"')) if match else ""
    except ValueError:  # the JSON ends inside of an escape
        return ""


def message_placeholder(message: Message) -> str:
    """Return the placeholder of a message."""
    return placeholder.render_message(
        message.session, message.seq, message.tokens, message.text.lstrip()
    )


def message_ref(key: str, message: Message, user: str | None) -> Ref:
    """Return a message as a reference."""
    text = whole_text(message.role, message.content)
    description = placeholder.message_description(message.seq, message.tokens, message.text)
    return Ref(
        key=key,
        user=user,
        agent=message.author,
        session=message.session,
        type=TYPE,
        summary=description,
        media="text",
        bytes=len(text.encode()),
        lines=text.count("\n") + 1,
        tokens=message.tokens,
        metadata={"message": message.seq},
        source=_SOURCES[message.role],
        is_active=True,
        created_at=message.created_at,
        updated_at=message.created_at,
    )


def open_message(message: Message) -> IO[bytes]:
    """Return the whole text of a message as a file."""
    return io.BytesIO(whole_text(message.role, message.content).encode("utf-8", "replace"))
