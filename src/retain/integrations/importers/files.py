"""Reading what strangers wrote: JSON that is larger than memory, archives that lie about their size, broken files.

Nothing of an archive is ever written to a disk, so that no name in it can lead anywhere. A list of JSON objects is read
one object at a time; whatever must be read as a whole is at most `MOST` bytes. Python needs five to ten times as much
memory for a JSON object as its text has: a gigabyte of conversations takes as much as the longest of them, not as all.
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

MOST = 256 << 20
_IN_ONE_READ = 1 << 20
_LONGEST_WORD = 16
"""Where JSON is cut off, what is wrong with it is at most so far from its end."""
_NO_SPACE = re.compile(r"[^ \t\r\n]")
_MOST_FILES = 100_000
_MOST_TIMES, _SMALL = 200, 64 << 20
"""An archive that unpacks to more than so many times its size, and is not small, is a trap."""


def _constant(word: str) -> None:
    raise ValueError(f"{word} is not a JSON number")


_DECODER = json.JSONDecoder(parse_constant=_constant)


def whole(file: IO[bytes], where: str) -> Any:
    """All of a file as one JSON value."""
    data = file.read(MOST + 1)
    if len(data) > MOST:
        raise TooLarge(field=where, size=len(data), unit="bytes or more", limit=MOST)
    return parse(data, where)


def parse(data: bytes | str, where: str) -> Any:
    """JSON text as a value, or an error that says where it stops being JSON."""
    try:
        written = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        return shallow(json.loads(written, parse_constant=_constant), where)
    except json.JSONDecodeError as error:
        raise Invalid(
            field=where,
            problem=f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}",
        ) from None
    except (ValueError, RecursionError) as error:
        raise Invalid(field=where, problem=f"cannot be read as JSON: {str(error)[:200]}") from None


def shallow(value: Any, where: str) -> Any:
    """The value, if it is not nested deeper than can be kept."""
    level = [value]
    for _ in range(2 * MAX_DEPTH):
        level = [
            inner
            for item in level
            for inner in (
                item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
            )
            if isinstance(inner, dict | list)
        ]
        if not level:
            return value
    raise Invalid(field=where, problem=f"is nested more than {2 * MAX_DEPTH} deep")


def lines(file: IO[bytes], where: str) -> Iterator[tuple[str, Any]]:
    """The values of JSON Lines, each with where it stands; empty lines are none."""
    number = 0
    while line := file.readline(MOST + 1):
        number += 1
        if len(line) > MOST:
            raise TooLarge(
                field=f"{where} line {number}", size=len(line), unit="bytes or more", limit=MOST
            )
        if line.strip():
            yield f"{where} line {number}", parse(line, f"{where} line {number}")


def elements(file: IO[bytes], where: str) -> Iterator[tuple[str, Any]]:
    """The elements of a JSON list, each with where it stands, and no more than one of them in memory."""
    reader, number = _Reader(file, where), 0
    if reader.next() != "[":
        raise Invalid(field=where, problem="is no JSON list")
    while (mark := reader.next(keep=number == 0)) != "]":
        if number and mark != ",":
            problem = "is no JSON list: a comma is missing" if mark else "is cut off"
            raise Invalid(field=where, problem=f"{problem} after element {number - 1}")
        yield f"{where}[{number}]", shallow(reader.value(number), f"{where}[{number}]")
        number += 1
    if number == 0:
        reader.next()
    if reader.next():
        raise Invalid(field=where, problem="goes on after the end of its list")


class _Reader:
    """JSON out of a file, value by value."""

    def __init__(self, file: IO[bytes], where: str) -> None:
        self._file, self._where = file, where
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._ended = "", 0, False

    def next(self, *, keep: bool = False) -> str:
        """The next character that is no space, '' at the end; `keep` leaves it to be read again."""
        while True:
            found = _NO_SPACE.search(self._text, self._at)
            self._at = found.start() if found else len(self._text)
            if found or not self._more(_IN_ONE_READ):
                break
        self._at += 1 if found and not keep else 0
        return found.group() if found else ""

    def value(self, number: int) -> Any:
        """The next value; it is tried again with twice as much, as long as it may only be cut off."""
        where = f"{self._where}[{number}]"
        if not self.next(keep=True):
            raise Invalid(field=where, problem="is missing: the file is cut off")
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
                if end < len(self._text) or not self._more(_IN_ONE_READ):
                    self._at = end
                    return value
                continue
            except json.JSONDecodeError as error:
                broken = error.pos < len(self._text) - _LONGEST_WORD and not error.msg.startswith(
                    "Unterminated"
                )
                problem = f"is not JSON: {error.msg} at its character {error.pos - self._at}"
                if broken or not self._more(max(_IN_ONE_READ, len(self._text) - self._at)):
                    raise Invalid(field=where, problem=problem) from None
            except (ValueError, RecursionError) as error:
                raise Invalid(
                    field=where, problem=f"cannot be read as JSON: {str(error)[:200]}"
                ) from None
            if len(self._text) > MOST:
                raise TooLarge(
                    field=where, size=len(self._text), unit="characters or more", limit=MOST
                )

    def _more(self, size: int) -> bool:
        """Read on, and let go of what was read; whether there was more."""
        if self._ended:
            return False
        data = self._file.read(size)
        self._ended = not data
        try:
            self._text = self._text[self._at :] + self._decoder.decode(data, final=self._ended)
            self._at = 0
        except UnicodeDecodeError:
            raise Invalid(field=self._where, problem="is not UTF-8") from None
        return not self._ended


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file to read from."""
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
    """Whether a file is a zip archive."""
    with opened(path) as file:
        return file.read(4) == b"PK\x03\x04"


@contextmanager
def members(path: Path) -> Iterator[Archive]:
    """The files of a zip archive, or a single file as if it were in one."""
    if not is_archive(path):
        yield Archive({path.name: (path, None)})
        return
    try:
        with zipfile.ZipFile(path) as archive:
            found = [one for one in archive.infolist() if not one.is_dir()]
            size = sum(one.file_size for one in found)
            if len(found) > _MOST_FILES or size > max(_SMALL, _MOST_TIMES * path.stat().st_size):
                problem = f"is an archive of {len(found)} files that unpacks to {size} bytes: that is a trap, and nothing was read"
                raise Invalid(field="file", problem=problem)
            named: dict[str, tuple[Path, zipfile.ZipFile | None]] = {
                one.filename: (path, archive) for one in found
            }
            if len(named) < len(found):
                raise Invalid(field="file", problem="is an archive that has two files of one name")
            yield Archive(named)
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
    """Files by their names."""

    def __init__(self, files: dict[str, tuple[Path, zipfile.ZipFile | None]]) -> None:
        self._files = files

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._files))

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """One of the files."""
        path, archive = self._files[name]
        with opened(path) if archive is None else archive.open(name) as file:
            yield file
