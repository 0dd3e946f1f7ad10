"""Memory for AI agents on SQLite and PostgreSQL: it never loses a write and assembles prompts."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from retain.base.version import VERSION

if TYPE_CHECKING:
    from retain.aio import AsyncMemory, AsyncScope
    from retain.base.canonical import JsonText
    from retain.base.errors import RetainError
    from retain.base.settings import Settings
    from retain.capture import captured
    from retain.client import AsyncClient, Client
    from retain.context.assemble import Context
    from retain.context.report import Report
    from retain.kinds.agents import Agent
    from retain.kinds.consolidations.consolidations import Consolidation
    from retain.kinds.entries.entry import Entry
    from retain.kinds.facts.entities import Entity
    from retain.kinds.facts.fact import Evidence, Fact, FactChange
    from retain.kinds.interactions import Interaction, Total, Usage
    from retain.kinds.knowledge.document import Document, Loaded, Passage
    from retain.kinds.notes import Note, NoteVersion
    from retain.kinds.page import Page
    from retain.kinds.refs.reference import Ref
    from retain.kinds.search_scope import SearchResults
    from retain.kinds.sessions import Session
    from retain.kinds.state import Item
    from retain.kinds.summaries import Summary
    from retain.kinds.tool import Tool
    from retain.kinds.turns import Turn
    from retain.memory import Memory, Scope
    from retain.messages.message import Message, NewMessage
    from retain.search.query import Hit
    from retain.text.view import View

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
    "Memory",
    "Message",
    "NewMessage",
    "Note",
    "NoteVersion",
    "Page",
    "Passage",
    "Ref",
    "Report",
    "RetainError",
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
    "Agent": "retain.kinds.agents",
    "AsyncClient": "retain.client",
    "AsyncMemory": "retain.aio",
    "AsyncScope": "retain.aio",
    "Client": "retain.client",
    "Consolidation": "retain.kinds.consolidations.consolidations",
    "Context": "retain.context.assemble",
    "Document": "retain.kinds.knowledge.document",
    "Entry": "retain.kinds.entries.entry",
    "Entity": "retain.kinds.facts.entities",
    "Evidence": "retain.kinds.facts.fact",
    "Fact": "retain.kinds.facts.fact",
    "FactChange": "retain.kinds.facts.fact",
    "Hit": "retain.search.query",
    "Interaction": "retain.kinds.interactions",
    "Item": "retain.kinds.state",
    "JsonText": "retain.base.canonical",
    "Loaded": "retain.kinds.knowledge.document",
    "Memory": "retain.memory",
    "Message": "retain.messages.message",
    "NewMessage": "retain.messages.message",
    "Note": "retain.kinds.notes",
    "NoteVersion": "retain.kinds.notes",
    "Page": "retain.kinds.page",
    "Passage": "retain.kinds.knowledge.document",
    "Ref": "retain.kinds.refs.reference",
    "Report": "retain.context.report",
    "RetainError": "retain.base.errors",
    "Scope": "retain.memory",
    "SearchResults": "retain.kinds.search_scope",
    "Session": "retain.kinds.sessions",
    "Settings": "retain.base.settings",
    "Summary": "retain.kinds.summaries",
    "Tool": "retain.kinds.tool",
    "Total": "retain.kinds.interactions",
    "Turn": "retain.kinds.turns",
    "Usage": "retain.kinds.interactions",
    "View": "retain.text.view",
    "captured": "retain.capture",
}
"""The module of each public name, imported when the name is first used."""


if not TYPE_CHECKING:  # type checkers would accept any name of a module with __getattr__

    def __getattr__(name: str) -> Any:
        """Import the module of a public name and return the object."""
        if name not in _MODULES:
            raise AttributeError(f"module 'retain' has no attribute {name!r}")
        value = getattr(importlib.import_module(_MODULES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
