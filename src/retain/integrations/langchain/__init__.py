"""LangChain: `RetainMiddleware` gives an agent memory, `RetainChatMessageHistory` is a chat history."""

from retain.integrations.langchain.history import RetainChatMessageHistory
from retain.integrations.langchain.middleware import RetainMiddleware

__all__ = ["RetainChatMessageHistory", "RetainMiddleware"]
