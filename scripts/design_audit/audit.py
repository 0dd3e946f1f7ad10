"""The items of the audit, and helpers for their checks: memories, HTTP and MCP clients, commands."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import (
    ExitStack,
    chdir,
    closing,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
)
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, LiteralString
from unittest.mock import patch

import psycopg
from starlette.testclient import TestClient

from memorist import MemoristError, Memory, Scope, Settings
from memorist.admin.principal import PERMISSIONS, Principal
from memorist.cli import main as command_line
from memorist.mcp.server import McpCaller, create_server
from memorist.models import Model, Models
from memorist.server.http.app import create_app

Status = Literal["works", "partly", "missing", "differs", "not checked"]
STATUSES: tuple[Status, ...] = ("works", "partly", "missing", "differs", "not checked")
DAY_MICROS = 24 * 3600 * 1_000_000
START_MICROS = 1_760_000_000_000_000  # 2025-10-09 08:53:20 UTC
LOCAL_URL = "http://127.0.0.1:7700"
SCOUT = {"X-Memorist-Agent": "scout"}
"""The header of requests for the agent of most checks."""
COMMAND = str(Path(sys.executable).with_name("memorist"))
COMMAND_SECONDS = 60


class Now:
    """A clock that a check moves by hand."""

    def __init__(self) -> None:
        self.micros = START_MICROS

    def __call__(self) -> int:
        """Return the time in microseconds."""
        return self.micros

    def pass_days(self, days: float) -> None:
        """Move the clock forward."""
        self.micros += round(days * DAY_MICROS)


@dataclass
class Item:
    """One promise of a design, and the results of its checks.

    The status is `works` if all checks pass, `partly` if some do, and `missing` if none do or a
    check raises an exception. It is `differs` if the item has a reason in `differs` and all checks
    pass: memorist does something else on purpose.
    """

    id: str
    group: str
    promise: str
    differs: str = ""  # why memorist does something else
    known_gap: str = ""  # why the item may fail without failing the audit
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    error: str = ""
    skipped: str = ""

    def check(self, what: str, condition: object) -> None:
        """Record the result of one check."""
        (self.passed if condition else self.failed).append(what)

    def skip(self, reason: str) -> None:
        """Record why there is no check."""
        self.skipped = reason

    @property
    def status(self) -> Status:
        """The result."""
        if self.error:
            return "missing"
        if not self.passed and not self.failed:
            return "not checked"
        if self.failed:
            return "partly" if self.passed else "missing"
        return "differs" if self.differs else "works"

    @property
    def evidence(self) -> str:
        """The reason for the status: the failed checks, or the passed ones."""
        if self.error:
            return f"raised {self.error}"
        if self.status == "not checked":
            return self.skipped or "there is no check"
        if self.failed:
            return f"failed: {'; '.join(self.failed)}"
        return self.differs or "; ".join(self.passed)

    @property
    def is_failure(self) -> bool:
        """True if the item should work and does not."""
        return self.status in ("partly", "missing") and not self.known_gap

    def as_json(self) -> dict[str, str]:
        """Return the item as JSON."""
        return {
            "id": self.id,
            "group": self.group,
            "promise": self.promise,
            "status": self.status,
            "evidence": self.evidence,
            "known_gap": self.known_gap,
        }


class Audit:
    """One run: the items so far, and the resources that the current group has open."""

    def __init__(self, database: str, folder: Path, oracle: str = "") -> None:
        self.database = database
        self.oracle = oracle
        """The address of an Oracle server; empty if there is none."""
        self.folder = folder
        self.items: list[Item] = []
        self.group = ""
        self.tenant = ""
        self._stack = ExitStack()

    @property
    def is_postgres(self) -> bool:
        """True if the audit runs on PostgreSQL."""
        return self.database.startswith("postgres")

    def run(self, group: Callable[[Audit], None], prefix: str) -> None:
        """Run the checks of a group in a tenant of its own."""
        self.group = group.__name__
        self.tenant = f"audit-{uuid.uuid4().hex[:12]}"
        with self._stack:
            try:
                group(self)
            except Exception as error:
                item = Item(f"{prefix}-{self.group}", self.group, "The checks of this group run.")
                item.error = _short(error)
                self.items.append(item)

    @contextmanager
    def item(
        self, id: str, promise: str, *, differs: str = "", known_gap: str = ""
    ) -> Iterator[Item]:
        """Add an item; an exception ends its checks, and the audit continues with the next item."""
        item = Item(id, self.group, promise, differs, known_gap)
        self.items.append(item)
        try:
            yield item
        except Exception as error:
            item.error = _short(error)

    # -- helpers for checks --------------------------------------------------------------------

    def open(
        self,
        *,
        main: Model | None = None,
        summary: Model | None = None,
        clock: Callable[[], int] | None = None,
        database: str | None = None,
        tools: Sequence[Callable[..., Any]] = (),
        **settings: Any,
    ) -> Memory:
        """Open the audited database; it is closed at the end of the group."""
        chosen_settings = replace(
            Settings(),
            database=database or self.database,
            rate_per_second=0,
            **settings,
        )
        models = Models(chosen_settings, main=main, summary=summary)
        memory = Memory.open(settings=chosen_settings, models=models, clock=clock, tools=tools)
        return self._stack.enter_context(memory)

    def scope(self, memory: Memory, user: str | None = "ada", agent: str | None = "scout") -> Scope:
        """Return a scope in the tenant of the group."""
        return memory.scope(tenant=self.tenant, user=user, agent=agent)

    def http(
        self,
        memory: Memory,
        *,
        user: str = "ada",
        key: bool = True,
        tenant: str = "",
        jobs: bool = False,
    ) -> TestClient:
        """Return an HTTP client for a server with this memory, by default with an API key.

        With `jobs`, the server runs its background jobs until the end of the group.
        """
        headers = {"X-Memorist-User": user}
        if key:
            keys = memory.scope(tenant=tenant or self.tenant).admin.keys
            text = keys.add("audit", permissions=sorted(PERMISSIONS)).key
            headers["Authorization"] = f"Bearer {text}"
        client = TestClient(
            create_app(memory, jobs=jobs),
            LOCAL_URL,
            headers=headers,
            client=("127.0.0.1", 50_000),
            raise_server_exceptions=False,
        )
        return self._stack.enter_context(client)

    def mcp(
        self, memory: Memory, work: Callable[[Any], Coroutine[Any, Any, Any]], user: str = "ada"
    ) -> Any:
        """Run a coroutine with an MCP client of the agent scout."""
        from mcp import Client

        caller = McpCaller(memory, Principal(self.tenant, PERMISSIONS, "audit"), user, "scout")

        async def connect() -> Any:
            async with Client(create_server(memory, "agent", lambda _: caller)) as client:
                return await work(client)

        return asyncio.run(connect())

    def command(
        self, *arguments: str, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `memorist` on the audited database, in the tenant of the group.

        Only `run`, which starts another program, is a process of its own: starting an interpreter
        takes a second.
        """
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MEMORIST_", "OPENAI_"))
        }
        own = {"MEMORIST_DATABASE": self.database, "MEMORIST_TENANT": self.tenant}
        environment = {**inherited, **own, **(environment or {})}
        if arguments[0] != "run":
            with patch.dict(os.environ, environment, clear=True), chdir(self.folder):
                return _run_in_process(arguments, stdin)
        return subprocess.run(
            [COMMAND, *arguments],
            input=stdin,
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )

    def query(self, design: str, sql: LiteralString) -> list[tuple[Any, ...]]:
        """Return the rows of a query of a design, in its own tables: the views of `migrate views`."""
        if self.is_postgres:
            self.command("migrate", "views", "--design", design)
            schema = f"memorist_{design.replace('-', '_')}"
            with psycopg.connect(self.database) as server:
                server.execute("set role memorist_app")
                server.execute("select set_config('search_path', %s, false)", [schema])
                server.execute("select set_config('memorist.tenant', %s, false)", [self.tenant])
                return server.execute(sql, {"tenant": self.tenant}).fetchall()
        script = self.command("migrate", "views", "--design", design, "--sql").stdout
        with closing(sqlite3.connect(self.database.removeprefix("sqlite:///"))) as file:
            file.executescript(script)
            return file.execute(
                sql.replace("%(tenant)s", ":tenant"), {"tenant": self.tenant}
            ).fetchall()

    def exported_rows(self, memory: Memory, table: str) -> list[dict[str, Any]]:
        """Return the tenant's rows of a table, from an export."""
        file = self.folder / f"{uuid.uuid4().hex}.jsonl"
        memory.export(file, tenants=[self.tenant])
        rows = []
        for line in file.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if record.get("table") == table:
                rows.append(record["row"])
        return rows


def eventually(condition: Callable[[], object], seconds: float = 60) -> bool:
    """Wait for what a server does on its own; return False if it does not happen."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def refusal(action: Callable[[], object]) -> str:
    """Return the error that an action raises, with its class; empty if the action succeeds."""
    try:
        action()
    except MemoristError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def database_error(connection: psycopg.Connection, statement: LiteralString) -> str:
    """Return the error of a statement, which is rolled back; empty if the statement succeeds."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(statement)
    except psycopg.Error as error:
        return str(error)
    return ""


def tool(scope: Scope, name: str, session: str | None = None, **arguments: Any) -> dict[str, Any]:
    """Call one memory tool of a scope as a model would."""
    (definition,) = scope.tools([name], session=session)
    return definition.call(arguments)


def system_text(messages: list[dict[str, Any]]) -> str:
    """Return the first message of a context."""
    return str(messages[0]["content"])


def everything(messages: list[dict[str, Any]]) -> str:
    """Return all messages of a context as one text."""
    return "\n".join(str(message["content"]) for message in messages)


def talk(scope: Scope, session: str, turns: int, words: str = "about trains") -> None:
    """Append questions of the user and answers of the assistant."""
    for number in range(1, turns + 1):
        scope.messages.append(session, "user", f"Question {number} {words}")
        scope.messages.append(session, "assistant", f"Answer {number} {words}")


def _run_in_process(arguments: Sequence[str], stdin: str) -> subprocess.CompletedProcess[str]:
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2)]
    text = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
    with patch("sys.stdin", text), redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        try:
            status = command_line.main(arguments)
        except SystemExit as end:
            status = int(end.code or 0)
    for stream in streams:
        stream.seek(0)  # this also writes what is buffered
    return subprocess.CompletedProcess(arguments, status, *(stream.read() for stream in streams))


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
