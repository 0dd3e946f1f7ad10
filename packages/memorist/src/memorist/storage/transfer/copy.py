"""Export and import: JSON Lines that come back byte for byte, from any engine into any other.

The first line identifies the file, a `tenant` line starts each tenant, and every other line is one
row of one table, in the order of its key. The last line has the number of rows and the SHA-256 of
all lines before it: a file that was cut off or changed is rejected before anything is written.

An import adds the missing rows and skips those that exist, so it can be repeated after an
interruption. It stops at a row that exists with other content.

Stored contents are written in parts of a fixed size, whether they are in files or in the database.
An import stores them according to the settings of its own database.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from typing import IO, Any

from memorist.base import canonical
from memorist.base.errors import (
    Busy,
    Conflict,
    CorruptRecord,
    Invalid,
    ReadTooLong,
    SettingsError,
    StorageError,
    Unreachable,
)
from memorist.storage import former_name
from memorist.storage.checksum import checksum
from memorist.storage.contents.blobs import Blobs
from memorist.storage.damage import name_record
from memorist.storage.database import EVERY_TENANT, Transaction
from memorist.storage.tables import CHECKSUM, Table
from memorist.storage.writer import Change, Writer

FORMAT = 1
PARTS = "blob_parts"
_IN_ONE_WRITE = 500
_BEGINNING_BYTES = 16 << 10
_BEHIND = """insert into search_behind (tenant, round) values (:tenant, 1)
             on conflict (tenant) do update set round = search_behind.round + 1"""
_RESET_MARK = """insert into job_marks (tenant, job, position, basis, version)
                 values (:tenant, 'summaries', 0, '', 1), (:tenant, 'facts', 0, '', 1)
                 on conflict (tenant, job) do update set position = 0, version = job_marks.version + 1"""
Progress = Callable[[int, int], None]
"""Called with the number of rows done and the total, or 0 if the total is unknown."""


@dataclass(frozen=True)
class Copied:
    """The result of an export or import: rows by table, and how many an import added."""

    rows: dict[str, int]
    new: int = 0


def export(
    tables: Sequence[Table],
    blobs: Blobs,
    out: IO[bytes],
    *,
    tenants: Sequence[str] | None = None,
    user: str | None = None,
    progress: Progress | None = None,
) -> Copied:
    """Write every row of the tenants, or of all tenants, each in one snapshot."""
    database = blobs.database
    digest = hashlib.sha256()
    counts = {table.name: 0 for table in tables}

    def put(line: Mapping[str, Any]) -> None:
        data = _line(line)
        digest.update(data)
        out.write(data)

    put({"memorist": FORMAT, "schema": database.version()})
    for tenant in database.tenants() if tenants is None else tenants:
        put({"tenant": tenant})

        def work(tx: Transaction) -> None:
            for table in tables:
                for row in _rows(tx, table, blobs, user):
                    put({"table": table.name, "row": row})
                    counts[table.name] += 1
                    if progress and sum(counts.values()) % _IN_ONE_WRITE == 0:
                        progress(sum(counts.values()), 0)

        with blobs.copying():
            database.read(tenant, work, long=True)
    total = sum(counts.values())
    out.write(_line({"end": True, "rows": total, "sha256": digest.hexdigest()}))
    if progress:
        progress(total, total)
    return Copied(counts)


def _rows(
    tx: Transaction, table: Table, blobs: Blobs, user: str | None
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a table as they are exported."""
    if table.name == PARTS:
        yield from blobs.parts(tx, user)
        return
    for row in tx.each(
        table.select(of_user=user is not None), **({} if user is None else {"user": user})
    ):
        if table.checked and checksum(*[row[name] for name in table.checked]) != row[CHECKSUM]:
            raise CorruptRecord(record=f"{name_record(table, row)} of tenant {tx.tenant}")
        yield {
            name: value
            for name, value in row.items()
            if name != "tenant" and name not in table.omitted
        }


def import_(
    writer: Writer,
    tables: Sequence[Table],
    blobs: Blobs,
    file: IO[bytes],
    *,
    progress: Progress | None = None,
) -> Copied:
    """Read a whole export into the database."""
    database = writer.database
    total, is_of_retain = _check(file, database.version())
    by_name = {table.name: table for table in tables}
    columns = database.read(EVERY_TENANT, lambda tx: {name: tx.columns(name) for name in by_name})
    _inspect(
        file,
        {name: set(names) - {"tenant"} - by_name[name].omitted for name, names in columns.items()},
        {table.name: table.added.keys() for table in tables},
    )
    counts = {table.name: 0 for table in tables}
    new = 0
    file.seek(0)
    tenants: list[str] = []
    for (kind, value), lines in groupby(_lines(file), key=_belongs):
        if kind == "tenant":
            tenants.append(value)
            # A tenant without rows is imported, too.
            writer.write(_import_change(value), lambda tx: None)
        if kind != "table":
            continue
        rows: Iterator[Mapping[str, Any]] = (line["row"] for _, line in lines)
        if is_of_retain:
            rows = map(partial(former_name.translate_row, value), rows)
        table = by_name[value]
        if table.added:
            rows = map(partial(_with_added, blobs, tenants[-1], table), rows)
        parts = value == PARTS
        batches = (
            _contents(blobs, tenants[-1], rows)
            if parts
            else _batches(writer, tenants[-1], table, columns[value], rows)
        )
        for count, added in batches:
            counts[value] += count
            new += added
            if progress:
                progress(sum(counts.values()), total)
    for tenant in tenants:
        blobs.settled(tenant)
    return Copied(counts, new)


def _import_change(tenant: str) -> Change:
    return Change("import", "add", tenant, event="added")


def _batches(
    writer: Writer,
    tenant: str,
    table: Table,
    columns: Sequence[str],
    rows: Iterator[Mapping[str, Any]],
) -> Iterator[tuple[int, int]]:
    """Add rows in batches; yield the number of rows and of new rows in each batch."""
    while batch := list(islice(rows, _IN_ONE_WRITE)):
        yield (
            len(batch),
            writer.write(
                _import_change(tenant),
                lambda tx, batch=batch: _add(tx, table, columns, batch),  # type: ignore[misc]
            ),
        )


def _contents(
    blobs: Blobs, tenant: str, rows: Iterator[Mapping[str, Any]]
) -> Iterator[tuple[int, int]]:
    """Store contents; yield the number of parts and of new parts of each."""
    for (user, digest), parts in groupby(rows, key=lambda row: (row["user_id"], row["digest"])):
        count, new = blobs.put(tenant, user, digest, parts)
        yield count, count if new else 0


def _with_added(
    blobs: Blobs, tenant: str, table: Table, row: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return a row with the columns that the version that exported it did not have."""
    missing = table.added.keys() - row.keys()
    if not missing:
        return row
    beginning = ""
    if "digest" in row:
        beginning = _read_beginning(blobs, tenant, row["user_id"], row["digest"])
    return {**row, **{name: table.added[name](row, beginning) for name in missing}}


def _read_beginning(blobs: Blobs, tenant: str, user: str, digest: str) -> str:
    """Return the beginning of a stored content; "" if it cannot be read."""
    try:
        with blobs.open(tenant, user, digest, check=False) as file:
            return file.read(_BEGINNING_BYTES).decode("utf-8", "replace")
    except (Busy, Unreachable, ReadTooLong):  # the database failed, not this content
        raise
    except (StorageError, SettingsError):
        return ""


def _add(
    tx: Transaction, table: Table, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> int:
    """Add the missing rows and return their number; raise `Conflict` if an existing row differs."""
    added = 0
    # In this transaction: an import may be killed at any time.
    tx.send(_BEHIND)
    if table.name in ("sessions", "messages"):  # they come with old times
        tx.send(_RESET_MARK)
    for row in rows:
        if tx.run(table.insert(columns), **table.complete(row)):
            added += 1
            continue
        values = tx.one(table.find(), **{name: row[name] for name in table.key})
        existing = None
        if values is not None:
            pairs = zip(columns, values, strict=True)
            existing = {name: value for name, value in pairs if name not in table.omitted}
            existing |= {name: row[name] for name in table.advancing}
        if existing != {**row, "tenant": tx.tenant}:
            key = " ".join(str(row[name]) for name in table.key)
            raise Conflict(
                problem=f"{table.name} {key} is already there with other content; import into an empty database"
            )
    return added


def _line(value: Mapping[str, Any]) -> bytes:
    return (
        json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
        + b"\n"
    )


def _lines(file: IO[bytes]) -> Iterator[tuple[int, Any]]:
    for number, data in enumerate(file, 1):
        try:
            line = json.loads(data)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict):
            raise Invalid(field="file", problem=f"line {number} is not a JSON object")
        yield number, line


def _belongs(numbered: tuple[int, Mapping[str, Any]]) -> tuple[str, str]:
    """Return the group of a line: a tenant, a table, or the frame of the file."""
    number, line = numbered
    if isinstance(line.get("tenant"), str):
        return "tenant", line["tenant"]
    if isinstance(line.get("table"), str) and isinstance(line.get("row"), dict):
        return "table", line["table"]
    if "memorist" in line or former_name.EXPORT_MARK in line or "end" in line:
        return "frame", ""
    raise Invalid(field="file", problem=f"line {number} is neither a tenant nor a row")


def _check(file: IO[bytes], schema: int) -> tuple[int, bool]:
    """Check that the file is an export, complete and unchanged.

    Returns its number of rows, and whether retain wrote it.
    """
    first = file.readline()
    head = _head(first)
    is_of_retain = head.get(former_name.EXPORT_MARK) == FORMAT
    if head.get("memorist") != FORMAT and not is_of_retain:
        raise Invalid(
            field="file", problem="is not an export of memorist (its first line does not say so)"
        )
    if is_of_retain and head.get("schema") != former_name.EXPORT_SCHEMA:
        problem = (
            f"has schema {head.get('schema')}; export it again with the last version of retain"
        )
        raise Invalid(field="file", problem=problem)
    if not is_of_retain and not _is_readable(head.get("schema"), schema):
        raise Invalid(
            field="file", problem=f"has schema {head.get('schema')}, and the database has {schema}"
        )
    digest = hashlib.sha256()
    last = first
    for line in file:
        digest.update(last)
        last = line
    end = _head(last)
    if end.get("end") is not True or not isinstance(end.get("rows"), int):
        raise Invalid(field="file", problem="is cut off: it has no closing line")
    if end.get("sha256") != digest.hexdigest():
        raise Invalid(
            field="file", problem="was changed after it was written: its checksum does not match"
        )
    return int(end["rows"]), is_of_retain


def _is_readable(schema: Any, current: int) -> bool:
    """Return whether an export of a schema can be imported: columns that it lacks are computed."""
    return type(schema) is int and 1 <= schema <= current


def _inspect(
    file: IO[bytes], columns: Mapping[str, Set[str]], added: Mapping[str, Set[str]]
) -> None:
    """Check that every line can be written; rows may lack the columns `added` of their table.

    A matching checksum means that the file is complete, not that memorist wrote it.
    """
    file.seek(0)
    tenant = ""
    for number, line in _lines(file):
        kind, value = _belongs((number, line))
        if kind == "tenant":
            tenant = _tenant(value, number)
        if kind != "table":
            continue
        if not tenant:
            raise Invalid(field="file", problem=f"line {number} has a row before any tenant")
        if value not in columns:
            raise Invalid(
                field="file",
                problem=f"line {number} has a table {value!r} that this memorist does not know",
            )
        if wrong := (line["row"].keys() ^ columns[value]) - added[value]:
            names = ", ".join(sorted(wrong))
            raise Invalid(
                field="file",
                problem=f"line {number} has other columns in {value} than this database ({names})",
            )
        for name, item in line["row"].items():
            if not _is_storable(item):
                raise Invalid(
                    field="file",
                    problem=f"line {number} has a value in {value}.{name} that cannot be stored",
                )


def _tenant(name: str, number: int) -> str:
    try:
        if canonical.key(name, "file") != EVERY_TENANT:
            return name
    except Invalid:
        pass
    raise Invalid(field="file", problem=f"line {number} has an invalid tenant name")


def _is_storable(value: Any) -> bool:
    """Return True if every engine stores the value unchanged."""
    if isinstance(value, str):
        return canonical.text(value, "file", 4 * len(value)) == value
    if isinstance(value, int):
        return not isinstance(value, bool) and -(2**63) <= value < 2**63
    return value is None or (isinstance(value, float) and math.isfinite(value))


def _head(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
