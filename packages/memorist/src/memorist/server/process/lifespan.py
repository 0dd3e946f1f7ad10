"""Lifespan of the app: parts that start with the server and stop in reverse order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette

Part = Callable[[], AbstractAsyncContextManager[object]]
"""Returns a context manager to enter when the server starts and to leave when it stops."""


def lifespan(parts: Sequence[Part]) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """Return the lifespan of an app with these parts."""

    @asynccontextmanager
    async def run(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for part in parts:
                await stack.enter_async_context(part())
            yield

    return run
