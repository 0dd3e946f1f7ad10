"""Language models behind one small call, and who writes a summary: a model that is not trusted, or the built-in writer."""

from retain.models.chat import ChatModel, Reply
from retain.models.model import EXTRACTIVE, Completion, Model, Models, RemoteModel

__all__ = ["EXTRACTIVE", "ChatModel", "Completion", "Model", "Models", "RemoteModel", "Reply"]
