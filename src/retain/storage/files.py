"""What the storage asks of the file system: is this disk local, who may read the file, is there a reserve."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from retain.errors import Invalid

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
        point = Path(os.fsdecode(_ESCAPED.sub(lambda octal: bytes([int(octal[1], 8)]), left.split(b" ")[4])))
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
        raise Invalid(field=str(path), problem="has no folder to be written to")


def has_room(folder: Path) -> bool:
    """Whether a database in the folder can at least be opened, for which SQLite needs a little space."""
    disk = shutil.disk_usage(folder)
    return disk.free >= 1 << 20 or not disk.total  # what has no size, such as /proc, is not full: it keeps no files


def take_from_ballast(path: Path) -> bool:
    """Give a mebibyte of the reserve back to the disk; False if there is none."""
    with suppress(OSError):
        if size := path.stat().st_size:
            os.truncate(path, max(0, size - (1 << 20)))
            return True
    return False


def make_ballast(path: Path, mebibytes: int) -> None:
    """Reserve a file that an emergency purge can delete to get room to work; never on a disk that is short already."""
    size = mebibytes << 20
    if path.exists() or shutil.disk_usage(path.parent).free < 20 * size:
        return
    make_private(path)
    with suppress(OSError), path.open("wb") as file:
        for _ in range(mebibytes):
            file.write(bytes(1 << 20))
