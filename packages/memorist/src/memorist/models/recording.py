"""Recording of model calls: duration, result and error of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from memorist.models.model import Completion, Model

Accepted = TypeVar("Accepted")


@dataclass(frozen=True)
class ModelCall:
    """One call of a model, with its answer or its error."""

    model: str
    latency_ms: float
    answer: Completion | None
    error: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """What became of the answer, such as counts."""


class NotCalled(Exception):
    """Raised instead of calling a model; nothing is recorded."""


class RecordedModel:
    """A model whose calls are recorded."""

    def __init__(
        self,
        model: Model,
        record: Callable[[ModelCall], None],
        mask: Callable[[str], str] = str,
    ) -> None:
        self.name = model.name
        self._mask = mask  # removes personal data from prompts
        self._model = model
        self._record = record

    def complete(self, system: str, prompt: str, *, max_tokens: int) -> Completion:
        """Call the model and record the call."""
        return self.complete_checked(system, prompt, max_tokens, lambda answer: answer)

    def complete_checked(
        self,
        system: str,
        prompt: str,
        max_tokens: int,
        accept: Callable[[Completion], Accepted],
        describe: Callable[[Accepted], Mapping[str, Any]] = lambda _: {},
    ) -> Accepted:
        """Call the model and return the result of `accept(answer)`; record errors of both.

        `describe` returns what to store with the call about an accepted answer.
        """
        started = time.monotonic()
        try:
            answer = self._model.complete(system, self._mask(prompt), max_tokens=max_tokens)
        except NotCalled:
            raise
        except Exception as error:  # record every failed call, and raise the error again
            self._record(
                ModelCall(
                    self.name,
                    (time.monotonic() - started) * 1000,
                    None,
                    f"{type(error).__name__}: {error}",
                )
            )
            raise
        took = (time.monotonic() - started) * 1000
        completion = answer if isinstance(answer, Completion) else None
        try:
            accepted = accept(answer)
        except Exception as error:  # record every failed call, and raise the error again
            problem = f"{type(error).__name__}: {error}"
            self._record(ModelCall(self.name, took, completion, problem))
            raise
        self._record(ModelCall(self.name, took, completion, "", describe(accepted)))
        return accepted


def complete_checked(
    model: Model,
    system: str,
    prompt: str,
    max_tokens: int,
    accept: Callable[[Completion], Accepted],
    describe: Callable[[Accepted], Mapping[str, Any]] = lambda _: {},
) -> Accepted:
    """Return `accept(answer)` for a model's answer; a rejected answer is recorded as an error."""
    if isinstance(model, RecordedModel):
        return model.complete_checked(system, prompt, max_tokens, accept, describe)
    return accept(model.complete(system, prompt, max_tokens=max_tokens))
