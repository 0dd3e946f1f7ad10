"""Review: which entries count, and which wait until a person accepts them.

What reaches every prompt is worth most to whoever wants to steer an agent. So an entry of a source that is not trusted is
kept and listed, but it is in no prompt, in no search and in no consolidation before somebody read it who is no program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retain.base.errors import Forbidden
from retain.kinds.entries import entry as rules
from retain.kinds.entries.entry import WINDOW, Entry, Review
from retain.kinds.kind import Owner
from retain.kinds.section import Section
from retain.storage.database import Row, Transaction

COLUMNS = (
    "id, agent, kind, board, content, user_id, source, version, created_at, updated_at, review"
)
WITH_USER = " and (user_id is null or user_id = coalesce(:user, user_id))"
MINE = "(select board from board_members where tenant = :tenant and agent = :agent)"
_NEWEST = """select id, agent, content, tokens, created_at from entries where tenant = :tenant and agent = :agent
             and kind = :kind and created_at > :since and review = 'accepted'""" + WITH_USER + """
             order by created_at desc, id desc limit :size"""  # fmt: skip
_ON_BOARDS = """select id, agent, content, tokens, created_at, board from entries
                where tenant = :tenant and review = 'accepted' and board in """ + MINE + WITH_USER + """
                order by created_at desc, id desc limit :size"""  # fmt: skip
# Written twice, so that the index of the few that do not count is used.
_OUTSIDE = " from entries where tenant = :tenant and review <> 'accepted' and review = coalesce(:review, review)"
_QUEUE = (
    "select "
    + COLUMNS
    + _OUTSIDE
    + WITH_USER
    + """ and agent = coalesce(:agent, agent)
    and (created_at, id) < (:at, :id) order by created_at desc, id desc limit :size"""
)
_PENDING = "select count(*)" + _OUTSIDE + WITH_USER + " and agent = coalesce(:agent, agent)"
_SAME = "select " + COLUMNS + _OUTSIDE + """ and agent = :agent and kind = :kind
    and coalesce(board, '') = coalesce(:board, '') and coalesce(user_id, '') = coalesce(:user, '')
    order by case when content = :content then 0 else 1 end, created_at desc, id desc limit :size"""  # fmt: skip
_LOOKED_THROUGH = 1000
"""So many of the newest are compared; those that are the same to the letter are found among any number."""
_DECIDE = "update entries set review = :review where tenant = :tenant and id = :id"


def by_a_person(owner: Owner) -> None:
    """Go on only if whoever asks is a person: what an agent, an import or a tool accepts was reviewed by nobody."""
    if owner.source not in rules.PEOPLE:
        raise Forbidden(
            problem=f"only a person can review what is to be remembered, and this comes from the {owner.source}"
        )


def queue(
    tx: Transaction, owner: Owner, review: Review, at: int, id: str, size: int
) -> Sequence[Row]:
    """What waits, or was refused, the newest first."""
    return tx.all(
        _QUEUE, agent=owner.agent, user=owner.user, review=review, at=at, id=id, size=size
    )


def pending(tx: Transaction, owner: Owner) -> dict[str, int]:
    """How many entries wait; nothing where none does."""
    (count,) = tx.one(_PENDING, agent=owner.agent, user=owner.user, review="pending") or (0,)
    return {"pending": int(count)} if count else {}


def asked(tx: Transaction, values: Mapping[str, Any]) -> Row | None:
    """The same words that wait already or were refused: nobody is asked twice, and no program gets past the answer.

    A person who writes them means them. Spaces and capital letters make no other words.
    """
    if values["source"] in rules.PEOPLE:
        return None
    names = ("agent", "kind", "content", "board", "user")
    rows = tx.all(
        _SAME, review=None, size=_LOOKED_THROUGH, **{name: values[name] for name in names}
    )
    wanted = _folded(values["content"])
    return next((row for row in rows if _folded(row[4]) == wanted), None)


def editable(tx: Transaction, found: Entry, content: str, source: str, review: Review) -> None:
    """Go on only if nothing that counts is lost by an edit, and nothing comes to count by it that a person kept out."""
    if found.review != "accepted":
        return
    if review != "accepted":
        raise Forbidden(
            problem=f"what counts is not for the {source} to edit: add an entry of its own, which waits"
        )
    if asked(tx, {**vars(found), "content": content, "source": source}):
        raise Forbidden(problem="these words wait for a person, or were refused by one")


def _folded(content: str) -> str:
    return " ".join(content.casefold().split())


def decide(tx: Transaction, id: str, review: Review) -> None:
    """Write down what became of an entry."""
    tx.run(_DECIDE, id=id, review=review)


def private(tx: Transaction, owner: Owner, most: int) -> Section:
    """What an agent is told of its own memory."""
    core = tx.all(_NEWEST, agent=owner.agent, user=owner.user, kind="core", since=-1, size=most)
    journal = tx.all(
        _NEWEST,
        agent=owner.agent,
        user=owner.user,
        kind="journal",
        since=tx.now - WINDOW,
        size=most,
    )
    return rules.private_section(core[::-1], journal[::-1])


def boards(tx: Transaction, owner: Owner, most: int) -> Section:
    """What an agent is told of the boards that it shares."""
    return rules.shared_section(
        tx.all(_ON_BOARDS, agent=owner.agent, user=owner.user, size=most)[::-1]
    )
