"""A folder of large contents: files that appear whole or not at all, and are never removed under anybody's hands.

A file's name is made of hashes and a random tail and is in at most one row, so that removing a row says which file goes.
Three locks that the system drops when a process dies keep hands off each other:
- who writes a file shares it until its row is there: a file without a row that nobody shares was left by a crash;
- who copies shares the folder: nothing is removed while an export or a backup reads what it found in the rows;
- who removes has the folder for itself, or leaves the files for the next `retain purge`.
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

from retain.base.errors import Full, ReadOnly, StorageError, Unreachable

_NAME = re.compile(r"[0-9a-f]{32}/[0-9a-f]{32}/[0-9a-f]{64}\.[0-9a-f]{16}")
_UNFINISHED = "new."
_LOOK_EVERY = 16 << 20
_MIB = 1 << 20
_WAITS = (0.0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064)


See = Callable[[bytes], None]
"""Somebody who is shown every piece of a content, in order."""


class Held:
    """A file that was just written; nobody clears it away until it is let go, or this process ends."""

    def __init__(self, name: str, digest: str, size: int, file: IO[bytes]) -> None:
        self.name = name
        self.digest = digest
        self.size = size
        self._file = file

    def let_go(self) -> None:
        """Its row is there, or will never be."""
        self._file.close()


class Folder:
    """The files of one database, by tenant and user; the folder itself is made when it is first needed."""

    def __init__(self, path: Path, *, durable: bool, min_free_mib: int) -> None:
        self.path = path
        self._durable = durable
        self._min_free = min_free_mib * _MIB

    def write(self, place: str, pieces: Iterable[bytes], see: See) -> Held:
        """Write a content to a new file of a place, in a way that survives a power cut."""
        with in_our_words(self.path):
            made, file = self._new(place)
            try:
                digest, size = pour(self._while_there_is_room(pieces), file, see)
                if self._durable:
                    os.fsync(file.fileno())
                name = f"{place}/{digest}.{secrets.token_hex(8)}"
                os.rename(made, self.path / name)
                self._settle(made.parent)
            except BaseException:
                made.unlink(missing_ok=True)
                file.close()
                raise
        return Held(name, digest, size, file)

    def open(self, name: str) -> IO[bytes]:
        """A file, to read."""
        if not _NAME.fullmatch(name):
            raise Unreachable(problem=f"{name!r} is not the name of a stored content")
        try:
            return (self.path / name).open("rb")
        except FileNotFoundError:
            problem = f"a stored content is missing: {name} is not in {self.path} (the setting ref_folder says where to look)"
            raise Unreachable(problem=problem) from None
        except OSError as error:
            raise Unreachable(problem=f"{name} cannot be read: {error.strerror}") from error

    def made(self, name: str) -> float:
        """When a file was written; a moment to come for one that is gone."""
        with suppress(OSError):
            return (self.path / name).stat().st_mtime
        return float("inf")

    def names(self, place: str) -> Iterator[str]:
        """The files under a place, also unfinished ones."""
        root = self.path / place
        for folder, _, files in os.walk(root):
            for name in files:
                yield str((Path(folder) / name).relative_to(self.path))

    def remove(self, names: Iterable[str]) -> bool:
        """Remove files whose rows are gone; False if somebody is copying, and they are left for later."""
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
        """Remove what crashes left under a place; how many files, and False if somebody is copying."""
        if not (self.path / place).is_dir():
            return 0, True
        with self._alone() as alone:
            if not alone:
                return 0, False
            done = sum(self._clear(name, older_than, has_row) for name in self.names(place))
            for folder, _, _ in os.walk(self.path / place, topdown=False):
                with suppress(OSError):  # it is not empty
                    os.rmdir(folder)
        return done, True

    @contextmanager
    def copying(self) -> Iterator[None]:
        """While this lasts, no file is removed."""
        if not self.path.is_dir():
            yield
            return
        with self._lock_file() as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield

    def copy_to(self, target: Path) -> None:
        """Copy every finished file; the target appears only when it is whole."""
        if not self.path.is_dir():
            return
        partial = target.with_name(target.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            with in_our_words(target):
                other = Folder(partial, durable=self._durable, min_free_mib=0)
                for name in self.names(""):
                    if _NAME.fullmatch(name):
                        self._copy(name, other)
                if partial.is_dir():
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
            if self._durable:
                os.fsync(out.fileno())

    def _clear(self, name: str, older_than: float, has_row: Callable[[str], bool]) -> bool:
        path = self.path / name
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_mtime > older_than:
                    return False
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if has_row(name):  # asked last: who lets a file go has its row
                    return False
                path.unlink(missing_ok=True)
                return True
        except (BlockingIOError, FileNotFoundError):
            return False

    def _new(self, place: str) -> tuple[Path, IO[bytes]]:
        """A new file that is shared from its first moment on: one that was cleared away before that is made again."""
        folder = self.path / place
        self.path.mkdir(0o700, exist_ok=True)
        while True:
            path = folder / f"{_UNFINISHED}{secrets.token_hex(8)}"
            with suppress(FileNotFoundError):  # the folder was empty, and cleared away
                self._make(folder)
                file = _create(path)
                fcntl.flock(file, fcntl.LOCK_SH)
                if os.fstat(file.fileno()).st_nlink:
                    return path, file
                file.close()

    def _make(self, folder: Path) -> None:
        """Have a folder of a user's, for the owner of the database alone."""
        if not folder.is_dir():
            folder.parent.mkdir(0o700, exist_ok=True)
            folder.mkdir(0o700, exist_ok=True)
            self._settle(folder.parent, self.path, self.path.parent)

    def _while_there_is_room(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        size, look_at = 0, 0
        for piece in pieces:
            if size >= look_at:
                look_at = size + _LOOK_EVERY
                self._refuse_if_full()
            size += len(piece)
            yield piece

    def _refuse_if_full(self) -> None:
        disk = os.statvfs(self.path)
        free = disk.f_bavail * disk.f_frsize
        if free < self._min_free + _LOOK_EVERY:
            least = self._min_free // _MIB
            raise Full(problem=f"{free // _MIB} MiB are free and writing stops below {least} MiB")

    def _settle(self, *folders: Path) -> None:
        """Make names survive a power cut too."""
        for folder in folders if self._durable else ():
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        if not self.path.is_dir():
            yield True
            return
        with self._lock_file() as file:
            for wait in _WAITS:
                time.sleep(wait)  # for another who removes, not for one who copies
                with suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
            else:
                yield False
                return
            yield True

    def _lock_file(self) -> IO[bytes]:
        with in_our_words(self.path):
            return os.fdopen(os.open(self.path / "lock", os.O_CREAT | os.O_RDWR, 0o600), "r+b")


def pour(pieces: Iterable[bytes], out: IO[bytes], see: See) -> tuple[str, int]:
    """Write pieces, and beside it in another thread hash and show them; the hash of all, and their size."""
    digest, size = hashlib.sha256(), 0

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


def older_than(seconds: float) -> float:
    """The moment so many seconds ago, by the clock of the file system."""
    return time.time() - seconds


def _create(path: Path) -> IO[bytes]:
    return os.fdopen(
        os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb", buffering=_MIB
    )


@contextmanager
def in_our_words(path: Path) -> Iterator[None]:
    """The errors of the file system in our words."""
    try:
        yield
    except OSError as error:
        problem = f"{path}: {error.strerror}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Full(problem=problem) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise ReadOnly(problem=problem) from error
        raise StorageError(problem=problem) from error
