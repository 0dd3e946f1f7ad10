"""Documents that are searched together with memories."""

from memorist.kinds.documents.document import Document, Loaded, Passage
from memorist.kinds.documents.documents import Documents

__all__ = ["Document", "Documents", "Loaded", "Passage"]
