"""Test doubles: models that answer or fail as a test needs.

Memory.open(url, models=Models(settings, main=ScriptedModel("An answer.")))
"""

from memorist.testing.models import EchoModel, FailingModel, ModelRequest, ScriptedModel, calling

__all__ = ["EchoModel", "FailingModel", "ModelRequest", "ScriptedModel", "calling"]
