"""Doubles for tests, ours and yours: models and embedders that do what they are told to, and a service that misbehaves.

A test gives one to a memory: `Memory.open(url, models=Models(settings, main=ScriptedModel("An answer.")))`, or the address
of a service: `with FakeService() as service: Memory.open(url, settings=Settings(model="m", base_url=service.url))`, or an
embedder: `Memory.open(url, embedder=FakeEmbedder())`.
"""

from retain.testing.embedder import FakeEmbedder
from retain.testing.models import Asked, EchoModel, FailingModel, ScriptedModel, calling
from retain.testing.service import HUGE, INJECTION, JUNK, MISBEHAVIOURS, FakeService, Request

__all__ = [
    "HUGE",
    "INJECTION",
    "JUNK",
    "MISBEHAVIOURS",
    "Asked",
    "EchoModel",
    "FailingModel",
    "FakeEmbedder",
    "FakeService",
    "Request",
    "ScriptedModel",
    "calling",
]
