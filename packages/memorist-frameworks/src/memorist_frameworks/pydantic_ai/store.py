"""Pydantic AI's conversation store: conversations are sessions.

The live messages of the session are the history of the conversation, from its first entry to its
head. Entries that a branch leaves behind move to a second session, and come back from there. A fork
is a session that starts with a copy. The conversation's record is an item in a place of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple, Self

from memorist.base import limits
from memorist.base.errors import AlreadyExists, NotFound, WrongVersion
from memorist.content.formats.exact import exact_copy
from memorist.content.message import Message, NewMessage
from memorist.kinds.items import PlacedItem as Item
from memorist.kinds.page import all_records
from memorist.kinds.sessions import Session
from memorist.memory import Scope
from memorist_frameworks.formats import pydantic_ai as message_format
from memorist_frameworks.require import require_extra, require_local_scope
from memorist_frameworks.sessions import extend

with require_extra("pydantic-ai"):
    from pydantic import TypeAdapter, ValidationError
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
    from pydantic_core import from_json, to_json

RECORDS = ("pydantic_ai",)
"""The place of the items that hold conversation records."""
PAGE_SIZE = 100
_RECORD = TypeAdapter(ConversationRecord)


class EntryId(str):
    """An entry's id that remembers its conversation: Pydantic AI reads entries by id alone."""

    conversation: str = ""
    revision: str = ""

    @classmethod
    def create(cls, id: str, conversation: str, revision: str) -> Self:
        """Return an id that was read in a conversation at this revision."""
        entry_id = cls(id)
        entry_id.conversation = conversation
        entry_id.revision = revision
        return entry_id


class _StoredRecord(NamedTuple):
    """The stored data of a conversation except its messages."""

    record: ConversationRecord
    branches: str | None  # the session with the entries that branches left behind
    version: int


class _Entry(NamedTuple):
    """A stored entry: our message, and its form in Pydantic AI."""

    id: str
    parent: str | None
    message: Message
    value: Mapping[str, Any]


class MemoristConversationStore(ConversationStore):
    """Conversations in the scope's sessions.

    Deleting a conversation deletes its messages and its branches.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = require_local_scope(scope)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, or None if the scope has no such conversation."""
        return await asyncio.to_thread(self._record, conversation_id)

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Return the records of all conversations, or of one scope, last saved first."""
        return await asyncio.to_thread(self._records, scope, limit)

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Return the entries up to `head_id` in order, or the last `limit` of them."""
        return await asyncio.to_thread(self._history, head_id, limit)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return one entry.

        An id that this store has not returned is looked up in every conversation: prefer
        `load_entries`.
        """
        return (await asyncio.to_thread(self._history, entry_id, 1))[-1]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries, both or neither, at the expected revision."""
        await asyncio.to_thread(self._write, record, new_entries, expected_revision)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation with its messages and branches; forks of it remain."""
        await asyncio.to_thread(self._delete, conversation_id, expected_revision)

    def _record(self, conversation: str) -> ConversationRecord | None:
        stored = _read_record(self.scope, conversation)
        return stored and stored.record

    def _records(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        records = (stored.record for stored in self._all())
        return list(islice((record for record in records if scope in (None, record.scope)), limit))

    def _all(self) -> Iterator[_StoredRecord]:
        size = min(PAGE_SIZE, limits.MAX_PAGE)
        items = all_records(
            lambda after: self.scope.items.list(
                RECORDS, exact=True, newest=True, limit=size, after=after
            )
        )
        for item in items:
            stored = _parse_record(self.scope, item)
            if stored:
                yield stored

    def _history(self, head: str | None, limit: int | None) -> list[ConversationEntry]:
        if head is None or limit == 0:
            return []
        head_id = head if isinstance(head, EntryId) and head.conversation else self._find(head)
        try:
            entries = self._line(head_id, limit)
        except NotFound:
            raise KeyError(head) from None
        return [
            ConversationEntry(
                id=EntryId.create(entry.id, head_id.conversation, head_id.revision),
                parent_id=entry.parent,
                message=message,
            )
            for entry, message in _parse_messages(entries)
        ]

    def _find(self, entry_id: str) -> EntryId:
        for stored in self._all():
            conversation = stored.record.conversation_id
            line, left_entries = _read_entries(self.scope, conversation, stored.branches)
            if entry_id in left_entries or any(entry.id == entry_id for entry in line):
                return EntryId.create(entry_id, conversation, stored.record.revision)
        raise KeyError(entry_id)

    def _line(self, head: EntryId, limit: int | None) -> list[_Entry]:
        """Return the history up to an entry.

        Usually the live messages of the session are that history. Otherwise the conversation has
        changed or branched since the id was read.
        """
        recent = self.scope.messages.window(head.conversation, last=limit)
        line = _parse_entries(recent)
        is_complete = limit is None or len(line) == limit or len(recent) < limit
        if is_complete and line and line[-1].id == head:
            return line
        stored, line, left_entries = _read_consistently(self.scope, head.conversation)
        has_changed = stored is None or stored.record.revision != head.revision
        if head in left_entries or any(entry.id == head for entry in line):
            line = _path_to(line, left_entries, head)
            if line[0].parent is not None and has_changed:  # entries moved between the reads
                raise KeyError(head)
        elif has_changed or stored is None or stored.record.head_id != head:
            raise KeyError(head)
        # Entries that are missing now were removed by another client.
        return line if limit is None else line[-limit:]

    def _write(
        self,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
        expected_revision: str | None,
    ) -> None:
        id = record.conversation_id
        messages = dump_messages([entry.message for entry in new_entries])
        new = [
            message_format.to_message(message, {"id": entry.id, "parent": entry.parent_id})
            for message, entry in zip(messages, new_entries, strict=True)
        ]
        after = new_entries[0].parent_id if new_entries else record.head_id

        def create(inner: Scope) -> None:
            session = inner.sessions.add(id)
            source = [_copy(entry) for entry in _source_entries(inner, record, after)]
            extend(inner, id, [*source, *new])
            _write_record(inner, session, record, None, None)

        def update(inner: Scope) -> None:
            session = inner.sessions.get(id)
            stored = _read_record(inner, id, session)
            revision = stored.record.revision if stored else None
            if revision != expected_revision:
                raise ConversationConflict(id)
            branches = stored.branches if stored else None
            if stored is None:
                # The session exists without a record: its messages are not this conversation's.
                source = [_copy(entry) for entry in _source_entries(inner, record, after)]
                branches = _move_head(inner, id, None, None)
                extend(inner, id, source)
            elif after != stored.record.head_id:
                branches = _move_head(inner, id, branches, after)
            extend(inner, id, new)
            _write_record(inner, session, record, branches, stored.version if stored else None)

        try:
            if expected_revision is None:
                with suppress(AlreadyExists):
                    return self.scope.transaction(create, lock=_lock_name(id))
            self.scope.transaction(update, lock=_lock_name(id))
        except (NotFound, LookupError, WrongVersion) as error:
            raise ConversationConflict(id) from error

    def _delete(self, conversation: str, expected_revision: str) -> None:
        def work(inner: Scope) -> None:
            stored = _read_record(inner, conversation)
            if stored is None or stored.record.revision != expected_revision:
                raise ConversationConflict(conversation)
            inner.items.remove(RECORDS, conversation, if_version=stored.version)
            for session in (stored.branches, conversation):
                if session and _session_exists(inner, session):
                    inner.sessions.remove(session)

        try:
            self.scope.transaction(work, lock=_lock_name(conversation))
        except (NotFound, WrongVersion) as error:
            raise ConversationConflict(conversation) from error


def dump_messages(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    """Return messages as Pydantic AI serializes them."""
    dumped: list[dict[str, Any]] = json.loads(ModelMessagesTypeAdapter.dump_json(list(messages)))
    return dumped


def _lock_name(conversation: str) -> str:
    return f"conversation {conversation}"


def _session_exists(scope: Scope, session: str) -> bool:
    with suppress(NotFound):
        return bool(scope.sessions.get(session))
    return False


def _read_record(
    scope: Scope, conversation: str, session: Session | None = None
) -> _StoredRecord | None:
    with suppress(NotFound):
        return _parse_record(scope, scope.items.get(RECORDS, conversation), session)
    return None


def _parse_record(scope: Scope, item: Item, session: Session | None = None) -> _StoredRecord | None:
    """Return the record that an item holds; None if it is not ours or its session was replaced.

    `session` is the conversation's session, if the caller has read it.
    """
    try:
        value = item.value
        record_json = value["record"].get("exact") or json.dumps(value["record"])
        record = _RECORD.validate_json(record_json)
        branches = value.get("branches")
        session = session or scope.sessions.get(item.key)
        if record.conversation_id != item.key or session.created_at.isoformat() != value["since"]:
            return None
    except (AttributeError, KeyError, NotFound, TypeError, ValueError):
        return None

    def entry_id(id: str) -> EntryId:
        return EntryId.create(id, item.key, record.revision)

    located = replace(
        record,
        head_id=record.head_id and entry_id(record.head_id),
        branches=[entry_id(id) for id in record.branches],
    )
    return _StoredRecord(located, branches if isinstance(branches, str) else None, item.version)


def _write_record(
    inner: Scope,
    session: Session,
    record: ConversationRecord,
    branches: str | None,
    version: int | None,
) -> None:
    """Store a record, over `version` if there was one. Search does not find it."""
    record_json = _RECORD.dump_python(record, mode="json")
    value = {
        "record": exact_copy(record_json) or record_json,
        "branches": branches,
        "since": session.created_at.isoformat(),
    }
    inner.items.put(RECORDS, record.conversation_id, value, fields=[], if_version=version)


def _parse_entries(messages: Sequence[Message]) -> list[_Entry]:
    """Return the entries among messages; other clients may have written to the session, too."""
    entries = []
    for message in messages:
        content = from_json(message.raw)
        mark = message_format.entry(content)
        if mark is None or not isinstance(mark.get("id"), str):
            continue
        value = message_format.from_message(message, content)
        if value is not None:
            entries.append(_Entry(mark["id"], mark.get("parent"), message, value))
    return entries


def _read_entries(
    scope: Scope, conversation: str, branches: str | None
) -> tuple[list[_Entry], dict[str, _Entry]]:
    """Return the live entries of a conversation in order, and those that it left, by id.

    The latter are read first: an entry that moves meanwhile is then missing, not there twice.
    """
    left_messages: list[Message] = []
    if branches:
        with suppress(NotFound):
            left_messages = scope.messages.window(branches)
    left_entries = {entry.id: entry for entry in _parse_entries(left_messages)}
    return _parse_entries(scope.messages.window(conversation)), left_entries


def _read_consistently(
    scope: Scope, conversation: str
) -> tuple[_StoredRecord | None, list[_Entry], dict[str, _Entry]]:
    """Return the record and the entries of one moment: moving entries changes the version."""
    while True:
        stored = _read_record(scope, conversation)
        line, left_entries = _read_entries(scope, conversation, stored.branches if stored else None)
        after = _read_record(scope, conversation)
        if (stored and stored.version) == (after and after.version):
            return stored, line, left_entries


def _path_to(line: Sequence[_Entry], left: Mapping[str, _Entry], head: str) -> list[_Entry]:
    """Return the entries up to one of them: the shared part of the line, then what it left.

    Entries that another client removed are not on the path.
    """
    positions = {entry.id: position for position, entry in enumerate(line)}
    backwards = []
    id = head if head in positions else left[head].id
    while id not in positions and id in left:
        backwards.append(left[id])
        id = left[id].parent or ""
    return [*line[: positions.get(id, -1) + 1], *reversed(backwards)]


def _source_entries(inner: Scope, record: ConversationRecord, after: str | None) -> list[_Entry]:
    """Return the entries that a new conversation starts with: none, or the history of a fork."""
    if after is None:
        return []
    _, line, left_entries = _read_consistently(inner, record.forked_from or record.conversation_id)
    return _path_to(line, left_entries, after)


def _move_head(
    inner: Scope, conversation: str, branches: str | None, after: str | None
) -> str | None:
    """Make `after` the last live entry; return the session of the entries that were left.

    Entries that are not on the path to it move to that session, those on it come back.
    """
    line, left_entries = _read_entries(inner, conversation, branches)
    path = [] if after is None else _path_to(line, left_entries, after)
    shared = 0
    while shared < min(len(line), len(path)) and line[shared].id == path[shared].id:
        shared += 1
    leaving = line[shared:]
    returning = path[shared:]
    if leaving and (branches is None or not _session_exists(inner, branches)):
        active = _active_session(inner, conversation)
        label = f"Branches that {conversation} left"[:1000]
        branches = inner.sessions.add(label=label).id
        inner.sessions.activate(active)
    if leaving:
        extend(inner, branches or "", [_copy(entry) for entry in leaving])
    extend(inner, conversation, [_copy(entry) for entry in returning])
    for entry in (*leaving, *returning):
        inner.messages.remove(entry.message.session, entry.message.seq)
    return branches


def _copy(entry: _Entry) -> NewMessage:
    old = entry.message
    return NewMessage(
        old.role, old.content, old.author, old.tokens_in, old.tokens_out, old.cost, old.created_at
    )


def _active_session(inner: Scope, default: str) -> str:
    with suppress(NotFound):
        return inner.sessions.active().id
    return default


def _parse_messages(entries: Sequence[_Entry]) -> list[tuple[_Entry, ModelMessage]]:
    """Return entries with their messages, without those that Pydantic AI cannot read."""
    try:
        # All at once, and pydantic_core's to_json: a third of the time of json.dumps.
        values = to_json([entry.value for entry in entries], inf_nan_mode="constants")
        messages = ModelMessagesTypeAdapter.validate_json(values)
        return list(zip(entries, messages, strict=True))
    except ValueError:
        readable = []
        for entry in entries:
            with suppress(ValidationError):
                message = ModelMessagesTypeAdapter.validate_json(json.dumps([entry.value]))[0]
                readable.append((entry, message))
        return readable
