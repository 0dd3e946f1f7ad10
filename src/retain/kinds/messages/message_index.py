"""Index rows of messages: the id is the session, `seq` the number of the message."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from retain.base import canonical
from retain.messages import content
from retain.search.index import split_text
from retain.search.reindexer import Findable, Place
from retain.search.search_engine import Item
from retain.storage.database import Row, Transaction


def message_rows(
    session: str,
    user: str,
    agent: str,
    seq: int,
    role: str,
    author: str | None,
    texts: Sequence[str],
    at: int,
    raw: str,
) -> list[Item]:
    """Return the index rows of a message; `texts` are the parts of its text, `raw` its content."""
    is_plain_text = len(texts) == 1 and raw == f'{{"text":{canonical.quote(texts[0])}}}'
    return [
        Item(
            "messages",
            session,
            text,
            at,
            seq,
            part,
            user,
            agent,
            session=session,
            author=author or "",
            role=role,
            text_in_record=is_plain_text,
        )
        for part, text in enumerate(texts)
    ]


def searchable_texts(role: str, value: Any) -> list[str]:
    """Return the text of a message's content, in parts if it is long."""
    return split_text(content.searchable_text(role, value)) if isinstance(value, dict) else []


def _missing(tx: Transaction, after: Place, size: int) -> Sequence[Row]:
    # The user and the agent are looked up row by row. With a join, a server without statistics,
    # such as after an import, would read the whole table for each row.
    return tx.all(
        """select session_id, seq,
                  (select user_id from sessions where tenant = :tenant and id = session_id),
                  (select agent from sessions where tenant = :tenant and id = session_id),
                  role, author, content, created_at
           from messages
           where tenant = :tenant and (session_id, seq) > (:session, :seq) and chatter < 2 and 0 = (
               select count(*) from search_items existing
               where existing.tenant = :tenant and existing.kind = 'messages'
               and existing.id = messages.session_id and existing.seq = messages.seq)
           order by session_id, seq limit :size""",
        session=after[0],
        seq=after[1],
        size=size,
    )


def _stray(tx: Transaction, size: int) -> Sequence[Row]:
    return tx.all(
        """select number, 'message ' || cast(seq as {text}) || ' of session ' || id
           from search_items
           where tenant = :tenant and kind = 'messages' and not exists (
               select 1 from messages
               where messages.tenant = :tenant and messages.session_id = search_items.id
               and messages.seq = search_items.seq and messages.chatter < 2)
           limit :size""",
        size=size,
    )


def _lock(tx: Transaction, keys: Sequence[Place]) -> None:
    for session in sorted({key[0] for key in keys}):
        tx.lock_rows(
            "select 1 from sessions where tenant = :tenant and id = :session", session=session
        )


def _rows(row: Row, _: str) -> list[Item]:
    session, seq, user, agent, role, author, raw, at = row
    texts = searchable_texts(role, json.loads(raw))
    return message_rows(session, user, agent, seq, role, author, texts, at, raw)


MESSAGE_INDEX = Findable("messages", ("", 0), _missing, _stray, _lock, _rows)
