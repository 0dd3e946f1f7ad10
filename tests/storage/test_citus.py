"""The engine's decisions for a cluster, tested without one; `make test-cluster` uses a real one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from psycopg.pq import ExecStatus

from retain import Memory, NewMessage
from retain.base.errors import StorageError
from retain.search.index import Index, open_index
from retain.search.postgres import CitusEngine, PostgresEngine
from retain.storage import migrate
from retain.storage.postgres import citus, engine, roles
from tests.conftest import SETTINGS, check_given_database, new_database

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

    for refused in (plan(), plan("DATABASE=sqlite:///retain.db")):
        assert refused.returncode != 0
        assert "CLUSTER=postgresql://" in refused.stderr
        assert "pytest" not in refused.stdout
    accepted = plan("CLUSTER=postgresql://a/b?c=d&e=f")
    assert "RETAIN_TEST_DATABASE='postgresql://a/b?c=d&e=f'" in accepted.stdout


@pytest.mark.parametrize("url", ["sqlite:///retain.db", "memory:", "retain.db"])
def test_the_tests_of_a_cluster_refuse_other_databases(url: str) -> None:
    check_given_database("postgresql://localhost/retain_test")
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
            script = roles.script(step, engine.expand_types(step.script), SETTINGS)
            statements = [re.sub("--.*", "", statement) for statement in citus.split(script)]
            assert len(statements) > 3
            for statement in statements:
                assert statement.count("$$") in (0, 2), statement
                assert statement.count("'") % 2 == 0, statement


@pytest.mark.parametrize(("is_cluster", "expected"), [(True, CitusEngine), (False, PostgresEngine)])
def test_the_index_of_a_cluster_has_its_own_statements(is_cluster: bool, expected: type) -> None:
    database = SimpleNamespace(is_cluster=is_cluster)
    assert type(open_index(database, SETTINGS).engine) is expected


@pytest.mark.parametrize("engine", ["modern"], indirect=True)
class TestClusterStatements:
    """The statements for a cluster do the same on one server."""

    @pytest.fixture
    def cluster(self, memory: Memory) -> Memory:
        index = Index(CitusEngine(64))
        memory.services = replace(memory.services, index=index)
        return memory

    def test_words_are_found_and_removed(self, cluster: Memory) -> None:
        me = cluster.scope(tenant="acme", user="ada", agent="scout")
        me.sessions.add("s")
        me.messages.append("s", "user", "the night train to Vienna")
        me.messages.extend("s", [NewMessage("user", f"harbour {n}") for n in range(5)])
        assert me.search("vienna").hits[0].text == "the night train to Vienna"
        assert len(me.search("harbour", limit=10).hits) >= 5
        assert [finding for finding in cluster.verify() if not finding.ok] == []

    def test_snapshots_have_bounds(self, cluster: Memory) -> None:
        me = cluster.scope(tenant="acme", user="ada", agent="scout")
        me.sessions.add("s")
        low, high = cluster.database.read("acme", CitusEngine(64).snapshot)
        assert 0 < low <= high


def test_a_cluster_uses_only_the_coordinators_clock() -> None:
    """A worker would evaluate `transaction_timestamp()` with its own clock."""
    sent: list[tuple[bytes, Sequence[Any]]] = []
    transaction = engine.PostgresTransaction(Mock(), "acme", lambda: 7, is_cluster=True)
    transaction._pipeline = Mock(send=lambda query, values: sent.append((query, values)))
    transaction.send("update sessions set touched_at = :now where tenant = :tenant")
    assert sent == [(b"update sessions set touched_at = $1 where tenant = $2", [7, "acme"])]


@pytest.mark.parametrize(
    ("status", "state", "is_cluster", "expected"),
    [
        (ExecStatus.FATAL_ERROR, b"08006", True, True),
        (ExecStatus.FATAL_ERROR, b"40001", True, False),  # a serialization failure
        (ExecStatus.FATAL_ERROR, b"23505", True, False),  # a violated constraint
        (ExecStatus.PIPELINE_ABORTED, b"", True, False),  # a statement before the commit failed
        (ExecStatus.FATAL_ERROR, b"08006", False, False),
    ],
)
def test_a_failed_commit_of_a_cluster_is_in_doubt(
    status: ExecStatus, state: bytes, is_cluster: bool, expected: bool
) -> None:
    connection = Mock(closed=False)
    transaction = engine.PostgresTransaction(connection, "acme", None, is_cluster=is_cluster)
    commit = Mock(result=Mock(status=status, error_field=lambda field: state))
    transaction._pipeline = Mock(
        send=lambda query: commit, wait=Mock(side_effect=psycopg.InternalError("could not commit"))
    )
    with pytest.raises(psycopg.InternalError):
        transaction.commit(idempotent=False)
    assert transaction.is_in_doubt is expected


def test_a_node_that_is_not_ready_is_named() -> None:
    nodes = [("a:5432", True, ""), ("b:5432", False, "connection refused"), ("c:5432", True, "x")]
    rows = {"run_command_on_all_nodes": nodes, "pg_dist_partition": [("moods",)]}
    connection = Mock()
    connection.execute = lambda sql, _: Mock(
        fetchall=lambda: next(rows[name] for name in rows if name in sql)
    )
    ready, distributed = citus.findings(connection, "retain", "retain_app")
    assert ready.problem == "b:5432: connection refused; c:5432: x"
    assert distributed.problem == "moods"


CLUSTER_STAND_IN = """
create table pg_dist_partition (logicalrelid regclass);
create table pg_dist_node (isactive bool, shouldhaveshards bool, noderole text);
create table workers_down (name text);
insert into workers_down values ('worker-1');
create function create_distributed_table(name text, by text, colocate_with text) returns void
language plpgsql as $$
begin
    if exists (select 1 from public.workers_down) then
        raise exception 'connection to the remote node worker-1:5432 failed';
    end if;
    insert into public.pg_dist_partition values (name::regclass);
end $$"""
"""The functions of Citus that distribute tables, on one server; they fail while a worker is down."""


def test_the_next_start_distributes_the_tables_if_a_worker_was_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    created = new_database("modern", "template1")
    url = next(created)
    monkeypatch.setattr(citus, "is_installed", lambda connection: True)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(CLUSTER_STAND_IN)
        with pytest.raises(StorageError, match="worker-1:5432"):
            Memory.open(url, settings=SETTINGS)
        assert citus.local_tables(connection, roles.SCHEMA)
        connection.execute("delete from workers_down")
        for _ in range(2):
            Memory.open(url, settings=SETTINGS).close()
            assert citus.local_tables(connection, roles.SCHEMA) == []
        (count,) = connection.execute("select count(*) from pg_dist_partition").fetchone() or (0,)
        assert count > 40, "each table was distributed once"
    list(created)
