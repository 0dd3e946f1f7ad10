"""Server-sent events: encoding, and a response that ends if the client leaves or loses access."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

EVENT_STREAM_MEDIA_TYPE = "text/event-stream"
HEARTBEAT_SECONDS = 15.0
"""Proxies close silent connections, so a comment is sent this often."""
HEARTBEAT = b": still here\n\n"
SEND_TIMEOUT_SECONDS = 30.0
"""A reader that accepts nothing for this long is disconnected."""
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def encode_event(id: int, name: str, data: Mapping[str, Any]) -> bytes:
    """Encode one event. JSON has no line breaks, so the data cannot end the event."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)
    return f"id: {id}\nevent: {name}\ndata: {text}\n\n".encode("utf-8", "replace")


class EventStream(StreamingResponse):
    """A stream of events. It calls `is_allowed` before each: a key can be revoked meanwhile."""

    def __init__(
        self, events: AsyncGenerator[bytes, None], is_allowed: Callable[[], Awaitable[bool]]
    ) -> None:
        super().__init__(
            _while_allowed(is_allowed, events), headers=_HEADERS, media_type=EVENT_STREAM_MEDIA_TYPE
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events; end them when the reader is gone."""

        async def send_in_time(message: Any) -> None:
            async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
                await send(message)

        try:
            await super().__call__(scope, receive, send_in_time)
        except* TimeoutError:
            pass  # The server closes the connection of an unfinished response.


async def _while_allowed(
    is_allowed: Callable[[], Awaitable[bool]], events: AsyncGenerator[bytes, None]
) -> AsyncIterator[bytes]:
    async with aclosing(events):
        async for event in events:
            if not await is_allowed():
                return  # A new request gets the error.
            yield event
