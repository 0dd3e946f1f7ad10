"""Find the records whose stored text is damaged, and name them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn, Protocol

from memorist.base.errors import CorruptRecord, StorageError
from memorist.storage.checksum import checksum_of_bytes
from memorist.storage.database import CheckedTable, Database, Row, T, Transaction, Work
from memorist.storage.tables import PLACE_SEPARATOR

_READERS = ("memorist.storage.", "memorist_oracle.", "psycopg.", "oracledb.")
"""Modules that decode what the database stores."""

_RECORD_DAMAGE = """insert into job_marks (tenant, job, position, basis, version)
                    values (:tenant, 'verify', :now, :count, 1)
                    on conflict (tenant, job) do update
                    set position = :now, basis = :count, version = job_marks.version + 1"""


def damaged_rows(tx: Transaction, table: CheckedTable) -> Iterator[str]:
    """Yield the name of each row of the tenant whose text does not match its checksum."""
    for row in tx.each(table.texts()):
        if _is_damaged(table, tuple(row.values())):
            yield name_record(table, row)


def changed_checksum(
    tx: Transaction, table: CheckedTable, key: Mapping[str, Any], changes: Mapping[str, str | None]
) -> int | None:
    """Return the checksum of a row once some of its texts change; None if there is no such row.

    The row must be locked. If it is damaged, the new checksum does not match either, so that the
    damage of its other texts is still found.
    """
    rows = tx.all(table.texts_of_row(), **key)
    if not rows:
        return None
    stored, texts = _checksum_and_texts(table, rows[0])
    after = [
        (changes[name] or "").encode() if name in changes else text
        for name, text in zip(table.checked, texts, strict=True)
    ]
    return stored ^ checksum_of_bytes(*texts) ^ checksum_of_bytes(*after)


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


def raise_damage(database: Scannable, tenant: str, error: ValueError) -> NoReturn:
    """Raise the error that names the damaged record behind an error, or the error itself."""
    damage = _find_damage(database, tenant, error)
    if damage is None:
        raise error
    raise damage from error


def _find_damage(database: Scannable, tenant: str, error: ValueError) -> CorruptRecord | None:
    """Return the error that names the damaged record of an undecodable text; None if it is another.

    Scans the tenant's texts for the same bytes in a record whose checksum does not match: the error
    may be one of the program's own. The scan is slow, but such errors are rare.
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
        for row in rows:
            if _is_damaged(table, row):
                named = dict(zip(table.key, row, strict=False))
                return CorruptRecord(record=f"{name_record(table, named)} of tenant {tenant}")
    if isinstance(error, UnicodeDecodeError) and _is_raised_by_reader(error.__traceback__):
        # The statement read a part of a text.
        record = _find_undecodable(database, tenant) or "a record"
        return CorruptRecord(record=f"{record} of tenant {tenant}")
    return None


def _find_undecodable(database: Scannable, tenant: str) -> str | None:
    """Return the name of the first record of a tenant with a text that cannot be decoded."""

    def find(tx: Transaction) -> str | None:
        for table in database.checked_tables:
            for row in tx.each(table.texts()):
                _, texts = _checksum_and_texts(table, tuple(row.values()))
                try:
                    b"\n".join(texts).decode()
                except UnicodeDecodeError:
                    return name_record(table, row)
        return None

    return database.read(tenant, find, long=True)


def _is_raised_by_reader(traceback: TracebackType | None) -> bool:
    """Return whether the innermost function of a traceback reads from the database."""
    module = ""
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__", ""))
        traceback = traceback.tb_next
    return module.startswith(_READERS)


def name_record(table: CheckedTable, row: Mapping[str, Any]) -> str:
    """Return the table of a row with its key, such as `messages session_id=trip seq=4`."""
    key = " ".join(f"{name}={row[name]}" for name in table.key)
    return f"{table.name} {key}".replace(PLACE_SEPARATOR, "/")


def _is_damaged(table: CheckedTable, row: Row) -> bool:
    """Return whether the texts of a row of `CheckedTable.texts` do not match their checksum."""
    stored, texts = _checksum_and_texts(table, row)
    return checksum_of_bytes(*texts) != stored


def _checksum_and_texts(table: CheckedTable, row: Row) -> tuple[int, list[bytes]]:
    _, stored, *texts = row[len(table.key) - 1 :]
    return stored, [_stored_bytes(text) for text in texts]


def _stored_bytes(value: bytes | memoryview | str | None) -> bytes:
    """Return the bytes of a text, which Oracle returns as text, and as null if it is empty."""
    if isinstance(value, str):
        return value.encode()
    return bytes(value or b"")
