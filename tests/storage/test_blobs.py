"""Blobs: split deterministically, stored once, placed by size, removed when unused."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import random
import threading
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memorist import Memory, Scope
from memorist.base.errors import (
    Busy,
    Corrupt,
    Full,
    Invalid,
    NotFound,
    SettingsError,
    StorageError,
    TooLarge,
)
from memorist.kinds.refs import NewReference
from memorist.storage.contents import blobs
from memorist.storage.contents.content_parts import PART_BYTES, PartsFile, cut, join
from testkit.databases import SETTINGS, one_engine
from testkit.failures import raised
from testkit.limited import Limited
from testkit.search_index import clear_index
from testkit.sizes import FULL
from tests.storage.storing import Job, content, scope_of, settings, start

FILE = 256 << 10
PLACES = pytest.mark.parametrize("place", ["folder", "database"])


@pytest.fixture
def place() -> str:
    """Where large contents are: in a folder, or in the database."""
    return "folder"


@pytest.fixture
def memory(
    open_memory: Callable[..., Memory], tmp_path: Path, limited: Limited, place: str
) -> Memory:
    """The database with a folder for large contents on every engine, or with all of them inside."""
    if place == "database":
        limited(REF_FILE_BYTES=1 << 30)
        return open_memory(ref_folder=str(tmp_path / "unused"))
    return open_memory(ref_folder=str(tmp_path / "refs"))


def files(folder: Path) -> list[Path]:
    """List the content files under a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "lock")


def stored(memory: Memory, tenant: str = "acme") -> list[tuple[Any, ...]]:
    sql = "select user_id, digest, bytes, file, whole, staged_at from blobs where tenant = :tenant order by user_id, digest"
    return memory.database.read(tenant, lambda tx: tx.all(sql))


def read_blob(me: Scope, memory: Memory, key: str) -> bytes:
    sql = "select user_id, digest from refs where tenant = :tenant and key = :key"
    row = memory.database.read(me.owner.tenant, lambda tx: tx.one(sql, key=key))
    user, digest = row or ("", "")
    with memory.services.blobs.open(me.owner.tenant, user, digest) as file:
        return file.read()


def problems(memory: Memory) -> list[Any]:
    return [finding for finding in memory.verify() if not finding.ok]


# -- parts ------------------------------------------------------------------------------------------------------------


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    """Generate bytes with varied content around the part boundaries."""
    around = draw(st.lists(st.sampled_from(["a", "é", "日", "😀", "\0", "\udcff", "\udc80" * 9])))
    sizes = [0, 1, 2 * PART_BYTES - 3, *(PART_BYTES + more for more in (-5, -1, 0, 1))]
    size = draw(st.sampled_from(sizes))
    start = b"x" * (size - draw(st.integers(0, min(size, 8))))
    middle = "".join(around).encode(errors="surrogateescape")
    return start + middle + draw(st.binary(max_size=50))


@given(contents(), st.integers(1, 3))
@hypothesis_settings(max_examples=200 if FULL else 20)
def test_parts_do_not_depend_on_how_content_arrives(data: bytes, pieces: int) -> None:
    """P15: the split depends on the bytes alone, and every engine can store every part."""
    parts = list(cut([data]))
    assert b"".join(join(part.encoding, part.data) for part in parts) == data
    assert [part.part for part in parts] == list(range(len(parts)))
    step = len(data) // pieces + 1
    assert list(cut(data[at : at + step] for at in range(0, len(data), step))) == parts
    at = 0
    for part in parts:
        size = len(join(part.encoding, part.data))
        assert part.start == at
        assert size <= PART_BYTES
        assert "\0" not in part.data
        at += size


def test_no_character_of_a_text_is_split() -> None:
    for text in ("é", "日", "😀"):
        data = (text * PART_BYTES).encode()
        parts = list(cut([b"x" + data]))
        assert {part.encoding for part in parts} == {"text"}
        assert "".join(part.data for part in parts).encode() == b"x" + data


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 2]), st.integers(-40, 700), st.integers(0, 80)),
        max_size=20,
    )
)
@hypothesis_settings(max_examples=200 if FULL else 20)
def test_parts_read_like_a_file(moves: list[tuple[int, int, int]]) -> None:
    data = bytes(random.Random(1).randbytes(600))
    bounds = [0, 100, 103, 350, 600]

    def fetch(at: int) -> tuple[int, bytes] | None:
        for first, last in zip(bounds, bounds[1:], strict=False):
            if first <= at < last:
                return first, data[first:last]
        return None

    ours = io.BufferedReader(PartsFile(600, fetch, lambda: AssertionError("missing")), 64)
    real = io.BytesIO(data)
    for whence, offset, size in moves:
        if whence == 0 and offset < 0:
            continue
        if whence != 0 and (real.tell() if whence == 1 else 600) + offset < 0:
            continue
        assert ours.seek(offset, whence) == real.seek(offset, whence)
        assert ours.read(size) == real.read(size)
    ours.seek(0)
    assert ours.read() == data


# -- storing ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow_on_postgres
@PLACES
@pytest.mark.parametrize(
    "size",
    [0, 1, FILE - 1, FILE, FILE + 1, PART_BYTES * 2, PART_BYTES * 3 + 1, (4 << 20) + 1],
    ids=lambda size: str(size),
)
def test_every_size_round_trips(
    memory: Memory, me: Scope, tmp_path: Path, place: str, size: int
) -> None:
    """R3: above `REF_FILE_BYTES` in a file, otherwise in the database; without a folder, in the
    database.
    """
    data = random.Random(size).randbytes(size)
    key = me.refs.add(data).key
    assert read_blob(me, memory, key) == data
    ((user, digest, bytes_, file, is_whole, staged),) = stored(memory)
    assert (user, digest, bytes_, is_whole, staged) == (
        "ada",
        hashlib.sha256(data).hexdigest(),
        size,
        1,
        None,
    )
    in_file = place == "folder" and size > FILE
    assert (file is not None) == in_file
    assert [path.read_bytes() for path in files(tmp_path / "refs")] == ([data] if in_file else [])
    assert problems(memory) == []
    me.refs.remove(key)
    assert stored(memory) == []
    assert files(tmp_path / "refs") == []
    assert memory.counts()["blob_parts"] == 0


def test_the_default_place_of_large_contents(
    open_memory: Callable[..., Memory], engine: str, tmp_path: Path
) -> None:
    """R3: beside an SQLite file, created on demand with owner-only access; on a server, in the
    database.
    """
    memory = open_memory()
    me = memory.scope(tenant="acme", user="ada")
    me.refs.add("small")
    folder = tmp_path / "agent.db-refs"
    assert not folder.exists()
    key = me.refs.add("x" * (FILE + 1)).key
    assert read_blob(me, memory, key) == b"x" * (FILE + 1)
    assert folder.exists() == (engine == "sqlite")
    for path in [folder, *folder.rglob("*")] if engine == "sqlite" else []:
        assert path.stat().st_mode & 0o077 == 0, path


@PLACES
def test_equal_content_is_stored_once_per_user(
    memory: Memory, me: Scope, tmp_path: Path, place: str
) -> None:
    """R3: content-addressed; removed with its last reference. Another user's is separate."""
    bob = memory.scope(tenant="acme", user="bob")
    data = b"the same\n" * 100_000
    one, two = me.refs.add(data).key, me.refs.add(data).key
    theirs = bob.refs.add(data).key
    assert len(stored(memory)) == 2
    assert len(files(tmp_path / "refs")) == (2 if place == "folder" else 0)
    me.refs.remove(one)
    assert read_blob(me, memory, two) == data
    me.refs.remove(two)
    assert [row[0] for row in stored(memory)] == ["bob"]
    assert read_blob(bob, memory, theirs) == data
    assert len(files(tmp_path / "refs")) == (1 if place == "folder" else 0)


@PLACES
def test_64_threads_store_the_same_content(
    memory: Memory, me: Scope, tmp_path: Path, place: str
) -> None:
    """R3: each gets a working key, and there is one content."""
    data = b"0123456789abcdef" * 20_000
    keys: list[str] = []
    failed: list[BaseException] = []

    def store() -> None:
        try:
            keys.append(me.refs.add(data).key)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=store) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(set(keys)) == 64
    assert len(stored(memory)) == 1
    assert all(read_blob(me, memory, key) == data for key in keys[::8])
    assert problems(memory) == []
    memory.services.blobs.collect("acme")
    assert len(files(tmp_path / "refs")) <= 1 or place == "folder"


@pytest.mark.slow_on_postgres
@PLACES
@pytest.mark.parametrize("engine", ["sqlite", "modern"])
def test_50_mb_use_bounded_memory(memory: Memory, me: Scope, place: str) -> None:
    """P16: storing and reading hold less than two buffers of 8 MiB. Once with each driver."""
    line = b"2026-11-15 05:55:01 INFO a line of a log that is long and says little\n"

    class Pipe(io.RawIOBase):
        left = 50_000_000 // (len(line) * 1000)

        def read(self, size: int = -1) -> bytes:
            self.left -= 1
            return line * 1000 if self.left >= 0 else b""

    me.refs.add("warm up")
    tracemalloc.start()
    try:
        new = NewReference(Pipe(), source="big")  # type: ignore[arg-type]
        ref = me.refs.prepare.keep(me.refs.prepare(new))
        stored_peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        assert me.refs.get(ref.key, tail=1).text.strip() == line.decode().strip()
        read_peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ref.bytes > 49_900_000
    assert ref.lines == ref.bytes // len(line)
    assert stored_peak < 16 << 20
    assert read_peak < 16 << 20


def test_an_oversized_content_is_rejected_and_leaves_nothing(
    memory: Memory, me: Scope, tmp_path: Path, limited: Limited
) -> None:
    """P16."""
    limited(MAX_REF_BYTES=1 << 20)
    large = NewReference(io.BytesIO(b"x" * ((1 << 20) + 1)))
    error = raised(TooLarge, me.refs.prepare, large)
    assert (error.field, error.limit) == ("content", 1 << 20)
    assert me.refs.info(me.refs.add(b"x" * (1 << 20)).key).bytes == 1 << 20
    assert len(files(tmp_path / "refs")) == 1


@pytest.mark.parametrize(
    "name", ["../../../../tmp/evil", "..", "/etc", "a/../../b", "é" * 200, "con\\..\\x", "~root"]
)
def test_no_name_leads_out_of_the_folder(memory: Memory, tmp_path: Path, name: str) -> None:
    """S10: file names are hashes; none contains a tenant's or a user's name."""
    me = memory.scope(tenant=name, user=name, agent=name)
    key = me.refs.add(b"canary" * 100_000, name, type=name).key
    (path,) = files(tmp_path / "refs")
    parts = path.relative_to(tmp_path / "refs").parts
    assert [len(part) for part in parts] == [32, 32, 81]
    assert set("".join(parts)) <= set("0123456789abcdef.")
    assert read_blob(me, memory, key) == b"canary" * 100_000


@pytest.mark.parametrize(
    "name", ["../../secret", "/etc/passwd", "a" * 32 + "/../" + "b" * 64 + "." + "c" * 16, ""]
)
def test_a_tampered_row_opens_no_other_file(memory: Memory, me: Scope, name: str) -> None:
    """S10."""
    key = me.refs.add(b"x" * (FILE + 1)).key
    memory.database.write(
        "acme", lambda tx: tx.run("update blobs set file = :name where tenant = :tenant", name=name)
    )
    with pytest.raises(Corrupt):
        me.refs.get(key)


def test_a_folder_that_cannot_be_created_is_an_error(
    open_memory: Callable[..., Memory], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    me = open_memory(ref_folder=str(tmp_path / "file" / "refs")).scope(tenant="acme", user="ada")
    with pytest.raises(StorageError, match="Not a directory"):
        me.refs.add("x" * (FILE + 1))
    assert me.refs.list().items == []
    assert me.refs.add("small").key


# -- letting go -------------------------------------------------------------------------------------------------------


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_leftovers_of_a_crash_are_purged_later(memory: Memory, me: Scope, tmp_path: Path) -> None:
    """A file without a row, complete or not: after an hour, if nobody is writing it."""
    key = me.refs.add(b"x" * (FILE + 1)).key
    (kept_file,) = files(tmp_path / "refs")
    orphan = kept_file.with_name("a" * 64 + "." + "b" * 16)
    unfinished = kept_file.with_name("new.0123456789abcdef")
    for path in (orphan, unfinished):
        path.write_bytes(b"left")
    assert memory.purge().contents == 0
    for path in (kept_file, orphan, unfinished):
        age(path, 3700)
    (finding,) = problems(memory)
    assert finding.check == "no file is left without its content's row"
    assert "memorist purge" in finding.problem
    with unfinished.open("rb") as writing:
        fcntl.flock(writing, fcntl.LOCK_SH)
        assert memory.purge().contents == 1
        assert unfinished.exists()
    assert memory.purge().contents == 1
    assert files(tmp_path / "refs") == [kept_file]
    assert read_blob(me, memory, key) == b"x" * (FILE + 1)
    assert problems(memory) == []


def test_files_of_another_database_are_kept(
    open_memory: Callable[..., Memory], tmp_path: Path
) -> None:
    """Two databases with the same folder do not purge each other's files."""
    memory = open_memory(ref_folder=str(tmp_path / "refs"))
    with Memory.open("memory:", settings=SETTINGS) as other:
        other = Memory.open(f"sqlite:///{tmp_path}/other.db", settings=memory.settings)
        theirs = other.scope(tenant="acme", user="ada").refs.add(b"y" * (FILE + 1)).key
        memory.scope(tenant="acme", user="ada").refs.add(b"x" * (FILE + 1))
        for path in files(tmp_path / "refs"):
            age(path, 10**6)
        assert memory.purge().contents == 0
        assert memory.scope(tenant="acme").admin.users.erase("ada").removed["refs"] == 1
        assert read_blob(other.scope(tenant="acme", user="ada"), other, theirs) == b"y" * (FILE + 1)
        other.close()


def test_unreferenced_contents_are_purged_after_a_grace_period(
    open_memory: Callable[..., Memory], tmp_path: Path, limited: Limited
) -> None:
    """A stored content without a reference is kept for an hour."""
    moment = [1_800_000_000_000_000]
    limited(REF_FILE_BYTES=1 << 30)
    memory = open_memory(clock=lambda: moment[0], ref_folder=str(tmp_path / "unused"))
    me = memory.scope(tenant="acme", user="ada")
    prepared = me.refs.prepare(NewReference(b"x" * (5 << 20)))
    moment[0] += blobs.GRACE - 1
    assert memory.purge().contents == 0
    moment[0] += 2
    assert memory.purge().contents == 1
    assert stored(memory) == []
    with pytest.raises(Busy):
        me.refs.prepare.keep(prepared)
    assert me.refs.list().items == []
    assert me.refs.add(b"x" * (5 << 20)).key
    assert memory.purge().contents == 0


@PLACES
def test_contents_are_removed_with_their_session(
    memory: Memory, me: Scope, tmp_path: Path, place: str
) -> None:
    """P3, P13: in the same transaction; a content with another reference stays."""
    me.sessions.add("s")
    for data in (b"small", b"x" * (FILE + 1), b"shared" * 60_000):
        me.refs.add(data, session="s")
    other = me.refs.add(b"shared" * 60_000).key
    me.sessions.remove("s")
    assert [ref.key for ref in me.refs.list()] == [other]
    assert len(stored(memory)) == 1
    assert len(files(tmp_path / "refs")) == (1 if place == "folder" else 0)
    assert read_blob(me, memory, other) == b"shared" * 60_000
    assert problems(memory) == []


def test_files_are_not_removed_during_a_copy(memory: Memory, me: Scope, tmp_path: Path) -> None:
    """An export finds the file of every row it read; the file is left to the next purge."""
    keys = [me.refs.add(bytes([n]) * (FILE + 1)).key for n in (1, 2)]
    with memory.services.blobs.copying():
        me.refs.remove(keys[0])
        assert len(files(tmp_path / "refs")) == 2
        receipt = memory.scope(tenant="acme").admin.users.erase("ada")
        assert not receipt.compacted
        assert len(files(tmp_path / "refs")) == 2
    for path in files(tmp_path / "refs"):
        age(path, 3700)
    assert memory.purge().contents == 2
    assert files(tmp_path / "refs") == []


@PLACES
def test_erasing_a_user_leaves_no_byte_on_disk(
    memory: Memory, me: Scope, tmp_path: Path, place: str, engine: str
) -> None:
    """S14, P13: not in a file, page or log; nor a half-written file of a crash."""
    bob = memory.scope(tenant="acme", user="bob", agent="scout")
    canary = b"canary-of-ada "
    me.sessions.add("s")
    for size in (1, 5_000, 50_000):
        me.refs.add(canary * size, "about the canary-of-ada", session="s")
    theirs = bob.refs.add(b"bob's own " * 50_000).key
    for path in files(tmp_path / "refs"):
        if canary in path.read_bytes():
            path.with_name("new.0123456789abcdef").write_bytes(canary)
    receipt = memory.scope(tenant="acme").admin.users.erase("ada")
    assert receipt.compacted is (engine == "sqlite")
    assert receipt.removed["refs"] == 3
    assert receipt.removed["blobs"] == 3
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert canary.strip() not in path.read_bytes(), path
    assert read_blob(bob, memory, theirs) == b"bob's own " * 50_000
    assert problems(memory) == []


# -- checking and copying ---------------------------------------------------------------------------------------------


def test_verify_finds_missing_and_damaged_contents(
    memory: Memory, me: Scope, tmp_path: Path
) -> None:
    """P17: by name, in files and in the database."""
    contents = {n: bytes([n]) * (FILE + 1 if n < 3 else 100) for n in (1, 2, 3, 4)}
    keys = [me.refs.add(data).key for data in contents.values()]
    assert problems(memory) == []
    one, two = (
        next(path for path in files(tmp_path / "refs") if path.read_bytes()[0] == n) for n in (1, 2)
    )
    one.unlink()
    two.write_bytes(b"\2" * FILE + b"!")
    digests = {n: hashlib.sha256(data).hexdigest() for n, data in contents.items()}
    change = "update blob_parts set encoding = 'text', data = 'other' where tenant = :tenant and digest = :d"
    delete = "delete from blob_parts where tenant = :tenant and digest = :d"
    memory.database.write("acme", lambda tx: tx.run(change, d=digests[3]))
    memory.database.write("acme", lambda tx: tx.run(delete, d=digests[4]))
    (finding,) = problems(memory)
    assert finding.check == "every stored content is what its hash says"
    assert all(digest in finding.problem for digest in digests.values())
    assert f"{digests[2]} is damaged" in finding.problem
    with pytest.raises(Corrupt, match="a stored content is missing"):
        me.refs.get(keys[0])


@pytest.mark.slow_on_postgres
@PLACES
@pytest.mark.parametrize("size", [100, 1 << 20, 6 << 20], ids=["small", "middle", "large"])
def test_a_damaged_content_is_never_returned(
    memory: Memory, me: Scope, tmp_path: Path, place: str, size: int
) -> None:
    """Issue 14, 5: not whole, not a page of it, not in an export, and not after a first good read."""
    content = b"".join(b"%011d\n" % n for n in range(size // 12))
    key = me.refs.add(content).key
    assert read_blob(me, memory, key) == content
    assert me.refs.get(key, tail=2).text
    _damage_last_byte(memory, tmp_path / "refs")
    for read in (
        lambda: me.refs.content(key),
        lambda: me.refs.get(key, tail=1),
        lambda: read_blob(me, memory, key),
    ):
        with pytest.raises(Corrupt, match="is damaged"):
            read()
    with Memory.open(settings=memory.settings) as other, pytest.raises(Corrupt, match="is damaged"):
        other.scope(tenant="acme", user="ada").refs.get(key, page=1)
    assert [finding.check for finding in problems(memory)] == [
        "every stored content is what its hash says"
    ]


@one_engine
@pytest.mark.parametrize("error", ["no folder", "not readable", "missing"])
def test_a_content_that_cannot_be_read_stops_no_reindexing(
    memory: Memory, me: Scope, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    """The reference is found by its description and its words; reindexing reads no content."""
    me.refs.add(b"zebra\n" * FILE, "The quarterly log", key="log")
    (file,) = files(tmp_path / "refs")
    folder = memory.services.blobs.folder

    def fail(name: str) -> IO[bytes]:
        raise StorageError(problem=f"{name} cannot be read: Permission denied")

    if error == "no folder":
        monkeypatch.setattr(memory.services.blobs, "folder", None)
    elif error == "not readable":
        monkeypatch.setattr(folder, "open", fail)
    else:
        file.unlink()
    clear_index(memory)
    assert memory.reindex().added == 1
    for word in ("quarterly", "zebra"):
        (hit,) = me.search(word)
        assert hit.id == "log"

    def busy(*_: Any, **__: Any) -> IO[bytes]:
        raise Busy(problem="for a test")

    monkeypatch.setattr(memory.services.blobs, "open", busy)
    clear_index(memory)
    assert memory.reindex().added == 1


@PLACES
def test_only_what_is_needed_of_a_large_content_is_read(
    memory: Memory, me: Scope, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Reindexing reads nothing of it, and `verify` reads every block once."""
    content = b"".join(b"%011d\n" % n for n in range((6 << 20) // 12))
    me.refs.add(content, key="log")
    hashed: list[str] = []

    def hash_all(fetch: Any, size: int, digest: str) -> dict[int, int]:
        hashed.append(digest)
        return {}

    monkeypatch.setattr(blobs, "_checksums", hash_all)
    clear_index(memory)
    assert memory.reindex().added == 1
    assert problems(memory) == []
    assert hashed == []
    (hit,) = me.search("00000000001")
    assert hit.id == "log"


@one_engine
def test_the_checksums_of_the_contents_opened_last_are_kept(
    memory: Memory, me: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "_MAX_BYTES_IN_MEMORY", 0)
    monkeypatch.setattr(blobs, "_MAX_REMEMBERED_CHECKSUMS", 2)
    contents = {name: name.encode() * 100 for name in ("a", "b", "c")}
    for name, data in contents.items():
        me.refs.add(data, key=name)
    for name in ("a", "b", "a", "c"):
        digest = hashlib.sha256(contents[name]).hexdigest()
        memory.services.blobs.open("acme", "ada", digest).close()
    remembered = [digest for _, _, digest in memory.services.blobs._checksums]
    assert remembered == [hashlib.sha256(contents[name]).hexdigest() for name in ("a", "c")]


def _damage_last_byte(memory: Memory, folder: Path) -> None:
    """Change the last byte of the only stored content, in its file or in its table."""
    if stored := files(folder):
        with stored[0].open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"!")
        return
    memory.database.write(
        "acme",
        lambda tx: tx.run(
            """update blob_parts set data = substr(data, 1, length(data) - 1) || '!'
               where tenant = :tenant and part = (select max(part) from blob_parts where tenant = :tenant)"""
        ),
    )


def test_an_export_of_a_damaged_content_fails(memory: Memory, tmp_path: Path) -> None:
    memory.scope(tenant="acme", user="ada").refs.add(b"x" * (FILE + 1))
    _damage_last_byte(memory, tmp_path / "refs")
    with pytest.raises(Corrupt, match="is damaged"):
        memory.export(tmp_path / "export.jsonl")
    assert not (tmp_path / "export.jsonl").exists()


def test_a_file_whose_folder_is_not_set_is_a_settings_error(memory: Memory, me: Scope) -> None:
    key = me.refs.add(b"x" * (FILE + 1)).key
    memory.services.blobs.folder = None
    with pytest.raises(SettingsError, match="ref_folder: is not set"):
        me.refs.get(key)


def test_the_free_space_message_names_the_margin(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = memory.services.blobs.folder
    assert folder is not None
    monkeypatch.setattr(folder, "_min_free", 1 << 60)
    with pytest.raises(Full, match=r"\d+ MiB"):
        memory.scope(tenant="acme", user="ada").refs.add(b"x" * (FILE + 1))


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_backup_includes_the_files(memory: Memory, me: Scope, tmp_path: Path) -> None:
    """The copy works alone: its files are where its settings expect them. Servers use their own
    tools.
    """
    keys = {me.refs.add(data).key: data for data in (b"small", b"x" * (FILE + 1), b"y" * (1 << 20))}
    target = tmp_path / "copy.db"
    memory.backup(target)
    me.refs.remove(next(iter(keys)))
    with Memory.open(f"sqlite:///{target}", settings=SETTINGS) as copy:
        ours = copy.scope(tenant="acme", user="ada")
        assert {key: read_blob(ours, copy, key) for key in keys} == keys
        assert problems(copy) == []
        assert (tmp_path / "copy.db-refs").stat().st_mode & 0o077 == 0
    target.unlink()
    with pytest.raises(Invalid, match="a backup never overwrites"):
        memory.backup(target)
    assert not target.exists()


def exported(memory: Memory) -> bytes:
    out = io.BytesIO()
    memory.export(out)
    return out.getvalue()


@PLACES
@pytest.mark.parametrize("there", ["folder", "database"])
def test_an_export_is_independent_of_placement(
    memory: Memory, me: Scope, tmp_path: Path, place: str, there: str, limited: Limited
) -> None:
    """P15: byte-identical from files and from the database, and placed by the importing database's
    settings.
    """
    datas = [
        b"",
        b"small",
        "é\0".encode() * 10,
        "日本".encode() * 300_000,
        random.Random(3).randbytes(FILE * 3),
    ]
    keys = {me.refs.add(data, f"of {n}").key: data for n, data in enumerate(datas)}
    whole_export = exported(memory)
    away_folder = str(tmp_path / "away") if there == "folder" else ""
    limited(REF_FILE_BYTES=FILE if there == "folder" else 1 << 30)
    with Memory.open("memory:", settings=replace(SETTINGS, ref_folder=away_folder)) as away:
        copied = away.import_(io.BytesIO(whole_export))
        assert copied.new == sum(copied.rows.values())
        assert exported(away) == whole_export
        assert away.import_(io.BytesIO(whole_export)).new == 0
        theirs = away.scope(tenant="acme", user="ada", agent="scout")
        assert {key: read_blob(theirs, away, key) for key in keys} == keys
        assert len(files(tmp_path / "away")) == (2 if there == "folder" else 0)
        assert all(row[5] is None for row in stored(away))
        assert problems(away) == []
        for key in keys:
            theirs.refs.remove(key)
        assert stored(away) == []
        assert files(tmp_path / "away") == []


def test_an_import_verifies_content_hashes(memory: Memory) -> None:
    """S10: changed content with a recomputed file checksum is still rejected."""
    memory.scope(tenant="acme", user="ada").refs.add("the truth")
    lines = exported(memory).replace(b"the truth", b"the lies!").splitlines(keepends=True)[:-1]
    end = {"end": True, "rows": 3, "sha256": hashlib.sha256(b"".join(lines)).hexdigest()}
    with Memory.open("memory:", settings=SETTINGS) as away:
        with pytest.raises(Invalid, match="hash"):
            away.import_(io.BytesIO(b"".join(lines) + json.dumps(end).encode() + b"\n"))
        assert away.scope(tenant="acme", user="ada").refs.list().items == []


# -- crashes and crowds -----------------------------------------------------------------------------------------------


def read_log(log: Path) -> tuple[dict[str, str], set[str]]:
    """Return acknowledged contents with their hashes, and those that may be gone."""
    added: dict[str, str] = {}
    gone: set[str] = set()
    for line in log.read_text(encoding="utf-8").splitlines():
        word, *rest = line.split(" ")
        if word == "added" and len(rest) == 2 and len(rest[1]) == 64:
            added[rest[0]] = rest[1]
        if word in ("removing", "removed"):
            gone.add(rest[0])
    return added, gone


def check(url: str, log: Path, folder: str = "") -> None:
    """Check that nothing acknowledged is lost, nothing dangles, and leftovers are purged."""
    added, gone = read_log(log)
    with Memory.open(settings=settings(url, folder)) as memory:
        me = scope_of(memory)
        assert problems(memory) == []
        for key, digest in added.items():
            if key not in gone:
                assert hashlib.sha256(read_blob(me, memory, key)).hexdigest() == digest, key


def test_kill_9_loses_no_reference_and_leaves_none_dangling(tmp_path: Path) -> None:
    """P1, P3: a process that stores and removes, killed at random times, five times."""
    url, log = f"sqlite:///{tmp_path}/agent.db", tmp_path / "log"
    for kill in range(5):
        before = log.read_bytes().count(b"\n") if log.exists() else 0
        process = start(Job(url, str(log), f"k{kill}"))
        deadline = time.monotonic() + 60
        while not log.exists() or log.read_bytes().count(b"\n") <= before + 3:
            assert time.monotonic() < deadline, "it never stored anything"
            time.sleep(0.005)
        time.sleep(random.uniform(0, 0.2))
        process.kill()
        process.wait()
        check(url, log)
    folder = tmp_path / "agent.db-refs"
    for path in files(folder):
        age(path, 3700)
    with Memory.open(settings=settings(url)) as memory:
        memory.purge()
        named = {row[3] for row in stored(memory) if row[3]}
        assert {str(path.relative_to(folder)) for path in files(folder)} == named


@pytest.mark.slow_on_postgres
@PLACES
def test_two_processes_store_and_remove_while_a_third_purges(
    tmp_path: Path, url: str, place: str
) -> None:
    """R3: two write and remove the same five contents, one purges; nothing acknowledged dangles."""
    log, folder = tmp_path / "log", str(tmp_path / "refs") if place == "folder" else ""
    Memory.open(settings=settings(url)).close()
    writers = [
        start(Job(url, str(log), f"w{n}", rounds=25, shared=5, folder=folder)) for n in range(2)
    ]
    collector = start(Job(url, str(tmp_path / "other log"), "c", collect=True, folder=folder))
    try:
        for process in writers:
            assert process.wait(120) == 0
    finally:
        for process in (*writers, collector):
            process.kill()
            process.wait()
    assert log.read_text().count("done") == 2
    check(url, log, folder)


def test_the_processes_use_contents_of_every_size() -> None:
    """Otherwise the two tests above would prove less than they claim."""
    sizes = {len(content(f"k0 {n}")) for n in range(40)}
    assert min(sizes) < 100
    assert max(sizes) > 64 << 10


def test_reading_during_removal_is_complete_or_not_found(memory: Memory, me: Scope) -> None:
    """P3: never partial, and never a missing file."""
    data = b"line\n" * 60_000
    seen: list[str] = []
    key = [me.refs.add(data).key]
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                seen.append(me.refs.get(key[0], head=1).text)
            except NotFound:
                seen.append("gone")

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(30):
        old, key[0] = key[0], me.refs.add(data).key
        me.refs.remove(old)
    stop.set()
    reader.join()
    assert set(seen) <= {"line", "line\n", "gone"}
