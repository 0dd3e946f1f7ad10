"""Messages of others as OpenAI's items: what comes nearest; that its own come back whole is told by its adapter's tests."""

from __future__ import annotations

from typing import Any

import pytest

from retain import Memory
from retain.messages.formats.openai import from_message

TEXT = {"type": "text", "text": "hi"}


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ({"text": "hi", "tool_call_id": "c"}, "hi"),
        ({"parts": [TEXT], "tool_call_id": "c"}, "hi"),
        ({"parts": [{**TEXT, "type": "output_text"}], "tool_call_id": "c"}, "hi"),
        ({"parts": [{"type": "tool_result", "tool_use_id": "c", "content": [TEXT]}]}, "hi"),
        ({"parts": [], "tool_call_id": "c"}, ""),
    ],
)
def test_what_a_tool_answered_is_told_whatever_it_is_in(content: Any, output: str) -> None:
    with Memory.open("memory:") as memory:
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        message = me.messages.append(me.sessions.add("s").id, "tool", content)
        assert from_message(message) == [
            {"type": "function_call_output", "call_id": "c", "output": output}
        ]
