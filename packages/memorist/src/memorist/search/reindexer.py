"""Compare the index of a tenant with its records, and mark what differs.

After an import or a migration the index lacks records; after damage it may lack anything. What
differs is marked as fresh: searches read it at once, and the index job takes it into segments.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from memorist.search import fresh
from memorist.search.fresh import documents_of
from memorist.search.index import Index, new_stamp
from memorist.search.indexer import lock_owner
from memorist.search.owner_index import BEHIND, OWNER, IndexCache, OwnerIndex, read_state
from memorist.search.search_document import WHOLE, Findable, IndexMark, SearchDocument
from memorist.search.search_view import without_changed
from memorist.search.segment import ANALYSIS, content_checksum
from memorist.storage.database import Database, Transaction
from memorist.storage.tables import Check

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memorist.search.block import DocumentKey

    Hashes = NDArray[np.uint64]

RECORDS_PER_READ = 500
MARKS_PER_WRITE = 500
OWNERS_PER_READ = 500
MAX_REPORTED = 200
ALL_MARKS = 1 << 30
_DONE = "delete from search_behind where tenant = :tenant and round = :round"
_OWNERS = """select owner from index_owners where tenant = :tenant and owner > :after
    union select owner from fresh_records where tenant = :tenant and owner > :after
    union select owner from fresh_sessions where tenant = :tenant and owner > :after
    order by 1 limit :limit"""
_REMOVE_SEGMENT = (
    "delete from index_segments where tenant = :tenant and owner = :owner and id = :id"
)
_REMOVE_VECTORS = """delete from index_vectors
    where tenant = :tenant and owner = :owner and id = :id"""
_RAISE = """update index_owners set generation = generation + 1,
        vectors = case when embedded = '' then vectors else :vectors end, embedded = ''
    where tenant = :tenant and owner = :owner"""
_FAILED = "select number from index_failures where tenant = :tenant and owner = :owner"
_LOCK_SESSION = "select 1 from sessions where tenant = :tenant and id = :id"
_FRESH_FROM = """update sessions set fresh_from = :first
    where tenant = :tenant and id = :id and (fresh_from is null or fresh_from > :first)"""
_MARK_SESSION = """insert into fresh_sessions (tenant, owner, session_id, first_seq, stamp)
    select :tenant, :owner, :id, :first, :stamp from sessions where tenant = :tenant and id = :id
    on conflict (tenant, owner, session_id) do update
    set stamp = excluded.stamp, first_seq = case when fresh_sessions.first_seq < excluded.first_seq
                         then fresh_sessions.first_seq else excluded.first_seq end"""


@dataclass(frozen=True)
class Reindexed:
    """Number of documents that were added to the index and removed from it."""

    added: int = 0
    removed: int = 0

    def __add__(self, other: Reindexed) -> Reindexed:
        return Reindexed(self.added + other.added, self.removed + other.removed)


@dataclass(frozen=True)
class Difference:
    """Documents that the index lacks, and documents that it has without a record."""

    missing: Sequence[IndexMark] = ()
    stray: Sequence[IndexMark] = ()


def is_behind(tx: Transaction) -> bool:
    """Return whether the index of a tenant lacks records."""
    return tx.one(BEHIND) is not None


def checks(findables: Mapping[str, Findable]) -> tuple[Check, ...]:
    """Return the checks of the index for `verify` (P12, P13)."""
    expiring = {name for name, findable in findables.items() if findable.expires_unmarked}

    def names(marks: Sequence[IndexMark]) -> list[str]:
        return [
            f"{mark.kind} {mark.id}" + (f" {mark.seq}" if mark.seq else "")
            for mark in marks[:MAX_REPORTED]
        ]

    return (
        Check(
            "the index has all records (`memorist reindex` adds missing ones)",
            find=lambda tx: names(compare(tx, findables).missing),
        ),
        Check(
            "the index has no records that do not exist (`memorist reindex` removes them)",
            find=lambda tx: names(
                [mark for mark in compare(tx, findables).stray if mark.kind not in expiring]
            ),
        ),
        Check(
            "the segments and vectors of the index are whole (`memorist reindex` repairs them)",
            find=_damage,
        ),
        Check(
            "documents whose owner is embedded have a vector (`memorist reindex`, then `memorist jobs`)",
            find=_without_vector,
        ),
    )


def compare(tx: Transaction, findables: Mapping[str, Findable]) -> Difference:
    """Compare the documents of all records with those of the index, by hashes of name and content."""
    import numpy as np

    recorded = array("Q")
    for _, hash in _recorded(tx, findables):
        recorded.append(hash)
    indexed = array("Q")
    for _, hash in _indexed(tx, findables):
        indexed.append(hash)
    has = np.frombuffer(recorded, np.uint64) if recorded else np.zeros(0, np.uint64)
    knows = np.frombuffer(indexed, np.uint64) if indexed else np.zeros(0, np.uint64)
    missing = set(np.setdiff1d(has, knows).tolist())
    stray = set(np.setdiff1d(knows, has).tolist())
    return Difference(
        [mark for mark, hash in _recorded(tx, findables) if hash in missing] if missing else [],
        [mark for mark, hash in _indexed(tx, findables) if hash in stray] if stray else [],
    )


def _recorded(
    tx: Transaction, findables: Mapping[str, Findable]
) -> Iterator[tuple[IndexMark, int]]:
    """Yield the documents of all records."""
    for findable in findables.values():
        after = findable.first
        while rows := findable.read_after(tx, after, RECORDS_PER_READ):
            for document in documents_of(findable, rows):
                if not _is_expired(document, tx.now):
                    yield _mark(document), _hash(document)
            after = findable.row_key(rows[-1])


def _indexed(tx: Transaction, findables: Mapping[str, Findable]) -> Iterator[tuple[IndexMark, int]]:
    """Yield the documents of the index, fresh ones included."""
    import numpy as np

    for each in _each_owner(tx):
        marked = fresh.marks(fresh.send_marks(tx, each.owner, ALL_MARKS), ALL_MARKS)
        now = fresh.read_documents(tx, findables, each.owner, marked)
        for document in now.documents:
            if not _is_expired(document, tx.now):
                yield _mark(document), _hash(document)
        for (block, alive), ids in zip(each.blocks, each.block_ids, strict=True):
            mask = without_changed(block, alive, now.replaced).copy()
            expires = block.columns["expires"]
            mask &= (expires == 0) | (expires > tx.now)
            start = 0
            for id in ids:
                segment = each.segments[id].segment
                if segment.analysis != ANALYSIS:  # its documents are to be analysed again
                    mask[start : start + segment.size] = False
                start += segment.size
            for place in np.flatnonzero(mask).tolist():
                key = block.key(place)
                mark = IndexMark(each.owner, key.kind, key.id, key.seq)
                yield mark, _key_hash(each.owner, *key, int(block.columns["content"][place]))


def _is_expired(document: SearchDocument, now: int) -> bool:
    return document.expires_at is not None and document.expires_at <= now


def _mark(document: SearchDocument) -> IndexMark:
    return IndexMark(document.owner, document.kind, document.id, document.seq)


def _hash(document: SearchDocument) -> int:
    key = (document.owner, document.kind, document.id, document.seq, document.part)
    return _key_hash(*key, content_checksum(document))


def _key_hash(*key: object) -> int:
    name = "\0".join(map(str, key)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little")


def _each_owner(tx: Transaction) -> Iterator[OwnerIndex]:
    """Yield the indexes of all owners, without keeping them in memory."""
    after = ""
    while owners := [row[0] for row in tx.all(_OWNERS, after=after, limit=OWNERS_PER_READ)]:
        for owner in owners:
            state = read_state(tx.all(OWNER, owner=owner))
            yield IndexCache(0).load(tx, {owner: state}, state.embedded)[0]
        after = owners[-1]


def _damage(tx: Transaction) -> list[str]:
    return [
        f"{what} {id} of owner {each.owner}"
        for each in _each_owner(tx)
        for what, ids in (("segment", each.damaged), ("vectors", each.damaged_vectors))
        for id in ids
    ][:MAX_REPORTED]


def _without_vector(tx: Transaction) -> list[str]:
    """Return documents that should have a vector and have none."""
    names: list[str] = []
    for each in _each_owner(tx):
        names += [f"{key.kind} {key.id} {key.seq}" for key in _lost_vectors(tx, each)]
        if len(names) >= MAX_REPORTED:
            break
    return names[:MAX_REPORTED]


def _lost_vectors(tx: Transaction, index: OwnerIndex) -> Iterator[DocumentKey]:
    """Yield the documents of an embedded owner that have no vector and did not fail."""
    import numpy as np

    if not index.state.embedded or index.vectors is None:
        return
    failed = {number for (number,) in tx.all(_FAILED, owner=index.owner)}
    for block, alive in index.blocks:
        numbers = block.columns["number"]
        lacks = alive & (index.vectors.rows_of(numbers) < 0)
        for place in np.flatnonzero(lacks).tolist():
            if int(numbers[place]) not in failed:
                yield block.key(place)


class Reindexer:
    """Completes the index of one tenant; calls `progress` with the number of marked documents."""

    def __init__(
        self,
        database: Database,
        index: Index,
        findables: Mapping[str, Findable],
        tenant: str,
        progress: Callable[[int], None],
    ) -> None:
        self._database = database
        self._index = index
        self._findables = findables
        self._tenant = tenant
        self._progress = progress

    def run(self) -> Reindexed:
        """Mark every difference as fresh, then note that the tenant is complete."""
        unfinished = self._database.read(self._tenant, lambda tx: tx.one(BEHIND))
        self._remove_damage()
        difference = self._database.read(
            self._tenant, lambda tx: compare(tx, self._findables), long=True
        )
        messages: dict[tuple[str, str], int] = {}
        others = list(difference.stray)
        for mark in difference.missing:
            if mark.kind == "messages":
                key = (mark.owner, mark.id)
                messages[key] = min(mark.seq, messages.get(key, mark.seq))
            else:
                others.append(mark)
        others = list(dict.fromkeys(map(self._record_mark, others)))
        for (owner, session), first in sorted(messages.items()):
            self._write(partial(_mark_session, owner=owner, session=session, first=first))
            self._progress(1)
        for start in range(0, len(others), MARKS_PER_WRITE):
            some = others[start : start + MARKS_PER_WRITE]
            self._write(lambda tx, some=some: self._index.mark(tx, some))  # type: ignore[misc]
            self._progress(len(some))
        if unfinished is not None:
            # An import that started meanwhile has raised the round; then nothing is deleted here.
            self._write(lambda tx: tx.run(_DONE, round=unfinished[0]))
        return Reindexed(len(set(difference.missing)), len(set(difference.stray)))

    def _record_mark(self, mark: IndexMark) -> IndexMark:
        """Return the mark of the record: its documents are read together, and replaced together."""
        findable = self._findables.get(mark.kind)
        is_whole = findable is not None and not findable.is_numbered
        return mark._replace(seq=WHOLE) if is_whole else mark

    def _write(self, work: Callable[[Transaction], object]) -> None:
        self._database.write(self._tenant, work, idempotent=True)

    def _remove_damage(self) -> None:
        """Remove segments and vectors that cannot be read; let lost vectors be computed again."""

        def work(tx: Transaction) -> list[OwnerIndex]:
            return [
                each
                for each in _each_owner(tx)
                if each.damaged or each.damaged_vectors or any(_lost_vectors(tx, each))
            ]

        damaged = self._database.read(self._tenant, work, long=True)
        for index in damaged:
            self._write(partial(_remove_damaged, index=index))


def _mark_session(tx: Transaction, owner: str, session: str, first: int) -> None:
    tx.lock_rows(_LOCK_SESSION, id=session)
    tx.send(_FRESH_FROM, id=session, first=first)
    tx.send(_MARK_SESSION, owner=owner, id=session, first=first, stamp=new_stamp())


def _remove_damaged(tx: Transaction, index: OwnerIndex) -> None:
    if not lock_owner(tx, index.owner, index.state.generation):
        return  # it was written meanwhile; the next run looks again
    for id in index.damaged:
        tx.send(_REMOVE_SEGMENT, owner=index.owner, id=id)
    for id in index.damaged_vectors:
        tx.send(_REMOVE_VECTORS, owner=index.owner, id=id)
    vectors = sum(len(piece.numbers) for piece in index.pieces.values())
    tx.send(_RAISE, owner=index.owner, vectors=vectors)
