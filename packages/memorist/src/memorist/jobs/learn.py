"""Learn facts from the unread turns of sessions, by our own reader or with a model.

Due sessions are found by their last activity. A mark in `job_marks` says up to which time all
activity was looked at. Sessions that failed, or were imported with an old time, have a time for the
next try in `fact_positions`. With a model, several sessions are read at the same time.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from memorist.kinds.kind import Owner, Services
from memorist.learning import batch as batches
from memorist.learning.batch import Batch
from memorist.learning.model_reading import may_state_facts, merge, read_with_model
from memorist.learning.reading import Reading, read_turns
from memorist.learning.source_message import SourceMessage
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
CONCURRENT_SESSIONS = 4
"""Sessions of a tenant that a model reads at the same time."""
MAX_ATTEMPTS = 3
"""Attempts to read turns that are removed meanwhile."""
SESSIONS_PER_RUN = 1_000
"""A run with more due sessions leaves the others to the next one, so that other jobs can run."""
MAX_BACKLOG = 10_000
"""Due sessions that are counted for status pages."""
MAX_CALL_TOKENS = 11_000
"""About the tokens of the largest call: instructions, known facts, turns and answer."""
UNKNOWN_CALL_TOKENS = 8_000
"""The tokens of a call for which the service reports none."""


class _OverBudget(Exception):
    """Raised if a call could use more tokens than are left to a tenant, or to one user of it."""

    def __init__(self, problem: str, todo: str, user: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.todo = todo
        self.user = user


@dataclass(frozen=True)
class _DueSession:
    session: str
    user: str
    agent: str


@dataclass(frozen=True)
class _ModelAccess:
    """What it takes to read one session with a model."""

    model: Model
    lease: leases.Lease
    budget: _Budget


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
    budget = _Budget(services, tenant)
    if due and budget.is_used_up():
        return JobResult(left=len(due))
    has_more = upto is not None or len(retries) == SESSIONS_PER_RUN
    total = JobResult(left=int(has_more))
    later = []
    stop = threading.Event()

    def learn(session: _DueSession) -> JobResult:
        if stop.is_set() or session.user in budget.limited_users:
            return JobResult(left=1)
        try:
            return _learn_session(services, tenant, session, budget)
        except _OverBudget as reason:
            if not reason.user:  # the next session would stop for the same reason
                stop.set()
            return JobResult(left=1)
        except NoModel as error:
            if stop.is_set():
                return JobResult(left=1)
            stop.set()
            return JobResult(failed=1, errors=(f"tenant {tenant}: {error}",))

    uses_model = services.settings.facts == "model" and len(due) > 1
    threads = CONCURRENT_SESSIONS if uses_model else 1
    with ThreadPoolExecutor(threads, "memorist-facts") as pool:
        results = pool.map(learn, due.values()) if threads > 1 else map(learn, due.values())
        try:
            for place, (session, result) in enumerate(zip(due, results, strict=True), 1):
                if result.left:
                    later.append(session)
                total += result
                if progress and not stop.is_set():
                    progress(place, len(due))
        except BaseException:
            stop.set()
            raise
    if stop.is_set():
        return total
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
    limits = _Budget(services, tenant).limits_reached()
    if limits and due_sessions(services, tenant, limit=1):
        problems_found += [JobProblem(limit.problem, limit.todo) for limit in limits[:20]]
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


def _learn_session(
    services: Services, tenant: str, session: _DueSession, budget: _Budget
) -> JobResult:
    """Learn from one session; remember a failure with the time of the next try."""
    model = _model(services)
    if model is None:
        return _read_all(services, tenant, session)
    seconds = services.settings.model_seconds + COMMIT_SECONDS
    digest = hashlib.sha256(session.session.encode()).hexdigest()
    with leases.held(services.database, tenant, f"learn {digest}", seconds) as lease:
        if lease is None:  # another process reads it
            return JobResult(left=1)
        owner = Owner(tenant, session.user, session.agent)
        watched = services.watched(model, owner, ROUTE, session.session)
        try:
            access = _ModelAccess(watched, lease, budget)
            return _read_all(services, tenant, session, access)
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
    """Return the model that extracts facts, or None for the built-in reader; raise NoModel if none is set."""
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
    access: _ModelAccess | None = None,
) -> JobResult:
    """Read the unread turns of a session, batch by batch; each is committed on its own."""
    done = 0
    attempts = 0
    while attempts < MAX_ATTEMPTS:
        batch = services.database.read(tenant, lambda tx: batches.read_batch(tx, session.session))
        if batch is None:
            return JobResult(done=done)
        if access is not None and _is_too_early(services, tenant, batch):
            return JobResult(done=done, left=1)
        reading = _read(services, tenant, batch, access)
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
    services: Services, tenant: str, batch: Batch, access: _ModelAccess | None
) -> Reading | None:
    """Return what the turns of a batch propose; None if another process took over the lease."""
    if not batch.turns:
        return Reading()
    if access is None:
        return read_turns(batch.turns, batch.earlier)
    known, today = services.database.read(
        tenant,
        lambda tx: (
            batches.facts_to_show(tx, batch.user, [*batch.earlier, *batch.turns]),
            batches.today(tx),
        ),
    )
    if not may_state_facts(batch.turns, batch.earlier, known):
        return Reading()
    with access.budget.call(batch.user):
        seconds = services.settings.model_seconds + COMMIT_SECONDS
        if not leases.renew(services.database, access.lease, seconds):
            return None
        # Quotes are compared with what the model sees.
        turns, earlier = (_masked(services, shown) for shown in (batch.turns, batch.earlier))
        reading = read_with_model(access.model, turns, earlier, known, today)
    return merge(reading, read_turns(batch.turns, batch.earlier), batch.turns)


def _masked(services: Services, turns: Sequence[SourceMessage]) -> Sequence[SourceMessage]:
    policy = services.settings.output_masking
    if policy is masking.OFF:
        return turns
    return [replace(turn, text=masking.mask_personal(turn.text, policy)) for turn in turns]


def _commit(services: Services, tenant: str, batch: Batch, reading: Reading) -> bool:
    policy = masking.derived(services.settings.masking)
    change = Change(
        "facts", "learn", tenant, session=batch.session, user=batch.user, event="learned"
    )
    counts = services.writer.write(
        change,
        lambda tx: batches.commit(
            tx, services.index, batch, reading.proposals, policy, services.settings.review
        ),
        idempotent=True,
    )
    return counts is not None


class _Budget:
    """The tokens that learning may use within 24 hours in a tenant, and for each of its users."""

    def __init__(self, services: Services, tenant: str) -> None:
        self.limited_users: set[str] = set()
        self._services = services
        self._tenant = tenant
        self._running: Counter[str] = Counter()  # calls by user
        self._changed = threading.Condition()

    @contextmanager
    def call(self, user: str) -> Iterator[None]:
        """Make room for one call; raise `_OverBudget` if it could use more tokens than are left.

        Wait for running calls, which may use less than they could.
        """
        with self._changed:
            while self._is_full(user):
                self._changed.wait()
            self._running[user] += 1
        try:
            yield
        finally:
            with self._changed:
                self._running[user] -= 1
                self._changed.notify_all()

    def _is_full(self, user: str) -> bool:
        """Return whether a call must wait for others; raise `_OverBudget` if that would not help."""
        for limit in self.limits_reached(user):
            running = self._running[user] if limit.user else self._running.total()
            if not running:
                if limit.user:
                    self.limited_users.add(user)
                raise limit
            return True
        return False

    def is_used_up(self) -> bool:
        """Return whether the tenant has no tokens left for a call."""
        return any(not limit.user for limit in self.limits_reached(""))

    def limits_reached(self, user: str | None = None) -> list[_OverBudget]:
        """Return the limits that a call could exceed: of the tenant, and of one user or of all."""
        settings = self._services.settings
        if settings.facts != "model":
            return []
        of_tenant, of_user = settings.facts_tokens_per_day, settings.facts_tokens_per_user_per_day
        if not of_tenant and not of_user:
            return []
        used = self._services.database.read(self._tenant, _used_tokens)
        reached = []
        if _exceeds(used.total(), self._running.total(), of_tenant):
            problem = _limit_problem(f"tenant {self._tenant}", used.total(), of_tenant)
            todo = "Raise facts_tokens_per_day to learn faster."
            reached.append(_OverBudget(problem, todo))
        for name in sorted(used) if user is None else [user]:
            if name and _exceeds(used[name], self._running[name], of_user):
                problem = _limit_problem(f"user {name}", used[name], of_user)
                todo = "Raise facts_tokens_per_user_per_day to learn faster."
                reached.append(_OverBudget(problem, todo, name))
        return reached


def _exceeds(used: int, running: int, limit: int) -> bool:
    """Return whether one more call could use more than is left; the first call is always possible."""
    return bool(limit and (used or running)) and used + (running + 1) * MAX_CALL_TOKENS > limit


def _limit_problem(owner: str, used: int, limit: int) -> str:
    return (
        f"Facts of {owner}: {used:,} of {limit:,} tokens were used within 24 hours; "
        "learning goes on later."
    )


def _used_tokens(tx: Transaction) -> Counter[str]:
    """Return the tokens that learning used for each user within 24 hours."""
    rows = tx.all(
        """select user_id,
                  sum(case when coalesce(tokens_in, 0) + coalesce(tokens_out, 0) > 0
                      then coalesce(tokens_in, 0) + coalesce(tokens_out, 0) else :unknown end)
           from interactions
           where tenant = :tenant and created_at > :since and route = :route and (
               error = '' or coalesce(tokens_in, 0) > 0)
           group by user_id""",
        unknown=UNKNOWN_CALL_TOKENS,
        since=tx.now - clock.DAY,
        route=ROUTE,
    )
    return Counter({user or "": int(used) for user, used in rows})


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
