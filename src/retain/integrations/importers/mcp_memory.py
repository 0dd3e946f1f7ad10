"""The file of the Model Context Protocol's own memory server: entities, observations and relations, into the graph.

That server passes over lines that it cannot read; here they are listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from retain.base.errors import Invalid
from retain.integrations.importers import files
from retain.integrations.importers.record import Record, Unplaced
from retain.kinds.graph import Entity, Relation

_KNOWN = {
    "entity": {"type", "name", "entityType", "observations"},
    "relation": {"type", "from", "to", "relationType"},
}


def read(source: str) -> Iterator[Record]:
    """Every line of the file, the entities before what relates them."""
    path = Path(source)
    relations: list[Record] = []
    with files.opened(path) as file:
        while line := file.readline(files.MOST + 1):
            where = f"{path.name} byte {file.tell() - len(line)}"
            if not line.strip():
                continue
            try:
                value = files.parse(line, where)
            except Invalid as error:
                yield Unplaced("line", where, str(error))
                continue
            for record in _record(value, where):
                if isinstance(record, Relation):
                    relations.append(record)
                else:
                    yield record
    yield from relations


def _record(value: Any, where: str) -> Iterator[Record]:
    kind = value.get("type") if isinstance(value, dict) else None
    if (
        kind == "entity"
        and _texts(value, "name", "entityType")
        and _all_text(value.get("observations"))
    ):
        yield Entity(value["name"], value["entityType"], value["observations"])
    elif kind == "relation" and _texts(value, "from", "to", "relationType"):
        yield Relation(value["from"], value["to"], value["relationType"])
    else:
        yield Unplaced("line", where, "is neither an entity nor a relation")
        return
    if unknown := sorted(value.keys() - _KNOWN[kind]):
        yield Unplaced("field", where, f"{', '.join(unknown)[:200]}: the graph has no place for it")


def _texts(value: dict[str, Any], *names: str) -> bool:
    return all(isinstance(value.get(name), str) for name in names)


def _all_text(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
