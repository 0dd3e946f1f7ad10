"""SQLite: the settings that safety depends on are in force; file placement and permissions."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import apsw
import pytest

from memorist import Memory
from memorist.base.errors import Full, Invalid, NetworkDrive, NotFound, Unreachable
from memorist.storage import files
from memorist.storage.files import filesystem_of, is_network
from memorist.storage.sqlite import engine as sqlite
from memorist.storage.sqlite.connection import BusyHandler, open_connection
from memorist.storage.sqlite.engine import MAX_IDLE_READERS, SqliteDatabase
from testkit.databases import SETTINGS
from testkit.rows import fill


def address(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of the test's database."""
    return tmp_path / "agent.db"


@pytest.fixture
def opened(file: Path) -> Iterator[Memory]:
    """The test's database, open."""
    with Memory.open(address(file), settings=SETTINGS) as memory:
        yield memory


def append(memory: Memory, text: str = "hello", session: str = "s") -> int:
    """Append one message; return its number."""
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    try:
        return me.messages.append(session, "user", text).seq
    except NotFound:
        me.sessions.add(session)
        return me.messages.append(session, "user", text).seq


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- settings that are in force ------------------------------------------------------------------------------------


def test_every_connection_has_the_safety_settings(opened: Memory) -> None:
    """P1: full durability is `synchronous = full`, on the writer and every reader."""
    append(opened)
    database = opened.database
    assert isinstance(database, SqliteDatabase)
    assert database._idle
    for connection in (database._writer(), *database._idle):
        assert connection.pragma("journal_mode") == "wal"
        assert connection.pragma("synchronous") == 2
        assert connection.pragma("foreign_keys") == 1
        assert connection.pragma("secure_delete") == 1
        assert connection.pragma("mmap_size") in (0, None)
        assert connection.pragma("query_only") == (0 if connection is database._writing else 1)


def test_the_page_caches_of_all_readers_together_are_small(opened: Memory) -> None:
    append(opened)
    database = opened.database
    assert isinstance(database, SqliteDatabase)
    assert database._idle
    for connection in database._idle:
        kibibytes = -connection.pragma("cache_size")
        assert 0 < kibibytes * MAX_IDLE_READERS <= 32 * 1024
    assert database._writer().pragma("cache_size") == -8192


def test_the_bundled_library_has_no_wal_reset_race() -> None:
    """SQLite 3.7.0 to 3.51.2 can damage a WAL file with two writers; Debian's is one of them."""
    assert tuple(int(part) for part in apsw.sqlite_lib_version().split(".")) >= (3, 51, 3)


def test_waiting_for_another_process_times_out() -> None:
    assert BusyHandler(0.0)(0) in (True, False)
    patience = BusyHandler(0.05)
    tries = 0
    while patience(tries):
        tries += 1
        assert tries < 10_000
    assert tries > 0


# -- who may read the file -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_files_are_accessible_to_the_owner_only(
    file: Path, umask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BALLAST_MIB", 1)
    before = os.umask(umask)
    try:
        with Memory.open(address(file), settings=SETTINGS) as memory:
            append(memory)
            memory.backup(file.with_name("backup.db"))
            found = {path.name: mode(path) for path in file.parent.iterdir()}
    finally:
        os.umask(before)
    names = {"agent.db", "agent.db-wal", "agent.db-shm", "agent.db-ballast", "backup.db"}
    assert found == dict.fromkeys(names, 0o600)


def test_the_reserve_file_is_created_once_and_released_when_full(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ballast = file.with_name("agent.db-ballast")
    monkeypatch.setattr(sqlite, "BALLAST_MIB", 2)
    settings = SETTINGS
    with Memory.open(address(file), settings=settings) as memory:
        assert ballast.stat().st_size == 2 << 20
        assert ballast.stat().st_blocks * 512 >= 2 << 20, "a file with holes reserves nothing"
        memory.purge(emergency=True)
        assert not ballast.exists()
        append(memory)
    with Memory.open(address(file), settings=settings):
        assert ballast.exists()
    Memory.open("memory:", settings=settings).close()


def test_a_nearly_full_disk_rejects_writes_but_not_reads_and_deletes(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory.open(address(file), settings=SETTINGS) as memory:
        append(memory)
    monkeypatch.setattr(files, "MIN_FREE_MIB", 1 << 40)
    with Memory.open(address(file), settings=SETTINGS) as memory:
        with pytest.raises(Full, match="MiB"):
            append(memory)
        assert len(memory.scope(tenant="acme").messages.window("s")) == 1
        assert memory.scope(tenant="acme").admin.users.erase("ada").removed["messages"] == 1


def test_removing_verbs_work_while_the_disk_is_nearly_full(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory.open(address(file), settings=replace(SETTINGS, events="on")) as memory:
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        for session in ("s", "t", "t", "t"):
            append(memory, session=session)
        me.state.set("theme", "dark")
        me.items.put(["docs"], "a", {"text": "b"})
        entry = me.entries.add("Ada likes trains.")
        me.notes.append("A note.")
    monkeypatch.setattr(files, "MIN_FREE_MIB", 1 << 40)
    with Memory.open(address(file), settings=replace(SETTINGS, events="on")) as memory:
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        with pytest.raises(Full):
            me.notes.clear()  # keeps the earlier text, and adds a version
        me.messages.remove("t", 1)
        assert me.messages.pop("t").seq == 3
        assert me.messages.clear("t") == 1
        me.sessions.remove("s")
        me.state.remove("theme")
        me.items.remove(["docs"], "a")
        me.entries.remove(entry.id)
        with pytest.raises(Full):
            append(memory, session="t")


# -- where the file is ---------------------------------------------------------------------------------------------

MOUNTS = """22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
23 22 0:21 / /proc rw - proc proc rw
40 22 0:50 / /mnt/share rw - nfs4 server:/share rw
41 40 0:51 / /mnt/share/local rw - xfs /dev/sdb rw
42 22 0:52 / /mnt/two\\040words rw,nosuid master:2 - cifs //server/two rw
43 22 0:53 / /mnt/Büro rw - nfs server:/b rw
44 22 0:54 / /mnt/back\\134slash rw - 9p share rw
45 22 0:55 / /mnt/over rw - ext4 /dev/sdc rw
46 22 0:56 / /mnt/over rw - fuse.sshfs me@server: rw
"""


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/services/ada", "ext4"),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/deep/er", "nfs4"),
        ("/mnt/shared", "ext4"),
        ("/mnt/share/local/x", "xfs"),
        ("/mnt/two words/x", "cifs"),
        ("/mnt/Büro/x", "nfs"),
        ("/mnt/back\\slash", "9p"),
        ("/mnt/over/x", "fuse.sshfs"),
    ],
)
def test_the_file_system_of_a_folder_is_read_from_the_mount_table(
    tmp_path: Path, folder: str, expected: str
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS, encoding="utf-8")
    assert filesystem_of(Path(folder), mounts) == expected
    assert is_network(expected) is (expected not in ("ext4", "xfs"))


def test_an_unknown_filesystem_is_accepted(tmp_path: Path) -> None:
    assert filesystem_of(tmp_path, tmp_path / "no such file") == ""
    assert not is_network("")


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the mount table lists as a network drive."""
    share = tmp_path / "share"
    share.mkdir()
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {share} rw - nfs4 server:/ rw\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(sqlite, "filesystem_of", partial(filesystem_of, mounts=mounts))
    return share


def test_a_file_on_a_network_drive_is_rejected(network: Path, tmp_path: Path) -> None:
    """B38: SQLite's locks do not work there; nothing is created, not even through a local link."""
    with pytest.raises(NetworkDrive, match="nfs4"):
        Memory.open(address(network / "agent.db"), settings=SETTINGS)
    (tmp_path / "folder").symlink_to(network)
    (tmp_path / "link.db").symlink_to(network / "agent.db")
    for path in (tmp_path / "folder" / "agent.db", tmp_path / "link.db"):
        with pytest.raises(NetworkDrive):
            Memory.open(address(path), settings=SETTINGS)
    assert list(network.iterdir()) == []
    Memory.open(address(tmp_path / "local.db"), settings=SETTINGS).close()


def test_relative_and_linked_paths_are_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B38: one file has one WAL, whatever its name; a changed working directory has no effect."""
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    (tmp_path / "link.db").symlink_to(tmp_path / "real" / "agent.db")
    monkeypatch.chdir(tmp_path / "real")
    addresses = [
        "sqlite:///agent.db",
        "sqlite:///../alias/agent.db",
        "sqlite:///../link.db",
        address(tmp_path / "real/agent.db"),
    ]
    memories = [Memory.open(url, settings=SETTINGS) for url in addresses]
    monkeypatch.chdir(tmp_path)
    for n, memory in enumerate(memories, 1):
        assert append(memory) == n
    assert {
        memory.database.path for memory in memories if isinstance(memory.database, SqliteDatabase)
    } == {tmp_path.resolve() / "real" / "agent.db"}
    for memory in memories:
        assert len(memory.scope(tenant="acme").messages.window("s")) == 4
        assert all(finding.ok for finding in memory.verify())
        memory.close()
    assert {path.name for path in tmp_path.rglob("*")} == {"real", "alias", "link.db", "agent.db"}


# -- one process, several of everything ----------------------------------------------------------------------------


def test_two_memories_on_one_file_share_it(file: Path) -> None:
    one, two = (Memory.open(address(file), settings=SETTINGS) for _ in range(2))
    append(one)
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda n: append((one, two)[n % 2], f"m{n}"), range(100)))
    assert sorted(numbers) == list(range(2, 102))
    assert one.scope(tenant="acme").messages.window("s") == two.scope(
        tenant="acme"
    ).messages.window("s")
    one.close()
    assert append(two) == 102
    two.close()


def test_an_in_memory_database_leaves_nothing_behind() -> None:
    memory = Memory.open("memory:", settings=SETTINGS)
    database = memory.database
    assert isinstance(database, SqliteDatabase)
    fill(memory)
    assert all(finding.ok for finding in memory.verify())
    folder = database.path.parent
    assert mode(folder) == 0o700
    memory.close()
    assert not folder.exists()
    database._check_disk_at = 0.0
    for call in (
        lambda: append(memory),
        lambda: memory.scope(tenant="acme").sessions.list(),
        memory.tenants,
    ):
        with pytest.raises(Unreachable):
            call()
    with (
        Memory.open("memory:", settings=SETTINGS) as one,
        Memory.open("memory:", settings=SETTINGS) as two,
    ):
        append(one)
        assert two.tenants() == []


def test_closing_under_load_raises_typed_errors(file: Path) -> None:
    memory = Memory.open(address(file), settings=SETTINGS)
    append(memory)
    failures: list[BaseException] = []

    def use(n: int) -> None:
        try:
            while True:
                append(memory) if n % 2 else memory.scope(tenant="acme").messages.window(
                    "s", last=3
                )
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=(n,), daemon=True) for n in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    memory.close()
    for thread in threads:
        thread.join(30)
    assert [type(error) for error in failures] == [Unreachable] * 6, failures
    with Memory.open(address(file), settings=SETTINGS) as again:
        assert all(finding.ok for finding in again.verify())


# -- backup --------------------------------------------------------------------------------------------------------


def test_a_backup_is_consistent_under_load(opened: Memory, file: Path) -> None:
    fill(opened)
    append(opened)
    stop = threading.Event()
    acknowledged: list[int] = []

    def write() -> None:
        while not stop.is_set():
            acknowledged.append(append(opened, "x" * 500))

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write) for _ in range(4)]
        while len(acknowledged) < 50:
            time.sleep(0.005)
        copies = []
        for n in range(3):
            before = len(acknowledged)
            opened.backup(file.with_name(f"backup{n}.db"))
            copies.append((before, file.with_name(f"backup{n}.db")))
        stop.set()
        for writer in writers:
            writer.result(30)
    for before, copy in copies:
        with Memory.open(address(copy), settings=SETTINGS) as copied:
            assert [finding for finding in copied.verify() if not finding.ok] == []
            found = [message.seq for message in copied.scope(tenant="acme").messages.window("s")]
            assert found == list(range(1, len(found) + 1))
            assert before <= len(found)
            assert copied.scope(tenant="acme").sessions.get("acme ada 1").label == "':tenant' %s"
            assert append(copied) == len(found) + 1
    assert not list(file.parent.glob("*.partial"))


def test_a_backup_never_overwrites(opened: Memory, file: Path) -> None:
    target = file.with_name("precious")
    target.write_text("mine")
    with pytest.raises(Invalid, match="already exists"):
        opened.backup(target)
    with pytest.raises(Invalid, match="already exists"):
        opened.backup(file)
    assert target.read_text() == "mine"
    with pytest.raises(Invalid, match="folder"):
        opened.backup(file.parent / "nowhere" / "backup.db")


# -- growth --------------------------------------------------------------------------------------------------------


def test_bytes_per_message_stay_constant(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B30: the five-thousandth message costs what the thousandth did, within 10 % (100,000 with
    CHAOS=full).
    """
    many = 100_000 if os.environ.get("CHAOS") == "full" else 5_000

    def size(count: int) -> float:
        path = file.with_name(f"{count}.db")
        with Memory.open(address(path), settings=SETTINGS) as memory:
            memory.scope(tenant="acme", user="ada", agent="scout").sessions.add("s")
            memory.database.compact()
            empty = path.stat().st_size
            me = memory.scope(tenant="acme", user="ada", agent="scout")
            for start in range(0, count, 500):
                me.messages.extend(
                    "s",
                    [
                        {"role": "user", "content": f"{n:08} " + "x" * 300}
                        for n in range(start, start + 500)
                    ],
                )
            memory.database.compact()
            assert memory.scope(tenant="acme").sessions.get("s").last_seq == count
            return (path.stat().st_size - empty) / count

    few, lots = size(1_000), size(many)
    assert abs(lots / few - 1) < 0.1, (few, lots)
    assert lots < 3 * 310


def test_a_long_reader_does_not_block_writers(opened: Memory, file: Path) -> None:
    append(opened)
    reader = open_connection(file, 5.0, writing=False, relaxed=False)
    reader.execute("begin")
    assert reader.execute("select count(*) from messages").fetchall() == [(1,)]
    for n in range(2, 30):
        assert append(opened) == n
    assert reader.execute("select count(*) from messages").fetchall() == [(1,)]
    reader.close()


def test_the_wildcard_tenant_is_reserved(opened: Memory) -> None:
    for tenant in ("*", ""):
        with pytest.raises(Invalid, match="tenant"):
            opened.scope(tenant=tenant)
        with pytest.raises(Invalid, match="tenant"):
            opened.scope(tenant=tenant).admin.users.erase("ada")


def test_a_filesystem_without_a_size_is_not_full(tmp_path: Path) -> None:
    """F12: /proc reports no free space because it has no size; no emergency release happens."""
    assert files.has_room(Path("/proc"))
    with pytest.raises(Unreachable, match=r"/proc/x\.db"):
        open_connection(Path("/proc/x.db"), 5.0, writing=True, relaxed=False)


def test_values_are_bound_in_the_order_of_their_names(file: Path) -> None:
    """A name in quotes or in a comment is no parameter, and a repeated name is one."""
    sql = """select :b, ':c', :a, :b, :tenant, 'it''s :d' -- not :e
        , :now > 0"""
    with Memory.open(address(file), settings=SETTINGS) as memory:
        read = memory.database.read
        expected = ("2", ":c", 1, "2", "acme", "it's :d", 1)
        assert read("acme", lambda tx: tx.one(sql, a=1, b="2", unused=3)) == expected
        assert read("acme", lambda tx: tx.one("select :tenant")) == ("acme",)
        with pytest.raises(KeyError, match="b"):
            read("acme", lambda tx: tx.one(sql, a=1))
