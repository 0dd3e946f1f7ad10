"""Record calls of a function, and the work of transactions, without replacing anything."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import apsw

from memorist.storage.database import Transaction, Work
from memorist.storage.sqlite.engine import SqliteTransaction


@contextmanager
def recorded_calls(function: Callable[..., Any]) -> Iterator[list[dict[str, Any]]]:
    """Collect the arguments of each call of a Python function in this thread.

    In a nested block only the inner one records.
    """
    calls: list[dict[str, Any]] = []
    code = function.__code__

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is code:
            calls.append(dict(frame.f_locals))

    previous = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(previous)


class WorkCounter:
    """Counts, inside a transaction, how much its statements had to look at.

    Give it to `FaultyDatabase.wrap`. On PostgreSQL it counts the rows of these tables.
    """

    def __init__(self, *tables: str) -> None:
        self.last = 0
        """The result for the latest transaction: steps on SQLite, rows on PostgreSQL."""
        self._tables = tables

    def __call__(self, tx: Transaction, work: Work[Any]) -> Any:
        if isinstance(tx, SqliteTransaction):
            return self._count_steps(tx, work)
        before = self._rows_read(tx)
        result = work(tx)
        self.last = self._rows_read(tx) - before
        return result

    def _count_steps(self, tx: SqliteTransaction, work: Work[Any]) -> Any:
        """Count the steps of SQLite's virtual machine."""
        steps = 0

        def profile(event: dict[str, Any]) -> None:
            nonlocal steps
            steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

        tx.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, profile, id=self)
        try:
            result = work(tx)
        finally:
            tx.connection.trace_v2(0, None, id=self)
        self.last = steps
        return result

    def _rows_read(self, tx: Transaction) -> int:
        """Return the rows that this PostgreSQL transaction has read, scanned or by an index."""
        names = ", ".join(f"'{name}'" for name in self._tables)
        row = tx.one(
            f"""select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))
                from pg_stat_xact_user_tables where relname in ({names}) and :tenant <> ''"""
        )
        return int(row[0]) if row else 0
