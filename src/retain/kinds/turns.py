"""Turns: which messages one run of an agent added, and what its model had been given."""

from __future__ import annotations

from retain.kinds.kind import Kind, Table

_OWNED = "session_id in (select id from sessions where tenant = :tenant and user_id = :user)"


class Turns(Kind):
    """The turns of the scope's sessions."""

    name = "turns"
    tables = (Table("turns", order="id", owned=_OWNED),)
