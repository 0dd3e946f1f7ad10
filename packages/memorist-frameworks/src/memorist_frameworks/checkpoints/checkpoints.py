"""Checkpoints: the steps of a graph's threads, so that a run can resume, rewind or branch.

A checkpoint holds the framework's own bytes and the name of their format. They are stored and
returned unchanged; nothing here decodes them. The value of a channel is stored once per version,
not again with every step.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from memorist.base import canonical, clock, limits
from memorist.base.canonical import Json
from memorist.base.errors import Invalid, NotFound
from memorist.base.verbs import verb
from memorist.kinds.checkpoints import CheckpointTables, line_of
from memorist.kinds.kind import ChangeSubject
from memorist.kinds.page import Page, decode_cursor, encode_cursor
from memorist.memory import Scope
from memorist.storage.checksum import checksum
from memorist.storage.database import Row, Transaction
from memorist_frameworks.checkpoints.checkpoint import (
    MAX_NAME_BYTES,
    Checkpoint,
    Traced,
    Typed,
    Write,
    decoded,
    encoded,
    matches,
    namespace,
    needed,
)

_LOOKUP_WIDTHS = (3, 8, 24)
"""Numbers of values that one statement can look up; the smallest that suffices is used."""
_ROWS_PER_SCAN = 100
_LAST_ID = "\U0010ffff"
"""A string that sorts after every id."""


_cached_line = functools.lru_cache(1024)(line_of)

_Rows = list[dict[str, Any]]


class Checkpoints(CheckpointTables):
    """The checkpoints of a user's threads, or of the tenant's if no user is named."""

    name = "checkpoints"

    @verb(effect="add")
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
        """Store a step with its new values, by channel and version; replace one of the same id."""
        line = self._line(thread, ns)
        place = self._place(thread, ns)
        fields = {} if metadata is None else metadata
        if not isinstance(fields, Mapping):
            raise Invalid(field="metadata", problem="must be a JSON object")
        raw = canonical.dump(fields, "metadata", limits.MAX_MESSAGE_BYTES, self._settings.masking)
        run = json.loads(raw).get("run_id") if "run_id" in fields else None
        step: dict[str, Any] = {
            "id": canonical.key(id, "id"),
            "parent": None if parent is None else canonical.key(parent, "parent"),
            **encoded(state, "state"),
            "metadata": raw,
            "versions": canonical.dump(dict(versions or {}), "versions", 1 << 20),
            "run": run if isinstance(run, str) and 0 < len(run) <= 128 else None,
        }
        step["checksum"] = checksum(step["data"], step["metadata"], step["versions"])
        value_rows: _Rows = [
            {
                "line": line,
                "channel": canonical.key(channel, "channel"),
                "version": canonical.key(version, "version"),
            }
            | encoded(value, channel)
            for (channel, version), value in (values or {}).items()
        ]
        for row in value_rows:
            row["checksum"] = checksum(row["data"])

        def work(tx: Transaction) -> None:
            tx.send(_THREAD, line=line, **place)
            if value_rows:
                tx.many(_KEEP, value_rows)
            tx.send(_ADD, line=line, **step)

        self._write("add", work, row={"line": line, "id": id}, idempotent=True)

    @verb(effect="change")
    def write(self, thread: str, id: str, writes: Sequence[Write], *, ns: str = "") -> None:
        """Store what tasks wrote after a step.

        A write that exists is not changed, unless its `idx` is below 0: then it is replaced.
        """
        line = self._line(thread, ns)
        place = self._place(thread, ns)
        canonical.key(id, "id")
        rows: _Rows = [
            {
                "line": line,
                "checkpoint": id,
                "task": canonical.key(write.task, "task"),
                "idx": canonical.check_integer(write.idx, "idx", -(2**31), 2**31),
                "path": canonical.text(write.path, "path", MAX_NAME_BYTES),
                "channel": canonical.key(write.channel, "channel"),
                **encoded(write.value, write.channel),
            }
            for write in writes
        ]
        for row in rows:
            row["checksum"] = checksum(row["path"], row["data"])

        def work(tx: Transaction) -> None:
            tx.send(_THREAD, line=line, **place)
            tx.many(_WRITE, rows)

        self._write("write", work, row={"line": line, "id": id}, idempotent=True)

    @verb(effect="read")
    def get(self, thread: str, *, ns: str = "", id: str | None = None) -> Checkpoint:
        """Return one step of a thread, the newest if no `id` is given."""
        line = self._line(thread, ns)
        if id is not None:
            canonical.key(id, "id")

        rows = self._read_rows(
            lambda tx: tx.send(_WHOLE_LATEST if id is None else _WHOLE_STEP, line=line, id=id)
        )
        if not rows:
            raise NotFound(what="checkpoint", id=f"{thread} {id or ''}".strip())
        return _whole_checkpoint(thread, ns, rows)

    @verb(effect="read")
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
        """Return the steps of a thread, or of every thread, newest first.

        With `where`, only steps whose metadata has these fields with equal values.
        """
        size = self._limit(limit)
        parameters: dict[str, Any] = {
            "user": self._owner.user or "",
            "step": None if id is None else canonical.key(id, "id"),
        }
        parameters["thread"] = None if thread is None else canonical.key(thread, "thread")
        parameters["ns"] = None if ns is None else namespace(ns)
        is_one_line = thread is not None and ns is not None
        if is_one_line:
            parameters["line"] = self._line(str(thread), str(ns))
        start = (
            tuple(decode_cursor(after, [str, str]))
            if after
            else (_LAST_ID if before is None else canonical.key(before, "before"), "")
        )

        scanned = _ROWS_PER_SCAN if where else size + 1

        def work(tx: Transaction) -> Page[Checkpoint]:
            matching: list[Row] = []
            position = start
            more = True
            while more and len(matching) <= size:
                values = {**parameters, "at": position[0], "past": position[1], "size": scanned}
                rows = tx.all(_OF_LINE, **values) if is_one_line else tx.all(_OF_ALL, **values)
                matching += [row for row in rows if matches(row[7], where)]
                position = (rows[-1][3], rows[-1][0]) if rows else position
                more = len(rows) == scanned
            return Page(
                _filled(tx, matching[:size]),
                encode_cursor([matching[size - 1][3], matching[size - 1][0]])
                if matching[size:]
                else None,
            )

        return self._read(work)

    @verb(effect="read")
    def trace(
        self, thread: str, id: str, channels: Sequence[str], *, ns: str = ""
    ) -> dict[str, Traced]:
        """Return how channels got their values at a step, from the writes of its ancestors.

        The step's own writes belong to the next step.
        """
        line = self._line(thread, ns)
        canonical.key(id, "id")

        def work(tx: Transaction) -> dict[str, Traced]:
            seeds: dict[str, Typed] = {}
            writes: dict[str, list[Write]] = {channel: [] for channel in channels}
            step = tx.one(_STEP, line=line, id=id)
            seen = {id}
            while (
                step is not None
                and step[0] is not None
                and step[0] not in seen
                and len(seeds) < len(writes)
            ):
                ancestor = step[0]
                step = tx.one(_STEP, line=line, id=ancestor)
                seen.add(ancestor)
                if step is None:
                    break
                for write in reversed(_writes(tx, line, ancestor)):
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

    @verb(effect="remove")
    def remove(self, thread: str) -> None:
        """Remove a thread: all its namespaces, steps, values and writes."""
        canonical.key(thread, "thread")

        def work(tx: Transaction) -> None:
            if not tx.run(_REMOVE, user=self._owner.user or "", thread=thread):
                raise NotFound(what="thread", id=thread)

        self._write("remove", work, row=ChangeSubject(thread))

    @verb(effect="remove")
    def remove_runs(self, runs: Sequence[str]) -> int:
        """Remove the steps of these runs, in every thread, and return their number."""
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
                tx.lock_rows(_THREAD_ROW, line=line)
                step_ids = [
                    id for run in wanted for (id,) in tx.all(_STEPS_OF_RUN, line=line, run=run)
                ]
                removed += len(step_ids)
                _drop(tx, line, step_ids)
            return removed

        return self._write("remove_runs", work)

    @verb(effect="remove")
    def prune(self, thread: str) -> int:
        """Remove the steps of a thread that its newest ones do not need, and return their number.

        Keeps the newest step of each namespace and the earlier ones that its values are built from.
        The metadata says which channels are stored as changes to an earlier value.
        """
        canonical.key(thread, "thread")

        def work(tx: Transaction) -> int:
            removed = 0
            for (line,) in tx.all(_LINES, user=self._owner.user or "", thread=thread):
                tx.lock_rows(_THREAD_ROW, line=line)
                steps = tx.all(_STEPS, line=line)
                needed_ids = needed(
                    steps, {(channel, version) for channel, version in tx.all(_STORED, line=line)}
                )
                removed_ids = [id for id, *_ in steps if id not in needed_ids]
                removed += len(removed_ids)
                _drop(tx, line, removed_ids)
            return removed

        return self._write("prune", work, row=ChangeSubject(thread))

    @verb(effect="add")
    def duplicate(self, thread: str, target: str) -> int:
        """Copy a thread with everything in it to another, and return its number of steps.

        What the target already has is not changed.
        """
        canonical.key(thread, "thread")

        def work(tx: Transaction) -> int:
            copied = 0
            places = tx.all(_PLACES, user=self._owner.user or "", thread=thread)
            for line, _ in places:
                tx.lock_rows(_THREAD_ROW, line=line)
            for line, ns in places:
                target_line = self._line(target, ns)
                tx.send(_THREAD, line=target_line, **self._place(target, ns))
                tx.send(_COPY_VALUES, line=line, there=target_line)
                tx.send(_COPY_WRITES, line=line, there=target_line)
                tx.send(_COPY, line=line, there=target_line)
                copied += int((tx.one(_COUNT, line=line) or (0,))[0])
            return copied

        return self._write("duplicate", work, row=ChangeSubject(target), idempotent=True)

    def _line(self, thread: str, ns: str) -> str:
        return _cached_line(self._owner.user or "", canonical.key(thread, "thread"), namespace(ns))

    def _place(self, thread: str, ns: str) -> dict[str, str]:
        return {"user": self._owner.user or "", "thread": thread, "ns": ns}


def checkpoints_of(scope: Scope) -> Checkpoints:
    """Return the checkpoints of a scope."""
    return Checkpoints(scope.services, scope.owner)


def _whole_checkpoint(thread: str, ns: str, rows: Sequence[Row]) -> Checkpoint:
    """Return the step that all rows of _WHOLE_STEP or _WHOLE_LATEST are of."""
    values: dict[str, Typed] = {}
    writes: list[Write] = []
    step: Row = ()
    for row in rows:
        part, name, other, type, data, text, _, number = row
        if part == 0:
            step = row
        elif part == 2:
            writes.append(Write(name, number, text, decoded(type, data), other))
        elif type is not None:  # the value is stored
            values[name] = decoded(type, data)
    writes.sort(key=lambda write: (write.path, write.task, write.idx))
    _, id, parent, type, data, metadata, versions, created = step
    return Checkpoint(
        thread=thread,
        ns=ns,
        id=id,
        parent=parent,
        state=decoded(type, data),
        raw=metadata,
        versions=json.loads(versions),
        values=values,
        writes=writes,
        created_at=clock.to_datetime(created),
    )


def _filled(tx: Transaction, rows: Sequence[Row]) -> list[Checkpoint]:
    """Return steps with their values and writes; values that steps share are read once."""
    known_values: dict[tuple[str, str, str], Typed] = {}
    filled = []
    for line, thread, ns, id, parent, type, data, metadata, versions, created in rows:
        version_by_channel: dict[str, str] = json.loads(versions)
        missing = [
            (channel, version)
            for channel, version in version_by_channel.items()
            if (line, channel, version) not in known_values
        ]
        known_values |= {(line, *pair): value for pair, value in _values(tx, line, missing).items()}
        values = {
            c: known_values[line, c, version]
            for c, version in version_by_channel.items()
            if (line, c, version) in known_values
        }
        state = decoded(type, data)
        created_at = clock.to_datetime(created)
        writes = _writes(tx, line, id)
        filled.append(
            Checkpoint(
                thread=thread,
                ns=ns,
                id=id,
                parent=parent,
                state=state,
                raw=metadata,
                versions=version_by_channel,
                values=values,
                writes=writes,
                created_at=created_at,
            )
        )
    return filled


def _values(
    tx: Transaction, line: str, pairs: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], Typed]:
    """Return the values of channels at versions, without those that are not stored."""
    result: dict[tuple[str, str], Typed] = {}
    for start in range(0, len(pairs), _LOOKUP_WIDTHS[-1]):
        names = [name for pair in pairs[start : start + _LOOKUP_WIDTHS[-1]] for name in pair]
        width = next(width for width in _LOOKUP_WIDTHS if 2 * width >= len(names))
        named = dict.fromkeys(_PAIR_PARAMETERS[: 2 * width]) | dict(
            zip(_PAIR_PARAMETERS, names, strict=False)
        )
        for channel, version, stored in tx.all(_VALUES[width], line=line, **named):
            if stored is not None:
                form, _, data = stored.partition(" ")
                result[channel, version] = decoded(form, data)
    return result


def _writes(tx: Transaction, line: str, id: str) -> list[Write]:
    rows = tx.all(_WRITTEN, line=line, id=id)
    return [
        Write(task, idx, channel, decoded(type, data), path)
        for task, idx, channel, type, data, path in rows
    ]


def _drop(tx: Transaction, line: str, steps: Sequence[str]) -> None:
    """Remove steps of a locked line, the writes after them, and the values that no other step uses.

    Also removes a line without steps, unless it has writes for a step that is still to come.
    """
    keys = [{"line": line, "id": id} for id in steps]
    tx.many(
        "delete from checkpoint_writes where tenant = :tenant and line = :line and checkpoint = :id",
        keys,
    )
    tx.many("delete from checkpoints where tenant = :tenant and line = :line and id = :id", keys)
    remaining = tx.all(_STEPS, line=line)
    if not remaining and not tx.one(_UNFINISHED, line=line):
        tx.send("delete from threads where tenant = :tenant and line = :line", line=line)
        return
    used = {pair for _, _, versions, _ in remaining for pair in json.loads(versions).items()}
    unused = [pair for pair in tx.all(_STORED, line=line) if pair not in used]
    tx.many(
        _FORGET,
        [{"line": line, "channel": channel, "version": version} for channel, version in unused],
    )


_PAIR_PARAMETERS = [
    f"{name}_{letter}" for letter in "abcdefghijklmnopqrstuvwx" for name in ("channel", "version")
]
# Constants, joined at import. Each value is looked up by its key: a join might read every value
# that the thread ever had.
_PAIRS = [
    "(:channel_" + letter + ", :version_" + letter + ")" for letter in "abcdefghijklmnopqrstuvwx"
]
_WANTED_VALUES = """) select channel, version, (
    select type || ' ' || data from channel_values found where found.tenant = :tenant and found.line = :line
    and found.channel = wanted.channel and found.version = wanted.version) from wanted"""
_VALUES = {
    width: "with wanted (channel, version) as (values " + ", ".join(_PAIRS[:width]) + _WANTED_VALUES
    for width in _LOOKUP_WIDTHS
}
_THREAD = """insert into threads (tenant, line, user_id, thread, ns, created_at, updated_at)
             values (:tenant, :line, :user, :thread, :ns, :now, :now)
             on conflict (tenant, line) do update set updated_at = :now where threads.updated_at < :now - 3600000000"""
_KEEP = """insert into channel_values (tenant, line, channel, version, type, data, checksum)
           values (:tenant, :line, :channel, :version, :type, :data, :checksum)
           on conflict (tenant, line, channel, version) do update
           set type = excluded.type, data = excluded.data, checksum = excluded.checksum"""
_ADD = """insert into checkpoints (tenant, line, id, parent, type, data, metadata, versions, run_id, created_at,
                                  checksum)
          values (:tenant, :line, :id, :parent, :type, :data, :metadata, :versions, :run, :now, :checksum)
          on conflict (tenant, line, id) do update
          set parent = excluded.parent, type = excluded.type, data = excluded.data, metadata = excluded.metadata,
              versions = excluded.versions, run_id = excluded.run_id, checksum = excluded.checksum"""
_WRITE = """insert into checkpoint_writes (tenant, line, checkpoint, task, idx, path, channel, type, data, checksum)
            values (:tenant, :line, :checkpoint, :task, :idx, :path, :channel, :type, :data, :checksum)
            on conflict (tenant, line, checkpoint, task, idx) do update
            set path = excluded.path, channel = excluded.channel, type = excluded.type, data = excluded.data,
                checksum = excluded.checksum
            where excluded.idx < 0"""
# A step, the values of its channels and the writes after it, in one statement. Each value is looked
# up by its key, as above; a value that is not stored has no type.
_FOUND = """from channel_values found where found.tenant = :tenant and found.line = :line
            and found.channel = pair.key and found.version = pair.value"""
_PARTS = f""")
    select 0, id, parent, type, data, metadata, versions, created_at from step
    union all
    select 1, pair.key, pair.value, (select type {_FOUND}), (select data {_FOUND}), '', '', 0
    from step cross join {{members_of_versions}} pair
    union all
    select 2, written.task, written.path, written.type, written.data, channel, '', idx
    from step cross join checkpoint_writes written
    where written.tenant = :tenant and written.line = :line and checkpoint = step.id"""
_FIELDS = "id, parent, type, data, metadata, versions, created_at from checkpoints "
_WHOLE_STEP = (
    "with step as materialized (select "
    + _FIELDS
    + "where tenant = :tenant and line = :line and id = :id"
    + _PARTS
)
_WHOLE_LATEST = (
    "with step as materialized (select "
    + _FIELDS
    + "where tenant = :tenant and line = :line order by id desc limit 1"
    + _PARTS
)
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
# Every writer of a line takes this lock, so nothing is added between the statements of its holder.
_THREAD_ROW = "select 1 from threads where tenant = :tenant and line = :line"
_UNFINISHED = "select 1 from checkpoint_writes where tenant = :tenant and line = :line limit 1"
_STEPS_OF_RUN = (
    "select id from checkpoints where tenant = :tenant and line = :line and run_id = :run"
)
_OF_RUN = """select distinct checkpoints.line from checkpoints
             join threads on threads.tenant = checkpoints.tenant and threads.line = checkpoints.line
             where checkpoints.tenant = :tenant and threads.tenant = :tenant and run_id = :run and user_id = :user"""
_COPY_VALUES = """insert into channel_values (tenant, line, channel, version, type, data, checksum)
                  select tenant, :there, channel, version, type, data, checksum from channel_values
                  where tenant = :tenant and line = :line on conflict do nothing"""
_COPY_WRITES = """insert into checkpoint_writes (tenant, line, checkpoint, task, idx, path, channel, type, data, checksum)
                  select tenant, :there, checkpoint, task, idx, path, channel, type, data, checksum from checkpoint_writes
                  where tenant = :tenant and line = :line on conflict do nothing"""
_COPY = """insert into checkpoints (tenant, line, id, parent, type, data, metadata, versions, run_id, created_at,
                                   checksum)
           select tenant, :there, id, parent, type, data, metadata, versions, run_id, :now, checksum from checkpoints
           where tenant = :tenant and line = :line on conflict do nothing"""
