"""A database that fails when a test asks for it.

    faults = FaultyDatabase(memory.database)
    faults.fail("write", Full(problem="a test"), at=3)       # the third write from now fails
    faults.kill("commit")                                    # the next commit loses its connection
    faults.kill("commit", committed=True)                    # … after the server has committed
    faults.delay("read", 0.5, times=10)                      # ten slow reads
    faults.wrap(wrapper)                                     # run each transaction in a function
    faults.heal()                                            # no more faults

Everything else is the real database: a write that fails is rolled back by the engine itself.
`with_faults` opens a `Memory` over such a database; it is then `memory.database`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from memorist.base.errors import InDoubt, MemoristError, Unreachable
from memorist.memory import Memory
from memorist.storage.contents.blobs import Blobs
from memorist.storage.database import (
    Database,
    Finding,
    Progress,
    Rewritten,
    SampledTable,
    Step,
    Transaction,
    Work,
)
from memorist.storage.design_views import Views
from memorist.storage.writer import Writer

T = TypeVar("T")
Operation = Literal["read", "write", "commit"]
Wrapper = Callable[[Transaction, Work[Any]], Any]
"""Called with a transaction and its work; calls `work(tx)` and returns the result."""


@dataclass
class _Fault:
    operation: Operation
    skip: int  # operations that still succeed before the fault
    times: int | None  # operations that still fail; None: all
    seconds: float = 0.0
    error: BaseException | None = None
    committed: bool = False


class FaultyDatabase:
    """A real database with faults that a test adds; `calls` counts its operations."""

    def __init__(self, database: Database) -> None:
        self.name = database.name
        self.dialect = database.dialect
        self.runs_on_server = database.runs_on_server
        self.is_cluster = database.is_cluster
        self.checked_tables = database.checked_tables
        self.remnants = database.remnants
        self.calls: dict[Operation, int] = {"read": 0, "write": 0, "commit": 0}
        self._database = database
        self._faults: list[_Fault] = []
        self._wrapper: Wrapper | None = None

    # -- the script ------------------------------------------------------------------------

    def fail(
        self,
        operation: Operation,
        error: BaseException,
        *,
        at: int = 1,
        times: int | None = 1,
        committed: bool = False,
    ) -> None:
        """Raise an error at the n-th operation from now, and at the operations after it.

        operation: `read` and `write` fail before any statement runs; `commit` fails after the
                   statements of a write, which are rolled back, or kept if `committed`
        times:     how many operations fail; None: all until `heal`
        """
        self._faults.append(_Fault(operation, at - 1, times, error=error, committed=committed))

    def kill(
        self, operation: Operation, *, at: int = 1, times: int | None = 1, committed: bool = False
    ) -> None:
        """Fail like a connection that was closed: `Unreachable`, or `InDoubt` during a commit."""
        problem = "the connection was closed by a test"
        error = InDoubt(problem=problem) if operation == "commit" else Unreachable(problem=problem)
        self.fail(operation, error, at=at, times=times, committed=committed)

    def delay(
        self, operation: Operation, seconds: float, *, at: int = 1, times: int | None = 1
    ) -> None:
        """Wait before the n-th operation from now, and before the operations after it."""
        self._faults.append(_Fault(operation, at - 1, times, seconds=seconds))

    def wrap(self, wrapper: Wrapper) -> None:
        """Run the work of every transaction inside a function, to observe, hold or change it."""
        self._wrapper = wrapper

    def heal(self) -> None:
        """Remove all faults and the wrapper."""
        self._faults.clear()
        self._wrapper = None

    def _wrapped(self, work: Work[T]) -> Work[T]:
        wrapper = self._wrapper
        if wrapper is None:
            return work
        return lambda tx: wrapper(tx, work)

    def _next_fault(self, operation: Operation) -> _Fault | None:
        """Count an operation and return the fault that applies to it."""
        self.calls[operation] += 1
        for fault in self._faults:
            if fault.operation != operation:
                continue
            if fault.skip:
                fault.skip -= 1
                continue
            if fault.times is not None:
                fault.times -= 1
                if not fault.times:
                    self._faults.remove(fault)
            return fault
        return None

    # -- reads and writes ------------------------------------------------------------------

    def read(
        self, tenant: str, work: Work[T], *, long: bool = False, allow_replica: bool = False
    ) -> T:
        """Read, unless a fault applies."""
        _apply(self._next_fault("read"))
        wrapped = self._wrapped(work)
        return self._database.read(tenant, wrapped, long=long, allow_replica=allow_replica)

    def write(
        self,
        tenant: str,
        work: Work[T],
        *,
        idempotent: bool = False,
        frees_space: bool = False,
        long: bool = False,
    ) -> T:
        """Write, unless a fault applies before the write or at its commit."""
        _apply(self._next_fault("write"))
        fault = self._next_fault("commit")
        wrapped = self._wrapped(work)

        def work_and_fault(tx: Transaction) -> T:
            result = wrapped(tx)
            if fault and not fault.committed:
                _apply(fault)
            return result

        result = self._database.write(
            tenant, work_and_fault, idempotent=idempotent, frees_space=frees_space, long=long
        )
        if fault and fault.committed:
            _apply(fault)
        return result

    # -- the rest of the database ----------------------------------------------------------

    def tenants(self) -> list[str]:
        """Return the tenants of the real database; counts as a read."""
        _apply(self._next_fault("read"))
        return self._database.tenants()

    def version(self) -> int:
        """Return the version of the real database."""
        return self._database.version()

    def step(self, step: Step) -> bool:
        """Apply a migration to the real database."""
        return self._database.step(step)

    def script(self, step: Step) -> str:
        """Return the statements of a migration."""
        return self._database.script(step)

    @property
    def views(self) -> Views:
        """Return the views of the real database."""
        return self._database.views

    def distribute(self) -> str:
        """Distribute the tables of the real database."""
        return self._database.distribute()

    def health(self) -> list[Finding]:
        """Check the real database."""
        return self._database.health()

    def check_replica(self) -> Finding | None:
        """Check the replica of the real database."""
        return self._database.check_replica()

    def engine(self) -> str:
        """Describe the real database."""
        return self._database.engine()

    def estimate_rows(self, tenant: str, table: SampledTable) -> int:
        """Return the estimate of the real database."""
        return self._database.estimate_rows(tenant, table)

    def figures(self) -> dict[str, float]:
        """Return the measurements of the real database."""
        return self._database.figures()

    def backup(self, target: Path) -> None:
        """Back up the real database."""
        self._database.backup(target)

    def compact(self, *, emergency: bool = False) -> bool:
        """Compact the real database."""
        return self._database.compact(emergency=emergency)

    def plan_rewrite(self) -> str:
        """Return the plan of the real database."""
        return self._database.plan_rewrite()

    def rewrite(self, progress: Progress) -> Rewritten:
        """Rewrite the real database."""
        return self._database.rewrite(progress)

    def close(self) -> None:
        """Close the real database."""
        self._database.close()


def with_faults(memory: Memory) -> tuple[Memory, FaultyDatabase]:
    """Return the same memory over a database with faults, and that database."""
    faults = FaultyDatabase(memory.database)
    services = replace(
        memory.services,
        database=faults,
        writer=Writer(faults),
        blobs=Blobs(faults, memory.services.blobs.folder),
    )
    return Memory(services, memory.migrations), faults


def _apply(fault: _Fault | None) -> None:
    if fault is None:
        return
    if fault.seconds:
        time.sleep(fault.seconds)
    if fault.error is not None:
        raise fault.error.copy() if isinstance(fault.error, MemoristError) else fault.error
