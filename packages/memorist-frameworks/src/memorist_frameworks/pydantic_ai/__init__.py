"""Pydantic AI: a capability that gives an agent memory, and a conversation store."""

from memorist_frameworks.pydantic_ai.capability import MemoristMemory
from memorist_frameworks.pydantic_ai.store import MemoristConversationStore

__all__ = ["MemoristConversationStore", "MemoristMemory"]
