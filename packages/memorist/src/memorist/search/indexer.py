"""Take fresh documents of an owner into segments.

A round reads the marks, the records that they name and the segments in one snapshot, analyses and
merges outside of any transaction, and publishes the result in a short one. It publishes only if the
generation is the one that it has read: so it cannot bring back what was removed meanwhile.
"""

from __future__ import annotations

import logging
import math
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock, Thread
from typing import TYPE_CHECKING

from memorist.base.errors import SettingsError, StorageError
from memorist.search import fresh, vectors
from memorist.search.fresh import Changed, FreshSession, Marks
from memorist.search.index import Index, mark_digest, new_stamp
from memorist.search.owner_index import OWNER, OwnerIndex, OwnerState, StoredSegment, read_state
from memorist.search.search_document import Findable, SearchDocument
from memorist.search.segment import (
    ANALYSIS,
    MAX_DOCUMENTS,
    Segment,
    analyse,
    build,
    content_checksum,
    encode,
    merge,
)
from memorist.search.segment_plan import SegmentSize, plan_merges
from memorist.storage.database import Database, Row, Transaction

if TYPE_CHECKING:
    from memorist.search.block import DocumentBlock
    from memorist.search.segment import Array

PART_BYTES = 256 << 10
log = logging.getLogger("memorist.search")
MAX_TRIES = 20
UNNUMBERED = -1
SESSIONS_PER_ROUND = 200
"""A round locks so many sessions at most."""
RETRY_SECONDS = 60.0
"""The pause of `BackgroundIndexer` after a failure."""
MAX_SINGLE_NUMBERS = 50
"""Up to this many documents, each row of vectors is read separately; above, one range."""
_DUE = """select owner from fresh_records where tenant = :tenant and owner > :after
    union select owner from fresh_sessions where tenant = :tenant and owner > :after
    order by 1 limit :limit"""
_LOCK_OWNER = "select 1 from index_owners where tenant = :tenant and owner = :owner"
_ADD_OWNER = """insert into index_owners (tenant, owner, generation, next_number, documents, embedded, vectors, changed_at)
    values (:tenant, :owner, :generation, 0, 0, '', 0, :now) on conflict do nothing"""
_SET_OWNER = """update index_owners set generation = generation + 1, next_number = :next_number,
        documents = :documents, changed_at = :now,
        embedded = case when :is_complete = 1 then embedded else '' end,
        vectors = vectors - :dropped
    where tenant = :tenant and owner = :owner"""
_ADD_SEGMENT = """insert into index_segments (tenant, owner, id, documents, dead, parts, content)
    values (:tenant, :owner, :id, :documents, :dead, :parts, :content)"""
_ADD_PART = """insert into index_parts (tenant, owner, segment, part, content)
    values (:tenant, :owner, :segment, :part, :content)"""
_SET_DEAD = """update index_segments set dead = :dead
    where tenant = :tenant and owner = :owner and id = :id"""
_REMOVE_SEGMENT = (
    "delete from index_segments where tenant = :tenant and owner = :owner and id = :id"
)
_REMOVE_UNUSED_PARTS = """delete from index_parts where tenant = :tenant and owner = :owner
    and segment not in (select id from index_segments where tenant = :tenant and owner = :owner)"""
_REMOVE_MARK = """delete from fresh_records
    where tenant = :tenant and owner = :owner and digest = :digest and stamp = :stamp"""
_LOCK_SESSION = "select 1 from sessions where tenant = :tenant and id = :id"
_STAMP = """select stamp from fresh_sessions
    where tenant = :tenant and owner = :owner and session_id = :id"""
_LAST_SEQ = """select coalesce(max(seq), 0) from messages
    where tenant = :tenant and session_id = :id"""
_FRESH_FROM = "update sessions set fresh_from = :first where tenant = :tenant and id = :id"
_MOVE_SESSION = """update fresh_sessions set first_seq = :first
    where tenant = :tenant and owner = :owner and session_id = :id"""
_REMOVE_SESSION = """delete from fresh_sessions
    where tenant = :tenant and owner = :owner and session_id = :id"""
_VECTORS = """select model, id, content from index_vectors
    where tenant = :tenant and owner = :owner and first_number <= :last and last_number >= :first
    order by model, id"""
_REMOVE_VECTORS = """delete from index_vectors
    where tenant = :tenant and owner = :owner and model = :model and id = :id"""
_ADD_VECTORS = """insert into index_vectors
        (tenant, owner, model, id, documents, first_number, last_number, content)
    values (:tenant, :owner, :model, :id, :documents, :first, :last, :content)"""
_REMOVE_FAILURE = """delete from index_failures
    where tenant = :tenant and owner = :owner and number = :number"""


def new_id() -> str:
    """Return the id of a segment or of a row of vectors."""
    return uuid.uuid4().hex


def due_owners(tx: Transaction, after: str, limit: int) -> list[str]:
    """Return the next owners that have fresh documents."""
    return [owner for (owner,) in tx.all(_DUE, after=after, limit=limit)]


@dataclass
class _Plan:
    """What a round changes in the index of an owner."""

    state: OwnerState
    marks: Marks
    index: OwnerIndex
    removed: set[str] = field(default_factory=set)
    added: dict[str, Segment] = field(default_factory=dict)
    dead: dict[str, Array] = field(default_factory=dict)
    next_number: int = 0
    documents: int = 0
    new_documents: int = 0
    gone: set[int] = field(default_factory=set)
    """Numbers of documents that no longer exist."""
    outdated: set[int] = field(default_factory=set)
    """Numbers of messages whose vectors contain a predecessor that was removed."""
    gone_places: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """For each segment, the places of documents that are gone or replaced."""
    new: Sequence[tuple[SearchDocument, int]] = ()
    """Documents to put into segments, with their numbers if they keep them."""
    vectors: Sequence[Row] = ()


class Indexer:
    """Indexes the owners of one database."""

    def __init__(self, database: Database, index: Index, findables: Mapping[str, Findable]) -> None:
        self._database = database
        self._index = index
        self._findables = findables

    def run(self, tenant: str, owner: str) -> int:
        """Take the fresh documents of an owner into segments; return the number of indexed ones.

        Those that are written meanwhile are left to the next run, so that it ends.
        """
        total = 0
        tries = 0
        while tries < MAX_TRIES:
            plan = self._database.read(tenant, lambda tx: self._read(tx, owner), long=True)
            if plan is None:
                break
            _plan_segments(plan)
            if not plan.state.generation:
                # Without a row, nothing would show that the owner was erased during the round.
                self._database.write(tenant, lambda tx: lock_owner(tx, owner, 0))
                tries += 1
            elif self._publish(tenant, owner, plan):
                total += plan.new_documents
                if plan.marks.is_complete:
                    break
                tries = 0
            else:  # another process published first
                tries += 1
        return total

    def _read(self, tx: Transaction, owner: str) -> _Plan | None:
        """Return what to change; None if nothing is fresh."""
        state_sent = tx.send(OWNER, owner=owner)
        marks_sent = fresh.send_marks(tx, owner, MAX_DOCUMENTS)
        state = read_state(state_sent.rows())
        marks = fresh.marks(marks_sent, MAX_DOCUMENTS)
        is_complete = marks.is_complete and len(marks.sessions) <= SESSIONS_PER_ROUND
        sessions = marks.sessions[:SESSIONS_PER_ROUND]
        marks = replace(marks, sessions=sessions, is_complete=is_complete)
        if marks.is_empty:
            return None
        if not state.generation:
            return _Plan(state, marks, OwnerIndex(owner, state))
        documents = fresh.read_documents(tx, self._findables, owner, marks)
        (index,) = self._index.cache.load(tx, {owner: state}, "")
        plan = _Plan(state, marks, index)
        _plan_documents(plan, documents.documents, documents.replaced)
        if plan.gone or plan.outdated:
            plan.vectors = _read_vectors(tx, owner, sorted(plan.gone | plan.outdated))
        return plan

    def _publish(self, tenant: str, owner: str, plan: _Plan) -> bool:
        contents = {id: encode(segment) for id, segment in plan.added.items()}
        large = {id: raw for id, raw in contents.items() if len(raw) > PART_BYTES}
        generation = plan.state.generation
        for id, raw in large.items():
            for part, start in enumerate(range(0, len(raw), PART_BYTES)):
                row = {
                    "owner": owner,
                    "segment": id,
                    "part": part,
                    "content": raw[start : start + PART_BYTES],
                }

                def add_part(tx: Transaction, row: Mapping[str, object] = row) -> bool:
                    return lock_owner(tx, owner, generation) and bool(tx.run(_ADD_PART, **row))

                if not self._database.write(tenant, add_part):
                    return False

        def work(tx: Transaction) -> bool:
            for session in plan.marks.sessions:  # in the order of their ids
                tx.lock_rows(_LOCK_SESSION, id=session.id)
            if not lock_owner(tx, owner, generation) or not _are_same(tx, owner, plan.marks):
                return False
            for id in sorted(plan.removed):
                tx.send(_REMOVE_SEGMENT, owner=owner, id=id)
            for id, raw in contents.items():
                values = {
                    "documents": plan.added[id].size,
                    "dead": b"",
                    "parts": -(-len(raw) // PART_BYTES) if id in large else 0,
                    "content": b"" if id in large else raw,
                }
                tx.send(_ADD_SEGMENT, owner=owner, id=id, **values)
            for id, dead in plan.dead.items():
                tx.send(_SET_DEAD, owner=owner, id=id, dead=dead.astype("<u2").tobytes())
            if large or plan.removed:
                tx.send(_REMOVE_UNUSED_PARTS, owner=owner)
            dropped = _drop_vectors(tx, owner, plan)
            tx.send(
                _SET_OWNER,
                owner=owner,
                next_number=plan.next_number,
                documents=plan.documents,
                is_complete=int(not plan.new_documents and not plan.outdated),
                dropped=dropped,
            )
            _remove_marks(tx, owner, plan.marks)
            return True

        return self._database.write(tenant, work, long=True)


class BackgroundIndexer:
    """Indexes owners of one database in a thread, for programs that run no jobs.

    A failure is left to the job, and to a later search after a pause.
    """

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = Lock()
        self._busy_until: dict[tuple[str, str], float] = {}

    def start(self, indexer: Indexer, tenant: str, owners: Sequence[str]) -> None:
        """Index owners, unless that is under way."""
        if self._process != os.getpid():  # the thread runs in the parent only
            self._reset()
        now = time.monotonic()
        with self._lock:
            wanted = [each for each in owners if self._busy_until.get((tenant, each), 0.0) <= now]
            self._busy_until.update(((tenant, each), math.inf) for each in wanted)
        if not wanted:
            return

        def work() -> None:
            for owner in wanted:
                pause = 0.0
                try:
                    indexer.run(tenant, owner)
                except (StorageError, SettingsError) as error:
                    log.debug("The index of an owner was not written: %s", error)
                    pause = RETRY_SECONDS
                finally:
                    self._release(tenant, owner, pause)

        try:
            Thread(target=work, name="memorist-index", daemon=True).start()
        except RuntimeError:  # no more threads can be started
            for owner in wanted:
                self._release(tenant, owner, RETRY_SECONDS)

    def _release(self, tenant: str, owner: str, pause: float) -> None:
        with self._lock:
            if pause:
                self._busy_until[tenant, owner] = time.monotonic() + pause
            else:
                self._busy_until.pop((tenant, owner), None)


def lock_owner(tx: Transaction, owner: str, generation: int) -> bool:
    """Lock the row of an owner; return whether it still has the generation that was read.

    generation: 0 if there was no row; then it is added
    """
    if not generation:
        values = {"owner": owner, "generation": 1 + new_stamp()}
        return bool(tx.run(_ADD_OWNER, **values))
    tx.lock_rows(_LOCK_OWNER, owner=owner)
    row = tx.one(OWNER, owner=owner)
    return row is not None and bool(row[0] == generation)


def _plan_documents(
    plan: _Plan, documents: Sequence[SearchDocument], replaced: Sequence[Changed]
) -> None:
    """Decide which documents of segments are gone, and which are to be put into segments."""
    import numpy as np

    gone: dict[str, list[int]] = {id: [] for id in plan.index.segments}
    unchanged: set[SearchDocument] = set()
    numbers: dict[SearchDocument, int] = {}
    by_key: dict[tuple[str, str, int, int], SearchDocument] = {
        (each.kind, each.id, each.seq, each.part): each for each in documents
    }
    for (block, alive), ids in zip(plan.index.blocks, plan.index.block_ids, strict=True):
        segments = [plan.index.segments[id] for id in ids]
        starts = np.cumsum([0, *[stored.segment.size for stored in segments]])
        places: set[int] = set()
        for each in replaced:
            places.update(block.find(each.kind, each.id, each.low, each.high).tolist())
            if each.kind == "messages":
                successor = block.find(each.kind, each.id, each.high + 1, each.high + 1)
                plan.outdated |= _numbers(block, successor)
        for place in sorted(place for place in places if alive[place]):
            number = int(np.searchsorted(starts, place, side="right")) - 1
            now = by_key.get(block.key(place))
            if (
                now is not None
                and now not in unchanged
                and now not in numbers
                and _has_same_content(now, place, block)
            ):
                # Its vector stays valid, because that depends on the content only.
                numbers[now] = int(block.columns["number"][place])
                if segments[number].segment.analysis == ANALYSIS and _is_same(now, place, block):
                    unchanged.add(now)
                    continue
            else:
                plan.gone.add(int(block.columns["number"][place]))
            gone[ids[number]].append(int(place - starts[number]))
    plan.new = [
        (each, numbers.get(each, UNNUMBERED)) for each in documents if each not in unchanged
    ]
    plan.new_documents = sum(number == UNNUMBERED for _, number in plan.new)
    plan.outdated -= plan.gone
    plan.gone_places = gone


def _numbers(block: DocumentBlock, places: Array) -> set[int]:
    return set(block.columns["number"][places].tolist())


def _has_same_content(now: SearchDocument, place: int, block: DocumentBlock) -> bool:
    return int(block.columns["content"][place]) == content_checksum(now)


def _is_same(now: SearchDocument, place: int, block: DocumentBlock) -> bool:
    """Return whether a document of a segment has the same columns, too."""
    columns = block.columns
    return (
        int(columns["expires"][place]) == (now.expires_at or 0)
        and int(columns["at"][place]) == now.at
        and all(
            block.text(name, place) == getattr(now, name)
            for name in ("session", "agent", "board", "place")
        )
    )


def _plan_segments(plan: _Plan) -> None:
    """Analyse new documents, put them into segments, and merge those that are due."""
    import numpy as np

    gone = plan.gone_places
    new = [analyse(document)._replace(number=number) for document, number in plan.new]
    next_number = plan.state.next_number
    stored: dict[str, StoredSegment] = {}
    for id, each in plan.index.segments.items():
        dead = np.union1d(each.dead, np.array(gone[id], np.int64)).astype(np.int64)
        stored[id] = StoredSegment(each.segment, dead)
        if len(gone[id]):
            plan.dead[id] = dead
    for start in range(0, len(new), MAX_DOCUMENTS):
        some = []
        for analysed in new[start : start + MAX_DOCUMENTS]:
            if analysed.number == UNNUMBERED:
                some.append(analysed._replace(number=next_number))
                next_number += 1
            else:
                some.append(analysed)
        stored[new_id()] = StoredSegment(build(some), np.zeros(0, np.int64))
    plan.next_number = next_number
    sizes = {}
    for id, each in stored.items():
        alive = each.segment.size - len(each.dead)
        if alive:
            sizes[id] = SegmentSize(each.segment.size, alive)
        else:
            plan.removed.add(id)
    plan.documents = sum(size.alive for size in sizes.values())
    merged = plan_merges(sizes)
    for group in merged:
        id = new_id()
        plan.added[id] = merge((stored[each].segment, stored[each].alive) for each in group)
        plan.removed.update(each for each in group if each in plan.index.segments)
    in_merges = {id for group in merged for id in group}
    for id in sizes.keys() - plan.index.segments.keys() - in_merges:
        plan.added[id] = stored[id].segment
    plan.removed &= plan.index.segments.keys()
    plan.dead = {id: dead for id, dead in plan.dead.items() if id not in plan.removed}


def _read_vectors(tx: Transaction, owner: str, numbers: Sequence[int]) -> list[Row]:
    """Return the rows with the vectors of documents."""
    spans = [(number, number) for number in numbers]
    if len(numbers) > MAX_SINGLE_NUMBERS:
        spans = [(numbers[0], numbers[-1])]
    sent = [tx.send(_VECTORS, owner=owner, first=first, last=last) for first, last in spans]
    rows = {row[:2]: row for result in sent for row in result.rows()}
    return list(rows.values())


def _drop_vectors(tx: Transaction, owner: str, plan: _Plan) -> int:
    """Remove the vectors of documents that are gone, and outdated ones; return their number."""
    import numpy as np

    unwanted = np.array(sorted(plan.gone | plan.outdated), np.int64)
    dropped = 0
    for model, id, content in plan.vectors:
        rows = vectors.unpack(content)
        keep = np.zeros(0, bool) if rows is None else ~np.isin(rows.numbers, unwanted)
        if rows is not None and keep.all():
            continue
        tx.send(_REMOVE_VECTORS, owner=owner, model=model, id=id)
        if rows is not None:
            dropped += int((~keep).sum())
            if keep.any():
                kept = rows.select(keep)
                add_vectors(tx, owner, model, kept)
    tx.many(_REMOVE_FAILURE, [{"owner": owner, "number": number} for number in unwanted.tolist()])
    return dropped


def add_vectors(tx: Transaction, owner: str, model: str, rows: vectors.VectorRows) -> None:
    """Store vectors as one row."""
    tx.send(
        _ADD_VECTORS,
        owner=owner,
        model=model,
        id=new_id(),
        documents=len(rows.numbers),
        first=int(rows.numbers.min()),
        last=int(rows.numbers.max()),
        content=vectors.pack(rows),
    )


def remove_vectors(tx: Transaction, owner: str, model: str, ids: Sequence[str]) -> None:
    """Remove rows of vectors."""
    for id in ids:
        tx.send(_REMOVE_VECTORS, owner=owner, model=model, id=id)


def _are_same(tx: Transaction, owner: str, marks: Marks) -> bool:
    """Return whether the sessions are those that were read: not new ones with the same ids."""
    sent = [tx.send(_STAMP, owner=owner, id=session.id) for session in marks.sessions]
    stamps = [result.rows() for result in sent]
    return stamps == [[(session.stamp,)] for session in marks.sessions]


def _remove_marks(tx: Transaction, owner: str, marks: Marks) -> None:
    """Remove the marks that were read, unless something has changed again since."""
    rows = [
        {"owner": owner, "digest": mark_digest(*record[:3]), "stamp": record.stamp}
        for record in marks.records
    ]
    tx.many(_REMOVE_MARK, rows)
    for session in marks.sessions:
        _remove_session_mark(tx, owner, session)


def _remove_session_mark(tx: Transaction, owner: str, session: FreshSession) -> None:
    """Note from which message on a session is fresh now. Its row is locked."""
    last = (tx.one(_LAST_SEQ, id=session.id) or (0,))[0]
    if last > session.last_seq:
        first = session.last_seq + 1
        tx.send(_FRESH_FROM, id=session.id, first=first)
        tx.send(_MOVE_SESSION, owner=owner, id=session.id, first=first)
    else:
        tx.send(_FRESH_FROM, id=session.id, first=None)
        tx.send(_REMOVE_SESSION, owner=owner, id=session.id)
