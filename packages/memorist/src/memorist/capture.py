"""Wrap a tool or function so that its large results become references.

    search = captured(me)(search)            # or as a decorator: @captured(me, session=session.id)

Small results are returned unchanged. The wrapped function has the same name, documentation and
signature, so that frameworks which read them see no difference. Its exceptions pass through
unchanged. If the result cannot be stored, the database error is raised with the result as
`error.output`: the function did run, and running it again may do its work twice.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ParamSpec

from memorist.aio import AsyncScope
from memorist.base.errors import Invalid, MemoristError, TooLarge
from memorist.memory import Scope

Params = ParamSpec("Params")
_MAX_SOURCE_CHARACTERS = 100


def captured(
    scope: Scope | AsyncScope, *, session: str | None = None, name: str | None = None
) -> Callable[[Callable[Params, Any]], Callable[Params, Any]]:
    """Return a decorator that stores results over 500 tokens and returns a short placeholder.

    session: the session that the references belong to
    name:    the name of the call in the placeholder (default: the function with its arguments)

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
    import asyncio  # here, because it takes half as long to import as all of memorist

    output = await result
    if not _is_large(output):
        return output
    stored = await asyncio.to_thread(keep, output, source, start)
    return await _await_stored(stored, output) if inspect.iscoroutine(stored) else stored


def _keep_result(
    scope: Scope | AsyncScope, session: str | None, result: Any, source: str, start: float
) -> Any:
    """Return the result or its placeholder; with an `AsyncScope`, an awaitable of the placeholder."""
    if not _is_large(result):
        return result
    metadata = {"duration_ms": round((time.perf_counter() - start) * 1000)}
    try:
        return scope.refs.capture(
            result, source=source, status="Success", session=session, metadata=metadata
        )
    except MemoristError as error:
        return _handle_failure(error, result)


async def _await_stored(placeholder: Awaitable[Any], result: Any) -> Any:
    try:
        return await placeholder
    except MemoristError as error:
        return _handle_failure(error, result)


def _handle_failure(error: MemoristError, result: Any) -> Any:
    """Return a result that cannot be stored as JSON; raise any other error with the result."""
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
    """Return whether a result may be over the limit: non-empty text, bytes or JSON."""
    return isinstance(result, str | bytes | bytearray | Mapping | list | tuple) and len(result) > 0


def _source(called: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    """Return the call as source code, with its plain arguments."""
    arguments = [_argument(value) for value in args]
    arguments += [f"{name}={_argument(value)}" for name, value in named.items()]
    text = ", ".join(arguments)
    limit = max(0, _MAX_SOURCE_CHARACTERS - len(called))
    return f"{called}({text[:limit]}…)" if len(text) > limit else f"{called}({text})"


def _argument(value: Any) -> str:
    if isinstance(value, str):
        return repr(value[:_MAX_SOURCE_CHARACTERS])
    return repr(value) if value is None or isinstance(value, bool | int | float) else "…"
