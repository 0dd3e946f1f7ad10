"""Safe reading of foreign files and JSON. A JSON value is at most MAX_JSON_BYTES."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from memorist.base.canonical import MAX_DEPTH
from memorist.base.errors import Invalid, TooLarge

MAX_JSON_BYTES = 256 << 20


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
