"""Fold sessions that have more messages than the threshold that no summary covers.

Due sessions are found by their last activity and last message number, without reading messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from retain.base.errors import NoModel, NotFound, RetainError, StorageError
from retain.jobs.job import JobResult, Progress
from retain.kinds.kind import Owner, Services
from retain.kinds.summaries import Summaries, there

SESSIONS_PER_READ = 500
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
    for place, session in enumerate(waiting, 1):
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


def _fold(services: Services, tenant: str, one: _Due) -> JobResult:
    """Fold one session for its user and agent."""
    summaries = Summaries(services, Owner(tenant, one.user, one.agent))
    try:
        before = summaries.get(one.session).number
        after = summaries.fold(one.session).number
    except NotFound:  # removed since it was found to be due
        return JobResult()
    return JobResult(done=1) if after > before else JobResult(left=1)
