"""LangGraph's checkpointer: the threads of graphs are stored with everything else.

LangGraph's own serializer writes the values, restricted to plain data and the framework's own
messages. Stored bytes cannot name another class to import, and pickle is rejected in both
directions. A class that is not allowed raises an error on write and on read; LangGraph itself would
continue with plain data in its place, and the next step would store that.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, cast

from memorist.base.errors import Invalid, NotFound
from memorist.memory import Scope
from memorist_frameworks.checkpoints.checkpoint import Checkpoint as StoredCheckpoint
from memorist_frameworks.checkpoints.checkpoint import Typed, Write
from memorist_frameworks.checkpoints.checkpoints import checkpoints_of
from memorist_frameworks.require import require_extra, require_local_scope

with require_extra("langgraph"):
    import ormsgpack
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
        get_checkpoint_id,
        get_serializable_checkpoint_metadata,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

PAGE_SIZE = 50
_blocked: ContextVar[list[SerdeEvent] | None] = ContextVar("blocked", default=None)


@register_serde_event_listener
def _on_serde_event(event: SerdeEvent) -> None:
    """Collect the classes that LangGraph's serializer did not load; it reports them only here."""
    blocked = _blocked.get()
    if blocked is not None and "blocked" in event["kind"]:
        blocked.append(event)


class MemoristSaver(BaseCheckpointSaver[str]):
    """A checkpointer: `graph.compile(checkpointer=MemoristSaver(memory.scope(user="ada")))`."""

    def __init__(self, scope: Scope, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde or JsonPlusSerializer(allowed_msgpack_modules=None))
        self._checkpoints = checkpoints_of(require_local_scope(scope))
        self._loadable: frozenset[tuple[str, str]] = frozenset()  # classes that were read once

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint of a thread, the newest if the config names none, or None."""
        thread = _thread(config)
        id = get_checkpoint_id(config) or None
        try:
            return self._to_tuple(self._checkpoints.get(thread, ns=_ns(config) or "", id=id))
        except NotFound:
            return None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield the checkpoints of a thread, or of every thread of the scope, newest first."""
        start: str | None = ""
        while start is not None and (limit is None or limit > 0):
            page, start = self._page(config, filter, before, limit, start)
            limit = None if limit is None else limit - len(page)
            yield from page

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint and the channels whose version is new."""
        thread = _thread(config)
        ns = _ns(config) or ""
        channels = checkpoint["channel_values"]
        state = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        versions = checkpoint["channel_versions"].items()
        values = {
            (channel, str(version)): self._dump(channels[channel])
            for channel, version in new_versions.items()
            if channel in channels
        }
        self._checkpoints.add(
            thread,
            checkpoint["id"],
            self._dump(state),
            ns=ns,
            parent=get_checkpoint_id(config) or None,
            metadata=get_serializable_checkpoint_metadata(config, metadata),
            versions={channel: str(version) for channel, version in versions},
            values=values,
        )
        return _config(thread, ns, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store the writes of a task; a task that runs again does not write twice."""
        records = [
            Write(task_id, WRITES_IDX_MAP.get(channel, idx), channel, self._dump(value), task_path)
            for idx, (channel, value) in enumerate(writes)
        ]
        id = str(config["configurable"]["checkpoint_id"])
        self._checkpoints.write(_thread(config), id, records, ns=_ns(config) or "")

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread and everything in it."""
        with suppress(NotFound):
            self._checkpoints.remove(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of these runs in every thread of the scope."""
        self._checkpoints.remove_runs([str(run) for run in run_ids])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history."""
        self._checkpoints.duplicate(str(source_thread_id), str(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep only the newest checkpoint of each namespace; with `delete`, remove the threads."""
        if strategy not in ("keep_latest", "delete"):
            raise Invalid(
                field="strategy", problem=f"must be keep_latest or delete, not {strategy!r}"
            )
        for thread in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread)
            else:
                self._checkpoints.prune(str(thread))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the changes that led to the values of delta channels at a checkpoint."""
        thread = _thread(config)
        ns = _ns(config) or ""
        id = get_checkpoint_id(config)
        traces: Mapping[str, Any] = {}
        with suppress(NotFound):
            if channels:
                id = id or self._checkpoints.get(thread, ns=ns).id
                traces = self._checkpoints.trace(thread, id, channels, ns=ns)
        histories: dict[str, DeltaChannelHistory] = {}
        for channel in channels:
            trace = traces.get(channel)
            writes = [] if trace is None else trace.writes
            histories[channel] = {
                "writes": [(write.task, channel, self._load(write.value)) for write in writes]
            }
            if trace is not None and trace.seed is not None:
                histories[channel]["seed"] = self._load(trace.seed)
        return histories

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return the next version; a random part keeps two branches of a thread apart."""
        number = int(str(current).partition(".")[0]) + 1 if current is not None else 1
        return f"{number:032}.{random.random():016}"

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint of a thread, the newest if the config names none, or None."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield the checkpoints of a thread, or of every thread of the scope, newest first."""
        start: str | None = ""
        while start is not None and (limit is None or limit > 0):
            page, start = await asyncio.to_thread(self._page, config, filter, before, limit, start)
            limit = None if limit is None else limit - len(page)
            for checkpoint in page:
                yield checkpoint

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint and the channels whose version is new."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store the writes of a task; a task that runs again does not write twice."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove a thread and everything in it."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of these runs in every thread of the scope."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep only the newest checkpoint of each namespace; with `delete`, remove the threads."""
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the changes that led to the values of delta channels at a checkpoint."""
        return await asyncio.to_thread(
            self.get_delta_channel_history, config=config, channels=channels
        )

    def _page(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
        after: str,
    ) -> tuple[Sequence[CheckpointTuple], str | None]:
        """Return some checkpoints and the cursor of the next page, None at the end."""
        page = self._checkpoints.list(
            None if config is None else _thread(config),
            ns=None if config is None else _ns(config),
            id=None if config is None else get_checkpoint_id(config) or None,
            before=None if before is None else get_checkpoint_id(before) or None,
            where=filter,
            limit=PAGE_SIZE if limit is None else min(limit, PAGE_SIZE),
            after=after or None,
        )
        return [self._to_tuple(stored) for stored in page], page.next

    def _to_tuple(self, stored: StoredCheckpoint) -> CheckpointTuple:
        """Convert a stored checkpoint into LangGraph's form."""
        state, *loaded = self._load_all(
            [
                stored.state,
                *stored.values.values(),
                *[write.value for write in stored.writes],
            ]
        )
        values = dict(zip(stored.values, loaded, strict=False))
        written = zip(stored.writes, loaded[len(values) :], strict=True)
        parent = stored.parent
        return CheckpointTuple(
            _config(stored.thread, stored.ns, stored.id),
            cast(Checkpoint, {**state, "channel_values": values}),
            cast(CheckpointMetadata, stored.metadata),
            None if parent is None else _config(stored.thread, stored.ns, parent),
            [(write.task, write.channel, value) for write, value in written],
        )

    def _dump(self, value: Any) -> Typed:
        """Serialize a value; load it once if it has a class that was not loaded before."""
        dumped = _reject_pickle(self.serde.dumps_typed(value))
        if dumped[0] == "msgpack":
            classes = _class_names(dumped[1])
            if not classes <= self._loadable:
                self._load(dumped)
                # A new set: a copy of the saver with another allowlist has its own.
                self._loadable |= classes
        return dumped

    def _load(self, value: Typed) -> Any:
        return self._load_all([value])[0]

    def _load_all(self, values: Sequence[Typed]) -> Sequence[Any]:
        blocked: list[SerdeEvent] = []
        token = _blocked.set(blocked)
        try:
            loaded = [self.serde.loads_typed(_reject_pickle(value)) for value in values]
        finally:
            _blocked.reset(token)
        if blocked:
            name = (blocked[0]["module"], blocked[0]["name"])
            problem = (
                f"does not load the class {'.'.join(name)}: "
                f"allow it with MemoristSaver(…).with_allowlist([{name!r}])"
            )
            raise Invalid(field="serde", problem=problem)
        return loaded


def _class_names(data: bytes) -> frozenset[tuple[str, str]]:
    """Return the classes that serialized bytes name, without importing or creating any."""
    names: set[tuple[str, str]] = set()

    def visit(_: int, inner: bytes) -> None:
        match ormsgpack.unpackb(inner, ext_hook=visit, option=ormsgpack.OPT_NON_STR_KEYS):
            case [str(module), str(name), *_]:
                names.add((module, name))

    ormsgpack.unpackb(data, ext_hook=visit, option=ormsgpack.OPT_NON_STR_KEYS)
    return frozenset(names)


def _reject_pickle(value: Typed) -> Typed:
    if value[0].partition("+")[0] == "pickle":
        raise Invalid(
            field="serde",
            problem="must not use pickle: anyone who can write to the database could execute code",
        )
    return value


def _thread(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])


def _ns(config: RunnableConfig) -> str | None:
    ns = config["configurable"].get("checkpoint_ns")
    return None if ns is None else str(ns)


def _config(thread: str, ns: str, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}}
