"""Work with a deadline that also holds for calls that nothing can interrupt."""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

GRACE_SECONDS = 1.0
"""The time for a coroutine to clean up after its deadline."""


def run_in_thread(work: Coroutine[Any, Any, Result], seconds: float, name: str) -> Result:
    """Run a coroutine in its own thread and event loop: the caller's loop may be running already.

    A blocking call, such as a name lookup, cannot be interrupted: after the deadline, its thread
    is abandoned and TimeoutError is raised.
    """
    import asyncio

    results: list[Result] = []
    errors: list[BaseException] = []

    def body() -> None:
        loop = asyncio.new_event_loop()
        try:
            results.append(loop.run_until_complete(asyncio.wait_for(work, seconds)))
        except BaseException as error:  # raised in the thread that waits for the result
            errors.append(error)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    thread = threading.Thread(target=body, name=name, daemon=True)
    thread.start()
    thread.join(seconds + GRACE_SECONDS)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError
    return results[0]
