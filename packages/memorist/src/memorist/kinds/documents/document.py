"""A document: its record, its chunks and their index rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from memorist.search import chunk
from memorist.search.reindexer import Findable, Place
from memorist.search.search_engine import IndexRow
from memorist.storage.database import Row, Transaction
from memorist.storage.rows import none_if_empty, row_mapper
from memorist.text.file_text import Read

Outcome = Literal["added", "replaced", "unchanged"]


@dataclass(frozen=True)
class Document:
    """A document, without its text."""

    id: str
    title: str
    path: str
    media: str
    digest: str  # of the original file or text
    bytes: int  # size of the original file or text
    chunks: int
    user: str | None  # None for a document of the whole tenant
    source: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class Passage:
    """A chunk of a document."""

    document: str
    seq: int
    title: str  # the headings above the chunk
    text: str
    start: int  # position in the document's text
    page: int | None


@dataclass(frozen=True)
class Loaded:
    """The outcome of adding files, by path; `failed` has the reasons."""

    added: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


COLUMNS = "id, title, path, media, digest, bytes, chunks, user_id, source, created_at, updated_at"


document = row_mapper(Document, user=none_if_empty)
"""Returns the record of a row of COLUMNS."""


def document_chunks(content: Read) -> list[dict[str, Any]]:
    """Return the chunks of a document as rows; together, their texts are the whole text."""
    chunks: list[tuple[chunk.Chunk, int | None]] = []
    if content.pages:
        ends = [*content.pages[1:], len(content.text)]
        for number, (start, end) in enumerate(zip(content.pages, ends, strict=True), 1):
            for part in chunk.split(content.text[start:end]):
                shifted = chunk.Chunk(
                    f"p. {number}", part.text, start + part.start, start + part.end
                )
                chunks.append((shifted, number))
    else:
        markup: chunk.Markup = "text" if content.media == "text" else "markdown"
        chunks = [(part, None) for part in chunk.split(content.text, markup)]
    # Each row includes the whitespace after its chunk.
    starts = [0, *(part.start for part, _ in chunks[1:]), len(content.text)]
    return [
        {
            "seq": position + 1,
            "title": part.title,
            "text": content.text[starts[position] : starts[position + 1]],
            "start": starts[position],
            "page": page,
        }
        for position, (part, page) in enumerate(chunks)
    ]


def chunk_title(title: str, headings: str) -> str:
    """Return the citation of a chunk: its document and the headings above it, without repetition."""
    if headings == title or headings.startswith(title + chunk.ARROW):
        return headings
    return chunk.titled(title, *headings.split(chunk.ARROW)) if headings else title


# -- index rows: the id is the document, `seq` the number of the chunk -------------------------


def index_row(id: str, user: str, title: str, chunk: Mapping[str, Any], at: int) -> IndexRow:
    """Return the index row of a chunk of a document with a title."""
    return IndexRow(
        "documents",
        id,
        chunk["text"].strip(),
        at,
        seq=chunk["seq"],
        user=user or None,
        title=chunk_title(title, chunk["title"]),
    )


def _index_rows_of(row: Row, _: str) -> list[IndexRow]:
    id, seq, user, title, headings, text, at = row
    return [index_row(id, user, title, {"seq": seq, "title": headings, "text": text}, at)]


def _missing_from_index(tx: Transaction, after: Place, size: int) -> Sequence[Row]:
    return tx.all(
        """select document_id, seq, user_id, documents.title, document_chunks.title, text,
                  updated_at
           from document_chunks
           join documents on documents.tenant = :tenant and documents.id = document_id
           where document_chunks.tenant = :tenant and (document_id, seq) > (:id, :seq)
           and not exists (
               select 1 from search_items existing
               where existing.tenant = :tenant and existing.kind = 'documents'
               and existing.id = document_chunks.document_id
               and existing.seq = document_chunks.seq)
           order by document_id, seq limit :size""",
        id=after[0],
        seq=after[1],
        size=size,
    )


def _stray_in_index(tx: Transaction, size: int) -> Sequence[Row]:
    return tx.all(
        """select number, 'chunk of document ' || id from search_items
           where tenant = :tenant and kind = 'documents' and not exists (
               select 1 from document_chunks
               where document_chunks.tenant = :tenant
               and document_chunks.document_id = search_items.id
               and document_chunks.seq = search_items.seq)
           limit :size""",
        size=size,
    )


def _lock_documents(tx: Transaction, keys: Sequence[Place]) -> None:
    for id in sorted({key[0] for key in keys}):
        tx.lock_rows("select 1 from documents where tenant = :tenant and id = :id", id=id)


DOCUMENTS_INDEX = Findable(
    "documents",
    ("", 0),
    _missing_from_index,
    _stray_in_index,
    _lock_documents,
    _index_rows_of,
)
