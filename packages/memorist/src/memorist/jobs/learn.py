"""Learn facts from the unread turns of sessions, by built-in rules or by a model.

Due sessions are found by their last activity. A mark in `job_marks` says up to which time all
activity was looked at. Sessions that failed, or were imported with an old time, have a time for the
next try in `fact_positions`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from memorist.base import clock, masking
from memorist.base.errors import MemoristError, NoModel, StorageError
from memorist.jobs.job import JobProblem, JobResult, Progress
from memorist.jobs.model_calls import MAX_ERROR_CHARACTERS
from memorist.jobs.session_marks import (
    SESSIONS,
    SESSIONS_PER_READ,
    Mark,
    active_sessions,
    is_given_up,
    move_mark,
    read_mark,
    retry_pause,
)
from memorist.kinds.facts import learning
from memorist.kinds.facts.learning import Batch
from memorist.kinds.facts.proposal import Proposal
from memorist.kinds.facts.reading import Reading, read_explicit, read_with_model
from memorist.kinds.kind import Owner, Services
from memorist.models import Model
from memorist.storage import leases
from memorist.storage.database import Row, Transaction
from memorist.storage.writer import Change

ROUTE = "facts"
"""The route of the model calls in the interactions."""
QUIET_SECONDS = 30.0
"""A model reads a session only after this pause, or after `EAGER_TURNS` turns: each call costs."""
EAGER_TURNS = 12
COMMIT_SECONDS = 30.0
"""A lease lasts this long plus the longest model call."""
MAX_ATTEMPTS = 3
"""Attempts to read turns that are removed meanwhile."""
SESSIONS_PER_RUN = 1_000
"""A run with more due sessions leaves the others to the next one, so that other jobs can run."""
MAX_BACKLOG = 10_000
"""Due sessions that are counted for status pages."""
MAX_CALL_TOKENS = 12_500
"""About the tokens of the largest call: instructions, known facts, turns and answer."""
UNKNOWN_CALL_TOKENS = 8_000
"""The tokens of a call for which the service reports none."""


class _CannotLearn(Exception):
    """Raised if nothing more can be learned now; the message says why."""


@dataclass(frozen=True)
class _DueSession:
    session: str
    user: str
    agent: str


def run(services: Services, tenant: str, progress: Progress | None = None) -> JobResult:
    """Learn from every due session of a tenant; a failure is reported and does not stop the others.

    A run that cannot go on, because there is no model or the tokens of the day are used up, leaves
    the mark where it is.
    """
    if services.settings.facts == "off":
        return JobResult()
    mark, retries = services.database.read(
        tenant, lambda tx: (_read_mark(tx), _retries(tx, tx.now, SESSIONS_PER_RUN))
    )
    due = {item.session: item for item in _unread(retries, mark.now)}
    looked_at = 0
    upto = None
    sessions = active_sessions(services, tenant, mark.since)
    while rows := list(islice(sessions, SESSIONS_PER_READ)):
        looked_at += len(rows)
        due |= {item.session: item for item in _unread(rows, mark.now)}
        if len(due) >= SESSIONS_PER_RUN:
            upto = rows[-1][3]
            break
    if due and _is_over_budget(services, tenant):
        return JobResult(left=len(due))
    has_more = upto is not None or len(retries) == SESSIONS_PER_RUN
    total = JobResult(left=int(has_more))
    later = []
    for place, session in enumerate(due.values(), 1):
        try:
            result = _learn_session(services, tenant, session)
        except _CannotLearn:  # the next session would stop for the same reason
            return total + JobResult(left=len(due) - place + 1)
        except NoModel as error:
            return total + JobResult(
                failed=1, left=len(due) - place, errors=(f"tenant {tenant}: {error}",)
            )
        if result.left:
            later.append(session.session)
        total += result
        if progress:
            progress(place, len(due))
    if retries or upto is not None or mark.is_far_behind(looked_at):
        tried = [str(row[0]) for row in retries]
        services.database.write(
            tenant, lambda tx: _finish(tx, mark, tried, later, upto), idempotent=True
        )
    return total


def due_sessions(services: Services, tenant: str, limit: int = MAX_BACKLOG) -> list[str]:
    """Return up to `limit` sessions with unread turns, including those that wait for a retry."""
    if services.settings.facts == "off":
        return []
    mark, retries = services.database.read(
        tenant, lambda tx: (_read_mark(tx), _retries(tx, 2**62, MAX_BACKLOG))
    )
    sessions = {item.session for item in _unread(retries)}
    active = active_sessions(services, tenant, mark.since)
    while len(sessions) < limit and (rows := list(islice(active, SESSIONS_PER_READ))):
        sessions |= {item.session for item in _unread(rows)}
    return sorted(sessions)[:limit]


def problems(services: Services, tenant: str) -> list[JobProblem]:
    """Return why nothing is learned from some sessions of a tenant, for status pages."""
    if services.settings.facts == "off":
        return []
    rows = services.database.read(
        tenant,
        lambda tx: tx.all(
            """select session_id, tries, error from fact_positions
               where tenant = :tenant and retry_at is not null and error is not null
               order by retry_at limit :size""",
            size=20,
        ),
    )
    problems_found = []
    for session, tries, error in rows:
        outcome = "given up for a day" if is_given_up(tries, error) else "will be tried again"
        problem = f"Facts of session {session}: failed {tries} times, {outcome}. {error}"
        todo = "Choose another summary_model, or set facts to `explicit`, which needs no service."
        problems_found.append(JobProblem(problem, todo))
    try:
        _require_tokens(services, tenant)
    except _CannotLearn as reason:
        if due_sessions(services, tenant, limit=1):
            todo = "Raise facts_tokens_per_day to learn faster."
            problems_found.append(JobProblem(str(reason), todo))
    return problems_found


def _read_mark(tx: Transaction) -> Mark:
    # A session is read once, whatever reads it: turned on again, the job looks at all sessions.
    return read_mark(tx, "facts", "on")


def _retries(tx: Transaction, until: int, size: int) -> list[Row]:
    """Return the sessions to look at again, longest due first, as `active_sessions` does."""
    return tx.all(
        f"""{SESSIONS} and id in (
                select session_id from fact_positions
                where tenant = :tenant and retry_at <= :until order by retry_at limit :size)""",
        until=until,
        size=size,
    )


def _unread(rows: Sequence[Row], now: int | None = None) -> list[_DueSession]:
    """Return the sessions with unread messages.

    now: if given, skip sessions whose retry is not due yet
    """
    unread = []
    for id, user, agent, _, _, first, last, seq, retry_at in rows:
        is_waiting = now is not None and retry_at is not None and retry_at > now
        if last > max(seq, first - 1) and not is_waiting:
            unread.append(_DueSession(id, user, agent))
    return unread


def _finish(
    tx: Transaction, mark: Mark, tried: Sequence[str], later: Sequence[str], upto: int | None
) -> None:
    """Move the mark, and remember the sessions to look at later.

    Sessions that were tried and have nothing unread are not looked at again.
    """
    tx.many(
        """update fact_positions set retry_at = null
           where tenant = :tenant and session_id = :session and retry_at <= :now
           and seq >= coalesce((select seq from messages
               where messages.tenant = :tenant and messages.session_id = :session
               order by seq desc limit 1), 0)""",
        [{"session": session} for session in tried],
    )
    tx.many(
        """insert into fact_positions (tenant, session_id, seq, tries, retry_at)
           select :tenant, id, 0, 0, :now from sessions where tenant = :tenant and id = :session
           on conflict (tenant, session_id) do update
           set retry_at = coalesce(fact_positions.retry_at, excluded.retry_at)""",
        [{"session": session} for session in later],
    )
    move_mark(tx, mark, upto)


def _learn_session(services: Services, tenant: str, session: _DueSession) -> JobResult:
    """Learn from one session; remember a failure with the time of the next try."""
    model = _model(services)
    if model is None:
        return _read_all(services, tenant, session, None)
    seconds = services.settings.model_seconds + COMMIT_SECONDS
    digest = hashlib.sha256(session.session.encode()).hexdigest()
    with leases.held(services.database, tenant, f"learn {digest}", seconds) as lease:
        if lease is None:  # another process reads it
            return JobResult(left=1)
        owner = Owner(tenant, session.user, session.agent)
        watched = services.watched(model, owner, ROUTE, session.session)
        try:
            return _read_all(services, tenant, session, watched, lease)
        except (NoModel, StorageError):
            raise
        except MemoristError as error:
            problem = f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS]
            services.database.write(
                tenant, lambda tx: _note_failure(tx, session.session, problem), idempotent=True
            )
            place = f"tenant {tenant}, session {session.session}"
            return JobResult(failed=1, errors=(f"{place}: {error}",))


def _model(services: Services) -> Model | None:
    """Return the model that reads, or None for the built-in rules; raise NoModel if there is none."""
    if services.settings.facts != "model":
        return None
    model = services.models.summary or services.models.main
    if model is None:
        raise NoModel(instead=", or set `facts: explicit` to learn without one")
    return model


def _read_all(
    services: Services,
    tenant: str,
    session: _DueSession,
    model: Model | None,
    lease: leases.Lease | None = None,
) -> JobResult:
    """Read the unread turns of a session, batch by batch; each is committed on its own."""

    def next_batch(tx: Transaction) -> tuple[Batch | None, list[Proposal]]:
        batch = learning.read_batch(tx, session.session)
        if model is not None or batch is None or not batch.turns:
            return batch, []
        return batch, learning.recent_proposals(tx, session.session)

    done = 0
    attempts = 0
    while attempts < MAX_ATTEMPTS:
        batch, recent = services.database.read(tenant, next_batch)
        if batch is None:
            return JobResult(done=done)
        if model is not None and _is_too_early(services, tenant, batch):
            return JobResult(done=done, left=1)
        reading = _read(services, tenant, batch, recent, model, lease)
        if reading is None:
            return JobResult(done=done, left=1)
        if not _commit(services, tenant, batch, reading):
            attempts += 1  # another process was faster, or a message was removed: look again
            continue
        attempts = 0
        done = 1
        if batch.is_last:
            break
    return JobResult(done=done, left=int(attempts == MAX_ATTEMPTS))


def _is_too_early(services: Services, tenant: str, batch: Batch) -> bool:
    """Return whether the conversation continues: one call for several turns costs less."""
    if not batch.is_last or not batch.turns or len(batch.turns) >= EAGER_TURNS:
        return False
    now = services.database.read(tenant, lambda tx: tx.now)
    return now - batch.last_at < QUIET_SECONDS * clock.SECOND


def _read(
    services: Services,
    tenant: str,
    batch: Batch,
    recent: Sequence[Proposal],
    model: Model | None,
    lease: leases.Lease | None,
) -> Reading | None:
    """Return what the turns of a batch propose; None if another process took over the lease."""
    if not batch.turns:
        return Reading()
    if model is None or lease is None:
        return read_explicit(batch.turns, recent)
    known, today = services.database.read(
        tenant,
        lambda tx: (learning.facts_to_show(tx, batch.user, batch.turns), learning.today(tx)),
    )
    _require_tokens(services, tenant)
    seconds = services.settings.model_seconds + COMMIT_SECONDS
    if not leases.renew(services.database, lease, seconds):
        return None
    return read_with_model(model, batch.turns, known, today)


def _commit(services: Services, tenant: str, batch: Batch, reading: Reading) -> bool:
    policy = masking.derived(services.settings.masking)
    change = Change(
        "facts", "learn", tenant, session=batch.session, user=batch.user, event="learned"
    )
    counts = services.writer.write(
        change,
        lambda tx: learning.commit(
            tx, services.index, batch, reading.proposals, policy, services.settings.review
        ),
        idempotent=True,
    )
    return counts is not None


def _require_tokens(services: Services, tenant: str) -> None:
    """Raise `_CannotLearn` if a call could use more tokens than the tenant has left."""
    limit = services.settings.facts_tokens_per_day
    if services.settings.facts != "model" or not limit:
        return

    def work(tx: Transaction) -> int:
        row = tx.one(
            """select coalesce(sum(case when coalesce(tokens_in, 0) + coalesce(tokens_out, 0) > 0
                   then coalesce(tokens_in, 0) + coalesce(tokens_out, 0) else :unknown end), 0)
               from interactions
               where tenant = :tenant and created_at > :since and route = :route and (
                   error = '' or coalesce(tokens_in, 0) > 0)""",
            unknown=UNKNOWN_CALL_TOKENS,
            since=tx.now - clock.DAY,
            route=ROUTE,
        )
        return int(row[0]) if row else 0

    used = services.database.read(tenant, work)
    if used and used + MAX_CALL_TOKENS > limit:
        raise _CannotLearn(
            f"Facts of tenant {tenant}: {used:,} of {limit:,} tokens were used within 24 hours; "
            "learning goes on later."
        )


def _is_over_budget(services: Services, tenant: str) -> bool:
    try:
        _require_tokens(services, tenant)
    except _CannotLearn:
        return True
    return False


def _note_failure(tx: Transaction, session: str, error: str) -> None:
    """Set the time of the next try of a session."""
    row = tx.one(
        "select tries from fact_positions where tenant = :tenant and session_id = :session",
        session=session,
    )
    tries = (row[0] if row else 0) + 1
    tx.run(
        """insert into fact_positions (tenant, session_id, seq, tries, retry_at, error)
           select :tenant, id, 0, :tries, :retry_at, :error from sessions
           where tenant = :tenant and id = :session
           on conflict (tenant, session_id) do update
           set tries = excluded.tries, retry_at = excluded.retry_at, error = excluded.error""",
        session=session,
        tries=tries,
        retry_at=tx.now + retry_pause(tries, error),
        error=error,
    )
