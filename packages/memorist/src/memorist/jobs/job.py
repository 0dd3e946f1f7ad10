"""A background job and the result of one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memorist.kinds.kind import Services

MAX_ERRORS = 20
Progress = Callable[[int, int], None]
"""Called with the number of completed items and the total number."""


@dataclass(frozen=True)
class JobProblem:
    """A problem of a background job that a person must solve."""

    problem: str
    todo: str


class Stopped(Exception):
    """Raised by a progress callback to end a run at once; uncommitted work is rolled back."""


@dataclass(frozen=True)
class JobResult:
    """The result of one run of a job."""

    done: int = 0
    left: int = 0  # due, but left for a later run
    failed: int = 0
    errors: tuple[str, ...] = ()  # the first errors, each with its place

    def __add__(self, other: JobResult) -> JobResult:
        return JobResult(
            self.done + other.done,
            self.left + other.left,
            self.failed + other.failed,
            (*self.errors, *other.errors)[:MAX_ERRORS],
        )


@dataclass(frozen=True)
class JobResults:
    """The result of each job."""

    jobs: dict[str, JobResult]

    @property
    def done(self) -> int:
        """Return the number of items that all jobs completed."""
        return sum(result.done for result in self.jobs.values())

    @property
    def failed(self) -> int:
        """Return the number of items that failed in all jobs."""
        return sum(result.failed for result in self.jobs.values())

    @property
    def errors(self) -> list[str]:
        """Return the errors of all jobs, each with its place."""
        return [error for result in self.jobs.values() for error in result.errors]


@dataclass(frozen=True)
class Job:
    """A background job: `run` does the due work of a tenant, which it finds by an index."""

    name: str
    run: Callable[[Services, str, Progress | None], JobResult]
