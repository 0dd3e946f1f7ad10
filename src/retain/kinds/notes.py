"""Notes: one Markdown document for each user and agent, curated by the agent, with every version it had."""

from __future__ import annotations

from retain.kinds.kind import Kind, Table


class Notes(Kind):
    """The notes of the scope's user and agent."""

    name = "notes"
    tables = (
        Table("notes", order="user_id, agent", owned="user_id = :user"),
        Table("note_versions", order="user_id, agent, version", owned="user_id = :user"),
    )
