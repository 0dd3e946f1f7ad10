"""Maps from the tables of another system to records: built-in maps, and YAML or JSON files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from memorist.base.errors import Invalid

OPTIONAL = "?"
FIELDS = {
    "sessions": "id* tenant user agent label attributes created_at updated_at summary"
    " summarized_count",
    "messages": "session* id tenant message role json text tokens_in tokens_out cost created_at",
    "active sessions": "session* user* agent tenant created_at updated_at",
    "summaries": "session* text* summarized_count updated_at",
    "notes": "text* user* agent id tenant created_at updated_at",
    "entries": "id* text* kind user agent tenant created_at updated_at",
    "references": "key* content* id type description metadata session is_active user agent tenant"
    " created_at updated_at",
    "state": "key* value* id owner tenant created_at updated_at expires_at",
    "model calls": "id* route* model* parameters latency_ms tokens_in tokens_out cost error session"
    " user agent tenant created_at",
    "agent names": "id* name*",
}
"""The records that a table can become, with their fields; a star marks required ones."""


@dataclass(frozen=True)
class TableMap:
    """One table: what its rows become, and the columns of each field, the first that exists."""

    table: str
    becomes: str
    columns: Mapping[str, tuple[str, ...]]
    optional_fields: frozenset[str]
    values: Mapping[str, Mapping[str, Any]]  # source values of a field, and what replaces them
    is_optional: bool
    order: tuple[str, ...]  # fields


@dataclass(frozen=True)
class Map:
    """The tables of another system."""

    name: str
    tables: tuple[TableMap, ...]

    def of(self, becomes: str) -> list[TableMap]:
        """Return the tables whose rows become this."""
        return [table for table in self.tables if table.becomes == becomes]


def ready_maps() -> list[str]:
    """Return the names of the built-in maps."""
    folder = resources.files("memorist.importing").joinpath("maps")
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir())


def load_map(name: str) -> Map:
    """Load a built-in map by its name, or a map from a file."""
    if name in ready_maps():
        folder = resources.files("memorist.importing").joinpath("maps")
        return _parse(name, folder.joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
    path = Path(name)
    if not path.is_file():
        problem = f"must be one of {', '.join(ready_maps())}, or a file; there is no {name!r}"
        raise Invalid(field="map", problem=problem)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(field="map", problem=f"cannot be read: {error}") from None
    return _parse(path.stem, text)


def _parse(name: str, text: str) -> Map:
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        problem = f"is not YAML: {str(error)[:200]}"
        raise Invalid(field="map", problem=problem) from None
    rows = value.get("tables") if isinstance(value, dict) else None
    if not isinstance(rows, list) or not rows:
        raise Invalid(field="map", problem="must have a list `tables`")
    return Map(name, tuple(_parse_table(row, f"tables[{n}]") for n, row in enumerate(rows)))


def _parse_table(row: Any, where: str) -> TableMap:
    if not isinstance(row, dict) or not isinstance(row.get("table"), str):
        raise Invalid(field=f"map.{where}", problem="must be an object with the name of a `table`")
    unknown = sorted(set(row) - {"table", "becomes", "columns", "values", "optional", "order"})
    if unknown:
        raise Invalid(field=f"map.{where}", problem=f"has an unknown field {unknown[0]!r}")
    becomes = row.get("becomes")
    if becomes not in FIELDS:
        problem = f"must be one of {', '.join(FIELDS)}, not {becomes!r}"
        raise Invalid(field=f"map.{where}.becomes", problem=problem)
    columns: Any = row.get("columns")
    _check_fields(columns, becomes, where)
    names: dict[str, tuple[str, ...]] = {}
    optional = set()
    for field, column in columns.items():
        choices = column if isinstance(column, list) else [column]
        if not choices or not all(isinstance(choice, str) for choice in choices):
            problem = "must be the name of a column, or a list of names"
            raise Invalid(field=f"map.{where}.columns.{field}", problem=problem)
        if any(choice.endswith(OPTIONAL) for choice in choices):
            optional.add(field)
        stripped = [choice.removesuffix(OPTIONAL).lower() for choice in choices]
        names[field] = tuple(choice for choice in stripped if choice)
    values = row.get("values", {})
    if not isinstance(values, dict) or not all(isinstance(item, dict) for item in values.values()):
        raise Invalid(
            field=f"map.{where}.values", problem="must be an object: field: {value: other value}"
        )
    order = row.get("order", ["id"])
    if not isinstance(order, list) or not all(isinstance(field, str) for field in order):
        raise Invalid(field=f"map.{where}.order", problem="must be a list of fields")
    return TableMap(
        row["table"],
        becomes,
        names,
        frozenset(optional),
        {field: {str(old): new for old, new in item.items()} for field, item in values.items()},
        row.get("optional") is True,
        tuple(order),
    )


def _check_fields(columns: Any, becomes: str, where: str) -> None:
    """Raise Invalid unless all fields are known and none is missing."""
    if not isinstance(columns, dict):
        raise Invalid(field=f"map.{where}.columns", problem="must be an object: field: column")
    fields = FIELDS[becomes].replace("*", "").split()
    required = {field[:-1] for field in FIELDS[becomes].split() if field.endswith("*")}
    for field in columns:
        if field not in fields:
            problem = f"has a field {field!r}; the fields of {becomes} are {', '.join(fields)}"
            raise Invalid(field=f"map.{where}.columns", problem=problem)
    if missing := sorted(required - set(columns)):
        problem = f"must have the field {missing[0]!r} for {becomes}"
        raise Invalid(field=f"map.{where}.columns", problem=problem)
    if becomes == "messages" and not {"message", "json", "text"} & set(columns):
        problem = "must have the field 'message', 'json' or 'text' for messages"
        raise Invalid(field=f"map.{where}.columns", problem=problem)
