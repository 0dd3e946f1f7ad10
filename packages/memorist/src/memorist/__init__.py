"""Memory for AI agents on SQLite and PostgreSQL: it never loses a write and assembles prompts."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from memorist.base.version import VERSION

if TYPE_CHECKING:
    from memorist.aio import AsyncMemory, AsyncScope
    from memorist.base.canonical import JsonText
    from memorist.base.errors import MemoristError
    from memorist.base.settings import Settings
    from memorist.capture import captured
    from memorist.client import AsyncClient, Client
    from memorist.content.message import Message, NewMessage
    from memorist.context.assemble import Context
    from memorist.context.report import Report
    from memorist.kinds.agents import Agent
    from memorist.kinds.consolidations.consolidations import Consolidation
    from memorist.kinds.documents.document import Document, Loaded, Passage
    from memorist.kinds.entries.entry import Entry
    from memorist.kinds.facts.entities import Entity
    from memorist.kinds.facts.fact import Evidence, Fact, FactChange
    from memorist.kinds.interactions import Interaction, Total, Usage
    from memorist.kinds.notes import Note, NoteVersion
    from memorist.kinds.page import Page
    from memorist.kinds.refs.reference import Ref
    from memorist.kinds.scope_search import SearchResults
    from memorist.kinds.sessions import Session
    from memorist.kinds.state import Item
    from memorist.kinds.summaries import Summary
    from memorist.kinds.tool import Tool
    from memorist.kinds.turns import Turn
    from memorist.memory import Memory, Scope
    from memorist.search.query import Hit
    from memorist.text.view import View

__version__ = VERSION
__all__ = [
    "Agent",
    "AsyncClient",
    "AsyncMemory",
    "AsyncScope",
    "Client",
    "Consolidation",
    "Context",
    "Document",
    "Entity",
    "Entry",
    "Evidence",
    "Fact",
    "FactChange",
    "Hit",
    "Interaction",
    "Item",
    "JsonText",
    "Loaded",
    "MemoristError",
    "Memory",
    "Message",
    "NewMessage",
    "Note",
    "NoteVersion",
    "Page",
    "Passage",
    "Ref",
    "Report",
    "Scope",
    "SearchResults",
    "Session",
    "Settings",
    "Summary",
    "Tool",
    "Total",
    "Turn",
    "Usage",
    "View",
    "captured",
]
_MODULES = {
    "Agent": "memorist.kinds.agents",
    "AsyncClient": "memorist.client",
    "AsyncMemory": "memorist.aio",
    "AsyncScope": "memorist.aio",
    "Client": "memorist.client",
    "Consolidation": "memorist.kinds.consolidations.consolidations",
    "Context": "memorist.context.assemble",
    "Document": "memorist.kinds.documents.document",
    "Entry": "memorist.kinds.entries.entry",
    "Entity": "memorist.kinds.facts.entities",
    "Evidence": "memorist.kinds.facts.fact",
    "Fact": "memorist.kinds.facts.fact",
    "FactChange": "memorist.kinds.facts.fact",
    "Hit": "memorist.search.query",
    "Interaction": "memorist.kinds.interactions",
    "Item": "memorist.kinds.state",
    "JsonText": "memorist.base.canonical",
    "Loaded": "memorist.kinds.documents.document",
    "Memory": "memorist.memory",
    "Message": "memorist.content.message",
    "NewMessage": "memorist.content.message",
    "Note": "memorist.kinds.notes",
    "NoteVersion": "memorist.kinds.notes",
    "Page": "memorist.kinds.page",
    "Passage": "memorist.kinds.documents.document",
    "Ref": "memorist.kinds.refs.reference",
    "Report": "memorist.context.report",
    "MemoristError": "memorist.base.errors",
    "Scope": "memorist.memory",
    "SearchResults": "memorist.kinds.scope_search",
    "Session": "memorist.kinds.sessions",
    "Settings": "memorist.base.settings",
    "Summary": "memorist.kinds.summaries",
    "Tool": "memorist.kinds.tool",
    "Total": "memorist.kinds.interactions",
    "Turn": "memorist.kinds.turns",
    "Usage": "memorist.kinds.interactions",
    "View": "memorist.text.view",
    "captured": "memorist.capture",
}
"""The module of each public name, imported when the name is first used."""


if not TYPE_CHECKING:  # type checkers would accept any name of a module with __getattr__

    def __getattr__(name: str) -> Any:
        """Import the module of a public name and return the object."""
        if name not in _MODULES:
            raise AttributeError(f"module 'memorist' has no attribute {name!r}")
        value = getattr(importlib.import_module(_MODULES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
