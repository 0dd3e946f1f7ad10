"""Fields of foreign objects, which may be missing or of another type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memorist.importing.records import Unplaced

FOREIGN_VECTOR = "comes from another embedder; this database computes its own vectors"
NOT_AN_OBJECT = "is not an object"


def as_text(value: Any) -> str:
    """Return a string as it is, and '' for any other value."""
    return value if isinstance(value, str) else ""


def only_objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; none if the value is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def split_objects(value: Any, what: str, where: str) -> tuple[list[dict[str, Any]], list[Unplaced]]:
    """Return the objects of a list, and everything else in it as unplaced."""
    if not isinstance(value, list):
        return [], [Unplaced(what, where, "is not a list")] if value else []
    unplaced = [
        Unplaced(what, f"{where}[{number}]", NOT_AN_OBJECT)
        for number, item in enumerate(value)
        if not isinstance(item, dict)
    ]
    return only_objects(value), unplaced


def drop_fields(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return an object without the named fields and without empty ones."""
    return {
        name: item
        for name, item in value.items()
        if name not in names and item not in (None, "", [], {})
    }
