"""LangChain: memory for an agent (`RetainMiddleware`), chat history (`RetainChatMessageHistory`)."""

from retain.integrations.langchain.history import RetainChatMessageHistory
from retain.integrations.langchain.middleware import RetainMiddleware

__all__ = ["RetainChatMessageHistory", "RetainMiddleware"]
