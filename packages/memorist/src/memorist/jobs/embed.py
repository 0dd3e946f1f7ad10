"""Compute the missing vectors of indexed documents, in batches, outside any transaction.

A text that cannot be embedded does not stop the others: it stays searchable by its words, is
counted, and is retried. With another embedder everything is due again; the old vectors stay until
an owner has all of the new ones.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from memorist.base import clock
from memorist.base.errors import ModelError, SettingsError, StorageError
from memorist.jobs.index_owners import index_owners, owners_of
from memorist.jobs.job import JobResult, Progress
from memorist.kinds.kind import Owner, Services
from memorist.search import vectors
from memorist.search.block import DocumentBlock, DocumentKey
from memorist.search.embedders import (
    Embedder,
    PassageEmbedder,
    embed_passages,
    embed_texts,
    embedding_text,
    quantise,
)
from memorist.search.fresh import documents_of
from memorist.search.indexer import add_vectors, lock_owner, remove_vectors
from memorist.search.onnx_embedder import PACKAGE, EmbedderInput
from memorist.search.owner_index import OWNER, OwnerIndex, read_state
from memorist.search.search_document import SearchDocument
from memorist.search.segment import content_checksum
from memorist.search.vectors import MAX_VECTORS_PER_ROW, VectorRows
from memorist.storage import leases
from memorist.storage.database import Transaction

BATCH_SIZE = 256
SMALL_ROW = 32
"""New vectors join a row with fewer; eight rows with fewer than the maximum become one."""
MAX_SMALL_ROWS = 8
OWNERS_PER_READ = 200
LEASE_SECONDS = 120.0
FIRST_RETRY_SECONDS = 30.0
MAX_RETRY_SECONDS = 3600.0
MAX_TRIES = 20
_DUE = """select owner from index_owners where tenant = :tenant and embedded <> :model and owner > :after
    union select owner from index_failures
    where tenant = :tenant and retry_at <= :until and owner > :after
    order by 1 limit :limit"""
_LAG = """select count(*), coalesce(sum(case when embedded = '' then documents - vectors else documents end), 0),
        min(changed_at)
    from index_owners where tenant = :tenant and embedded <> :model"""
_FRESH_MESSAGES = """select coalesce(sum(last_seq - first_seq + 1), 0), min(created_at) from (
        select fresh_sessions.first_seq, created_at, (
            select max(seq) from messages latest
            where latest.tenant = :tenant and latest.session_id = fresh_sessions.session_id) last_seq
        from fresh_sessions
        left join messages on messages.tenant = :tenant
            and messages.session_id = fresh_sessions.session_id
            and messages.seq = fresh_sessions.first_seq
        where fresh_sessions.tenant = :tenant) fresh
    where last_seq >= first_seq"""
_COUNT_FRESH_RECORDS = "select count(*) from fresh_records where tenant = :tenant"
_LAST_CHANGE = "select max(changed_at) from index_owners where tenant = :tenant"
_ENCODER = f"""select 1 from index_owners
    where tenant = :tenant and embedded >= '{PACKAGE}-' and embedded < '{PACKAGE}.' limit 1"""
_ENCODER_VECTORS = f"""select 1 from index_vectors
    where tenant = :tenant and model >= '{PACKAGE}-' and model < '{PACKAGE}.' limit 1"""
_COUNT_FAILURES = "select count(*) from index_failures where tenant = :tenant"
_FAILED = """select count(*), min(changed_at) from index_failures
    join index_owners on index_owners.tenant = :tenant and index_owners.owner = index_failures.owner
    where index_failures.tenant = :tenant"""
_FAILURES = """select number, tries, retry_at from index_failures
    where tenant = :tenant and owner = :owner"""
_SET_FAILURE = """insert into index_failures (tenant, owner, number, tries, retry_at)
    values (:tenant, :owner, :number, :tries, :retry_at)
    on conflict (tenant, owner, number) do update
    set tries = excluded.tries, retry_at = excluded.retry_at"""
_REMOVE_FAILURE = """delete from index_failures
    where tenant = :tenant and owner = :owner and number = :number"""
_CHANGED_SESSION = """select 1 from fresh_records
    where tenant = :tenant and owner = :owner and kind = 'messages' and id = :session limit 1"""
_SET_OWNER = """update index_owners set generation = generation + 1, embedded = :embedded, vectors = :vectors
    where tenant = :tenant and owner = :owner"""
_REMOVE_OTHER_MODELS = """delete from index_vectors
    where tenant = :tenant and owner = :owner and model <> :model"""


@dataclass(frozen=True)
class Lag:
    """The number of documents without a vector, and an upper bound of the longest wait.

    A record that was changed or removed counts as one until it is indexed.
    """

    pending: int
    seconds: float = 0.0
    identity: str = ""


class _Failure(NamedTuple):
    """A document that could not be embedded."""

    tries: int
    retry_at: int


class _Unembedded(NamedTuple):
    """A document without a vector: its place in a block."""

    block: DocumentBlock
    place: int

    @property
    def key(self) -> DocumentKey:
        """The name of the document."""
        return self.block.key(self.place)

    def is_content_of(self, document: SearchDocument) -> bool:
        """Return whether the index has the content of a document as it is now."""
        return int(self.block.columns["content"][self.place]) == content_checksum(document)


@dataclass(frozen=True)
class _Work:
    """An owner's documents without a vector, and the next ones to embed."""

    index: OwnerIndex
    missing: Sequence[int]
    """Numbers, without those that failed and wait."""
    batch: Mapping[int, SearchDocument]
    predecessors: Mapping[int, SearchDocument]
    unreadable: Sequence[int]
    """Numbers of documents whose records were not found."""
    failures: Mapping[int, _Failure]


def lag(services: Services, tenant: str) -> Lag:
    """Return how far the vectors of a tenant are behind; zero if this process computes none."""
    embedder = services.embedder
    if embedder is None or _keeps_encoder(services, tenant, embedder):
        return Lag(0)

    def work(tx: Transaction) -> Lag:
        owners, pending, changed = tx.one(_LAG, model=embedder.identity) or (0, 0, None)
        failed, failed_since = tx.one(_FAILED) or (0, None)
        (records,) = tx.one(_COUNT_FRESH_RECORDS) or (0,)
        messages, created = tx.one(_FRESH_MESSAGES) or (0, None)
        (last,) = tx.one(_LAST_CHANGE) or (None,)
        first = changed if owners else tx.now
        if failed:
            first = min(first, failed_since)
        if created is not None:  # messages can have times from before they were imported
            first = min(first, max(created, last or 0))
        count = max(int(pending), int(failed)) + int(messages) + int(records)
        return Lag(count, max(0, tx.now - first) / clock.SECOND, embedder.identity)

    return services.database.read(tenant, work, long=True)


class EmbedJob:
    """The job; its first run in a tenant also retries the documents that failed a moment ago."""

    def __init__(self) -> None:
        self._started: set[tuple[str, str]] = set()

    def run(self, services: Services, tenant: str, progress: Progress | None = None) -> JobResult:
        """Embed the due documents of a tenant."""
        embedder = services.embedding(Owner(tenant))
        if embedder is None or _keeps_encoder(services, tenant, embedder):
            return JobResult()
        retry_all = (tenant, embedder.identity) not in self._started
        self._started.add((tenant, embedder.identity))
        database = services.database
        until = 2**62 if retry_all else None

        def due(tx: Transaction, after: str = "", limit: int = OWNERS_PER_READ) -> list[str]:
            moment = tx.now if until is None else until
            values = {"after": after, "until": moment, "limit": limit}
            return [owner for (owner,) in tx.all(_DUE, model=embedder.identity, **values)]

        if not database.read(tenant, lambda tx: due(tx, limit=1)):
            return JobResult(left=_count_failures(services, tenant))
        lease = leases.claim(database, tenant, "embed", LEASE_SECONDS)
        if lease is None:
            return JobResult(left=1)
        embedding = _Embedding(services, tenant, embedder, lease, progress, until)
        after = ""
        try:
            while owners := database.read(tenant, lambda tx, after=after: due(tx, after)):  # type: ignore[misc]
                for owner in owners:
                    if not embedding.embed_owner(owner):
                        return embedding.total + JobResult(left=1)  # another process continues
                after = owners[-1]
        except (ModelError, SettingsError) as error:  # nothing can be embedded now
            problem = f"tenant {tenant}: {error}"
            return embedding.total + JobResult(failed=1, left=1, errors=(problem,))
        finally:
            with suppress(StorageError):  # the lease expires by itself
                leases.release(database, lease)
        left = _count_failures(services, tenant)
        return embedding.total + JobResult(left=max(left - embedding.total.failed, 0))


def embed_records(services: Services, tenant: str, kind: str, ids: Sequence[str]) -> None:
    """Index and embed a few records now instead of in the next run of the jobs."""
    owners = owners_of(services, tenant, kind, ids)
    index_owners(services, tenant, owners)
    embedder = services.embedding(Owner(tenant))
    if embedder is None or _keeps_encoder(services, tenant, embedder):
        return
    embedding = _Embedding(services, tenant, embedder)
    for owner in sorted(owners):
        with suppress(ModelError, SettingsError):
            embedding.embed_owner(owner, {(kind, id) for id in ids})


def _count_failures(services: Services, tenant: str) -> int:
    row = services.database.read(tenant, lambda tx: tx.one(_COUNT_FAILURES))
    return int((row or (0,))[0])


def _keeps_encoder(services: Services, tenant: str, embedder: Embedder) -> bool:
    """Return whether the vectors of the encoder must not be replaced by static ones.

    With `embedder: auto`, a process without the encoder may share the database with one that has
    it, such as a server. It then finds by words, and leaves the vectors to the other.
    """
    if services.settings.embedder != "auto" or embedder.family != "static":
        return False

    def work(tx: Transaction) -> bool:
        return tx.one(_ENCODER) is not None or tx.one(_ENCODER_VECTORS) is not None

    return services.database.read(tenant, work)


class _Embedding:
    """One run of the job in a tenant."""

    def __init__(
        self,
        services: Services,
        tenant: str,
        embedder: Embedder,
        lease: leases.Lease | None = None,
        progress: Progress | None = None,
        until: int | None = None,
    ) -> None:
        self._services = services
        self._tenant = tenant
        self._embedder = embedder
        self._model = embedder.identity
        self._lease = lease
        self._progress = progress
        self._until = until
        self._renewed = time.monotonic()
        self.total = JobResult()

    def embed_owner(self, owner: str, only: set[tuple[str, str]] | None = None) -> bool:
        """Embed the due documents of an owner; return False if the lease was lost.

        only: kind and id of the records to embed; None for all
        """
        tried: set[int] = set()
        while True:
            if self._lease is not None and time.monotonic() - self._renewed > LEASE_SECONDS / 3:
                if not leases.renew(self._services.database, self._lease, LEASE_SECONDS):
                    return False
                self._renewed = time.monotonic()
            work = self._services.database.read(
                self._tenant, lambda tx: self._read(tx, owner, only, tried), long=True
            )
            numbers = list(work.batch)
            tried.update(numbers, work.unreadable)
            passages = [
                _passage(work.batch[number], work.predecessors.get(number), self._embedder)
                for number in numbers
            ]
            results = _embed_each(self._embedder, passages) if passages else []
            embedded = {
                number: result
                for number, result in zip(numbers, results, strict=True)
                if not isinstance(result, ModelError)
            }
            errors = {
                number: result
                for number, result in zip(numbers, results, strict=True)
                if isinstance(result, ModelError)
            }
            self._store(owner, work, embedded, errors)
            self.total += JobResult(done=len(embedded))
            for number, error in errors.items():
                problem = f"tenant {self._tenant}, {_named(work.batch[number])}: {error}"
                self.total += JobResult(failed=1, errors=(problem,))
            if self._progress:
                self._progress(self.total.done, self.total.done + len(work.missing) - len(numbers))
            if not work.missing:
                return True

    def _read(
        self,
        tx: Transaction,
        owner: str,
        only: set[tuple[str, str]] | None,
        tried: set[int],
    ) -> _Work:
        """Return the next documents to embed, with the message before each message."""
        index, missing, failures = _missing(tx, self._services, owner, self._model)
        until = tx.now if self._until is None else self._until
        waiting = {number for number, failure in failures.items() if failure.retry_at > until}
        due = [number for number in missing if number not in waiting and number not in tried]
        if only is not None:
            due = [number for number in due if missing[number].key[:2] in only]
        batch = {number: missing[number].key for number in due[:BATCH_SIZE]}
        documents = _read_documents(tx, self._services, set(batch.values()))
        # A document that was changed is due again when the index job has taken it.
        tried.update(
            number
            for number, key in batch.items()
            if key in documents and not missing[number].is_content_of(documents[key])
        )
        batch = {number: key for number, key in batch.items() if number not in tried}
        found = {number: documents[key] for number, key in batch.items() if key in documents}
        predecessors = {}
        if isinstance(self._embedder, PassageEmbedder):
            for number, key in batch.items():
                before = _before(documents, key)
                if key.kind == "messages" and before is not None:
                    predecessors[number] = before
        unreadable = [number for number in batch if number not in found]
        return _Work(index, due, found, predecessors, unreadable, failures)

    def _store(
        self,
        owner: str,
        work: _Work,
        embedded: Mapping[int, tuple[float, bytes]],
        errors: Mapping[int, ModelError],
    ) -> None:
        """Store vectors of documents that are still there."""
        database = self._services.database
        for _ in range(MAX_TRIES):
            index, missing, changed = database.read(
                self._tenant, lambda tx: self._read_again(tx, owner, work)
            )
            if not index.state.generation:
                return  # the owner was erased
            new = {number: embedded[number] for number in embedded.keys() - changed}
            failed = [*sorted(errors.keys() - changed), *work.unreadable]
            publish = partial(
                self._publish, work=work, index=index, missing=missing, embedded=new, failed=failed
            )
            if database.write(self._tenant, publish, idempotent=True):
                return

    def _read_again(
        self, tx: Transaction, owner: str, work: _Work
    ) -> tuple[OwnerIndex, Mapping[int, _Unembedded], set[int]]:
        """Return the index, its documents without a vector, and which of the work are others now."""
        index, missing, _ = _missing(tx, self._services, owner, self._model)
        if index.state.generation == work.index.state.generation:
            return index, missing, set()
        # A message may have been removed, or the owner was erased and has other documents now.
        keys = {number: missing[number].key for number in work.batch if number in missing}
        documents = _read_documents(tx, self._services, set(keys.values()))
        changed = {
            number
            for number, key in keys.items()
            if documents.get(key) != work.batch[number]
            or (
                number in work.predecessors and _before(documents, key) != work.predecessors[number]
            )
        }
        return index, missing, changed

    def _publish(
        self,
        tx: Transaction,
        work: _Work,
        index: OwnerIndex,
        missing: Mapping[int, _Unembedded],
        embedded: Mapping[int, tuple[float, bytes]],
        failed: Sequence[int],
    ) -> bool:
        owner = index.owner
        if not lock_owner(tx, owner, index.state.generation):
            return False
        # A vector must not bring back a message that was removed while this was computed.
        changed = {
            session
            for session in {work.predecessors[n].id for n in embedded if n in work.predecessors}
            if tx.one(_CHANGED_SESSION, owner=owner, session=session)
        }
        valid = {
            number: vector
            for number, vector in embedded.items()
            if number in missing and missing[number].key.id not in changed
        }
        known = sum(len(piece.numbers) for piece in index.pieces.values())
        still_missing = missing.keys() - valid.keys() - set(failed) - work.failures.keys()
        is_complete = not still_missing
        if not valid and not failed and (not is_complete or index.state.embedded == self._model):
            return True
        _store_vectors(tx, index, self._model, valid)
        for number in valid.keys() & work.failures.keys():
            tx.send(_REMOVE_FAILURE, owner=owner, number=number)
        for number in failed:
            tries = work.failures[number].tries if number in work.failures else 0
            seconds = min(FIRST_RETRY_SECONDS * 2 ** min(tries, 20), MAX_RETRY_SECONDS)
            values = {"tries": tries + 1, "retry_at": tx.now + round(seconds * clock.SECOND)}
            if number in missing:
                tx.send(_SET_FAILURE, owner=owner, number=number, **values)
        if is_complete:
            tx.send(_REMOVE_OTHER_MODELS, owner=owner, model=self._model)
        tx.send(
            _SET_OWNER,
            owner=owner,
            embedded=self._model if is_complete else "",
            vectors=known + len(valid),
        )
        return True


def _missing(
    tx: Transaction, services: Services, owner: str, model: str
) -> tuple[OwnerIndex, dict[int, _Unembedded], dict[int, _Failure]]:
    """Return the index of an owner, its documents without a vector by number, and failed ones."""
    import numpy as np

    state_sent = tx.send(OWNER, owner=owner)
    failures_sent = tx.send(_FAILURES, owner=owner)
    state = read_state(state_sent.rows())
    failures = {row[0]: _Failure(*row[1:]) for row in failures_sent.rows()}
    (index,) = services.index.cache.load(tx, {owner: state}, model)
    missing: dict[int, _Unembedded] = {}
    for block, alive in index.blocks:
        numbers = block.columns["number"]
        lacks = alive.copy()
        if index.vectors is not None:
            lacks &= index.vectors.rows_of(numbers) < 0
        places = np.flatnonzero(lacks)
        for number, place in zip(numbers[places].tolist(), places.tolist(), strict=True):
            missing[number] = _Unembedded(block, place)
    return index, dict(sorted(missing.items())), failures


def _read_documents(
    tx: Transaction, services: Services, keys: set[DocumentKey]
) -> dict[DocumentKey, SearchDocument]:
    """Return documents and those before them, as their records are now."""
    sent = []
    for kind, id, seq in sorted({key[:3] for key in keys}):
        findable = services.findables.get(kind)
        if findable is None:  # of a package that is not installed
            continue
        sent.append((findable, findable.send_between(tx, id, seq - 1, seq)))
    return {
        DocumentKey(document.kind, document.id, document.seq, document.part): document
        for findable, result in sent
        for document in documents_of(findable, result.rows())
    }


def _before(
    documents: Mapping[DocumentKey, SearchDocument], key: DocumentKey
) -> SearchDocument | None:
    return documents.get(DocumentKey(key.kind, key.id, key.seq - 1, 0))


def _store_vectors(
    tx: Transaction, index: OwnerIndex, model: str, new: Mapping[int, tuple[float, bytes]]
) -> None:
    """Store vectors in rows of at most 256; small rows are joined."""
    import numpy as np

    if not new:
        return
    rows = VectorRows(
        np.array(list(new), np.uint32),
        np.array([scale for scale, _ in new.values()], np.float32),
        np.array([np.frombuffer(raw, np.int8) for _, raw in new.values()]),
    )
    width = rows.vectors.shape[1]
    pieces = {id: piece for id, piece in index.pieces.items() if piece.vectors.shape[1] == width}
    small = [id for id, piece in pieces.items() if len(piece.numbers) < MAX_VECTORS_PER_ROW]
    joined = [id for id in small if len(pieces[id].numbers) < SMALL_ROW]
    if len(small) >= MAX_SMALL_ROWS:
        joined = small
    obsolete = [id for id in index.pieces if id not in pieces]
    remove_vectors(tx, index.owner, model, [*joined, *obsolete, *index.damaged_vectors])
    every = vectors.join([*[pieces[id] for id in joined], rows])
    for start in range(0, len(every.numbers), MAX_VECTORS_PER_ROW):
        part = every.select(slice(start, start + MAX_VECTORS_PER_ROW))
        add_vectors(tx, index.owner, model, part)


def _passage(
    document: SearchDocument, predecessor: SearchDocument | None, embedder: Embedder
) -> EmbedderInput:
    if document.kind != "messages" or not isinstance(embedder, PassageEmbedder):
        return EmbedderInput(embedding_text(document.title, document.text))
    before = predecessor.text if predecessor else ""
    return EmbedderInput(document.text, document.author or document.role, before)


def _named(document: SearchDocument) -> str:
    return f"{document.kind} {document.id}" + (f" {document.seq}" if document.seq else "")


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
    results: list[tuple[float, bytes] | ModelError] = []
    for part in (passages[:half], passages[half:]):
        try:
            results += quantise(embed_passages(embedder, part))
        except ModelError as error:
            results += [error] if len(part) == 1 else _embed_halves(embedder, part)
    return results


__all__ = ["EmbedJob", "Lag", "embed_records", "lag"]
