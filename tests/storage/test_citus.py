"""Citus: what can be tested on one server, and the tests of `make test-cluster` on a real cluster."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import conninfo

from memorist import Memory, NewMessage, Scope
from memorist.base.errors import InDoubt, StorageError
from memorist.storage import migrate
from memorist.storage.database import Transaction
from memorist.storage.postgres import citus, engine, migration_script, roles
from testkit.databases import GIVEN_DATABASE, SETTINGS, check_given_database

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_the_tests_of_a_cluster_need_the_name_of_a_database_to_empty() -> None:
    """The default of `make serve` is a developer's own database."""

    def plan(*variables: str) -> subprocess.CompletedProcess[str]:
        command = ["make", "--dry-run", "test-cluster", *variables]
        env = {"PATH": os.environ["PATH"]}  # without the options of the `make` that runs the tests
        return subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )

    for refused in (plan(), plan("DATABASE=sqlite:///memorist.db")):
        assert refused.returncode != 0
        assert "CLUSTER=postgresql://" in refused.stderr
        assert "pytest" not in refused.stdout
    accepted = plan("CLUSTER=postgresql://a/b?c=d&e=f")
    assert "MEMORIST_TEST_DATABASE='postgresql://a/b?c=d&e=f'" in accepted.stdout


@pytest.mark.parametrize("url", ["sqlite:///memorist.db", "memory:", "memorist.db"])
def test_the_tests_of_a_cluster_refuse_other_databases(url: str) -> None:
    check_given_database("postgresql://localhost/memorist_test")
    with pytest.raises(pytest.UsageError, match="loses all its rows"):
        check_given_database(url)


def test_a_script_is_split_into_statements() -> None:
    script = """-- a comment; with a semicolon
        create table a (b text default 'x;y''z', "c;d" int);
        create function f() returns trigger as $body$ begin; return $$;$$; end; $body$;
        select 1"""
    assert citus.split(script) == [
        """-- a comment; with a semicolon
        create table a (b text default 'x;y''z', "c;d" int)""",
        "create function f() returns trigger as $body$ begin; return $$;$$; end; $body$",
        "select 1",
    ]


def test_every_migration_is_split_between_its_statements() -> None:
    """A split inside a text or a function body would leave an odd number of quotes."""
    for migration in migrate.shipped("postgres"):
        for step in (migration.step(up=True), migration.step(up=False)):
            script = migration_script.script(step, engine.expand_types(step.script))
            statements = [re.sub("--.*", "", statement) for statement in citus.split(script)]
            assert len(statements) > 3
            for statement in statements:
                assert statement.count("$$") in (0, 2), statement
                assert statement.count("'") % 2 == 0, statement


FAIL_AT_COMMIT = """
    create function public.fail_at_commit() returns trigger language plpgsql as $$
    begin
        raise exception 'no commit';
    end $$;
    create constraint trigger fail_at_commit after insert on {table}
    deferrable initially deferred for each row execute function public.fail_at_commit()"""


@contextmanager
def failing_commits(url: str, table: str) -> Iterator[None]:
    """Let every commit of an insert into a table fail."""
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("set citus.enable_ddl_propagation = off")  # a change of this server only
        for statement in citus.split(FAIL_AT_COMMIT.format(table=table)):
            server.execute(statement)
        try:
            yield
        finally:
            server.execute(f"drop trigger fail_at_commit on {table}")
            server.execute("drop function public.fail_at_commit()")


@pytest.mark.parametrize("engine", ["modern"], indirect=True)
def test_a_failed_commit_of_one_server_is_not_in_doubt(url: str, me: Scope) -> None:
    if me.messages._database.is_cluster:
        pytest.skip("runs on one server")
    me.state.set("before", 1)
    with (
        failing_commits(url, "memorist.state"),
        pytest.raises(StorageError, match="no commit") as raised,
    ):
        me.state.set("color", "blue")
    assert not isinstance(raised.value, InDoubt)


class Cluster(NamedTuple):
    """The cluster of `make test-cluster`, and the server that has the rows of the tenant `acme`."""

    memory: Memory
    coordinator: psycopg.Connection
    worker_url: str
    worker: str  # host:port, as the coordinator knows it

    def shard(self, table: str) -> str:
        """Return the name of the table on the worker with the rows of the tenant `acme`."""
        row = self.coordinator.execute(
            "select get_shard_id_for_distribution_column(%s, 'acme')", [f"memorist.{table}"]
        ).fetchone()
        assert row
        return f"memorist.{table}_{row[0]}"


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["modern"], indirect=True)
class TestCluster:
    """Tests that need a real cluster."""

    @pytest.fixture
    def cluster(self, url: str, request: pytest.FixtureRequest) -> Iterator[Cluster]:
        if GIVEN_DATABASE not in os.environ:
            pytest.skip("needs a Citus cluster: make test-cluster CLUSTER=postgresql://…")
        memory = request.getfixturevalue("memory")
        if not memory.database.is_cluster:
            pytest.skip("the database of MEMORIST_TEST_DATABASE does not have Citus")
        with psycopg.connect(url, autocommit=True) as coordinator:
            row = coordinator.execute(
                """select nodename, nodeport from pg_dist_placement join pg_dist_node using (groupid)
                   where shardid = get_shard_id_for_distribution_column('memorist.tenants', 'acme')"""
            ).fetchone()
            assert row
            worker_url = conninfo.make_conninfo(url, host=row[0], port=row[1])
            yield Cluster(memory, coordinator, worker_url, f"{row[0]}:{row[1]}")

    def test_what_is_written_is_found_until_it_is_removed(
        self, cluster: Cluster, me: Scope
    ) -> None:
        me.sessions.add("s")
        me.messages.append("s", "user", "the night train to Vienna")
        me.messages.extend("s", [NewMessage("user", f"harbour {n}") for n in range(5)])
        for _ in range(2):
            assert me.search("vienna").hits[0].text == "the night train to Vienna"
            assert len(me.search("harbour", limit=10).hits) >= 5
            me.admin.jobs.run()  # from now on, the documents are in a segment
        assert [finding for finding in cluster.memory.verify() if not finding.ok] == []
        me.sessions.remove("s")
        assert not me.search("harbour").hits

    def test_tables_that_a_migration_creates_are_distributed(self, cluster: Cluster) -> None:
        """A step down creates those of the version before again."""
        memory = cluster.memory
        migrate.down(memory.database, memory.migrations, to=len(memory.migrations) - 1)
        assert citus.is_complete(cluster.coordinator, roles.SCHEMA)
        migrate.up(memory.database, memory.migrations)
        assert citus.is_complete(cluster.coordinator, roles.SCHEMA)
        assert all(finding.ok for finding in memory.database.health())

    def test_only_the_coordinators_clock_counts(self, cluster: Cluster, me: Scope) -> None:
        """A worker would evaluate `transaction_timestamp()` with its own clock."""
        me.sessions.add("s")

        def work(tx: Transaction) -> tuple[int, int]:
            tx.send("update sessions set touched_at = :now where tenant = :tenant and id = 's'")
            row = tx.one("select touched_at from sessions where tenant = :tenant and id = 's'")
            assert row
            return row[0], tx.now

        stored, now = cluster.memory.database.write("acme", work)
        assert stored == now

    def test_a_failed_commit_is_in_doubt(self, cluster: Cluster, me: Scope) -> None:
        """The coordinator does not say whether the worker refused or could not be reached."""
        me.state.set("before", 1)
        with (
            failing_commits(cluster.worker_url, cluster.shard("state")),
            pytest.raises(InDoubt, match="could not commit"),
        ):
            me.state.set("color", "blue")

    def test_doctor_names_a_server_that_is_not_ready(self, cluster: Cluster) -> None:
        with psycopg.connect(cluster.worker_url, autocommit=True) as worker:
            worker.execute("set citus.enable_ddl_propagation = off")
            worker.execute("alter role memorist_app nologin")
            try:
                findings = {f.check: f.problem for f in cluster.memory.database.health()}
            finally:
                worker.execute("alter role memorist_app login")
        problem = findings["every node of the cluster is ready"]
        assert problem == f"{cluster.worker}: the role memorist_app cannot log in"

    def test_doctor_names_a_table_that_is_not_distributed(self, cluster: Cluster) -> None:
        cluster.coordinator.execute('create table memorist.moods (tenant text collate "C")')
        try:
            problems = [f.problem for f in cluster.memory.database.health() if not f.ok]
        finally:
            cluster.coordinator.execute("drop table memorist.moods")
        assert "moods" in problems

    def test_a_worker_without_the_extension_is_named(self, cluster: Cluster, url: str) -> None:
        """No node is changed."""
        name = "memorist_incomplete"
        urls = [
            urlsplit(url)._replace(path=f"/{name}").geturl(),
            conninfo.make_conninfo(cluster.worker_url, dbname=name),
        ]
        try:
            for server, database in zip((url, cluster.worker_url), urls, strict=True):
                execute(server, f"drop database if exists {name} with (force)")
                execute(server, f"create database {name}")
                execute(database, "create extension citus")
            coordinator = cluster.coordinator.info
            execute(
                urls[0],
                f"select citus_set_coordinator_host('{coordinator.host}', {coordinator.port})",
            )
            host, port = cluster.worker.rsplit(":", 1)
            execute(urls[0], f"select citus_add_node('{host}', {port})")
            execute(urls[1], "drop extension citus")
            with pytest.raises(StorageError, match=f"{cluster.worker}: Citus is not installed"):
                Memory.open(urls[0], settings=SETTINGS)
            for database in urls:
                assert execute(database, "select to_regnamespace('memorist')") == [(None,)]
        finally:
            for server in (url, cluster.worker_url):
                execute(server, f"drop database if exists {name} with (force)")

    def test_the_next_start_continues_after_a_worker_failed(
        self, cluster: Cluster, open_memory: Callable[..., Memory]
    ) -> None:
        with psycopg.connect(cluster.worker_url, autocommit=True) as worker:
            worker.execute("set citus.enable_ddl_propagation = off")
            cluster.coordinator.execute('create table memorist.moods (tenant text collate "C")')
            try:
                worker.execute(
                    'create table memorist.moods (tenant text collate "C")'
                )  # in the way
                with pytest.raises(StorageError, match=cluster.worker):
                    open_memory()
                assert citus.local_tables(cluster.coordinator, roles.SCHEMA) == ["moods"]
                worker.execute("drop table memorist.moods")
                open_memory()
                assert citus.is_complete(cluster.coordinator, roles.SCHEMA)
            finally:
                cluster.coordinator.execute("drop table memorist.moods")
                worker.execute("drop table if exists memorist.moods")

    def test_a_start_does_not_wait_if_there_is_nothing_to_do(
        self, cluster: Cluster, open_memory: Callable[..., Memory]
    ) -> None:
        """Another process may hold the lock of migrations, and the owner's address be unknown."""
        with psycopg.connect(cluster.coordinator.info.dsn) as other:
            other.execute("select pg_advisory_xact_lock(%s)", [engine.MIGRATION_LOCK])
            owner = "postgresql://127.0.0.1:1/unreachable"
            memory = open_memory(owner_database=owner)
            assert "are distributed by tenant" in memory.database.distribute()

    def test_a_tenant_moves_to_another_server(self, cluster: Cluster, me: Scope) -> None:
        others = cluster.coordinator.execute(
            """select nodename, nodeport from pg_dist_node
               where shouldhaveshards and nodename || ':' || nodeport <> %s limit 1""",
            [cluster.worker],
        ).fetchone()
        if others is None:
            pytest.skip("needs two workers")
        me.sessions.add("s")
        me.messages.append("s", "user", "the night train to Vienna")
        wait_for_cleanup(cluster.coordinator)
        host, port = cluster.worker.rsplit(":", 1)
        cluster.coordinator.execute(
            """select citus_move_shard_placement(
                   get_shard_id_for_distribution_column('memorist.tenants', 'acme'),
                   %s, %s, %s, %s, 'block_writes')""",
            [host, int(port), *others],
        )
        me.messages.append("s", "user", "a ferry to Dover")
        me.messages.remove("s", 1)
        assert me.search("dover").hits[0].text == "a ferry to Dover"
        assert [finding for finding in cluster.memory.verify() if not finding.ok] == []


def execute(url: str, sql: str) -> list[tuple[object, ...]]:
    """Run a statement on a server; return its rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        result = connection.execute(sql)
        return result.fetchall() if result.description else []


def wait_for_cleanup(coordinator: psycopg.Connection) -> None:
    """Wait until Citus has removed what an earlier move left; until then, it refuses to move back."""
    deadline = time.monotonic() + 60
    while coordinator.execute("select 1 from pg_dist_cleanup").fetchone():
        assert time.monotonic() < deadline, "Citus does not clean up after a move"
        time.sleep(0.2)
