"""Google's Agent Development Kit: a session service and a memory service."""

from memorist_frameworks.adk.memory_service import MemoristMemoryService
from memorist_frameworks.adk.session_service import MemoristSessionService

__all__ = ["MemoristMemoryService", "MemoristSessionService"]
