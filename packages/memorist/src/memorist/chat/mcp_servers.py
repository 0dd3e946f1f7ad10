"""The MCP servers of one turn: connected when the turn first needs them, closed when it ends.

A turn has its own connections, and its own processes, so that a server's state cannot leak from
one user to another. The list of a server's tools is cached, so that a turn that does not use a
server does not start it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from memorist.base import http, limits
from memorist.base.errors import install_hint
from memorist.kinds.extra_tools import MAX_NAME_CHARACTERS, ExtraTool, McpServer, ToolFailure

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal
    from mcp import Client

LIST_SECONDS = 300.0
"""The time for which the list of a server's tools is cached."""
RETRY_SECONDS = 30.0
"""The time before a failed server is tried again."""
CLOSE_SECONDS = 10.0
"""The time for a server to stop."""
MAX_TOOLS = 128
"""The maximum number of tools of one server."""
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]")
_log = logging.getLogger("memorist.chat")


@dataclass(frozen=True)
class _CachedTools:
    """The tools of a server as it described them, or the reason why they could not be listed."""

    until: float
    tools: Sequence[Any] = ()
    problem: str = ""


_cached_tools: WeakKeyDictionary[McpServer, _CachedTools] = WeakKeyDictionary()
_lock = Lock()


class McpConnections:
    """Connections to MCP servers, for one turn."""

    def __init__(self, time_left: Callable[[], float]) -> None:
        self._time_left = time_left
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._clients: dict[str, Client] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._stack.close()
        except Exception:  # the turn is over; a server that fails to stop must not fail it
            _log.exception("Closing an MCP server failed.")

    def tools(self, server: McpServer) -> list[ExtraTool]:
        """Return the tools of a server. Raise ToolFailure if they cannot be listed."""
        with _lock:
            cached = _cached_tools.get(server)
        if cached is None or cached.until < time.monotonic():
            try:
                descriptions = self._call(server, _list_tools)
                cached = _CachedTools(time.monotonic() + LIST_SECONDS, descriptions)
            except ToolFailure as failure:
                cached = _CachedTools(time.monotonic() + RETRY_SECONDS, problem=str(failure))
            with _lock:
                _cached_tools[server] = cached
        if cached.problem:
            raise ToolFailure(cached.problem)
        tools: dict[str, ExtraTool] = {}
        for tool in cached.tools:
            name = _unused_name(f"{server.name}__{tool.name}", tools)
            tools[name] = self._tool(server, tool, name)
        return list(tools.values())

    def _tool(self, server: McpServer, tool: Any, name: str) -> ExtraTool:
        reads = bool(tool.annotations and tool.annotations.read_only_hint)

        def run(arguments: Mapping[str, Any]) -> Any:
            result = self._call(server, partial(_call_tool, name=tool.name, arguments=arguments))
            text = _result_text(result)
            if result.is_error:
                raise ToolFailure(text)
            return text

        return ExtraTool(
            name,
            tool.description or tool.title or tool.name,
            tool.input_schema,
            run,
            effect="read" if reads else "write",
        )

    def _call(self, server: McpServer, work: Callable[[Any], Any]) -> Any:
        """Connect to a server if necessary, and run `work` with its client, within the limit."""
        seconds = min(limits.TOOL_SECONDS, max(0.1, self._time_left()))
        try:
            client = self._client(server, seconds)
            assert self._portal is not None
            return self._portal.call(_within, seconds, work, client)
        except ToolFailure:
            raise
        except TimeoutError:
            problem = f"The MCP server {server.name} did not answer within {seconds:.3g} s."
            raise ToolFailure(problem) from None
        except Exception as error:  # the libraries raise many types, and exception groups
            reason = _reason(error)
            _log.warning("MCP server %s: %s", server.name, reason)
            raise ToolFailure(f"The MCP server {server.name} failed: {reason}") from error

    def _client(self, server: McpServer, seconds: float) -> Client:
        if server.name in self._clients:
            return self._clients[server.name]
        try:
            import mcp  # noqa: F401
            from anyio.from_thread import start_blocking_portal
        except ImportError as error:
            problem = f"requires the extra `mcp` ({error.name} is missing); {install_hint('mcp')}"
            raise ToolFailure(f"The MCP server {server.name} {problem}.") from error
        if self._portal is None:
            self._portal = self._stack.enter_context(start_blocking_portal())
        connection = self._portal.wrap_async_context_manager(_connect(server, seconds))
        client: Client = self._stack.enter_context(connection)
        self._clients[server.name] = client
        return client


def _unused_name(name: str, used: Collection[str]) -> str:
    """Return a name that models accept. Names that become equal are numbered: `a_b`, `a_b_2`."""
    name = _NOT_ALLOWED.sub("_", name)
    unused = name[:MAX_NAME_CHARACTERS]
    number = 1
    while unused in used:
        number += 1
        suffix = f"_{number}"
        unused = name[: MAX_NAME_CHARACTERS - len(suffix)] + suffix
    return unused


@asynccontextmanager
async def _connect(server: McpServer, seconds: float) -> AsyncIterator[Client]:
    """Start a server's process or open its address."""
    import anyio
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    with anyio.fail_after(seconds) as time_limit:
        async with AsyncExitStack() as stack:
            transport: Any
            if server.command:
                parameters = StdioServerParameters(
                    command=server.command,
                    args=list(server.args),
                    env=dict(server.env),
                    cwd=server.cwd,
                )
                errors = stack.enter_context(Path(os.devnull).open("w"))  # noqa: SIM115
                transport = stdio_client(parameters, errlog=errors)
            else:
                client = http.async_client(
                    headers=dict(server.headers), timeout=limits.TOOL_SECONDS
                )
                await stack.enter_async_context(client)
                transport = streamable_http_client(server.url, http_client=client)
            connected = await stack.enter_async_context(Client(transport))
            time_limit.deadline = float("inf")
            yield connected
            time_limit.deadline = anyio.current_time() + CLOSE_SECONDS


async def _within(seconds: float, work: Callable[[Any], Any], client: Any) -> Any:
    import anyio

    with anyio.fail_after(seconds):
        return await work(client)


async def _list_tools(client: Any) -> list[Any]:
    tools: list[Any] = []
    cursor = None
    while len(tools) < MAX_TOOLS:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools[:MAX_TOOLS]


async def _call_tool(client: Any, *, name: str, arguments: Mapping[str, Any]) -> Any:
    return await client.call_tool(name, dict(arguments))


def _result_text(result: Any) -> str:
    """Return a result as text; name parts that are not text."""
    parts = []
    for block in result.content:
        resource = getattr(block, "resource", None)
        text = getattr(block, "text", None) or getattr(resource, "text", None)
        if text is None:
            kind = getattr(block, "mime_type", None) or getattr(resource, "mime_type", None)
            address = getattr(block, "uri", None) or getattr(resource, "uri", None)
            text = f"[{block.type} {kind or ''} {address or ''}".rstrip() + ": not shown]"
        parts.append(text)
    if not parts and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(parts)


def _reason(error: BaseException) -> str:
    """Return the reason of an error, or of the first one in a group, without addresses and keys."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    code = getattr(error, "code", None)  # an error of the MCP protocol; its text is for clients
    return str(error) if code is not None else type(error).__name__
