"""Knowledge: documents that are searched together with memories."""

from retain.kinds.knowledge.document import Document, Loaded, Passage
from retain.kinds.knowledge.knowledge import Knowledge

__all__ = ["Document", "Knowledge", "Loaded", "Passage"]
