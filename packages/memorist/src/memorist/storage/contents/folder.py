"""A folder of large contents: files appear only when complete, and are not removed while in use.

A file's name is made of hashes and a random suffix, and at most one row has it. So a removed row
names the file to delete. Three file locks coordinate processes; the system releases them when a
process dies:
- A writer holds a shared lock on its file until the row is committed. A file without a row and
  without a lock was left by a crash.
- A copy holds a shared lock on the folder. Nothing is removed while an export or a backup reads
  the files that its rows name.
- A removal holds an exclusive lock on the folder, or leaves the files for the next `memorist purge`.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from memorist.base.errors import Corrupt, Full, ReadOnly, StorageError
from memorist.storage.files import sync_folder

_NAME = re.compile(r"[0-9a-f]{32}/[0-9a-f]{32}/[0-9a-f]{64}\.[0-9a-f]{16}")
_UNFINISHED = "new."
_UNFINISHED_COPY = "unfinished-backup"
_CHECK_INTERVAL_BYTES = 16 << 20
_MIB = 1 << 20
_WAITS = (0.0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064)


See = Callable[[bytes], None]
"""A callback that receives every piece of a content, in order."""


class Held:
    """A file that was just written; it is not cleared until it is released or this process ends."""

    def __init__(self, name: str, digest: str, size: int, file: IO[bytes]) -> None:
        self.name = name
        self.digest = digest
        self.size = size
        self._file = file

    def let_go(self) -> None:
        """Release the file: its row is committed, or never will be."""
        self._file.close()


class Folder:
    """The files of one database, by tenant and user; the folder is created on first use."""

    def __init__(self, path: Path, *, min_free_mib: int) -> None:
        self.path = path
        self._min_free = min_free_mib * _MIB

    def write(self, place: str, pieces: Iterable[bytes], see: See) -> Held:
        """Write a content to a new file in a place; it survives a power failure."""
        with storage_errors(self.path):
            unfinished, file = self._new(place)
            try:
                digest, size = pour(self._while_there_is_room(pieces), file, see)
                os.fsync(file.fileno())
                name = f"{place}/{digest}.{secrets.token_hex(8)}"
                os.rename(unfinished, self.path / name)
                self._settle(unfinished.parent)
            except BaseException:  # an interruption must not leave a partial file
                unfinished.unlink(missing_ok=True)
                file.close()
                raise
        return Held(name, digest, size, file)

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading."""
        if not _NAME.fullmatch(name):
            raise Corrupt(problem=f"{name!r} is not the name of a stored content")
        try:
            with read_errors(name):
                return (self.path / name).open("rb")
        except FileNotFoundError:
            problem = (
                f"a stored content is missing: {name} is not in {self.path} "
                "(the setting ref_folder says where to look)"
            )
            raise Corrupt(problem=problem) from None

    def written_at(self, name: str) -> float:
        """Return the time a file was written; infinity if it does not exist."""
        with suppress(OSError):
            return (self.path / name).stat().st_mtime
        return float("inf")

    def names(self, place: str) -> Iterator[str]:
        """Yield the names of the files under a place, including unfinished ones."""
        root = self.path / place
        for folder, _, files in os.walk(root):
            for name in files:
                yield str((Path(folder) / name).relative_to(self.path))

    def remove(self, names: Iterable[str]) -> bool:
        """Remove files whose rows were deleted; return False, with none removed, during a copy."""
        names = [name for name in names if _NAME.fullmatch(name)]
        if not names:
            return True
        with self._alone() as alone:
            if alone:
                for name in names:
                    (self.path / name).unlink(missing_ok=True)
            return alone

    def clear(
        self, place: str, older_than: float, has_row: Callable[[str], bool]
    ) -> tuple[int, bool]:
        """Remove files that crashes left under a place.

        Return how many, and False if a copy is running and nothing was removed.
        """
        if not (self.path / place).is_dir():
            return 0, True
        with self._alone() as alone:
            if not alone:
                return 0, False
            removed = sum(self._clear(name, older_than, has_row) for name in self.names(place))
            for folder, _, _ in os.walk(self.path / place, topdown=False):
                with suppress(OSError):  # it is not empty
                    os.rmdir(folder)
        return removed, True

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Return a context in which no file is removed."""
        if not self.path.is_dir():
            yield
            return
        try:
            file = self._lock_file()
        except ReadOnly:
            try:
                file = (self.path / "lock").open("rb")
            except FileNotFoundError:
                yield  # nobody has ever removed a file here
                return
        with file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield

    def copy_to(self, target: Path) -> None:
        """Copy every finished file; the target appears only when it is complete.

        A file in it marks the copy as unfinished until `finish_copy`.
        """
        partial = _partial(target)
        shutil.rmtree(partial, ignore_errors=True)
        if not self.path.is_dir():
            return
        try:
            with storage_errors(target):
                target_folder = Folder(partial, min_free_mib=0)
                for name in self.names(""):
                    if _NAME.fullmatch(name):
                        self._copy(name, target_folder)
                if partial.is_dir():
                    (partial / _UNFINISHED_COPY).touch()
                    sync_folder(partial)
                    os.rename(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _copy(self, name: str, other: Folder) -> None:
        copied = other.path / name
        other.path.mkdir(0o700, exist_ok=True)
        other._make(copied.parent)
        with self.open(name) as source, _create(copied) as out:
            shutil.copyfileobj(source, out, _MIB)
            out.flush()
            os.fsync(out.fileno())

    def _clear(self, name: str, older_than: float, has_row: Callable[[str], bool]) -> bool:
        path = self.path / name
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_mtime > older_than:
                    return False
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if has_row(name):  # checked last: a released file has its row
                    return False
                path.unlink(missing_ok=True)
                return True
        except (BlockingIOError, FileNotFoundError):
            return False

    def _new(self, place: str) -> tuple[Path, IO[bytes]]:
        """Create a file with a shared lock; retry if another process cleared it before the lock."""
        folder = self.path / place
        self.path.mkdir(0o700, exist_ok=True)
        while True:
            path = folder / f"{_UNFINISHED}{secrets.token_hex(8)}"
            with suppress(FileNotFoundError):  # the folder was empty and was removed
                self._make(folder)
                file = _create(path)
                fcntl.flock(file, fcntl.LOCK_SH)
                if os.fstat(file.fileno()).st_nlink:
                    return path, file
                file.close()

    def _make(self, folder: Path) -> None:
        """Create a user's folder, accessible to the owner of the database only."""
        if not folder.is_dir():
            folder.parent.mkdir(0o700, exist_ok=True)
            folder.mkdir(0o700, exist_ok=True)
            self._settle(folder.parent, self.path, self.path.parent)

    def _while_there_is_room(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        size = 0
        next_check = 0
        for piece in pieces:
            if size >= next_check:
                next_check = size + _CHECK_INTERVAL_BYTES
                self._refuse_if_full()
            size += len(piece)
            yield piece

    def _refuse_if_full(self) -> None:
        disk = os.statvfs(self.path)
        free = disk.f_bavail * disk.f_frsize
        needed = self._min_free + _CHECK_INTERVAL_BYTES
        if free < needed:
            raise Full(
                problem=f"{free // _MIB} MiB are free and a large content needs {needed // _MIB} MiB: "
                f"a reserve of {self._min_free // _MIB} MiB and {_CHECK_INTERVAL_BYTES // _MIB} MiB "
                "to write in"
            )

    def _settle(self, *folders: Path) -> None:
        """Make file names survive a power failure, too."""
        for folder in folders:
            sync_folder(folder)

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        if not self.path.is_dir():
            yield True
            return
        with self._lock_file() as file:
            for wait in _WAITS:
                time.sleep(wait)  # long enough for another removal, not for a copy
                with suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
            else:
                yield False
                return
            yield True

    def _lock_file(self) -> IO[bytes]:
        with storage_errors(self.path):
            return os.fdopen(os.open(self.path / "lock", os.O_CREAT | os.O_RDWR, 0o600), "r+b")


def pour(pieces: Iterable[bytes], out: IO[bytes], see: See) -> tuple[str, int]:
    """Write pieces while another thread hashes them and calls `see`; return hash and size."""
    digest = hashlib.sha256()
    size = 0

    def look(piece: bytes) -> None:
        digest.update(piece)
        see(piece)

    with ThreadPoolExecutor(1) as beside:
        waiting: Future[None] | None = None
        for piece in pieces:
            if waiting:
                waiting.result()
            waiting = beside.submit(look, piece)
            out.write(piece)
            size += len(piece)
        if waiting:
            waiting.result()
    out.flush()
    return digest.hexdigest(), size


def finish_copy(target: Path) -> None:
    """Mark a copy of a folder as finished: its database is in place."""
    (target / _UNFINISHED_COPY).unlink(missing_ok=True)


def remove_unfinished_copy(target: Path) -> None:
    """Remove the copy of a folder that a killed backup left; a finished copy stays."""
    shutil.rmtree(_partial(target), ignore_errors=True)
    if (target / _UNFINISHED_COPY).exists():
        shutil.rmtree(target)


def _partial(target: Path) -> Path:
    return target.with_name(target.name + ".partial")


def older_than(seconds: float) -> float:
    """Return the time `seconds` ago, comparable with the modification times of files."""
    return time.time() - seconds


def _create(path: Path) -> IO[bytes]:
    return os.fdopen(
        os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb", buffering=_MIB
    )


@contextmanager
def read_errors(name: str) -> Iterator[None]:
    """Convert errors while reading an existing file to `StorageError`."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(problem=f"{name} cannot be read: {error.strerror}") from error


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Convert file system errors to storage errors."""
    try:
        yield
    except OSError as error:
        problem = f"{path}: {error.strerror}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Full(problem=problem) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise ReadOnly(problem=problem) from error
        raise StorageError(problem=problem) from error
