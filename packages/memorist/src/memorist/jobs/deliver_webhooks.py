"""Send events to webhooks: in order, signed, at least once.

The position of a webhook moves after each event that its service accepted. If this process dies in
between, the event is sent again with the same id. A lease keeps two processes from sending the same
events at the same time. An event that is refused again and again becomes a dead letter, and the
events after it go on. Dead letters are sent again after the new events, and do not hold these up.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from memorist.admin.webhook_request import host_of, send
from memorist.base import clock
from memorist.jobs.job import JobProblem, JobResult, Progress
from memorist.kinds.kind import Services
from memorist.storage import leases
from memorist.storage.database import Transaction
from memorist.storage.event_log import EVENT_COLUMNS, Event, event_from_row

MAX_TRIES = 10
"""About ten hours: the pauses grow from five seconds to six hours."""
FIRST_RETRY_SECONDS = 5.0
RETRY_FACTOR = 3.0
MAX_RETRY_SECONDS = 6 * 3600.0
REPLAY_RETRY_SECONDS = 60.0
"""The pause after a dead letter was refused again."""
MAX_ERROR_LENGTH = 300
EVENTS_PER_READ = 100
LEASE_SECONDS = 30.0
RUN_SECONDS = 20.0
"""After this time, a run leaves the rest of the events of a webhook to the next one."""
MAX_THREADS = 8


@dataclass(frozen=True)
class _EventBatch:
    """The next events of a webhook. `position` is None for dead letters that are sent again."""

    url: str
    secret: str
    events: list[Event]
    position: int | None
    """The last event that was read, wanted or not."""


def run(services: Services, tenant: str, progress: Progress | None = None) -> JobResult:
    """Send the due events of a tenant."""
    if services.settings.events == "off":
        return JobResult()
    due = services.database.read(tenant, _due_webhooks)
    if not due:
        return JobResult()
    with ThreadPoolExecutor(min(len(due), MAX_THREADS), "memorist-deliver") as pool:
        deliveries = [_Delivery(services, tenant, id, progress) for id in due]
        return sum(pool.map(_Delivery.run, deliveries), JobResult())


def count_due(tx: Transaction) -> int:
    """Return the number of events that webhooks have not yet been sent."""
    row = tx.one(
        """select coalesce(sum(n.last_number - w.position), 0)
           from webhooks w join event_numbers n on n.tenant = w.tenant
           where w.tenant = :tenant and w.paused = 0"""
    )
    return int(row[0]) if row else 0


def problems(services: Services, tenant: str) -> list[JobProblem]:
    """Return which webhooks fail or have dead letters, for status pages."""
    rows = services.database.read(
        tenant,
        lambda tx: tx.all(
            """select id, url, tries, error, (
                   select count(*) from dead_letters d
                   where d.tenant = w.tenant and d.webhook_id = w.id) as dead
               from webhooks w where w.tenant = :tenant order by created_at, id"""
        ),
    )
    problems_found = []
    for id, url, tries, error, dead in rows:
        name = f"Webhook {id} of tenant {tenant} ({host_of(url)})"
        if tries:
            problem = f"{name} fails: {error}. It is tried again."
            problems_found.append(
                JobProblem(problem, "Check its address, and that its receiver runs.")
            )
        if dead:
            problem = f"{name} did not accept {dead} event(s)."
            todo = f"Send them again with `memorist webhooks replay {id}`."
            problems_found.append(JobProblem(problem, todo))
    return problems_found


def _due_webhooks(tx: Transaction) -> list[str]:
    rows = tx.all(
        """select w.id from webhooks w join event_numbers n on n.tenant = w.tenant
           where w.tenant = :tenant and w.paused = 0 and (
               (w.position < n.last_number and (w.tries = 0 or w.retry_at <= :now))
               or (w.retry_at <= :now and exists (
                   select 1 from dead_letters d
                   where d.tenant = w.tenant and d.webhook_id = w.id and d.replay = 1)))
           order by w.id"""
    )
    return [id for (id,) in rows]


class _Delivery:
    """One run for one webhook."""

    def __init__(self, services: Services, tenant: str, id: str, progress: Progress | None) -> None:
        self._database = services.database
        self._allow_private = services.settings.events == "private"
        self._tenant = tenant
        self._id = id
        self._progress = progress

    def run(self) -> JobResult:
        """Send events until none is left, one fails, or the time is over."""
        name = f"webhook {self._id}"
        with leases.held(self._database, self._tenant, name, LEASE_SECONDS) as lease:
            # Without the lease, another process sends them.
            return JobResult(left=1) if lease is None else self._send_all(lease)

    def _send_all(self, lease: leases.Lease) -> JobResult:
        started = time.monotonic()
        total = JobResult()
        while batch := self._database.read(self._tenant, self._next):
            for event in batch.events:
                result = self._send(batch, event, lease)
                if result is None:
                    return total + JobResult(left=1)
                total += result
                if self._progress:
                    self._progress(total.done, total.done)
                if result.left or time.monotonic() - started > RUN_SECONDS:
                    return total
                if not leases.renew(self._database, lease, LEASE_SECONDS):
                    return total + JobResult(left=1)
            if batch.position is not None:
                self._skip_to(batch.position)
        return total

    def _next(self, tx: Transaction) -> _EventBatch | None:
        """Return the next events, then dead letters that are sent again; None at the end.

        `retry_at` is for the next event if that has failed (`tries`), otherwise for dead letters.
        """
        row = tx.one(
            """select url, secret, kinds, position, tries, retry_at from webhooks
               where tenant = :tenant and id = :id and paused = 0""",
            id=self._id,
        )
        if row is None:
            return None
        url, secret, kinds, position, tries, retry_at = row
        if tries and retry_at > tx.now:
            return None
        rows = tx.all(
            f"""select {EVENT_COLUMNS} from events
                where tenant = :tenant and number > :position order by number limit :limit""",
            position=position,
            limit=EVENTS_PER_READ,
        )
        if rows:
            wanted = [
                event
                for event in map(event_from_row, rows)
                if not kinds or event.kind in kinds.split(",")
            ]
            return _EventBatch(url, secret, wanted, rows[-1][0])
        if retry_at > tx.now:
            return None
        letters = tx.all(
            f"""select {EVENT_COLUMNS} from dead_letters
                where tenant = :tenant and webhook_id = :id and replay = 1
                order by failed_at, number limit :limit""",
            id=self._id,
            limit=EVENTS_PER_READ,
        )
        if not letters:
            return None
        return _EventBatch(url, secret, [event_from_row(letter) for letter in letters], None)

    def _send(self, batch: _EventBatch, event: Event, lease: leases.Lease) -> JobResult | None:
        """Send one event and store the result; None if the next run shall go on."""
        payload = {
            "type": f"{event.kind}.{event.type}",
            "timestamp": event.at.isoformat(),
            "data": {
                "tenant": self._tenant,
                "number": event.number,
                "type": event.type,
                "kind": event.kind,
                "verb": event.verb,
                "subject": event.subject,
                "user": event.user,
            },
        }
        error = send(
            batch.url,
            batch.secret,
            f"msg_{self._id}_{event.number}",
            payload,
            allow_private=self._allow_private,
        )[:MAX_ERROR_LENGTH]

        def store(tx: Transaction) -> JobResult | None:
            if not leases.is_held(tx, lease):
                return None
            if batch.position is None:
                return self._store_replay(tx, batch, event, error)
            return self._store(tx, batch, event, error)

        return self._database.write(self._tenant, store, idempotent=True)

    def _store(
        self, tx: Transaction, batch: _EventBatch, event: Event, error: str
    ) -> JobResult | None:
        row = tx.one(
            """select tries from webhooks
               where tenant = :tenant and id = :id and url = :url and paused = 0""",
            id=self._id,
            url=batch.url,
        )
        if row is None:  # it was changed meanwhile
            return None
        tries = row[0] + 1
        if error and tries < MAX_TRIES:
            seconds = min(FIRST_RETRY_SECONDS * RETRY_FACTOR ** (tries - 1), MAX_RETRY_SECONDS)
            tx.send(
                """update webhooks set tries = :tries, error = :error, retry_at = :retry_at
                   where tenant = :tenant and id = :id""",
                id=self._id,
                tries=tries,
                error=error,
                retry_at=clock.after(tx.now, seconds, "seconds"),
            )
            return JobResult(failed=1, left=1, errors=self._errors(error))
        if error:
            tx.send(
                f"""insert into dead_letters (tenant, webhook_id, {EVENT_COLUMNS}, error, failed_at, replay)
                    select tenant, :id, {EVENT_COLUMNS}, :error, cast(:now as {{time}}), 0
                    from events where tenant = :tenant and number = :number
                    on conflict do nothing""",
                id=self._id,
                number=event.number,
                error=error,
            )
        tx.send(
            """update webhooks set position = :number, tries = 0, error = :error,
                   retry_at = case when tries = 0 then retry_at else 0 end,
                   delivered_at = case when :error = '' then :now else delivered_at end
               where tenant = :tenant and id = :id and position < :number""",
            id=self._id,
            number=event.number,
            error=error,
        )
        return JobResult(failed=1, errors=self._errors(error)) if error else JobResult(done=1)

    def _store_replay(
        self, tx: Transaction, batch: _EventBatch, event: Event, error: str
    ) -> JobResult:
        """Remove a dead letter that was accepted; otherwise try it again later, after the others."""
        if error:
            tx.send(
                """update dead_letters set error = :error, failed_at = :now
                   where tenant = :tenant and webhook_id = :id and number = :number""",
                id=self._id,
                number=event.number,
                error=error,
            )
            tx.send(
                """update webhooks set retry_at = :retry_at
                   where tenant = :tenant and id = :id and url = :url""",
                id=self._id,
                url=batch.url,
                retry_at=clock.after(tx.now, REPLAY_RETRY_SECONDS, "seconds"),
            )
            return JobResult(failed=1, left=1, errors=self._errors(error))
        tx.send(
            """delete from dead_letters
               where tenant = :tenant and webhook_id = :id and number = :number""",
            id=self._id,
            number=event.number,
        )
        tx.send(
            "update webhooks set delivered_at = :now where tenant = :tenant and id = :id",
            id=self._id,
        )
        return JobResult(done=1)

    def _skip_to(self, position: int) -> None:
        """Move the position behind events that the webhook does not want."""
        self._database.write(
            self._tenant,
            lambda tx: tx.run(
                """update webhooks set position = :position
                   where tenant = :tenant and id = :id and position < :position""",
                id=self._id,
                position=position,
            ),
            idempotent=True,
        )

    def _errors(self, error: str) -> tuple[str, ...]:
        return (f"tenant {self._tenant}, webhook {self._id}: {error}",)
