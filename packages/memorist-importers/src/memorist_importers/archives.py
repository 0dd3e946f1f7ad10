"""Safe reading of ZIP archives.

Nothing in an archive is written to disk, so no file name in it can do harm.
"""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from memorist.base.errors import Invalid
from memorist.importing.foreign_files import open_file

MAX_ARCHIVE_FILES = 100_000
MAX_COMPRESSION_RATIO = 200
SMALL_ARCHIVE_BYTES = 64 << 20
"""An archive above this size and ratio is rejected as a zip bomb."""


def is_archive(path: Path) -> bool:
    """Return True for a zip archive."""
    with open_file(path) as file:
        return file.read(4) == b"PK\x03\x04"


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a zip archive, or a single file as an archive of one."""
    if not is_archive(path):
        yield Archive({path.name: (path, None)})
        return
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            size = sum(member.file_size for member in members)
            size_limit = max(SMALL_ARCHIVE_BYTES, MAX_COMPRESSION_RATIO * path.stat().st_size)
            if len(members) > MAX_ARCHIVE_FILES or size > size_limit:
                problem = (
                    f"is an archive of {len(members)} files that unpacks to {size} bytes; "
                    "it was rejected as a zip bomb"
                )
                raise Invalid(field="file", problem=problem)
            members_by_name: dict[str, tuple[Path, zipfile.ZipFile | None]] = {
                member.filename: (path, archive) for member in members
            }
            if len(members_by_name) < len(members):
                raise Invalid(field="file", problem="is an archive with two files of the same name")
            yield Archive(members_by_name)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
        lzma.LZMAError,
    ) as error:
        raise Invalid(
            field="file", problem=f"is an archive that cannot be read: {str(error)[:200]}"
        ) from None


class Archive:
    """Files by name."""

    def __init__(self, files: dict[str, tuple[Path, zipfile.ZipFile | None]]) -> None:
        self._files = files

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._files))

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """Open one of the files."""
        path, archive = self._files[name]
        with open_file(path) if archive is None else archive.open(name) as file:
            yield file
