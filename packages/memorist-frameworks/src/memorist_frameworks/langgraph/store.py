"""LangGraph's long-term store: namespaces are places, items are items, queries use our search.

from memorist import Memory
from memorist_frameworks.langgraph import MemoristStore

store = MemoristStore(Memory.open("sqlite:///agent.db").scope(user="ada"))
graph = builder.compile(store=store)
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, get_args

from memorist.base.errors import Invalid, StorageError
from memorist.jobs.embed import BATCH_SIZE, embed_records
from memorist.jobs.retention import purge
from memorist.kinds.indexing import index_id
from memorist.kinds.items import Drop, Items, PlacedItem, Put, fields_of
from memorist.kinds.items.item import area_of
from memorist.memory import Scope
from memorist.search.embedders import embed_texts
from memorist.text import fields as json_fields
from memorist_frameworks import namespaces
from memorist_frameworks.namespaces import Namespace
from memorist_frameworks.require import require_extra, require_local_scope

with require_extra("langgraph"):
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        IndexConfig,
        Item,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        ensure_embeddings,
        validate_op_namespace,
    )
    from langgraph.store.base.batch import AsyncBatchedBaseStore

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from memorist.search.embedders import Matrix


Score = Literal["relevance", "cosine"]
Hit = tuple[PlacedItem, float | None]
MAX_EMBEDDED_PUTS = 32
"""The largest batch of puts whose vectors are computed before `put` returns."""


class MemoristStore(BaseStore):
    """A store for the scope's user, or for the tenant if the scope has no user.

    Works in threads and in asyncio. `index` names the fields that are searched by default,
    `{"fields": ["text"]}`; without it, all are. `ttl` is LangGraph's TTLConfig. With
    `score="cosine"`, hits have the cosine to the query as their score, and are ordered by it.
    """

    supports_ttl = True

    def __init__(
        self,
        scope: Scope,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        score: Score = "relevance",
    ) -> None:
        self.scope = require_local_scope(scope)
        if score not in get_args(Score):
            raise Invalid(field="score", problem=f'must be "relevance" or "cosine", not {score!r}')
        if score == "cosine" and scope.services.embedder is None:
            raise Invalid(field="score", problem='is "cosine", but the memory has no embedder')
        self._score = score
        self.index_config = index
        self.ttl_config = ttl
        self.embeddings: Embeddings | None = None
        options: Mapping[str, Any] = index or {}
        if options.get("embed") is not None:
            embedder = scope.services.embedder
            if not isinstance(embedder, LangChainEmbedder) or embedder.source != options["embed"]:
                raise ValueError(
                    "A memory has a single embedder: open it with "
                    "Memory.open(…, embedder=LangChainEmbedder(index)), or leave out `embed` to "
                    "search with the embedder that the memory has."
                )
            self.embeddings = embedder.embeddings
        fields = options.get("fields") or options.get("text_fields")
        self._fields: Sequence[str] | None = [fields] if isinstance(fields, str) else fields

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations: reads see the state before the batch, then all writes are one."""
        operations = list(ops)
        results: list[Result] = [None] * len(operations)
        # Positions in the results of each item to read; reads that refresh the TTL apart.
        reads: dict[bool, dict[tuple[Namespace, str], list[int]]] = {}
        changes: dict[tuple[Namespace, str], Put | Drop] = {}
        _check_namespaces(operations)
        for position, operation in enumerate(operations):
            if isinstance(operation, GetOp):
                positions = reads.setdefault(bool(operation.refresh_ttl), {})
                address = (tuple(operation.namespace), operation.key)
                positions.setdefault(address, []).append(position)
            elif isinstance(operation, PutOp):
                changes[tuple(operation.namespace), operation.key] = self._change(operation)
            elif isinstance(operation, SearchOp):
                results[position] = self._search(operation)
            elif isinstance(operation, ListNamespacesOp):
                results[position] = self._namespaces(operation)
            else:
                raise ValueError(f"Unknown operation type: {type(operation)}")
        for refresh, addresses in reads.items():
            items = namespaces.read(self.scope, list(addresses), refresh=refresh)
            for item, positions_of_item in zip(items, addresses.values(), strict=True):
                for position in positions_of_item:
                    results[position] = None if item is None else Item(**namespaces.record(item))
        if changes:
            namespaces.write(self.scope, list(changes.values()))
            if self.scope.services.embedder is not None:
                self._embed([change for change in changes.values() if isinstance(change, Put)])
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations in a worker thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def sweep_ttl(self) -> int:
        """Remove expired items and return their number.

        Expired items are never returned, and a server removes them by itself.
        """
        services = self.scope.services
        tenant = self.scope.owner.tenant
        if tenant not in services.database.tenants():  # nothing was ever written
            return 0
        return purge(services, tenants=[tenant]).items

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Return a finished future: no sweeper needs to run, expired items are never returned."""
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Return True: no sweeper runs."""
        return True

    def _embed(self, puts: Sequence[Put]) -> None:
        """Compute the vectors of a few new items, so that a search finds them by meaning at once.

        Vectors of larger batches are computed by a server, or by `memory.run_jobs()`, and so are
        those that fail here: the items are stored, so `put` must not fail.
        """
        if len(puts) > MAX_EMBEDDED_PUTS:
            return
        area = area_of(self.scope.owner.user)
        ids = [
            index_id(area, *put.place, put.key) for put in puts if put.fields is None or put.fields
        ]
        if ids:
            with suppress(StorageError):
                embed_records(self.scope.services, self.scope.owner.tenant, Items.name, ids)

    def _change(self, operation: PutOp) -> Put | Drop:
        fields = self._fields if operation.index is None else operation.index or []
        return namespaces.change(
            operation.namespace, operation.key, operation.value, operation.ttl, fields
        )

    def _search(self, operation: SearchOp) -> list[SearchItem]:
        hits = namespaces.search(
            self.scope,
            operation.namespace_prefix,
            query=operation.query,
            where=operation.filter,
            limit=operation.limit,
            offset=operation.offset,
        )
        if operation.refresh_ttl:
            namespaces.refresh(self.scope, hits)
        if operation.query and self._score == "cosine":
            hits = self._with_cosines(operation.query, hits)
        return [SearchItem(**namespaces.record(item), score=score) for item, score in hits]

    def _with_cosines(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Score each hit by its field that is closest to the query; the closest hit comes first."""
        embedder = self.scope.services.embedding(self.scope.owner)
        if embedder is None or not hits:
            return list(hits)
        fields_of_hits = fields_of(self.scope.items, [(item.place, item.key) for item, _ in hits])
        texts_of_hits = [
            json_fields.texts(item.value, fields) if score is not None else []
            for (item, score), fields in zip(hits, fields_of_hits, strict=True)
        ]
        texts_to_embed = [query, *itertools.chain(*texts_of_hits)]
        vectors = [
            vector
            for start in range(0, len(texts_to_embed), BATCH_SIZE)
            for vector in embed_texts(embedder, texts_to_embed[start : start + BATCH_SIZE])
        ]
        cosines = iter([float(vector @ vectors[0]) for vector in vectors[1:]])
        scored: list[tuple[PlacedItem, float]] = []
        unscored: list[Hit] = []
        for (item, _), texts in zip(hits, texts_of_hits, strict=True):
            if texts:
                scored.append((item, max(itertools.islice(cosines, len(texts)))))
            else:
                unscored.append((item, None))
        scored.sort(key=lambda hit: -hit[1])
        return [*scored, *unscored]

    def _namespaces(self, operation: ListNamespacesOp) -> list[Namespace]:
        conditions = operation.match_conditions or ()
        return namespaces.namespaces(
            self.scope,
            [condition.path for condition in conditions if condition.match_type == "prefix"],
            [condition.path for condition in conditions if condition.match_type == "suffix"],
            depth=operation.max_depth,
            limit=operation.limit,
            offset=operation.offset,
        )


class AsyncMemoristStore(AsyncBatchedBaseStore):
    """A store for one event loop: operations awaited at the same moment become one batch."""

    supports_ttl = True

    def __init__(
        self,
        scope: Scope,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        score: Score = "relevance",
    ) -> None:
        self._task = None  # the base class reads it in __del__, also if this constructor fails
        self.store = MemoristStore(scope, index=index, ttl=ttl, score=score)
        super().__init__()
        self.index_config = index
        self.ttl_config = ttl
        self.embeddings = self.store.embeddings

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations in a worker thread."""
        return await self.store.abatch(ops)

    async def sweep_ttl(self) -> int:
        """Remove expired items and return their number."""
        return await asyncio.to_thread(self.store.sweep_ttl)

    async def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        """Do nothing: no sweeper needs to run, expired items are never returned."""

    async def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Return True: no sweeper runs."""
        return True


class LangChainEmbedder:
    """LangChain embeddings as the embedder of a memory.

    `Memory.open(…, embedder=LangChainEmbedder(index))`, where `index` is LangGraph's IndexConfig
    with `embed` and `dims`. `name` identifies the model: vectors of different models are never
    compared, and a new name embeds everything again.
    """

    def __init__(
        self,
        index: IndexConfig | Mapping[str, Any],
        *,
        name: str = "",
        family: Literal["static", "strong"] = "strong",
    ) -> None:
        self.source = index["embed"]
        self.embeddings = ensure_embeddings(self.source)
        self.dimensions = int(index["dims"])
        self.family = family
        model = name or getattr(self.embeddings, "model", "") or type(self.embeddings).__qualname__
        self.identity = f"langchain:{model}-{self.dimensions}"

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return a vector of length 1 for each text."""
        import numpy as np

        vectors = np.asarray(self.embeddings.embed_documents(list(texts)), np.float32)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
        return vectors


def _check_namespaces(operations: Sequence[Op]) -> None:
    """Check the namespace of each operation; the puts of a batch often have the same one."""
    last_namespace: Any = None
    for operation in operations:
        if not isinstance(operation, PutOp) or operation.namespace != last_namespace:
            _check_namespace(operation)
            last_namespace = getattr(operation, "namespace", None)


def _check_namespace(operation: Op) -> None:
    namespace = getattr(operation, "namespace", getattr(operation, "namespace_prefix", ()))
    if isinstance(namespace, str):
        raise Invalid(
            field="namespace",
            problem="must be a tuple of labels, such as ('memories',), not text",
        )
    validate_op_namespace(operation)
