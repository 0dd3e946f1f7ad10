"""Server-sent events: encoding, and a response that ends if the client leaves or loses access."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from memorist.api.rendering import as_json
from memorist.base.errors import Invalid, MemoristError
from memorist.server.http.thread_pool import in_thread

EVENT_STREAM_MEDIA_TYPE = "text/event-stream"
HEARTBEAT_SECONDS = 15.0
"""Proxies close silent connections, so a comment is sent this often."""
HEARTBEAT = b": still here\n\n"
SEND_TIMEOUT_SECONDS = 30.0
"""A reader that accepts nothing for this long is disconnected."""
MIN_POLL_SECONDS = 0.1
MAX_POLL_SECONDS = 1.0
"""Seconds between two polls: MIN_POLL_SECONDS after a change, then growing up to MAX_POLL_SECONDS."""
POLL_GROWTH = 1.5
EVENTS_PER_READ = 100
_LAST_EVENT = "last-event-id"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

T = TypeVar("T")


def encode_event(id: int, name: str, data: Mapping[str, Any]) -> bytes:
    """Encode one event. JSON has no line breaks, so the data cannot end the event."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)
    return f"id: {id}\nevent: {name}\ndata: {text}\n\n".encode("utf-8", "replace")


def last_event_id(request: Request) -> int | None:
    """Return the id of the last event that a client has, or None for a new client."""
    last = request.headers.get(_LAST_EVENT)
    if last is None:
        return None
    if not (last.isascii() and last.isdigit() and len(last) < 16):
        raise Invalid(field="Last-Event-ID", problem="must be the id of an event of this stream")
    return int(last)


async def poll_events(
    stopping: asyncio.Event,
    items: Sequence[T],
    read: Callable[[int], Sequence[T]],
    describe: Callable[[T], tuple[int, str]],
    after: int,
) -> AsyncGenerator[bytes, None]:
    """Yield items as events, and then new ones, until the server stops.

    items:    the first items after `after`
    read:     returns up to EVENTS_PER_READ items after an id
    describe: returns the id of an item and the name of its event
    """
    beat = time.monotonic()
    pause = MIN_POLL_SECONDS
    # With the id, a client that reconnects before the first event misses none.
    yield f"id: {after}\nretry: 1000\n\n".encode()
    while not stopping.is_set():
        for item in items:
            after, name = describe(item)
            yield encode_event(after, name, as_json(item))
        if items:
            beat = time.monotonic()
            pause = MIN_POLL_SECONDS
        elif time.monotonic() - beat >= HEARTBEAT_SECONDS:
            beat = time.monotonic()
            yield HEARTBEAT
        if len(items) < EVENTS_PER_READ:
            await wait_or_stop(stopping, pause)
            pause = min(pause * POLL_GROWTH, MAX_POLL_SECONDS)
        try:
            items = await in_thread(read, after)
        except MemoristError:
            return  # the client reconnects and gets the error, if it persists


async def wait_or_stop(stopping: asyncio.Event, seconds: float) -> None:
    """Wait, but not longer than the server runs."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()


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
