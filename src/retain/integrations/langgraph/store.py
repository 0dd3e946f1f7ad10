"""LangGraph's long-term store over a scope: its namespaces are places, its items are items, its queries are our search.

from retain import Memory
from retain.integrations.langgraph import RetainStore

store = RetainStore(Memory.open("sqlite:///agent.db").scope(tenant="acme", user="ada"))
graph = builder.compile(store=store)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Literal

from retain.api import namespaces
from retain.api.namespaces import Namespace
from retain.base.errors import Invalid
from retain.integrations._require import extra, local
from retain.jobs.retention import purge
from retain.kinds.items.items import Drop, Put
from retain.memory import Scope

with extra("langgraph"):
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

    from retain.search.embedders import Matrix


class RetainStore(BaseStore):
    """A store of the scope's user, or of its tenant where it has none; for threads and for asyncio.

    `index` says which fields are searched by default: `{"fields": ["text"]}`, else all. `ttl` is LangGraph's TTLConfig.
    """

    supports_ttl = True

    def __init__(
        self, scope: Scope, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None
    ) -> None:
        self.scope = local(scope)
        self.index_config, self.ttl_config = index, ttl
        self.embeddings: Embeddings | None = None
        given: Mapping[str, Any] = index or {}
        if given.get("embed") is not None:
            embedder = scope.services.embedder
            if not isinstance(embedder, LangChainEmbedder) or embedder.given != given["embed"]:
                raise ValueError(
                    "what embeds is one for the whole memory: Memory.open(…, embedder=LangChainEmbedder(index)), or leave "
                    "`embed` out to search with the embedder that the memory has"
                )
            self.embeddings = embedder.embeddings
        fields = given.get("fields") or given.get("text_fields")
        self._fields: Sequence[str] | None = [fields] if isinstance(fields, str) else fields

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations: what is read is as it was before any of them, then all is written at once, or nothing."""
        asked = list(ops)
        for op in asked:
            if isinstance(getattr(op, "namespace", getattr(op, "namespace_prefix", ())), str):
                raise Invalid(
                    field="namespace",
                    problem="must be a tuple of labels, such as ('memories',), not text",
                )
            validate_op_namespace(op)
        results: list[Result] = [None] * len(asked)
        gets: dict[bool, dict[tuple[Namespace, str], list[int]]] = {}
        changes: dict[tuple[Namespace, str], Put | Drop] = {}
        for number, op in enumerate(asked):
            if isinstance(op, GetOp):
                gets.setdefault(bool(op.refresh_ttl), {}).setdefault(
                    (tuple(op.namespace), op.key), []
                ).append(number)
            elif isinstance(op, PutOp):
                fields = self._fields if op.index is None else op.index or []
                changes[tuple(op.namespace), op.key] = namespaces.change(
                    op.namespace, op.key, op.value, op.ttl, fields
                )
            elif isinstance(op, SearchOp):
                results[number] = self._search(op)
            elif isinstance(op, ListNamespacesOp):
                results[number] = self._namespaces(op)
            else:
                raise ValueError(f"Unknown operation type: {type(op)}")
        for refresh, wanted in gets.items():
            found = namespaces.read(self.scope, list(wanted), refresh=refresh)
            for numbers, item in zip(wanted.values(), found, strict=True):
                for number in numbers:
                    results[number] = None if item is None else Item(**namespaces.record(item))
        if changes:
            namespaces.write(self.scope, list(changes.values()))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same, in one hop to a worker thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def sweep_ttl(self) -> int:
        """Remove what has expired, and say how many; it was not seen any more, and a server removes it by itself."""
        services, tenant = self.scope.services, self.scope.owner.tenant
        if tenant not in services.database.tenants():  # nothing was ever written
            return 0
        return purge(services.writer, services.blobs, services.index, tenants=[tenant]).items

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Nothing needs to run here, so this is done at once: what has expired is not seen from that moment on."""
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """True: nothing runs."""
        return True

    def _search(self, op: SearchOp) -> list[SearchItem]:
        found = namespaces.search(
            self.scope,
            op.namespace_prefix,
            query=op.query,
            where=op.filter,
            limit=op.limit,
            offset=op.offset,
            refresh=op.refresh_ttl,
        )
        return [SearchItem(**namespaces.record(item), score=score) for item, score in found]

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        prefixes, suffixes = (
            [one.path for one in op.match_conditions or () if one.match_type == endpoint]
            for endpoint in ("prefix", "suffix")
        )
        return namespaces.namespaces(
            self.scope, prefixes, suffixes, depth=op.max_depth, limit=op.limit, offset=op.offset
        )


class AsyncRetainStore(AsyncBatchedBaseStore):
    """A store for one event loop, made in it: what is awaited in the same moment is one batch, in one hop and one write."""

    supports_ttl = True

    def __init__(
        self, scope: Scope, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None
    ) -> None:
        self._task = None  # which the end of one that could not be made looks at
        self.store = RetainStore(scope, index=index, ttl=ttl)
        super().__init__()
        self.index_config, self.ttl_config, self.embeddings = index, ttl, self.store.embeddings

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations, in a worker thread."""
        return await self.store.abatch(ops)

    async def sweep_ttl(self) -> int:
        """Remove what has expired, and say how many."""
        return await asyncio.to_thread(self.store.sweep_ttl)

    async def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        """Nothing needs to run here: what has expired is not seen from that moment on."""

    async def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """True: nothing runs."""
        return True


class LangChainEmbedder:
    """LangChain's embeddings as what the whole memory embeds with: `Memory.open(…, embedder=LangChainEmbedder(index))`.

    `index` is LangGraph's IndexConfig, with `embed` and `dims`. `name` tells two models apart: vectors of two are never
    compared, and another name makes them all anew.
    """

    def __init__(
        self,
        index: IndexConfig | Mapping[str, Any],
        *,
        name: str = "",
        family: Literal["static", "strong"] = "strong",
    ) -> None:
        self.given = index["embed"]
        self.embeddings = ensure_embeddings(self.given)
        self.dimensions = int(index["dims"])
        self.family = family
        model = name or getattr(self.embeddings, "model", "") or type(self.embeddings).__qualname__
        self.identity = f"langchain:{model}-{self.dimensions}"

    def embed(self, texts: Sequence[str]) -> Matrix:
        """A vector for each text, of length 1."""
        import numpy as np

        found = np.asarray(self.embeddings.embed_documents(list(texts)), np.float32)
        found /= np.maximum(np.linalg.norm(found, axis=-1, keepdims=True), 1e-12)
        return found
