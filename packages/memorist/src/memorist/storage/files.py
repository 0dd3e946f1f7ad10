"""File system helpers: network drives, private files, atomic writes, the reserve file."""

from __future__ import annotations

import fcntl
import glob
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOBase
from pathlib import Path
from typing import IO, Any

from memorist.base.errors import FileInUse, Invalid

_ESCAPED = re.compile(rb"\\([0-3][0-7]{2})")  # how the mount table writes spaces and backslashes
NETWORK = frozenset(
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "afs",
        "ceph",
        "glusterfs",
        "lustre",
        "gpfs",
        "ocfs2",
        "gfs2",
        "beegfs",
        "orangefs",
        "ncpfs",
        "coda",
        "virtiofs",
        "vboxsf",
        "prl_fs",
        "fuse.sshfs",
        "fuse.glusterfs",
        "fuse.s3fs",
        "fuse.gcsfuse",
        "fuse.rclone",
        "fuse.osxfs",
        "fuse.grpcfuse",
        "fakeowner",
    ]
)


def filesystem_of(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Return the type of the file system of a folder, or an empty string if it is unknown."""
    try:
        lines = mounts.read_bytes().splitlines()
    except OSError:
        return ""
    path = folder.resolve()
    longest = -1
    filesystem = ""
    for line in lines:
        mount, _, options = line.partition(b" - ")
        point = Path(
            os.fsdecode(_ESCAPED.sub(lambda octal: bytes([int(octal[1], 8)]), mount.split(b" ")[4]))
        )
        if path.is_relative_to(point) and len(point.parts) >= longest:
            longest = len(point.parts)
            filesystem = options.split(b" ")[0].decode()
    return filesystem


def is_network(filesystem: str) -> bool:
    """Return True for file systems whose locks are unreliable."""
    return filesystem in NETWORK


def make_private(path: Path) -> None:
    """Create the file if it is missing, readable by its owner only.

    SQLite gives its side files the same mode.
    """
    with suppress(OSError):  # it exists, or SQLite will report the problem
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def umask() -> int:
    """Return the permissions that new files of this process do not get."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def sync_folder(folder: Path) -> None:
    """Make the names of the files in a folder survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_target(path: Path) -> None:
    """Raise if the file exists or its folder does not."""
    if path.exists():
        raise Invalid(field=str(path), problem="already exists; a backup never overwrites a file")
    if not path.absolute().parent.is_dir():
        raise Invalid(
            field=str(path), problem=f"cannot be written: create the folder {path.parent} first"
        )


@contextmanager
def claim(target: Path) -> Iterator[None]:
    """Reserve the name of a file that is written; raise FileInUse if another run has reserved it.

    The lock is on a file beside the target and ends with the process. A killed run leaves that
    file, which the next run takes over and removes.
    """
    lock = target.with_name(f".{target.name}.lock")
    while True:
        try:
            descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise Invalid(
                field="file", problem=f"cannot be written: {error.strerror}: {target}"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:  # else its last owner removed it before the lock
                break
        except BlockingIOError:
            os.close(descriptor)
            raise FileInUse(path=str(target)) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


@contextmanager
def new_file(target: Path, *, replace: bool = False, mode: int = 0o600) -> Iterator[Path]:
    """Yield a temporary name beside `target`; the file written there gets the name `target`.

    The target appears when it is complete and on the disk, or never. What a killed run left is
    removed, and a second run to the same name raises FileInUse.

    replace: replace an existing file; without it, one raises Invalid
    mode:    the permissions of the file, while it is written, too
    """
    with claim(target):
        _check_free(target, replace)
        for leftover in target.parent.glob(f".{glob.escape(target.name)}.*.partial"):
            leftover.unlink(missing_ok=True)
        partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}.partial")
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        try:
            partial.chmod(mode)
            yield partial
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            _check_free(target, replace)
            partial.replace(target)
            sync_folder(target.absolute().parent)
        finally:
            partial.unlink(missing_ok=True)


def _check_free(target: Path, replace: bool) -> None:
    if not replace and target.exists():
        raise Invalid(field=str(target), problem="already exists; choose another name")


@contextmanager
def writing(
    out: IO[bytes] | Path | str, *, replace: bool = False, mode: int = 0o600
) -> Iterator[IO[bytes]]:
    """Yield a file to write to: an open one, or that of `new_file`, visible when complete."""
    if not isinstance(out, str | Path):
        yield _of_bytes(out, "out", "write")
        return
    if not Path(out).name:
        raise Invalid(field="file", problem="cannot be written: it has no name")
    with (
        new_file(Path(out), replace=replace, mode=mode) as partial,
        partial.open("wb") as file,
    ):
        yield file


@contextmanager
def reading(file: IO[bytes] | Path | str) -> Iterator[IO[bytes]]:
    """Yield a file to read from: an open one, or the one at a path."""
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
    """Return True if there is enough space to open an SQLite database in the folder."""
    disk = shutil.disk_usage(folder)
    # A file system without a size, such as /proc, is not full.
    return disk.free >= 1 << 20 or not disk.total


def take_from_ballast(path: Path) -> bool:
    """Free one mebibyte of the reserve file; return False if there is none."""
    with suppress(OSError):
        if size := path.stat().st_size:
            os.truncate(path, max(0, size - (1 << 20)))
            return True
    return False


MIN_FREE_MIB = 64
"""Writes are rejected while less than this is free on the disk."""


def make_ballast(path: Path, mebibytes: int) -> None:
    """Create the reserve file that an emergency purge deletes, unless the disk is nearly full."""
    size = mebibytes << 20
    if path.exists() or shutil.disk_usage(path.parent).free < 20 * size:
        return
    make_private(path)
    with suppress(OSError), path.open("wb") as file:
        for _ in range(mebibytes):
            file.write(bytes(1 << 20))
