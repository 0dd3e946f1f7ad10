"""Pydantic AI: a capability that gives an agent memory, and a conversation store."""

from retain.integrations.pydantic_ai.capability import RetainMemory
from retain.integrations.pydantic_ai.store import RetainConversationStore

__all__ = ["RetainConversationStore", "RetainMemory"]
