"""Statements of one connection that are sent together and answered together.

Sending a statement does not wait for its result. Reading a result waits, for the results of
everything sent so far. So `begin`, its settings and the first statement share a round trip, and so
do the last statements and `commit`. The server runs the statements in order; if one fails, it skips
the others that we have not waited for.

psycopg's own pipeline mode needs 158 µs of CPU time for a transaction of five statements, this one 48:
it makes a cursor, a generator and a queue entry for each statement. An append is one such transaction.
So this module calls `psycopg.generators` and `psycopg.pq` itself, and the package allows only versions
of psycopg that it was tested with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import abc, errors
from psycopg.adapt import PyFormat, Transformer
from psycopg.generators import fetch, send
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from memorist.storage.database import Row
from memorist.storage.postgres.connections import PostgresConnection, run_script

# Looking up a member of an enumeration takes as long as the rest of the work for a result.
COMMAND_OK = ExecStatus.COMMAND_OK
TUPLES_OK = ExecStatus.TUPLES_OK
PIPELINE_SYNC = ExecStatus.PIPELINE_SYNC
BAD = ConnStatus.BAD
IDLE = TransactionStatus.IDLE

PREPARE_THRESHOLD = 5
"""A connection prepares a statement at its fifth use."""
MAX_PREPARED = 200
"""A connection keeps at most this many prepared statements: those that were used last."""
MAX_COUNTED = 2000
"""A connection counts the uses of at most this many statements."""
MAX_UNANSWERED = 100
"""At most this many statements are sent before their results are read."""

Key = tuple[bytes, tuple[int, ...]]
"""A statement and the types of its values: a plan is made for certain types."""


class SentStatement:
    """A statement that was sent, and its result once it has arrived."""

    __slots__ = ("_pipeline", "_transformer", "result")

    def __init__(self, pipeline: Pipeline, transformer: abc.Transformer | None = None) -> None:
        self._pipeline = pipeline
        self._transformer = transformer
        self.result: PGresult | None = None

    def rows(self) -> list[Row]:
        """Return the rows of the result; wait for it if necessary."""
        result = self._arrived()
        transformer = self._transformer or Transformer(self._pipeline.connection)
        transformer.set_pgresult(result)
        return transformer.load_rows(0, result.ntuples, tuple)

    def count(self) -> int:
        """Return the number of rows that were returned or changed; wait for it if necessary."""
        result = self._arrived()
        if result.status == TUPLES_OK:
            return result.ntuples
        return result.command_tuples or 0

    def _arrived(self) -> PGresult:
        if self.result is None:
            self._pipeline.wait()
        assert self.result is not None, "the statement failed"
        if self.result.status not in (COMMAND_OK, TUPLES_OK):
            raise errors.error_from_result(self.result)
        return self.result


class Pipeline:
    """Sends statements over one connection and reads their results."""

    def __init__(self, connection: PostgresConnection) -> None:
        self.connection = connection
        self._unanswered: list[SentStatement] = []
        self._preparing: list[tuple[Key, SentStatement]] = []

    def send(
        self, query: bytes, values: Sequence[Any] = (), *, may_prepare: bool = True
    ) -> SentStatement:
        """Send one statement, with `$1`, `$2` and so on for its values."""
        if len(self._unanswered) >= MAX_UNANSWERED:
            self.wait()
        pgconn = self.connection.pgconn
        if not self._unanswered:
            pgconn.enter_pipeline_mode()
        transformer = None
        parameters = None
        types: tuple[int, ...] = ()
        formats = None
        if values:
            transformer = Transformer(self.connection)
            parameters = transformer.dump_sequence(values, [PyFormat.AUTO] * len(values))
            types = transformer.types or ()
            formats = transformer.formats
        name = self._prepared_name(pgconn, (query, types)) if may_prepare else None
        if name is None:
            pgconn.send_query_params(query, parameters, types, formats)
        else:
            pgconn.send_query_prepared(name, parameters, formats)
        return self._expect(SentStatement(self, transformer))

    def wait(self) -> None:
        """Read the results of everything that was sent; raise the first error."""
        if not self._unanswered:
            return
        results = self._read_results()
        if self.connection.pgconn.status == BAD:
            problem = results[-1].get_error_message() if results else "the connection was closed"
            raise errors.OperationalError(problem)
        for result in results:
            if result.status not in (COMMAND_OK, TUPLES_OK):
                raise errors.error_from_result(result)

    def roll_back(self) -> None:
        """Undo what was sent; close the connection if that fails, and the pool replaces it."""
        try:
            if self._unanswered:
                self._read_results()
            if self.connection.pgconn.transaction_status != IDLE:
                run_script(self.connection, b"rollback")
        except psycopg.Error:
            self.connection.close()
        except BaseException:  # an interruption must not leave a transaction open
            self.connection.close()
            raise

    def _expect(self, statement: SentStatement) -> SentStatement:
        self._unanswered.append(statement)
        return statement

    def _read_results(self) -> list[PGresult]:
        pgconn = self.connection.pgconn
        unanswered = self._unanswered
        self._unanswered = []
        pgconn.pipeline_sync()
        results = self.connection.wait(_results(pgconn))
        for statement, result in zip(unanswered, results, strict=False):
            statement.result = result
        for key, statement in self._preparing:  # the server skips them after an error
            if statement.result is None or statement.result.status != COMMAND_OK:
                self.connection.prepared.names.pop(key, None)
        self._preparing.clear()
        if pgconn.status != BAD:
            pgconn.exit_pipeline_mode()
        return results

    def _prepared_name(self, pgconn: PGconn, key: Key) -> bytes | None:
        """Return the name of the prepared statement, or None. Prepare it at its fifth use."""
        prepared = self.connection.prepared
        if not prepared.allowed:
            return None
        name = prepared.names.pop(key, None)
        if name is None:
            uses = prepared.uses.pop(key, 0) + 1
            if uses < PREPARE_THRESHOLD:
                if len(prepared.uses) >= MAX_COUNTED:
                    prepared.uses.clear()
                prepared.uses[key] = uses
                return None
            if len(prepared.names) >= MAX_PREPARED:
                oldest = prepared.names.pop(next(iter(prepared.names)))
                pgconn.send_query_params(b"deallocate " + oldest, None)
                self._expect(SentStatement(self))
            prepared.count += 1
            name = b"memorist_%d" % prepared.count
            pgconn.send_prepare(name, *key)
            self._preparing.append((key, self._expect(SentStatement(self))))
        prepared.names[key] = name  # at the end of the dictionary: used last
        return name


def _results(pgconn: PGconn) -> abc.PQGen[list[PGresult]]:
    """Send what is buffered and return the results up to the end of the pipeline.

    A lost connection ends the results early.
    """
    results: list[PGresult] = []
    try:
        yield from send(pgconn)
        while True:
            result = (yield from fetch(pgconn)) if pgconn.is_busy() else pgconn.get_result()
            if result is not None:
                if result.status == PIPELINE_SYNC:
                    break
                results.append(result)
            elif pgconn.status == BAD:
                break
            # None comes between the results of two statements.
    except errors.OperationalError:
        # The reason may be in the results: the server says why before it closes a connection.
        if not results or results[-1].status != ExecStatus.FATAL_ERROR:
            raise
    return results
