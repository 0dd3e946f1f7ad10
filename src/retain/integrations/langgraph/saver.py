"""LangGraph's checkpointer: threads of graphs are kept with everything else that is remembered.

What a graph stores is serialized by LangGraph's own serializer, in the mode that opens nothing but plain data and the
framework's own messages: a stored byte can name no other class to be imported, and pickle is refused in either direction.
A class that is not allowed is an error, when it is written and when it is read: LangGraph would go on with plain data in its
place, and the next step would store that for good.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, cast

from retain.base.errors import Invalid, NotFound
from retain.integrations._require import extra, local
from retain.kinds.checkpoints.checkpoint import Checkpoint as Step
from retain.kinds.checkpoints.checkpoint import Typed, Write
from retain.memory import Scope

with extra("langgraph"):
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

_AT_ONCE = 50
_refused: ContextVar[list[SerdeEvent] | None] = ContextVar("refused", default=None)


@register_serde_event_listener
def _heard(event: SerdeEvent) -> None:
    """LangGraph's serializer says which class it did not make, and nothing but that."""
    refused = _refused.get()
    if refused is not None and "blocked" in event["kind"]:
        refused.append(event)


class RetainSaver(BaseCheckpointSaver[str]):
    """A checkpointer over the memory of a scope: `graph.compile(checkpointer=RetainSaver(memory.scope(user="ada")))`."""

    def __init__(self, scope: Scope, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde or JsonPlusSerializer(allowed_msgpack_modules=None))
        self._steps = local(scope).checkpoints
        self._opened: frozenset[tuple[str, str]] = frozenset()  # classes that could be read

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """One step of a thread, the newest where the config names none; None where there is none."""
        try:
            return self._told(
                self._steps.get(
                    _thread(config), ns=_ns(config) or "", id=get_checkpoint_id(config) or None
                )
            )
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
        """The steps of a thread, or of every thread of the scope, newest first."""
        start: str | None = ""
        while start is not None and (limit is None or limit > 0):
            found, start = self._page(config, filter, before, limit, start)
            limit = None if limit is None else limit - len(found)
            yield from found

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a step; of its channels, those whose version is new."""
        thread, ns = _thread(config), _ns(config) or ""
        values = checkpoint["channel_values"]
        self._steps.add(
            thread,
            checkpoint["id"],
            self._dump(
                {name: value for name, value in checkpoint.items() if name != "channel_values"}
            ),
            ns=ns,
            parent=get_checkpoint_id(config) or None,
            metadata=get_serializable_checkpoint_metadata(config, metadata),
            versions={
                channel: str(version) for channel, version in checkpoint["channel_versions"].items()
            },
            values={
                (channel, str(version)): self._dump(values[channel])
                for channel, version in new_versions.items()
                if channel in values
            },
        )
        return _config(thread, ns, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep what a task wrote after a step; a task that is run again does not write twice."""
        made = [
            Write(task_id, WRITES_IDX_MAP.get(channel, idx), channel, self._dump(value), task_path)
            for idx, (channel, value) in enumerate(writes)
        ]
        self._steps.write(
            _thread(config),
            str(config["configurable"]["checkpoint_id"]),
            made,
            ns=_ns(config) or "",
        )

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread and everything in it."""
        with suppress(NotFound):
            self._steps.remove(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the steps that these runs made, in every thread of the scope."""
        self._steps.remove_runs([str(run) for run in run_ids])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history."""
        self._steps.duplicate(str(source_thread_id), str(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the newest step of each namespace, and what it is made from; or, with `delete`, nothing."""
        if strategy not in ("keep_latest", "delete"):
            raise Invalid(
                field="strategy", problem=f"must be keep_latest or delete, not {strategy!r}"
            )
        for thread in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread)
            else:
                self._steps.prune(str(thread))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """How channels that are stored as changes came to their values at a step."""
        thread, ns, id = _thread(config), _ns(config) or "", get_checkpoint_id(config)
        with suppress(NotFound):
            traced = (
                self._steps.trace(thread, id or self._steps.get(thread, ns=ns).id, channels, ns=ns)
                if channels
                else {}
            )
            found: dict[str, DeltaChannelHistory] = {}
            for channel, one in traced.items():
                found[channel] = {
                    "writes": [
                        (write.task, channel, self._load(write.value)) for write in one.writes
                    ]
                }
                if one.seed is not None:
                    found[channel]["seed"] = self._load(one.seed)
            return found
        return {channel: {"writes": []} for channel in channels}

    def get_next_version(self, current: str | None, channel: None) -> str:
        """The version after another; a random part keeps two branches of a thread from making the same one."""
        number = int(str(current).partition(".")[0]) + 1 if current is not None else 1
        return f"{number:032}.{random.random():016}"

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """One step of a thread, the newest where the config names none; None where there is none."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """The steps of a thread, or of every thread of the scope, newest first."""
        start: str | None = ""
        while start is not None and (limit is None or limit > 0):
            found, start = await asyncio.to_thread(self._page, config, filter, before, limit, start)
            limit = None if limit is None else limit - len(found)
            for step in found:
                yield step

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a step; of its channels, those whose version is new."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep what a task wrote after a step; a task that is run again does not write twice."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove a thread and everything in it."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the steps that these runs made, in every thread of the scope."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the newest step of each namespace, and what it is made from; or, with `delete`, nothing."""
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """How channels that are stored as changes came to their values at a step."""
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
        """Some steps, and where the next ones start, None at the end."""
        page = self._steps.list(
            None if config is None else _thread(config),
            ns=None if config is None else _ns(config),
            id=None if config is None else get_checkpoint_id(config) or None,
            before=None if before is None else get_checkpoint_id(before) or None,
            where=filter,
            limit=_AT_ONCE if limit is None else min(limit, _AT_ONCE),
            after=after or None,
        )
        return [self._told(step) for step in page], page.next

    def _told(self, step: Step) -> CheckpointTuple:
        """A step in the framework's words."""
        values = {channel: self._load(value) for channel, value in step.values.items()}
        return CheckpointTuple(
            _config(step.thread, step.ns, step.id),
            cast(Checkpoint, {**self._load(step.state), "channel_values": values}),
            cast(CheckpointMetadata, step.metadata),
            None if step.parent is None else _config(step.thread, step.ns, step.parent),
            [(write.task, write.channel, self._load(write.value)) for write in step.writes],
        )

    def _dump(self, value: Any) -> Typed:
        """A value as it is stored; what has a class that was not seen yet is read once, to know that it can be."""
        dumped = _safe(self.serde.dumps_typed(value))
        if dumped[0] == "msgpack" and not (named := _named(dumped[1])) <= self._opened:
            self._load(dumped)
            self._opened |= named  # a new set: a copy with another allowlist has its own
        return dumped

    def _load(self, value: Typed) -> Any:
        refused: list[SerdeEvent] = []
        before = _refused.set(refused)
        try:
            loaded = self.serde.loads_typed(_safe(value))
        finally:
            _refused.reset(before)
        if refused:
            one = (refused[0]["module"], refused[0]["name"])
            problem = f"does not make the class {'.'.join(one)}: allow it with RetainSaver(…).with_allowlist([{one!r}])"
            raise Invalid(field="serde", problem=problem)
        return loaded


def _named(data: bytes) -> frozenset[tuple[str, str]]:
    """The classes that stored bytes name, without making anything of them."""
    found: set[tuple[str, str]] = set()

    def look(_: int, inner: bytes) -> None:
        match ormsgpack.unpackb(inner, ext_hook=look, option=ormsgpack.OPT_NON_STR_KEYS):
            case [str(module), str(name), *_]:
                found.add((module, name))

    ormsgpack.unpackb(data, ext_hook=look, option=ormsgpack.OPT_NON_STR_KEYS)
    return frozenset(found)


def _safe(value: Typed) -> Typed:
    if value[0].partition("+")[0] == "pickle":
        raise Invalid(
            field="serde",
            problem="must not pickle: who can write to the database could run code on reading it",
        )
    return value


def _thread(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])


def _ns(config: RunnableConfig) -> str | None:
    found = config["configurable"].get("checkpoint_ns")
    return None if found is None else str(found)


def _config(thread: str, ns: str, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}}
