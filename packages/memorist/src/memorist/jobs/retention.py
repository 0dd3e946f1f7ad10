"""Retention: remove old messages, expired rows and unused contents in small batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from memorist.admin import browser_sessions, stored_responses
from memorist.base import clock
from memorist.base.errors import Full, Invalid, NotFound
from memorist.jobs.job import JobResult
from memorist.kinds.facts.changes import remove_evidence
from memorist.kinds.indexing import index_id
from memorist.kinds.items.item import is_searchable, mark
from memorist.kinds.kind import Services
from memorist.search.index import Index
from memorist.search.search_document import IndexMark, owner_of
from memorist.storage import event_log, leases
from memorist.storage.contents.blobs import GRACE
from memorist.storage.database import Transaction
from memorist.storage.pace import Pace
from memorist.storage.writer import Change

BATCH_SIZE = 500
INTERVAL_SECONDS = 3600.0
LEASE_SECONDS = 60.0
DELETE_WITH_MESSAGES = (
    "delete from message_keys where tenant = :tenant and session_id = :id and last_seq < :first",
    "delete from mentions where tenant = :tenant and session_id = :id and seq < :first",
    "delete from turns where tenant = :tenant and session_id = :id and last_seq < :first",
)
"""Rows of other tables that belong to removed messages."""
THREAD_MARGIN = 60 * clock.MINUTE
"""Threads store the time of their last use to the hour."""
COUNT_EXPIRED = """select (select count(*) from state where tenant = :tenant and expires_at <= :now)
    + (select count(*) from items where tenant = :tenant and expires_at <= :now)"""
COUNT_OLD = """select (select count(*) from messages
        where tenant = :tenant and created_at < :cutoff and session_id in (
            select id from sessions where tenant = :tenant and first_at < :cutoff))
    + (select count(*) from threads where tenant = :tenant and updated_at < :idle_since)"""
Progress = Callable[[int, int], None]
Batch = Callable[[Transaction, Index, int | None, int], int | None]


@dataclass(frozen=True)
class Purged:
    """What `Memory.purge` and the hourly job remove: the number of removed rows of each sort.

    messages, threads:    only if a number of days is set: messages that are older, with what was
                          learned from them alone, and threads of checkpoints that were not used for
                          so long, each namespace for itself
    state, items:         whose expiry has passed
    events, dead_letters: older than 7 and 30 days
    contents:             contents that no reference uses, and leftovers of crashes
    compacted:            False if a reader still holds deleted pages; always on a server, which keeps
                          deleted rows in its files until it overwrites them

    Not counted: expired leases, browser sessions and responses to requests with an idempotency key.
    """

    messages: int
    state: int
    compacted: bool
    contents: int = 0
    items: int = 0
    threads: int = 0
    events: int = 0
    dead_letters: int = 0


def purge(
    services: Services,
    *,
    days: float | None = None,
    tenants: Sequence[str] | None = None,
    emergency: bool = False,
    progress: Progress | None = None,
) -> Purged:
    """Remove what `Purged` lists, of some or all tenants; without `days`, only what expires."""
    if days is not None and (
        isinstance(days, bool) or not isinstance(days, int | float) or not 0 < days < 1_000_000
    ):
        raise Invalid(field="days", problem="must be a number above 0")
    database = services.database
    known = database.tenants()
    for tenant in tenants or []:
        if tenant not in known:
            raise NotFound(what="tenant", id=tenant)
    if emergency:
        # If the log is larger than the freed reserve, small batches follow.
        with suppress(Full):
            database.compact(emergency=True)
    age = None if days is None else round(days * clock.DAY)
    due = {
        tenant: database.read(tenant, lambda tx: _count_due(tx, age), long=True)
        for tenant in (known if tenants is None else tenants)
    }
    total = sum(rows for _, rows in due.values())
    done = {what: 0 for what, _ in BATCHES}
    for tenant, (cutoff, _) in due.items():
        for what, removed in _remove_all(services, tenant, cutoff, emergency=emergency):
            done[what] += removed
            if progress:
                progress(sum(done.values()), total)
        _sweep_expired(services, tenant)
    contents = sum(services.blobs.collect(tenant) for tenant in due)
    return Purged(
        messages=done["messages"],
        state=done["state"],
        compacted=database.compact(),
        contents=contents,
        items=done["items"],
        threads=done["threads"],
        events=done["events"],
        dead_letters=done["dead letters"],
    )


def _sweep_expired(services: Services, tenant: str) -> None:
    """Delete the expired rows of the system itself: leases, stored responses, browser sessions."""
    leases.sweep(services.database, tenant)
    stored_responses.sweep_all(services.database, tenant)
    browser_sessions.sweep_all(services.database, tenant)


class RetentionJob:
    """The job: remove what is due of a tenant, once an hour."""

    def __init__(self) -> None:
        self._next_run: dict[str, float] = {}

    def run(
        self,
        services: Services,
        tenant: str,
        progress: Progress | None = None,
    ) -> JobResult:
        """Remove what `Purged` lists; messages and threads by the setting `retention_days`."""
        if monotonic() < self._next_run.get(tenant, 0.0):
            return JobResult()
        result = self._remove_due(services, tenant, progress)
        self._next_run[tenant] = monotonic() + INTERVAL_SECONDS
        return result

    def _remove_due(self, services: Services, tenant: str, progress: Progress | None) -> JobResult:
        _sweep_expired(services, tenant)
        days = services.settings.retention_days
        age = round(days * clock.DAY) if days else None
        cutoff, due = services.database.read(tenant, lambda tx: _has_due(tx, age))
        if not due:
            return JobResult()
        removed = 0
        with leases.held(
            services.database, tenant, "retention", LEASE_SECONDS, frees_space=True
        ) as lease:
            if lease is None:
                return JobResult()  # another process removes it
            for _, size in _remove_all(services, tenant, cutoff):
                removed += size
                leases.renew(services.database, lease, LEASE_SECONDS)
                if progress:
                    progress(removed, removed)
        services.blobs.collect_staged(tenant)
        return JobResult(done=removed)


def _has_due(tx: Transaction, age: int | None) -> tuple[int | None, bool]:
    """Return the time before which messages are old, and whether something is to be removed."""
    cutoff = None if age is None else tx.now - age
    expired = tx.one(
        """select 1 from state where tenant = :tenant and expires_at <= :now
           union all select 1 from items where tenant = :tenant and expires_at <= :now
           union all select 1 from blobs where tenant = :tenant and staged_at < :stale limit 1""",
        stale=tx.now - GRACE,
    )
    if expired is not None or event_log.has_old_events(tx):
        return cutoff, True
    if cutoff is None:
        return cutoff, False
    old = tx.one(
        """select 1 from sessions where tenant = :tenant and first_at < :cutoff
           union all select 1 from threads
           where tenant = :tenant and updated_at < :idle_since limit 1""",
        cutoff=cutoff,
        idle_since=cutoff - THREAD_MARGIN,
    )
    return cutoff, old is not None


def _remove_all(
    services: Services, tenant: str, cutoff: int | None, *, emergency: bool = False
) -> Iterator[tuple[str, int]]:
    """Remove what is due in batches; yield the sort and the number of the rows of each batch."""
    for what, batch in BATCHES:
        for removed in _in_batches(services, tenant, batch, cutoff, emergency):
            yield what, removed


def _in_batches(
    services: Services, tenant: str, batch: Batch, cutoff: int | None, emergency: bool
) -> Iterator[int]:
    """Remove batches until none is left, with pauses for other writers; yield the size of each."""
    writer = services.writer
    pace = Pace(BATCH_SIZE)

    def remove(tx: Transaction) -> tuple[int | None, float]:
        started = monotonic()
        return batch(tx, services.index, cutoff, pace.size), monotonic() - started

    while True:
        try:
            removed, seconds = writer.write(
                Change("purge", "remove", tenant), remove, frees_space=True
            )
        except Full:
            if not emergency or pace.size == 1:
                raise
            pace = Pace(max(1, pace.size // 8))  # a removal is logged before it frees space
            continue
        if removed is None:
            return
        if emergency:
            writer.database.compact()
        yield removed
        pace.record_and_pause(seconds)


def _count_due(tx: Transaction, age: int | None) -> tuple[int | None, int]:
    """Return the time before which messages are old, and about how many rows to remove."""
    expired = int((tx.one(COUNT_EXPIRED) or (0,))[0])
    if age is None:
        return None, expired
    cutoff = tx.now - age
    old = tx.one(COUNT_OLD, cutoff=cutoff, idle_since=cutoff - THREAD_MARGIN)
    return cutoff, expired + int((old or (0,))[0])


def _remove_expired_state(
    tx: Transaction, index: Index, cutoff: int | None, size: int
) -> int | None:
    """Remove a batch of expired state; None if there is none."""
    expired = tx.all(
        """select area, key, coalesce(state.user_id, sessions.user_id)
           from state
           left join sessions on sessions.tenant = :tenant and sessions.id = session_id
           where state.tenant = :tenant and expires_at <= :now limit :size""",
        size=size,
    )
    sent = [
        tx.send(
            """delete from state where tenant = :tenant and area = :area and key = :key
               and expires_at <= :now returning area, key""",
            area=area,
            key=key,
        )
        for area, key, _ in expired
    ]
    marks = [
        IndexMark(owner_of(user), "state", index_id(area, key))
        for (area, key, user), statement in zip(expired, sent, strict=True)
        if statement.rows()
    ]
    index.mark(tx, marks)
    return len(marks) if expired else None


def _remove_expired_items(
    tx: Transaction, index: Index, cutoff: int | None, size: int
) -> int | None:
    """Remove a batch of expired items; None if there is none."""
    expired = tx.all(
        """select area, place, key from items
           where tenant = :tenant and expires_at <= :now limit :size""",
        size=size,
    )
    sent = [
        tx.send(
            """delete from items where tenant = :tenant and area = :area and place = :place
               and key = :key and expires_at <= :now returning area, place, key, fields""",
            area=area,
            place=place,
            key=key,
        )
        for area, place, key in expired
    ]
    removed = [row for statement in sent for row in statement.rows()]
    index.mark(tx, [mark(*address) for *address, fields in removed if is_searchable(fields)])
    return len(removed) if expired else None


def _remove_old_messages(
    tx: Transaction, index: Index, cutoff: int | None, size: int
) -> int | None:
    """Remove a batch of the oldest messages of one session; None if no session has old ones."""
    if cutoff is None:
        return None
    oldest = "select id from sessions where tenant = :tenant and first_at < :cutoff order by first_at limit 1"
    session = tx.one(oldest, cutoff=cutoff)
    if session is None:
        return None
    (id,) = session
    tx.lock_rows("select 1 from sessions where tenant = :tenant and id = :id", id=id)
    still = tx.one(
        """select first_seq, user_id from sessions
           where tenant = :tenant and id = :id and first_at < :cutoff""",
        id=id,
        cutoff=cutoff,
    )
    if still is None:  # another purge has removed them
        return 0
    first_seq, user = still
    rows = tx.all(
        "select seq, created_at from messages where tenant = :tenant and session_id = :id order by seq limit :size",
        id=id,
        size=size + 1,
    )
    whole_batch = rows[-1] if len(rows) > size else None
    keep = next((row for row in rows if row[1] >= cutoff), whole_batch)
    first, first_at = keep or (
        rows[-1][0] + 1 if rows else first_seq,
        max(tx.now, cutoff),
    )  # empty: due in no other batch
    remove_evidence(tx, index, id, 1, first - 1)
    removed = tx.run(
        "delete from messages where tenant = :tenant and session_id = :id and seq < :first",
        id=id,
        first=first,
    )
    index.mark(tx, [IndexMark(owner_of(user), "messages", id)])
    for statement in DELETE_WITH_MESSAGES:
        tx.run(statement, id=id, first=first)
    tx.run(
        "update sessions set first_seq = :first, first_at = :first_at where tenant = :tenant and id = :id",
        id=id,
        first=first,
        first_at=first_at,
    )
    return removed


def _remove_idle_threads(
    tx: Transaction, index: Index, cutoff: int | None, size: int
) -> int | None:
    """Remove a batch of idle threads, each with all its steps."""
    if cutoff is None:
        return None
    removed = tx.run(
        """delete from threads where tenant = :tenant and updated_at < :idle_since and line in (
               select line from threads where tenant = :tenant and updated_at < :idle_since
               order by updated_at limit :size)""",
        idle_since=cutoff - THREAD_MARGIN,
        size=max(1, size // 50),  # each has many rows
    )
    return removed or None


BATCHES: tuple[tuple[str, Batch], ...] = (
    ("state", _remove_expired_state),
    ("items", _remove_expired_items),
    ("messages", _remove_old_messages),
    ("threads", _remove_idle_threads),
    ("events", lambda tx, index, cutoff, size: event_log.remove_old(tx, size)),
    (
        "dead letters",
        lambda tx, index, cutoff, size: event_log.remove_old_dead_letters(tx, size),
    ),
)
