"""Items of a conversation in the format of OpenAI, one of each type."""

from __future__ import annotations

from typing import Any

ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "Where does my sister live?"},
    {"role": "developer", "content": "Answer briefly."},
    {
        "role": "user",
        "content": [
            {"type": "input_image", "image_url": "data:image/png;base64,aa", "detail": "low"}
        ],
    },
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "x",
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "look",
        "arguments": '{"for": "sister"}',
    },
    {
        "type": "function_call_output",
        "call_id": "c1",
        "output": [{"type": "input_text", "text": "In Lisbon."}],
    },
    {
        "type": "computer_call",
        "call_id": "c2",
        "action": {"type": "screenshot"},
        "pending_safety_checks": [],
    },
    {
        "type": "computer_call_output",
        "call_id": "c2",
        "output": {"type": "computer_screenshot", "image_url": "data:x"},
    },
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [
            {"type": "output_text", "text": "In Lisbon.", "annotations": [], "logprobs": []}
        ],
    },
    {
        "type": "from the future",
        "content": {"role": "system", "n": [1.5, None, True, 10**15]},
        "parts": ["é\U0001f600"],
    },
    {"role": "critic", "content": "Too long."},
    {"role": "tool", "content": "42", "tool_call_id": "c3"},
    {"role": "user", "content": ""},
    {"role": "user", "content": None, "openai": "item"},
    {},
]
