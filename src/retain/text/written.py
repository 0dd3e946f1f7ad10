"""A JSON value as text for a prompt: valid text, and never much more of it than is shown."""

from __future__ import annotations

import json
from typing import Any

from retain.text.jsonpath import Large


def written(value: Any, most: int, indent: int | None = None) -> str:
    """A value as JSON; of a large one, and of one with an indent, at least so many characters of its beginning."""
    if isinstance(value, Large):
        return value.text(most)
    if indent is not None:
        try:
            return valid(_begun(value, most, indent))
        except RecursionError:
            pass  # it is nested deeper than anybody reads by its indent
    return valid(json.dumps(value, ensure_ascii=False))


def valid(text: str) -> str:
    """Text without half characters, which JSON can hold and nobody else can read."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _begun(value: Any, most: int, indent: int) -> str:
    """What is nested deep is mostly spaces, of which there can be gigabytes: so it is written no further than is shown."""
    pieces: list[str] = []
    size = 0
    for piece in json.JSONEncoder(ensure_ascii=False, indent=indent).iterencode(value):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            break
    return "".join(pieces)
