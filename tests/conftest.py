"""Fixtures that every test shares: real files, real PostgreSQL servers, an empty database per test.

A test that takes `url`, `memory` or `me` runs once per engine. By default these are SQLite and the
modern PostgreSQL for the packages of storage and search, and SQLite alone for the others, which do
not see which engine they use; `ENGINES=all` (`make test-all`) runs every test on all three, and
`ENGINES=h2` with `-m ""` (`make test-h2`) on H2 in Oracle mode. By default,
tests/test_every_kind.py calls every verb of every kind on PostgreSQL. A test that parametrizes `engine` itself keeps its own list. Servers are started once per run, and files lie in
memory where there is enough of it, except those of tests/chaos.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from retain import Memory, Scope
from retain.base import clock, limits
from retain.base.settings import Settings
from retain.models import model
from retain.storage.sqlite import engine as sqlite
from tests.chaos.sizes import FULL
from tests.servers import Kind, PostgresServer, debian_binaries

if TYPE_CHECKING:
    import psycopg

sqlite.BALLAST_MIB = 0  # a test of the reserve file sets it again
model.FIRST_RETRY_SECONDS = 0.01
SETTINGS = Settings(postgres_pool=8, rate_per_second=0)
SERVERS: tuple[Kind, ...] = ("modern", "debian")
ENGINES = ("sqlite", *SERVERS)
ONE_ENGINE = {
    "api",
    "auth",
    "base",
    "chat",
    "cli",
    "context",
    "integrations",
    "jobs",
    "kinds",
    "llm",
}
ONE_ENGINE |= {"mcp", "messages", "models", "security", "server", "text", "web"}
"""Folders whose tests run on SQLite alone, unless a test names its engines or ENGINES is `all`."""
EVERY_ENGINE = {"test_engine.py", "test_every_kind.py", "test_isolation.py", "test_migrate.py"}
EVERY_ENGINE |= {"test_postgres.py"}
"""Files whose tests also run on the distribution's PostgreSQL."""
BOTH_SERVERS = {"test_engine.py", "test_pipeline.py", "test_postgres.py"}
"""Files whose tests run on both PostgreSQL servers in `make test`, not only in `make test-all`."""
EVERY_CASE = {"chaos", "search", "storage"}
"""Folders whose parametrized tests run all their cases on PostgreSQL; of others only the first runs
there in `make test`, because the cases vary the input and not what the engine does with it."""
LONGEST = ("web",)
SHORTEST = ("base", "messages")
"""Folders that run first and last, so that at the end no process waits for another's long test."""
MANY_ROWS = 1 << 20  # bytes
TEMPLATE = "retain_template"
IN_MEMORY = "TEST_IN_MEMORY"
GIVEN_DATABASE = "TEST_DATABASE"
"""A database to use instead of the modern server; `make test-cluster` sets it."""
GIVEN_ORACLE = "TEST_ORACLE"
"""An Oracle server to run the files below on, instead of H2; `make test-oracle` sets it."""
ON_ORACLE = {"test_contract.py", "test_every_kind.py", "test_leases.py", "test_transaction.py"}
"""Files whose tests also run on H2 in Oracle mode, in `make test-all`."""
ENOUGH = 3 << 30  # bytes of memory for two servers and the files of a few tests
_started: dict[str, PostgresServer] = {}
_folders: list[Path] = []

hypothesis_settings.register_profile(
    "retain",
    deadline=None,
    max_examples=500 if FULL else 20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
hypothesis_settings.load_profile("retain")


@pytest.fixture
def installed_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the encoder importable, which `pytest_configure` hides."""
    monkeypatch.delitem(sys.modules, "retain_encoder")


def pytest_configure(config: pytest.Config) -> None:
    """Start the servers in the main process; workers find them in the environment."""
    accept_signals()
    if given := os.environ.get("RETAIN_TEST_DATABASE"):
        check_given_database(given)
        os.environ[GIVEN_DATABASE] = given
    if given := os.environ.get("RETAIN_TEST_ORACLE"):
        os.environ[GIVEN_ORACLE] = given
    for name in [name for name in os.environ if name.startswith(("RETAIN_", "OPENAI_"))]:
        del os.environ[name]
    # Most tests run as if the encoder were not installed: it takes 20 ms for each message.
    sys.modules["retain_encoder"] = None  # type: ignore[assignment]
    os.environ["RETAIN_EMBEDDER"] = "static"
    if hasattr(config, "workerinput") or config.option.collectonly:
        return
    folder = in_memory()
    if folder:
        os.environ[IN_MEMORY] = str(folder)
        config.option.basetemp = config.option.basetemp or str(folder / "tests")
    if GIVEN_ORACLE in os.environ:
        return
    if GIVEN_DATABASE in os.environ:
        Memory.open(os.environ[GIVEN_DATABASE], settings=SETTINGS).close()
        return
    has_debian = debian_binaries() is not None or os.environ.get("CI")
    kinds = SERVERS if has_debian else SERVERS[:1]
    with ThreadPoolExecutor() as executor:
        list(executor.map(partial(start_server, folder), kinds))


def start_server(folder: Path | None, kind: Kind) -> None:
    """Start a PostgreSQL server with a migrated database that others are copied from."""
    # Tests empty tables by deleting rows. Statistics of an empty table would mislead the planner.
    server = _started[kind] = PostgresServer(kind, folder, autovacuum="off")
    url = server.create(TEMPLATE)
    Memory.open(url, settings=SETTINGS).close()
    os.environ[f"TEST_POSTGRES_{kind.upper()}"] = str(server.port)


def check_given_database(url: str) -> None:
    """Raise UsageError unless the tests may empty this database: never a file of a developer."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise pytest.UsageError(
            "RETAIN_TEST_DATABASE must be the address of a PostgreSQL database, which loses all its "
            f"rows: postgresql://… instead of {url}"
        )


def accept_signals() -> None:
    """Handle SIGINT and SIGHUP: a shell lets background commands ignore them, tests send them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that needs an engine on each of those that its folder asks for."""
    marks = metafunc.definition.iter_markers("parametrize")
    is_chosen = any("engine" in str(mark.args[0]) for mark in marks)
    is_overridden = len(metafunc._arg2fixturedefs.get("engine", ())) > 1
    if "engine" in metafunc.fixturenames and not is_chosen and not is_overridden:
        metafunc.parametrize("engine", engines_of(metafunc.definition.path), indirect=True)


def engines_of(path: Path) -> tuple[str, ...]:
    """Return the engines that the tests of a file run on."""
    if GIVEN_ORACLE in os.environ:
        return ("oracle",)
    if os.environ.get("ENGINES") == "h2":
        return ("h2",)
    oracle = ("h2",) if path.name in ON_ORACLE else ()
    if os.environ.get("ENGINES") == "all" or path.name in EVERY_ENGINE:
        return (*ENGINES, *oracle)
    folder = path.relative_to(Path(__file__).parent).parts[0]
    return ("sqlite",) if folder in ONE_ENGINE else ("sqlite", "modern", *oracle)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Freeze imported modules and test items, so that the garbage collector skips them."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the second server, and long or repeated tests on the first, to `make test-all`. Start
    with the long tests.
    """
    items.sort(key=position)
    seen: set[str] = set()
    for item in items:
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            continue
        parameters = list(item.callspec.params.values())
        is_second = "debian" in parameters and item.path.name not in BOTH_SERVERS
        is_long = "modern" in parameters and item.get_closest_marker("slow_on_postgres")
        is_repeated = "modern" in parameters and not runs_every_case(item) and name_of(item) in seen
        if "modern" in parameters:
            seen.add(name_of(item))
        if is_second or is_long or is_repeated or "h2" in parameters:
            item.add_marker(pytest.mark.slow)
        mark = item.get_closest_marker("not_on_h2")
        if mark and "h2" in parameters:
            item.add_marker(pytest.mark.skip(reason=mark.args[0]))


def position(item: pytest.Item) -> int:
    """Return a sort key: long tests come first."""
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    return (folder in SHORTEST) - (folder in LONGEST)


def name_of(item: pytest.Function) -> str:
    """Return the name of a test without its case."""
    return item.nodeid.partition("[")[0]


def runs_every_case(item: pytest.Item) -> bool:
    """Tell whether all cases of a test run on PostgreSQL."""
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    return folder in EVERY_CASE or item.path.name in EVERY_ENGINE


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers and remove the folders."""
    for server in _started.values():
        server.close()
    for folder in _folders:
        shutil.rmtree(folder, ignore_errors=True)


def in_memory() -> Path | None:
    """Return a folder in memory; None if memory is short or the long tests need a disk."""
    memory = Path("/dev/shm")
    if FULL or not os.access(memory, os.W_OK):
        return None
    if min(shutil.disk_usage(memory).free, psutil.virtual_memory().available) < ENOUGH:
        return None
    for abandoned in memory.glob("retain-tests-*-*"):  # by a run that was killed
        if not psutil.pid_exists(int(abandoned.name.split("-")[2])):
            shutil.rmtree(abandoned, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"retain-tests-{os.getpid()}-", dir=memory))
    folder.chmod(0o755)  # the servers run as somebody else
    _folders.append(folder)
    return folder


def memory_folder() -> Path | None:
    """Return the folder in memory that `in_memory` made, also in workers; None without one."""
    return Path(os.environ[IN_MEMORY]) if IN_MEMORY in os.environ else None


def server_url(kind: str, database: str) -> str:
    """Return the address of a database on a running server."""
    port = os.environ.get(f"TEST_POSTGRES_{kind.upper()}")
    if port is None:
        pytest.skip(
            "the distribution's PostgreSQL is not installed: run the tests with `make test`"
        )
    return f"postgresql://postgres@127.0.0.1:{port}/{database}"


START = 1_760_000_000_000_000  # 2025-10-09 08:53:20 UTC


class Now:
    """A clock that a test moves by hand."""

    def __init__(self) -> None:
        self.micros = START

    def __call__(self) -> int:
        return self.micros

    def pass_days(self, days: float) -> None:
        self.micros += round(days * clock.DAY)


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """An empty, migrated database of its own on the modern server."""
    yield from new_database("modern")


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    """The name of an engine."""
    return str(request.param)


one_engine = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
"""For tests that do not depend on the engine."""


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty SQLite database; copying it takes a quarter of the time of migrating another one."""
    path = tmp_path_factory.mktemp("migrated") / "agent.db"
    Memory.open(f"sqlite:///{path}", settings=SETTINGS).close()
    return path


@pytest.fixture
def url(engine: str, tmp_path: Path, migrated_file: Path) -> Iterator[str]:
    """The address of an empty, migrated database."""
    if engine == "sqlite":
        shutil.copy(migrated_file, tmp_path / "agent.db")
        yield f"sqlite:///{tmp_path}/agent.db"
    elif engine in ("h2", "oracle"):
        from tests.oracle import oracle_database  # needs the extra `oracle`

        yield from oracle_database(engine)
    else:
        yield from shared_database(engine)


def new_database(kind: str, template: str = TEMPLATE) -> Iterator[str]:
    """Yield the address of a database that is dropped at the end of the test."""
    if GIVEN_DATABASE in os.environ:
        if kind != "modern" or template != TEMPLATE or _given_in_use:
            pytest.skip("needs a database of its own")
        yield from given_database(os.environ[GIVEN_DATABASE])
        return
    name = f"t_{uuid.uuid4().hex}"
    create_database(kind, name, template)
    yield server_url(kind, name)
    administrator(kind).execute(f"drop database {name} with (force)")


def create_database(kind: str, name: str, template: str = TEMPLATE) -> None:
    """Create a database from a template."""
    server = administrator(kind)
    copies = IN_MEMORY in os.environ and server.info.server_version >= 150_000
    strategy = " strategy file_copy" * copies  # without it, the copy goes through the log
    server.execute(f"create database {name} template {template}{strategy}")


# What a test may leave behind in a shared database besides rows: when it changes, the database is
# made anew. Tables that hold rows in the template (the schema version) are part of it.
SCHEMA_FINGERPRINT = """
    select sum(hashtextextended(line, 0)) from (
        select concat(relnamespace, relname, relkind, relowner, relacl, relrowsecurity) line
        from pg_class where relnamespace not in (
            select oid from pg_namespace where nspname ~ '^(pg_|information_schema)')
        union all select concat(attrelid, attname, atttypid, attnum) from pg_attribute
        where attrelid > 16384
        union all select concat(oid, proname) from pg_proc where oid > 16384
        union all select concat(oid, tgname, tgenabled) from pg_trigger
        union all select concat(oid, polname) from pg_policy
        union all select extname from pg_extension
        union all select concat(setdatabase, setrole, setconfig) from pg_db_role_setting
    ) lines"""
FILLED_TABLES = """
    select format('%I.%I', nspname, relname) from pg_class join pg_namespace on pg_namespace.oid = relnamespace
    where relkind = 'r' and nspname !~ '^(pg_|information_schema)' and pg_relation_size(pg_class.oid) > 0"""
# Waits for those in a transaction; the others end before they read another statement.
END_OTHERS = """
    select pg_terminate_backend(pid, case when xact_start is null then 0 else 5000 end)
    from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"""
_shared: dict[str, tuple[str, psycopg.Connection, str, set[str]]] = {}


def shared_database(kind: str) -> Iterator[str]:
    """Yield the address of this process's database on a server; its rows are removed after the test.

    That takes a few milliseconds, where creating and dropping a database takes a hundred.
    """
    if GIVEN_DATABASE in os.environ:
        yield from new_database(kind)
        return
    if kind not in _shared:
        import psycopg

        name = f"t_{uuid.uuid4().hex}"
        create_database(kind, name)
        connection = psycopg.connect(server_url(kind, name), autocommit=True)
        connection.execute("set lock_timeout = '2s'")
        _shared[kind] = (name, connection, fingerprint(connection), filled_tables(connection))
    name, connection, schema, preserved = _shared[kind]
    yield server_url(kind, name)
    try:
        # An abandoned transaction of a test could be committed after the rows are removed.
        connection.execute(END_OTHERS)
        clean = fingerprint(connection) == schema
        if clean:
            remove_rows(connection, filled_tables(connection) - preserved)
    except Exception:  # somebody holds a lock, or the server was restarted
        clean = False
    if not clean:
        del _shared[kind]
        connection.close()
        administrator(kind).execute(f"drop database if exists {name} with (force)")


_given_in_use: list[str] = []


def given_database(url: str) -> Iterator[str]:
    """Yield the address of the given database, and remove the rows of all tenants after the test."""
    _given_in_use.append(url)
    try:
        yield url
    finally:
        _given_in_use.clear()
        remove_tenants(url)


def remove_tenants(url: str) -> None:
    """Remove the rows of all tenants."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("set search_path = retain")
        tables = connection.execute(
            """select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid
               where c.relnamespace = 'retain'::regnamespace and c.relkind = 'r' and attname = 'tenant'
               order by c.relname = 'tenants', c.oid desc"""  # those that refer to others come first
        ).fetchall()
        for (tenant,) in connection.execute("select tenant from tenants").fetchall():
            for (table,) in tables:
                connection.execute(f"delete from {table} where tenant = %s", [tenant])


def remove_rows(connection: psycopg.Connection, tables: set[str]) -> None:
    """Empty tables and start their identities again.

    Deleting a few rows takes a fifth of the time of `truncate`, which replaces the files of every
    table and index; but deleted rows stay in these files.
    """
    sizes = connection.execute(
        "select sum(pg_relation_size(name::regclass)) from unnest(%s::text[]) name", [list(tables)]
    ).fetchone()
    if sizes and (sizes[0] or 0) > MANY_ROWS:
        connection.execute(f"truncate {', '.join(sorted(tables))} restart identity cascade")
        return
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")  # no triggers
        for table in sorted(tables):
            connection.execute(f"delete from {table}")
        connection.execute("select setval(oid, 1, false) from pg_class where relkind = 'S'")


def fingerprint(connection: psycopg.Connection) -> str:
    """Return a hash of everything in a database that a test should leave as it was, but for rows."""
    row = connection.execute(SCHEMA_FINGERPRINT).fetchone()
    return str(row[0]) if row else ""


def filled_tables(connection: psycopg.Connection) -> set[str]:
    """Return the names of the tables that have, or had, rows."""
    return {str(row[0]) for row in connection.execute(FILLED_TABLES)}


@cache
def administrator(kind: str) -> psycopg.Connection:
    """Return the superuser's connection to a server, open as long as this process."""
    import psycopg

    return psycopg.connect(server_url(kind, "postgres"), autocommit=True)


@pytest.fixture
def open_memory(url: str) -> Iterator[Callable[..., Memory]]:
    """Open the test's database, as often as wanted, with other settings or another clock."""
    opened: list[Memory] = []

    def open_it(
        clock: Callable[[], int] | None = None,
        wait_seconds: float | None = None,
        **changes: object,
    ) -> Memory:
        settings = replace(SETTINGS, **changes)  # type: ignore[arg-type]
        memory = Memory.open(url, settings=settings, clock=clock, wait_seconds=wait_seconds)
        opened.append(memory)
        return memory

    yield open_it
    for memory in opened:
        memory.close()


Limited = Callable[..., None]


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Limited:
    """Set fixed limits of retain.base.limits for one test, as in `limited(MAX_BATCH=3)`."""

    def set_limits(**values: float) -> None:
        for name, value in values.items():
            monkeypatch.setattr(limits, name, value)

    return set_limits


@pytest.fixture
def memory(open_memory: Callable[..., Memory]) -> Memory:
    """The test's database, open."""
    return open_memory()


@pytest.fixture
def me(memory: Memory) -> Scope:
    """Ada's memory with the agent scout, of the tenant acme."""
    return memory.scope(tenant="acme", user="ada", agent="scout")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What a test hears of all that is logged must not make every later test slow."""
    yield
    assert logging.getLogger().level >= logging.WARNING, (
        "the test leaves the log at its most talkative"
    )
