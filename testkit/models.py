"""A memory with another model, and what a model says and sees in tests."""

from __future__ import annotations

import base64
from dataclasses import replace

from memorist import Memory
from memorist.models import Model, Models

ANSWER = "Ada plans a trip to Lisbon in May with Bob."


def with_model(memory: Memory, model: Model | None) -> Memory:
    """Return the same database with another model."""
    return Memory(
        replace(memory.services, models=Models(memory.settings, summary=model)), memory.migrations
    )


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
