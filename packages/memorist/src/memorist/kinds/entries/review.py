"""Review: entries of untrusted sources wait until a person accepts them.

An attacker who wants to steer an agent will try to get text into all its prompts. So an entry of an
untrusted source is stored and listed, but prompts, searches and consolidations do not use it until
a person has accepted it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memorist.base.errors import Forbidden
from memorist.kinds.entries.entry import COLUMNS, Entry, NewEntry, Review
from memorist.kinds.kind import Owner
from memorist.kinds.trust import is_person
from memorist.storage.database import Row, Transaction

_COMPARED_ENTRIES = 1000
"""The number of newest entries to compare. Exact copies are found among all entries."""

# `review` is compared twice, so that the small index of entries that are not accepted is used.
_NOT_ACCEPTED = """from entries
    where tenant = :tenant and review <> 'accepted' and review = coalesce(:review, review)"""
# A scope with a user reviews that user's entries only: no user decides for all users.
_OF_SCOPE = """and coalesce(user_id, '') = coalesce(:user, user_id, '')
    and agent = coalesce(:agent, agent)"""


def require_person(owner: Owner) -> None:
    """Raise `Forbidden` unless the caller is a person."""
    if not is_person(owner.source):
        raise Forbidden(
            problem=f"only a person can review entries; this request comes from the source {owner.source!r}"
        )


def require_reviewable(owner: Owner, user: str | None, what: str = "entry") -> None:
    """Raise `Forbidden` if an entry or proposal is for all users, but the scope has one user."""
    if user is None and owner.user is not None:
        raise Forbidden(
            problem=f"this {what} is for all users, and only a scope without a user can review it"
        )


def require_changeable(owner: Owner, entry: Entry) -> None:
    """Raise `Forbidden` if the scope of one user would change the prompts of all users."""
    is_for_all = entry.user is None and entry.review == "accepted"
    if is_for_all and owner.user is not None and owner.source != "admin":
        raise Forbidden(
            problem=f"the accepted entry {entry.id!r} is for all users of the agent;"
            " edit or remove it in a scope without a user"
        )


def queued_rows(
    tx: Transaction, owner: Owner, review: Review, before: Sequence[Any], size: int
) -> Sequence[Row]:
    """Return the entries that wait or were refused, newest first, before a time and id."""
    at, id = before
    return tx.all(
        f"""select {COLUMNS} {_NOT_ACCEPTED} {_OF_SCOPE} and (created_at, id) < (:at, :id)
            order by created_at desc, id desc limit :size""",
        agent=owner.agent,
        user=owner.user,
        review=review,
        at=at,
        id=id,
        size=size,
    )


def count_pending(tx: Transaction, owner: Owner) -> int:
    """Return the number of entries that wait for a review."""
    row = tx.one(
        f"select count(*) {_NOT_ACCEPTED} {_OF_SCOPE}",
        agent=owner.agent,
        user=owner.user,
        review="pending",
    )
    return int(row[0]) if row else 0


def find_reviewed(tx: Transaction, new: NewEntry) -> Row | None:
    """Return an entry with the same words that waits or was refused.

    So the same words are reviewed once, and no program can evade the decision. Entries that
    a person writes are not compared. Spaces and case are ignored.
    """
    if is_person(new.source):
        return None
    rows = tx.all(
        f"""select {COLUMNS} {_NOT_ACCEPTED} and agent = :agent and kind = :kind
            and coalesce(board, '') = coalesce(:board, '')
            and coalesce(user_id, '') = coalesce(:user, '')
            order by case when content = :content then 0 else 1 end, created_at desc, id desc
            limit :size""",
        review=None,
        agent=new.agent,
        kind=new.kind,
        board=new.board,
        user=new.user,
        content=new.content,
        size=_COMPARED_ENTRIES,
    )
    wanted = _normalize(new.content)
    return next((row for row in rows if _normalize(row[4]) == wanted), None)


def require_editable(
    tx: Transaction, entry: Entry, content: str, source: str, review: Review
) -> None:
    """Raise `Forbidden` if an edit would get around a review.

    review: the review status that a new entry of this source would get
    """
    if entry.review != "accepted":
        return
    if review != "accepted":
        raise Forbidden(
            problem=f"{_AUTHORS.get(source, source)} may not edit an accepted entry;"
            " add a new entry, which is queued for review"
        )
    edited = NewEntry(entry.agent, entry.kind, content, source, board=entry.board, user=entry.user)
    if find_reviewed(tx, edited):
        raise Forbidden(problem="this text is waiting for review, or was refused")


_AUTHORS = {"agent": "an agent", "tool": "a tool", "import": "an import"}


def _normalize(content: str) -> str:
    return " ".join(content.casefold().split())
