"""What a job of later work is: a query for what is due in one tenant, and a report of what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from retain.kinds.kind import Services

MOST_ERRORS = 20
Progress = Callable[[int, int], None]
"""Called with how much is done and how much there is."""


@dataclass(frozen=True)
class Done:
    """What a job did: how much was done, is left for later, and failed; and the first errors, each with its place."""

    done: int = 0
    left: int = 0
    failed: int = 0
    errors: tuple[str, ...] = ()

    def __add__(self, other: Done) -> Done:
        errors = (*self.errors, *other.errors)[:MOST_ERRORS]
        return Done(
            self.done + other.done, self.left + other.left, self.failed + other.failed, errors
        )


@dataclass(frozen=True)
class Job:
    """A kind of later work. `run` does what is due in a tenant, as far as it changed since a moment (0: ever)."""

    name: str
    run: Callable[[Services, str, int, Progress | None], Done]
