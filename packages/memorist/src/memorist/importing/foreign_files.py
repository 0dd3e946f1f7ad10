"""Safe reading of foreign files: JSON, archives, broken input.

Nothing in an archive is written to disk, so no file name in it can do harm. A JSON value is at most
MAX_JSON_BYTES.
"""

from __future__ import annotations

import json
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from memorist.base.canonical import MAX_DEPTH
from memorist.base.errors import Invalid, TooLarge

MAX_JSON_BYTES = 256 << 20
MAX_ARCHIVE_FILES = 100_000
MAX_COMPRESSION_RATIO = 200
SMALL_ARCHIVE_BYTES = 64 << 20
"""An archive above this size and ratio is rejected as a zip bomb."""


def reject_constant(name: str) -> None:
    """Raise ValueError for `NaN` and `Infinity`: an option for the parser of the library."""
    raise ValueError(f"{name} is not a JSON number")


def read_json(file: IO[bytes], where: str) -> Any:
    """Read a whole file as one JSON value."""
    data = file.read(MAX_JSON_BYTES + 1)
    if len(data) > MAX_JSON_BYTES:
        raise TooLarge(field=where, size=len(data), unit="bytes or more", limit=MAX_JSON_BYTES)
    return parse_json(data, where)


def parse_json(data: bytes | str, where: str) -> Any:
    """Parse JSON text; the error says where it stops being JSON."""
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        return check_depth(json.loads(text, parse_constant=reject_constant), where)
    except json.JSONDecodeError as error:
        raise Invalid(
            field=where,
            problem=f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}",
        ) from None
    except (ValueError, RecursionError) as error:
        raise Invalid(field=where, problem=f"cannot be read as JSON: {str(error)[:200]}") from None


def check_depth(value: Any, where: str) -> Any:
    """Return the value, or raise Invalid if it is nested deeper than can be stored."""
    level = [value]
    for _ in range(2 * MAX_DEPTH):
        children: list[Any] = []
        for item in level:
            values = item.values() if isinstance(item, dict) else item
            if isinstance(item, dict | list):
                children.extend(child for child in values if isinstance(child, dict | list))
        if not children:
            return value
        level = children
    raise Invalid(field=where, problem=f"is nested more than {2 * MAX_DEPTH} levels deep")


@contextmanager
def open_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file; read errors become Invalid."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise Invalid(field="file", problem=f"cannot be read: {error.strerror}") from None
    with file:
        try:
            yield file
        except OSError as error:
            raise Invalid(field="file", problem=f"cannot be read: {error.strerror}") from None


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
