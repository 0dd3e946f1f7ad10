"""Check tool calls and results of a context against the rules of providers."""

from __future__ import annotations

from memorist.context.assemble import Context


def assert_paired(context: Context) -> None:
    """P8: the rules of providers for calls and results."""
    waiting: set[str] = set()
    for message in context.messages:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting
            waiting = {call["id"] for call in message.get("tool_calls", ())}
    assert not waiting
