"""Claude's memory tool with files that persist between runs.

`pip install 'memorist[anthropic]'`, then run this twice.

A function stands in for Claude, so no API key is needed. The first run finds an empty memory and
writes a file; the second run, in a new process, reads it.
"""

from __future__ import annotations

import json
import os

import anthropic
import httpx2

from memorist import Memory
from memorist_frameworks.anthropic import MemoristMemoryTool

FILE = "/memories/user.md"


def claude(request: httpx2.Request) -> httpx2.Response:
    """Answer as Claude would: call the memory tool, read its result, and reply."""
    last = json.loads(request.content)["messages"][-1]["content"]
    if isinstance(last, str):
        return reply(
            "tool_use", id="toolu_1", name="memory", input={"command": "view", "path": FILE}
        )
    result = last[0]["content"]
    if result.startswith("The path"):
        print("remembered: nothing")
        command = {"command": "create", "path": FILE, "file_text": "The user is called Ada.\n"}
        return reply("tool_use", id="toolu_2", name="memory", input=command)
    if result.startswith("Here's the content"):
        print("remembered:", result.splitlines()[1].partition("\t")[2])
    return reply("text", text="Nice to see you.")


def reply(kind: str, **block: object) -> httpx2.Response:
    """Return a response of Claude with one content block."""
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": [{"type": kind, **block}],
        "stop_reason": "tool_use" if kind == "tool_use" else "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return httpx2.Response(200, json=message)


with Memory.open(os.environ.get("MEMORIST_DATABASE", "sqlite:///memorist.db")) as memory:
    script = httpx2.Client(transport=httpx2.MockTransport(claude))
    # With an API key: client = anthropic.Anthropic()
    client = anthropic.Anthropic(api_key="none", http_client=script)
    runner = client.beta.messages.tool_runner(
        model="claude-sonnet-5-5",
        max_tokens=1024,
        messages=[{"role": "user", "content": "I am Ada. Do you know me?"}],
        tools=[MemoristMemoryTool(memory.scope(user="ada"))],
    )
    print(runner.until_done().content[0].text)
