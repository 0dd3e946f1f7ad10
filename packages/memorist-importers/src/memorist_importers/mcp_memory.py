"""The file of MCP's reference memory server: entities, observations and relations of the graph.

That server ignores lines that it cannot read; here they are listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memorist.base.errors import Invalid
from memorist.importing import foreign_files
from memorist.importing.importer import Importer, ImportSource
from memorist.importing.records import Record, Unplaced
from memorist.kinds.graph import GraphEntity, Relation

_FIELDS = {
    "entity": {"type", "name", "entityType", "observations"},
    "relation": {"type", "from", "to", "relationType"},
}


def read(source: ImportSource) -> Iterator[Record]:
    """Yield every line of the file, the relations last."""
    path = Path(source.location)
    relations: list[Record] = []
    with foreign_files.open_file(path) as file:
        while line := file.readline(foreign_files.MAX_JSON_BYTES + 1):
            where = f"{path.name} byte {file.tell() - len(line)}"
            if not line.strip():
                continue
            try:
                value = foreign_files.parse_json(line, where)
            except Invalid as error:
                yield Unplaced("line", where, str(error))
                continue
            for record in _parse_line(value, where):
                if isinstance(record, Relation):
                    relations.append(record)
                else:
                    yield record
    yield from relations


IMPORTER = Importer(read, beginning=r'"type"\s*:\s*"(entity|relation)"')


def _parse_line(value: Any, where: str) -> Iterator[Record]:
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "entity" and _is_entity(value):
        yield GraphEntity(value["name"], value["entityType"], value["observations"])
    elif kind == "relation" and _are_texts(value, "from", "to", "relationType"):
        yield Relation(value["from"], value["to"], value["relationType"])
    else:
        yield Unplaced("line", where, "is neither an entity nor a relation")
        return
    unknown = sorted(value.keys() - _FIELDS[kind])
    if unknown:
        yield Unplaced("field", where, f"{', '.join(unknown)[:200]}: the graph has no such field")


def _is_entity(value: dict[str, Any]) -> bool:
    observations = value.get("observations")
    return (
        _are_texts(value, "name", "entityType")
        and isinstance(observations, list)
        and all(isinstance(observation, str) for observation in observations)
    )


def _are_texts(value: dict[str, Any], *names: str) -> bool:
    return all(isinstance(value.get(name), str) for name in names)
