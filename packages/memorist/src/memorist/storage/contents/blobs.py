"""Stored contents: small ones in the database, large ones in files, once per user and hash.

Storing has two steps. `take` works outside of any transaction: when it returns, a large content is
in its file or in its table. `add` runs a few statements in the transaction that also adds the
reference. The transaction that removes the last reference also removes the content. `collect`,
which `memorist purge` calls, removes what a crash left behind.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from memorist.base import clock, limits
from memorist.base.errors import (
    Busy,
    Corrupt,
    CorruptRecord,
    Invalid,
    SettingsError,
    StorageError,
    TooLarge,
)
from memorist.storage.contents.content_parts import (
    PART_BYTES,
    Fetch,
    Part,
    PartsFile,
    chunks,
    cut,
    join,
)
from memorist.storage.contents.folder import (
    Folder,
    Held,
    See,
    finish_copy,
    older_than,
    pour,
    read_errors,
    remove_unfinished_copy,
)
from memorist.storage.database import Database, Finding, T, Transaction, Work
from memorist.storage.files import check_target, new_file

GRACE = 60 * clock.MINUTE
"""Age in microseconds from which an unreferenced content may be removed; a writer may still need a
younger one."""
_MAX_BYTES_IN_MEMORY = 4 << 20
_MAX_REMEMBERED_CHECKSUMS = 16
_PARTS_IN_ONE_WRITE = 8
_IN_ONE_WRITE = 500
_VANISHED = "a content was removed while it was being stored again"

_ADD = """insert into blobs (tenant, user_id, digest, bytes, file, whole, staged_at)
          values (:tenant, :user, :digest, :bytes, :file, 1, null)
          on conflict (tenant, user_id, digest) do update
          set file = case when blobs.whole = 1 then blobs.file else excluded.file end, whole = 1, staged_at = null
          returning file"""
_ADD_STAGED = """update blobs set staged_at = null
                 where tenant = :tenant and user_id = :user and digest = :digest and whole = 1"""
_ADD_PART = """insert into blob_parts (tenant, user_id, digest, part, start, encoding, data)
               values (:tenant, :user, :digest, :part, :start, :encoding, :data) on conflict do nothing"""
_NO_PARTS = "delete from blob_parts where tenant = :tenant and user_id = :user and digest = :digest"
_STAGE = """insert into blobs (tenant, user_id, digest, bytes, file, whole, staged_at)
            values (:tenant, :user, :digest, :bytes, null, 0, :now)
            on conflict (tenant, user_id, digest) do update set staged_at = :now returning whole"""
_STAGING = """update blobs set staged_at = :now, whole = case when whole = 1 then 1 else :whole end
              where tenant = :tenant and user_id = :user and digest = :digest"""
_FIND = "select bytes, file, whole from blobs where tenant = :tenant and user_id = :user and digest = :digest"
_LOCK = "select 1 from blobs where tenant = :tenant and user_id = :user and digest = :digest"
_RELEASE = """delete from blobs where tenant = :tenant and user_id = :user and digest = :digest
              and (staged_at is null or staged_at < :stale) and not exists (
                  select 1 from refs where refs.tenant = :tenant and refs.user_id = :user and refs.digest = :digest)
              returning file"""
_UNUSED = """select user_id, digest from blobs
             where tenant = :tenant and (staged_at is null or staged_at < :stale) and not exists (
                 select 1 from refs where refs.tenant = :tenant and refs.user_id = blobs.user_id
                 and refs.digest = blobs.digest)
             limit :size"""
_FILES = "select file from blobs where tenant = :tenant and file is not null"
_HAS_FILE = "select 1 from blobs where tenant = :tenant and user_id = :user and digest = :digest and file = :file"
_ALL = """select user_id, digest, bytes, file from blobs where tenant = :tenant and whole = 1
          and user_id = coalesce(:user, user_id) order by user_id, digest"""
_PARTS = """select part, start, encoding, data from blob_parts
            where tenant = :tenant and user_id = :user and digest = :digest order by part"""
_IMPORTED = "update blobs set staged_at = :now where tenant = :tenant and user_id = :user and digest = :digest"
_SETTLED = """update blobs set staged_at = null where tenant = :tenant and staged_at is not null and exists (
                  select 1 from refs where refs.tenant = :tenant and refs.user_id = blobs.user_id
                  and refs.digest = blobs.digest)"""
_MADE = "select created_at from tenants where tenant = :tenant"


@dataclass(frozen=True)
class Stored:
    """A content that `take` stored: in memory if small, in a held file, or already in its table."""

    user: str
    digest: str
    bytes: int
    parts: tuple[Part, ...] = ()
    held: Held | None = None


class Blobs:
    """The contents of one database; without `folder`, large ones stay in the database, too."""

    def __init__(self, database: Database, folder: Folder | None) -> None:
        self.database = database
        self.folder = folder
        self._tenants: dict[str, str] = {}
        # By tenant, user and digest: the checksums of the blocks of large contents.
        self._checksums: dict[tuple[str, str, str], dict[int, int]] = {}

    # -- storing -----------------------------------------------------------------------------

    def take(
        self, tenant: str, user: str, pieces: Iterable[bytes], see: See = lambda piece: None
    ) -> Stored:
        """Store a content, except for the rows that `add` writes; pass every piece to `see`."""
        coming = iter(self._within_limit(pieces))
        first_pieces: list[bytes] = []
        size = 0
        memory_limit = min(limits.REF_FILE_BYTES, _MAX_BYTES_IN_MEMORY)
        for piece in coming:
            first_pieces.append(piece)
            size += len(piece)
            if size > memory_limit:
                break
        else:
            whole = b"".join(first_pieces)
            see(whole)
            return Stored(user, hashlib.sha256(whole).hexdigest(), size, tuple(cut([whole])))
        everything = chain(_handing_over(first_pieces), coming)
        if self.folder is None:
            with tempfile.TemporaryFile() as spool:
                return self._stage(tenant, user, spool, *pour(everything, spool, see))
        held = self.folder.write(self._place(tenant, user), everything, see)
        if held.size > limits.REF_FILE_BYTES:
            return Stored(user, held.digest, held.size, held=held)
        try:
            with self.folder.open(held.name) as file:
                return self._stage(tenant, user, file, held.digest, held.size)
        finally:
            self._drop(held)

    def add(self, tx: Transaction, stored: Stored) -> None:
        """Add the content's row, in the transaction that adds a reference to it."""
        which = {"user": stored.user, "digest": stored.digest}
        if not stored.parts and stored.held is None:
            if not tx.run(_ADD_STAGED, **which):
                raise Busy(problem=_VANISHED)
            return
        file = stored.held.name if stored.held else None
        (used,) = tx.one(_ADD, **which, bytes=stored.bytes, file=file) or (None,)
        if used is None:
            tx.many(_ADD_PART, [{**which, **vars(part)} for part in stored.parts])
        elif used == file:
            tx.send(_NO_PARTS, **which)

    def settle(self, tenant: str, stored: Stored) -> None:
        """Release the file after the commit, and remove it if the content was already stored."""
        held = stored.held
        if held is None:
            return
        if self._has_row(tenant, stored.user, held.digest, held.name):
            held.let_go()
        else:
            self._drop(held)

    def _drop(self, held: Held) -> None:
        held.let_go()
        if self.folder:
            self.folder.remove([held.name])

    def _stage(self, tenant: str, user: str, file: IO[bytes], digest: str, size: int) -> Stored:
        """Write a large content to its table, a few parts per transaction, to keep locks short."""
        which = {"user": user, "digest": digest}
        row = self.database.write(tenant, lambda tx: tx.one(_STAGE, **which, bytes=size))
        if not row or not row[0]:
            file.seek(0)
            parts = ({**which, **vars(part)} for part in cut(chunks(file)))
            while batch := list(islice(parts, _PARTS_IN_ONE_WRITE)):
                self.database.write(
                    tenant,
                    lambda tx, batch=batch: self._stage_parts(tx, which, batch),  # type: ignore[misc]
                )
            self.database.write(tenant, lambda tx: self._staging(tx, which, whole=1))
        return Stored(user, digest, size)

    def _stage_parts(
        self, tx: Transaction, which: Mapping[str, str], batch: Sequence[Mapping[str, Any]]
    ) -> None:
        self._staging(tx, which, whole=0)
        tx.many(_ADD_PART, batch)

    def _staging(self, tx: Transaction, which: Mapping[str, str], *, whole: int) -> None:
        if not tx.run(_STAGING, **which, whole=whole):
            raise Busy(problem=_VANISHED)

    def _within_limit(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        size = 0
        limit = limits.MAX_REF_BYTES
        for piece in pieces:
            size += len(piece)
            if size > limit:
                raise TooLarge(field="content", size=f"over {limit}", unit="bytes", limit=limit)
            yield piece

    def _place(self, tenant: str, user: str) -> str:
        """Return the folder of a user's files.

        Its name is made of hashes: no tenant or user name can point outside of the folder, and no
        two databases share one.
        """
        return f"{self._tenant_place(tenant)}/{_hashed(user)}"

    def _tenant_place(self, tenant: str) -> str:
        if tenant not in self._tenants:
            row = self.database.read(tenant, lambda tx: tx.one(_MADE))
            if row is None:
                self.database.write(tenant, lambda tx: None)
                row = self.database.read(tenant, lambda tx: tx.one(_MADE))
            self._tenants[tenant] = _hashed(f"{tenant} {row}")
        return self._tenants[tenant]

    # -- reading -----------------------------------------------------------------------------

    def open(self, tenant: str, user: str, digest: str, *, check: bool = True) -> IO[bytes]:
        """Open a content as a seekable file; raise `Corrupt` if it is missing or damaged.

        A small content is compared with its hash as a whole. Of a large one, the first opening
        compares it and remembers a checksum of every block, and each block that is read later is
        compared with that. Without `check`, a large content is not compared: for a caller that
        compares it itself, or that needs only its beginning for the search index.
        """
        row = self.database.read(tenant, lambda tx: tx.one(_FIND, user=user, digest=digest))
        if row is None or not row[2]:
            raise Corrupt(problem=f"the content {digest} is missing")
        size, name, _ = row
        file = None if name is None else self._open_file(name)
        if size <= _MAX_BYTES_IN_MEMORY:
            return self._open_small(tenant, user, digest, file)
        fetch = self._fetch_part(tenant, user, digest) if file is None else _fetch_block(file)
        close: Callable[[], None] = (lambda: None) if file is None else file.close
        damaged = _damage(digest)
        try:
            key = (tenant, user, digest)
            checksums = self._checksums.pop(key, None)
            if checksums is None and check:
                checksums = _checksums(fetch, size, digest)
            if checksums is not None:
                self._remember(key, checksums)
        except BaseException:  # an interruption must not leave the file open
            close()
            raise

        def checked(at: int) -> tuple[int, bytes]:
            start, data = fetch(at) or (at, b"")
            if checksums is not None and checksums.get(start) != zlib.crc32(data):
                raise damaged
            return start, data

        return io.BufferedReader(PartsFile(size, checked, lambda: damaged, close), PART_BYTES)

    def _read_text(self, tenant: str, digest: str, work: Work[T]) -> T:
        """Read parts of a content; raise `Corrupt` with its hash if they cannot be decoded."""
        try:
            return self.database.read(tenant, work)
        except CorruptRecord:
            raise _damage(digest) from None

    def _remember(self, key: tuple[str, str, str], checksums: dict[int, int]) -> None:
        """Keep the checksums of the contents that were opened last; the oldest come first."""
        while len(self._checksums) >= _MAX_REMEMBERED_CHECKSUMS:
            self._checksums.pop(next(iter(self._checksums)), None)
        self._checksums[key] = checksums

    def _open_small(self, tenant: str, user: str, digest: str, file: IO[bytes] | None) -> IO[bytes]:
        if file is None:
            parts = self._read_text(
                tenant, digest, lambda tx: tx.all(_PARTS, user=user, digest=digest)
            )
            content = b"".join(join(encoding, data) for _, _, encoding, data in parts)
        else:
            with file, read_errors(file.name):
                content = file.read()
        if hashlib.sha256(content).hexdigest() != digest:
            raise _damage(digest)
        return io.BytesIO(content)

    def _fetch_part(self, tenant: str, user: str, digest: str) -> Fetch:
        def fetch(at: int) -> tuple[int, bytes] | None:
            last_part = at // PART_BYTES + 1
            part = self._read_text(
                tenant,
                digest,
                lambda tx: tx.one(
                    """select start, encoding, data from blob_parts
                       where tenant = :tenant and user_id = :user and digest = :digest
                       and part <= :last_part and start <= :at
                       order by part desc limit 1""",
                    user=user,
                    digest=digest,
                    last_part=last_part,
                    at=at,
                ),
            )
            return None if part is None else (part[0], join(part[1], part[2]))

        return fetch

    def _open_file(self, name: str) -> IO[bytes]:
        if self.folder is None:
            problem = f"is not set, and a large content is in a file ({name}); name its folder"
            raise SettingsError(where="ref_folder", problem=problem)
        return self.folder.open(name)

    # -- removing ----------------------------------------------------------------------------

    def release(self, tx: Transaction, contents: Iterable[tuple[str, str]]) -> list[str]:
        """Remove contents, given by user and hash, that no reference needs.

        Return the files to pass to `discard` after the commit, one name per content; the name is
        empty if the content had no file.
        """
        files = []
        for user, digest in contents:
            # Once the row is locked, the next statement sees every reference to it.
            tx.lock_rows(_LOCK, user=user, digest=digest)
            row = tx.one(_RELEASE, user=user, digest=digest, stale=tx.now - GRACE)
            if row is not None:
                files.append(row[0] or "")
        return files

    def discard(self, files: Iterable[str]) -> bool:
        """Remove files whose rows were deleted.

        Return False if a copy is running; `collect` then removes them later.
        """
        return self.folder is None or self.folder.remove(filter(None, files))

    def collect(self, tenant: str) -> int:
        """Remove unreferenced contents and files left by crashes; return how many."""
        removed = self._remove_all(tenant, self._collect_rows)
        if self.folder is not None:
            removed += self._clear(tenant, self._tenant_place(tenant), GRACE // clock.SECOND)[0]
        return removed

    def collect_staged(self, tenant: str) -> int:
        """Remove contents that were stored without adding a reference; return how many.

        They are found by an index; `collect` looks at every content and every file.
        """
        return self._remove_all(tenant, self._collect_staged_rows)

    def _remove_all(self, tenant: str, release: Work[list[str]]) -> int:
        """Remove contents in batches until none is left; return how many."""
        removed = 0
        while files := self.database.write(tenant, release, frees_space=True):
            self.discard(files)
            removed += len(files)
        return removed

    def erase(self, tenant: str, user: str) -> bool:
        """Remove all files of a user without rows; return False if a copy is running."""
        return self.folder is None or self._clear(tenant, self._place(tenant, user), 0)[1]

    def _collect_rows(self, tx: Transaction) -> list[str]:
        unused = tx.all(_UNUSED, stale=tx.now - GRACE, size=_IN_ONE_WRITE)
        return self.release(tx, [(user, digest) for user, digest in unused])

    def _collect_staged_rows(self, tx: Transaction) -> list[str]:
        stale = tx.now - GRACE
        tx.send(f"{_SETTLED} and staged_at < :stale", stale=stale)
        staged = tx.all(
            """select user_id, digest from blobs
               where tenant = :tenant and staged_at < :stale limit :size""",
            stale=stale,
            size=_IN_ONE_WRITE,
        )
        return self.release(tx, [(user, digest) for user, digest in staged])

    def _clear(self, tenant: str, place: str, seconds: float) -> tuple[int, bool]:
        assert self.folder
        known_files = {
            name for (name,) in self.database.read(tenant, lambda tx: tx.all(_FILES), long=True)
        }
        look = "select 1 from blobs where tenant = :tenant and file = :file"

        def has_row(name: str) -> bool:
            return (
                name in known_files
                or self.database.read(tenant, lambda tx: tx.one(look, file=name)) is not None
            )

        return self.folder.clear(place, older_than(seconds), has_row)

    def _has_row(self, tenant: str, user: str, digest: str, file: str) -> bool:
        return (
            self.database.read(
                tenant, lambda tx: tx.one(_HAS_FILE, user=user, digest=digest, file=file)
            )
            is not None
        )

    # -- copying and checking ----------------------------------------------------------------

    def copying(self) -> AbstractContextManager[None]:
        """Return a context in which no file is removed."""
        return nullcontext() if self.folder is None else self.folder.copying()

    def backup(self, target: Path, check: Callable[[], None] = lambda: None) -> None:
        """Write a consistent copy of the database and of the files that its rows name.

        `check` is called before, and nothing is written if it raises.

        The database appears under its name last, so that a backup with this name is complete. What
        a killed backup left under other names is removed by the next one to the same target.
        """
        check_target(target)
        beside = target.with_name(target.name + "-refs")
        is_copying = False
        try:
            with new_file(target) as partial:
                check()
                if self.folder is None:
                    self.database.backup(partial)
                    return
                remove_unfinished_copy(beside)
                check_target(beside)
                is_copying = True
                with self.folder.copying():
                    self.database.backup(partial)
                    self.folder.copy_to(beside)
        except BaseException:  # a failed backup must not leave files behind
            if is_copying:
                remove_unfinished_copy(beside)
            raise
        finish_copy(beside)

    def parts(self, tx: Transaction, user: str | None) -> Iterator[dict[str, Any]]:
        """Yield the parts of every content, from the database or its file, for an export."""
        for owner, digest, _, file in tx.all(_ALL, user=user):
            which = {"user_id": owner, "digest": digest}
            if file is None:
                for row in tx.each(_PARTS, user=owner, digest=digest):
                    yield {**which, **row}
            else:
                with self._open_file(file) as content, read_errors(file):
                    for part in cut(_checked_chunks(content, digest)):
                        yield {**which, **vars(part)}

    def put(
        self, tenant: str, user: str, digest: str, rows: Iterable[Mapping[str, Any]]
    ) -> tuple[int, bool]:
        """Store a content from an import; return the number of its parts and if it was new."""
        count = 0

        def pieces() -> Iterator[bytes]:
            nonlocal count
            for row in rows:
                count += 1
                yield join(str(row["encoding"]), str(row["data"]))

        def work(tx: Transaction) -> bool:
            existing = tx.one(_FIND, user=user, digest=digest)
            if existing is None or existing[0] != stored.bytes or stored.digest != digest:
                raise Invalid(
                    field="file", problem=f"the content {digest} is not what its hash says"
                )
            if existing[2] and (stored.parts or stored.held):
                return False
            self.add(tx, stored)
            tx.send(_IMPORTED, user=user, digest=digest)
            return True

        before = self.database.read(tenant, lambda tx: tx.one(_FIND, user=user, digest=digest))
        stored = self.take(tenant, user, pieces())
        new = self.database.write(tenant, work) and not (before and before[2])
        self.settle(tenant, stored)
        return count, new

    def settled(self, tenant: str) -> None:
        """Finish an import: clear the staging mark of contents that have references."""
        self.database.write(tenant, lambda tx: tx.run(_SETTLED))

    def verify(self, tenants: Sequence[str]) -> list[Finding]:
        """Compare every content with its hash, and find files without a row."""
        damaged = self.damaged(tenants)
        orphans = [f"{tenant}: {name}" for tenant in tenants for name in self._left(tenant)]
        more = " (`memorist purge` removes them)" if orphans else ""
        return [
            Finding("every stored content is what its hash says", _listed(damaged)),
            Finding("no file is left without its content's row", _listed(orphans) + more),
        ]

    def damaged(self, tenants: Sequence[str]) -> list[str]:
        """Return what is wrong with the contents that do not match their hashes."""
        return [f"{tenant}: {problem}" for tenant in tenants for problem in self._damaged(tenant)]

    def _damaged(self, tenant: str) -> Iterator[str]:
        for user, digest, size, _ in self.database.read(
            tenant, lambda tx: tx.all(_ALL, user=None), long=True
        ):
            try:
                with self.open(tenant, user, digest, check=False) as content:
                    length = sum(len(piece) for piece in _checked_chunks(content, digest))
                if length == size:
                    continue
                problem = (
                    f"the content {digest} is damaged: it has {length} bytes instead of {size}"
                )
            except (StorageError, SettingsError) as error:
                problem = str(getattr(error, "problem", error))
            # A content that was removed meanwhile is not missing.
            if self.database.read(
                tenant,
                lambda tx, user=user, digest=digest: tx.one(_LOCK, user=user, digest=digest),  # type: ignore[misc]
            ):
                yield problem

    def _left(self, tenant: str) -> Iterator[str]:
        if self.folder is None:
            return
        old = older_than(GRACE // clock.SECOND)
        on_disk = {
            name
            for name in self.folder.names(self._tenant_place(tenant))
            if self.folder.written_at(name) < old
        }
        known_files = {
            name for (name,) in self.database.read(tenant, lambda tx: tx.all(_FILES), long=True)
        }
        yield from sorted(on_disk - known_files)


def _damage(digest: str) -> Corrupt:
    return Corrupt(problem=f"the content {digest} is damaged: its bytes do not match its hash")


def _checked_chunks(file: IO[bytes], digest: str) -> Iterator[bytes]:
    """Yield the chunks of a content; raise `Corrupt` at the end if they do not match its hash."""
    actual_digest = hashlib.sha256()
    for piece in chunks(file):
        actual_digest.update(piece)
        yield piece
    if actual_digest.hexdigest() != digest:
        raise _damage(digest)


def _fetch_block(file: IO[bytes]) -> Fetch:
    def fetch(at: int) -> tuple[int, bytes]:
        start = at - at % PART_BYTES
        with read_errors(file.name):
            file.seek(start)
            return start, file.read(PART_BYTES)

    return fetch


def _checksums(fetch: Fetch, size: int, digest: str) -> dict[int, int]:
    """Compare a whole content with its hash, and return the checksum of each block by its start."""
    checksums = {}
    actual_digest = hashlib.sha256()
    at = 0
    while at < size:
        start, data = fetch(at) or (at, b"")
        if start != at or not data:
            raise _damage(digest)
        actual_digest.update(data)
        checksums[start] = zlib.crc32(data)
        at += len(data)
    if actual_digest.hexdigest() != digest:
        raise _damage(digest)
    return checksums


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _handing_over(pieces: list[bytes]) -> Iterator[bytes]:
    """Yield the pieces in order and drop the reference to each."""
    while pieces:
        yield pieces.pop(0)


def _listed(problems: list[str]) -> str:
    return "; ".join(problems[:20]) + (
        f" and {len(problems) - 20} more" if len(problems) > 20 else ""
    )
