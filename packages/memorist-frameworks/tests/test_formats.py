"""NUL and lone surrogates, which a database would change, round-trip in every framework's messages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from memorist.base import canonical, clock
from memorist.content.formats.exact import exact_copy, read_exact_copy
from memorist.content.message import Message, NewMessage
from memorist_frameworks.formats import adk, langchain, openai

ODD = "a\x00b \ud800"


def stored(new: NewMessage) -> Message:
    """Return a message as read from a database."""
    content = {"text": new.content} if isinstance(new.content, str) else new.content
    raw = canonical.dump(content, "content", 10_000)
    assert "\x00" not in raw
    at = clock.from_datetime(datetime(2026, 3, 2, tzinfo=UTC), "at")
    return Message("talk", 1, new.role, raw, new.author, 1, None, None, None, at)


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": ODD},
        {"role": "user", "content": "plain"},
        {"type": "function_call_output", "call_id": "c1", "output": ODD},
        {
            "type": "message",
            "role": "assistant",
            "id": "m1",
            "content": [{"type": "output_text", "text": ODD}],
        },
    ],
)
def test_openai_items(item: dict[str, Any]) -> None:
    message = stored(openai.to_message(item))
    assert openai.from_message(message) == [item]
    other = NewMessage("user" if message.role != "user" else "assistant", message.content)
    assert openai.from_message(stored(other)) != [item]


@pytest.mark.parametrize(
    "message",
    [
        {"type": "human", "data": {"content": ODD, "type": "human"}},
        {"type": "tool", "data": {"content": ODD, "tool_call_id": "c1", "type": "tool"}},
        {"type": "ai", "data": {"content": [{"type": "text", "text": ODD}], "id": "m1"}},
    ],
)
def test_langchain_messages(message: dict[str, Any]) -> None:
    assert langchain.from_message(stored(langchain.to_message(message))) == message


@pytest.mark.parametrize(
    "part", [{"text": ODD}, {"functionResponse": {"id": "c1", "name": "f", "response": {"r": ODD}}}]
)
def test_adk_events(part: dict[str, Any]) -> None:
    content = {"role": "user", "parts": [part]}
    event = {
        "id": "e1",
        "invocationId": "i1",
        "author": "user",
        "timestamp": 1.0,
        "content": content,
    }
    assert adk.from_message(stored(adk.to_message(event))) == event


def test_values_that_are_no_json_are_left_to_the_writer() -> None:
    assert exact_copy({"a": object()}) == {}
    assert [
        read_exact_copy(item)
        for item in (None, "item", {}, {"exact": "{"}, {"exact": "[]"}, {"exact": 1})
    ] == [None] * 6
