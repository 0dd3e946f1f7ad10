"""Moving in: what other memories have written, read into our kinds. What has no place here is listed, not dropped.

    from retain.integrations.importers import bring_in

    report = bring_in(memory, "conversations.json", "chatgpt", user="ada")

A reader yields records, one file for each format; one writer puts them where they belong. The source is read twice: a file
that is broken anywhere is refused before anything is written.
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
from retain.integrations.importers.guess import guess
from retain.integrations.importers.record import (
    Conversation,
    Fact,
    Passage,
    Record,
    Thing,
    Unplaced,
)
from retain.integrations.importers.report import Report, where
from retain.integrations.importers.writer import Writer
from retain.memory import Memory
from retain.storage.copy import Progress

__all__ = ["FORMATS", "Report", "Unplaced", "bring_in", "guess"]

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
"""What can be read."""
_OF_A_PERSON = ("chatgpt", "claude", "letta", "mem0")


def bring_in(
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
    """Read a file, or a database by its address, into the kinds of a tenant; the same source can be read again.

    `user` is whose it is where the source does not say, `agent` whose entries and sessions it becomes (by default the one
    that the source names, or the name of the format). `shared` says that what names nobody is for every user. `table` is
    the one that LangChain's history is in. A dry run writes nothing and reports the same.
    """
    if format not in _READERS:
        raise Invalid(field="from", problem=f"must be one of {', '.join(FORMATS)}, not {format!r}")
    if table is not None and format != "langchain":
        raise Invalid(field="table", problem="is only for the format langchain")
    user = None if user is None else canonical.key(user, "user")
    agent = None if agent is None else canonical.key(agent, "agent")

    def records() -> Iterator[Record]:
        return (
            langchain.read(str(source), table)
            if format == "langchain"
            else _READERS[format](str(source))
        )

    total = 0
    for record in records():
        total += 1
        if (
            user is None
            and getattr(record, "user", None) is None
            and _has_owner(record, format, shared)
        ):
            or_shared = (
                ""
                if shared or isinstance(record, Conversation | Passage)
                else ", or that it is shared by all"
            )
            whose = f"does not say whose it is, such as {where(record)[:100]}"
            problem = f"is needed{or_shared}: a source of the format {format} {whose}"
            raise Invalid(field="user", problem=problem)
    writer = Writer(memory, format, tenant, user, agent, dry_run)
    for number, record in enumerate(records(), 1):
        writer.put(record)
        if progress and number % 20 == 0:
            progress(number, max(total, number))
    writer.flush()
    if progress:
        progress(total, total)
    return writer.report


def _has_owner(record: Record, format: str, shared: bool) -> bool:
    """Whether somebody must own it: a conversation and notes always, and what a person's memory has unless it is shared."""
    if isinstance(record, Thing):
        return format in _OF_A_PERSON and not shared
    return isinstance(record, Conversation | Passage) or (isinstance(record, Fact) and not shared)
