"""Memory for AI agents: conversations, state and telemetry that never lose a write, on SQLite and PostgreSQL."""

from retain.aio import AsyncMemory, AsyncScope
from retain.canonical import JsonText
from retain.errors import RetainError
from retain.kinds.messages import Message, NewMessage
from retain.kinds.sessions import Session
from retain.memory import Memory, Scope
from retain.settings import Settings

__version__ = "0.1.0"
__all__ = [
    "AsyncMemory",
    "AsyncScope",
    "JsonText",
    "Memory",
    "Message",
    "NewMessage",
    "RetainError",
    "Scope",
    "Session",
    "Settings",
]
