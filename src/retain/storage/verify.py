"""Check the invariants of a live database."""

from __future__ import annotations

from collections.abc import Sequence

from retain.storage.blobs import Blobs
from retain.storage.database import Database, Finding, Transaction
from retain.storage.tables import Check, Table

MAX_SHOWN = 20


def count(
    database: Database, tables: Sequence[Table], tenants: Sequence[str] | None = None
) -> dict[str, int]:
    """Count the rows of each table, over some tenants or all."""
    counts = {table.name: 0 for table in tables}
    for tenant in database.tenants() if tenants is None else tenants:
        rows = database.read(
            tenant, lambda tx: [tx.one(table.count()) or (0,) for table in tables], long=True
        )
        for table, row in zip(tables, rows, strict=True):
            counts[table.name] += row[0]
    return counts


def verify(database: Database, checks: Sequence[Check], blobs: Blobs, schema: int) -> list[Finding]:
    """Run all checks of the engine, the kinds and the contents; return a finding for each."""
    findings = list(database.health())
    version = database.version()
    findings.append(
        Finding(
            "the schema is up to date",
            "" if version == schema else f"it is at {version} of {schema}",
        )
    )
    if version != schema:
        return findings
    tenants = database.tenants()
    for check in checks:
        wrong: list[str] = []
        for tenant in tenants:
            violations = database.read(
                tenant,
                lambda tx, check=check: _wrong(tx, check),  # type: ignore[misc]
                long=True,
            )
            wrong += [f"{tenant}: {violation}" for violation in violations]
        more = f" and {len(wrong) - MAX_SHOWN} more" if len(wrong) > MAX_SHOWN else ""
        findings.append(Finding(check.what, "; ".join(wrong[:MAX_SHOWN]) + more))
    return findings + blobs.verify(tenants)


def _wrong(tx: Transaction, check: Check) -> Sequence[str]:
    return check.find(tx) if check.find else [row[0] for row in tx.all(check.sql)]
