"""Compute the missing vectors of index rows, in batches, outside any transaction.

A text that cannot be embedded does not stop the others: it stays searchable by its words, is
counted, and is retried. With another embedder everything is due again; the old vectors stay,
unused, until the new ones exist.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from retain.base import clock
from retain.base.errors import ModelError, SettingsError, StorageError
from retain.jobs.job import JobResult, Progress
from retain.kinds.kind import Owner, Services
from retain.search.embedders import (
    Embedder,
    PassageEmbedder,
    embed_passages,
    embed_texts,
    embedding_text,
    quantise,
)
from retain.search.onnx_embedder import PACKAGE, Passage
from retain.search.search_engine import Engine, Item
from retain.storage import leases
from retain.storage.database import Transaction

BATCH_SIZE = 256
NUMBERS_PER_READ = 200_000  # numbers of rows
LEASE_SECONDS = 120.0
COMMIT_MARGIN = 5 * clock.MINUTE  # a transaction may commit a row after rows with higher numbers
RESCAN_AFTER = 60 * clock.MINUTE  # then all rows are scanned again, for even slower transactions
FIRST_RETRY_SECONDS = 30.0
MAX_RETRY_SECONDS = 3600.0
MAX_FAILING = 10_000
# Two lists, compared in Python: a server without statistics would join them in quadratic time.
_ROW_NUMBERS = "select number from search_items where tenant = :tenant and number > :above order by number limit :limit"
_VECTOR_NUMBERS = """select number from search_vectors where tenant = :tenant and model = :model and length(vector) = :dimension
           and number > :above and number <= :top"""
_ROW_TIME = "select at from search_items where tenant = :tenant and number = :number"
_LAST_COMPLETE = "select at from search_embedded where tenant = :tenant"
_SET_LAST_COMPLETE = """insert into search_embedded (tenant, at) values (:tenant, :at)
               on conflict (tenant) do update set at = excluded.at where search_embedded.at < excluded.at"""
_ENCODER_VECTOR = f"""select 1 from search_vectors
    where tenant = :tenant and model >= '{PACKAGE}-' and model < '{PACKAGE}.' limit 1"""
_ROW_COUNTS = """select (select count(*) from search_items where tenant = :tenant)
                 - (select count(*) from search_vectors
                    where tenant = :tenant and model = :model and length(vector) = :dimension)"""


@dataclass(frozen=True)
class Lag:
    """The number of rows without a vector, and how long the first of them has waited at most.

    It waits since its own time or since the last moment without missing vectors, whichever is
    later: a row does not say when it was written, and may be old but just imported.
    """

    pending: int
    seconds: float = 0.0
    identity: str = ""


class _Model(NamedTuple):
    """The name and the length of vectors that can be compared with each other."""

    name: str
    dimension: int


def lag(services: Services, tenant: str) -> Lag:
    """Return how far the vectors of a tenant are behind; without an embedder nothing is."""
    if services.embedder is None:
        return Lag(0)
    model = _Model(services.embedder.identity, services.embedder.dimensions)

    def work(tx: Transaction) -> Lag:
        (pending,) = tx.one(_ROW_COUNTS, model=model.name, dimension=model.dimension) or (0,)
        if not pending:
            return Lag(0, 0.0, model.name)
        look = _lacking(tx, model, 0)
        while not look.numbers and not look.is_last:
            look = _lacking(tx, model, look.top)
        (oldest,) = (tx.one(_ROW_TIME, number=look.numbers[0]) if look.numbers else None) or (
            tx.now,
        )
        (last,) = tx.one(_LAST_COMPLETE) or (oldest,)
        return Lag(pending, max(0, tx.now - max(oldest, last)) / clock.SECOND, model.name)

    return services.database.read(tenant, work, long=True)


@dataclass
class _TenantProgress:
    """The progress in one tenant with one embedder: the last completed number, and failures.

    Rows are not committed in the order of their numbers, so the floor follows minutes later.
    """

    floor: int = 0
    since: int = 0
    reached: list[tuple[int, int]] = field(default_factory=list)
    failing: dict[int, tuple[int, float]] = field(default_factory=dict)

    def start(self, now: int) -> None:
        """Move the floor as far as it is safe, or back to 0 after an hour."""
        if now - self.since > RESCAN_AFTER or len(self.failing) > MAX_FAILING:
            self.floor = 0
            self.since = now
            self.reached = []
            self.failing = {}
        while self.reached and self.reached[0][0] <= now - COMMIT_MARGIN:
            self.floor = max(self.floor, self.reached.pop(0)[1])

    def again(self) -> list[int]:
        """Return the failed rows below the floor that may be retried now."""
        return [
            number for number in self.failing if number <= self.floor and not self.waits(number)
        ]

    def ready(self, numbers: Sequence[int]) -> list[int]:
        """Return the rows that may be tried now."""
        return [number for number in numbers if not self.waits(number)]

    def failed(self, number: int) -> None:
        """Remember a failure; each retry waits longer."""
        tries = self.failing.get(number, (0, 0.0))[0]
        self.failing[number] = (
            tries + 1,
            time.monotonic() + min(FIRST_RETRY_SECONDS * 2**tries, MAX_RETRY_SECONDS),
        )

    def waits(self, number: int) -> bool:
        """Return whether it is too early to retry a row."""
        return number in self.failing and time.monotonic() < self.failing[number][1]


class EmbedJob:
    """The job; it remembers per tenant what need not be scanned again."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, _Model], _TenantProgress] = {}

    def run(
        self, services: Services, tenant: str, since: int = 0, progress: Progress | None = None
    ) -> JobResult:
        """Embed the due rows of a tenant; `since` is not used."""
        embedder = services.embedding(Owner(tenant))
        if embedder is None or _keeps_encoder(services, tenant, embedder):
            return JobResult()
        try:
            model = _Model(embedder.identity, embedder.dimensions)
            return self._round(services, tenant, embedder, model, progress)
        except (ModelError, SettingsError) as error:  # nothing can be embedded now
            return JobResult(failed=1, left=1, errors=(f"tenant {tenant}: {error}",))

    def _round(
        self,
        services: Services,
        tenant: str,
        embedder: Embedder,
        model: _Model,
        progress: Progress | None,
    ) -> JobResult:
        seen = self._seen.setdefault((tenant, model), _TenantProgress())
        seen.start(services.database.read(tenant, lambda tx: tx.now))
        first = seen.floor
        again = seen.again()
        look = _scan(services, tenant, model, first)
        while not (due := again + seen.ready(look.numbers)) and not look.is_last:
            first = look.top
            look = _scan(services, tenant, model, first)
        lease = leases.claim(services.database, tenant, "embed", LEASE_SECONDS) if due else None
        if due and lease is None:
            return JobResult(left=len(due))
        if lease:  # the previous holder may have just done all of this
            look = _scan(services, tenant, model, first)
            due = again + seen.ready(look.numbers)
        total = JobResult()
        renewed = time.monotonic()
        try:
            while lease:
                for start in range(0, len(due), BATCH_SIZE):
                    if time.monotonic() - renewed > LEASE_SECONDS / 3:
                        if not leases.renew(services.database, lease, LEASE_SECONDS):
                            return total + JobResult(
                                left=len(due) - start
                            )  # another process continues
                        renewed = time.monotonic()
                    total += _embed(
                        services, tenant, embedder, model, due[start : start + BATCH_SIZE], seen
                    )
                    if progress:
                        progress(min(start + BATCH_SIZE, len(due)), len(due))
                if look.is_last:
                    break
                look = _scan(services, tenant, model, look.top)
                due = seen.ready(look.numbers)
            seen.reached.append((look.now, look.top))
            if total.done and not seen.failing:
                services.database.write(
                    tenant, lambda tx: tx.run(_SET_LAST_COMPLETE, at=look.now), idempotent=True
                )
        finally:
            with suppress(StorageError):  # the lease expires by itself
                if lease:
                    leases.release(services.database, lease)
        return total + JobResult(left=len(seen.failing) - total.failed)


def embed_records(services: Services, tenant: str, kind: str, ids: Sequence[str]) -> None:
    """Embed a few records now instead of in the next run of the job, which does what fails here."""
    embedder = services.embedding(Owner(tenant))
    if embedder is None or _keeps_encoder(services, tenant, embedder):
        return
    model = _Model(embedder.identity, embedder.dimensions)
    select = "select number from search_items where tenant = :tenant and kind = :kind and id = :id"

    def read_numbers(tx: Transaction) -> list[int]:
        return [int(row[0]) for id in ids for row in tx.all(select, kind=kind, id=id)]

    numbers = services.database.read(tenant, read_numbers)
    if numbers:
        with suppress(ModelError, SettingsError):
            _embed(services, tenant, embedder, model, numbers, _TenantProgress())


def _keeps_encoder(services: Services, tenant: str, embedder: Embedder) -> bool:
    """Return whether the vectors of the encoder must not be replaced by static ones.

    With `embedder: auto`, a process without the encoder may share the database with one that has
    it, such as a server. It then finds by words, and leaves the vectors to the other.
    """
    if services.settings.embedder != "auto" or embedder.family != "static":
        return False
    return services.database.read(tenant, lambda tx: tx.one(_ENCODER_VECTOR)) is not None


class _Scan(NamedTuple):
    """The rows without a vector, oldest first, up to `top`; `is_last` if that is the last row."""

    now: int
    numbers: list[int]
    top: int
    is_last: bool


def _lacking(tx: Transaction, model: _Model, above: int) -> _Scan:
    rows = [int(row[0]) for row in tx.all(_ROW_NUMBERS, above=above, limit=NUMBERS_PER_READ)]
    top = rows[-1] if rows else above
    embedded = {
        row[0]
        for row in tx.all(
            _VECTOR_NUMBERS, model=model.name, dimension=model.dimension, above=above, top=top
        )
    }
    return _Scan(
        tx.now,
        [number for number in rows if number not in embedded],
        top,
        is_last=len(rows) < NUMBERS_PER_READ,
    )


def _scan(services: Services, tenant: str, model: _Model, above: int) -> _Scan:
    return services.database.read(tenant, lambda tx: _lacking(tx, model, above), long=True)


def _embed(
    services: Services,
    tenant: str,
    embedder: Embedder,
    model: _Model,
    numbers: Sequence[int],
    seen: _TenantProgress,
) -> JobResult:
    """Read rows, embed them, and store the vectors of those that still exist."""
    engine = services.index.engine
    reads_passages = isinstance(embedder, PassageEmbedder)

    def read(tx: Transaction) -> tuple[dict[int, Item], dict[int, Item]]:
        rows = engine.items(tx, numbers)
        return rows, _predecessors(tx, engine, list(rows.values())) if reads_passages else {}

    rows, predecessors = services.database.read(tenant, read)
    for number in numbers:
        if number not in rows:
            seen.failing.pop(number, None)
    if not rows:
        return JobResult()
    passages = [
        _passage(row, predecessors.get(number)) if reads_passages else Passage(_text(row))
        for number, row in rows.items()
    ]
    vectors = _embed_each(embedder, passages)
    stored = [
        (number, *vector)
        for number, vector in zip(rows, vectors, strict=True)
        if not isinstance(vector, ModelError)
    ]

    def write(tx: Transaction) -> None:
        # A vector must not bring back a message that was removed while this was computed.
        existing = engine.items(tx, [row.number for row in predecessors.values()])
        valid = [
            vector
            for vector in stored
            if vector[0] not in predecessors or predecessors[vector[0]].number in existing
        ]
        services.index.put_vectors(tx, model.name, valid)

    services.database.write(tenant, write, idempotent=True)
    for number, *_ in stored:
        seen.failing.pop(number, None)
    total = JobResult(done=len(stored))
    for row, vector in zip(rows.values(), vectors, strict=True):
        if isinstance(vector, ModelError):
            seen.failed(row.number)
            total += JobResult(failed=1, errors=(f"tenant {tenant}, {_named(row)}: {vector}",))
    return total


def _predecessors(tx: Transaction, engine: Engine, rows: Sequence[Item]) -> dict[int, Item]:
    """Return the message before each message, by the number of its row; of a long one, the start."""
    messages = [row for row in rows if row.kind == "messages"]
    if not messages:
        return {}
    around = [*messages, *engine.around(tx, messages, 1)]
    by_seq = {(row.id, row.seq): row for row in around if row.part == 0}
    return {
        row.number: by_seq[row.id, row.seq - 1]
        for row in messages
        if (row.id, row.seq - 1) in by_seq
    }


def _passage(row: Item, predecessor: Item | None) -> Passage:
    if row.kind != "messages":
        return Passage(_text(row))
    return Passage(row.text, row.author or row.role, predecessor.text if predecessor else "")


def _text(row: Item) -> str:
    return embedding_text(row.title, row.text)


def _named(row: Item) -> str:
    return f"{row.kind} {row.id}" + (f" {row.seq}" if row.seq else "")


def _embed_each(
    embedder: Embedder, passages: Sequence[Passage]
) -> list[tuple[float, bytes] | ModelError]:
    """Return a vector or an error for each passage; raise if even a plain text fails."""
    try:
        return list(quantise(embed_passages(embedder, passages)))
    except ModelError:
        embed_texts(embedder, ["hello"])
        return _embed_halves(embedder, passages)


def _embed_halves(
    embedder: Embedder, passages: Sequence[Passage]
) -> list[tuple[float, bytes] | ModelError]:
    """Embed half by half, until only the passages that fail are left."""
    half = len(passages) // 2
    vectors: list[tuple[float, bytes] | ModelError] = []
    for part in (passages[:half], passages[half:]):
        try:
            vectors += quantise(embed_passages(embedder, part))
        except ModelError as error:
            vectors += [error] if len(part) == 1 else _embed_halves(embedder, part)
    return vectors
