"""Lifespan of the app: parts that start with the server and stop in reverse order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette

Part = Callable[[], AbstractAsyncContextManager[object]]


def register(app: Starlette, part: Part) -> None:
    """Register a context manager to enter when the server starts and to leave when it stops."""
    app.state.parts = (*getattr(app.state, "parts", ()), part)


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Run all registered parts while the app runs."""
    async with AsyncExitStack() as stack:
        for part in getattr(app.state, "parts", ()):
            await stack.enter_async_context(part())
        yield
