"""JSON larger than memory: JSON Lines, and lists that are read one element at a time.

A parsed object takes five to ten times the memory of its text, so an import needs memory for the
longest conversation, not for all of them.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO, Any

from memorist.base.errors import Invalid, TooLarge
from memorist.importing import foreign_files

READ_BYTES = 1 << 20
TRUNCATION_MARGIN = 16
"""In truncated JSON, the parser reports an error at most this many characters from the end."""
_NOT_SPACE = re.compile(r"[^ \t\r\n]")
_DECODER = json.JSONDecoder(parse_constant=foreign_files.reject_constant)


def read_lines(file: IO[bytes], where: str) -> Iterator[tuple[str, Any]]:
    """Yield the values of JSON Lines, each with its location; skip empty lines."""
    number = 0
    while line := file.readline(foreign_files.MAX_JSON_BYTES + 1):
        number += 1
        if len(line) > foreign_files.MAX_JSON_BYTES:
            raise TooLarge(
                field=f"{where} line {number}",
                size=len(line),
                unit="bytes or more",
                limit=foreign_files.MAX_JSON_BYTES,
            )
        if line.strip():
            yield f"{where} line {number}", foreign_files.parse_json(line, f"{where} line {number}")


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
        yield (
            f"{where}[{number}]",
            foreign_files.check_depth(reader.value(number), f"{where}[{number}]"),
        )
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
            if len(self._text) > foreign_files.MAX_JSON_BYTES:
                raise TooLarge(
                    field=where,
                    size=len(self._text),
                    unit="characters or more",
                    limit=foreign_files.MAX_JSON_BYTES,
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
