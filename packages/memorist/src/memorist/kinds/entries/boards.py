"""Whiteboards and the agents that share them. Other agents cannot see a board."""

from __future__ import annotations

from collections.abc import Sequence

from memorist.base.errors import NotFound
from memorist.storage.database import Transaction


def require_membership(tx: Transaction, agent: str, board: str | None) -> None:
    """Raise `NotFound` if an entry is on a board that the agent does not share."""
    if board is None:
        return
    member = tx.one(
        """select 1 from board_members
           where tenant = :tenant and board = :board and agent = :agent""",
        board=board,
        agent=agent,
    )
    if member is None:
        raise NotFound(what="board", id=board)


def set_members(
    tx: Transaction, agent: str | None, board: str, agents: Sequence[str]
) -> dict[str, Sequence[str]]:
    """Share a board among exactly these agents; create it if it is new.

    An agent may change only a board that it shares.
    """
    tx.send(
        """insert into boards (tenant, board, created_at) values (:tenant, :board, :now)
           on conflict do nothing""",
        board=board,
    )
    tx.lock_rows("select 1 from boards where tenant = :tenant and board = :board", board=board)
    rows = tx.all(
        "select agent from board_members where tenant = :tenant and board = :board", board=board
    )
    members = {str(member) for (member,) in rows}
    if members and agent is not None and agent not in members:
        raise NotFound(what="board", id=board)
    tx.many(
        "delete from board_members where tenant = :tenant and board = :board and agent = :agent",
        [{"board": board, "agent": member} for member in sorted(members.difference(agents))],
    )
    tx.many(
        """insert into board_members (tenant, board, agent, created_at)
           values (:tenant, :board, :agent, :now) on conflict do nothing""",
        [{"board": board, "agent": member} for member in agents],
    )
    return {board: agents}


def list_boards(tx: Transaction, agent: str | None) -> dict[str, Sequence[str]]:
    """Return the boards of an agent, or all boards, each with the agents that share it."""
    rows = tx.all(
        """select board, agent from board_members
           where tenant = :tenant and board in (
               select board from board_members
               where tenant = :tenant and agent = coalesce(:agent, agent))
           order by board, agent""",
        agent=agent,
    )
    boards: dict[str, list[str]] = {}
    for board, member in rows:
        boards.setdefault(board, []).append(member)
    return dict(boards)
