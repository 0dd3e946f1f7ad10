"""A Google ADK agent that remembers between runs.

`pip install 'memorist[adk]'`, then run this twice.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools import preload_memory
from google.genai.types import Content, Part

from memorist import Memory
from memorist_frameworks.adk import MemoristMemoryService, MemoristSessionService


class Model(BaseLlm):
    """A stand-in for a real model: it answers with a line of its memory that contains a name."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the answer to a request."""
        prompt = "\n".join(
            part.text or "" for content in llm_request.contents for part in content.parts or []
        )
        _, _, memory = prompt.partition("<PAST_CONVERSATIONS>")
        lines = [line for line in memory.splitlines() if "my name is" in line]
        yield LlmResponse(
            content=Content(role="model", parts=[Part(text=lines[0] if lines else "nothing")])
        )


async def main(memory: Memory) -> None:
    """Run an agent once, in a new session."""
    scope = memory.scope()
    runner = Runner(
        app_name="assistant",
        agent=LlmAgent(name="scout", model=Model(model="a-model"), tools=[preload_memory]),
        session_service=MemoristSessionService(scope),
        memory_service=MemoristMemoryService(scope),
        auto_create_session=True,
    )
    session = f"run {time.time()}"

    async def say(text: str) -> str:
        message = Content(role="user", parts=[Part(text=text)])
        events = [
            event
            async for event in runner.run_async(
                user_id="ada", session_id=session, new_message=message
            )
        ]
        return str(events[-1].content.parts[0].text)

    answer = await say("What is my name?")
    print(f"remembered: {answer}")
    if answer == "nothing":
        await say("Hello, my name is Ada.")


if __name__ == "__main__":
    with Memory.open(os.environ.get("MEMORIST_DATABASE", "sqlite:///memorist.db")) as memory:
        asyncio.run(main(memory))
