"""A document: its record, its chunks, and how they are found."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from memorist.search import chunk
from memorist.search.search_document import WHOLE, Findable, SearchDocument
from memorist.storage.database import Row
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


# -- documents of the index: the id is the document, `seq` the number of the chunk --------------


def _documents(row: Row) -> list[SearchDocument]:
    id, seq, user, title, headings, text, at = row
    return [
        SearchDocument(
            "documents",
            id,
            text.strip(),
            at,
            seq=seq,
            user=user or None,
            title=chunk_title(title, headings),
        )
    ]


DOCUMENTS_INDEX = Findable(
    kind="documents",
    key=("document_id", "seq"),
    select="""select document_id, seq, user_id, documents.title, document_chunks.title, text,
                     updated_at
              from document_chunks
              join documents on documents.tenant = :tenant and documents.id = document_id
              where document_chunks.tenant = :tenant and {where}""",
    documents=_documents,
    key_of=lambda id, seq: (id,) if seq == WHOLE else (id, seq),
    first=("", 0),
)
