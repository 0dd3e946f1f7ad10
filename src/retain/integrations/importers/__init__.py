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
)
from retain.integrations.importers.detect import detect_format
from retain.integrations.importers.record_writer import Writer
from retain.integrations.importers.records import Conversation, Entry, Item, Note, Record, Unplaced
from retain.integrations.importers.report import Report, location
from retain.memory import Memory
from retain.storage.copy import Progress

__all__ = ["FORMATS", "Report", "Unplaced", "detect_format", "import_from"]

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
FORMATS = tuple(_READERS)
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
    shared: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Import a file, or a database by its URL. Importing the same source again changes nothing.

    user:    owner of everything for which the source names no user
    agent:   agent of the entries and sessions; by default the source's, else the format's name
    table:   table of LangChain's history
    shared:  what names no user belongs to all users
    dry_run: write nothing, and return the same report
    """
    if format not in _READERS:
        raise Invalid(field="from", problem=f"must be one of {', '.join(FORMATS)}, not {format!r}")
    if table is not None and format != "langchain":
        raise Invalid(field="table", problem="is only for the format langchain")
    user = None if user is None else canonical.key(user, "user")
    agent = None if agent is None else canonical.key(agent, "agent")

    def read() -> Iterator[Record]:
        if format == "langchain":
            return langchain.read(str(source), table)
        if format == "mem0":
            return mem0.read(str(source), user)
        return _READERS[format](str(source))

    total = 0
    for record in read():
        total += 1
        if user is None and getattr(record, "user", None) is None:
            _check_owner(record, format, shared)
    writer = Writer(memory, format, tenant, user, agent, dry_run)
    for number, record in enumerate(read(), 1):
        writer.add(record)
        if progress and number % 20 == 0:
            progress(number, max(total, number))
    writer.flush()
    if progress:
        progress(total, total)
    return writer.report


def _check_owner(record: Record, format: str, shared: bool) -> None:
    """Raise Invalid if a record that names no user must have one."""
    is_always_owned = isinstance(record, Conversation | Note)
    is_personal = isinstance(record, Entry) or (
        isinstance(record, Item) and format in _PERSONAL_FORMATS
    )
    if is_always_owned or (is_personal and not shared):
        alternative = "" if is_always_owned else ", or shared"
        problem = (
            f"is required{alternative}: "
            f"the source does not name the owner of {location(record)[:100]}"
        )
        raise Invalid(field="user", problem=problem)
