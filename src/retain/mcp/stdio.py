"""MCP over standard input and output, for one client.

A client may ask first which revisions there are, wait a second, and begin with an older one where no answer came: a process
takes about as long to start. So that question decides nothing here; the first request after it does.
"""

from __future__ import annotations

from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

Frame = SessionMessage | Exception


async def serve(server: Server[Any]) -> None:
    """Serve until the input ends."""
    async with stdio_server() as (read, write), anyio.create_task_group() as tasks:
        onward, rest = anyio.create_memory_object_stream[Frame](0)
        tasks.start_soon(_relay, server, read, write, onward)
        await server.run(rest, write, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _relay(
    server: Server[Any], read: Any, write: Any, onward: MemoryObjectSendStream[Frame]
) -> None:
    """Hand on what comes, but for questions about revisions before anything else is asked."""
    begun = False
    async with onward:
        async for frame in read:
            request = frame.message if isinstance(frame, SessionMessage) else None
            if (
                not begun
                and isinstance(request, JSONRPCRequest)
                and request.method == "server/discover"
            ):
                await _answer(server, frame, write)
                continue
            begun = begun or isinstance(request, JSONRPCRequest)
            await onward.send(frame)


async def _answer(server: Server[Any], frame: Frame, write: Any) -> None:
    """Answer one request as a connection of its own."""
    asks, asked = anyio.create_memory_object_stream[Frame](1)
    answers, answered = anyio.create_memory_object_stream[SessionMessage](1)
    async with asks, answered, anyio.create_task_group() as tasks:
        tasks.start_soon(server.run, asked, answers, server.create_initialization_options())
        await asks.send(frame)
        await write.send(await answered.receive())
        tasks.cancel_scope.cancel()
