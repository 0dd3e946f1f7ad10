"""LangChain: memory for an agent (`MemoristMiddleware`), chat history (`MemoristChatMessageHistory`)."""

from memorist_frameworks.langchain.history import MemoristChatMessageHistory
from memorist_frameworks.langchain.middleware import MemoristMiddleware

__all__ = ["MemoristChatMessageHistory", "MemoristMiddleware"]
