"""A power cut, simulated: an SQLite file system that remembers what was written and what was synced.

`python -m tests.chaos.power FOLDER DURABILITY MESSAGES SEED` runs a workload on it and stores everything that happened
as one recording: each write, truncation, sync and deletion, and each acknowledgement, in order. From one recording `cuts`
builds the files as a disk could hold them after the power failed at any point: what was synced is there; each write after
that is there, or not, or in part, sector by sector, in any order; a file that was deleted since the last sync may be back.
"""

from __future__ import annotations

import pickle
import random
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import apsw

from memorist import Memory, Scope, Settings
from memorist.storage.sqlite import connection as sqlite_connection

SECTOR = 512
SESSION = "s"
TENANT = "acme"
USER = "ada"
AGENT = "scout"


def scope_of(memory: Memory) -> Scope:
    """Return the scope that these tests use."""
    return memory.scope(tenant=TENANT, user=USER, agent=AGENT)


@dataclass(frozen=True)
class Event:
    """An operation on a file, or an acknowledgement (`ack`, whose `offset` is the message's
    number).
    """

    what: Literal["write", "truncate", "sync", "delete", "invoke", "ack"]
    name: str
    offset: int = 0
    data: bytes = b""


class Recorder(apsw.VFS):
    """The real file system as this process's default, with recording."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        super().__init__("recorder", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> RecordedFile:  # noqa: N802
        return RecordedFile(name, flags, self.events)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self.events.append(Event("delete", Path(filename).name))


class RecordedFile(apsw.VFSFile):
    """One open file; a call is recorded once it succeeded."""

    def __init__(self, name: Any, flags: list[int], events: list[Event]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = Path(path).name if path else ""
        self._events = events
        super().__init__("unix", name, flags)

    def _remember(
        self, what: Literal["write", "truncate", "sync"], offset: int = 0, data: bytes = b""
    ) -> None:
        if self._name:
            self._events.append(Event(what, self._name, offset, data))

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._remember("write", offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._remember("truncate", newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._remember("sync")


@dataclass
class Disk:
    """One file on disk: what is durable, and what was written since the last sync."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[Event] = field(default_factory=list)
    deleted: bool = False

    def apply(self, event: Event) -> None:
        """Apply a recorded event."""
        if event.what == "sync":
            for earlier in self.pending:
                _put(self.synced, earlier.what, earlier.offset, earlier.data)
            self.pending.clear()
        elif event.what == "delete":
            self.deleted = True
        else:
            if self.deleted:  # a new file of that name
                self.forget()
                self.deleted = False
            self.pending.append(event)

    def forget(self) -> None:
        """Make its deletion durable."""
        self.synced.clear()
        self.pending.clear()

    def after_a_cut(self, chance: random.Random) -> bytes | None:
        """Return possible file content after the power is back; None for no file."""
        if self.deleted and (not (self.synced or self.pending) or chance.random() < 0.5):
            return None
        image = bytearray(self.synced)
        keep = chance.choice((0.0, 0.3, 0.5, 0.8, 1.0))
        for event in self.pending:
            if event.what == "truncate":
                if chance.random() < keep:
                    _put(image, "truncate", event.offset, b"")
            elif chance.random() < 0.3:  # torn: only some of its sectors were written
                for start, part in _sectors(event):
                    if chance.random() < 0.5:
                        _put(image, "write", start, part)
            elif chance.random() < keep:
                _put(image, "write", event.offset, event.data)
        return bytes(image)


def _sectors(event: Event) -> Iterator[tuple[int, bytes]]:
    start = event.offset
    end = event.offset + len(event.data)
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        yield start, event.data[start - event.offset : stop - event.offset]
        start = stop


def _put(image: bytearray, what: str, offset: int, data: bytes) -> None:
    if what == "truncate":
        del image[offset:]
        return
    if len(image) < offset:
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


@dataclass(frozen=True)
class Cut:
    """The power failed here."""

    place: int
    files: dict[str, bytes]
    acknowledged: dict[str, int]
    invoked: frozenset[str]


def cuts(events: Sequence[Event], places: Sequence[int], chance: random.Random) -> Iterator[Cut]:
    """Yield the disk after a power cut at each of the places of a recording."""
    disks: dict[str, Disk] = {}
    acknowledged: dict[str, int] = {}
    invoked: set[str] = set()
    left = sorted(places)
    for place, event in enumerate([*events, Event("sync", "")]):
        while left and left[0] == place:
            left.pop(0)
            results = {name: disk.after_a_cut(chance) for name, disk in disks.items() if name}
            files = {name: content for name, content in results.items() if content is not None}
            yield Cut(place, files, dict(acknowledged), frozenset(invoked))
        if event.what == "ack":
            acknowledged[event.name] = event.offset
        elif event.what == "invoke":
            invoked.add(event.name)
        else:
            disks.setdefault(event.name, Disk()).apply(event)
        if (
            event.what == "sync"
        ):  # a file system that keeps a journal brings earlier deletions to the disk with it
            for disk in disks.values():
                if disk.deleted:
                    disk.forget()


def _open_relaxed(path: Path, wait_seconds: float, writing: bool, relaxed: bool) -> apsw.Connection:
    """Open a connection that does not wait for the disk: the control, which may lose writes."""
    return _open_connection(path, wait_seconds, writing, True)


_open_connection = sqlite_connection._open


def record(folder: Path, durability: str, messages: int, seed: int) -> list[Event]:
    """Record a workload with concurrency, big and small messages, checkpoints, deletions and
    reopening.
    """
    recorder = Recorder()
    sqlite_connection.MAX_LOG_MIB = 1
    if durability == "normal":
        sqlite_connection._open = _open_relaxed
    chance = random.Random(seed)
    plan = [(f"m{n}", chance.choice((20, 200, 3_000, 30_000))) for n in range(messages)]

    def work(memory: Memory, part: list[tuple[str, int]]) -> None:
        me = scope_of(memory)
        for payload, size in part:
            recorder.events.append(Event("invoke", payload))
            message = me.messages.append(SESSION, "user", payload.ljust(size, "."), key=payload)
            recorder.events.append(Event("ack", payload, message.seq))

    for part in (plan[: messages // 2], plan[messages // 2 :]):
        with Memory.open(f"sqlite:///{folder}/agent.db", settings=Settings()) as memory:
            me = scope_of(memory)
            if part[0][0] == "m0":
                me.sessions.add(SESSION)
            threads = [threading.Thread(target=work, args=(memory, part[n::3])) for n in range(3)]
            for thread in threads:
                thread.start()
            for number in range(20):
                me.state.set(f"k{number % 5}", "x" * chance.choice((10, 9_000)))
                if number % 5 == 4:
                    me.state.remove("k0")
            for thread in threads:
                thread.join()
            memory.database.compact()
    return recorder.events


if __name__ == "__main__":
    target, kind, count, start = sys.argv[1:]
    recording = record(Path(target), kind, int(count), int(start))
    with (Path(target) / "recording").open("wb") as out:
        pickle.dump(
            [(event.what, event.name, event.offset, event.data) for event in recording], out
        )
