"""Knowledge: documents that are searched beside memory, split along their structure, and replaced when they are added again.

A document is written whole, in one transaction: readers see it as it was or as it is, never half of it. Everything that
takes long, reading the file and splitting its text, is done before.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from retain.base import canonical, clock, ids, limits
from retain.base.errors import Invalid, NotFound
from retain.kinds import finding
from retain.kinds.finding import SearchResults
from retain.kinds.kind import Check, Kind, Page, Table, decode_cursor, make_page
from retain.kinds.knowledge import document as parts
from retain.kinds.knowledge.document import Document, Loaded, Outcome, Passage, Progress, Source
from retain.search import words
from retain.search.engine import Item
from retain.search.query import Hit
from retain.search.reindex import Findable, Place
from retain.storage.database import Row, Transaction
from retain.text.documents import Media

__all__ = ["Document", "Knowledge", "Loaded", "Passage"]


class AddFile(Protocol):
    """Adds a file."""

    def __call__(self, path: str | Path, *, title: str = "") -> Document:
        """The document that a file of text, Markdown, HTML or PDF is; its title is what the file says, or its name."""
        ...


class AddData(Protocol):
    """Adds what is in a file, wherever that is."""

    def __call__(
        self, data: bytes, *, title: str = "", path: str = "", media: Media | None = None
    ) -> Document:
        """The document that these bytes are; its title is what it calls itself, or the name at the end of its path."""
        ...


class AddFiles(Protocol):
    """Adds files and folders."""

    def __call__(
        self,
        paths: Sequence[str | Path],
        *,
        title: str = "",
        pattern: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Loaded:
        """What became of each file; one that cannot be read does not stop the others."""
        ...


def _items(row: Row, _: str = "") -> list[Item]:
    """The row of a chunk in the index."""
    id, seq, user, title, headings, text, at = row
    return [
        Item(
            "knowledge",
            id,
            text.strip(),
            at,
            seq,
            user=user or None,
            title=parts.headed(title, headings),
        )
    ]


def _hold(tx: Transaction, keys: Sequence[Place]) -> None:
    for id in sorted({key[0] for key in keys}):
        tx.lock_rows("select 1 from documents where tenant = :tenant and id = :id", id=id)


_FINDABLE = Findable(
    "knowledge",
    ("", 0),
    lambda tx, after, size: tx.all(_LACKING, id=after[0], seq=after[1], size=size),
    lambda tx, size: tx.all(_STRAY, size=size),
    _hold,
    _items,
)


class Knowledge(Kind):
    """The documents of the scope: its user's, and those of the whole tenant."""

    name = "knowledge"
    tables = (
        Table("documents", order="id", owned="user_id = :user"),
        Table(
            "document_chunks",
            order="document_id, seq",
            owned="document_id in (select id from documents where tenant = :tenant and user_id = :user)",
        ),
    )
    checks = (
        Check(
            "every document has its chunks",
            """select 'document ' || id from documents where tenant = :tenant and chunks <> (
                   select count(*) from document_chunks
                   where document_chunks.tenant = :tenant and document_chunks.document_id = documents.id)""",
        ),
        *_FINDABLE.checks,
    )
    findable = _FINDABLE

    def add(self, title: str, text: str, *, path: str = "", media: Media | None = None) -> Document:
        """Add a document, or put it in the place of the one with the same path, or the same title where it has no path."""
        return self._keep(parts.from_text(title, text, path, media, limits.MAX_DOCUMENT_BYTES))[0]

    @property
    def add_file(self) -> AddFile:
        """`add_file(path)` adds a file; not a verb, because who calls from elsewhere must not read this machine's files."""

        def add(path: str | Path, *, title: str = "") -> Document:
            return self._keep(parts.from_file(path, title, limits.MAX_DOCUMENT_BYTES))[0]

        return add

    @property
    def add_data(self) -> AddData:
        """`add_data(data)` adds a file that came from elsewhere."""

        def add(
            data: bytes, *, title: str = "", path: str = "", media: Media | None = None
        ) -> Document:
            return self._keep(parts.from_data(data, title, path, media, limits.MAX_DOCUMENT_BYTES))[
                0
            ]

        return add

    @property
    def add_files(self) -> AddFiles:
        """`add_files(paths)` adds files, and all that is in folders, and says what became of each."""
        return self._add_files

    def get(self, id: str) -> Document:
        """A document, without its text."""
        canonical.key(id, "id")
        return parts.document(self._read(lambda tx: self._find(tx, id)))

    def text(self, id: str) -> str:
        """All of a document as text, or as Markdown if it was read from HTML."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> list[str]:
            self._find(tx, id)
            return [
                str(row[2]) for row in tx.all(_PASSAGES, id=id, first=0, last=2**53, size=2**53)
            ]

        return "".join(self._read(work))

    def passages(
        self,
        id: str,
        *,
        seq: int | None = None,
        around: int = 0,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[Passage]:
        """The chunks of a document in order; or one of them, with so many before and after it."""
        canonical.key(id, "id")
        size = self._limit(limit)
        (start,) = decode_cursor(after, [int]) if after else (0,)
        first, last = start + 1, 2**53
        if seq is not None:
            reach = canonical.whole(around, "around", 0, limits.MAX_PAGE)
            first, last = max(first, canonical.whole(seq, "seq", 1) - reach), seq + reach

        def work(tx: Transaction) -> Sequence[Row]:
            if seq is not None and seq > self._find(tx, id)[6]:
                raise NotFound(what="passage", id=f"{id} {seq}")
            self._find(tx, id)
            return tx.all(_PASSAGES, id=id, first=first, last=last, size=size + 1)

        found = [Passage(id, *row) for row in self._read(work)]
        return make_page(found, size, lambda passage: [passage.seq])

    def list(
        self, *, prefix: str = "", limit: int = 100, after: str | None = None
    ) -> Page[Document]:
        """The documents that the scope can see, those first that were changed last; all, or those below a path."""
        size = self._limit(limit)
        if prefix:
            canonical.key(prefix, "prefix")
        at, id = decode_cursor(after, [int, str]) if after else (2**62, "")
        where = {"prefix": prefix, "end": prefix + "\U0010ffff", "at": at, "id": id}
        rows = self._read(lambda tx: tx.all(_LIST, user=self._owner.user, size=size + 1, **where))
        found = [parts.document(row) for row in rows]
        return make_page(
            found, size, lambda one: [clock.from_datetime(one.updated_at, "after"), one.id]
        )

    def counts(self) -> dict[str, int]:
        """How many documents the scope can see, and how many chunks and bytes they have."""
        row = self._read(lambda tx: tx.one(_COUNTS, user=self._owner.user)) or (0, 0, 0)
        return dict(zip(("documents", "chunks", "bytes"), map(int, row), strict=True))

    def remove(self, id: str) -> None:
        """Delete a document; one of the whole tenant only in a scope without a user."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> None:
            if self._owner.user is not None and not self._find(tx, id)[7]:
                raise Invalid(
                    field="id",
                    problem="is a document of the whole tenant: remove it without a user",
                )
            if not tx.run(_REMOVE, id=id, user=self._owner.user):
                raise NotFound(what="document", id=id)
            self._services.index.remove(tx, self.name, id)

        self._write("remove", work, row={"id": id}, frees_space=True, long=True)

    def search(
        self,
        query: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 10,
    ) -> SearchResults:
        """The passages that answer a question, by words and by meaning, best first."""
        return finding.search(
            self._services, self._owner, query, [self.name], None, since, until, None, limit
        )

    @staticmethod
    def hit_source(hit: Hit, session: str) -> str:
        """Return what the report of a context calls a hit of this kind."""
        return f"knowledge {hit.id} {hit.seq}"

    def _add_files(
        self,
        paths: Sequence[str | Path],
        *,
        title: str = "",
        pattern: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Loaded:
        keep = self._would if dry_run else lambda made: self._keep(made)[1]
        return parts.load(paths, title, pattern, limits.MAX_DOCUMENT_BYTES, keep, progress)

    def _would(self, made: Source) -> Outcome:
        """What keeping it would do."""
        there = self._there(made)
        if there is not None and made.same(there):
            return "unchanged"
        new = parts.as_new(made)
        return new if there is None else "replaced"

    def _keep(self, made: Source) -> tuple[Document, Outcome]:
        """Write a document with its chunks and their rows in the index, unless it is there already as it is."""
        made = parts.guarded(made, self._settings.secrets)
        there = self._there(made)
        if there is not None and made.same(there):
            return there, "unchanged"
        read = made.read()
        rows, new, title = parts.chunks(read), ids.uuid7(), made.called(read)
        values = {
            "id": new, "owner": self._owner.user or "", "place": made.place, "title": title, "path": made.path,
            "media": read.media, "digest": made.digest, "bytes": made.bytes, "chunks": len(rows), "source": self._owner.source,
        }  # fmt: skip

        def work(tx: Transaction) -> tuple[Document, Outcome]:
            row = tx.one(_PUT, **values)
            if row is None:  # somebody added the same a moment ago
                return parts.document(
                    tx.one(_AT_PLACE, owner=values["owner"], place=made.place) or ()
                ), "unchanged"
            id = row[0]
            tx.run(
                "delete from document_chunks where tenant = :tenant and document_id = :id", id=id
            )
            tx.many(_PUT_CHUNK, [{**chunk, "id": id} for chunk in rows])
            found = [
                (id, c["seq"], values["owner"], title, c["title"], c["text"], tx.now) for c in rows
            ]
            items = [item for one in found for item in _items(one)]
            if id == new:
                self._services.index.add(tx, items)
            else:
                self._services.index.update(tx, self.name, id, items)
            return parts.document(row), "added" if id == new else "replaced"

        with words.preanalysed(chunk["text"].strip() for chunk in rows):  # others write meanwhile
            return self._write(
                "add",
                work,
                row=lambda result: {"id": result[0].id},
                returns=lambda result: result[0],
                idempotent=True,
                long=True,
            )

    def _there(self, made: Source) -> Document | None:
        """The document that it would replace."""
        row = self._read(
            lambda tx: tx.one(_AT_PLACE, owner=self._owner.user or "", place=made.place)
        )
        return None if row is None else parts.document(row)

    def _find(self, tx: Transaction, id: str) -> Row:
        row = tx.one(_GET, id=id, user=self._owner.user)
        if row is None:
            raise NotFound(what="document", id=id)
        return row


_COLUMNS = "id, title, path, media, digest, bytes, chunks, user_id, source, created_at, updated_at"
_VISIBLE = "(user_id = coalesce(:user, user_id) or user_id = '')"
_SELECT = "select " + _COLUMNS + " from documents where tenant = :tenant and "
_GET = _SELECT + "id = :id and " + _VISIBLE
_AT_PLACE = _SELECT + "user_id = :owner and place = :place"
_LIST = _SELECT + _VISIBLE + """ and path >= :prefix and path < :end and (updated_at, id) < (:at, :id)
                                order by updated_at desc, id desc limit :size"""  # fmt: skip
_COUNTS = """select count(*), coalesce(sum(chunks), 0), coalesce(sum(bytes), 0) from documents
             where tenant = :tenant and """ + _VISIBLE  # fmt: skip
_REMOVE = "delete from documents where tenant = :tenant and id = :id and user_id = coalesce(:user, user_id)"
_PUT = """insert into documents (tenant, id, user_id, place, title, path, media, digest, bytes, chunks, source, created_at,
                                 updated_at)
          values (:tenant, :id, :owner, :place, :title, :path, :media, :digest, :bytes, :chunks, :source, :now, :now)
          on conflict (tenant, user_id, place) do update
          set title = excluded.title, media = excluded.media, digest = excluded.digest, bytes = excluded.bytes,
              chunks = excluded.chunks, source = excluded.source, updated_at = :now
          where documents.digest <> excluded.digest or documents.title <> excluded.title or documents.media <> excluded.media
          returning """ + _COLUMNS  # fmt: skip
_PUT_CHUNK = """insert into document_chunks (tenant, document_id, seq, title, text, start, page)
                values (:tenant, :id, :seq, :title, :text, :start, :page)"""
_PASSAGES = """select seq, title, text, start, page from document_chunks
               where tenant = :tenant and document_id = :id and seq between :first and :last order by seq limit :size"""
_LACKING = """select document_id, seq, user_id, documents.title, document_chunks.title, text, updated_at
    from document_chunks join documents on documents.tenant = :tenant and documents.id = document_id
    where document_chunks.tenant = :tenant and (document_id, seq) > (:id, :seq) and not exists (
        select 1 from search_items found where found.tenant = :tenant and found.kind = 'knowledge'
        and found.id = document_chunks.document_id and found.seq = document_chunks.seq)
    order by document_id, seq limit :size"""
_STRAY = """select number, 'chunk of document ' || id from search_items
    where tenant = :tenant and kind = 'knowledge' and not exists (
        select 1 from document_chunks where document_chunks.tenant = :tenant
        and document_chunks.document_id = search_items.id and document_chunks.seq = search_items.seq)
    limit :size"""
