"""The log of events: what was added, changed, learned, removed or erased, without any content.

The writer adds events last in the transaction of the change. Their numbers come from one row per
tenant, which stays locked until the commit. So numbers follow the order of the commits: a reader
that has seen a number has seen all lower ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from memorist.base import clock, masking
from memorist.base.errors import Conflict, EventsRemoved
from memorist.storage.database import Row, Transaction

EventType = Literal["added", "changed", "removed", "learned", "erased"]
RETENTION_DAYS = 7
DEAD_LETTER_DAYS = 30
MAX_SUBJECT_LENGTH = 2000
EVENT_COLUMNS = "number, type, kind, verb, subject, user_id, created_at"


class NewEvent(NamedTuple):
    """An event that has no number yet."""

    type: EventType
    kind: str
    verb: str
    subject: str
    user: str | None


@dataclass(frozen=True)
class Event:
    """One change of a tenant's memory."""

    number: int
    type: EventType
    kind: str
    verb: str
    subject: str
    """The id of what changed, such as that of a session or an entry; never its content."""
    user: str | None
    at: datetime


def add(tx: Transaction, events: Sequence[NewEvent]) -> None:
    """Add events. Call it last in a transaction: it blocks other writers of the tenant."""
    if not events:
        return
    tx.send(
        """insert into event_numbers (tenant, last_number, removed_to) values (:tenant, :count, 0)
           on conflict (tenant) do update
           set last_number = event_numbers.last_number + excluded.last_number""",
        count=len(events),
    )
    for place, event in enumerate(events, 1):
        tx.send(
            f"""insert into events (tenant, {EVENT_COLUMNS})
                select tenant, last_number - :back, :type, :kind, :verb, :subject, :user,
                    cast(:now as {{time}})
                from event_numbers where tenant = :tenant""",
            back=len(events) - place,
            type=event.type,
            kind=event.kind,
            verb=event.verb,
            subject=masking.mask_secrets(event.subject[:MAX_SUBJECT_LENGTH]),
            user=event.user,
        )


def last_number(tx: Transaction) -> int:
    """Return the number of the newest event, 0 if there was none."""
    row = tx.one("select last_number from event_numbers where tenant = :tenant")
    return int(row[0]) if row else 0


def read(tx: Transaction, after: int, limit: int) -> list[Event]:
    """Return the events after a number, oldest first; 0 means from the oldest one on.

    Raises EventsRemoved if events after the number were removed because of their age, and Conflict
    if the number is yet to come, as after the restore of a backup.
    """
    if after:
        row = tx.one("select last_number, removed_to from event_numbers where tenant = :tenant")
        last, removed = row or (0, 0)
        if after < removed:
            raise EventsRemoved(after=after, days=RETENTION_DAYS)
        if after > last:
            problem = (
                f"There is no event {after} yet: the last one is {last}. If a backup was restored, "
                "read the current data, and continue without `after`, or with `after=0` from the "
                "oldest event"
            )
            raise Conflict(problem=problem)
    rows = tx.all(
        f"""select {EVENT_COLUMNS} from events where tenant = :tenant and number > :after
            order by number limit :limit""",
        after=after,
        limit=limit,
    )
    return [event_from_row(row) for row in rows]


def event_from_row(row: Row) -> Event:
    """Return the event with the values of EVENT_COLUMNS."""
    number, type, kind, verb, subject, user, created_at = row
    return Event(number, type, kind, verb, subject, user, clock.to_datetime(created_at))


def erase(tx: Transaction, user: str) -> None:
    """Remove the events about data of a user."""
    tx.send("delete from events where tenant = :tenant and user_id = :user", user=user)
    tx.send("delete from dead_letters where tenant = :tenant and user_id = :user", user=user)


def has_old_events(tx: Transaction) -> bool:
    """Return whether events or dead letters are to be removed because of their age."""
    row = tx.one("select created_at from events where tenant = :tenant order by number limit 1")
    return (row is not None and bool(row[0] < _cutoff(tx))) or bool(_old_dead_letters(tx, 1))


def remove_old(tx: Transaction, size: int) -> int | None:
    """Remove a batch of the oldest events; None if all are recent.

    Events that a webhook has not accepted yet, or that wait for a paused webhook, become dead
    letters, which are kept longer.
    """
    row = tx.one(
        """select max(number) from (
               select number, created_at from events where tenant = :tenant
               order by number limit :size) as oldest
           where created_at < :cutoff""",
        size=size,
        cutoff=_cutoff(tx),
    )
    if row is None or row[0] is None:
        return None
    (last,) = row
    tx.send(
        f"""insert into dead_letters (tenant, webhook_id, {EVENT_COLUMNS}, error, failed_at, replay)
            select e.tenant, w.id, e.number, e.type, e.kind, e.verb, e.subject, e.user_id,
                e.created_at,
                case when w.paused = 1 then 'the webhook was paused' else w.error end, cast(:now as {{time}}), 0
            from webhooks w join events e
            on e.tenant = w.tenant and e.number > w.position and e.number <= :last
            where w.tenant = :tenant and (
                w.kinds = '' or ',' || w.kinds || ',' like '%,' || e.kind || ',%')
            on conflict do nothing""",
        last=last,
    )
    tx.send(
        """update webhooks set position = :last, tries = 0
           where tenant = :tenant and position < :last""",
        last=last,
    )
    tx.send("update event_numbers set removed_to = :last where tenant = :tenant", last=last)
    return tx.run("delete from events where tenant = :tenant and number <= :last", last=last)


def remove_old_dead_letters(tx: Transaction, size: int) -> int | None:
    """Remove a batch of old dead letters; None if all are recent."""
    old = _old_dead_letters(tx, size)
    tx.many(
        """delete from dead_letters
           where tenant = :tenant and webhook_id = :webhook and number = :number""",
        [{"webhook": webhook, "number": number} for webhook, number in old],
    )
    return len(old) or None


def _old_dead_letters(tx: Transaction, size: int) -> Sequence[Row]:
    return tx.all(
        """select webhook_id, number from dead_letters
           where tenant = :tenant and (failed_at < :old or created_at < :oldest) limit :size""",
        old=tx.now - DEAD_LETTER_DAYS * clock.DAY,
        oldest=tx.now - (DEAD_LETTER_DAYS + RETENTION_DAYS) * clock.DAY,
        size=size,
    )


def _cutoff(tx: Transaction) -> int:
    return tx.now - RETENTION_DAYS * clock.DAY
