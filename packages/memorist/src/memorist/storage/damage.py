"""Find the records whose stored text is damaged, and name them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from memorist.base.errors import CorruptRecord, StorageError
from memorist.storage.checksum import checksum_of_bytes
from memorist.storage.database import CheckedTable, Database, T, Transaction, Work
from memorist.storage.tables import CHECKSUM, PLACE_SEPARATOR

_RECORD_DAMAGE = """insert into job_marks (tenant, job, position, basis, version)
                    values (:tenant, 'verify', :now, :count, 1)
                    on conflict (tenant, job) do update
                    set position = :now, basis = :count, version = job_marks.version + 1"""


def damaged_rows(tx: Transaction, table: CheckedTable) -> Iterator[str]:
    """Yield the name of each row of the tenant whose text does not match its checksum."""
    for row in tx.each(table.texts()):
        if checksum_of_bytes(_stored_bytes(row["stored"])) != row[CHECKSUM]:
            yield name_record(table, row)


def count_damage(tx: Transaction) -> int:
    """Return the number of damaged texts that the last check of the tenant found."""
    row = tx.one("select basis from job_marks where tenant = :tenant and job = 'verify'")
    return int(row[0]) if row else 0


def record_damage(database: Database, damage: Mapping[str, int]) -> None:
    """Store the number of damaged texts of each tenant, for the status; write only if it changed."""
    for tenant, count in damage.items():
        if database.read(tenant, count_damage) == count:
            continue
        with suppress(StorageError):  # a read-only database can be checked, too
            database.write(
                tenant,
                lambda tx, count=count: tx.run(_RECORD_DAMAGE, count=str(count)),  # type: ignore[misc]
                frees_space=True,
            )


class Scannable(Protocol):
    """The part of a database that names the record of a damaged text."""

    checked_tables: Sequence[CheckedTable]

    def read(self, tenant: str, work: Work[T], *, long: bool = False) -> T:
        """Run work on one consistent snapshot."""
        ...


def find_damage(database: Scannable, tenant: str, error: ValueError) -> CorruptRecord | None:
    """Return the error that names the record of an undecodable text; None if it is not stored.

    Scans the tenant's texts for the same bytes. The scan is slow, but only runs on damaged data.
    """
    if isinstance(error, UnicodeDecodeError):
        text = bytes(error.object)
    elif isinstance(error, json.JSONDecodeError):
        text = error.doc.encode(errors="surrogatepass")
    else:
        return None
    for table in database.checked_tables:
        rows = database.read(
            tenant,
            lambda tx, table=table: tx.all(table.find_text(), text=text),  # type: ignore[misc]
            long=True,
        )
        if rows:
            row = dict(zip(table.key, rows[0], strict=True))
            return CorruptRecord(record=f"{name_record(table, row)} of tenant {tenant}")
    if isinstance(error, UnicodeDecodeError):
        return CorruptRecord(record=f"a record of tenant {tenant}")
    return None


def name_record(table: CheckedTable, row: Mapping[str, Any]) -> str:
    """Return the table of a row with its key, such as `messages session_id=trip seq=4`."""
    key = " ".join(f"{name}={row[name]}" for name in table.key)
    return f"{table.name} {key}".replace(PLACE_SEPARATOR, "/")


def _stored_bytes(value: bytes | memoryview | str | None) -> bytes:
    """Return the bytes of a text, which Oracle returns as text, and as null if it is empty."""
    if isinstance(value, str):
        return value.encode()
    return bytes(value or b"")
