"""Memory for AI agents that never loses a write, and the context that their models are given, on SQLite and PostgreSQL."""

from retain.aio import AsyncMemory, AsyncScope
from retain.base.canonical import JsonText
from retain.base.errors import RetainError
from retain.base.settings import Settings
from retain.base.version import VERSION
from retain.capture import captured
from retain.client import AsyncClient, Client
from retain.context.assemble import Context
from retain.context.report import Report
from retain.kinds.agents import Agent
from retain.kinds.consolidations.consolidations import Consolidation
from retain.kinds.entries.entry import Entry
from retain.kinds.interactions import Interaction, Total, Usage
from retain.kinds.kind import Page
from retain.kinds.knowledge.document import Document, Loaded, Passage
from retain.kinds.notes import Note, NoteVersion
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
    "Entry",
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
