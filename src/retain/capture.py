"""R5: one wrapper for a tool or function, so that its large results become references and its small ones stay as they are.

    search = captured(me)(search)            # or as a decorator: @captured(me, session=session.id)

The wrapped function has the same name, documentation and signature, so that frameworks which read them see no difference.
What it raises is raised. Where the result cannot be stored, the error of the database is raised with the result in it, as
`error.output`: the function did run, and running it again may do its work twice.
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

Given = ParamSpec("Given")
_MOST_SOURCE = 100


def captured(
    scope: Scope | AsyncScope, *, session: str | None = None, name: str | None = None
) -> Callable[[Callable[Given, Any]], Callable[Given, Any]]:
    """Make a function return, for a result over 500 tokens, the line that stands for it; sync or async.

    `session` is the session that the references belong to, `name` what stands there for the call.
    """
    if not isinstance(scope, Scope | AsyncScope):
        raise TypeError(
            "captured() needs a scope before the function: @captured(me), or captured(me)(function)"
        )

    def wrap(function: Callable[Given, Any]) -> Callable[Given, Any]:
        called: str = name or getattr(function, "__name__", "") or type(function).__name__
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"captured() cannot wrap {called}, a generator: return the whole result instead"
            )
        keep = functools.partial(_kept, scope, session)

        @functools.wraps(function)
        def run(*args: Given.args, **named: Given.kwargs) -> Any:
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
        async def run_async(*args: Given.args, **named: Given.kwargs) -> Any:
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
    """Wait for the result, then keep it; a synchronous scope does so in a thread, and the loop goes on."""
    import asyncio  # here, because it takes half as long to import as all of retain

    found = await result
    if not _is_large(found):
        return found
    kept = await asyncio.to_thread(keep, found, source, start)
    return await _noted(kept, found) if inspect.iscoroutine(kept) else kept


def _kept(
    scope: Scope | AsyncScope, session: str | None, result: Any, source: str, start: float
) -> Any:
    """The result, or the line that stands for it; of an asynchronous scope, what has to be awaited for that."""
    if not _is_large(result):
        return result
    metadata = {"duration_ms": round((time.perf_counter() - start) * 1000)}
    try:
        return scope.refs.capture(
            result, source=source, status="Success", session=session, metadata=metadata
        )
    except RetainError as error:
        return _not_kept(error, result)


async def _noted(kept: Awaitable[Any], result: Any) -> Any:
    try:
        return await kept
    except RetainError as error:
        return _not_kept(error, result)


def _not_kept(error: RetainError, result: Any) -> Any:
    """A result that is no JSON is none of ours; any other failure is told, with the result."""
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
    """Whether a result could be over any threshold: text, bytes, or what could be JSON, and not next to nothing."""
    return isinstance(result, str | bytes | bytearray | Mapping | list | tuple) and len(result) > 0


def _source(called: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    """The call as a person would write it, with its plain arguments."""
    shown = [_argument(value) for value in args] + [
        f"{name}={_argument(value)}" for name, value in named.items()
    ]
    inside = ", ".join(shown)
    room = max(0, _MOST_SOURCE - len(called))
    return f"{called}({inside[:room]}…)" if len(inside) > room else f"{called}({inside})"


def _argument(value: Any) -> str:
    if isinstance(value, str):
        return repr(value[:_MOST_SOURCE])
    return repr(value) if value is None or isinstance(value, bool | int | float) else "…"
