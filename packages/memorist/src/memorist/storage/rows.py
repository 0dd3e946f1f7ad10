"""Map the rows of a statement to records."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from operator import itemgetter
from typing import Any, TypeVar

from memorist.base import clock
from memorist.storage.database import Row

Record = TypeVar("Record")
Convert = Callable[[Any], Any]


def _json_or_none(text: str | None) -> Any:
    return json.loads(text) if text else None


def none_if_empty(value: str) -> str | None:
    """Convert the empty text, which stands for null in a key, to None."""
    return value or None


_BY_TYPE: dict[str, Convert] = {
    "bool": bool,
    "datetime": clock.to_datetime,
    "datetime | None": clock.to_datetime_or_none,
    "dict[str, Any]": json.loads,
    "dict[str, Any] | None": _json_or_none,
    "list[str]": json.loads,
}
"""How columns become fields, by the annotation of the field."""


def row_mapper(
    record_type: type[Record],
    *,
    columns: Sequence[str] = (),
    besides: Sequence[str] = (),
    **conversions: Convert,
) -> Callable[..., Record]:
    """Return a function that makes a record of a frozen dataclass from a row.

    The function takes the row, and by keyword the fields that the row does not have.

    columns:     the names of the row's columns, of which only those of fields are used; without
                 them, the row has all fields in their order
    besides:     the fields that are not columns of the row
    conversions: how to convert a column, by its field, where the type of the field does not say it
    """
    annotations = {field.name: str(field.type) for field in fields(record_type)}  # type: ignore[arg-type]
    names = [name for name in columns or annotations if name in annotations and name not in besides]
    pick = itemgetter(*[columns.index(name) for name in names]) if columns else tuple
    converters = [
        (name, conversions.get(name) or _BY_TYPE[annotations[name]])
        for name in names
        if name in conversions or annotations[name] in _BY_TYPE
    ]

    def record_of(row: Row, **others: Any) -> Record:
        values = dict(zip(names, pick(row), strict=True), **others)
        for name, convert in converters:
            values[name] = convert(values[name])
        return record_type(**values)

    return record_of
