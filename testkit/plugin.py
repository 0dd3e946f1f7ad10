"""The pytest plugin of the tests: an empty database per test, apps and commands.

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
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from memorist import Memory, Scope
from testkit.clock import Now
from testkit.databases import (
    ENGINES,
    GIVEN_DATABASE,
    GIVEN_ORACLE,
    IN_MEMORY,
    SERVERS,
    SETTINGS,
    check_given_database,
    in_memory,
    new_database,
    shared_database,
    start_server,
    stop_servers,
)
from testkit.servers import debian_binaries
from testkit.sizes import FULL

pytest_plugins = ["testkit.apps", "testkit.commands", "testkit.limited"]

ROOT = Path(__file__).parent.parent
ONE_ENGINE = {
    "api", "admin", "base", "chat", "cli", "context", "importing", "jobs",
    "kinds", "llm",
}  # fmt: skip
ONE_ENGINE |= {"mcp", "content", "models", "promises", "security", "server", "text", "web"}
"""Folders whose tests run on SQLite alone, unless a test names its engines or ENGINES is `all`."""
ALWAYS_SQLITE = {"web", "cli", "test_importers.py", "test_metrics.py", "test_model_routes.py"}
"""Folders and files whose tests run on SQLite even then, unless a test names its engines: a browser,
a terminal or a model does not see the engine."""
EVERY_ENGINE = {"test_engine.py", "test_every_kind.py", "test_isolation.py", "test_migrate.py"}
EVERY_ENGINE |= {"test_postgres.py"}
"""Files whose tests also run on the distribution's PostgreSQL."""
BOTH_SERVERS = {"test_engine.py", "test_pipeline.py", "test_postgres.py", "test_rewrite.py"}
"""Files whose tests run on both PostgreSQL servers in `make test`, not only in `make test-all`."""
EVERY_CASE = {"chaos", "search", "storage"}
"""Folders whose parametrized tests run all their cases on PostgreSQL; of others only the first runs
there in `make test`, because the cases vary the input and not what the engine does with it."""
LONGEST = ("web",)
SHORTEST = ("base", "content")
"""Folders that run first and last, so that at the end no process waits for another's long test."""
ON_ORACLE = {"test_contract.py", "test_every_kind.py", "test_leases.py", "test_transaction.py"}
"""Files whose tests also run on H2 in Oracle mode, in `make test-all`."""
hypothesis_settings.register_profile(
    "memorist",
    deadline=None,
    max_examples=500 if FULL else 20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
hypothesis_settings.load_profile("memorist")


@pytest.fixture
def installed_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the encoder importable, which `pytest_configure` hides."""
    monkeypatch.delitem(sys.modules, "memorist_encoder")


def pytest_configure(config: pytest.Config) -> None:
    """Start the servers in the main process; workers find them in the environment."""
    accept_signals()
    if given := os.environ.get("MEMORIST_TEST_DATABASE"):
        check_given_database(given)
        os.environ[GIVEN_DATABASE] = given
    if given := os.environ.get("MEMORIST_TEST_ORACLE"):
        os.environ[GIVEN_ORACLE] = given
    for name in [name for name in os.environ if name.startswith(("MEMORIST_", "OPENAI_"))]:
        del os.environ[name]
    # Most tests run as if the encoder were not installed: it takes 20 ms for each message.
    sys.modules["memorist_encoder"] = None  # type: ignore[assignment]
    os.environ["MEMORIST_EMBEDDER"] = "static"
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
    if {folder_of(path), path.name} & ALWAYS_SQLITE:
        return ("sqlite",)
    if GIVEN_ORACLE in os.environ:
        return ("oracle",)
    if os.environ.get("ENGINES") == "h2":
        return ("h2",)
    oracle = ("h2",) if path.name in ON_ORACLE else ()
    if os.environ.get("ENGINES") == "all" or path.name in EVERY_ENGINE:
        return (*ENGINES, *oracle)
    return (
        ("sqlite",)
        if folder_of(path) in ONE_ENGINE or is_in_package(path)
        else ("sqlite", "modern", *oracle)
    )


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


def folder_of(path: Path) -> str:
    """Return the folder of `tests` that a file is in, or its own name."""
    parts = path.relative_to(ROOT).parts
    return parts[parts.index("tests") + 1]


def is_in_package(path: Path) -> bool:
    """Tell whether a test belongs to a package other than the core."""
    return path.is_relative_to(ROOT / "packages")


def position(item: pytest.Item) -> int:
    """Return a sort key: long tests come first."""
    folder = folder_of(item.path)
    return (folder in SHORTEST) - (folder in LONGEST)


def name_of(item: pytest.Function) -> str:
    """Return the name of a test without its case."""
    return item.nodeid.partition("[")[0]


def runs_every_case(item: pytest.Item) -> bool:
    """Tell whether all cases of a test run on PostgreSQL."""
    folder = folder_of(item.path)
    return folder in EVERY_CASE or item.path.name in EVERY_ENGINE


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers and remove the folders."""
    stop_servers()


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
        from testkit.oracle import oracle_database  # needs the extra `oracle`

        yield from oracle_database(engine)
    else:
        yield from shared_database(engine)


@pytest.fixture
def open_memory(url: str) -> Iterator[Callable[..., Memory]]:
    """Open the test's database, as often as wanted, with other settings or another clock."""
    opened: list[Memory] = []

    def open_it(
        clock: Callable[[], int] | None = None, wait_seconds: float | None = None, **changes: object
    ) -> Memory:
        settings = replace(SETTINGS, **changes)  # type: ignore[arg-type]
        memory = Memory.open(url, settings=settings, clock=clock, wait_seconds=wait_seconds)
        opened.append(memory)
        return memory

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
