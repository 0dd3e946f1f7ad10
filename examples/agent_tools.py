"""An agent with its own tools: a Python function, and an MCP server that this file starts.

`pip install 'memorist[mcp,models]'`, then run this twice. A script stands in for the model.
"""

import os
import sys
from pathlib import Path

from memorist import Memory, Settings
from memorist.chat import turn
from memorist.chat.turn import TurnInput
from memorist.models import Models
from memorist.testing import ScriptedModel, calling


def find_user(email: str) -> dict[str, str]:
    """Return the name of the user with an e-mail address."""
    return {"email": email, "name": "Ada"}


def serve() -> None:
    """Run an MCP server with one tool; its result is too long for a prompt."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("shop")

    @server.tool()
    def list_orders(name: str) -> str:
        """List all orders of a customer."""
        return "\n".join(f"Order {number} of {name}: a teapot" for number in range(1, 1001))

    server.run("stdio")


def main(database: str) -> None:
    """Run one turn in which the model calls both tools."""
    settings = Settings(
        database=database,
        mcp_servers={"shop": {"command": sys.executable, "args": [str(Path(__file__)), "serve"]}},
    )
    model = ScriptedModel(
        calling(("find_user", {"email": "ada@example.org"})),
        calling(("shop__list_orders", {"name": "Ada"})),
        "Ada has 1,000 orders.",
    )
    with Memory.open(
        settings=settings, models=Models(settings, main=model), tools=[find_user]
    ) as memory:
        me = memory.scope(user="ada", agent="clerk")
        if "clerk" not in [agent.name for agent in me.agents.list()]:
            me.agents.add("clerk", tools=["find_user", "shop"])
        session = me.sessions.resume()
        earlier = me.messages.window(session.id, last=1)
        print(f"remembered: {earlier[0].text if earlier else 'nothing'}")
        turn.run_turn(me, session.id, TurnInput("How many orders does ada@example.org have?"))
        for message in me.messages.window(session.id, last=5):
            print(f"{message.role}: {message.text}")


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        main(os.environ.get("MEMORIST_DATABASE", "sqlite:///memorist.db"))
