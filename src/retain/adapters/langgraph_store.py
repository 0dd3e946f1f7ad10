"""LangGraph's long-term store over a scope: its namespaces are places, its items are items, its queries are our search.

from retain import Memory
from retain.adapters.langgraph_store import RetainStore

store = RetainStore(Memory.open("sqlite:///agent.db").scope("acme", "ada"))
graph = builder.compile(store=store)
"""

from __future__ import annotations

import asyncio
import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote, unquote

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    validate_op_namespace,
)
from langgraph.store.base import Item as LangGraphItem
from langgraph.store.base.batch import AsyncBatchedBaseStore

from retain.kinds.finding import MOST_HITS
from retain.kinds.items import Drop, Item, Put
from retain.kinds.kind import Page
from retain.memory import Scope

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from retain.search.embed import Matrix

Record = TypeVar("Record")
Namespace = tuple[str, ...]
_PAGE = 500
# What a key of ours must not have, and what would be read as one of these when it comes back.
_REFUSED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\U0010ffff]|%(?=[0-9A-F]{2})")
_WHOLLY = re.compile(r"\s+|\.\.?")
_QUOTED = re.compile("(?:%[0-9A-F]{2})+")


class RetainStore(BaseStore):
    """A store of the scope's user, or of its tenant where it has none; for threads and for asyncio.

    `index` says which fields are searched by default: `{"fields": ["text"]}`, else all. `ttl` is LangGraph's TTLConfig.
    """

    supports_ttl = True

    def __init__(self, scope: Scope, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None) -> None:
        self.scope = scope
        self.index_config, self.ttl_config = index, ttl
        self.embeddings: Embeddings | None = None
        if index and index.get("embed") is not None:
            self.embeddings = ensure_embeddings(index["embed"])
            embedder = scope._home.embedder
            if not isinstance(embedder, LangChainEmbedder) or embedder.embeddings != self.embeddings:
                raise ValueError(
                    "what embeds is one for the whole memory: Memory.open(…, embedder=LangChainEmbedder(index)), or leave "
                    "`embed` out to search with the embedder that the memory has"
                )
        fields = (index or {}).get("fields") or (index or {}).get("text_fields")
        self._fields: list[str] | None = [fields] if isinstance(fields, str) else fields

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations: what is read is as it was before any of them, then all is written at once, or nothing."""
        asked = list(ops)
        for op in asked:
            validate_op_namespace(op)
        results: list[Result] = [None] * len(asked)
        gets: dict[bool, dict[tuple[Namespace, str], list[int]]] = {}
        changes: dict[tuple[Namespace, str], Put | Drop] = {}
        for number, op in enumerate(asked):
            if isinstance(op, GetOp):
                gets.setdefault(bool(op.refresh_ttl), {}).setdefault((op.namespace, op.key), []).append(number)
            elif isinstance(op, PutOp):
                changes[(op.namespace, op.key)] = self._change(op)
            elif isinstance(op, SearchOp):
                results[number] = self._search(op)
            elif isinstance(op, ListNamespacesOp):
                results[number] = self._namespaces(op)
            else:
                raise ValueError(f"Unknown operation type: {type(op)}")
        for refresh, wanted in gets.items():
            found = self.scope.items.read([(_place(names), _stored(key)) for names, key in wanted], refresh=refresh)
            for numbers, item in zip(wanted.values(), found, strict=True):
                for number in numbers:
                    results[number] = None if item is None else LangGraphItem(**_fields(item))
        if changes:
            self._write([changes[which] for which in sorted(changes)])
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same, in one hop to a worker thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    # -- inside ----------------------------------------------------------------------------------------------------------

    def _change(self, op: PutOp) -> Put | Drop:
        place, key = _place(op.namespace), _stored(op.key)
        if op.value is None:
            return Drop(place, key)
        index = self._fields if op.index is None else [] if op.index is False else op.index
        fields = None if index in (None, ["$"]) else index
        return Put(place, key, dict(op.value), None if op.ttl is None else op.ttl * 60, fields)

    def _write(self, changes: Sequence[Put | Drop]) -> None:
        most = self.scope._home.settings.max_batch
        parts = [changes[start : start + most] for start in range(0, len(changes), most)]
        if len(parts) == 1:
            self.scope.items.write(changes)
        else:
            self.scope.together(lambda inner: [inner.items.write(part) for part in parts])

    def _search(self, op: SearchOp) -> list[SearchItem]:
        place, until = _place(op.namespace_prefix), op.offset + op.limit
        found: list[tuple[Item, float | None]] = []
        if op.query and until:
            found = list(self.scope.items.search(op.query, place, where=op.filter, limit=min(until, MOST_HITS)))
        if len(found) < until:  # a query puts in order, and leaves nothing out
            known = {(item.place, item.key) for item, _ in found}
            every = _each(lambda after: self.scope.items.list(place, where=op.filter, limit=_PAGE, after=after))
            rest = (item for item in every if (item.place, item.key) not in known)
            found += [(item, None) for item in heapq.nlargest(until - len(found), rest, key=lambda item: item.updated_at)]
        kept = found[op.offset : until]
        mortal = [(item.place, item.key) for item, _ in kept if item.expires_at is not None]
        if op.refresh_ttl and mortal:
            self.scope.items.read(mortal, refresh=True)
        return [SearchItem(**_fields(item), score=score) for item, score in kept]

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = [one for one in op.match_conditions or () if one.path]
        begins, ends = ([_place(one.path) for one in conditions if one.match_type == way] for way in ("prefix", "suffix"))
        several = len(begins) > 1 or len(ends) > 1
        under, ending = (some[0] if some else () for some in (begins, ends))
        depth = None if several else op.max_depth
        every = _each(lambda after: self.scope.items.places(under, ending=ending, depth=depth, limit=_PAGE, after=after))
        found: Iterator[Namespace] = every
        if several:
            found = iter(
                dict.fromkeys(names[: op.max_depth] for names in every if all(_has(names, one) for one in conditions))
            )
        return [_shown(names) for names in islice(found, op.offset, op.offset + op.limit)]


class AsyncRetainStore(AsyncBatchedBaseStore):
    """A store for one event loop, made in it: what is awaited in the same moment is one batch, in one hop and one write."""

    supports_ttl = True

    def __init__(self, store: RetainStore) -> None:
        super().__init__()
        self.store = store
        self.index_config, self.ttl_config, self.embeddings = store.index_config, store.ttl_config, store.embeddings

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations, in a worker thread."""
        return await self.store.abatch(ops)


class LangChainEmbedder:
    """LangChain's embeddings as what the whole memory embeds with: `Memory.open(…, embedder=LangChainEmbedder(index))`.

    `index` is LangGraph's IndexConfig, with `embed` and `dims`. `name` tells two models apart: vectors of two are never
    compared, and another name makes them all anew.
    """

    def __init__(
        self, index: IndexConfig | Mapping[str, Any], *, name: str = "", family: Literal["static", "strong"] = "strong"
    ) -> None:
        self.embeddings = ensure_embeddings(index["embed"])
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


def _each(fetch: Callable[[str | None], Page[Record]]) -> Iterator[Record]:
    """Everything, page by page."""
    page = fetch(None)
    yield from page
    while page.next is not None:
        page = fetch(page.next)
        yield from page


def _fields(item: Item) -> dict[str, Any]:
    return {
        "namespace": _shown(item.place),
        "key": _read(item.key),
        "value": item.value,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


def _has(names: Namespace, condition: MatchCondition) -> bool:
    path = _place(condition.path)
    part = names[: len(path)] if condition.match_type == "prefix" else names[-len(path) :]
    return len(part) == len(path) and all(wanted in ("*", name) for name, wanted in zip(part, path, strict=True))


def _place(namespace: Iterable[str]) -> Namespace:
    return tuple([_stored(label) for label in namespace])


def _shown(place: Namespace) -> Namespace:
    return tuple([_read(name) for name in place])


def _stored(name: str) -> str:
    """A label or key as ours may be: what a name of ours may not have is written as in an address."""
    if _WHOLLY.fullmatch(name):
        return "".join([f"%{byte:02X}" for byte in name.encode()])
    return _REFUSED.sub(lambda found: quote(found.group(), safe=""), name)


def _read(name: str) -> str:
    return _QUOTED.sub(lambda found: unquote(found.group()), name) if "%" in name else name
