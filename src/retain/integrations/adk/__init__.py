"""Google's Agent Development Kit: a session service and a memory service."""

from retain.integrations.adk.memory_service import RetainMemoryService
from retain.integrations.adk.session_service import RetainSessionService

__all__ = ["RetainMemoryService", "RetainSessionService"]
