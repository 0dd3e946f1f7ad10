"""Documents, split into chunks and searched together with memories.

Adding a document again replaces it.

A document is written in one transaction, so that readers see either the old or the new document.
Reading the file and splitting its text may take long; they happen before the transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from memorist.base import canonical, ids, limits
from memorist.base.errors import Invalid, NotFound
from memorist.base.parameters import HitCount, Key, Number, OneOf, PageSize, Prefix, Range
from memorist.base.verbs import verb
from memorist.kinds import scope_search
from memorist.kinds.documents import sources
from memorist.kinds.documents.document import (
    COLUMNS,
    DOCUMENTS_INDEX,
    Document,
    Loaded,
    Outcome,
    Passage,
    document,
    document_chunks,
)
from memorist.kinds.documents.sources import Progress, Source
from memorist.kinds.kind import Check, Kind, Services, Table
from memorist.kinds.page import Page, make_page, page_start
from memorist.kinds.scope_search import SearchRequest, SearchResults
from memorist.search.query import Hit
from memorist.search.search_document import IndexMark, owner_of
from memorist.storage.checksum import checksum
from memorist.storage.database import Row, Transaction
from memorist.text.file_text import Media

_VISIBLE = "(user_id = coalesce(:user, user_id) or user_id = '')"
_MAX_SEQ = 2**53
# Documents that were made from the journal of an agent.
_CONSOLIDATED = "(select entry_id from consolidations where tenant = :tenant and agent = :agent)"


class Documents(Kind):
    """The documents of a user, and those of the whole tenant."""

    name = "documents"
    parameter_help = {
        "id": "Id of the document.",
        "path": "Where the document comes from. Adding the same path again replaces it.",
        "prefix": "Only documents whose path starts with this.",
        "seq": "Number of one passage, as returned by a search.",
    }
    is_document = True
    tables = (
        Table(
            "documents",
            order="id",
            owned="user_id = :user",
            of_agent=f"id in {_CONSOLIDATED}",
            checked=("title",),
        ),
        Table(
            "document_chunks",
            order="document_id, seq",
            owned="""document_id in (
                select id from documents where tenant = :tenant and user_id = :user)""",
            of_agent=f"document_id in {_CONSOLIDATED}",
            checked=("title", "text"),
        ),
    )
    checks = (
        Check(
            "every document has its chunks",
            """select 'document ' || id from documents where tenant = :tenant and chunks <> (
                   select count(*) from document_chunks
                   where document_chunks.tenant = :tenant
                   and document_chunks.document_id = documents.id)""",
        ),
    )
    findable = DOCUMENTS_INDEX

    @verb(
        "POST /documents",
        effect="add",
        example="memorist documents add handbook.pdf docs/ --pattern '*.md'",
    )
    def add(
        self,
        title: str,
        text: str,
        *,
        path: Prefix = "",
        media: Annotated[Media, OneOf(("text", "markdown", "html", None))] | None = None,
    ) -> Document:
        """Add a document.

        It replaces a document with the same path or, without a path, with the same title.
        """
        source = sources.from_text(title, text, path, media, limits.MAX_DOCUMENT_BYTES)
        return self._store(source)[0]

    # The next three are no verbs: a remote caller must not read files of this machine.

    def add_file(self, path: str | Path, *, title: str = "") -> Document:
        """Add a text, Markdown, HTML or PDF file; by default, its title is its own or its name."""
        return self._store(sources.from_file(path, title, limits.MAX_DOCUMENT_BYTES))[0]

    def add_data(
        self, data: bytes, *, title: str = "", path: str = "", media: Media | None = None
    ) -> Document:
        """Add bytes; without a title, use the document's own or the last name of the path."""
        return self._store(sources.from_data(data, title, path, media, limits.MAX_DOCUMENT_BYTES))[
            0
        ]

    def add_files(
        self,
        paths: Sequence[str | Path],
        *,
        title: str = "",
        pattern: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Loaded:
        """Add files and folders, and return the outcome of each file.

        An unreadable file does not stop the others.
        """

        def store(source: Source) -> Outcome:
            return self._store(source)[1]

        add = self._would_store if dry_run else store
        return sources.load(paths, title, pattern, limits.MAX_DOCUMENT_BYTES, add, progress)

    @verb("GET /documents/{id}", effect="read", example="memorist documents get 0199… --json")
    def get(self, id: Key) -> Document:
        """Return a document, without its text."""
        canonical.key(id, "id")
        return self._read(lambda tx: self._get(tx, id))

    @verb("GET /documents/{id}/text", effect="read", example="memorist documents text 0199…")
    def text(self, id: Key) -> str:
        """Return the whole text of a document; Markdown if it was read from HTML."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> Sequence[Row]:
            self._get(tx, id)
            return self._passages(tx, id, 0, _MAX_SEQ, _MAX_SEQ)

        return "".join([text for _, _, text, _, _ in self._read(work)])

    @verb(
        "GET /documents/{id}/passages",
        effect="read",
        example="memorist documents passages 0199… --seq 12 --around 1",
    )
    def passages(
        self,
        id: Key,
        *,
        seq: Number | None = None,
        around: Annotated[int, Range(0, limits.MAX_PAGE)] = 0,
        limit: PageSize = 100,
        after: str | None = None,
    ) -> Page[Passage]:
        """Return the chunks of a document in order.

        seq:    only the chunk with this number
        around: with `seq`, also this many chunks before and after it
        """
        canonical.key(id, "id")
        size, (start,) = page_start(limit, after, 0)
        first = start + 1
        last = _MAX_SEQ
        canonical.check_integer(around, "around", 0, limits.MAX_PAGE)
        if seq is not None:
            canonical.check_integer(seq, "seq", 1)
            first = max(first, seq - around)
            last = seq + around

        def work(tx: Transaction) -> Sequence[Row]:
            document = self._get(tx, id)
            if seq is not None and seq > document.chunks:
                raise NotFound(what="passage", id=f"{id} {seq}")
            return self._passages(tx, id, first, last, size + 1)

        passages = [Passage(id, *row) for row in self._read(work)]
        return make_page(passages, size, lambda passage: [passage.seq])

    @verb("GET /documents", effect="read", example="memorist documents list --prefix docs/")
    def list(
        self, *, prefix: Prefix = "", limit: PageSize = 100, after: str | None = None
    ) -> Page[Document]:
        """Return the documents that the scope can see, most recently changed first.

        prefix: only documents whose path starts with it
        """
        size, (at, id) = page_start(limit, after, 2**62, "")
        if prefix != "":
            canonical.key(prefix, "prefix")
        rows = self._read_rows(
            lambda tx: tx.send(
                f"""select {COLUMNS} from documents
                    where tenant = :tenant and {_VISIBLE} and path >= :prefix and path < :end
                    and (updated_at, id) < (:at, :id)
                    order by updated_at desc, id desc limit :size""",
                user=self._owner.user,
                prefix=prefix,
                end=prefix + "\U0010ffff",
                at=at,
                id=id,
                size=size + 1,
            ),
            allow_replica=True,
        )
        return make_page(
            [document(row) for row in rows],
            size,
            lambda record: [record.updated_at, record.id],
        )

    @verb("GET /documents/counts", effect="read", example="memorist documents counts")
    def counts(self) -> dict[str, int]:
        """Return the number of documents that the scope can see, and of their chunks and bytes."""
        row = self._read(
            lambda tx: tx.one(
                f"""select count(*), coalesce(sum(chunks), 0), coalesce(sum(bytes), 0)
                    from documents where tenant = :tenant and {_VISIBLE}""",
                user=self._owner.user,
            )
        )
        documents, chunks, size = row or (0, 0, 0)
        return {"documents": int(documents), "chunks": int(chunks), "bytes": int(size)}

    @verb("DELETE /documents/{id}", effect="remove", example="memorist documents remove 0199…")
    def remove(self, id: Key) -> None:
        """Delete a document. A document of the whole tenant needs a scope without a user."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> None:
            if self._owner.user is not None and self._get(tx, id).user is None:
                raise Invalid(
                    field="id",
                    problem="belongs to the whole tenant; remove it without a user",
                )
            row = tx.one(
                """delete from documents
                   where tenant = :tenant and id = :id and user_id = coalesce(:user, user_id)
                   returning user_id""",
                id=id,
                user=self._owner.user,
            )
            if row is None:
                raise NotFound(what="document", id=id)
            self._services.index.mark(tx, [IndexMark(owner_of(row[0] or None), self.name, id)])
            tx.send(
                """update consolidations
                   set status = 'undone', content = '', checksum = 0, entry_id = null, decided_at = :now
                   where tenant = :tenant and entry_id = :id""",
                id=id,
            )

        self._write("remove", work, row={"id": id}, long=True)

    @verb(
        "GET /documents/search",
        effect="read",
        calls_model="embedder",
        example="memorist documents search 'how do I reset the router'",
    )
    def search(
        self,
        query: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: HitCount = 10,
    ) -> SearchResults:
        """Return the passages that match a query by words and meaning, best first."""
        request = SearchRequest(query, [self.name], since=since, until=until, limit=limit)
        return scope_search.search(self._services, self._owner, request)

    @classmethod
    def source_of(cls, tx: Transaction, id: str) -> str | None:
        """Return the source of a document: who added it."""
        row = tx.one("select source from documents where tenant = :tenant and id = :id", id=id)
        return None if row is None else str(row[0])

    @staticmethod
    def hit_source(hit: Hit, session: str) -> str:
        """Return the source of a hit of this kind in the report of a context."""
        return f"documents {hit.id} {hit.seq}"

    # -- writing -------------------------------------------------------------------------------

    def _would_store(self, source: Source) -> Outcome:
        """Return the outcome that storing a source would have."""
        existing = self._existing(source)
        if existing is not None and source.is_same(existing):
            return "unchanged"
        source.read()  # raises if it cannot be read
        return "added" if existing is None else "replaced"

    def _store(self, source: Source) -> tuple[Document, Outcome]:
        """Write a document with its chunks, unless it exists unchanged."""
        source = sources.mask(source, self._settings.masking)
        existing = self._existing(source)
        if existing is not None and source.is_same(existing):
            return existing, "unchanged"
        prepared = prepare(source, self._owner.user, self._owner.source)

        def work(tx: Transaction) -> tuple[Document, Outcome]:
            return write(tx, self._services, prepared)

        return self._write(
            "add",
            work,
            row=lambda result: {"id": result[0].id},
            returns=lambda result: result[0],
            idempotent=True,
            long=True,
        )

    # -- reading -------------------------------------------------------------------------------

    def _existing(self, source: Source) -> Document | None:
        """Return the document that a source would replace."""
        row = self._read(lambda tx: _row_at(tx, self._owner.user or "", source.place))
        return None if row is None else document(row)

    def _get(self, tx: Transaction, id: str) -> Document:
        row = tx.one(
            f"select {COLUMNS} from documents where tenant = :tenant and id = :id and {_VISIBLE}",
            id=id,
            user=self._owner.user,
        )
        if row is None:
            raise NotFound(what="document", id=id)
        return document(row)

    def _passages(
        self, tx: Transaction, id: str, first: int, last: int, size: int
    ) -> Sequence[Row]:
        return tx.all(
            """select seq, title, text, start, page from document_chunks
               where tenant = :tenant and document_id = :id and seq between :first and :last
               order by seq limit :size""",
            id=id,
            first=first,
            last=last,
            size=size,
        )


@dataclass(frozen=True)
class PreparedDocument:
    """A document that was read and split, ready to be written."""

    id: str  # its id, unless it replaces another document
    user: str  # empty for a document of the whole tenant
    source: Source
    title: str
    media: str
    chunks: Sequence[dict[str, Any]]
    author: str  # determines the trust level: user, agent, tool, …


def prepare(source: Source, user: str | None, author: str) -> PreparedDocument:
    """Read and split a document. This may take long: call it outside a transaction."""
    content = source.read()
    return PreparedDocument(
        ids.uuid7(),
        user or "",
        source,
        source.title_of(content),
        content.media,
        document_chunks(content),
        author,
    )


def write(
    tx: Transaction, services: Services, prepared: PreparedDocument
) -> tuple[Document, Outcome]:
    """Write a document with its chunks."""
    source = prepared.source
    owner = prepared.user
    row = tx.one(
        f"""insert into documents
                (tenant, id, user_id, place, title, path, media, digest, bytes, chunks,
                 source, created_at, updated_at, checksum)
            values (:tenant, :id, :owner, :place, :title, :path, :media, :digest, :bytes,
                    :chunks, :source, :now, :now, :checksum)
            on conflict (tenant, user_id, place) do update
            set title = excluded.title, checksum = excluded.checksum, media = excluded.media, digest = excluded.digest,
                bytes = excluded.bytes, chunks = excluded.chunks,
                source = excluded.source, updated_at = :now
            where documents.digest <> excluded.digest
                or documents.title <> excluded.title
                or documents.media <> excluded.media
            returning {COLUMNS}""",
        id=prepared.id,
        owner=owner,
        place=source.place,
        title=prepared.title,
        path=source.path,
        media=prepared.media,
        digest=source.digest,
        bytes=source.bytes,
        chunks=len(prepared.chunks),
        source=prepared.author,
        checksum=checksum(prepared.title),
    )
    if row is None:  # another writer added the same document meanwhile
        return document(_row_at(tx, owner, source.place) or ()), "unchanged"
    id = row[0]
    tx.send("delete from document_chunks where tenant = :tenant and document_id = :id", id=id)
    tx.many(
        """insert into document_chunks
               (tenant, document_id, seq, title, text, start, page, checksum)
           values (:tenant, :id, :seq, :title, :text, :start, :page, :checksum)""",
        [
            {**chunk, "id": id, "checksum": checksum(chunk["title"], chunk["text"])}
            for chunk in prepared.chunks
        ],
    )
    services.index.mark(tx, [IndexMark(owner_of(owner or None), Documents.name, id)])
    return document(row), "added" if id == prepared.id else "replaced"


def _row_at(tx: Transaction, owner: str, place: str) -> Row | None:
    return tx.one(
        f"""select {COLUMNS} from documents
            where tenant = :tenant and user_id = :owner and place = :place""",
        owner=owner,
        place=place,
    )
