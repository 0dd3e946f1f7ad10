"""What the search index of a database has in its segments, and databases whose index is lost."""

from __future__ import annotations

from collections.abc import Iterator

from memorist import Memory
from memorist.jobs import index_owners
from memorist.search.block import DocumentBlock, DocumentKey
from memorist.search.fresh import documents_of
from memorist.search.owner_index import OWNER, IndexCache, read_state
from memorist.search.search_document import SearchDocument
from memorist.search.segment import content_checksum
from memorist.storage.database import Transaction

_OWNERS = "select owner from index_owners where tenant = :tenant order by owner"
_CLEAR = (
    "delete from index_owners where tenant = :tenant",
    "delete from fresh_records where tenant = :tenant",
    "delete from fresh_sessions where tenant = :tenant",
    "update sessions set fresh_from = null where tenant = :tenant",
)


def index_now(memory: Memory, tenant: str = "acme") -> None:
    """Take all fresh documents of a tenant into segments."""
    index_owners.run(memory.services, tenant)


def indexed_documents(memory: Memory, kind: str, tenant: str = "acme") -> list[SearchDocument]:
    """Take fresh documents into segments; return the documents of a kind that segments have.

    Segments have no texts: these are read from the records, and must have the checksums in the
    segments.
    """
    index_now(memory, tenant)

    findable = memory.services.findables[kind]

    def read(tx: Transaction) -> list[SearchDocument]:
        documents = []
        for owner, block, place in _places(tx, kind):
            key = block.key(place)
            now = {
                DocumentKey(each.kind, each.id, each.seq, each.part): each
                for each in documents_of(findable, findable.send(tx, key.id, key.seq).rows())
                if each.owner == owner
            }
            assert key in now, "a segment has a document without a record"
            document = now[key]
            assert int(block.columns["content"][place]) == content_checksum(document)
            assert int(block.columns["expires"][place]) == (document.expires_at or 0)
            for name in ("session", "agent", "board", "place"):
                assert block.text(name, place) == getattr(document, name)
            documents.append(document)
        return documents

    documents = memory.database.read(tenant, read)
    return sorted(documents, key=lambda each: (each.id, each.seq, each.part))


def indexed_numbers(memory: Memory, kind: str, tenant: str = "acme") -> dict[DocumentKey, int]:
    """Take fresh documents into segments; return the numbers of the documents of a kind.

    A vector belongs to a number: a document that keeps its number is not embedded again.
    """
    index_now(memory, tenant)

    def read(tx: Transaction) -> dict[DocumentKey, int]:
        return {
            block.key(place): int(block.columns["number"][place])
            for _, block, place in _places(tx, kind)
        }

    return memory.database.read(tenant, read)


def _places(tx: Transaction, kind: str) -> Iterator[tuple[str, DocumentBlock, int]]:
    """Yield the documents of a kind: their owner, their block, and their place in it."""
    for (owner,) in tx.all(_OWNERS):
        state = read_state(tx.all(OWNER, owner=owner))
        (index,) = IndexCache(0).load(tx, {owner: state}, "")
        assert not index.damaged
        for block, alive in index.blocks:
            for place in alive.nonzero()[0].tolist():
                if block.text("kind", place) == kind:
                    yield owner, block, place


def clear_index(memory: Memory, tenant: str = "acme") -> None:
    """Remove the whole index of a tenant, with what is marked as fresh."""

    def work(tx: Transaction) -> None:
        for statement in _CLEAR:
            tx.run(statement)

    memory.database.write(tenant, work)
