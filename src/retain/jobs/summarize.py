"""Fold sessions that have more messages than the threshold that no summary covers.

Due sessions are found by their last activity and last message number, without reading messages.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from retain.base import clock
from retain.base.errors import NoModel, NotFound, RetainError, StorageError
from retain.jobs.job import JobResult, Progress
from retain.kinds.kind import Owner, Services
from retain.kinds.summaries import Summaries, there

log = logging.getLogger("retain.jobs")
SESSIONS_PER_READ = 500
MAX_TRIES = 5
"""Answers that were rejected, after which a session is given up for a day."""
RETRY_SECONDS = (0.0, 0.0, 60.0, 300.0, 1500.0, 3600.0)
"""The pause after each failed try of a session."""
_ACTIVE_SESSIONS = """select id, user_id, agent, touched_at, summarized_count, first_seq,
                  coalesce((select seq from messages where messages.tenant = :tenant and session_id = sessions.id
                            order by seq desc limit 1), 0)
           from sessions where tenant = :tenant and touched_at >= :since and (touched_at, id) > (:at, :id)
           order by touched_at, id limit :size"""


@dataclass(frozen=True)
class _Due:
    session: str
    user: str
    agent: str


def run(
    services: Services, tenant: str, since: int = 0, progress: Progress | None = None
) -> JobResult:
    """Fold every due session of a tenant; a failure is reported and does not stop the others."""
    if not services.settings.summary_enabled:
        return JobResult()
    total = JobResult()
    waiting = list(due(services, tenant, since))
    failures = _failures(services, tenant) if waiting else {}
    for place, session in enumerate(waiting, 1):
        failure = failures.get(session.session)
        if failure is not None and failure.is_waiting:
            # A session that is given up is not left for the next run: it comes back when the
            # failures are a day old, with new messages or in the daily run over all sessions.
            total += JobResult(left=0 if failure.is_given_up else 1)
            continue
        try:
            total += _fold(services, tenant, session)
        except NoModel as error:  # the next session would fail alike
            return total + JobResult(
                failed=1, left=len(waiting) - place, errors=(f"tenant {tenant}: {error}",)
            )
        except StorageError:  # the next session would fail alike
            raise
        except RetainError as error:
            total += JobResult(
                failed=1, errors=(f"tenant {tenant}, session {session.session}: {error}",)
            )
        if progress:
            progress(place, len(waiting))
    return total


@dataclass(frozen=True)
class Failure:
    """The failed tries to summarize a session since its newest summary, within a day."""

    session: str
    tries: int
    error: str
    last_at: int
    now: int

    @property
    def is_given_up(self) -> bool:
        """True if the model rejected the session so often that asking again is a waste."""
        return self.tries >= MAX_TRIES and self.error.startswith("BadAnswer")

    @property
    def is_waiting(self) -> bool:
        """True if it is too early for another try."""
        pause = RETRY_SECONDS[min(self.tries, len(RETRY_SECONDS) - 1)]
        return self.is_given_up or self.now < self.last_at + round(pause * clock.SECOND)


def problems(services: Services, tenant: str) -> list[str]:
    """Return why sessions of a tenant that are due have no summary, for status pages."""
    if not services.settings.summary_enabled:
        return []
    failures = _failures(services, tenant)
    if not failures:
        return []
    sentences = []
    for session in due(services, tenant, 0):
        failure = failures.get(session.session)
        if failure is not None:
            outcome = "given up for a day" if failure.is_given_up else "will be tried again"
            sentences.append(
                f"Summary of session {failure.session}: failed {failure.tries} times, {outcome}. "
                f"{failure.error}"
            )
    return sentences


def _failures(services: Services, tenant: str) -> dict[str, Failure]:
    """Return the failures of the current model by session."""
    model = services.models.summary
    if model is None:
        return {}
    rows, now = services.database.read(
        tenant,
        lambda tx: (
            tx.all(
                """select session_id, error, created_at from interactions
                   where tenant = :tenant and created_at > :since and route = 'summary'
                   and model = :model and error <> '' and session_id is not null
                   and created_at > coalesce((
                       select max(created_at) from summaries
                       where summaries.tenant = :tenant
                       and summaries.session_id = interactions.session_id), 0)
                   order by created_at""",
                since=tx.now - clock.DAY,
                model=model.name,
            ),
            tx.now,
        ),
    )
    failures: dict[str, Failure] = {}
    for session, error, at in rows:
        tries = failures[session].tries + 1 if session in failures else 1
        failures[session] = Failure(session, tries, error, at, now)
    return failures


def due(services: Services, tenant: str, since: int) -> Iterator[_Due]:
    """Yield the sessions that were active since a moment and are due, oldest first."""
    at = -1
    id = ""
    while True:
        rows = services.database.read(
            tenant,
            lambda tx, at=at, id=id: tx.all(  # type: ignore[misc]
                _ACTIVE_SESSIONS, since=since, at=at, id=id, size=SESSIONS_PER_READ
            ),
        )
        for session, user, agent, _, covered, first, last in rows:
            if last - max(
                covered, first - 1
            ) > services.settings.summary_threshold and _is_over_threshold(
                services, tenant, session, max(covered + 1, first)
            ):
                yield _Due(session, user, agent)
        if len(rows) < SESSIONS_PER_READ:
            return
        at = rows[-1][3]
        id = rows[-1][0]


def _is_over_threshold(services: Services, tenant: str, session: str, begin: int) -> bool:
    """Return whether more messages than the threshold are left from a number on."""
    return (
        services.database.read(tenant, lambda tx: there(tx, session, begin))
        > services.settings.summary_threshold
    )


def fold_after_turn(services: Services, owner: Owner, session: str) -> None:
    """Fold a session if it is due and no background job does it; log a failure.

    A session whose summary failed waits like in the job.
    """
    if not services.settings.summary_enabled:
        return
    summaries = Summaries(services, owner)
    try:
        begin = summaries.get(session).covers_to + 1
        if _is_over_threshold(services, owner.tenant, session, begin):
            failure = _failures(services, owner.tenant).get(session)
            if failure is None or not failure.is_waiting:
                summaries.fold(session)
    except RetainError as error:
        log.warning("The summary of session %s failed: %s", session, error)


def _fold(services: Services, tenant: str, session: _Due) -> JobResult:
    """Fold one session for its user and agent."""
    summaries = Summaries(services, Owner(tenant, session.user, session.agent))
    try:
        before = summaries.get(session.session).number
        after = summaries.fold(session.session).number
    except NotFound:  # removed since it was found to be due
        return JobResult()
    return JobResult(done=1) if after > before else JobResult(left=1)
