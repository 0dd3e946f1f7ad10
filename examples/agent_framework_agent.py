"""A Microsoft Agent Framework agent that remembers between runs.

`pip install '/path/to/this/clone[agent-framework]'`, then run this twice.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, FunctionInvocationLayer, Message

from retain import Memory
from retain.integrations.agent_framework import RetainContextProvider, RetainHistoryProvider


class Model(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Stands in for a real model: it answers with the line of what it is told that has a name in it."""

    async def _inner_get_response(
        self,
        *,
        messages: Sequence[Message],
        stream: bool,
        options: Mapping[str, Any],
        **kwargs: Any,
    ) -> ChatResponse:
        told = "\n".join(message.text for message in messages)
        found = [line for line in told.splitlines() if "my name is" in line]
        return ChatResponse(messages=[Message("assistant", [found[0] if found else "nothing"])])


async def main(memory: Memory) -> None:
    """One run, in a session of its own: one provider keeps the conversation, the other tells what else is remembered."""
    scope = memory.scope(user="ada", agent="scout")
    agent = Agent(
        Model(), context_providers=[RetainHistoryProvider(scope), RetainContextProvider(scope)]
    )
    session = agent.create_session()

    answer = await agent.run("What is my name?", session=session)
    print(f"remembered: {answer.text}")
    if answer.text == "nothing":
        await agent.run("Hello, my name is Ada.", session=session)


if __name__ == "__main__":
    with Memory.open(os.environ.get("RETAIN_DATABASE", "sqlite:///retain.db")) as memory:
        asyncio.run(main(memory))
