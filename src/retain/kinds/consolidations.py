"""Consolidations: proposals to turn fading journal entries into core ones, each reversible."""

from __future__ import annotations

from retain.kinds.kind import Kind, Table


class Consolidations(Kind):
    """Proposals to turn the agent's journal entries into core ones."""

    name = "consolidations"
    tables = (Table("consolidations", order="id", owned="user_id = :user"),)
