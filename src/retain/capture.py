"""Wrap a tool or function so that its large results become references.

    search = captured(me)(search)            # or as a decorator: @captured(me, session=session.id)

Small results are returned unchanged. The wrapped function has the same name, documentation and
signature, so that frameworks which read them see no difference. Its exceptions are raised as they
are. If the result cannot be stored, the database error is raised with the result as `error.output`:
the function did run, and running it again may do its work twice.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ParamSpec

from retain.aio import AsyncScope
from retain.base.errors import Invalid, RetainError, TooLarge
from retain.memory import Scope

Params = ParamSpec("Params")
_MAX_SOURCE_CHARACTERS = 100


def captured(
    scope: Scope | AsyncScope, *, session: str | None = None, name: str | None = None
) -> Callable[[Callable[Params, Any]], Callable[Params, Any]]:
    """Return a decorator that replaces a result of over 500 tokens by a reference's line.

    session: the session that the references belong to
    name:    the name of the call in the line (default: the function with its arguments)

    Works for synchronous and asynchronous functions.
    """
    if not isinstance(scope, Scope | AsyncScope):
        raise TypeError(
            "captured() needs a scope before the function: @captured(me), or captured(me)(function)"
        )

    def wrap(function: Callable[Params, Any]) -> Callable[Params, Any]:
        called: str = name or getattr(function, "__name__", "") or type(function).__name__
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"captured() cannot wrap {called}, a generator: return the whole result instead"
            )
        keep = functools.partial(_keep_result, scope, session)

        @functools.wraps(function)
        def run(*args: Params.args, **named: Params.kwargs) -> Any:
            start = time.perf_counter()
            result = function(*args, **named)
            source = name or _source(called, args, named)
            if inspect.isawaitable(result):
                return _after(result, source, start, keep)
            if isinstance(scope, AsyncScope):
                raise TypeError(
                    f"captured() with an AsyncScope needs an async function, which {called} is not"
                )
            return keep(result, source, start)

        @functools.wraps(function)
        async def run_async(*args: Params.args, **named: Params.kwargs) -> Any:
            start = time.perf_counter()
            return await _after(
                function(*args, **named), name or _source(called, args, named), start, keep
            )

        if _is_async(function):
            return run_async
        if isinstance(scope, AsyncScope) and inspect.isfunction(function):
            raise TypeError(
                f"captured() with an AsyncScope needs an async function, which {called} is not"
            )
        return run

    return wrap


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    )


async def _after(
    result: Awaitable[Any], source: str, start: float, keep: Callable[..., Any]
) -> Any:
    """Await the result, then store it; a synchronous scope stores it in a thread."""
    import asyncio  # here, because it takes half as long to import as all of retain

    output = await result
    if not _is_large(output):
        return output
    stored = await asyncio.to_thread(keep, output, source, start)
    return await _noted(stored, output) if inspect.iscoroutine(stored) else stored


def _keep_result(
    scope: Scope | AsyncScope, session: str | None, result: Any, source: str, start: float
) -> Any:
    """Return the result or the line that replaces it; with an `AsyncScope`, an awaitable of it."""
    if not _is_large(result):
        return result
    metadata = {"duration_ms": round((time.perf_counter() - start) * 1000)}
    try:
        return scope.refs.capture(
            result, source=source, status="Success", session=session, metadata=metadata
        )
    except RetainError as error:
        return _handle_failure(error, result)


async def _noted(writing: Awaitable[Any], result: Any) -> Any:
    try:
        return await writing
    except RetainError as error:
        return _handle_failure(error, result)


def _handle_failure(error: RetainError, result: Any) -> Any:
    """Return a result that is not JSON; for any other failure, raise it with the result."""
    if (
        isinstance(error, Invalid)
        and not isinstance(error, TooLarge)
        and error.details.get("field") == "content"
    ):
        return result
    error.__dict__["output"] = result
    error.add_note("The function did run: its result is in error.output.")
    raise error


def _is_large(result: Any) -> bool:
    """Return whether a result may be over a threshold: non-empty text, bytes or JSON."""
    return isinstance(result, str | bytes | bytearray | Mapping | list | tuple) and len(result) > 0


def _source(called: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    """Return the call as source code, with its plain arguments."""
    shown = [_argument(value) for value in args] + [
        f"{name}={_argument(value)}" for name, value in named.items()
    ]
    inside = ", ".join(shown)
    room = max(0, _MAX_SOURCE_CHARACTERS - len(called))
    return f"{called}({inside[:room]}…)" if len(inside) > room else f"{called}({inside})"


def _argument(value: Any) -> str:
    if isinstance(value, str):
        return repr(value[:_MAX_SOURCE_CHARACTERS])
    return repr(value) if value is None or isinstance(value, bool | int | float) else "…"
