"""Other messages as OpenAI items: the closest equivalent. Its own items are tested with its
adapter.
"""

from __future__ import annotations

from typing import Any

import pytest

from memorist import Memory
from memorist_frameworks.formats.openai import from_message

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
def test_tool_output_in_every_shape(content: Any, output: str) -> None:
    with Memory.open("memory:") as memory:
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        message = me.messages.append(me.sessions.add("s").id, "tool", content)
        assert from_message(message) == [
            {"type": "function_call_output", "call_id": "c", "output": output}
        ]
