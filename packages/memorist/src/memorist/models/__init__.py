"""Clients of language models: completion, chat, retries, circuit breaker, cost, summaries."""

from memorist.models.chat import ChatModel, ModelReply
from memorist.models.model import EXTRACTIVE, Completion, Model, Models, RemoteModel

__all__ = ["EXTRACTIVE", "ChatModel", "Completion", "Model", "ModelReply", "Models", "RemoteModel"]
