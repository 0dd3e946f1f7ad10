"""Test doubles: models, embedders, services and databases that answer or fail as a test needs.

Memory.open(url, models=Models(settings, main=ScriptedModel("An answer.")))     # a scripted model
Memory.open(url, embedder=FakeEmbedder())                                       # a fast embedder

with FakeService() as service:                                                  # a model service
Memory.open(url, settings=Settings(model="m", base_url=service.url))

memory, faults = with_faults(Memory.open(url))                                  # a failing database
faults.fail("write", Full(problem="a test"), at=3)
"""

from retain.testing.embedder import FakeEmbedder
from retain.testing.faults import FaultyDatabase, with_faults
from retain.testing.models import EchoModel, FailingModel, ModelRequest, ScriptedModel, calling
from retain.testing.service import HUGE, INJECTION, JUNK, MISBEHAVIOURS, FakeService, Request

__all__ = [
    "HUGE",
    "INJECTION",
    "JUNK",
    "MISBEHAVIOURS",
    "EchoModel",
    "FailingModel",
    "FakeEmbedder",
    "FakeService",
    "FaultyDatabase",
    "ModelRequest",
    "Request",
    "ScriptedModel",
    "calling",
    "with_faults",
]
