"""An agent of the OpenAI Agents SDK whose session persists between runs.

`pip install 'memorist[openai-agents]'`, then run this twice.

A small class stands in for the model, so no API key is needed. The first run tells the agent a name;
the second run, in a new process, knows it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from memorist import Memory
from memorist_frameworks.openai_agents import MemoristSession


class Script(Model):
    """A model that repeats earlier messages."""

    async def get_response(
        self, system_instructions: str | None, input: Any, *_: Any, **__: Any
    ) -> ModelResponse:
        """Answer with all user messages before the last one."""
        before = [str(item["content"]) for item in input[:-1] if item.get("role") == "user"]
        text = ResponseOutputText(
            type="output_text", text=" ".join(before) or "nothing", annotations=[]
        )
        message = ResponseOutputMessage(
            id="msg", type="message", role="assistant", status="completed", content=[text]
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Raise an error: this example does not stream."""
        raise NotImplementedError


with Memory.open(os.environ.get("MEMORIST_DATABASE", "sqlite:///memorist.db")) as memory:
    session = MemoristSession(memory.scope(user="ada", agent="scout"), "openai-agents")
    agent = Agent(name="scout", model=Script())  # with an API key: Agent(name="scout")
    quiet = RunConfig(tracing_disabled=True)
    answer = Runner.run_sync(
        agent, "I am called Ada. What do you know about me?", session=session, run_config=quiet
    )
    print("remembered:", answer.final_output)
