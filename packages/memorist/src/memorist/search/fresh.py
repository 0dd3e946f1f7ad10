"""Fresh documents: those that were written since the index of their owner was.

Writers only mark what they change: a session whose messages are in no segment from a number on, or
a record. A search reads and analyses these records itself, and ignores what segments have of them.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

from memorist.search.block import MAX_SEQ, DocumentBlock
from memorist.search.search_document import WHOLE, Findable, RecordKey, SearchDocument, owner_of
from memorist.search.segment import analyse, build
from memorist.storage.database import Row, Sent, Transaction

MAX_FRESH = 10_000
"""Documents that a search analyses itself, for each owner."""
MAX_CACHED_OWNERS = 1000
MAX_CACHED_DOCUMENTS = 50_000

RECORDS = """select kind, id, seq, stamp from fresh_records
    where tenant = :tenant and owner = :owner order by kind, id, seq limit :limit"""
SESSIONS = """select fresh_sessions.session_id, first_seq, stamp, coalesce(seq, 0),
        coalesce(messages.created_at, 0), coalesce(messages.checksum, 0)
    from fresh_sessions
    left join messages on messages.tenant = :tenant and messages.session_id = fresh_sessions.session_id
    and seq = (select max(newest.seq) from messages newest
               where newest.tenant = :tenant and newest.session_id = fresh_sessions.session_id)
    where fresh_sessions.tenant = :tenant and owner = :owner
    order by fresh_sessions.session_id limit :limit"""
NUMBERS = """select user_id, first_seq, coalesce((
        select max(seq) from messages where messages.tenant = :tenant and session_id = :session), 0)
    from sessions where tenant = :tenant and id = :session"""


class FreshRecord(NamedTuple):
    """A row of fresh_records."""

    kind: str
    id: str
    seq: int
    stamp: int


class FreshSession(NamedTuple):
    """A session with messages that no segment has."""

    id: str
    first_seq: int
    stamp: int
    last_seq: int
    last_at: int
    last_checksum: int
    """Time and checksum of the last message: another one may have its number after a rollback."""

    @property
    def size(self) -> int:
        """The number of messages, with those that were removed."""
        return max(self.last_seq - self.first_seq + 1, 0)


@dataclass(frozen=True)
class Marks:
    """What was marked as changed in the index of an owner."""

    records: Sequence[FreshRecord]
    sessions: Sequence[FreshSession]
    is_complete: bool
    """False if there is more than a search reads."""

    @property
    def count(self) -> int:
        """The approximate number of documents."""
        return len(self.records) + sum(session.size for session in self.sessions)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was changed."""
        return not self.records and not self.sessions


class Changed(NamedTuple):
    """A range of documents that segments must ignore: a record, from one number to another."""

    kind: str
    id: str
    low: int = 0
    high: int = MAX_SEQ


@dataclass(frozen=True)
class FreshDocuments:
    """The documents that marks name as they are now, and those of segments that they replace."""

    documents: Sequence[SearchDocument]
    replaced: Sequence[Changed]


def send_marks(tx: Transaction, owner: str, limit: int = MAX_FRESH) -> tuple[Sent, Sent]:
    """Read the marks of an owner, without waiting for them."""
    return (
        tx.send(RECORDS, owner=owner, limit=limit + 1),
        tx.send(SESSIONS, owner=owner, limit=limit + 1),
    )


def marks(sent: tuple[Sent, Sent], limit: int = MAX_FRESH) -> Marks:
    """Return the marks that were read, as many as a search can analyse."""
    records = [FreshRecord(*row) for row in sent[0].rows()]
    sessions = [FreshSession(*row) for row in sent[1].rows()]
    is_complete = len(records) <= limit and len(sessions) <= limit
    kept: list[FreshSession] = []
    room = limit - min(len(records), limit)
    for session in sessions[:limit]:
        if session.size > room:
            is_complete = False
        if room > 0:
            last_seq = session.first_seq + min(session.size, room) - 1
            kept.append(session._replace(last_seq=last_seq))
        room -= session.size
    return Marks(records[:limit], kept, is_complete)


def read_documents(
    tx: Transaction, findables: Mapping[str, Findable], owner: str, marked: Marks
) -> FreshDocuments:
    """Return the documents that marks of an owner name."""
    sent: list[tuple[Findable, Sent]] = []
    numbers: list[tuple[str, Sent]] = []
    replaced: list[Changed] = []
    keys: dict[str, list[RecordKey]] = {}
    messages = findables["messages"]
    for session in marked.sessions:
        result = messages.send_between(tx, session.id, session.first_seq, session.last_seq)
        sent.append((messages, result))
        replaced.append(Changed("messages", session.id, session.first_seq))
    for record in marked.records:
        if record.kind == "messages" and record.seq == WHOLE:
            numbers.append((record.id, tx.send(NUMBERS, session=record.id)))
        else:
            replaced.append(_replaced(record))
            if findable := findables.get(record.kind):
                key = findable.key_of(record.id, record.seq)
                keys.setdefault(record.kind, []).append(key)
    for kind, wanted in keys.items():
        sent += [(findables[kind], result) for result in findables[kind].send_many(tx, wanted)]
    documents = [
        document
        for findable, result in sent
        for document in documents_of(findable, result.rows())
        if document.owner == owner
    ]
    for id, result in numbers:
        replaced += _removed_messages(owner, id, result.rows())
    return FreshDocuments(list(dict.fromkeys(documents)), replaced)


def _removed_messages(owner: str, session: str, rows: Sequence[Row]) -> list[Changed]:
    """Return the messages that a session does not have, by its row; all if it has another user."""
    for user, first, last in rows:
        if owner_of(user) == owner:
            return [
                Changed("messages", session, high=first - 1),
                Changed("messages", session, low=last + 1),
            ]
    return [Changed("messages", session)]


def _replaced(record: FreshRecord) -> Changed:
    if record.seq == WHOLE:
        return Changed(record.kind, record.id)
    return Changed(record.kind, record.id, record.seq, record.seq)


def documents_of(findable: Findable, rows: Iterable[Row]) -> list[SearchDocument]:
    """Return the documents of rows that have something to find."""
    return [
        document
        for row in rows
        for document in findable.documents(row)
        if document.text or document.title
    ]


class FreshBlock(NamedTuple):
    """Analysed fresh documents of an owner."""

    marks: Marks
    block: DocumentBlock
    replaced: Sequence[Changed]


class FreshCache:
    """The fresh documents of the owners that were searched last.

    An entry is valid while the marks of its owner are unchanged.
    """

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._entries: OrderedDict[tuple[str, str], FreshBlock] = OrderedDict()
        self._documents = 0
        self._lock = Lock()

    def load(
        self, tx: Transaction, findables: Mapping[str, Findable], marks: Mapping[str, Marks]
    ) -> dict[str, FreshBlock]:
        """Return the fresh documents of owners with these marks."""
        if self._process != os.getpid():
            # In a forked child, the lock may be held by a thread that exists only in the parent.
            self._reset()
        blocks: dict[str, FreshBlock] = {}
        for owner, marked in marks.items():
            if marked.is_empty:
                continue
            key = (tx.tenant, owner)
            known = self._entries.get(key)
            if known is None or known.marks != marked:
                fresh = read_documents(tx, findables, owner, marked)
                block = DocumentBlock(
                    [build([analyse(each) for each in fresh.documents], by_word=False)]
                )
                known = FreshBlock(marked, block, fresh.replaced)
                self._put(key, known)
            blocks[owner] = known
        return blocks

    def _put(self, key: tuple[str, str], new: FreshBlock) -> None:
        with self._lock:
            old = self._entries.pop(key, None)
            self._documents -= old.block.size if old else 0
            self._entries[key] = new
            self._documents += new.block.size
            while len(self._entries) > 1 and (
                len(self._entries) > MAX_CACHED_OWNERS or self._documents > MAX_CACHED_DOCUMENTS
            ):
                self._documents -= self._entries.popitem(last=False)[1].block.size
