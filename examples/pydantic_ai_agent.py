"""A Pydantic AI agent that remembers between runs.

`pip install 'memorist[pydantic-ai]'`, then run this twice.
"""

import asyncio
import os

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from memorist import Memory
from memorist_frameworks.pydantic_ai import MemoristConversationStore, MemoristMemory


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Answer as a model that stores a name with a tool, and replies with a line that contains it."""
    parts = [part for message in messages for part in message.parts]
    if "I am" in str(parts[-1].content):
        return ModelResponse(
            parts=[ToolCallPart("save_to_core", {"content": "The user is called Ada."})]
        )
    if isinstance(parts[-1], ToolReturnPart):
        return ModelResponse(parts=[TextPart("Noted.")])
    prompt = "\n".join(part.content for part in parts if isinstance(part, SystemPromptPart))
    lines = [line for line in prompt.splitlines() if "called" in line]
    return ModelResponse(parts=[TextPart(lines[0] if lines else "nothing")])


async def main(memory: Memory) -> None:
    """Run an agent once. The store saves the conversation; the capability adds memory and tools."""
    scope = memory.scope(user="ada", agent="scout")
    store = MemoristConversationStore(scope)
    agent = Agent(FunctionModel(answer), capabilities=[MemoristMemory(scope, save=False)])

    result = await agent.run("Who is the user?")
    await store.save(result)
    print(f"remembered: {result.output}")
    if result.output == "nothing":
        result = await agent.run("I am Ada.", conversation=result.conversation)
        await store.save(result)


if __name__ == "__main__":
    with Memory.open(os.environ.get("MEMORIST_DATABASE", "sqlite:///memorist.db")) as memory:
        asyncio.run(main(memory))
