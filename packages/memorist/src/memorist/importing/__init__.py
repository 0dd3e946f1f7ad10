"""Import what other memories have written. What has no place here is listed, not dropped.

    from memorist.importing import import_from

    report = import_from(memory, "conversations.json", "chatgpt", user="ada")

An importer reads the records of one format; one writer stores them. The source is read twice, so that
a broken file is rejected before anything is written. SQL tables are read here; the package
memorist-importers reads the formats of other systems.
"""

from __future__ import annotations

from pathlib import Path

from memorist.base import canonical
from memorist.base.errors import Invalid
from memorist.importing.detect import detect_format
from memorist.importing.importer import Importer, ImportSource
from memorist.importing.record_writer import RecordWriter
from memorist.importing.records import (
    ImportedConversation,
    ImportedEntry,
    ImportedItem,
    ImportedNote,
    ImportedReference,
    Record,
    Unplaced,
)
from memorist.importing.registry import find_importer, formats
from memorist.importing.report import RECORD_NAMES, ImportReport, location
from memorist.importing.table_map import ready_maps
from memorist.memory import Memory
from memorist.storage.transfer.copy import Progress

__all__ = [
    "ImportReport",
    "ImportSource",
    "Importer",
    "Unplaced",
    "detect_format",
    "formats",
    "import_from",
    "ready_maps",
]


def import_from(
    memory: Memory,
    source: Path | str,
    format: str,
    *,
    tenant: str | None = None,
    user: str | None = None,
    agent: str | None = None,
    map: str | None = None,
    shared: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Import a file, or a database by its URL. Importing the same source again changes nothing.

    user:    owner of everything for which the source names no user
    agent:   agent of the entries and sessions; by default the source's, else the format's name
    map:     for the format sql, the name of a built-in map, or a file with one
    shared:  what names no user belongs to all users
    dry_run: write nothing, and return the same report
    """
    importer = find_importer(format)
    if map is not None and not importer.takes_map:
        raise Invalid(field="map", problem=f"is not an option of the format {format}")
    user = None if user is None else canonical.key(user, "user")
    agent = None if agent is None else canonical.key(agent, "agent")
    options = ImportSource(str(source), user, map)
    total = _check_owners(importer, options, shared)
    report = ImportReport(format, dry_run)
    writers: dict[str, RecordWriter] = {}
    for number, record in enumerate(importer.read(options), 1):
        reason = _rejection(record, importer, tenant, user, shared)
        if reason is not None:
            report.read[RECORD_NAMES[type(record)][0]] += 1
            report.reject(record, reason)
        elif isinstance(record, Unplaced):  # belongs to no tenant: nothing is written
            report.reject(record, record.reason)
        else:
            name = getattr(record, "tenant", None) or tenant or memory.settings.tenant
            if name not in writers:
                writers[name] = RecordWriter(memory, name, user, agent, report)
                report.tenants.append(name)
            writers[name].add(record)
        if progress and number % 20 == 0:
            progress(number, max(total, number))
    for writer in writers.values():
        writer.flush()
    if progress:
        progress(total, total)
    return report


def _check_owners(importer: Importer, source: ImportSource, shared: bool) -> int:
    """Return the number of records, or raise Invalid if their owner is not known.

    A database of many users may have a few sessions without an owner; the report lists them. If
    no record has an owner, the caller must name one.
    """
    total = 0
    problem: Invalid | None = None
    has_owner = False
    for record in importer.read(source):
        total += 1
        if source.user is not None or getattr(record, "user", None) is not None:
            has_owner = True
        elif problem is None:
            problem = _owner_problem(record, importer, shared)
    if problem is not None and not (importer.has_many_users and has_owner):
        raise problem
    return total


def _rejection(
    record: Record, importer: Importer, tenant: str | None, user: str | None, shared: bool
) -> str | None:
    """Return why a record of a database is not imported, because of its owner; None if it is."""
    record_tenant = getattr(record, "tenant", None)
    if record_tenant is not None and tenant not in (None, record_tenant):
        return (
            f"belongs to the tenant {record_tenant}: import without --tenant, "
            f"or with --tenant {record_tenant}"
        )
    has_user = user is not None or getattr(record, "user", None) is not None
    if has_user or _owner_problem(record, importer, shared) is None:
        return None
    return "has no user in the source: import it with --user"


def _owner_problem(record: Record, importer: Importer, shared: bool) -> Invalid | None:
    """Return an error if a record that names no user must have one."""
    is_always_owned = isinstance(record, ImportedConversation | ImportedNote)
    is_personal = isinstance(record, ImportedEntry | ImportedReference) or (
        isinstance(record, ImportedItem) and importer.is_personal
    )
    if not is_always_owned and (not is_personal or shared):
        return None
    alternative = "" if is_always_owned else ", or shared"
    problem = (
        f"is required{alternative}: the source does not name the owner of {location(record)[:100]}"
    )
    return Invalid(field="user", problem=problem)
