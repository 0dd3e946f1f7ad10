"""Pydantic AI's conversations, kept as our sessions.

A conversation is a session, and the live messages of that session are the history of the conversation, from its first
entry to its head. What a branch leaves behind moves to a session of its own, and comes back from there; a fork is a session
that begins with a copy. The record of a conversation is an item, at a place where nobody else writes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple, Self

from retain.base import limits
from retain.base.errors import AlreadyExists, NotFound, WrongVersion
from retain.integrations._require import extra, local
from retain.integrations._sessions import extend
from retain.kinds.items.items import Item
from retain.kinds.sessions import Session
from retain.memory import Scope
from retain.messages.formats import pydantic_ai as talk
from retain.messages.formats.exact import exact_copy
from retain.messages.message import Message, NewMessage

with extra("pydantic-ai"):
    from pydantic import TypeAdapter, ValidationError
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
    from pydantic_core import from_json, to_json

_RECORD = TypeAdapter(ConversationRecord)
_PLACE = ("pydantic_ai",)
_IN_ONE_READ = 100


class Place(str):
    """An entry's id that says where the entry was read: a store is asked for entries by their ids alone."""

    conversation: str = ""
    revision: str = ""

    @classmethod
    def of(cls, id: str, conversation: str, revision: str) -> Self:
        """An id, read in a conversation while it had this revision."""
        made = cls(id)
        made.conversation, made.revision = conversation, revision
        return made


class _Kept(NamedTuple):
    """What is kept of a conversation beside its messages: the record, where its branches are, and which version it is."""

    record: ConversationRecord
    branches: str | None
    version: int


class _Step(NamedTuple):
    """A stored entry: our message, and what it is for Pydantic AI."""

    id: str
    parent: str | None
    message: Message
    said: Mapping[str, Any]


class RetainConversationStore(ConversationStore):
    """Conversations in the scope's sessions, with a history that only grows where nobody branches it.

    Deleting a conversation deletes its messages, and those of the branches that it left.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = local(scope)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation, None where there is no such conversation of this scope."""
        return await asyncio.to_thread(self._record, conversation_id)

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """The records of all conversations, or of those with a scope, the one that was saved last first."""
        return await asyncio.to_thread(self._records, scope, limit)

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """The entries up to `head_id`, in order, or the last `limit` of them, in one read."""
        return await asyncio.to_thread(self._history, head_id, limit)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """One entry. An id that was not read here is looked for in every conversation: prefer `load_entries`."""
        return (await asyncio.to_thread(self._history, entry_id, 1))[-1]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Keep a record and its new entries, both or neither, if the conversation has the expected revision."""
        await asyncio.to_thread(self._write, record, new_entries, expected_revision)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation with its messages and branches; what was forked from it has its own."""
        await asyncio.to_thread(self._delete, conversation_id, expected_revision)

    def _record(self, conversation: str) -> ConversationRecord | None:
        kept = _kept(self.scope, conversation)
        return kept and kept.record

    def _records(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        found = (kept.record for kept in self._all() if scope is None or kept.record.scope == scope)
        return list(islice(found, limit))

    def _all(self) -> Iterator[_Kept]:
        after, size = None, min(_IN_ONE_READ, limits.MAX_PAGE)
        while True:
            page = self.scope.items.list(_PLACE, exact=True, newest=True, limit=size, after=after)
            yield from (kept for item in page if (kept := _of(self.scope, item)))
            after = page.next
            if after is None:
                return

    def _history(self, head: str | None, limit: int | None) -> list[ConversationEntry]:
        if head is None or limit == 0:
            return []
        place = head if isinstance(head, Place) and head.conversation else self._find(head)
        try:
            steps = self._line(place, limit)
        except NotFound:
            raise KeyError(head) from None
        return [
            ConversationEntry(
                id=Place.of(step.id, place.conversation, place.revision),
                parent_id=step.parent,
                message=message,
            )
            for step, message in _read(steps)
        ]

    def _find(self, entry: str) -> Place:
        for kept in self._all():
            line, left = _lines(self.scope, kept.record.conversation_id, kept.branches)
            if entry in left or any(step.id == entry for step in line):
                return Place.of(entry, kept.record.conversation_id, kept.record.revision)
        raise KeyError(entry)

    def _line(self, head: Place, limit: int | None) -> list[_Step]:
        """The history up to an entry. The live messages of the session are it, unless something changed meanwhile."""
        recent = self.scope.messages.window(head.conversation, last=limit)
        line = _entries(recent)
        enough = limit is None or len(line) == limit or len(recent) < limit
        if enough and line and line[-1].id == head:
            return line
        kept, line, left = _settled(self.scope, head.conversation)
        changed = kept is None or kept.record.revision != head.revision
        if head in left or any(step.id == head for step in line):
            line = _way(line, left, head)
            if line[0].parent is not None and changed:  # it moved while it was read
                raise KeyError(head)
        elif changed or kept is None or kept.record.head_id != head:
            raise KeyError(head)
        return (
            line if limit is None else line[-limit:]
        )  # whatever is missing was removed by somebody

    def _write(
        self,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
        expected_revision: str | None,
    ) -> None:
        id, said = record.conversation_id, written([entry.message for entry in new_entries])
        marks = [{"id": entry.id, "parent": entry.parent_id} for entry in new_entries]
        new = [talk.to_message(message, mark) for message, mark in zip(said, marks, strict=True)]
        after = new_entries[0].parent_id if new_entries else record.head_id

        def begin(inner: Scope) -> None:
            session = inner.sessions.add(id)
            extend(inner, id, [*(_again(step) for step in _source(inner, record, after)), *new])
            _keep(inner, session, record, None, None)

        def go_on(inner: Scope) -> None:
            session = inner.sessions.get(id)
            kept = _kept(inner, id, session)
            if (kept.record.revision if kept else None) != expected_revision:
                raise ConversationConflict(id)
            branches = kept.branches if kept else None
            if kept is None:
                source = [_again(step) for step in _source(inner, record, after)]
                branches = _turn(
                    inner, id, None, None
                )  # what is left of another conversation is none of this one
                extend(inner, id, source)
            elif after != kept.record.head_id:
                branches = _turn(inner, id, branches, after)
            extend(inner, id, new)
            _keep(inner, session, record, branches, kept.version if kept else None)

        try:
            if expected_revision is None:
                with suppress(AlreadyExists):
                    return self.scope.transaction(begin, lock=_name(id))
            self.scope.transaction(go_on, lock=_name(id))
        except (NotFound, LookupError, WrongVersion) as error:
            raise ConversationConflict(id) from error

    def _delete(self, conversation: str, expected_revision: str) -> None:
        def work(inner: Scope) -> None:
            kept = _kept(inner, conversation)
            if kept is None or kept.record.revision != expected_revision:
                raise ConversationConflict(conversation)
            inner.items.remove(_PLACE, conversation, if_version=kept.version)
            for session in (kept.branches, conversation):
                if session and _is_there(inner, session):
                    inner.sessions.remove(session)

        try:
            self.scope.transaction(work, lock=_name(conversation))
        except (NotFound, WrongVersion) as error:
            raise ConversationConflict(conversation) from error


def _name(conversation: str) -> str:
    return f"conversation {conversation}"


def _is_there(scope: Scope, session: str) -> bool:
    with suppress(NotFound):
        return bool(scope.sessions.get(session))
    return False


def _kept(scope: Scope, conversation: str, session: Session | None = None) -> _Kept | None:
    with suppress(NotFound):
        return _of(scope, scope.items.get(_PLACE, conversation), session)
    return None


def _of(scope: Scope, item: Item, session: Session | None = None) -> _Kept | None:
    """What an item says of a conversation; None if somebody else wrote it, or if its session was removed since.

    `session` is that session, if it was read already.
    """
    try:
        found = item.value
        record = _RECORD.validate_json(found["record"].get("exact") or json.dumps(found["record"]))
        branches, since = found.get("branches"), found["since"]
        session = session or scope.sessions.get(item.key)
        if record.conversation_id != item.key or session.created_at.isoformat() != since:
            return None
    except (AttributeError, KeyError, NotFound, TypeError, ValueError):
        return None
    places = [
        Place.of(id, item.key, record.revision) for id in (record.head_id or "", *record.branches)
    ]
    record = replace(record, head_id=record.head_id and places[0], branches=[*places[1:]])
    return _Kept(record, branches if isinstance(branches, str) else None, item.version)


def _keep(
    inner: Scope,
    session: Session,
    record: ConversationRecord,
    branches: str | None,
    version: int | None,
) -> None:
    """Keep a record, over the version that was read, or over whatever is there that is none; no search finds it."""
    value = _RECORD.dump_python(record, mode="json")
    kept = {
        "record": exact_copy(value) or value,
        "branches": branches,
        "since": session.created_at.isoformat(),
    }
    inner.items.put(_PLACE, record.conversation_id, kept, fields=[], if_version=version)


def _entries(messages: Sequence[Message]) -> list[_Step]:
    """The entries among messages; others may have said something in the session, too."""
    found = []
    for message in messages:
        content = from_json(message.raw)
        mark = talk.entry(content)
        said = (
            talk.from_message(message, content)
            if mark is not None and isinstance(mark.get("id"), str)
            else None
        )
        if mark is not None and said is not None:
            found.append(_Step(mark["id"], mark.get("parent"), message, said))
    return found


def _lines(
    scope: Scope, conversation: str, branches: str | None
) -> tuple[list[_Step], dict[str, _Step]]:
    """The live entries of a conversation in order, and those that it left; these first: what moves while it is read is
    then missing, and not there twice.
    """
    left: list[Message] = []
    if branches:
        with suppress(NotFound):
            left = scope.messages.window(branches)
    steps = {step.id: step for step in _entries(left)}
    return _entries(scope.messages.window(conversation)), steps


def _settled(scope: Scope, conversation: str) -> tuple[_Kept | None, list[_Step], dict[str, _Step]]:
    """What is kept of a conversation, and its entries, of one moment: whatever moves them makes a new version."""
    while True:
        kept = _kept(scope, conversation)
        line, left = _lines(scope, conversation, kept.branches if kept else None)
        after = _kept(scope, conversation)
        if (kept and kept.version) == (after and after.version):
            return kept, line, left


def _way(line: Sequence[_Step], left: Mapping[str, _Step], head: str) -> list[_Step]:
    """The entries up to one of them, in order: from where it parted from the line, what was left. Entries that somebody
    removed are not on it.
    """
    places = {step.id: place for place, step in enumerate(line)}
    back, id = [], head if head in places else left[head].id
    while id not in places and id in left:
        back.append(left[id])
        id = left[id].parent or ""
    return [*line[: places.get(id, -1) + 1], *back[::-1]]


def _source(inner: Scope, record: ConversationRecord, after: str | None) -> list[_Step]:
    """What a new conversation begins with: nothing, or the history that a fork keeps."""
    if after is None:
        return []
    _, line, left = _settled(inner, record.forked_from or record.conversation_id)
    return _way(line, left, after)


def _turn(inner: Scope, conversation: str, branches: str | None, after: str | None) -> str | None:
    """Let the session's live messages end with `after`: what is not on the way there leaves, what is comes back."""
    line, left = _lines(inner, conversation, branches)
    endpoint = [] if after is None else _way(line, left, after)
    shared = 0
    while shared < min(len(line), len(endpoint)) and line[shared].id == endpoint[shared].id:
        shared += 1
    leaving, coming = line[shared:], endpoint[shared:]
    if leaving and (branches is None or not _is_there(inner, branches)):
        active = _active(inner, conversation)
        branches = inner.sessions.add(label=f"Branches that {conversation} left"[:1000]).id
        inner.sessions.activate(active)
    if leaving:
        extend(inner, branches or "", [_again(step) for step in leaving])
    extend(inner, conversation, [_again(step) for step in coming])
    for step in (*leaving, *coming):
        inner.messages.remove(step.message.session, step.message.seq)
    return branches


def _again(step: _Step) -> NewMessage:
    old = step.message
    return NewMessage(
        old.role, old.content, old.author, old.tokens_in, old.tokens_out, old.cost, old.created_at
    )


def _active(inner: Scope, otherwise: str) -> str:
    with suppress(NotFound):
        return inner.sessions.active().id
    return otherwise


def _read(steps: Sequence[_Step]) -> list[tuple[_Step, ModelMessage]]:
    """Entries with their messages; together, which is faster, unless somebody else wrote one that cannot be read."""
    try:
        whole = to_json(
            [step.said for step in steps], inf_nan_mode="constants"
        )  # in a third of the time of json.dumps
        return [*zip(steps, ModelMessagesTypeAdapter.validate_json(whole), strict=True)]
    except ValueError:
        found = []
        for step in steps:
            with suppress(ValidationError):
                found.append(
                    (step, ModelMessagesTypeAdapter.validate_json(json.dumps([step.said]))[0])
                )
        return found


def written(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    """Messages as Pydantic AI writes them."""
    found: list[dict[str, Any]] = json.loads(ModelMessagesTypeAdapter.dump_json(list(messages)))
    return found
