"""Index messages that were written with SQL, and give them random vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from memorist.jobs import index_owners
from memorist.kinds.indexing import index_id
from memorist.kinds.kind import Services
from memorist.search.embedders import quantise
from memorist.search.indexer import add_vectors, lock_owner
from memorist.search.owner_index import OWNER, read_state
from memorist.search.search_document import IndexMark, owner_of
from memorist.search.vectors import MAX_VECTORS_PER_ROW, VectorRows
from memorist.storage.database import Transaction

Floats = NDArray[np.float32]
MakeVectors = Callable[[int, int], Floats]
"""Returns vectors: how many, and their dimensions."""

_NOT_EMBEDDED = """select owner from index_owners where tenant = :tenant and embedded <> :model
    order by owner"""
_SET_EMBEDDED = """update index_owners set generation = generation + 1, embedded = :model,
        vectors = :vectors
    where tenant = :tenant and owner = :owner"""


def mark_sessions(services: Services, tx: Transaction, sessions: Iterable[tuple[str, str]]) -> None:
    """Mark new sessions, with their users, as fresh."""
    for session, user in sessions:
        services.index.mark_messages(tx, session, user, 1, None)


def mark_records(
    services: Services, tx: Transaction, kind: str, records: Iterable[tuple[str, str]]
) -> None:
    """Mark new records, with their users, as fresh."""
    services.index.mark(tx, [IndexMark(owner_of(user), kind, id) for id, user in records])


def state_id(user: str, key: str) -> str:
    """Return the id of a user's state in the index."""
    return index_id(f"user:{user}", key)


def random_vectors(count: int, dimensions: int) -> Floats:
    """Return vectors in random directions."""
    return np.random.default_rng(count).normal(size=(count, dimensions)).astype(np.float32)


def index_tenant(
    services: Services, tenant: str, make_vectors: MakeVectors = random_vectors
) -> None:
    """Take fresh documents of a tenant into segments, and give all documents a vector."""
    index_owners.run(services, tenant)
    embedder = services.embedder
    if embedder is None:
        return
    model = embedder.identity
    owners = services.database.read(tenant, lambda tx: tx.all(_NOT_EMBEDDED, model=model))
    for (owner,) in owners:
        work = partial(_embed, services, owner, model, embedder.dimensions, make_vectors)
        services.database.write(tenant, work, long=True)


def _embed(
    services: Services,
    owner: str,
    model: str,
    dimensions: int,
    make_vectors: MakeVectors,
    tx: Transaction,
) -> None:
    state = read_state(tx.all(OWNER, owner=owner))
    assert lock_owner(tx, owner, state.generation), "something else writes to this index"
    (index,) = services.index.cache.load(tx, {owner: state}, model)
    numbers: list[int] = []
    for block, alive in index.blocks:
        every = block.columns["number"]
        lacks = alive if index.vectors is None else alive & (index.vectors.rows_of(every) < 0)
        numbers += every[lacks].tolist()
    for start in range(0, len(numbers), MAX_VECTORS_PER_ROW):
        part = numbers[start : start + MAX_VECTORS_PER_ROW]
        add_vectors(tx, owner, model, _rows(part, make_vectors(len(part), dimensions)))
    known = sum(len(piece.numbers) for piece in index.pieces.values())
    tx.send(_SET_EMBEDDED, owner=owner, model=model, vectors=known + len(numbers))


def _rows(numbers: Sequence[int], vectors: Floats) -> VectorRows:
    packed = list(quantise(vectors))
    return VectorRows(
        np.array(numbers, np.uint32),
        np.array([scale for scale, _ in packed], np.float32),
        np.array([np.frombuffer(raw, np.int8) for _, raw in packed]),
    )
