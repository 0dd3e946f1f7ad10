"""Doubles for tests, ours and yours: models that say what they are told to, without a network.

A test gives one to a memory: `Memory.open(url, models=Models(settings, main=ScriptedModel("An answer.")))`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from retain.errors import ModelUnavailable, RetainError
from retain.models import Completion

Answer = str | RetainError | Callable[["Asked"], str]
"""What a scripted model does when it is asked: say this, raise this, or say what this function makes of the question."""


@dataclass(frozen=True)
class Asked:
    """One question that a model was asked."""

    system: str
    prompt: str
    max_tokens: int


class ScriptedModel:
    """A model that gives its answers in order, the last one again and again; `asked` is what it was asked.

    An answer is a text, an error to raise, or a function of the question that returns a text. A function runs in
    the caller's thread, outside any transaction, so it may also do what must happen while a model is thinking.
    Its tokens are words.
    """

    def __init__(self, *answers: Answer, name: str = "scripted", cost: float | None = None) -> None:
        if not answers:
            raise ValueError("a scripted model needs an answer")
        self.name = name
        self.asked: list[Asked] = []
        self._answers = answers
        self._cost = cost
        self._lock = threading.Lock()

    def complete(self, system: str, prompt: str, *, max_tokens: int) -> Completion:
        """Give the next answer."""
        question = Asked(system, prompt, max_tokens)
        with self._lock:
            answer = self._answers[min(len(self.asked), len(self._answers) - 1)]
            self.asked.append(question)
        if isinstance(answer, RetainError):
            raise answer.again()
        text = answer if isinstance(answer, str) else answer(question)
        return Completion(text, self.name, len(f"{system} {prompt}".split()), len(text.split()), self._cost, 0.0)


class FailingModel(ScriptedModel):
    """A model that fails whenever it is asked, as a service that does not answer, or with the error that it is given."""

    def __init__(self, error: RetainError | None = None, *, name: str = "failing") -> None:
        super().__init__(error or ModelUnavailable(model=name, problem="it was told to fail"), name=name)


class EchoModel(ScriptedModel):
    """A model that says again what it was asked, or what `say` makes of it."""

    def __init__(self, say: Callable[[str], str] = str, *, name: str = "echo") -> None:
        super().__init__(lambda asked: say(asked.prompt), name=name)
