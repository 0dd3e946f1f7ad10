"""Whiteboards: which agents share them. To everybody else, a board does not exist."""

from __future__ import annotations

from collections.abc import Sequence

from retain.base.errors import NotFound
from retain.storage.database import Transaction

_MEMBER = "select 1 from board_members where tenant = :tenant and board = :board and agent = :agent"
_MEMBERS = "select agent from board_members where tenant = :tenant and board = :board"
_MAKE = "insert into boards (tenant, board, created_at) values (:tenant, :board, :now) on conflict do nothing"
_LEAVE = "delete from board_members where tenant = :tenant and board = :board and agent = :agent"
_JOIN = """insert into board_members (tenant, board, agent, created_at)
           values (:tenant, :board, :agent, :now) on conflict do nothing"""
_SHARED = """select board, agent from board_members where tenant = :tenant and board in (
                 select board from board_members where tenant = :tenant and agent = coalesce(:agent, agent))
             order by board, agent"""


def require(tx: Transaction, agent: str, board: str | None) -> None:
    """Go on only if it is on no board, or on one that the agent shares."""
    if board is not None and not tx.one(_MEMBER, board=board, agent=agent):
        raise NotFound(what="board", id=board)


def share(
    tx: Transaction, agent: str | None, board: str, wanted: Sequence[str]
) -> dict[str, Sequence[str]]:
    """Let exactly these agents share a board, made where it is new; an agent changes only one that it is on."""
    tx.run(_MAKE, board=board)
    tx.lock_rows("select 1 from boards where tenant = :tenant and board = :board", board=board)
    members = {str(row[0]) for row in tx.all(_MEMBERS, board=board)}
    if members and agent is not None and agent not in members:
        raise NotFound(what="board", id=board)
    tx.many(_LEAVE, [{"board": board, "agent": one} for one in sorted(members.difference(wanted))])
    tx.many(_JOIN, [{"board": board, "agent": one} for one in wanted])
    return {board: wanted}


def shared(tx: Transaction, agent: str | None) -> dict[str, Sequence[str]]:
    """The boards of an agent, or all of them, each with the agents that share it."""
    found: dict[str, list[str]] = {}
    for board, member in tx.all(_SHARED, agent=agent):
        found.setdefault(board, []).append(member)
    return dict(found)
