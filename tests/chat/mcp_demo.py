"""An MCP server for the tests, started as a process or served over HTTP."""

from __future__ import annotations

import asyncio
import os

from mcp.server.mcpserver import MCPServer

server = MCPServer("demo")


@server.tool()
def count_lines(text: str) -> int:
    """Count the lines of a text."""
    return len(text.splitlines())


@server.tool("read.file")
def read_with_dot() -> str:
    """Return which of two tools with similar names this is."""
    return "read.file"


@server.tool("read_file")
def read_with_underscore() -> str:
    """Return which of two tools with similar names this is."""
    return "read_file"


@server.tool(f"{'very_' * 13}long_name_1")
def first_long_name() -> str:
    """Return which of two tools with long names this is."""
    return "the first"


@server.tool(f"{'very_' * 13}long_name_2")
def second_long_name() -> str:
    """Return which of two tools with long names this is."""
    return "the second"


@server.tool()
def report() -> str:
    """Return a long report."""
    return "\n".join(f"line {number} of the report" for number in range(2000))


@server.tool()
def broken() -> str:
    """Fail."""
    raise ValueError("no such report")


@server.tool()
def crash() -> str:
    """End the process."""
    os._exit(3)


@server.tool()
async def wait(seconds: float) -> str:
    """Wait for some seconds, or until the call is cancelled."""
    await asyncio.sleep(seconds)
    return "done"


@server.tool()
def variable(name: str) -> str:
    """Return a variable of the environment."""
    return os.environ.get(name, "")


if __name__ == "__main__":
    server.run("stdio")
