"""What the tests stand on: real files and real servers; each test gets an empty database of its own.

A test that takes `url` or `memory` runs once for each engine. Servers are started once for the whole run.
Files and servers lie in memory where there is enough of it: what a test asks is the same, and no test waits for a disk.
What is about disks (tests/chaos) stays on one.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import psutil
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from retain import Memory, Scope
from retain.base import clock
from retain.base.settings import Settings
from tests.chaos.sizes import FULL
from tests.servers import Kind, PostgresServer, debian_binaries

if TYPE_CHECKING:
    import psycopg

SETTINGS = Settings(sqlite_ballast_mib=0, postgres_pool=8, rate_per_second=0)
SERVERS: tuple[Kind, ...] = ("modern", "debian")
ENGINES = ("sqlite", *SERVERS)
ON_BOTH = {
    "test_engine.py",
    "test_every_kind.py",
    "test_isolation.py",
    "test_migrate.py",
    "test_postgres.py",
}
"""Tests on both servers; all others are on one of them, unless they name both themselves, or ENGINES=all."""
TEMPLATE = "retain_template"
IN_MEMORY = "TEST_IN_MEMORY"
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


def pytest_configure(config: pytest.Config) -> None:
    """Start the servers in the main process; workers find them in the environment."""
    for name in [name for name in os.environ if name.startswith(("RETAIN_", "OPENAI_"))]:
        del os.environ[name]
    if hasattr(config, "workerinput") or config.option.collectonly:
        return
    folder = in_memory()
    if folder:
        os.environ[IN_MEMORY] = str(folder)
        config.option.basetemp = config.option.basetemp or str(folder / "tests")
    for kind in SERVERS:
        if kind == "debian" and debian_binaries() is None and not os.environ.get("CI"):
            continue
        server = _started[kind] = PostgresServer(kind, folder)
        url = server.create(TEMPLATE)
        Memory.open(url, settings=SETTINGS).close()
        os.environ[f"TEST_POSTGRES_{kind.upper()}"] = str(server.port)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out one of the two servers, each where the name of a test says so: about half of the tests have each."""
    if os.environ.get("ENGINES") == "all" or not all(
        f"TEST_POSTGRES_{kind.upper()}" in os.environ for kind in SERVERS
    ):
        return
    twins: dict[str, list[pytest.Item]] = {}
    for item in items:
        named = " ".join(str(mark.args[0]) for mark in item.iter_markers("parametrize"))
        given = getattr(getattr(item, "callspec", None), "params", {}).items()
        chosen = [one for name, one in given if name not in named and isinstance(one, str)]
        for server in SERVERS if item.path.name not in ON_BOTH else ():
            if server in chosen:
                twins.setdefault(item.nodeid.replace(server, ""), []).append(item)
    left = [both[crc32(name.encode()) % 2] for name, both in twins.items() if len(both) == 2]
    if left:
        config.hook.pytest_deselected(items=left)
        out = set(left)
        items[:] = [item for item in items if item not in out]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop what was started."""
    for server in _started.values():
        server.close()
    for folder in _folders:
        shutil.rmtree(folder, ignore_errors=True)


def in_memory() -> Path | None:
    """A folder that is kept in memory, None where there is too little of it or the long programme wants a disk."""
    memory = Path("/dev/shm")
    if FULL or not os.access(memory, os.W_OK):
        return None
    if min(shutil.disk_usage(memory).free, psutil.virtual_memory().available) < ENOUGH:
        return None
    for left in memory.glob("retain-tests-*-*"):  # by a run that was killed
        if not psutil.pid_exists(int(left.name.split("-")[2])):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"retain-tests-{os.getpid()}-", dir=memory))
    folder.chmod(0o755)  # the servers run as somebody else
    _folders.append(folder)
    return folder


def server_url(kind: str, database: str) -> str:
    """The address of a database on a running server."""
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
    """An empty, migrated database on the modern server."""
    yield from new_database("modern")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The name of each engine in turn."""
    return str(request.param)


one_engine = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
"""For what knows nothing of the engine that it stands on."""


@pytest.fixture
def url(engine: str, tmp_path: Path) -> Iterator[str]:
    """The address of an empty database on each engine in turn; on a server it is migrated."""
    if engine == "sqlite":
        yield f"sqlite:///{tmp_path}/agent.db"
    else:
        yield from new_database(engine)


def new_database(kind: str, template: str = TEMPLATE) -> Iterator[str]:
    """A database that is dropped at the end of the test."""
    name = f"t_{uuid.uuid4().hex}"
    server = administrator(kind)
    copies = (
        IN_MEMORY in os.environ and server.info.server_version >= 150_000
    )  # files; without, it goes through the log
    server.execute(f"create database {name} template {template}" + " strategy file_copy" * copies)
    yield server_url(kind, name)
    server.execute(f"drop database {name} with (force)")


@cache
def administrator(kind: str) -> psycopg.Connection:
    """The superuser's connection to a server, open as long as this process."""
    import psycopg

    return psycopg.connect(server_url(kind, "postgres"), autocommit=True)


@pytest.fixture
def open_memory(url: str) -> Iterator[Callable[..., Memory]]:
    """Open the test's database, as often as wanted, with other settings or another clock."""
    opened: list[Memory] = []

    def open_it(clock: Callable[[], int] | None = None, **changes: object) -> Memory:
        opened.append(Memory.open(url, settings=replace(SETTINGS, **changes), clock=clock))  # type: ignore[arg-type]
        return opened[-1]

    yield open_it
    for memory in opened:
        memory.close()


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
