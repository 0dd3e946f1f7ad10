"""The prompt sections of entries: private memory and shared whiteboards."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from memorist.base import clock, tokens
from memorist.kinds.entries.entry import JOURNAL_WINDOW_MICROS, list_item, prompt_tokens
from memorist.kinds.kind import Owner
from memorist.kinds.section import Piece, Section
from memorist.storage.database import Row, Transaction

_DATE_TOKENS = tokens.estimate("[2026-01-31] ")


def private_section(tx: Transaction, owner: Owner, limit: int) -> Section:
    """Return an agent's core entries, and its journal entries of the last week, oldest first."""
    core = _newest_entries(tx, owner, "core", -1, limit)
    journal = _newest_entries(tx, owner, "journal", tx.now - JOURNAL_WINDOW_MICROS, limit)
    pieces = [
        Piece(
            f"entries {id}",
            list_item(content),
            count,
            "a core memory",
            1 + position / len(core),
        )
        for position, (id, content, count, _) in enumerate(core)
    ]
    core_sources = {piece.source for piece in pieces}
    pieces += [
        Piece(
            f"entries {id}",
            list_item(content, f"[{day(created)}] "),
            count + _DATE_TOKENS,
            "a journal entry of the last week",
            position / len(journal),
        )
        for position, (id, content, count, created) in enumerate(journal)
    ]

    def write(pieces: Sequence[Piece]) -> str:
        core_lines = [piece.text for piece in pieces if piece.source in core_sources]
        journal_lines = [piece.text for piece in pieces if piece.source not in core_sources]
        lists = {
            "## Core Memories (permanent)": core_lines,
            "## Recent Journal Entries": journal_lines,
        }
        return _write_lists("# Your Private Memory", lists)

    return Section("private", pieces, write)


def _newest_entries(
    tx: Transaction, owner: Owner, kind: str, since: int, limit: int
) -> Sequence[Row]:
    rows = tx.all(
        """select id, content, tokens, created_at from entries
           where tenant = :tenant and agent = :agent and kind = :kind and created_at > :since
           and review = 'accepted' and (user_id is null or user_id = coalesce(:user, user_id))
           order by created_at desc, id desc limit :size""",
        agent=owner.agent,
        user=owner.user,
        kind=kind,
        since=since,
        size=limit,
    )
    return rows[::-1]


def whiteboard_section(tx: Transaction, owner: Owner, limit: int) -> Section:
    """Return the lines on the boards that an agent shares, oldest first."""
    rows = tx.all(
        """select id, agent, content, tokens, created_at, board from entries
           where tenant = :tenant and review = 'accepted'
           and board in (
               select board from board_members where tenant = :tenant and agent = :agent)
           and (user_id is null or user_id = coalesce(:user, user_id))
           order by created_at desc, id desc limit :size""",
        agent=owner.agent,
        user=owner.user,
        size=limit,
    )[::-1]
    pieces = [
        Piece(
            f"entries {id}",
            list_item(content, f"[{day(created)}] {author}: "),
            count + _DATE_TOKENS + prompt_tokens(author),
            f"a line on the whiteboard {board}",
            position / len(rows),
        )
        for position, (id, author, content, count, created, board) in enumerate(rows)
    ]
    boards = {f"entries {id}": str(board) for id, _, _, _, _, board in rows}

    def write(pieces: Sequence[Piece]) -> str:
        lists: dict[str, list[str]] = {}
        for board in sorted({boards[piece.source] for piece in pieces}):
            lists[f"## {board}"] = [piece.text for piece in pieces if boards[piece.source] == board]
        return _write_lists("# Shared Whiteboards", lists)

    headings = sum(prompt_tokens(f"\n\n## {board}") for board in {*boards.values()})
    return Section("whiteboard", pieces, write, heading_tokens=headings)


def _write_lists(title: str, lists: dict[str, list[str]]) -> str:
    """Return the non-empty lists under their headings; return "" if all lists are empty."""
    written = ["\n".join([heading, *items]) for heading, items in lists.items() if items]
    return "\n\n".join([title, *written]) if written else ""


def day(micros: int) -> str:
    """Return the day of a time, in UTC, as YYYY-MM-DD."""
    return _day(micros // clock.DAY)


@functools.lru_cache(1024)
def _day(days: int) -> str:
    return clock.to_datetime(days * clock.DAY).date().isoformat()
