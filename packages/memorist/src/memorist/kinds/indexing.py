"""The ids of documents, and the marks of records that are removed together.

Each kind declares in `findable` how its records become documents. Every write marks what it changes.
"""

from __future__ import annotations

import json
from typing import Any

from memorist.search.search_document import IndexMark, owner_of
from memorist.storage.database import Transaction


def index_id(*keys: str) -> str:
    """Return several keys, such as a user and an agent, as one id: a JSON array of strings."""
    escaped = [key.replace("\\", "\\\\").replace('"', '\\"') for key in keys]
    return '["' + '","'.join(escaped) + '"]'


def keys_of(id: str) -> list[str]:
    """Return the keys of an id: the inverse of `index_id`."""
    keys: list[str] = json.loads(id, strict=False)
    return keys


def marks_of_session(tx: Transaction, session: str) -> list[IndexMark]:
    """Return the marks of a session's messages, state and references, before it is deleted."""
    return _marks_of_sessions(tx, "sessions.id = :session", session=session)


def marks_of_agent(tx: Transaction, agent: str) -> list[IndexMark]:
    """Return the marks of what is deleted with an agent, before that, without its facts.

    Its own documents, which belong to no user and to no whiteboard, have no marks.
    """
    notes = tx.send(
        "select user_id from notes where tenant = :tenant and agent = :agent", agent=agent
    )
    entries = tx.send(
        """select id, user_id, board from entries
           where tenant = :tenant and agent = :agent and review = 'accepted'
           and (user_id is not null or board is not null)""",
        agent=agent,
    )
    documents = tx.send(
        """select id, user_id from documents where tenant = :tenant and id in (
               select entry_id from consolidations where tenant = :tenant and agent = :agent)""",
        agent=agent,
    )
    return [
        *_marks_of_sessions(tx, "sessions.agent = :agent", agent=agent),
        *(IndexMark(owner_of(user), "notes", index_id(user, agent)) for (user,) in notes.rows()),
        *(
            IndexMark(owner_of(user, agent, board), "entries", id)
            for id, user, board in entries.rows()
        ),
        *(IndexMark(owner_of(user or None), "documents", id) for id, user in documents.rows()),
    ]


def _marks_of_sessions(tx: Transaction, condition: str, **values: Any) -> list[IndexMark]:
    sessions = tx.send(
        f"select id, user_id from sessions where tenant = :tenant and {condition}", **values
    )
    state = tx.send(
        f"""select area, key, sessions.user_id
            from sessions join state on state.tenant = :tenant and state.session_id = sessions.id
            where sessions.tenant = :tenant and {condition}""",
        **values,
    )
    refs = tx.send(
        f"""select key, refs.user_id
            from sessions join refs on refs.tenant = :tenant and refs.session_id = sessions.id
            where sessions.tenant = :tenant and {condition}""",
        **values,
    )
    return [
        *(IndexMark(owner_of(user), "messages", id) for id, user in sessions.rows()),
        *(
            IndexMark(owner_of(user), "state", index_id(area, key))
            for area, key, user in state.rows()
        ),
        *(IndexMark(owner_of(user or None), "refs", key) for key, user in refs.rows()),
    ]
