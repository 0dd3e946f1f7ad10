"""What lives as long as the server runs: each part says what it starts, and all of it is stopped in the opposite order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from fastapi import FastAPI

Part = Callable[[], AbstractAsyncContextManager[object]]


def during(app: FastAPI, part: Part) -> None:
    """Enter this when the server starts, after what was said before, and leave it when the server stops."""
    app.state.parts = (*getattr(app.state, "parts", ()), part)


@asynccontextmanager
async def life(app: FastAPI) -> AsyncIterator[None]:
    """The whole of a server's life, for the framework."""
    async with AsyncExitStack() as stack:
        for part in getattr(app.state, "parts", ()):
            await stack.enter_async_context(part())
        yield
