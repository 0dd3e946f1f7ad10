"""AsyncMemory and AsyncScope: the library for asyncio.

Every asynchronous method runs the synchronous method of the same name in a worker thread, so there
is no second copy of any logic. `aio.pyi` lists all methods with their types for editors and type
checkers; scripts/generate_aio.py writes it.

A cancelled call lets its thread finish, so its write may still happen: pass a `key` and retry.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from types import FunctionType
from typing import Any, Self

from memorist.kinds import KINDS
from memorist.kinds.tool import AsyncTool
from memorist.memory import ADMIN_KINDS, Administration, Memory, Scope

MAX_THREADS = 64


class WorkerThreads:
    """The worker threads of one memory; a call runs a function in one of them."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._pool = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="memorist")

    async def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a function in a worker thread and return its result."""
        # Imported here because asyncio takes half as long to import as all of memorist.
        import asyncio

        if self._process != os.getpid():
            self._start()  # a forked child has none of its parent's threads
        call = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    async def close(self) -> None:
        """Wait for running calls and end the threads."""
        import asyncio

        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)


class AsyncVerbs:
    """Base of the asynchronous classes: an object and the threads that run its methods."""

    def __init__(self, target: Any, threads: WorkerThreads) -> None:
        self._target = target
        self._threads = threads


def is_verb(method: Any) -> bool:
    """Return whether a class attribute is a public method that needs no open transaction."""
    return (
        isinstance(method, FunctionType)
        and not method.__name__.startswith("_")
        and method.__name__ != "tools"
        and "tx" not in method.__code__.co_varnames[: method.__code__.co_argcount]
    )


def async_class(cls: type) -> Any:
    """Return a class with the verbs of `cls` as coroutines."""
    verbs = {name: _coroutine(method) for name, method in vars(cls).items() if is_verb(method)}
    return type(f"Async{cls.__name__}", (AsyncVerbs,), {"__doc__": cls.__doc__, **verbs})


def _coroutine(method: FunctionType) -> Callable[..., Any]:
    @wraps(method)
    async def call(self: AsyncVerbs, *args: Any, **kwargs: Any) -> Any:
        return await self._threads(getattr(self._target, method.__name__), *args, **kwargs)

    return call


ASYNC_KINDS = {kind.name: async_class(kind) for kind in KINDS}


ASYNC_ADMIN_KINDS = {kind.name: async_class(kind) for kind in ADMIN_KINDS}


class AsyncAdministration:
    """The administration of one tenant, whose kinds have coroutines as verbs."""

    def __init__(self, administration: Administration, threads: WorkerThreads) -> None:
        for name, kind in ASYNC_ADMIN_KINDS.items():
            setattr(self, name, kind(getattr(administration, name), threads))


class AsyncAdminAttributes:
    """The administration of a database's own tenant, each kind as an attribute."""

    def __init__(self, administration: Administration, threads: WorkerThreads) -> None:
        self.admin = AsyncAdministration(administration, threads)
        for name, kind in vars(self.admin).items():
            setattr(self, name, kind)


class AsyncScope(async_class(Scope)):
    """A scope whose kinds have coroutines as verbs."""

    def __init__(self, scope: Scope, threads: WorkerThreads) -> None:
        super().__init__(scope, threads)
        self.owner = scope.owner
        for name, kind in ASYNC_KINDS.items():
            setattr(self, name, kind(getattr(scope, name), threads))

    @property
    def admin(self) -> AsyncAdministration:
        """The administration of the tenant."""
        return AsyncAdministration(self._target.admin, self._threads)

    def tools(
        self, names: Sequence[str] | None = None, *, session: str | None = None
    ) -> list[AsyncTool]:
        """Return the memory tools for a model, or only those named."""
        tools = self._target.tools(names, session=session)
        return [AsyncTool(tool, self._threads) for tool in tools]


class AsyncMemory(async_class(Memory), AsyncAdminAttributes):
    """One database of memories, for asyncio."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory, WorkerThreads())
        AsyncAdminAttributes.__init__(self, memory.admin, self._threads)
        self.sync = memory

    @classmethod
    async def open(cls, database: str | None = None, **options: Any) -> Self:
        """Open a database by its URL, or the one in the settings, and migrate its schema."""
        import asyncio

        call = partial(Memory.open, database, **options)
        return cls(await asyncio.get_running_loop().run_in_executor(None, call))

    def scope(self, **owner: Any) -> AsyncScope:
        """Return the memory of a tenant, or of one user or one agent in it."""
        return AsyncScope(self.sync.scope(**owner), self._threads)

    async def close(self) -> None:
        """Wait for running calls and close the database."""
        await self._threads.close()
        self.sync.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
