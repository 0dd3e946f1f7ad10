"""Check the invariants of a live database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from memorist.base.errors import Corrupt, CorruptRecord, Invalid
from memorist.storage.contents.blobs import Blobs
from memorist.storage.damage import damaged_rows, record_damage
from memorist.storage.database import CheckedTable, Database, Finding, Transaction
from memorist.storage.tables import Check, Table

MAX_SHOWN_DAMAGE = 1_000
MAX_COUNTED = 2_000
Progress = Callable[[int, int], None]
"""Called with the number of the check that has ended, and the number of checks."""
Damage = dict[str, set[str]]
"""The damaged records that were found, by tenant."""


def count(
    database: Database,
    tables: Sequence[Table],
    tenants: Sequence[str] | None = None,
    *,
    exact: bool = False,
) -> dict[str, int]:
    """Count the rows of each table, over some tenants or all.

    Unless `exact`, more than `MAX_COUNTED` rows of a tenant are estimated from a sample and
    rounded to two digits.
    """
    limit = 2**62 if exact else MAX_COUNTED
    counts = {table.name: 0 for table in tables}
    for tenant in database.tenants() if tenants is None else tenants:
        rows = database.read(
            tenant,
            lambda tx: [tx.one(table.count(), limit=limit + 1) or (0,) for table in tables],
            long=True,
        )
        for table, (size,) in zip(tables, rows, strict=True):
            if size <= limit:
                counts[table.name] += size
            else:
                estimate = database.estimate_rows(tenant, table)
                counts[table.name] += max(limit, int(float(f"{estimate:.2g}")))
    return counts


def verify(
    database: Database,
    checks: Sequence[Check],
    blobs: Blobs,
    schema: int,
    *,
    start: int = 1,
    progress: Progress | None = None,
) -> list[Finding]:
    """Run the checks of the engine, the kinds and the contents; return a finding for each.

    A whole run records the number of damaged records, for the status.

    start: the number of the first check; an interrupted run continues with it
    """
    schema_finding = _check_schema(database, schema)
    if not schema_finding.ok:  # the other checks need the newest schema
        return [*database.health(), schema_finding]
    tenants = database.tenants()
    damage: Damage = {tenant: set() for tenant in tenants}
    steps: list[Callable[[], Sequence[Finding]]] = [
        database.health,
        lambda: [schema_finding],
        # First the texts: these checks name the records that others stumble on.
        *(partial(_check_texts, database, table, damage) for table in database.checked_tables),
        *(partial(_run_check, database, check, damage) for check in checks),
        lambda: blobs.verify(tenants),
    ]
    if not 1 <= start <= len(steps):
        raise Invalid(field="start", problem=f"must be from 1 to {len(steps)}, the last check")
    findings: list[Finding] = []
    for number, step in enumerate(steps, 1):
        if number >= start:
            findings += step()
        if progress:
            progress(number, len(steps))
    if start == 1:
        record_damage(database, {tenant: len(records) for tenant, records in damage.items()})
    return findings


def refuse_damage(database: Database, blobs: Blobs) -> None:
    """Raise CorruptRecord if a text or a content is damaged."""
    tenants = database.tenants()
    damage: Damage = {tenant: set() for tenant in tenants}
    findings = [
        finding
        for table in database.checked_tables
        for finding in _check_texts(database, table, damage)
    ]
    record_damage(database, {tenant: len(records) for tenant, records in damage.items()})
    problems = [finding.problem for finding in findings if not finding.ok]
    problems += blobs.damaged(tenants)
    if problems:
        raise CorruptRecord(
            record="; ".join(problems),
            hint="`memorist backup --damaged` copies the database as it is.",
        )


def _check_schema(database: Database, schema: int) -> Finding:
    version = database.version()
    problem = "" if version == schema else f"it is at {version} of {schema}"
    return Finding("the schema is up to date", problem)


def _check_texts(database: Database, table: CheckedTable, damage: Damage) -> list[Finding]:
    """Compare the texts of a table with their checksums; add the damaged records."""

    def find(tx: Transaction) -> list[str]:
        names = list(damaged_rows(tx, table))
        damage[tx.tenant].update(names)
        return names

    what = f"every text of {table.name} is as it was written"
    return _run_check(database, Check(what, find=find, max_shown=MAX_SHOWN_DAMAGE), damage)


def _run_check(database: Database, check: Check, damage: Damage) -> list[Finding]:
    """Run a check in each tenant; add the damaged record that it stumbles on."""
    wrong: list[str] = []
    for tenant, records in damage.items():
        try:
            violations = database.read(tenant, lambda tx: _wrong(tx, check), long=True)
        except Corrupt as error:  # the other checks and tenants are checked all the same
            violations = [str(error.problem)]
            record = str(error.details.get("record", error.problem))
            records.add(record.removesuffix(f" of tenant {tenant}"))
        wrong += [f"{tenant}: {violation}" for violation in violations]
    more = f" and {len(wrong) - check.max_shown} more" if len(wrong) > check.max_shown else ""
    return [Finding(check.what, "; ".join(wrong[: check.max_shown]) + more, len(wrong))]


def _wrong(tx: Transaction, check: Check) -> Sequence[str]:
    return check.find(tx) if check.find else [row[0] for row in tx.all(check.sql)]
