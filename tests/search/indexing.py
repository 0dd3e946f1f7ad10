"""What the tests of the search index share: looking into it, and stopping a job in the middle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pytest

from memorist import Memory, Scope
from memorist.jobs import embed, index_owners
from memorist.search import indexer, owner_index, segment, segment_plan
from memorist.search.block import DocumentKey
from memorist.search.fresh import documents_of
from memorist.search.search_document import Findable, SearchDocument
from memorist.search.search_view import SearchFilter, SearchView, open_view
from memorist.search.segment import (
    Segment,
    content_checksum,
    decode,
    word_hash,
)
from memorist.search.words import text_words
from memorist.storage.database import Row, Transaction, Work
from testkit.faults import FaultyDatabase

T = TypeVar("T")
_SEGMENTS = """select owner, id, content from index_segments where tenant = :tenant
    order by owner, id"""
_PARTS = """select content from index_parts
    where tenant = :tenant and owner = :owner and segment = :id order by part"""
_MARKS = """select (select count(*) from fresh_records where tenant = :tenant),
    (select count(*) from fresh_sessions where tenant = :tenant),
    (select count(*) from sessions where tenant = :tenant and fresh_from is not null)"""


def _rows_of(findable: Findable, key: DocumentKey, tx: Transaction) -> list[Row]:
    return findable.send_between(tx, key.id, key.seq, key.seq).rows()


def rare(number: int) -> str:
    """Return a word that no other text has, and that is indexed unchanged."""
    return "z" + "".join("bcdfghjklm"[int(digit)] for digit in f"{number:04}") + "o"


def index_all(memory: Memory, tenant: str = "acme") -> int:
    """Take all fresh documents into segments, and return their number."""
    return index_owners.run(memory.services, tenant).done


def view_of(memory: Memory, tenant: str = "acme", model: str = "") -> SearchView:
    """Return what a search over all owners sees."""
    services = memory.services
    return memory.database.read(
        tenant,
        lambda tx: open_view(tx, services.index, services.findables, SearchFilter(), model),
    )


def documents(memory: Memory, kind: str = "", tenant: str = "acme") -> list[SearchDocument]:
    """Return the documents of the index with the texts of their records, before and after a round.

    Both must be the same, and the index must have analysed these texts.
    """
    fresh = _documents(memory, tenant)
    index_all(memory, tenant)
    assert marks(memory, tenant) == (0, 0, 0)
    assert _documents(memory, tenant) == fresh
    return [each for each in fresh if kind in ("", each.kind)]


def texts(memory: Memory, kind: str) -> list[str]:
    return [document.text for document in documents(memory, kind)]


def _documents(memory: Memory, tenant: str) -> list[SearchDocument]:
    view = view_of(memory, tenant=tenant)
    found: dict[DocumentKey, SearchDocument] = {}
    for part in view.parts:
        for place in part.alive.nonzero()[0].tolist():
            key = part.block.key(place)
            findable = memory.services.findables[key.kind]
            rows = memory.database.read(tenant, partial(_rows_of, findable, key))
            documents = documents_of(findable, rows)
            (document,) = [each for each in documents if (each.seq, each.part) == key[2:]]
            assert key not in found, "a document is there twice"
            assert part.owner == document.owner
            assert part.block.columns["content"][place] == content_checksum(document)
            assert part.block.columns["at"][place] <= document.at
            for column in ("session", "agent", "board", "place", "author", "role"):
                assert part.block.text(column, place) == getattr(document, column)
            found[key] = document
    return [found[key] for key in sorted(found)]


def marks(memory: Memory, tenant: str = "acme") -> tuple[int, ...]:
    """Return the number of fresh records, and of fresh sessions in both tables."""
    row = memory.database.read(tenant, lambda tx: tx.one(_MARKS))
    return tuple(map(int, row or ()))


def segments(memory: Memory, tenant: str = "acme") -> dict[tuple[str, str], Segment]:
    """Return the stored segments by owner and id."""

    def work(tx: Transaction) -> dict[tuple[str, str], bytes]:
        return {
            (owner, id): content or b"".join(part for (part,) in tx.all(_PARTS, owner=owner, id=id))
            for owner, id, content in tx.all(_SEGMENTS)
        }

    return {key: decode(raw) for key, raw in memory.database.read(tenant, work).items()}


def is_stored(memory: Memory, word: str) -> bool:
    """Return whether a small segment has a word, removed documents included.

    A larger one keeps them until there are many.
    """
    (term,) = text_words(word)
    return any(
        word_hash(term) in each.entries()[0]
        for each in segments(memory).values()
        if each.size <= vars(segment_plan)["INVERTED_DOCUMENTS"]
    )


def finds(me: Scope, word: str, **filters: Any) -> list[str]:
    """Return the hits whose text has a word."""
    hits = me.search(word, **filters)
    return [hit.text for hit in [*hits, *hits.facts] if word in hit.text]


class InterruptedDatabase(FaultyDatabase):
    """A real database that calls a function once, after the next read or before the next write."""

    def __init__(self, database: Any) -> None:
        super().__init__(database)
        self._pending: dict[str, Callable[[], object]] = {}

    def after_read(self, call: Callable[[], object]) -> None:
        """Call a function after the next read."""
        self._pending["read"] = call

    def before_write(self, call: Callable[[], object]) -> None:
        """Call a function before the next write."""
        self._pending["write"] = call

    def read(self, tenant: str, work: Work[T], **named: Any) -> T:
        result = super().read(tenant, work, **named)
        self._pending.pop("read", _nothing)()
        return result

    def write(self, tenant: str, work: Work[T], **named: Any) -> T:
        self._pending.pop("write", _nothing)()
        return super().write(tenant, work, **named)


def _nothing() -> None:
    pass


def interrupted(memory: Memory) -> tuple[Memory, InterruptedDatabase]:
    """Return a memory over a database whose jobs can be stopped, for `index_owners` and `embed`."""
    database = InterruptedDatabase(memory.database)
    return Memory(replace(memory.services, database=database), memory.migrations), database


@contextmanager
def small_segments() -> Iterator[None]:
    """Let segments, parts and rows of vectors be so small that a few documents need several."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (segment_plan, indexer):
            patch.setattr(module, "MAX_DOCUMENTS", 48)
        patch.setattr(segment_plan, "TIERS", (4, 12, 24, 48))
        patch.setattr(segment_plan, "FANOUT", 3)
        for module in (segment, segment_plan):
            patch.setattr(module, "INVERTED_DOCUMENTS", 12)
        patch.setattr(indexer, "PART_BYTES", 1000)
        patch.setattr(owner_index, "LARGE_SEGMENT", 24)
        patch.setattr(embed, "BATCH_SIZE", 7)
        patch.setattr(embed, "MAX_VECTORS_PER_ROW", 16)
        patch.setattr(embed, "SMALL_ROW", 3)
        patch.setattr(embed, "MAX_SMALL_ROWS", 3)
        yield
