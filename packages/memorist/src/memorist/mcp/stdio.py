"""MCP over standard input and output, for one client.

A client may first ask which protocol revisions the server supports (`server/discover`), and fall
back to an older revision if there is no answer within a second. The process takes about as long to
start. So `server/discover` does not fix the revision here: the first request after it does.
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
        forward, forwarded = anyio.create_memory_object_stream[Frame](0)
        tasks.start_soon(_relay, server, read, write, forward)
        await server.run(forwarded, write, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _relay(
    server: Server[Any], read: Any, write: Any, forward: MemoryObjectSendStream[Frame]
) -> None:
    """Forward messages; answer `server/discover` separately if it comes before all other requests."""
    has_started = False
    async with forward:
        async for frame in read:
            request = frame.message if isinstance(frame, SessionMessage) else None
            if (
                not has_started
                and isinstance(request, JSONRPCRequest)
                and request.method == "server/discover"
            ):
                await _answer(server, frame, write)
                continue
            has_started = has_started or isinstance(request, JSONRPCRequest)
            await forward.send(frame)


async def _answer(server: Server[Any], frame: Frame, write: Any) -> None:
    """Answer one request as if it came over a separate connection."""
    requests, incoming = anyio.create_memory_object_stream[Frame](1)
    responses, outgoing = anyio.create_memory_object_stream[SessionMessage](1)
    async with requests, outgoing, anyio.create_task_group() as tasks:
        tasks.start_soon(server.run, incoming, responses, server.create_initialization_options())
        await requests.send(frame)
        await write.send(await outgoing.receive())
        tasks.cancel_scope.cancel()
