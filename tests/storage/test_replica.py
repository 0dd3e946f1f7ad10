"""A real streaming replica: reads run on it and still see every write; paused, slow, killed, wrong."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psutil
import psycopg
import pytest

from memorist import Client, Memory, Scope
from memorist.base.errors import NotFound, SettingsError, StorageError
from memorist.base.settings import Settings
from memorist.cli.main import main
from memorist.server.observe.database_metrics import Figures
from memorist.storage import migrate
from memorist.storage.connect import connect
from memorist.storage.database import Transaction
from memorist.storage.postgres import server
from testkit.databases import SETTINGS, memory_folder, new_database
from testkit.servers import Kind, PostgresServer, debian_binaries, free_port, pooler_of
from tests.chaos.server import Server

DATABASE = "replicated"
PATIENCE = 30.0
METRIC = "memorist_database"
WHERE = "select pg_is_in_recovery(), :tenant"


class Pair:
    """A primary with a database, and its replica."""

    def __init__(self) -> None:
        kind: Kind = "debian" if debian_binaries() else "modern"
        self.primary = PostgresServer(kind, memory_folder())
        self.url = self.primary.create(DATABASE)
        Memory.open(self.url, settings=SETTINGS).close()
        self.replica = PostgresServer(kind, memory_folder(), replica_of=self.primary.url)
        self.settings = replace(SETTINGS, read_database=self.replica.url_of(DATABASE))

    def open(self, **settings: Any) -> Memory:
        """Open the database as another process does."""
        return Memory.open(self.url, settings=replace(self.settings, **settings))

    def client_count(self) -> int:
        """Return how many clients are connected to the database of the primary."""
        sql = "select count(*) from pg_stat_activity where datname = %s and backend_type = 'client backend'"
        with psycopg.connect(self.primary.url) as connection:
            (count,) = connection.execute(sql, (DATABASE,)).fetchone() or (0,)
        return int(count)

    def disconnect_all(self) -> None:
        """End the connections of all clients to the database of the primary."""
        self.primary.execute(
            f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{DATABASE}'"
        )
        wait_until(lambda: self.client_count() == 0, "clients are still connected")

    def close(self) -> None:
        """Stop both servers."""
        self.replica.close()
        self.primary.close()


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with closing(Pair()) as pair:
        yield pair


@pytest.fixture
def memory(pair: Pair) -> Iterator[Memory]:
    with pair.open() as memory:
        yield memory


def scope_of(memory: Memory, tenant: str = "acme") -> Scope:
    return memory.scope(tenant=tenant, user="ada", agent="scout")


def runs_on_replica(memory: Memory) -> bool:
    """Return whether a read that may run on the replica does."""
    row = memory.database.read("acme", lambda tx: tx.one(WHERE), allow_replica=True)
    return row == (True, "acme")


def wait_until(is_done: Callable[[], bool], problem: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_done():
        assert time.monotonic() < deadline, problem
        time.sleep(0.05)


def test_every_write_is_seen_by_reads_that_run_on_the_replica() -> None:
    """A client writes through one process and reads through another."""
    kind: Kind = "debian" if "TEST_POSTGRES_DEBIAN" in os.environ else "modern"
    with contextmanager(new_database)(kind) as url:  # the primary is the server of all tests
        server = PostgresServer(kind, memory_folder(), replica_of=url)
        settings = replace(SETTINGS, read_database=server.url_of(url.rpartition("/")[2]))
        with (
            closing(server),
            Memory.open(url, settings=settings) as writing,
            Memory.open(url, settings=settings) as reading,
        ):
            writer, reader = scope_of(writing), scope_of(reading)
            writer.sessions.add("s")
            for number in range(1, 21):
                text = f"Train {number} leaves for Bern."
                writer.messages.append("s", "user", text)
                assert len(reader.messages.list("s")) == number
                assert text in [hit.text for hit in reader.search(f"train {number}", limit=50)]
            assert text in str(reader.context("s", "When does the train leave?").messages)
            wait_until(lambda: runs_on_replica(reading), "the replica was not used")
            figures = reading.database.figures()
            assert (figures["replica_used"], figures["replica_bytes_behind"]) == (1, 0)
            assert figures["replica_reads"] > 0
            # Reads that do not ask for it, and transactions, stay on the primary.
            assert reading.database.read("acme", lambda tx: tx.one(WHERE)) == (False, "acme")
            sessions = reader.transaction(lambda scope: scope.sessions.list())
            assert [session.id for session in sessions] == ["s"]
            with pytest.raises(NotFound):
                reader.messages.list("unknown")


@pytest.mark.slow
def test_vectors_are_found_on_the_replica_as_soon_as_they_are_stored(pair: Pair) -> None:
    """The vectors in memory follow what transactions of both servers have read."""
    towns = [
        "Bern", "Basel", "Genf", "Zug", "Chur", "Sion", "Thun", "Biel", "Olten", "Aarau", "Luzern",
        "Zürich",
    ]  # fmt: skip
    with pair.open() as writing, pair.open() as reading:
        writer, reader = scope_of(writing, "vectors"), scope_of(reading, "vectors")
        writer.sessions.add("s")
        for number, town in enumerate(towns, start=1):
            writer.messages.append("s", "user", f"My sister lives in {town}.")
            writing.run_jobs()
            hits = reader.search("Where is the home of my sibling?", limit=50).hits
            nearby = [hit.seq for hit in hits if "vectors" in hit.legs]
            assert sorted(nearby) == list(range(1, number + 1))
        wait_until(lambda: runs_on_replica(reading), "the replica was not used")
        assert reading.database.figures()["replica_reads"] > 0


@pytest.mark.slow
def test_a_server_reads_what_a_client_wrote_through_another(pair: Pair) -> None:
    settings: dict[str, Any] = {"read_database": pair.replica.url_of(DATABASE)}
    with Server(pair.url, **settings) as first, Server(pair.url, workers=2, **settings) as second:
        with Client(first.url, first.key) as client, Client(second.url, second.key) as other:
            writer, reader = (c.scope(user="eve", agent="scout") for c in (client, other))
            session = writer.sessions.add().id
            for number in range(1, 31):
                writer.messages.append(session, "user", f"Message {number}")
                assert len(reader.messages.list(session)) == number
        headers = {"Authorization": f"Bearer {second.key}"}
        with urlopen(Request(f"{second.url}/metrics", headers=headers)) as response:
            lines = response.read().decode().splitlines()
    assert [line for line in lines if line.startswith('memorist_database{figure="replica_used"')]


@pytest.mark.slow
def test_the_clock_of_a_read_is_that_of_the_primary(
    pair: Pair, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What expires must not come back because the clock of the replica is behind."""
    wait_until(lambda: runs_on_replica(memory), "the replica was not used")
    sql = """select pg_is_in_recovery(), :now, :tenant,
                    (extract(epoch from transaction_timestamp()) * 1000000)::bigint"""

    def read(tx: Transaction) -> tuple[Any, ...]:
        return (*(tx.one(sql) or ()), tx.now)

    is_replica, bound, _, began, now = memory.database.read("acme", read, allow_replica=True)
    assert is_replica
    assert bound == now
    assert bound < began, "the primary was asked before the transaction began"


@pytest.mark.slow
def test_concurrent_reads_use_both_servers(memory: Memory) -> None:
    wait_until(lambda: runs_on_replica(memory), "the replica was not used")
    barrier = threading.Barrier(8)

    def read(tx: Transaction) -> Any:
        barrier.wait(PATIENCE)
        return tx.one(WHERE)

    with ThreadPoolExecutor(8) as threads:
        futures = [
            threads.submit(memory.database.read, "acme", read, allow_replica=True) for _ in range(8)
        ]
        results = [future.result(PATIENCE)[0] for future in futures]
    assert 2 <= results.count(True) <= 6, results


class Checkers:
    """A writer that counts up through one memory, and readers that compare through another."""

    def __init__(self, pair: Pair, tenant: str) -> None:
        self.violations: list[str] = []
        self.reads = 0
        self.acknowledged = 0
        self._stop = threading.Event()
        self.writing = pair.open()
        self.reading = pair.open()
        self._tenant = tenant
        scope_of(self.writing, tenant).state.set("count", 0)
        targets = [self._write, self._read, self._read, self._read]
        self._threads = [threading.Thread(target=target, daemon=True) for target in targets]

    def __enter__(self) -> Checkers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        self.reading.close()
        self.writing.close()

    @property
    def is_replica_used(self) -> bool:
        return self.reading.database.figures()["replica_used"] == 1

    @property
    def replica_reads(self) -> float:
        return self.reading.database.figures()["replica_reads"]

    def wait_for(self, reads: int) -> None:
        """Wait until this many more reads were compared and as many writes acknowledged."""
        wanted = (self.reads + reads, self.acknowledged + reads)
        wait_until(
            lambda: self.reads >= wanted[0] and self.acknowledged >= wanted[1],
            f"{self.reads} reads and {self.acknowledged} writes, not {wanted}; {self.violations}",
        )

    def wait_for_replica(self, reads: int = 20) -> None:
        """Wait until this many more reads ran on the replica."""
        before = self.replica_reads
        wait_until(lambda: self.replica_reads >= before + reads, "the replica was not used")

    def _write(self) -> None:
        state = scope_of(self.writing, self._tenant).state
        while not self._stop.is_set():
            try:
                state.set("count", self.acknowledged + 1)
            except Exception as error:  # nothing happens to the primary
                self.violations.append(repr(error))
            self.acknowledged += 1
            time.sleep(0.005)  # the readers need the processor, too

    def _read(self) -> None:
        state = scope_of(self.reading, self._tenant).state
        while not self._stop.is_set():
            acknowledged = self.acknowledged
            try:
                value = state.list().items[0].value
            except Exception as error:
                self.violations.append(repr(error))
                continue
            if value < acknowledged:
                self.violations.append(f"read {value} after {acknowledged} was acknowledged")
            self.reads += 1


@contextmanager
def paused(pair: Pair) -> Iterator[None]:
    """Replay nothing."""
    pair.replica.execute("select pg_wal_replay_pause()")
    yield
    pair.replica.execute("select pg_wal_replay_resume()")


@contextmanager
def lagging(pair: Pair) -> Iterator[None]:
    """Replay each commit a moment after it happened."""
    pair.replica.execute("alter system set recovery_min_apply_delay = '400ms'")
    pair.replica.execute("select pg_reload_conf()")
    yield
    pair.replica.execute("alter system reset recovery_min_apply_delay")
    pair.replica.execute("select pg_reload_conf()")


@contextmanager
def killed(pair: Pair) -> Iterator[None]:
    """Kill the server with SIGKILL."""
    pair.replica.kill()
    yield
    start_again(pair.replica)


@contextmanager
def frozen(pair: Pair) -> Iterator[None]:
    """Stop all processes of the server; the system still accepts connections for it."""
    postmaster = psutil.Process(pair.replica.pid())
    processes = [postmaster, *postmaster.children()]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            if process.is_running():
                process.send_signal(signal.SIGCONT)


def start_again(server: PostgresServer) -> None:
    """Start a killed server; its last processes may still be ending."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return server.start()
        except RuntimeError:
            assert time.monotonic() < deadline
            time.sleep(0.5)


@pytest.mark.slow
@pytest.mark.parametrize("disturbed", [paused, lagging, killed, frozen])
def test_reads_see_every_write_whatever_happens_to_the_replica(
    pair: Pair, disturbed: Callable[[Pair], Any]
) -> None:
    with Checkers(pair, disturbed.__name__) as checkers:
        checkers.wait_for_replica()
        for _ in range(2):
            with disturbed(pair):
                checkers.wait_for(200)
                wait_until(lambda: not checkers.is_replica_used, "the replica is still used")
                used = checkers.replica_reads
                checkers.wait_for(50)
                assert checkers.replica_reads == used
            checkers.wait_for_replica()
    assert checkers.violations == []


@pytest.mark.slow
def test_a_read_that_the_replica_cancels_runs_on_the_primary(pair: Pair, memory: Memory) -> None:
    """A replica cancels a read whose rows the primary has removed for good."""
    wait_until(lambda: runs_on_replica(memory), "the replica was not used")
    tried: list[bool] = []

    def read(tx: Transaction) -> Any:
        (is_replica, _) = tx.one(WHERE) or (False, "")
        tried.append(is_replica)
        return tx.one(
            "select case when pg_is_in_recovery() then pg_terminate_backend(pg_backend_pid()) end, :tenant"
        )

    assert memory.database.read("acme", read, allow_replica=True) == (None, "acme")
    assert tried == [True, False]
    wait_until(lambda: runs_on_replica(memory), "the replica was not used again")


@pytest.mark.slow
def test_a_read_that_is_too_slow_on_the_replica_runs_on_the_primary(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A replica may replay in time and still be slow: its cache is cold, or its disk is busy."""
    monkeypatch.setattr(server, "STATEMENT_SECONDS", 0.5)
    slow = """select pg_is_in_recovery(), :tenant
              from pg_sleep(case when pg_is_in_recovery() then 30 else 0 end)"""
    with pair.open() as memory:
        wait_until(lambda: runs_on_replica(memory), "the replica was not used")
        before = memory.database.figures()
        row = memory.database.read("acme", lambda tx: tx.one(slow), allow_replica=True)
        assert row == (False, "acme")
        assert "is not read: " in caplog.text
        assert "statement timeout" in caplog.text
        figures = memory.database.figures()
        assert figures["replica_reads"] == before["replica_reads"]
        assert figures["replica_fallbacks"] == before["replica_fallbacks"] + 1


@pytest.mark.slow
def test_an_error_of_the_caller_is_not_repeated_on_the_primary(memory: Memory) -> None:
    wait_until(lambda: runs_on_replica(memory), "the replica was not used")
    tried: list[Any] = []

    def fail(tx: Transaction) -> None:
        tried.append(tx.one(WHERE))
        raise StorageError(problem="my own")

    with pytest.raises(StorageError, match="my own"):
        memory.database.read("acme", fail, allow_replica=True)
    assert tried == [(True, "acme")]


@pytest.mark.slow
def test_rows_that_were_handed_out_are_not_read_again(memory: Memory) -> None:
    wait_until(lambda: runs_on_replica(memory), "the replica was not used")
    rows: list[int] = []

    def fail(tx: Transaction) -> None:
        for row in tx.each("select n, :tenant as tenant from generate_series(1, 3) n"):
            rows.append(row["n"])
        tx.one("select pg_terminate_backend(pg_backend_pid()), :tenant")

    with pytest.raises(StorageError):
        memory.database.read("acme", fail, allow_replica=True)
    assert rows == [1, 2, 3]


@pytest.mark.slow
def test_a_failure_of_the_primary_is_not_blamed_on_the_replica(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    with pair.open() as memory:
        wait_until(lambda: runs_on_replica(memory), "the replica was not used")
        caplog.clear()
        pair.disconnect_all()
        finding = memory.database.check_replica()
        assert finding is not None
        assert finding.problem.startswith("the primary did not answer: ")
        assert memory.database.figures()["replica_used"] == 1
        assert "is not read" not in caplog.text
        pair.disconnect_all()
        assert memory.database.read("acme", lambda tx: tx.one(WHERE), allow_replica=True)
        assert "is not read" not in caplog.text
        finding = memory.database.check_replica()
        assert finding is not None
        assert finding.ok


@pytest.mark.slow
def test_reads_use_the_server_that_accepts_writes(pair: Pair) -> None:
    """An address with several servers may name a replica first, as after a failover."""
    hosts = f"127.0.0.1:{pair.replica.port},127.0.0.1:{pair.primary.port}"
    url = f"postgresql://postgres@{hosts}/{DATABASE}"
    with Memory.open(url, settings=replace(SETTINGS, owner_database=url)) as memory:
        assert memory.database.read("acme", lambda tx: tx.one(WHERE)) == (False, "acme")
        scope_of(memory).state.set("several", 1)


@pytest.mark.slow
def test_reads_go_through_poolers(pair: Pair) -> None:
    with pooler_of(pair.primary.port) as primary, pooler_of(pair.replica.port) as replica:
        address = "postgresql://postgres@127.0.0.1:{}/" + DATABASE
        settings = replace(SETTINGS, read_database=address.format(replica))
        with Memory.open(address.format(primary), settings=settings) as memory:
            me = scope_of(memory, "pooled")
            me.sessions.add("s")
            for number in range(1, 31):
                me.messages.append("s", "user", f"Message {number}")
                assert len(me.messages.list("s")) == number
            assert memory.database.figures()["replica_reads"] >= 25


@pytest.mark.slow
def test_a_forked_child_has_its_own_connections(pair: Pair, memory: Memory) -> None:
    wait_until(lambda: runs_on_replica(memory), "the replica was not used")
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if all(runs_on_replica(memory) for _ in range(20)) else 1)
        finally:
            os._exit(2)
    assert all(runs_on_replica(memory) for _ in range(20))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# -- bad input -------------------------------------------------------------------------------------


Doctor = Callable[..., dict[str, dict[str, str]]]


@pytest.fixture
def doctor(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    """Run `memorist doctor` with a replica; return its checks by name."""
    monkeypatch.chdir(tmp_path)

    def run(read_database: str, database: str = pair.url) -> dict[str, dict[str, str]]:
        settings = {"port": free_port(), "database": database, "read_database": read_database}
        (tmp_path / "memorist.yaml").write_text(json.dumps(settings))
        main(["doctor", "--json"])
        checks = json.loads(capsys.readouterr().out)["checks"]
        return {check["check"]: check for check in checks}

    return run


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("sqlite:///a.db", "read_database: needs PostgreSQL"),
        ("memory:", "read_database: needs PostgreSQL"),
        ("oracle://memorist@127.0.0.1/x", "read_database: needs PostgreSQL"),
        ("a.db", "read_database: needs PostgreSQL"),
    ],
)
def test_only_postgresql_has_a_replica(url: str, problem: str) -> None:
    settings = Settings(database=url, read_database="postgresql://127.0.0.1/x")
    with pytest.raises(SettingsError, match=problem):
        connect(settings)


@pytest.mark.slow
def test_doctor_shows_the_replica(pair: Pair, doctor: Doctor) -> None:
    address = f"postgresql://127.0.0.1:{pair.replica.port}/{DATABASE}"
    check = doctor(pair.replica.url_of(DATABASE))["replica"]
    assert (check["state"], check["todo"]) == ("ok", "")
    assert check["found"].startswith(f"{address}: It has replayed everything")


@pytest.mark.slow
def test_a_replica_that_is_down_stops_nothing(pair: Pair, doctor: Doctor) -> None:
    url = f"postgresql://postgres:secret@127.0.0.1:{free_port()}/{DATABASE}"
    with pair.open(read_database=url) as memory:
        assert not runs_on_replica(memory)
        assert memory.database.figures()["replica_used"] == 0
    check = doctor(url)["replica"]
    assert check["state"] == "warning"
    assert "refused" in check["found"]
    assert "secret" not in str(check)


@pytest.mark.slow
def test_a_primary_is_not_read_as_a_replica(pair: Pair, doctor: Doctor) -> None:
    """A promoted replica may have rows that the primary lacks, so it must not be read."""
    with pair.open(read_database=pair.url) as memory:
        assert not runs_on_replica(memory)
    check = doctor(pair.url)["replica"]
    assert check["state"] == "warning"
    assert "not a replica" in check["found"]


@pytest.mark.slow
def test_another_database_or_cluster_is_refused(pair: Pair, doctor: Doctor) -> None:
    pair.primary.create("another")
    pair.disconnect_all()
    with pytest.raises(SettingsError, match="database postgres") as e:
        pair.open(read_database=pair.replica.url_of("postgres"))
    wait_until(lambda: pair.client_count() == 0, "connections were left open")
    assert e.value.__traceback__  # which keeps the database: the collector has closed nothing
    modern = os.environ["TEST_POSTGRES_MODERN"]
    url = f"postgresql://postgres@127.0.0.1:{modern}/memorist_template"
    with pytest.raises(SettingsError, match=f"127.0.0.1:{modern}.* belongs to another PostgreSQL"):
        pair.open(read_database=url)
    check = doctor(url)["database"]
    assert check["state"] == "problem"
    assert f"127.0.0.1:{modern}" in check["found"]


@pytest.mark.slow
def test_a_replica_with_an_older_schema_is_named(pair: Pair, doctor: Doctor) -> None:
    url = pair.primary.create("upgraded")
    settings = replace(SETTINGS, database=url)
    database, migrations = connect(settings)
    with closing(database):
        replica_url = pair.replica.url_of("upgraded")
        migrate.up(database, migrations[:-1])
        with psycopg.connect(url) as connection:
            (lsn,) = connection.execute("select pg_current_wal_flush_lsn()").fetchone() or ("",)
        # The replica may not have this database yet.
        with psycopg.connect(pair.replica.url, autocommit=True) as connection:
            reached = "select pg_last_wal_replay_lsn() >= %s::pg_lsn"
            wait_until(
                lambda: connection.execute(reached, (lsn,)).fetchone() == (True,), "it is behind"
            )
        with paused(pair):
            migrate.up(database, migrations)
            check = doctor(replica_url, url)["replica"]
            with Memory.open(settings=replace(settings, read_database=replica_url)) as memory:
                scope_of(memory).sessions.add("s")
                assert [session.id for session in scope_of(memory).sessions.list()] == ["s"]
    newest = migrations[-1].number
    assert check["state"] == "warning"
    assert f"and has schema {newest - 1} of {newest}" in check["found"]


@pytest.mark.slow
def test_the_metrics_show_the_replica(pair: Pair, memory: Memory) -> None:
    figures = memory.database.figures()
    assert figures["replica_used"] == 1
    with paused(pair):
        scope_of(memory).state.set("x", 1)
        assert scope_of(memory).state.list()
        wait_until(
            lambda: memory.database.figures()["replica_used"] == 0, "the metrics show no problem"
        )
        (family,) = [family for family in Figures(memory).collect() if family.name == METRIC]
        values = {sample.labels["figure"]: sample.value for sample in family.samples}
        assert values["replica_used"] == 0
        assert values["replica_bytes_behind"] > 0
        assert values["replica_fallbacks"] > 0
    wait_until(
        lambda: memory.database.figures()["replica_used"] == 1, "the metrics show no recovery"
    )
