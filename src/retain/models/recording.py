"""Model calls are watched: what each took, and what went wrong, is noted for whoever keeps a record."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from retain.models.model import Completion, Model


@dataclass(frozen=True)
class ModelCall:
    """One call of a model: what it answered, or why it did not."""

    model: str
    latency_ms: float
    answer: Completion | None
    error: str


class NotCalled(Exception):
    """Raised in place of a model that was not asked: there is nothing to note."""


class RecordedModel:
    """A model whose calls are noted."""

    def __init__(self, model: Model, note: Callable[[ModelCall], None]) -> None:
        self.name = model.name
        self._model = model
        self._note = note

    def complete(self, system: str, prompt: str, *, max_tokens: int) -> Completion:
        """What the model says."""
        started = time.monotonic()
        try:
            answer = self._model.complete(system, prompt, max_tokens=max_tokens)
        except NotCalled:
            raise
        except Exception as error:
            self._note(
                ModelCall(
                    self.name,
                    (time.monotonic() - started) * 1000,
                    None,
                    f"{type(error).__name__}: {error}",
                )
            )
            raise
        took = (time.monotonic() - started) * 1000
        self._note(
            ModelCall(self.name, took, answer if isinstance(answer, Completion) else None, "")
        )
        return answer
