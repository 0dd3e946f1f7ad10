"""One PostgreSQL server: its connections, and the statements that begin a transaction on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import psycopg
from psycopg import conninfo
from psycopg.sql import SQL, Composable, Identifier

from memorist.base.settings import Settings
from memorist.storage.pool import Pool
from memorist.storage.postgres import citus, roles
from memorist.storage.postgres.connections import (
    PostgresConnection,
    is_idle,
    run_script,
    translate_error,
)

KEEPALIVE_OPTIONS = {
    "connect_timeout": 3,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
STATEMENT_SECONDS = 15.0
"""The longest time for one statement, unless its transaction is `long`."""
ANSWER_SECONDS = STATEMENT_SECONDS + 5.0
"""The longest wait for the server's answer to statements that were sent together, unless their
transaction is `long`. The server should have stopped a statement by then, so it hangs or is
unreachable."""
MAX_CACHED_BEGINS = 1000
NOW = "(extract(epoch from transaction_timestamp()) * 1000000)::bigint"
"""The server's clock in microseconds."""
# Every short statement has an index that returns its rows in order. Without statistics, as after a
# large import, the server would read and sort a whole session for its last twenty messages.
INDEX_SCAN_OPTIONS = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "jit": "off",
}
SEARCH_PATH = SQL("{}, public").format(Identifier(roles.SCHEMA))


class Begin(NamedTuple):
    """The statement that begins a transaction, and whether it may run for long."""

    statement: str
    is_long: bool


class PostgresServer:
    """The connections to one server. Behind a pooler, they have no settings of their own."""

    def __init__(self, url: str, settings: Settings, wait_seconds: float) -> None:
        self.url = add_keepalive(url)
        self.prepares = False
        self.keeps_settings = False
        self.is_cluster = False
        self._is_inspected = False
        self._settings = settings
        self._begins: dict[tuple[Begin, str], Sequence[tuple[bytes, bool]]] = {}
        self.pool = Pool(
            self.connect,
            settings.postgres_pool,
            wait_seconds,
            is_usable=is_idle,
            close=PostgresConnection.close,
        )

    def connect_first(self) -> None:
        """Connect at once: a wrong address raises here, while the pool would only wait."""
        try:
            connection = self.connect()
        except psycopg.Error as error:
            raise translate_error(error) from error
        self.pool.add(connection)

    def connect(self) -> PostgresConnection:
        """Open a connection; the first one shows whether there is a pooler or a cluster."""
        connection = PostgresConnection.connect(self.url, autocommit=True, prepare_threshold=None)
        try:
            if not self._is_inspected:
                self._inspect(connection)
            self._set_up(connection)
        except BaseException:  # an interruption must not leave the connection open
            connection.close()
            raise
        return connection

    def _inspect(self, connection: PostgresConnection) -> None:
        connection.answer_seconds = ANSWER_SECONDS
        (pid,) = connection.execute("select pg_backend_pid()").fetchone() or (0,)
        # Behind a pooler, the connection that answers is not the one that we opened.
        self.prepares = connection.info.backend_pid == pid
        self.is_cluster = citus.is_installed(connection)
        self.keeps_settings = self.prepares and not self.is_cluster
        self._is_inspected = True

    def _set_up(self, connection: PostgresConnection) -> None:
        """Make the settings that all transactions share, where a connection can keep them.

        A pooler would pass them on to others, and Citus would not pass them on to its workers.
        There, every transaction makes them again.
        """
        connection.prepared.allowed = self.prepares
        if self.keeps_settings:
            settings = self._constant_settings().items()
            run_script(connection, b"; ".join([_set("set", *setting) for setting in settings]))

    def begin_statements(self, begin: Begin, tenant: str) -> Sequence[tuple[bytes, bool]]:
        """Return the statements that begin a transaction, and whether to prepare each.

        The settings are made by `set local`, which Citus passes on to its workers;
        `set_config` would stay on the coordinator.
        """
        statements = self._begins.get((begin, tenant))
        if statements is not None:
            return statements
        settings: dict[str, str | Composable] = {}
        if not self.keeps_settings:
            settings = self._constant_settings()
        if begin.is_long:
            settings["statement_timeout"] = "0"
            settings |= dict.fromkeys(INDEX_SCAN_OPTIONS, SQL("default"))
        settings["role"] = roles.ROLE
        of_tenant = {
            "memorist.tenant": tenant,
            "application_name": f"memorist {tenant}".encode("ascii", "replace").decode()[:63],
        }
        statements = [
            (begin.statement.encode(), True),
            *[(_set("set local", *setting), True) for setting in settings.items()],
            *[(_set("set local", *setting), False) for setting in of_tenant.items()],
            (f"select {NOW}".encode(), True),
        ]
        if len(self._begins) >= MAX_CACHED_BEGINS:
            self._begins.clear()
        self._begins[begin, tenant] = statements
        return statements

    def _constant_settings(self) -> dict[str, str | Composable]:
        """Return the settings that all transactions share, unless they are long."""
        return {
            **(citus.SETTINGS if self.is_cluster else {}),
            "search_path": SEARCH_PATH,
            "idle_in_transaction_session_timeout": "60s",
            "statement_timeout": f"{round(STATEMENT_SECONDS * 1000)}ms",
            **INDEX_SCAN_OPTIONS,
        }


def choose_primary(url: str) -> str:
    """Return an address that leads to the primary, if it names several servers.

    The first one may be a replica after a failover, and reads from it could be stale.
    """
    parts = conninfo.conninfo_to_dict(url)
    hosts = f"{parts.get('host', '')}{parts.get('hostaddr', '')}"
    if "," not in hosts or "target_session_attrs" in parts:
        return url
    return conninfo.make_conninfo(url, target_session_attrs="read-write")


def add_keepalive(url: str) -> str:
    """Return an address with the options that detect a dead server."""
    return conninfo.make_conninfo(
        url, **{name: value for name, value in KEEPALIVE_OPTIONS.items() if name not in url}
    )


def _set(command: str, setting: str, value: str | Composable) -> bytes:
    return SQL("{} {} = {}").format(SQL(command), SQL(setting), value).as_bytes()
