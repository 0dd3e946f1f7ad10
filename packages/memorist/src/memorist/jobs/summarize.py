"""Fold sessions that have more messages than the threshold that no summary covers.

Due sessions are found by their last activity and last message number, without reading messages. A
mark in `job_marks` says up to which time all activity was looked at. Sessions that failed, or were
imported with an old time, are in `due_sessions`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from memorist.base import clock
from memorist.base.errors import MemoristError, NoModel, NotFound, StorageError
from memorist.jobs.job import JobProblem, JobResult, Progress
from memorist.jobs.session_marks import (
    SESSIONS,
    Mark,
    active_sessions,
    is_given_up,
    move_mark,
    read_mark,
    retry_pause,
)
from memorist.kinds.kind import Owner, Services
from memorist.kinds.summaries import Summaries, there
from memorist.storage.database import Row, Transaction

log = logging.getLogger("memorist.jobs")


@dataclass(frozen=True)
class _DueSummary:
    session: str
    user: str
    agent: str


def run(services: Services, tenant: str, progress: Progress | None = None) -> JobResult:
    """Fold every due session of a tenant; a failure is reported and does not stop the others."""
    if not services.settings.summary_enabled:
        return JobResult()
    mark = services.database.read(tenant, lambda tx: _read_mark(tx, services))
    active_count = 0

    def active() -> Iterator[Row]:
        nonlocal active_count
        for row in active_sessions(services, tenant, mark.since):
            active_count += 1
            yield row

    retries, read_at = services.database.read(
        tenant, lambda tx: (_retries(tx, until=tx.now), tx.now)
    )
    waiting = _over_threshold(services, tenant, chain(active(), retries))
    failures = _failures(services, tenant) if waiting else {}
    later: dict[str, int] = {}
    total = JobResult()
    for place, session in enumerate(waiting, 1):
        failure = failures.get(session.session)
        if failure is not None and failure.is_waiting:
            # A session that is given up is not left for the next run: it comes back after a day.
            total += JobResult(left=0 if failure.is_given_up else 1)
            later[session.session] = failure.retry_at
            continue
        try:
            result = _fold(services, tenant, session)
        except NoModel as error:  # the next session would fail in the same way
            return total + JobResult(
                failed=1, left=len(waiting) - place, errors=(f"tenant {tenant}: {error}",)
            )
        except StorageError:  # the next session would fail in the same way
            raise
        except MemoristError as error:
            result = JobResult(
                failed=1, errors=(f"tenant {tenant}, session {session.session}: {error}",)
            )
        total += result
        if result.failed or result.left:
            later[session.session] = mark.now
        if progress:
            progress(place, len(waiting))
    tried = [str(row[0]) for row in retries]
    if tried or later or mark.is_far_behind(active_count):
        services.database.write(
            tenant, lambda tx: _move_mark(tx, mark, tried, read_at, later), idempotent=True
        )
    return total


def due_sessions(services: Services, tenant: str) -> list[str]:
    """Return all due sessions, including those that wait for a retry."""
    mark = services.database.read(tenant, lambda tx: _read_mark(tx, services))
    retries = services.database.read(tenant, lambda tx: _retries(tx, until=None))
    rows = chain(active_sessions(services, tenant, mark.since), retries)
    return [item.session for item in _over_threshold(services, tenant, rows)]


def _read_mark(tx: Transaction, services: Services) -> Mark:
    model = services.models.summary
    basis = f"{services.settings.summary_threshold} {model.name if model else ''}"
    return read_mark(tx, "summaries", basis)


def _retries(tx: Transaction, until: int | None) -> list[Row]:
    """Return the sessions to look at again, as `active_sessions` does."""
    return tx.all(
        f"""{SESSIONS} and id in (
                select session_id from due_sessions
                where tenant = :tenant and retry_at <= :until)""",
        until=2**62 if until is None else until,
    )


def _move_mark(
    tx: Transaction, mark: Mark, tried: Sequence[str], read_at: int, later: Mapping[str, int]
) -> None:
    """Remember that everything up to the mark's time was looked at, and what to do later.

    A session that became due again after it was read stays due.
    """
    tx.many(
        """delete from due_sessions
           where tenant = :tenant and session_id = :session and retry_at <= :read_at""",
        [{"session": session, "read_at": read_at} for session in tried if session not in later],
    )
    tx.many(
        """insert into due_sessions (tenant, session_id, retry_at)
           select :tenant, id, :retry_at from sessions where tenant = :tenant and id = :session
           on conflict (tenant, session_id) do update set retry_at = excluded.retry_at""",
        [{"session": session, "retry_at": at} for session, at in later.items()],
    )
    move_mark(tx, mark)


@dataclass(frozen=True)
class SummaryFailure:
    """The failed tries to summarize a session since its newest summary, within a day."""

    session: str
    tries: int
    error: str
    last_at: int
    now: int

    @property
    def is_given_up(self) -> bool:
        """True if the model rejected the session so often that asking again is a waste."""
        return is_given_up(self.tries, self.error)

    @property
    def retry_at(self) -> int:
        """The time of the next try."""
        return self.last_at + retry_pause(self.tries, self.error)

    @property
    def is_waiting(self) -> bool:
        """True if it is too early for another try."""
        return self.is_given_up or self.now < self.retry_at


def problems(services: Services, tenant: str) -> list[JobProblem]:
    """Return why sessions of a tenant that are due have no summary, for status pages."""
    if not services.settings.summary_enabled:
        return []
    failures = _failures(services, tenant)
    if not failures:
        return []
    problems_found = []
    for failure in failures.values():
        if _is_due(services, tenant, failure.session):
            outcome = "given up for a day" if failure.is_given_up else "will be tried again"
            problem = (
                f"Summary of session {failure.session}: failed {failure.tries} times, {outcome}. "
                f"{failure.error}"
            )
            todo = "Choose another summary_model, or `extractive`, which needs no service."
            problems_found.append(JobProblem(problem, todo))
    return problems_found


def _failures(services: Services, tenant: str) -> dict[str, SummaryFailure]:
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
    failures: dict[str, SummaryFailure] = {}
    for session, error, at in rows:
        tries = failures[session].tries + 1 if session in failures else 1
        failures[session] = SummaryFailure(session, tries, error, at, now)
    return failures


def _over_threshold(services: Services, tenant: str, rows: Iterable[Row]) -> list[_DueSummary]:
    """Return the sessions with more messages than the threshold that no summary covers."""
    threshold = services.settings.summary_threshold
    sessions = {}
    for session, user, agent, _, covered, first, last, *_ in rows:
        begin = max(covered + 1, first)
        if last - begin >= threshold and _is_over_threshold(services, tenant, session, begin):
            sessions[session] = _DueSummary(session, user, agent)
    return list(sessions.values())


def _is_due(services: Services, tenant: str, session: str) -> bool:
    row = services.database.read(
        tenant,
        lambda tx: tx.one(
            "select summarized_count, first_seq from sessions where tenant = :tenant and id = :id",
            id=session,
        ),
    )
    if row is None:
        return False
    return _is_over_threshold(services, tenant, session, max(row[0] + 1, row[1]))


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
    except MemoristError as error:
        log.warning("The summary of session %s failed: %s", session, error)


def _fold(services: Services, tenant: str, session: _DueSummary) -> JobResult:
    """Fold one session for its user and agent."""
    summaries = Summaries(services, Owner(tenant, session.user, session.agent))
    try:
        before = summaries.get(session.session).number
        after = summaries.fold(session.session).number
    except NotFound:  # removed since it was found to be due
        return JobResult()
    if after == before:
        return JobResult(left=1)
    # Another process may have taken the session over after the first step.
    return JobResult(done=1, left=int(_is_due(services, tenant, session.session)))
