"""Safe reading of foreign files: JSON larger than memory, archives, broken input.

Nothing in an archive is written to disk, so no file name in it can do harm. A JSON list is read one
element at a time; a value that must be read whole is at most MAX_JSON_BYTES. A parsed object takes
five to ten times the memory of its text, so an import needs memory for the longest conversation,
not for all of them.
"""

from __future__ import annotations

import codecs
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from retain.base.canonical import MAX_DEPTH
from retain.base.errors import Invalid, TooLarge

MAX_JSON_BYTES = 256 << 20
READ_BYTES = 1 << 20
TRUNCATION_MARGIN = 16
"""In truncated JSON, the parser reports an error at most this many characters from the end."""
MAX_ARCHIVE_FILES = 100_000
MAX_COMPRESSION_RATIO = 200
SMALL_ARCHIVE_BYTES = 64 << 20
"""An archive above this size and ratio is rejected as a zip bomb."""
_NOT_SPACE = re.compile(r"[^ \t\r\n]")


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant)


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
        return check_depth(json.loads(text, parse_constant=_reject_constant), where)
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


def read_lines(file: IO[bytes], where: str) -> Iterator[tuple[str, Any]]:
    """Yield the values of JSON Lines, each with its location; skip empty lines."""
    number = 0
    while line := file.readline(MAX_JSON_BYTES + 1):
        number += 1
        if len(line) > MAX_JSON_BYTES:
            raise TooLarge(
                field=f"{where} line {number}",
                size=len(line),
                unit="bytes or more",
                limit=MAX_JSON_BYTES,
            )
        if line.strip():
            yield f"{where} line {number}", parse_json(line, f"{where} line {number}")


def read_elements(file: IO[bytes], where: str) -> Iterator[tuple[str, Any]]:
    """Yield the elements of a JSON list, each with its location, one at a time."""
    reader = _JsonReader(file, where)
    number = 0
    if reader.next() != "[":
        raise Invalid(field=where, problem="is not a JSON list")
    while (character := reader.next(keep=number == 0)) != "]":
        if number and character != ",":
            problem = "is not a JSON list: a comma is missing" if character else "is truncated"
            raise Invalid(field=where, problem=f"{problem} after element {number - 1}")
        yield f"{where}[{number}]", check_depth(reader.value(number), f"{where}[{number}]")
        number += 1
    if number == 0:
        reader.next()
    if reader.next():
        raise Invalid(field=where, problem="continues after the end of the list")


class _JsonReader:
    """Reads JSON from a file, value by value."""

    def __init__(self, file: IO[bytes], where: str) -> None:
        self._file = file
        self._where = where
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._position = 0
        self._is_at_end = False

    def next(self, *, keep: bool = False) -> str:
        """Return the next character that is not white space, '' at the end.

        With `keep` the character stays to be read again.
        """
        while True:
            match = _NOT_SPACE.search(self._text, self._position)
            self._position = match.start() if match else len(self._text)
            if match or not self._read_more(READ_BYTES):
                break
        if match is None:
            return ""
        if not keep:
            self._position += 1
        return match.group()

    def value(self, number: int) -> Any:
        """Return the next value; read on and try again while it may only be incomplete."""
        where = f"{self._where}[{number}]"
        if not self.next(keep=True):
            raise Invalid(field=where, problem="is missing: the file is truncated")
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._position)
                if end < len(self._text) or not self._read_more(READ_BYTES):
                    self._position = end
                    return value
                continue
            except json.JSONDecodeError as error:
                is_near_end = error.pos >= len(self._text) - TRUNCATION_MARGIN
                is_broken = not is_near_end and not error.msg.startswith("Unterminated")
                problem = f"is not JSON: {error.msg} at character {error.pos - self._position}"
                if is_broken or not self._read_more(
                    max(READ_BYTES, len(self._text) - self._position)
                ):
                    raise Invalid(field=where, problem=problem) from None
            except (ValueError, RecursionError) as error:
                raise Invalid(
                    field=where, problem=f"cannot be read as JSON: {str(error)[:200]}"
                ) from None
            if len(self._text) > MAX_JSON_BYTES:
                raise TooLarge(
                    field=where,
                    size=len(self._text),
                    unit="characters or more",
                    limit=MAX_JSON_BYTES,
                )

    def _read_more(self, size: int) -> bool:
        """Read on and drop consumed bytes; return False at the end of the file."""
        if self._is_at_end:
            return False
        data = self._file.read(size)
        self._is_at_end = not data
        try:
            self._text = self._text[self._position :] + self._decoder.decode(
                data, final=self._is_at_end
            )
            self._position = 0
        except UnicodeDecodeError:
            raise Invalid(field=self._where, problem="is not UTF-8") from None
        return not self._is_at_end


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
