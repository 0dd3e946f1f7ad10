"""Find the sessions that were active since a job last looked, without reading their messages.

A mark in `job_marks` says up to which time a job has looked at all activity. Each run looks at the
sessions that were active since then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memorist.base import clock
from memorist.base.errors import BadAnswer
from memorist.kinds.kind import Services
from memorist.storage.database import Row, Transaction

SESSIONS_PER_READ = 500
OVERLAP = 5 * clock.MINUTE
"""Each run looks back this far before the mark: a session's last activity is known to a minute, and
a transaction may take a while to commit."""
MARK_SESSIONS = 50
"""A run without due work moves the mark only after this many sessions."""
MARK_INTERVAL = clock.MINUTE
MAX_TRIES = 5
"""Answers that were rejected, after which a session is given up for a day."""
RETRY_SECONDS = (0.0, 0.0, 60.0, 300.0, 1500.0, 3600.0)
"""The pause after each failed try of a session."""

SESSIONS = """select id, user_id, agent, touched_at, summarized_count, first_seq,
        coalesce((select seq from messages
                  where messages.tenant = :tenant and session_id = sessions.id
                  order by seq desc limit 1), 0),
        coalesce((select seq from fact_positions
                  where fact_positions.tenant = :tenant and session_id = sessions.id), 0),
        (select retry_at from fact_positions
         where fact_positions.tenant = :tenant and session_id = sessions.id)
    from sessions where tenant = :tenant"""
"""Sessions with their last message, the last message read for facts, and the time of the next
retry."""


@dataclass(frozen=True)
class Mark:
    """The time up to which a job has looked at all activity, with the settings of that look."""

    job: str
    position: int
    version: int
    basis: str
    now: int

    @property
    def since(self) -> int:
        """The time from which to look; the clock may have been set back."""
        return max(0, min(self.position, self.now - OVERLAP))

    def is_far_behind(self, active_count: int) -> bool:
        """Return whether a run that found this number of sessions should move the mark."""
        is_old = self.now - OVERLAP >= self.position + MARK_INTERVAL
        return active_count >= MARK_SESSIONS and is_old


def read_mark(tx: Transaction, job: str, basis: str) -> Mark:
    """Return the mark of a job. With another basis the job looks at everything again."""
    position, version, stored_basis = tx.one(
        "select position, version, basis from job_marks where tenant = :tenant and job = :job",
        job=job,
    ) or (0, 0, "")
    return Mark(job, position if stored_basis == basis else 0, version, basis, tx.now)


def move_mark(tx: Transaction, mark: Mark, upto: int | None = None) -> None:
    """Remember that everything up to the mark's time, or an earlier one, was looked at."""
    position = mark.now - OVERLAP
    tx.run(
        """insert into job_marks (tenant, job, position, basis, version)
           values (:tenant, :job, :position, :basis, 0)
           on conflict (tenant, job) do update
           set position = excluded.position, basis = excluded.basis
           where job_marks.version = :version
           and (job_marks.position < excluded.position or job_marks.basis <> excluded.basis)""",
        job=mark.job,
        position=position if upto is None else min(upto, position),
        basis=mark.basis,
        version=mark.version,
    )


def is_given_up(tries: int, error: str) -> bool:
    """Return whether the session is skipped for a day because too many answers were rejected."""
    return tries >= MAX_TRIES and error.startswith(BadAnswer.__name__)


def retry_pause(tries: int, error: str) -> int:
    """Return the pause after the last failed try of a session."""
    if is_given_up(tries, error):
        return clock.DAY
    return round(RETRY_SECONDS[min(tries, len(RETRY_SECONDS) - 1)] * clock.SECOND)


def active_sessions(services: Services, tenant: str, since: int) -> Iterator[Row]:
    """Yield the rows of `SESSIONS` that were active since a moment, oldest first."""
    at = -1
    id = ""
    while True:
        rows = services.database.read(
            tenant,
            lambda tx, at=at, id=id: tx.all(  # type: ignore[misc]
                f"""{SESSIONS} and touched_at >= :since and (touched_at, id) > (:at, :id)
                    order by touched_at, id limit :size""",
                since=since,
                at=at,
                id=id,
                size=SESSIONS_PER_READ,
            ),
        )
        yield from rows
        if len(rows) < SESSIONS_PER_READ:
            return
        at = rows[-1][3]
        id = rows[-1][0]
