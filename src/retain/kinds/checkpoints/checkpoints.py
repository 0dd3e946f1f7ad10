"""Checkpoints: where the threads of a graph stand, step by step, so that a run can go on, go back or branch off.

What is in them is the framework's own: bytes, and the name of the form that they have. They come in and go out as they are,
and nothing here opens them. The value of a channel is stored once for each of its versions, not again with every step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from retain.base import canonical, clock, limits
from retain.base.canonical import Json
from retain.base.errors import Invalid, NotFound
from retain.kinds.checkpoints.checkpoint import (
    MOST_NAME,
    Checkpoint,
    Traced,
    Typed,
    Write,
    decoded,
    digest,
    encoded,
    matches,
    namespace,
    needed,
)
from retain.kinds.kind import Check, Kind, Page, Table, decode_cursor, encode_cursor
from retain.storage.database import Row, Transaction

_AT_ONCE = (3, 8, 24)
"""How many values a statement can ask for: the narrowest that will do is used."""
_SCANNED = 100
_END = "\U0010ffff"
"""After every id."""


def _misplaced(tx: Transaction) -> list[str]:
    rows = tx.all("select line, user_id, thread, ns from threads where tenant = :tenant")
    return [
        f"thread {thread} {ns}"
        for line, user, thread, ns in rows
        if digest(user, thread, ns) != line
    ]


_OWNED = "line in (select line from threads where tenant = :tenant and user_id = :user)"


class Checkpoints(Kind):
    """The threads of the scope's user, or of the tenant where the scope has no user."""

    name = "checkpoints"
    tables = (
        Table("threads", order="line", owned="user_id = :user"),
        Table("checkpoints", order="line, id", owned=_OWNED),
        Table("channel_values", order="line, channel, version", owned=_OWNED),
        Table("checkpoint_writes", order="line, checkpoint, task, idx", owned=_OWNED),
    )
    checks = (Check("a thread is where its name says", find=_misplaced),)

    def add(
        self,
        thread: str,
        id: str,
        state: Typed,
        *,
        ns: str = "",
        parent: str | None = None,
        metadata: Json = None,
        versions: Mapping[str, str] | None = None,
        values: Mapping[tuple[str, str], Typed] | None = None,
    ) -> None:
        """Keep a step; `values` has, by channel and version, those that are new. A step that is there is replaced."""
        line, place = self._line(thread, ns), self._place(thread, ns)
        said = {} if metadata is None else metadata
        if not isinstance(said, Mapping):
            raise Invalid(field="metadata", problem="must be a JSON object")
        raw = canonical.dump(said, "metadata", limits.MAX_MESSAGE_BYTES, self._settings.secrets)
        run = json.loads(raw).get("run_id")
        step = {
            "id": canonical.key(id, "id"),
            "parent": None if parent is None else canonical.key(parent, "parent"),
            **encoded(state, "state"),
            "metadata": raw,
            "versions": canonical.dump(dict(versions or {}), "versions", 1 << 20),
            "run": run if isinstance(run, str) and 0 < len(run) <= 128 else None,
        }
        kept = [
            {
                "line": line,
                "channel": canonical.key(channel, "channel"),
                "version": canonical.key(version, "version"),
            }
            | encoded(value, channel)
            for (channel, version), value in (values or {}).items()
        ]

        def work(tx: Transaction) -> None:
            tx.run(_THREAD, line=line, **place)
            tx.many(_KEEP, kept)
            tx.run(_ADD, line=line, **step)

        self._write("put", work, row={"line": line, "id": id}, idempotent=True)

    def write(self, thread: str, id: str, writes: Sequence[Write], *, ns: str = "") -> None:
        """Keep what tasks wrote after a step. What is there stays, but an `idx` below 0 is replaced."""
        line, place = self._line(thread, ns), self._place(thread, ns)
        rows = [
            {
                "line": line,
                "checkpoint": canonical.key(id, "id"),
                "task": canonical.key(write.task, "task"),
                "idx": canonical.whole(write.idx, "idx", -(2**31), 2**31),
                "path": canonical.text(write.path, "path", MOST_NAME),
                "channel": canonical.key(write.channel, "channel"),
                **encoded(write.value, write.channel),
            }
            for write in writes
        ]

        def work(tx: Transaction) -> None:
            tx.run(_THREAD, line=line, **place)
            tx.many(_WRITE, rows)

        self._write("write", work, row={"line": line, "id": id}, idempotent=True)

    def get(self, thread: str, *, ns: str = "", id: str | None = None) -> Checkpoint:
        """One step of a thread, the newest where none is named."""
        line = self._line(thread, ns)
        if id is not None:
            canonical.key(id, "id")

        def work(tx: Transaction) -> Checkpoint:
            row = tx.one(_LATEST, line=line) if id is None else tx.one(_GET, line=line, id=id)
            if row is None:
                raise NotFound(what="checkpoint", id=f"{thread} {id or ''}".strip())
            return _filled(tx, [(line, thread, ns, *row)])[0]

        return self._read(work)

    def list(
        self,
        thread: str | None = None,
        *,
        ns: str | None = None,
        id: str | None = None,
        before: str | None = None,
        where: Mapping[str, Json] | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[Checkpoint]:
        """The steps of a thread, or of every thread, newest first; `where` is what their metadata must have, and equal."""
        size = self._limit(limit)
        asked: dict[str, Any] = {
            "user": self._owner.user or "",
            "step": None if id is None else canonical.key(id, "id"),
        }
        asked["thread"] = None if thread is None else canonical.key(thread, "thread")
        asked["ns"] = None if ns is None else namespace(ns)
        one_line = thread is not None and ns is not None
        if one_line:
            asked["line"] = self._line(str(thread), str(ns))
        start = (
            tuple(decode_cursor(after, [str, str]))
            if after
            else (_END if before is None else canonical.key(before, "before"), "")
        )

        scanned = _SCANNED if where else size + 1

        def work(tx: Transaction) -> Page[Checkpoint]:
            found: list[Row] = []
            at, more = start, True
            while more and len(found) <= size:
                values = {**asked, "at": at[0], "past": at[1], "size": scanned}
                rows = tx.all(_OF_LINE, **values) if one_line else tx.all(_OF_ALL, **values)
                found += [row for row in rows if matches(row[7], where)]
                at, more = (rows[-1][3], rows[-1][0]) if rows else at, len(rows) == scanned
            return Page(
                _filled(tx, found[:size]),
                encode_cursor([found[size - 1][3], found[size - 1][0]]) if found[size:] else None,
            )

        return self._read(work)

    def trace(
        self, thread: str, id: str, channels: Sequence[str], *, ns: str = ""
    ) -> dict[str, Traced]:
        """How channels came to their values at a step, along its ancestors; the step's own writes belong to the next."""
        line = self._line(thread, ns)
        canonical.key(id, "id")

        def work(tx: Transaction) -> dict[str, Traced]:
            seeds: dict[str, Typed] = {}
            writes: dict[str, list[Write]] = {channel: [] for channel in channels}
            step, seen = tx.one(_STEP, line=line, id=id), {id}
            while (
                step is not None
                and step[0] is not None
                and step[0] not in seen
                and len(seeds) < len(writes)
            ):
                at, step = step[0], tx.one(_STEP, line=line, id=step[0])
                seen.add(at)
                if step is None:
                    break
                for write in reversed(_writes(tx, line, at)):
                    if write.channel in writes and write.channel not in seeds:
                        writes[write.channel].append(write)
                versions = json.loads(step[1])
                wanted = [
                    (channel, versions[channel])
                    for channel in writes
                    if channel in versions and channel not in seeds
                ]
                seeds |= {
                    channel: value for (channel, _), value in _values(tx, line, wanted).items()
                }
            return {
                channel: Traced(seeds.get(channel), since[::-1])
                for channel, since in writes.items()
            }

        return self._read(work)

    def remove(self, thread: str) -> None:
        """Remove a thread: all its namespaces, steps, values and writes."""
        canonical.key(thread, "thread")

        def work(tx: Transaction) -> None:
            if not tx.run(_REMOVE, user=self._owner.user or "", thread=thread):
                raise NotFound(what="thread", id=thread)

        self._write("remove", work, subject=thread)

    def remove_runs(self, runs: Sequence[str]) -> int:
        """Remove the steps that were made by these runs, in every thread; how many there were."""
        wanted = dict.fromkeys(canonical.key(run, "runs") for run in runs)

        def work(tx: Transaction) -> int:
            removed = 0
            for line in sorted(
                {
                    row[0]
                    for run in wanted
                    for row in tx.all(_OF_RUN, user=self._owner.user or "", run=run)
                }
            ):
                tx.lock_rows(_HELD, line=line)
                gone = [id for run in wanted for (id,) in tx.all(_STEPS_OF_RUN, line=line, run=run)]
                removed += len(gone)
                _drop(tx, line, gone)
            return removed

        return self._write("remove_runs", work)

    def prune(self, thread: str) -> int:
        """Keep only the newest step of each namespace, and those before it that its values are made from; how many went.

        The metadata says which channels are stored as changes to an earlier value.
        """
        canonical.key(thread, "thread")

        def work(tx: Transaction) -> int:
            removed = 0
            for (line,) in tx.all(_LINES, user=self._owner.user or "", thread=thread):
                tx.lock_rows(_HELD, line=line)
                steps = tx.all(_STEPS, line=line)
                kept = needed(
                    steps, {(channel, version) for channel, version in tx.all(_STORED, line=line)}
                )
                gone = [id for id, *_ in steps if id not in kept]
                removed += len(gone)
                _drop(tx, line, gone)
            return removed

        return self._write("prune", work, subject=thread)

    def duplicate(self, thread: str, target: str) -> int:
        """Copy a thread with everything in it to another, where what is there already stays; how many steps it has."""
        canonical.key(thread, "thread")

        def work(tx: Transaction) -> int:
            copied = 0
            places = tx.all(_PLACES, user=self._owner.user or "", thread=thread)
            for line, _ in places:
                tx.lock_rows(_HELD, line=line)
            for line, ns in places:
                there = self._line(target, ns)
                tx.run(_THREAD, line=there, **self._place(target, ns))
                tx.run(_COPY_VALUES, line=line, there=there)
                tx.run(_COPY_WRITES, line=line, there=there)
                tx.run(_COPY, line=line, there=there)
                copied += int((tx.one(_COUNT, line=line) or (0,))[0])
            return copied

        return self._write("duplicate", work, subject=target, idempotent=True)

    def _line(self, thread: str, ns: str) -> str:
        return digest(self._owner.user or "", canonical.key(thread, "thread"), namespace(ns))

    def _place(self, thread: str, ns: str) -> dict[str, str]:
        return {"user": self._owner.user or "", "thread": thread, "ns": ns}


def _filled(tx: Transaction, rows: Sequence[Row]) -> list[Checkpoint]:
    """Steps with their values and writes; what several of them share is read once."""
    known: dict[tuple[str, str, str], Typed] = {}
    filled = []
    for line, thread, ns, id, parent, type, data, metadata, versions, created in rows:
        named: dict[str, str] = json.loads(versions)
        missing = [
            (channel, version)
            for channel, version in named.items()
            if (line, channel, version) not in known
        ]
        known |= {(line, *pair): value for pair, value in _values(tx, line, missing).items()}
        values = {
            c: known[line, c, version]
            for c, version in named.items()
            if (line, c, version) in known
        }
        state, at = decoded(type, data), clock.to_datetime(created)
        writes = _writes(tx, line, id)
        filled.append(
            Checkpoint(thread, ns, id, parent, state, metadata, named, values, writes, at)
        )
    return filled


def _values(
    tx: Transaction, line: str, pairs: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], Typed]:
    """The stored ones among the values of channels at versions."""
    found: dict[tuple[str, str], Typed] = {}
    for start in range(0, len(pairs), _AT_ONCE[-1]):
        some = [name for pair in pairs[start : start + _AT_ONCE[-1]] for name in pair]
        width = next(width for width in _AT_ONCE if 2 * width >= len(some))
        named = dict.fromkeys(_NAMED[: 2 * width]) | dict(zip(_NAMED, some, strict=False))
        for channel, version, stored in tx.all(_VALUES[width], line=line, **named):
            if stored is not None:
                form, _, data = stored.partition(" ")
                found[channel, version] = decoded(form, data)
    return found


def _writes(tx: Transaction, line: str, id: str) -> list[Write]:
    rows = tx.all(_WRITTEN, line=line, id=id)
    return [
        Write(task, idx, channel, decoded(type, data), path)
        for task, idx, channel, type, data, path in rows
    ]


def _drop(tx: Transaction, line: str, steps: Sequence[str]) -> None:
    """Remove steps of a line that is held, what was written after them, and the values that no other step has.

    A line without steps goes, but not where something was written after a step that is yet to come.
    """
    gone = [{"line": line, "id": id} for id in steps]
    tx.many(
        "delete from checkpoint_writes where tenant = :tenant and line = :line and checkpoint = :id",
        gone,
    )
    tx.many("delete from checkpoints where tenant = :tenant and line = :line and id = :id", gone)
    left = tx.all(_STEPS, line=line)
    if not left and not tx.one(_UNFINISHED, line=line):
        tx.run("delete from threads where tenant = :tenant and line = :line", line=line)
        return
    used = {pair for _, _, versions, _ in left for pair in json.loads(versions).items()}
    unused = [pair for pair in tx.all(_STORED, line=line) if pair not in used]
    tx.many(
        _FORGET,
        [{"line": line, "channel": channel, "version": version} for channel, version in unused],
    )


_NAMED = [
    f"{name}_{letter}" for letter in "abcdefghijklmnopqrstuvwx" for name in ("channel", "version")
]
# Constants, joined at import. Each value is looked up by its key: a join may read every value that the thread ever had.
_PAIRS = [
    "(:channel_" + letter + ", :version_" + letter + ")" for letter in "abcdefghijklmnopqrstuvwx"
]
_FOUND = """) select channel, version, (
    select type || ' ' || data from channel_values found where found.tenant = :tenant and found.line = :line
    and found.channel = wanted.channel and found.version = wanted.version) from wanted"""
_VALUES = {
    width: "with wanted (channel, version) as (values " + ", ".join(_PAIRS[:width]) + _FOUND
    for width in _AT_ONCE
}
_THREAD = """insert into threads (tenant, line, user_id, thread, ns, created_at, updated_at)
             values (:tenant, :line, :user, :thread, :ns, :now, :now)
             on conflict (tenant, line) do update set updated_at = :now where threads.updated_at < :now - 3600000000"""
_KEEP = """insert into channel_values (tenant, line, channel, version, type, data)
           values (:tenant, :line, :channel, :version, :type, :data)
           on conflict (tenant, line, channel, version) do update set type = excluded.type, data = excluded.data"""
_ADD = """insert into checkpoints (tenant, line, id, parent, type, data, metadata, versions, run_id, created_at)
          values (:tenant, :line, :id, :parent, :type, :data, :metadata, :versions, :run, :now)
          on conflict (tenant, line, id) do update
          set parent = excluded.parent, type = excluded.type, data = excluded.data, metadata = excluded.metadata,
              versions = excluded.versions, run_id = excluded.run_id"""
_WRITE = """insert into checkpoint_writes (tenant, line, checkpoint, task, idx, path, channel, type, data)
            values (:tenant, :line, :checkpoint, :task, :idx, :path, :channel, :type, :data)
            on conflict (tenant, line, checkpoint, task, idx) do update
            set path = excluded.path, channel = excluded.channel, type = excluded.type, data = excluded.data
            where excluded.idx < 0"""
_FIELDS = "id, parent, type, data, metadata, versions, created_at from checkpoints "
_GET = "select " + _FIELDS + "where tenant = :tenant and line = :line and id = :id"
_LATEST = "select " + _FIELDS + "where tenant = :tenant and line = :line order by id desc limit 1"
_JOINED = """select checkpoints.line, thread, ns, id, parent, type, data, metadata, versions, checkpoints.created_at
             from threads join checkpoints on checkpoints.tenant = threads.tenant and checkpoints.line = threads.line
             where threads.tenant = :tenant and checkpoints.tenant = :tenant and user_id = :user
             and id = coalesce(:step, id) and id <= :at and (id, checkpoints.line) < (:at, :past) """
_OF_LINE = (
    _JOINED
    + "and threads.line = :line and thread = :thread and ns = :ns order by id desc limit :size"
)
_OF_ALL = (
    _JOINED
    + """and thread = coalesce(:thread, thread) and ns = coalesce(:ns, ns)
         order by id desc, checkpoints.line desc limit :size"""
)
_WRITTEN = """select task, idx, channel, type, data, path from checkpoint_writes
              where tenant = :tenant and line = :line and checkpoint = :id order by path, task, idx"""
_STEP = (
    "select parent, versions from checkpoints where tenant = :tenant and line = :line and id = :id"
)
_STEPS = "select id, parent, versions, metadata from checkpoints where tenant = :tenant and line = :line order by id desc"
_STORED = "select channel, version from channel_values where tenant = :tenant and line = :line"
_COUNT = "select count(*) from checkpoints where tenant = :tenant and line = :line"
_FORGET = """delete from channel_values
             where tenant = :tenant and line = :line and channel = :channel and version = :version"""
_REMOVE = "delete from threads where tenant = :tenant and user_id = :user and thread = :thread"
_LINES = "select line from threads where tenant = :tenant and user_id = :user and thread = :thread order by line"
_PLACES = "select line, ns from threads where tenant = :tenant and user_id = :user and thread = :thread order by line"
# Whoever adds to a line takes the same lock: nothing is added between the statements of whoever holds it.
_HELD = "select 1 from threads where tenant = :tenant and line = :line"
_UNFINISHED = "select 1 from checkpoint_writes where tenant = :tenant and line = :line limit 1"
_STEPS_OF_RUN = (
    "select id from checkpoints where tenant = :tenant and line = :line and run_id = :run"
)
_OF_RUN = """select distinct checkpoints.line from checkpoints
             join threads on threads.tenant = checkpoints.tenant and threads.line = checkpoints.line
             where checkpoints.tenant = :tenant and threads.tenant = :tenant and run_id = :run and user_id = :user"""
_COPY_VALUES = """insert into channel_values (tenant, line, channel, version, type, data)
                  select tenant, :there, channel, version, type, data from channel_values
                  where tenant = :tenant and line = :line on conflict do nothing"""
_COPY_WRITES = """insert into checkpoint_writes (tenant, line, checkpoint, task, idx, path, channel, type, data)
                  select tenant, :there, checkpoint, task, idx, path, channel, type, data from checkpoint_writes
                  where tenant = :tenant and line = :line on conflict do nothing"""
_COPY = """insert into checkpoints (tenant, line, id, parent, type, data, metadata, versions, run_id, created_at)
           select tenant, :there, id, parent, type, data, metadata, versions, run_id, :now from checkpoints
           where tenant = :tenant and line = :line on conflict do nothing"""
