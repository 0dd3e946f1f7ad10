"""LangGraph: `MemoristStore` is its long-term store, `MemoristSaver` its checkpointer."""

from memorist_frameworks.langgraph.saver import MemoristSaver
from memorist_frameworks.langgraph.store import (
    AsyncMemoristStore,
    LangChainEmbedder,
    MemoristStore,
)

__all__ = ["AsyncMemoristStore", "LangChainEmbedder", "MemoristSaver", "MemoristStore"]
