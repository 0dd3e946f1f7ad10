"""The index of an owner in memory: its segments and vectors, at one generation.

The cache asks the database for the generation of each owner at every search, so what it returns is
never older than the snapshot of the search. Segments and rows of vectors never change; a new
generation only makes it read those that it does not have.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from memorist.base.errors import SchemaTooNew
from memorist.search import segment as segments_format
from memorist.search import vectors as vector_rows
from memorist.search.block import DocumentBlock
from memorist.search.segment import DamagedSegment, NewerSegment, Segment, decode
from memorist.search.vectors import OwnerVectors, VectorRows
from memorist.storage.database import Row, Sent, Transaction

if TYPE_CHECKING:
    from memorist.search.segment import Array, Mask

LARGE_SEGMENT = 2048
"""Segments of this size or more share a block, so that small updates do not rebuild it."""
OWNER_BYTES = 2000
"""About the size of an entry without documents."""

OWNER = """select generation, next_number, documents, embedded, vectors from index_owners
    where tenant = :tenant and owner = :owner"""
BEHIND = "select round from search_behind where tenant = :tenant"
_SEGMENTS = """select id, dead, parts, content from index_segments
    where tenant = :tenant and owner = :owner order by id"""
_SEGMENT_IDS = """select id, dead from index_segments
    where tenant = :tenant and owner = :owner order by id"""
_SEGMENT = """select id, dead, parts, content from index_segments
    where tenant = :tenant and owner = :owner and id = :id"""
_PARTS = """select content from index_parts
    where tenant = :tenant and owner = :owner and segment = :id order by part"""
_VECTORS = """select id, content from index_vectors
    where tenant = :tenant and owner = :owner and model = :model order by id"""
_VECTOR_IDS = """select id from index_vectors
    where tenant = :tenant and owner = :owner and model = :model order by id"""
_VECTORS_OF_ROW = """select id, content from index_vectors
    where tenant = :tenant and owner = :owner and model = :model and id = :id"""


class OwnerState(NamedTuple):
    """The row of an owner in the database."""

    generation: int = 0
    next_number: int = 0
    documents: int = 0
    embedded: str = ""
    vectors: int = 0


class StoredSegment(NamedTuple):
    """A segment, and the places of its documents that were removed or replaced."""

    segment: Segment
    dead: Array

    @property
    def alive(self) -> Mask:
        """Which documents are still there."""
        import numpy as np

        mask = np.ones(self.segment.size, bool)
        mask[self.dead] = False
        return mask


@dataclass(frozen=True)
class OwnerIndex:
    """The segments of an owner, and the vectors of a model."""

    owner: str
    state: OwnerState
    segments: Mapping[str, StoredSegment] = field(default_factory=dict)
    damaged: Sequence[str] = ()
    blocks: Sequence[tuple[DocumentBlock, Mask]] = ()
    block_ids: Sequence[tuple[str, ...]] = ()
    """The segments of each block."""
    model: str = ""
    """The model whose vectors of this generation were read."""
    pieces: Mapping[str, VectorRows] = field(default_factory=dict)
    pieces_model: str = ""
    damaged_vectors: Sequence[str] = ()
    vectors: OwnerVectors | None = None

    @cached_property
    def vector_rows(self) -> Sequence[Array | None]:
        """For each block the row of each document's vector, -1 if it has none."""
        if self.vectors is None:
            return [None] * len(self.blocks)
        return [self.vectors.rows_of(block.columns["number"]) for block, _ in self.blocks]

    @property
    def nbytes(self) -> int:
        """About the size in memory."""
        size = OWNER_BYTES + sum(stored.segment.nbytes for stored in self.segments.values())
        size += sum(block.nbytes for block, _ in self.blocks)
        size += sum(rows.nbytes for rows in self.vector_rows if rows is not None)
        return size + (self.vectors.nbytes if self.vectors is not None else 0)


def read_state(rows: Sequence[Row]) -> OwnerState:
    """Return the state of an owner from the rows of `OWNER`."""
    return OwnerState(*rows[0]) if rows else OwnerState()


class IndexCache:
    """The indexes of the owners that were searched last, within a limit of memory."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, str], OwnerIndex] = OrderedDict()
        self.nbytes = 0

    def load(
        self, tx: Transaction, states: Mapping[str, OwnerState], model: str
    ) -> list[OwnerIndex]:
        """Return the indexes of owners with these states, and the vectors of a model ("" for none)."""
        if self._process != os.getpid():
            # In a forked child, the lock may be held by a thread that exists only in the parent.
            self._reset()
        loaded = {owner: self._get(tx.tenant, owner) for owner in states}
        stale = [
            owner for owner, index in loaded.items() if index.state.generation != states[owner][0]
        ]
        changed = _read_segments(tx, {owner: loaded[owner] for owner in stale}, states)
        if model:
            current = {**loaded, **changed}
            lacking = [
                owner
                for owner, index in current.items()
                if index.state.next_number and (owner in changed or index.model != model)
            ]
            changed |= _read_vectors(tx, {owner: current[owner] for owner in lacking}, model)
        for owner, index in changed.items():
            self._put(tx.tenant, owner, index)
        return [changed.get(owner, loaded[owner]) for owner in states]

    def _get(self, tenant: str, owner: str) -> OwnerIndex:
        with self._lock:
            index = self._entries.get((tenant, owner))
            if index is None:
                return OwnerIndex(owner, OwnerState())
            self._entries.move_to_end((tenant, owner))
            return index

    def _put(self, tenant: str, owner: str, index: OwnerIndex) -> None:
        with self._lock:
            known = self._entries.get((tenant, owner))
            if known is not None:
                self.nbytes -= known.nbytes
            self._entries[tenant, owner] = index
            self._entries.move_to_end((tenant, owner))
            self.nbytes += index.nbytes
            while self.nbytes > self._max_bytes and len(self._entries) > 1:
                self.nbytes -= self._entries.popitem(last=False)[1].nbytes


def _read_segments(
    tx: Transaction, indexes: Mapping[str, OwnerIndex], states: Mapping[str, OwnerState]
) -> dict[str, OwnerIndex]:
    """Return indexes with the segments of their new states."""
    sent: dict[str, Sent] = {}
    for owner, index in indexes.items():
        if states[owner].generation:
            sent[owner] = tx.send(_SEGMENT_IDS if index.segments else _SEGMENTS, owner=owner)
    rows: dict[str, list[Row]] = {}
    dead: dict[str, dict[str, bytes | None]] = {}
    missing: list[tuple[str, Sent]] = []
    for owner, result in sent.items():
        every = result.rows()
        dead[owner] = {row[0]: row[1] for row in every}
        known = indexes[owner].segments
        if known:
            rows[owner] = []
            missing += [
                (owner, tx.send(_SEGMENT, owner=owner, id=row[0]))
                for row in every
                if row[0] not in known
            ]
        else:
            rows[owner] = every
    for owner, result in missing:
        rows[owner] += result.rows()
    parts = [
        (owner, row[0], tx.send(_PARTS, owner=owner, id=row[0]))
        for owner, each in rows.items()
        for row in each
        if row[2]
    ]
    contents = {
        (owner, id): b"".join(content for (content,) in result.rows())
        for owner, id, result in parts
    }
    changed = {}
    for owner, index in indexes.items():
        new: dict[str, Segment] = {}
        damaged = []
        for id, _, _, content in rows.get(owner, ()):
            try:
                new[id] = decode(contents.get((owner, id)) or content or b"")
            except DamagedSegment:
                damaged.append(id)
            except NewerSegment as error:
                raise SchemaTooNew(found=error.args[0], known=segments_format.FORMAT) from None
        changed[owner] = _with_segments(index, states[owner], dead.get(owner, {}), new, damaged)
    return changed


def _with_segments(
    index: OwnerIndex,
    state: OwnerState,
    dead: Mapping[str, bytes | None],
    new: Mapping[str, Segment],
    damaged: Sequence[str],
) -> OwnerIndex:
    """Return an index with other segments; blocks of the same segments are kept."""
    import numpy as np

    segments = {}
    for id, raw in dead.items():
        if id in new:
            segments[id] = StoredSegment(new[id], np.frombuffer(raw or b"", "<u2"))
        elif id in index.segments:
            segment = index.segments[id].segment
            segments[id] = StoredSegment(segment, np.frombuffer(raw or b"", "<u2"))
    known = dict(zip(index.block_ids, index.blocks, strict=True))
    groups = [
        tuple(id for id, each in segments.items() if (each.segment.size >= LARGE_SEGMENT) is large)
        for large in (True, False)
    ]
    blocks = []
    for group in filter(None, groups):
        block = (
            known[group][0]
            if group in known
            else DocumentBlock([segments[id].segment for id in group])
        )
        blocks.append((block, np.concatenate([segments[id].alive for id in group])))
    still_damaged = [id for id in index.damaged if id in dead and id not in new]
    return OwnerIndex(
        index.owner,
        state,
        segments,
        tuple(dict.fromkeys([*still_damaged, *damaged])),
        blocks,
        tuple(filter(None, groups)),
        pieces=index.pieces,
        pieces_model=index.pieces_model,
    )


def _read_vectors(
    tx: Transaction, indexes: Mapping[str, OwnerIndex], model: str
) -> dict[str, OwnerIndex]:
    """Return indexes with the vectors of a model."""
    known = {
        owner: index.pieces if index.pieces_model == model else {}
        for owner, index in indexes.items()
    }
    sent = {
        owner: tx.send(_VECTOR_IDS if known[owner] else _VECTORS, owner=owner, model=model)
        for owner in indexes
    }
    every = {owner: result.rows() for owner, result in sent.items()}
    missing = [
        (owner, tx.send(_VECTORS_OF_ROW, owner=owner, model=model, id=id))
        for owner, rows in every.items()
        if known[owner]
        for (id,) in rows
        if id not in known[owner]
    ]
    new = {owner: [] if known[owner] else list(rows) for owner, rows in every.items()}
    for owner, result in missing:
        new[owner] += result.rows()
    changed = {}
    for owner, index in indexes.items():
        pieces = {row[0]: known[owner][row[0]] for row in every[owner] if row[0] in known[owner]}
        damaged = []
        for id, content in new[owner]:
            unpacked = vector_rows.unpack(content)
            if unpacked is None:
                damaged.append(id)
            else:
                pieces[id] = unpacked
        usable = _same_width(pieces)
        vectors, views = OwnerVectors.of(usable, index.state.next_number)
        changed[owner] = replace(
            index,
            model=model,
            pieces={**pieces, **views},
            pieces_model=model,
            damaged_vectors=damaged,
            vectors=vectors,
        )
    return changed


def _same_width(pieces: Mapping[str, VectorRows]) -> dict[str, VectorRows]:
    """Return the rows with as many dimensions as the last one has."""
    widths = [piece.vectors.shape[1] for piece in pieces.values()]
    return {id: piece for id, piece in pieces.items() if piece.vectors.shape[1] == widths[-1]}
