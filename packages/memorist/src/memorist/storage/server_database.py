"""Base class of the PostgreSQL and Oracle engines: retries, tenant registration, fork handling."""

from __future__ import annotations

import os
import random
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from memorist.base.errors import InDoubt, MemoristError, StorageError
from memorist.storage.damage import raise_damage
from memorist.storage.database import (
    EVERY_TENANT,
    CheckedTable,
    Dialect,
    Finding,
    T,
    Transaction,
    Work,
)
from memorist.storage.design_views import NoViews, Views
from memorist.storage.transaction_database import forbid_in_transaction

WAIT_SECONDS = 10.0
"""The longest wait for a connection, or for a server that restarts."""
MAX_PAUSE_SECONDS = 0.5


class TransientFailure(Exception):
    """A failure after which a retry may succeed; `committing` if it happened during the commit."""

    def __init__(self, cause: Exception, committing: bool = False) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.committing = committing


class ServerDatabase:
    """A database on a server, shared by all threads of this process.

    Subclasses implement one attempt in `_run_once`.
    """

    dialect: Dialect
    runs_on_server = True
    is_cluster = False
    checked_tables: Sequence[CheckedTable] = ()
    remnants: Sequence[str] = ()

    def __init__(
        self, wait_seconds: float | None, translate_error: Callable[[Any], MemoristError]
    ) -> None:
        self._translate_error = translate_error
        self._wait_seconds = WAIT_SECONDS if wait_seconds is None else wait_seconds
        self._known_tenants: set[str] = set()

    @property
    def views(self) -> Views:
        """Return no views: an engine that has some overrides this."""
        return NoViews()

    def read(
        self, tenant: str, work: Work[T], *, long: bool = False, allow_replica: bool = False
    ) -> T:
        return self._run_with_retries(tenant, work, writes=False, idempotent=True, long=long)

    def write(
        self,
        tenant: str,
        work: Work[T],
        *,
        idempotent: bool = False,
        frees_space: bool = False,
        long: bool = False,
    ) -> T:
        def with_tenant(tx: Transaction) -> T:
            if tenant not in self._known_tenants and tenant != EVERY_TENANT:
                tx.send(
                    "insert into tenants (tenant, created_at) values (:tenant, :now) on conflict do nothing"
                )
            return work(tx)

        result = self._run_with_retries(
            tenant, with_tenant, writes=True, idempotent=idempotent, long=long
        )
        self._known_tenants.add(tenant)
        return result

    def _run_with_retries(
        self, tenant: str, work: Work[T], *, writes: bool, idempotent: bool, long: bool
    ) -> T:
        """Retry after lost connections and deadlocks.

        A write in doubt is retried only if it is idempotent.
        """
        forbid_in_transaction(self)
        deadline = time.monotonic() + self._wait_seconds
        pause = 0.01
        in_doubt = False
        while True:
            try:
                return self._run_once(tenant, work, writes=writes, idempotent=idempotent, long=long)
            except TransientFailure as failure:
                in_doubt = in_doubt or failure.committing
                is_late = time.monotonic() > deadline
                if in_doubt and (not idempotent or is_late):
                    raise InDoubt(problem=failure) from failure.cause
                if is_late:
                    raise self._translate_error(failure.cause) from failure.cause
            except StorageError as error:
                if in_doubt:
                    raise InDoubt(problem=error) from error
                raise
            except ValueError as error:
                raise_damage(self, tenant, error)
            time.sleep(random.uniform(0, pause))
            pause = min(pause * 2, MAX_PAUSE_SECONDS)

    def _run_once(
        self, tenant: str, work: Work[T], *, writes: bool, idempotent: bool, long: bool
    ) -> T:
        """Run work in a transaction; raise `TransientFailure` if a retry may succeed."""
        raise NotImplementedError

    def tenants(self) -> list[str]:
        sql = "select tenant from tenants order by tenant"
        return [tenant for (tenant,) in self.read(EVERY_TENANT, lambda tx: tx.unscoped(sql))]

    def distribute(self) -> str:
        return ""

    def check_replica(self) -> Finding | None:
        """Return None: there are no replicas."""
        return None

    def compact(self, *, emergency: bool = False) -> bool:
        """Do nothing: the server reuses the space, and deleted rows stay until then."""
        return False

    def after_fork(self) -> list[object]:
        """Forget the connections of the parent process, and return them."""
        raise NotImplementedError


OPEN: weakref.WeakSet[ServerDatabase] = weakref.WeakSet()
_ABANDONED: list[object] = []


def _after_fork() -> None:
    for database in list(OPEN):
        _ABANDONED.extend(database.after_fork())


os.register_at_fork(after_in_child=_after_fork)
