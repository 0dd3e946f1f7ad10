"""Entries: what an agent remembers for itself, and what chosen agents share on a whiteboard."""

from __future__ import annotations

from retain.kinds.kind import Kind, Table


class Entries(Kind):
    """The journal and core entries of the scope's agent, and the boards it shares."""

    name = "entries"
    tables = (
        Table("entries", order="id", owned="user_id = :user"),
        Table("boards", order="board, agent"),
    )
