"""Vectors follow the write: whatever has none of the embedder that is set gets one, in batches, outside of any transaction.

What is due is a query. A text that cannot be embedded keeps no other from it: it stays findable by its words, is counted,
and is tried again later. Where another embedder is set, everything is due again; the vectors of the one before stay,
unused, until theirs are there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from retain.base import clock
from retain.base.errors import ModelError, SettingsError, StorageError
from retain.jobs.job import Done, Progress
from retain.kinds.kind import Owner, Services
from retain.search.embedders import Embedder, embed_texts, embedding_text, quantise
from retain.search.engine import Item
from retain.storage import leases
from retain.storage.database import Transaction

BATCH = 256
_IN_ONE_READ = 200_000  # numbers of rows
_LEASE_SECONDS = 120.0
_MARGIN = (
    5 * clock.MINUTE
)  # how long a transaction may take to commit a row whose number it got before others
_LOOK_AGAIN = (
    60 * clock.MINUTE
)  # … and when everything is looked at again, for one that took even longer
_FIRST_PAUSE, _LONGEST_PAUSE = 30.0, 3600.0  # seconds before a text that failed is tried again
_MOST_FAILING = 10_000
# Two lists, compared here: a server without statistics would join them row by row, in the square of the time.
_ROWS = "select number from search_items where tenant = :tenant and number > :above order by number limit :most"
_MADE = """select number from search_vectors where tenant = :tenant and model = :model and length(vector) = :dimension
           and number > :above and number <= :top"""
_AT = "select at from search_items where tenant = :tenant and number = :number"
_LAST = "select at from search_embedded where tenant = :tenant"
_FINISHED = """insert into search_embedded (tenant, at) values (:tenant, :at)
               on conflict (tenant) do update set at = excluded.at where search_embedded.at < excluded.at"""
_COUNT = """select (select count(*) from search_items where tenant = :tenant)
                 - (select count(*) from search_vectors
                    where tenant = :tenant and model = :model and length(vector) = :dimension)"""


@dataclass(frozen=True)
class Lag:
    """How many rows have no vector of this embedder yet, and for how many seconds the first of them has waited, at most.

    It waits since it happened, or since everything had its vector for the last time, whichever is later: a row does not
    say when it was written, and may be of something old that was imported or changed a moment ago.
    """

    pending: int
    seconds: float = 0.0
    identity: str = ""


class _Model(NamedTuple):
    """Whose vectors are compared with each other: what has one of another length is due as well."""

    name: str
    dimension: int


def lag(services: Services, tenant: str) -> Lag:
    """How far the vectors of a tenant are behind its rows; nothing is behind where there is no embedder."""
    if services.embedder is None:
        return Lag(0)
    model = _Model(services.embedder.identity, services.embedder.dimensions)

    def work(tx: Transaction) -> Lag:
        (pending,) = tx.one(_COUNT, model=model.name, dimension=model.dimension) or (0,)
        if not pending:
            return Lag(0, 0.0, model.name)
        look = _lacking(tx, model, 0)
        while not look.numbers and not look.whole:
            look = _lacking(tx, model, look.top)
        (oldest,) = (tx.one(_AT, number=look.numbers[0]) if look.numbers else None) or (tx.now,)
        (last,) = tx.one(_LAST) or (oldest,)
        return Lag(pending, max(0, tx.now - max(oldest, last)) / clock.SECOND, model.name)

    return services.database.read(tenant, work, long=True)


@dataclass
class _Seen:
    """What one worker knows of a tenant and an embedder: up to which number all is done, and what failed.

    Rows are not committed in the order of their numbers, so the floor follows what was reached with a margin of minutes.
    """

    floor: int = 0
    since: int = 0
    reached: list[tuple[int, int]] = field(default_factory=list)
    failing: dict[int, tuple[int, float]] = field(default_factory=dict)

    def start(self, now: int) -> None:
        """Before a look: move the floor as far as it is safe, or back to the ground after an hour."""
        if now - self.since > _LOOK_AGAIN or len(self.failing) > _MOST_FAILING:
            self.floor, self.since, self.reached, self.failing = 0, now, [], {}
        while self.reached and self.reached[0][0] <= now - _MARGIN:
            self.floor = max(self.floor, self.reached.pop(0)[1])

    def again(self) -> list[int]:
        """What failed, would not be looked at any more, and may be tried again."""
        return [
            number for number in self.failing if number <= self.floor and not self.waits(number)
        ]

    def ready(self, numbers: Sequence[int]) -> list[int]:
        """Those that may be tried now."""
        return [number for number in numbers if not self.waits(number)]

    def failed(self, number: int) -> None:
        """A text failed: the next try is later each time."""
        tries = self.failing.get(number, (0, 0.0))[0]
        self.failing[number] = (
            tries + 1,
            time.monotonic() + min(_FIRST_PAUSE * 2**tries, _LONGEST_PAUSE),
        )

    def waits(self, number: int) -> bool:
        """Whether it is too early to try this text again."""
        return number in self.failing and time.monotonic() < self.failing[number][1]


class Vectors:
    """The job; it belongs to one worker, and remembers what need not be looked at again."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, _Model], _Seen] = {}

    def run(
        self, services: Services, tenant: str, since: int = 0, progress: Progress | None = None
    ) -> Done:
        """Embed what is due in a tenant. Rows are not due by when they changed, so `since` does not matter here."""
        embedder = services.embedding(Owner(tenant))
        if embedder is None:
            return Done()
        try:
            model = _Model(embedder.identity, embedder.dimensions)
            return self._round(services, tenant, embedder, model, progress)
        except (ModelError, SettingsError) as error:  # nothing can be embedded now
            return Done(failed=1, left=1, errors=(f"tenant {tenant}: {error}",))

    def _round(
        self,
        services: Services,
        tenant: str,
        embedder: Embedder,
        model: _Model,
        progress: Progress | None,
    ) -> Done:
        seen = self._seen.setdefault((tenant, model), _Seen())
        seen.start(services.database.read(tenant, lambda tx: tx.now))
        first, again = seen.floor, seen.again()
        look = _look(services, tenant, model, first)
        while not (due := again + seen.ready(look.numbers)) and not look.whole:
            first = look.top
            look = _look(services, tenant, model, first)
        lease = leases.claim(services.database, tenant, "embed", _LEASE_SECONDS) if due else None
        if due and lease is None:
            return Done(left=len(due))
        if lease:  # who had it before may have done all of this a moment ago
            look = _look(services, tenant, model, first)
            due = again + seen.ready(look.numbers)
        total, renewed = Done(), time.monotonic()
        try:
            while lease:
                for start in range(0, len(due), BATCH):
                    if time.monotonic() - renewed > _LEASE_SECONDS / 3:
                        if not leases.renew(services.database, lease, _LEASE_SECONDS):
                            return total + Done(left=len(due) - start)  # somebody else goes on
                        renewed = time.monotonic()
                    total += _embed(
                        services, tenant, embedder, model, due[start : start + BATCH], seen
                    )
                    if progress:
                        progress(min(start + BATCH, len(due)), len(due))
                if look.whole:
                    break
                look = _look(services, tenant, model, look.top)
                due = seen.ready(look.numbers)
            seen.reached.append((look.now, look.top))
            if total.done and not seen.failing:
                services.database.write(
                    tenant, lambda tx: tx.run(_FINISHED, at=look.now), idempotent=True
                )
        finally:
            with suppress(StorageError):  # it runs out by itself
                if lease:
                    leases.release(services.database, lease)
        return total + Done(left=len(seen.failing) - total.failed)


class _Look(NamedTuple):
    """The numbers of rows without a vector, oldest first, up to the number `top`; `whole` if that is the last there is."""

    now: int
    numbers: list[int]
    top: int
    whole: bool


def _lacking(tx: Transaction, model: _Model, above: int) -> _Look:
    rows = [int(row[0]) for row in tx.all(_ROWS, above=above, most=_IN_ONE_READ)]
    top = rows[-1] if rows else above
    made = {
        row[0]
        for row in tx.all(_MADE, model=model.name, dimension=model.dimension, above=above, top=top)
    }
    return _Look(
        tx.now,
        [number for number in rows if number not in made],
        top,
        whole=len(rows) < _IN_ONE_READ,
    )


def _look(services: Services, tenant: str, model: _Model, above: int) -> _Look:
    return services.database.read(tenant, lambda tx: _lacking(tx, model, above), long=True)


def _embed(
    services: Services,
    tenant: str,
    embedder: Embedder,
    model: _Model,
    numbers: Sequence[int],
    seen: _Seen,
) -> Done:
    """Read some rows, embed them, and keep the vectors of those that are still there."""
    rows = services.database.read(tenant, lambda tx: services.index.engine.items(tx, numbers))
    for number in numbers:
        if number not in rows:
            seen.failing.pop(number, None)
    if not rows:
        return Done()
    made = _made(embedder, [embedding_text(row.title, row.text) for row in rows.values()])
    good = [
        (number, *one)
        for number, one in zip(rows, made, strict=True)
        if not isinstance(one, ModelError)
    ]
    services.database.write(
        tenant, lambda tx: services.index.put_vectors(tx, model.name, good), idempotent=True
    )
    for number, *_ in good:
        seen.failing.pop(number, None)
    total = Done(done=len(good))
    for row, one in zip(rows.values(), made, strict=True):
        if isinstance(one, ModelError):
            seen.failed(row.number)
            total += Done(failed=1, errors=(f"tenant {tenant}, {_named(row)}: {one}",))
    return total


def _named(row: Item) -> str:
    return f"{row.kind} {row.id}" + (f" {row.seq}" if row.seq else "")


def _made(embedder: Embedder, texts: Sequence[str]) -> list[tuple[float, bytes] | ModelError]:
    """What becomes of each text; an embedder that fails with the plainest text too, fails with all, and that is raised."""
    try:
        return list(quantise(embed_texts(embedder, texts)))
    except ModelError:
        embed_texts(embedder, ["hello"])
        return _halved(embedder, texts)


def _halved(embedder: Embedder, texts: Sequence[str]) -> list[tuple[float, bytes] | ModelError]:
    """The same, one half after the other, until the texts that fail are alone."""
    half = len(texts) // 2
    found: list[tuple[float, bytes] | ModelError] = []
    for part in (texts[:half], texts[half:]):
        try:
            found += quantise(embed_texts(embedder, part))
        except ModelError as error:
            found += [error] if len(part) == 1 else _halved(embedder, part)
    return found
