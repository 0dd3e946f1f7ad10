"""A Microsoft Agent Framework agent that remembers between runs.

`pip install 'memorist[agent-framework]'`, then run this twice.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, FunctionInvocationLayer, Message

from memorist import Memory
from memorist_frameworks.agent_framework import MemoristContextProvider, MemoristHistoryProvider


class Model(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """A stand-in for a real model: it answers with a line of its prompt that contains a name."""

    async def _inner_get_response(
        self,
        *,
        messages: Sequence[Message],
        stream: bool,
        options: Mapping[str, Any],
        **kwargs: Any,
    ) -> ChatResponse:
        prompt = "\n".join(message.text for message in messages)
        lines = [line for line in prompt.splitlines() if "my name is" in line]
        return ChatResponse(messages=[Message("assistant", [lines[0] if lines else "nothing"])])


async def main(memory: Memory) -> None:
    """Run an agent once, in a new session.

    The history provider stores the conversation; the context provider adds what else is remembered.
    """
    scope = memory.scope(user="ada", agent="scout")
    agent = Agent(
        Model(), context_providers=[MemoristHistoryProvider(scope), MemoristContextProvider(scope)]
    )
    session = agent.create_session()

    answer = await agent.run("What is my name?", session=session)
    print(f"remembered: {answer.text}")
    if answer.text == "nothing":
        await agent.run("Hello, my name is Ada.", session=session)


if __name__ == "__main__":
    with Memory.open(os.environ.get("MEMORIST_DATABASE", "sqlite:///memorist.db")) as memory:
        asyncio.run(main(memory))
