"""LangGraph: `RetainStore` is its long-term store, `RetainSaver` its checkpointer."""

from retain.integrations.langgraph.saver import RetainSaver
from retain.integrations.langgraph.store import AsyncRetainStore, LangChainEmbedder, RetainStore

__all__ = ["AsyncRetainStore", "LangChainEmbedder", "RetainSaver", "RetainStore"]
