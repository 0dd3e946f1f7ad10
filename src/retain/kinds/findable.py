"""What can be searched for: the rows that the index has of each thing, and how those that it lacks are found.

Whoever writes a thing and whoever fills the index make its rows here, so that they are the same. A thing is kept from other
writers before its rows are added, and removed before they are: so neither leaves rows of nothing behind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from retain.base import canonical
from retain.kinds.indexing import index_id
from retain.search import chunk
from retain.search.engine import Item
from retain.search.index import split_text
from retain.search.reindex import Findable, Place
from retain.search.retrieval import PLACE_SEPARATOR
from retain.storage.database import Row, Transaction
from retain.text import fields

BEGINNING = 2_000
"""Characters of a stored content that can be found."""
INACTIVE = "inactive"
"""The role of a reference that is in no prompt."""

# -- notes: id names the user and the agent, seq counts the sections -----------------------------------------------------

_NOTES_ID = """'["' || replace(replace(notes.user_id, '\\', '\\\\'), '"', '\\"') || '","'
    || replace(replace(notes.agent, '\\', '\\\\'), '"', '\\"') || '"]'"""
_NOTES = """select user_id, agent, text, updated_at from notes
    where tenant = :tenant and (user_id, agent) > (:user, :agent) and not exists (
        select 1 from search_items found where found.tenant = :tenant and found.kind = 'notes'
        and found.id = """ + _NOTES_ID + """)
    order by user_id, agent limit :size"""  # fmt: skip
_NO_NOTES = """select number, 'notes ' || id from search_items
    where tenant = :tenant and kind = 'notes' and not exists (
        select 1 from notes where notes.tenant = :tenant and notes.user_id = search_items.user_id
        and notes.agent = search_items.agent)
    limit :size"""


def notes(user: str, agent: str, sections: Sequence[chunk.Chunk], at: int) -> list[Item]:
    """The rows of a document of notes."""
    id = index_id(user, agent)
    return [
        Item("notes", id, section.text, at, seq, 0, user, agent, author=agent, title=section.title)
        for seq, section in enumerate(sections)
    ]


def _hold_notes(tx: Transaction, keys: Sequence[Place]) -> None:
    for user, agent in sorted(keys):
        tx.lock_rows(
            "select 1 from notes where tenant = :tenant and user_id = :user and agent = :agent",
            user=user,
            agent=agent,
        )


NOTES = Findable(
    "notes",
    ("", ""),
    lambda tx, after, size: tx.all(_NOTES, user=after[0], agent=after[1], size=size),
    lambda tx, size: tx.all(_NO_NOTES, size=size),
    _hold_notes,
    lambda row, _: notes(row[0], row[1], chunk.split(row[2], "markdown"), row[3]),
)

# -- entries -------------------------------------------------------------------------------------------------------------

_ENTRIES = """select id, agent, kind, board, content, user_id, created_at from entries
    where tenant = :tenant and id > :id and review = 'accepted' and not exists (
        select 1 from search_items found where found.tenant = :tenant and found.kind = 'entries' and found.id = entries.id)
    order by id limit :size"""
_NO_ENTRY = """select number, 'entry ' || id from search_items where tenant = :tenant and kind = 'entries' and not exists (
        select 1 from entries
        where entries.tenant = :tenant and entries.id = search_items.id and entries.review = 'accepted')
    limit :size"""


def entry(
    id: str,
    agent: str,
    kind: str,
    board: str | None,
    content: str,
    user: str | None,
    *,
    at: int,
    said: Sequence[str] | None = None,
) -> list[Item]:
    """The rows of an entry: its agent's alone, or of whoever shares its board; `said` is its content in parts, if known."""
    private = agent if board is None else None
    return [
        Item("entries", id, text, at, 0, part, user, private, board, None, agent, kind)
        for part, text in enumerate(split_text(content) if said is None else said)
    ]


def _hold_entries(tx: Transaction, keys: Sequence[Place]) -> None:
    for (id,) in sorted(keys):
        tx.lock_rows("select 1 from entries where tenant = :tenant and id = :id", id=id)


ENTRIES = Findable(
    "entries",
    ("",),
    lambda tx, after, size: tx.all(_ENTRIES, id=after[0], size=size),
    lambda tx, size: tx.all(_NO_ENTRY, size=size),
    _hold_entries,
    lambda row, _: entry(*row[:6], at=row[6]),
)

# -- references: id is the key ---------------------------------------------------------------------------------------------

_REFS = """select key, user_id, agent, session_id, type, summary, media, bytes, lines, tokens, metadata, source, is_active,
           created_at, updated_at, digest from refs
    where tenant = :tenant and key > :key and not exists (
        select 1 from search_items found where found.tenant = :tenant and found.kind = 'refs' and found.id = refs.key)
    order by key limit :size"""
_NO_REF = """select number, 'reference ' || id from search_items where tenant = :tenant and kind = 'refs' and not exists (
        select 1 from refs where refs.tenant = :tenant and refs.key = search_items.id)
    limit :size"""


def ref(row: Row, begins: str) -> Item:
    """The row of a reference: its description in the first line, then the command and how the content begins."""
    key, user, _, session, type, summary, *_, active, at, _ = row
    role = type if active else INACTIVE
    return Item(
        "refs",
        key,
        f"{summary}\n{begins}",
        at,
        user=user or None,
        session=session,
        role=role,
        title=key,
    )


def begins(command: str, media: str, beginning: str) -> str:
    """What can be found of a content: the command that it came from, and how it begins if that can be read."""
    said = "\n".join(
        part for part in (command, "" if media == "binary" else beginning[:BEGINNING]) if part
    )
    return canonical.text(said, "content", 1 << 20)


def _ref(row: Row, beginning: str) -> list[Item]:
    command = json.loads(row[10]).get("command")
    return [ref(row[:-1], begins(command if isinstance(command, str) else "", row[6], beginning))]


def _hold_refs(tx: Transaction, keys: Sequence[Place]) -> None:
    for (key,) in sorted(keys):
        tx.lock_rows("select 1 from refs where tenant = :tenant and key = :key", key=key)


REFS = Findable(
    "refs",
    ("",),
    lambda tx, after, size: tx.all(_REFS, key=after[0], size=size),
    lambda tx, size: tx.all(_NO_REF, size=size),
    _hold_refs,
    _ref,
    lambda row: (row[1], row[15]),
)

# -- items: id names the area, the place and the key ------------------------------------------------------------------------

_ITEMS_ID = """'["' || replace(replace(replace(items.area || ' ' || items.place || items.key, '\\', '\\\\'),
    '"', '\\"'), ' ', '","') || '"]'""".replace("' '", f"'{PLACE_SEPARATOR}'")
_ITEMS = """select area, place, key, fields, value, updated_at, expires_at from items
    where tenant = :tenant and (area, place, key) > (:area, :place, :key) and (expires_at is null or expires_at > :now)
    and not exists (
        select 1 from search_items found where found.tenant = :tenant and found.kind = 'items'
        and found.id = """ + _ITEMS_ID + """)
    order by area, place, key limit :size"""  # fmt: skip
_OWNED = (
    "case when search_items.user_id = '' then 'tenant' else 'user:' || search_items.user_id end"
)
_NO_ITEM = """select number, 'item ' || id from search_items where tenant = :tenant and kind = 'items' and not exists (
        select 1 from items where items.tenant = :tenant and items.key = search_items.title
        and items.area = """ + _OWNED + """ and items.place = substr(search_items.place, length(""" + _OWNED + """) + 2))
    limit :size"""  # fmt: skip


def items(
    area: str, place: str, key: str, said: Sequence[str], at: int, expires: int | None
) -> list[Item]:
    """The rows of a document; `said` are the texts that it is found by.

    One that is the tenant's own belongs to a user whom nobody can be: what is nobody's, every user would find.
    """
    id = item_id(area, place, key)
    user = "" if area == "tenant" else area.removeprefix("user:")
    where = f"{area}{PLACE_SEPARATOR}{place}"
    return [
        Item("items", id, text, at, 0, part, user, title=key, expires_at=expires, place=where)
        for part, text in enumerate(said)
    ]


def item_id(area: str, place: str, key: str) -> str:
    """The id of a document in the index."""
    return index_id(area, *place.split(PLACE_SEPARATOR)[:-1], key)


def document(value: Mapping[str, Any], paths: Sequence[str] | None) -> list[str]:
    """The texts that a document is found by: what it says at some paths, or all of it; with an empty list, none."""
    if paths is not None and not paths:
        return []
    return [part for text in fields.texts(value, paths) for part in split_text(text)] or [""]


def _hold_items(tx: Transaction, keys: Sequence[Place]) -> None:
    for area, place, key in sorted(keys):
        tx.lock_rows(
            "select 1 from items where tenant = :tenant and area = :area and place = :place and key = :key",
            area=area,
            place=place,
            key=key,
        )


def _items(row: Row, _: str) -> list[Item]:
    area, place, key, paths, raw, at, expires = row
    return items(
        area, place, key, document(json.loads(raw), paths and json.loads(paths)), at, expires
    )


ITEMS = Findable(
    "items",
    ("", "", ""),
    lambda tx, after, size: tx.all(_ITEMS, area=after[0], place=after[1], key=after[2], size=size),
    lambda tx, size: tx.all(_NO_ITEM, size=size),
    _hold_items,
    _items,
)
