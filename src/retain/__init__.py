"""Memory for AI agents that never loses a write, and the context that their models are given, on SQLite and PostgreSQL."""

from retain.aio import AsyncMemory, AsyncScope
from retain.canonical import JsonText
from retain.capture import captured
from retain.errors import RetainError
from retain.kinds.agents import Agent
from retain.kinds.interactions import Interaction, Total
from retain.kinds.kind import Page
from retain.kinds.sessions import Session
from retain.kinds.state import Item
from retain.memory import Memory, Scope
from retain.settings import Settings
from retain.talk.message import Message, NewMessage

__version__ = "0.2.0"
__all__ = [
    "Agent",
    "AsyncMemory",
    "AsyncScope",
    "Interaction",
    "Item",
    "JsonText",
    "Memory",
    "Message",
    "NewMessage",
    "Page",
    "RetainError",
    "Scope",
    "Session",
    "Settings",
    "Total",
    "captured",
]
