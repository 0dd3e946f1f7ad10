"""Import what other memories have written. What has no place here is listed, not dropped.

    from retain.integrations.importers import import_from

    report = import_from(memory, "conversations.json", "chatgpt", user="ada")

One reader per format yields records; one writer stores them. The source is read twice, so that a
broken file is rejected before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from retain.base import canonical
from retain.base.errors import Invalid
from retain.integrations.importers import (
    chatgpt,
    claude,
    langchain,
    langgraph,
    letta,
    mcp_memory,
    mem0,
    openai_agents,
    sql,
)
from retain.integrations.importers.detect import detect_format
from retain.integrations.importers.record_writer import Writer
from retain.integrations.importers.records import (
    Conversation,
    Entry,
    Item,
    Note,
    Record,
    Reference,
    Unplaced,
)
from retain.integrations.importers.report import RECORD_NAMES, Report, location
from retain.integrations.importers.table_map import ready_maps
from retain.memory import Memory
from retain.storage.copy import Progress

__all__ = ["FORMATS", "Report", "Unplaced", "detect_format", "import_from", "ready_maps"]

_READERS: dict[str, Callable[[str], Iterator[Record]]] = {
    "chatgpt": chatgpt.read,
    "claude": claude.read,
    "langchain": langchain.read,
    "langgraph": langgraph.read,
    "letta": letta.read,
    "mcp-memory": mcp_memory.read,
    "mem0": mem0.read,
    "openai-agents": openai_agents.read,
}
FORMATS = (*_READERS, "sql")
_PERSONAL_FORMATS = ("chatgpt", "claude", "letta", "mem0")


def import_from(
    memory: Memory,
    source: Path | str,
    format: str,
    *,
    tenant: str | None = None,
    user: str | None = None,
    agent: str | None = None,
    table: str | None = None,
    map: str | None = None,
    shared: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Import a file, or a database by its URL. Importing the same source again changes nothing.

    user:    owner of everything for which the source names no user
    agent:   agent of the entries and sessions; by default the source's, else the format's name
    table:   table of LangChain's history
    map:     for the format sql, the name of a built-in map, or a file with one
    shared:  what names no user belongs to all users
    dry_run: write nothing, and return the same report
    """
    if format not in FORMATS:
        raise Invalid(field="from", problem=f"must be one of {', '.join(FORMATS)}, not {format!r}")
    if table is not None and format != "langchain":
        raise Invalid(field="table", problem="is only for the format langchain")
    if map is not None and format != "sql":
        raise Invalid(field="map", problem="is only for the format sql")
    user = None if user is None else canonical.key(user, "user")
    agent = None if agent is None else canonical.key(agent, "agent")
    read = _reader(str(source), format, user, table, map)
    total = _check_owners(read(), format, user, shared)
    report = Report(format, dry_run)
    writers: dict[str, Writer] = {}
    for number, record in enumerate(read(), 1):
        reason = _rejection(record, format, tenant, user, shared)
        if reason is not None:
            report.read[RECORD_NAMES[type(record)][0]] += 1
            report.reject(record, reason)
        elif isinstance(record, Unplaced):  # belongs to no tenant: nothing is written
            report.reject(record, record.reason)
        else:
            name = getattr(record, "tenant", None) or tenant or memory.settings.tenant
            if name not in writers:
                writers[name] = Writer(memory, name, user, agent, report)
                report.tenants.append(name)
            writers[name].add(record)
        if progress and number % 20 == 0:
            progress(number, max(total, number))
    for writer in writers.values():
        writer.flush()
    if progress:
        progress(total, total)
    return report


def _reader(
    source: str, format: str, user: str | None, table: str | None, map: str | None
) -> Callable[[], Iterator[Record]]:
    if format == "sql":
        return lambda: sql.read(source, map)
    if format == "langchain":
        return lambda: langchain.read(source, table)
    if format == "mem0":
        return lambda: mem0.read(source, user)
    return lambda: _READERS[format](source)


def _check_owners(records: Iterator[Record], format: str, user: str | None, shared: bool) -> int:
    """Return the number of records, or raise Invalid if their owner is not known.

    A database of many users may have a few sessions without an owner; the report lists them. If
    no record has an owner, the caller must name one.
    """
    total = 0
    problem: Invalid | None = None
    has_owner = False
    for record in records:
        total += 1
        if user is not None or getattr(record, "user", None) is not None:
            has_owner = True
        elif problem is None:
            problem = _owner_problem(record, format, shared)
    if problem is not None and (format != "sql" or not has_owner):
        raise problem
    return total


def _rejection(
    record: Record, format: str, tenant: str | None, user: str | None, shared: bool
) -> str | None:
    """Return why a record of a database is not imported, because of its owner; None if it is."""
    record_tenant = getattr(record, "tenant", None)
    if record_tenant is not None and tenant not in (None, record_tenant):
        return (
            f"belongs to the tenant {record_tenant}: import without --tenant, "
            f"or with --tenant {record_tenant}"
        )
    has_user = user is not None or getattr(record, "user", None) is not None
    if has_user or _owner_problem(record, format, shared) is None:
        return None
    return "has no user in the source: import it with --user"


def _owner_problem(record: Record, format: str, shared: bool) -> Invalid | None:
    """Return an error if a record that names no user must have one."""
    is_always_owned = isinstance(record, Conversation | Note)
    is_personal = isinstance(record, Entry | Reference) or (
        isinstance(record, Item) and format in _PERSONAL_FORMATS
    )
    if not is_always_owned and (not is_personal or shared):
        return None
    alternative = "" if is_always_owned else ", or shared"
    problem = (
        f"is required{alternative}: the source does not name the owner of {location(record)[:100]}"
    )
    return Invalid(field="user", problem=problem)
