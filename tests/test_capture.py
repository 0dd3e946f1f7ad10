"""The `captured` decorator: large results become references, everything else is unchanged."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from memorist import AsyncMemory, MemoristError, Memory, Scope, captured
from memorist.base.errors import NotFound
from memorist.content.placeholder import find_keys
from testkit.databases import SETTINGS
from testkit.limited import Limited

LARGE = "".join(f"line {number} of many\n" for number in range(2000))


def test_a_large_result_becomes_a_line_with_a_placeholder(me: Scope) -> None:
    """The line has the call, its status and the placeholder; the store has the whole."""

    @captured(me)
    def read_log(name: str, lines: int = 5) -> str:
        """Read a log."""
        return LARGE

    line = read_log("app.log", lines=7)
    (key,) = find_keys(line)
    assert line == f"Ran `read_log('app.log', lines=7)`: Success. {me.refs.info(key).placeholder}"
    assert me.refs.info(key).bytes == len(LARGE)
    assert me.refs.get(key, lines=(2, 2)).text == "line 1 of many"
    assert me.refs.info(key).metadata["duration_ms"] >= 0
    assert me.refs.info(key).type == "command_output"


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_small_result_is_returned_unchanged(me: Scope) -> None:
    """Results up to the threshold, and values that are not text."""
    for result in (
        "small",
        "",
        b"bytes",
        {"a": [1]},
        [1, 2],
        (1, 2),
        None,
        7,
        1.5,
        True,
        object(),
        {1, 2},
    ):
        assert captured(me)(lambda result=result: result)() is result
    assert list(me.refs.list()) == []


@pytest.mark.slow_on_postgres
def test_bytes_and_json_are_stored_with_their_media_type(me: Scope) -> None:
    data = bytes(range(256)) * 100
    rows = [{"id": number, "name": "x" * 20} for number in range(500)]
    for result, media in (
        (data, "binary"),
        (rows, "json"),
        ({"rows": rows}, "json"),
        (tuple(rows), "json"),
    ):
        (key,) = find_keys(captured(me)(lambda result=result: result)())
        assert me.refs.info(key).media == media
    assert me.refs.get(key, path="$[499].id").text == "499"


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_result_that_is_not_json_is_returned_unchanged(me: Scope) -> None:
    result = [object()] * 5000
    assert captured(me)(lambda: result)() is result


@pytest.mark.parametrize("engine", ["sqlite"])
def test_the_wrapper_has_the_name_docstring_and_signature_of_the_function(me: Scope) -> None:
    """Frameworks that read them see no difference."""

    def search(query: str, *, limit: int = 3) -> str:
        """Search the web."""
        return query

    async def fetch(url: str) -> str:
        """Fetch a page."""
        return url

    for function in (search, fetch):
        wrapped: Any = captured(me)(function)
        assert (wrapped.__name__, wrapped.__doc__) == (function.__name__, function.__doc__)
        assert inspect.signature(wrapped) == inspect.signature(function)
        assert inspect.iscoroutinefunction(wrapped) == inspect.iscoroutinefunction(function)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_an_exception_of_the_function_is_raised_unchanged(me: Scope) -> None:
    problem = ValueError("no such page")

    @captured(me)
    def fails() -> str:
        raise problem

    with pytest.raises(ValueError, match="no such page") as error:
        fails()
    assert error.value is problem


@pytest.mark.slow_on_postgres
def test_session_and_name_can_be_set(me: Scope) -> None:
    session = me.sessions.resume().id
    line = captured(me, session=session, name="npm install")(lambda: LARGE)()
    assert line.startswith("Ran `npm install`: Success. [MemoryRef: npm-install")
    assert [ref.key for ref in me.refs.list(session=session)] == find_keys(line)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_methods_partials_and_objects_can_be_wrapped(me: Scope) -> None:
    class Tool:
        @captured(me)
        def run(self, size: int) -> str:
            return LARGE[:size]

        def __call__(self) -> str:
            return LARGE

    assert Tool().run(10) == LARGE[:10]
    assert Tool().run(10_000).startswith("Ran `run(…, 10000)`")
    assert captured(me)(Tool())().startswith("Ran `Tool()`")
    assert captured(me)(functools.partial(Tool().run, 5))() == LARGE[:5]


@pytest.mark.parametrize("engine", ["sqlite"])
def test_long_arguments_are_shortened_and_others_left_out(me: Scope) -> None:
    line = captured(me)(lambda *args: LARGE)("x" * 10_000, object(), [1], None, True)
    assert len(line) < 500
    assert "'xxx" in line


@pytest.mark.slow_on_postgres
def test_async_functions_with_sync_and_async_scopes(url: str, me: Scope) -> None:
    """The loop is not blocked, and an AsyncScope is awaited."""

    async def read(size: int) -> str:
        await asyncio.sleep(0)
        return LARGE[:size]

    async def work() -> None:
        assert await captured(me)(read)(10) == LARGE[:10]
        (key,) = find_keys(await captured(me)(read)(10_000))
        assert me.refs.info(key).bytes == 10_000
        memory = await AsyncMemory.open(url, settings=replace(SETTINGS))
        scope = memory.scope(tenant="acme", user="ada", agent="scout")
        wrapped = captured(scope)(read)
        assert await wrapped(10) == LARGE[:10]
        lines = await asyncio.gather(*[wrapped(10_000 + number) for number in range(5)])
        assert len({key for line in lines for key in find_keys(line)}) == 5
        assert find_keys(await captured(scope)(functools.partial(read, 10_000))())
        assert find_keys(await captured(me)(lambda: read(10_000))())
        await memory.close()

    asyncio.run(work())


@pytest.mark.parametrize("engine", ["sqlite"])
def test_generators_and_mixed_scopes_are_rejected(me: Scope, url: str) -> None:
    def numbers() -> Any:
        yield LARGE

    with pytest.raises(TypeError, match="a generator: return the whole result instead"):
        captured(me)(numbers)

    async def work() -> None:
        memory = await AsyncMemory.open(url, settings=replace(SETTINGS))
        with pytest.raises(TypeError, match="needs an async function, which read is not"):

            @captured(memory.scope(tenant="acme"))
            def read() -> str:
                return LARGE

        await memory.close()

    asyncio.run(work())


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_result_that_cannot_be_stored_is_not_lost(
    me: Scope, open_memory: Callable[..., Memory], limited: Limited
) -> None:
    """The error has the result of the function, which did run."""
    with pytest.raises(NotFound) as error:
        captured(me, session="nowhere")(lambda: LARGE)()
    assert error.value.output == LARGE  # type: ignore[attr-defined]
    assert error.value.__notes__ == ["The function did run: its result is in error.output."]
    limited(MAX_REF_BYTES=2048)
    small = open_memory().scope(tenant="acme")
    with pytest.raises(MemoristError) as refused:
        captured(small)(lambda: LARGE)()
    assert refused.value.output == LARGE  # type: ignore[attr-defined]


def test_a_missing_scope_is_rejected_at_decoration() -> None:
    bare: Any = captured
    with pytest.raises(TypeError, match="needs a scope before the function: @captured"):

        @bare
        def search(query: str) -> str:
            return query
