"""Model calls that nobody is waiting for are watched: what each took, and what went wrong, becomes an interaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from retain.errors import NotFound
from retain.kinds.interactions import Interactions
from retain.models import Completion, Model

_MOST_OF_AN_ERROR = 1000


@dataclass(frozen=True)
class Call:
    """One call of a model: what it answered, or why it did not."""

    model: str
    latency_ms: float
    answer: Completion | None
    error: str


class Watched:
    """A model whose calls are noted."""

    def __init__(self, model: Model, note: Callable[[Call], None]) -> None:
        self.name = model.name
        self._model = model
        self._note = note

    def complete(self, system: str, prompt: str, *, max_tokens: int) -> Completion:
        """What the model says."""
        started = time.monotonic()
        try:
            answer = self._model.complete(system, prompt, max_tokens=max_tokens)
        except Exception as error:
            self._note(Call(self.name, (time.monotonic() - started) * 1000, None, f"{type(error).__name__}: {error}"))
            raise
        took = (time.monotonic() - started) * 1000
        self._note(Call(self.name, took, answer if isinstance(answer, Completion) else None, ""))
        return answer


def record(interactions: Interactions, route: str, call: Call, session: str | None = None) -> None:
    """Keep what a call took; where its session is gone, what it cost is gone with it."""
    spent = call.answer or Completion("", call.model, 0, 0, None, call.latency_ms)
    with suppress(NotFound):
        interactions.add(
            route,
            call.model,
            latency_ms=call.latency_ms,
            tokens_in=spent.tokens_in,
            tokens_out=spent.tokens_out,
            cost=spent.cost,
            error=call.error[:_MOST_OF_AN_ERROR],
            session=session,
        )
