"""Clients of language models: completion, chat, retries, circuit breaker, cost, summaries."""

from retain.models.chat import ChatModel, Reply
from retain.models.model import EXTRACTIVE, Completion, Model, Models, RemoteModel

__all__ = ["EXTRACTIVE", "ChatModel", "Completion", "Model", "Models", "RemoteModel", "Reply"]
