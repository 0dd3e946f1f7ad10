"""Summaries: the rolling summary of each session, and which messages it saw."""

from __future__ import annotations

from retain.kinds.kind import Kind, Table

_OWNED = "session_id in (select id from sessions where tenant = :tenant and user_id = :user)"


class Summaries(Kind):
    """The rolling summaries of the scope's sessions."""

    name = "summaries"
    tables = (Table("summaries", order="session_id, number", owned=_OWNED),)
