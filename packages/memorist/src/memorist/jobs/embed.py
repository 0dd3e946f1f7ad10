"""Compute the missing vectors of index rows, in batches, outside any transaction.

A text that cannot be embedded does not stop the others: it stays searchable by its words, is
counted, and is retried. With another embedder everything is due again; the old vectors stay,
unused, until the new ones exist.

The table `search_embedded` has a mark for each tenant: rows up to its number have vectors, except
those in `search_failures`. So a run reads only the rows after the mark. Vectors that were lost
below it are found by `verify`, and computed again after `reindex`, which removes the mark.
"""

from __future__ import annotations

import time
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from memorist.base import clock
from memorist.base.errors import ModelError, SettingsError, StorageError
from memorist.jobs.job import JobResult, Progress
from memorist.kinds.kind import Owner, Services
from memorist.search.embedders import (
    Embedder,
    PassageEmbedder,
    embed_passages,
    embed_texts,
    embedding_text,
    quantise,
)
from memorist.search.onnx_embedder import PACKAGE, EmbedderInput
from memorist.search.retrieval import IndexReader
from memorist.search.search_engine import IndexRow
from memorist.storage import leases
from memorist.storage.database import Transaction

BATCH_SIZE = 256
NUMBERS_PER_READ = 200_000  # numbers of rows
LEASE_SECONDS = 120.0
MARK_ROWS = 1000
"""A run without due work moves the mark only if it is at least this many rows behind."""
FIRST_RETRY_SECONDS = 30.0
MAX_RETRY_SECONDS = 3600.0
_ENCODER_VECTOR = f"""select 1 from search_vectors
    where tenant = :tenant and model >= '{PACKAGE}-' and model < '{PACKAGE}.' limit 1"""
_MARK_MODEL = "select model from search_embedded where tenant = :tenant"


@dataclass(frozen=True)
class Lag:
    """The number of rows without a vector, and how long the first of them has waited at most.

    It waits since its own time or since the last moment without missing vectors, whichever is
    later: a row does not say when it was written, and may be old but just imported.
    """

    pending: int
    seconds: float = 0.0
    identity: str = ""


class _VectorModel(NamedTuple):
    """The name and the length of vectors that can be compared with each other."""

    name: str
    dimension: int

    def __str__(self) -> str:
        return f"{self.name} {self.dimension}"


class _VectorMark(NamedTuple):
    """The row up to which vectors are complete."""

    number: int = 0
    next_number: int = 0
    next_transaction: int = 0

    def moved(self, after: int, top: int, snapshot: tuple[int, int]) -> _VectorMark:
        """Return the mark after the rows from `after` to `top` in a snapshot were looked at.

        A transaction that runs meanwhile may still commit a row with a lower number. So the mark
        moves to the top of an earlier look, before which all running transactions have ended.
        """
        oldest, newest = snapshot
        if after > self.number:  # rows between them may have appeared since an earlier look
            return self
        if oldest == newest:
            return _VectorMark(top)
        # A transaction after the newest one is from the server of which this one is a copy.
        if self.next_transaction <= oldest or self.next_transaction > newest:
            return _VectorMark(max(self.number, min(self.next_number, top)), top, newest)
        return self


@dataclass(frozen=True)
class _Look:
    """A look at the rows after a number: those without a vector, and failed ones to retry."""

    now: int
    mark: _VectorMark
    snapshot: tuple[int, int]
    after: int
    numbers: list[int]
    retries: list[int]
    top: int
    is_last: bool
    failed: int  # rows in `search_failures`

    @property
    def due(self) -> list[int]:
        return self.retries + self.numbers


class _Superseded(Exception):
    """Raised when another process embeds the tenant with another model."""


def lag(services: Services, tenant: str) -> Lag:
    """Return how far the vectors of a tenant are behind; zero if this process computes none."""
    embedder = services.embedder
    if embedder is None or _keeps_encoder(services, tenant, embedder):
        return Lag(0)
    engine = services.index.engine
    model = _VectorModel(embedder.identity, embedder.dimensions)

    def work(tx: Transaction) -> Lag:
        look = _look(tx, engine, model)
        pending = look.failed
        first = None
        if look.failed:
            (first,) = tx.one("select min(number) from search_failures where tenant = :tenant") or (
                None,
            )
        while True:
            pending += len(look.numbers)
            if first is None and look.numbers:
                first = look.numbers[0]
            if look.is_last:
                break
            look = _look(tx, engine, model, look.top)
        if first is None:
            return Lag(0, 0.0, model.name)
        (oldest,) = tx.one(
            "select at from search_items where tenant = :tenant and number = :number", number=first
        ) or (tx.now,)
        (last,) = tx.one("select at from search_embedded where tenant = :tenant") or (oldest,)
        return Lag(pending, max(0, tx.now - max(oldest, last)) / clock.SECOND, model.name)

    return services.database.read(tenant, work, long=True)


class EmbedJob:
    """The job; its first run in a tenant also retries the rows that failed a moment ago."""

    def __init__(self) -> None:
        self._started: set[tuple[str, _VectorModel]] = set()

    def run(self, services: Services, tenant: str, progress: Progress | None = None) -> JobResult:
        """Embed the due rows of a tenant."""
        embedder = services.embedding(Owner(tenant))
        if embedder is None or _keeps_encoder(services, tenant, embedder):
            return JobResult()
        try:
            model = _VectorModel(embedder.identity, embedder.dimensions)
            return self._round(services, tenant, embedder, model, progress)
        except (ModelError, SettingsError) as error:  # nothing can be embedded now
            return JobResult(failed=1, left=1, errors=(f"tenant {tenant}: {error}",))

    def _round(
        self,
        services: Services,
        tenant: str,
        embedder: Embedder,
        model: _VectorModel,
        progress: Progress | None,
    ) -> JobResult:
        database = services.database
        engine = services.index.engine
        retry_all = (tenant, model) not in self._started
        self._started.add((tenant, model))

        def look_after(after: int | None) -> _Look:
            return database.read(
                tenant, lambda tx: _look(tx, engine, model, after, retry_all), long=True
            )

        look = look_after(None)
        while not look.due and not look.is_last:
            database.write(tenant, partial(_skip, model=model, look=look), idempotent=True)
            look = look_after(look.top)
        if not look.due:
            if look.top - look.mark.number >= MARK_ROWS:
                database.write(tenant, partial(_skip, model=model, look=look), idempotent=True)
            return JobResult(left=look.failed)
        lease = leases.claim(database, tenant, "embed", LEASE_SECONDS)
        if lease is None:
            return JobResult(left=len(look.due))
        total = JobResult()
        renewed = time.monotonic()
        try:
            database.write(tenant, lambda tx: _start(tx, model), idempotent=True)
            # The previous holder may have just done all of this.
            look = look_after(None if look.retries else look.after)
            while True:
                due = look.due
                for start in range(0, len(due), BATCH_SIZE):
                    if time.monotonic() - renewed > LEASE_SECONDS / 3:
                        if not leases.renew(database, lease, LEASE_SECONDS):
                            # another process continues
                            return total + JobResult(left=len(due) - start)
                        renewed = time.monotonic()
                    batch = due[start : start + BATCH_SIZE]
                    total += _embed(services, tenant, embedder, model, batch, set(look.retries))
                    if progress:
                        progress(min(start + BATCH_SIZE, len(due)), len(due))
                move = partial(_move_mark, model=model, look=look, is_progress=total.done > 0)
                left = database.write(tenant, move, idempotent=True)
                if look.is_last:
                    return total + JobResult(left=left - total.failed)
                look = look_after(look.top)
        except _Superseded:
            return total + JobResult(left=1)
        finally:
            with suppress(StorageError):  # the lease expires by itself
                leases.release(database, lease)


def reset(tx: Transaction) -> None:
    """Make the next run look at every row of the tenant."""
    tx.run("update search_embedded set model = '' where tenant = :tenant")


def _start(tx: Transaction, model: _VectorModel) -> None:
    """Begin from the first row if the mark is of another model."""
    changed = tx.run(
        """insert into search_embedded (tenant, at, model) values (:tenant, 0, :model)
           on conflict (tenant) do update
           set model = excluded.model, number = 0, next_number = 0, next_transaction = 0
           where search_embedded.model <> excluded.model""",
        model=str(model),
    )
    if changed:
        tx.run("delete from search_failures where tenant = :tenant")


def _skip(tx: Transaction, model: _VectorModel, look: _Look) -> None:
    """Move the mark behind rows that have all their vectors."""
    _start(tx, model)
    _move_mark(tx, model, look)


def _look(
    tx: Transaction,
    engine: IndexReader,
    model: _VectorModel,
    after: int | None = None,
    retry_all: bool = False,
) -> _Look:
    """Look at the next rows after a number, or after the mark."""
    mark, failed = _read_mark(tx, model)
    retries: list[int] = []
    if failed and after is None:
        rows = tx.all(
            """select number from search_failures
               where tenant = :tenant and retry_at <= :until order by retry_at limit :limit""",
            until=2**62 if retry_all else tx.now,
            limit=NUMBERS_PER_READ,
        )
        retries = [int(number) for (number,) in rows]
    start = mark.number if after is None else after
    missing = engine.without_vector(tx, model.name, model.dimension, start, NUMBERS_PER_READ)
    waiting = _failed_among(tx, missing.numbers) if failed else set()
    return _Look(
        now=tx.now,
        mark=mark,
        snapshot=engine.snapshot(tx),
        after=start,
        numbers=[number for number in missing.numbers if number not in waiting],
        retries=retries,
        top=missing.top,
        is_last=missing.is_last,
        failed=failed,
    )


def _failed_among(tx: Transaction, numbers: Sequence[int]) -> set[int]:
    """Return which rows are in `search_failures`; they are retried in their own time."""
    if not numbers:
        return set()
    rows = tx.all(
        """select number from search_failures
           where tenant = :tenant and number >= :first and number <= :last""",
        first=numbers[0],
        last=numbers[-1],
    )
    return {int(number) for (number,) in rows}


def _read_mark(tx: Transaction, model: _VectorModel) -> tuple[_VectorMark, int]:
    """Return the mark of a model, and the number of failed rows."""
    row = tx.one(
        """select number, next_number, next_transaction,
               (select count(*) from search_failures where tenant = :tenant)
           from search_embedded where tenant = :tenant and model = :model""",
        model=str(model),
    )
    if row is None:
        return _VectorMark(), 0
    *mark, failed = row
    return _VectorMark(*mark), failed


def _move_mark(tx: Transaction, model: _VectorModel, look: _Look, is_progress: bool = False) -> int:
    """Move the mark behind the rows that were looked at; return the number of failed rows.

    If nothing failed and `is_progress`, the tenant is complete since the look.
    """
    mark = look.mark.moved(look.after, look.top, look.snapshot)
    (failed,) = tx.one("select count(*) from search_failures where tenant = :tenant") or (0,)
    is_complete = is_progress and look.is_last and not failed
    tx.run(
        """insert into search_embedded
               (tenant, at, model, number, next_number, next_transaction)
           values (:tenant, :at, :model, :number, :next_number, :next_transaction)
           on conflict (tenant) do update
           set number = excluded.number, next_number = excluded.next_number,
               next_transaction = excluded.next_transaction,
               at = case when search_embedded.at < excluded.at then excluded.at
                         else search_embedded.at end
           where search_embedded.model = excluded.model
           and search_embedded.number = :old_number""",
        at=look.now if is_complete else 0,
        model=str(model),
        old_number=look.mark.number,
        **mark._asdict(),
    )
    return int(failed)


def embed_records(services: Services, tenant: str, kind: str, ids: Sequence[str]) -> None:
    """Embed a few records now instead of in the next run of the job, which does what fails here."""
    embedder = services.embedding(Owner(tenant))
    if embedder is None or _keeps_encoder(services, tenant, embedder):
        return
    model = _VectorModel(embedder.identity, embedder.dimensions)
    select = "select number from search_items where tenant = :tenant and kind = :kind and id = :id"

    def read_numbers(tx: Transaction) -> list[int]:
        return [int(row[0]) for id in ids for row in tx.all(select, kind=kind, id=id)]

    numbers = services.database.read(tenant, read_numbers)
    if numbers:
        with suppress(ModelError, SettingsError, _Superseded):
            _embed(services, tenant, embedder, model, numbers)


def _keeps_encoder(services: Services, tenant: str, embedder: Embedder) -> bool:
    """Return whether the vectors of the encoder must not be replaced by static ones.

    With `embedder: auto`, a process without the encoder may share the database with one that has
    it, such as a server. It then finds by words, and leaves the vectors to the other.
    """
    if services.settings.embedder != "auto" or embedder.family != "static":
        return False
    return services.database.read(tenant, lambda tx: tx.one(_ENCODER_VECTOR)) is not None


def _embed(
    services: Services,
    tenant: str,
    embedder: Embedder,
    model: _VectorModel,
    numbers: Sequence[int],
    retries: Set[int] = frozenset(),
) -> JobResult:
    """Read rows, embed them, and store the vectors of those that still exist.

    retries: rows that have failed before
    """
    engine = services.index.engine
    reads_passages = isinstance(embedder, PassageEmbedder)

    def read(tx: Transaction) -> tuple[dict[int, IndexRow], dict[int, IndexRow]]:
        rows = engine.items(tx, numbers)
        return rows, _predecessors(tx, engine, list(rows.values())) if reads_passages else {}

    rows, predecessors = services.database.read(tenant, read)
    passages = [
        _passage(row, predecessors.get(number)) if reads_passages else EmbedderInput(_text(row))
        for number, row in rows.items()
    ]
    vectors = _embed_each(embedder, passages) if passages else []
    stored = [
        (number, *vector)
        for number, vector in zip(rows, vectors, strict=True)
        if not isinstance(vector, ModelError)
    ]
    errors = {
        number: vector
        for number, vector in zip(rows, vectors, strict=True)
        if isinstance(vector, ModelError)
    }

    def write(tx: Transaction) -> None:
        tx.lock_rows("select 1 from search_embedded where tenant = :tenant")
        (marked,) = tx.one(_MARK_MODEL) or ("",)
        if marked not in ("", str(model)):
            raise _Superseded
        # A vector must not bring back a message that was removed while this was computed.
        existing = engine.items(tx, [row.number for row in predecessors.values()])
        valid = [
            vector
            for vector in stored
            if vector[0] not in predecessors or predecessors[vector[0]].number in existing
        ]
        services.index.put_vectors(tx, model.name, valid)
        outdated = {vector[0] for vector in stored} - {vector[0] for vector in valid}
        done = [number for number in numbers if number in retries and number not in errors]
        tx.many(
            "delete from search_failures where tenant = :tenant and number = :number",
            [{"number": number} for number in done],
        )
        for number in sorted(outdated):
            _add_failure(tx, number, 0.0)
        for number in errors:
            _add_failure(tx, number, FIRST_RETRY_SECONDS)

    services.database.write(tenant, write, idempotent=True)
    total = JobResult(done=len(stored))
    for number, error in errors.items():
        problem = f"tenant {tenant}, {_named(rows[number])}: {error}"
        total += JobResult(failed=1, errors=(problem,))
    return total


def _add_failure(tx: Transaction, number: int, first_seconds: float) -> None:
    """Remember a row that has no vector; each retry waits twice as long as the one before."""
    (tries,) = tx.one(
        "select tries from search_failures where tenant = :tenant and number = :number",
        number=number,
    ) or (0,)
    seconds = min(first_seconds * 2 ** min(tries, 20), MAX_RETRY_SECONDS)
    tx.run(
        """insert into search_failures (tenant, number, tries, retry_at)
           values (:tenant, :number, :tries, :retry_at)
           on conflict (tenant, number) do update
           set tries = excluded.tries, retry_at = excluded.retry_at""",
        number=number,
        tries=tries + 1,
        retry_at=tx.now + round(seconds * clock.SECOND),
    )


def _predecessors(
    tx: Transaction, engine: IndexReader, rows: Sequence[IndexRow]
) -> dict[int, IndexRow]:
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


def _passage(row: IndexRow, predecessor: IndexRow | None) -> EmbedderInput:
    if row.kind != "messages":
        return EmbedderInput(_text(row))
    return EmbedderInput(row.text, row.author or row.role, predecessor.text if predecessor else "")


def _text(row: IndexRow) -> str:
    return embedding_text(row.title, row.text)


def _named(row: IndexRow) -> str:
    return f"{row.kind} {row.id}" + (f" {row.seq}" if row.seq else "")


def _embed_each(
    embedder: Embedder, passages: Sequence[EmbedderInput]
) -> list[tuple[float, bytes] | ModelError]:
    """Return a vector or an error for each passage; raise if even a plain text fails."""
    try:
        return list(quantise(embed_passages(embedder, passages)))
    except ModelError:
        embed_texts(embedder, ["hello"])
        return _embed_halves(embedder, passages)


def _embed_halves(
    embedder: Embedder, passages: Sequence[EmbedderInput]
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
