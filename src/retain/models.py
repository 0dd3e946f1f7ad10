"""Language models: any OpenAI-compatible service by name and base URL, and other providers, behind one small call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from retain.settings import Settings

EXTRACTIVE = "extractive"
"""The name, as a summary model, of the built-in writer that needs no model."""


@dataclass(frozen=True)
class Completion:
    """What a model wrote, and what it took; `cost` is None where the price is not known."""

    text: str
    model: str
    tokens_in: int
    tokens_out: int
    cost: float | None
    latency_ms: float


class Model(Protocol):
    """Something that writes text when it is asked to."""

    name: str

    def complete(self, system: str, prompt: str, *, max_tokens: int) -> Completion:
        """Write an answer of at most so many tokens, or raise a ModelError."""
        ...


class Models:
    """The models that the settings name, made when they are first needed; None where none is set."""

    def __init__(self, settings: Settings, *, main: Model | None = None, summary: Model | None = None) -> None:
        self._settings = settings
        self._main = main
        self._summary = summary

    @property
    def main(self) -> Model | None:
        """The main model."""
        return self._main

    @property
    def summary(self) -> Model | None:
        """The model that summarises: its own, else the main one; None where the built-in writer is chosen."""
        if self._summary is None and self._settings.summary_model == EXTRACTIVE:
            return None
        return self._summary or self.main
