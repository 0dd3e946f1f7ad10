"""Server-sent events: how one is written, and a response that sends them for as long as somebody reads them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

MEDIA = "text/event-stream"
BEAT_SECONDS = 15.0
"""So often something is sent, also while nothing happens: proxies close what is silent."""
BEAT = b": still here\n\n"
PATIENCE_SECONDS = 30.0
"""A reader that takes nothing for so long is gone."""
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def written(id: int, name: str, data: Mapping[str, Any]) -> bytes:
    """One event as it goes over the wire: JSON has no line break in it, so nothing in the data can end the event."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)
    return f"id: {id}\nevent: {name}\ndata: {text}\n\n".encode("utf-8", "replace")


class EventStream(StreamingResponse):
    """A response of events; a reader that does not read is let go, and holds nothing but its place meanwhile.

    `still` is asked before each event whether the reader may hear it: a key can be revoked while somebody listens.
    """

    def __init__(
        self, events: AsyncGenerator[bytes, None], still: Callable[[], Awaitable[bool]]
    ) -> None:
        super().__init__(_while(still, events), headers=_HEADERS, media_type=MEDIA)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what there is, and end the events where the reader is gone."""

        async def patiently(message: Any) -> None:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await send(message)

        try:
            await super().__call__(scope, receive, patiently)
        except* TimeoutError:
            pass  # uvicorn closes the connection of an answer that was not ended


async def _while(
    still: Callable[[], Awaitable[bool]], events: AsyncGenerator[bytes, None]
) -> AsyncIterator[bytes]:
    async with aclosing(events):
        async for event in events:
            if not await still():
                return  # who listens comes again, and hears why
            yield event
