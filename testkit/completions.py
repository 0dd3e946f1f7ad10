"""Chat completions in OpenAI's protocol: whole, streamed, or deliberately broken."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from memorist.content.pairing import ToolCall
from memorist.testing.models import ModelRequest, pieces


@dataclass(frozen=True)
class ServiceAnswer:
    """An answer of a service, cut at `max_tokens` if it is `limited`; tokens are words."""

    request: ModelRequest
    text: str
    calls: Sequence[ToolCall]
    model: str
    limited: bool = True

    def whole(self, how: str = "") -> bytes:
        """Return the answer as one JSON object."""
        message: dict[str, Any] = {"role": "assistant", "content": self._text}
        if self.calls:
            message["tool_calls"] = [_call(call) for call in self.calls]
        choices = [{"index": 0, "message": message, "finish_reason": self._finish}]
        if how == "stream-error":
            return json.dumps({"error": {"message": "the service failed"}}).encode()
        answer = {
            **self._frame("chat.completion"),
            "choices": [] if how == "wrong-count" else choices,
            "usage": self._usage,
        }
        return json.dumps(answer).encode()

    def streamed(self, how: str = "") -> bytes:
        """Return the answer as server-sent events: words, fragments of calls, finish reason, usage."""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": piece} for piece in pieces(self._text)]
        for index, call in enumerate(self.calls):
            first_fragment = _call(call) | {"function": {"name": call.name, "arguments": ""}}
            deltas.append({"tool_calls": [{"index": index, **first_fragment}]})
            half = len(call.arguments) // 2
            for part in (call.arguments[:half], call.arguments[half:]):
                deltas.append({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
        lines = [self._chunk(delta) for delta in deltas]
        middle = len(lines) // 2 + 1
        if how == "early":
            return "".join(lines[:middle]).encode()
        if how == "invalid-json":
            return "".join(
                [*lines[:middle], 'data: {"id": "chatcmpl-\n\n', *lines[middle:]]
            ).encode()
        if how == "stream-error":
            error = json.dumps(
                {"error": {"message": "the server had an error", "type": "fake", "code": None}}
            )
            return "".join([*lines[:middle], f"data: {error}\n\n"]).encode()
        if how == "wrong-count":
            return f"{self._chunk(None)}data: [DONE]\n\n".encode()
        usage = json.dumps(
            {**self._frame("chat.completion.chunk"), "choices": [], "usage": self._usage}
        )
        return "".join(
            [*lines, self._chunk({}, self._finish), f"data: {usage}\n\n", "data: [DONE]\n\n"]
        ).encode()

    def _chunk(self, delta: dict[str, Any] | None, finish: str | None = None) -> str:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
        return (
            f"data: {json.dumps({**self._frame('chat.completion.chunk'), 'choices': choices})}\n\n"
        )

    def _frame(self, object_type: str) -> dict[str, Any]:
        return {
            "id": "chatcmpl-fake",
            "object": object_type,
            "created": int(time.time()),
            "model": self.model,
        }

    @property
    def _cut(self) -> bool:
        return self.limited and len(self.text.split()) > self.request.max_tokens

    @property
    def _text(self) -> str:
        return " ".join(self.text.split()[: self.request.max_tokens]) if self._cut else self.text

    @property
    def _finish(self) -> str:
        if self._cut:
            return "length"
        return "tool_calls" if self.calls else "stop"

    @property
    def _usage(self) -> dict[str, int]:
        tokens_in = len(f"{self.request.system} {self.request.prompt}".split())
        tokens_out = min(len(self.text.split()), self.request.max_tokens)
        return {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        }


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def huge(size: int, streamed: bool) -> Iterator[bytes]:
    """Yield a completion of `size` bytes, in parts."""
    start = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"'
    end = b'"},"finish_reason":"stop"}]}'
    if streamed:
        start = b"data: " + start.replace(b"message", b"delta")
        end += b"\n\n"
    yield start
    remaining = size - len(start) - len(end)
    while remaining:
        part = min(remaining, 1 << 16)
        yield b"a" * part
        remaining -= part
    yield end
