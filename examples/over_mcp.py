"""An MCP client that keeps its memory in memorist: it starts `memorist mcp` and calls two of its tools.

`pip install 'memorist[mcp]'`, then run this twice.
"""

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

COMMAND = ["-m", "memorist.cli.main", "mcp", "--user", "ada", "--agent", "scout"]


async def main(database: str) -> None:
    """Search the memory, then add to it."""
    server = StdioServerParameters(
        command=sys.executable, args=[*COMMAND, "--database", database], env=dict(os.environ)
    )
    async with Client(stdio_client(server, errlog=sys.__stderr__)) as client:
        print("tools:", ", ".join(sorted(tool.name for tool in (await client.list_tools()).tools)))
        result = await client.call_tool("search_memory", {"query": "what does Ada drink"})
        text = result.content[0].text
        print(f"remembered: {text if 'tea' in text else 'nothing'}".replace("\n", " "))
        await client.call_tool("save_to_core", {"content": "Ada drinks green tea."})


if __name__ == "__main__":
    asyncio.run(main(os.environ.get("MEMORIST_DATABASE", "sqlite:///memorist.db")))
