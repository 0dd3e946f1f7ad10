"""What the storage asks of the file system: is this disk local, who may read the file, is there a reserve."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOBase
from pathlib import Path
from typing import IO, Any

from retain.base.errors import Invalid

_ESCAPED = re.compile(rb"\\([0-3][0-7]{2})")  # how the mount table writes spaces and backslashes
NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs", "ocfs2", "gfs2",
           "beegfs", "orangefs", "ncpfs", "coda", "virtiofs", "vboxsf", "prl_fs", "fuse.sshfs", "fuse.glusterfs",
           "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.osxfs", "fuse.grpcfuse", "fakeowner"}  # fmt: skip


def filesystem_of(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """The type of the file system a folder is on, '' where the system does not say."""
    try:
        lines = mounts.read_bytes().splitlines()
    except OSError:
        return ""
    wanted = folder.resolve()
    best, found = -1, ""
    for line in lines:
        left, _, right = line.partition(b" - ")
        point = Path(
            os.fsdecode(_ESCAPED.sub(lambda octal: bytes([int(octal[1], 8)]), left.split(b" ")[4]))
        )
        if wanted.is_relative_to(point) and len(point.parts) >= best:
            best, found = len(point.parts), right.split(b" ")[0].decode()
    return found


def is_network(filesystem: str) -> bool:
    """Whether locks cannot be relied on there."""
    return filesystem in NETWORK


def make_private(path: Path) -> None:
    """Make sure that the file exists; a new one can be opened by its owner alone (SQLite's side files follow it)."""
    with suppress(OSError):  # it exists, or SQLite will say what is wrong
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def check_target(path: Path) -> None:
    """Refuse to write a backup over a file, or into a folder that is not there."""
    if path.exists():
        raise Invalid(field=str(path), problem="exists already; a backup never overwrites a file")
    if not path.absolute().parent.is_dir():
        raise Invalid(
            field=str(path), problem=f"has no folder to be written to: make {path.parent} first"
        )


@contextmanager
def writing(out: IO[bytes] | Path | str) -> Iterator[IO[bytes]]:
    """A file to write bytes to: the one that is open, or a new one, of its owner alone, that appears when it is whole."""
    if not isinstance(out, str | Path):
        yield _of_bytes(out, "out", "write")
        return
    target = Path(out)
    partial = target.with_name(f"{target.name}.partial") if target.name else target
    try:
        partial.unlink(missing_ok=True)
        made = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        raise Invalid(field="file", problem=f"cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(made, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def reading(file: IO[bytes] | Path | str) -> Iterator[IO[bytes]]:
    """A file to read bytes from, more than once: the one that is open, or one that is opened by its path."""
    if not isinstance(file, str | Path):
        yield _of_bytes(file, "file", "read")
        return
    try:
        opened = Path(file).open("rb")  # noqa: SIM115 - it is closed below
    except OSError as error:
        raise Invalid(field="file", problem=f"cannot be read: {error.strerror}") from None
    with opened:
        yield opened


def _of_bytes(file: Any, field: str, verb: str) -> IO[bytes]:
    if isinstance(file, TextIOBase) or not hasattr(file, verb):
        mode = "wb" if verb == "write" else "rb"
        raise Invalid(
            field=field,
            problem=f"must be a path, or a file opened for bytes, as in open(path, {mode!r})",
        )
    return file  # type: ignore[no-any-return]


def has_room(folder: Path) -> bool:
    """Whether a database in the folder can at least be opened, for which SQLite needs a little space."""
    disk = shutil.disk_usage(folder)
    return (
        disk.free >= 1 << 20 or not disk.total
    )  # what has no size, such as /proc, is not full: it keeps no files


def take_from_ballast(path: Path) -> bool:
    """Give a mebibyte of the reserve back to the disk; False if there is none."""
    with suppress(OSError):
        if size := path.stat().st_size:
            os.truncate(path, max(0, size - (1 << 20)))
            return True
    return False


MIN_FREE_MIB = 64
"""Writes are refused while less than this is free on the disk."""


def make_ballast(path: Path, mebibytes: int) -> None:
    """Reserve a file that an emergency purge can delete to get room to work; never on a disk that is short already."""
    size = mebibytes << 20
    if path.exists() or shutil.disk_usage(path.parent).free < 20 * size:
        return
    make_private(path)
    with suppress(OSError), path.open("wb") as file:
        for _ in range(mebibytes):
            file.write(bytes(1 << 20))
