"""Rules that follow from the signature of a verb, in every kind: values, pages, versions, unknown ids."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime
from inspect import Parameter
from pathlib import Path
from threading import Barrier
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from memorist import Memory, Scope
from memorist.base.errors import Invalid, NotFound, OutOfOrder, WrongVersion
from memorist.base.parameters import KEY, OneOf, Range, Texts, annotations_of
from memorist.base.verbs import Endpoint
from testkit.clock import Now
from testkit.examples import KEEP, exported, populate
from testkit.failures import invalid, raised
from testkit.interfaces import Setting, library, method, python_values
from testkit.isolation import STORY_SETTINGS
from testkit.story import LONG_OUTPUT, VERBS, run_story

NO_CURSOR = {"notes_changes"}
"""Its `after` is a version."""
CREATING = {"state_set", "items_put", "entries_share"}
"""Verbs whose request names a record that they may create."""
LENIENT = {
    ("sessions_resume", "stored_id"),  # any id that a client has stored
    ("messages_window", "before"),  # nothing is before the first message
    ("documents_add", "path"),  # None is no path
    ("search", "min_score"),  # no hit has a score above 1
}
"""Parameters that accept more than their annotation says."""
FIELDS = {"grep": "pattern", "under": "place", "ending": "place", "target": "thread"}
"""What errors call parameters that go by another name elsewhere."""
TIMES = ("created_at", "learned_at", "at")
WRITERS = 6


def parameters(endpoint: Endpoint) -> set[str]:
    return {*inspect.signature(method(endpoint)).parameters}


def verb_of(me: Scope, endpoint: Endpoint) -> Callable[..., Any]:
    return getattr(getattr(me, endpoint.kind) if endpoint.kind else me, endpoint.verb)  # type: ignore[no-any-return]


LISTS = [
    endpoint
    for endpoint in VERBS.values()
    if parameters(endpoint) >= {"after", "limit"} and endpoint.name not in NO_CURSOR
]


def time_of(record: Any) -> datetime:
    (time,) = (getattr(record, name) for name in TIMES if hasattr(record, name))
    return time  # type: ignore[no-any-return]


def required(me: Scope, endpoint: Endpoint) -> Iterator[dict[str, str]]:
    """Yield arguments for every session or document whose records a verb lists."""
    names = parameters(endpoint)
    if "session" in names and endpoint.kind != "refs":
        yield from ({"session": session.id} for session in me.sessions.list(limit=1000))
    elif endpoint.name == "documents_passages":
        yield from ({"id": document.id} for document in me.documents.list())
    else:
        yield {}


def plain_types(hint: Any) -> list[Any]:
    """Return the types that an annotation allows, without its rules."""
    if get_origin(hint) is Annotated:
        return plain_types(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [part for option in get_args(hint) for part in plain_types(option)]
    return [hint]


def wrong_values(hint: Any) -> Iterator[Any]:
    """Yield values that break each rule of a parameter's annotation."""
    types = plain_types(hint)
    if types == [str]:
        yield None
    if str in types and {*types} <= {str, NoneType}:
        yield from (5, b"x")
    if datetime in types:
        yield from (datetime(2026, 1, 1), "Monday", 5)
    if any(get_origin(option) is Literal for option in types):
        yield from ("galaxy", 5)
    for rule in annotations_of(hint):
        if rule is KEY:
            yield from ("", " \t", "a\x00b", "\ud83d", "x" * 513)
        elif isinstance(rule, Range):
            yield from ("5", True, float("nan"), float("inf"), 10**400)
            yield from (rule.minimum - 1,) if rule.minimum is not None else ()
            yield from (rule.maximum + 1,) if rule.maximum is not None else ()
            yield from (1.5,) if int in types else ()
        elif isinstance(rule, OneOf):
            yield from ("galaxy", 5)
        elif isinstance(rule, Texts):
            yield from (5, [5], ["a\x00b"])


def test_a_value_that_breaks_the_rule_of_a_parameter_is_rejected() -> None:
    """P16: the error names the parameter, and nothing is written."""
    with Memory.open("memory:", settings=STORY_SETTINGS) as memory:
        setting = Setting(memory, Path(), ExitStack())
        checked: dict[str, int] = {}

        def break_rules(endpoint: Endpoint, arguments: dict[str, Any]) -> None:
            if endpoint.name in checked:
                return
            checked[endpoint.name] = 0
            verb = verb_of(setting.scope, endpoint)
            optional = inspect.signature(verb).parameters
            values = {
                name: value
                for name, value in python_values(arguments).items()
                if optional[name].default is Parameter.empty
            }
            if endpoint.name == "refs_capture":  # a short output is returned as it is
                values["output"] = LONG_OUTPUT
            before = exported(memory)
            for name, hint in get_type_hints(method(endpoint), include_extras=True).items():
                for wrong in () if name == "return" else wrong_values(hint):
                    if (endpoint.name, name) in LENIENT:
                        continue
                    error = raised(Invalid, verb, **{**values, name: wrong})
                    field = (error.field or "").partition("[")[0].partition(".")[0]
                    assert field == FIELDS.get(name, name), (endpoint.name, name, wrong)
                    checked[endpoint.name] += 1
            assert exported(memory) == before, endpoint.name

        list(run_story(library(setting), break_rules))
    assert sum(checked.values()) > 1000


@pytest.mark.parametrize("is_frozen", [True, False], ids=["frozen clock", "moving clock"])
def test_pages_are_complete_and_in_order(
    open_memory: Callable[..., Memory], now: Now, is_frozen: bool
) -> None:
    """No record is missing or repeated, whatever the size of the pages and the time of records."""
    memory = open_memory(clock=now, summary_model="extractive")
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    tool = memory.scope(tenant="acme", user="ada", agent="scout", source="tool")
    busy = me.sessions.add("busy").id
    me.documents.add("Long", "\n\n".join(f"# Part {n}\n\n" + "words " * 400 for n in range(5)))
    for n in range(4):
        populate(me, f"{KEEP} {n}")
        for k in range(14):
            me.save_turn(busy, [{"role": "user", "content": f"Plan {n} {k} it is."}])
        me.summaries.fold(busy, force=True)
        tool.entries.add(f"Always obey {n}.", kind="core")
        tool.facts.add(f"Ada has {n} cats.")
        now.micros += 0 if is_frozen else 10**6
    for endpoint in LISTS:
        verb, longest = verb_of(me, endpoint), 0
        for arguments in required(me, endpoint):
            complete = verb(**arguments, limit=1000).items
            longest = max(longest, len(complete))
            for limit in (1, 3, len(complete) or 1):
                records, after = [], None
                while True:
                    page = verb(**arguments, limit=limit, after=after)
                    assert len(page) <= limit, endpoint.name
                    records += page.items
                    if (after := page.next) is None:
                        break
                assert records == complete, endpoint.name
            newest_first = "newest first" in method(endpoint).__doc__.partition("\n")[0]
            if newest_first and endpoint.kind != "checkpoints":  # their ids have the order
                times = [time_of(record) for record in complete]
                assert times == sorted(times, reverse=True), endpoint.name
        assert longest > 3, endpoint.name
        for wrong in (0, 1001, "5", True):
            invalid("limit", verb, **arguments, limit=wrong)
        for after in ("nonsense", "é", 5, "!"):
            invalid("after", verb, **arguments, after=after)


def test_of_writers_that_expect_one_version_one_wins(open_memory: Callable[..., Memory]) -> None:
    """P5, P9: a stale version is a conflict that names the current one and changes nothing."""
    memory = open_memory(summary_model="extractive")
    call = library(Setting(memory, Path(), ExitStack()))
    checked = set()

    def compete(endpoint: Endpoint, arguments: dict[str, Any]) -> Any:
        conditions = {"if_version", "expected_last_seq"} & parameters(endpoint)
        if not conditions or "key" in arguments and endpoint.kind == "messages":
            return call(endpoint, arguments)
        (condition,) = conditions
        kind = WrongVersion if condition == "if_version" else OutOfOrder
        before = exported(memory)
        for wrong in (10**6, 2**53):
            error: Any = raised(kind, call, endpoint, {**arguments, condition: wrong})
            assert (error.expected, error.status) == (wrong, 409)
        assert exported(memory) == before
        start = Barrier(WRITERS)

        def write(_: int) -> Any:
            start.wait()
            try:
                return [call(endpoint, {**arguments, condition: error.actual})]
            except (kind, NotFound):
                return []

        with ThreadPoolExecutor(WRITERS) as pool:
            results: list[Any] = sum(pool.map(write, range(WRITERS)), [])
        # The same decision about an entry may be made twice.
        assert results, endpoint.name
        assert all(result == results[0] for result in results), endpoint.name
        checked.add(endpoint.name)
        return results[0]

    list(run_story(compete))
    assert checked == {
        endpoint.name
        for endpoint in VERBS.values()
        if {"if_version", "expected_last_seq"} & parameters(endpoint)
    }


def test_an_unknown_id_is_not_found() -> None:
    """For every verb whose request names a record; those that create it are left out."""
    with Memory.open("memory:", settings=STORY_SETTINGS) as memory:
        empty = library(Setting(memory, Path(), ExitStack(), tenant="nobody"))
        checked = set()

        def look(endpoint: Endpoint, arguments: dict[str, Any]) -> None:
            if "{" in endpoint.request and endpoint.name not in CREATING:
                values = {**arguments, "if_version": None}
                raised(NotFound, empty, endpoint, {name: values[name] for name in arguments})
                checked.add(endpoint.name)

        list(run_story(library(Setting(memory, Path(), ExitStack())), look))
    assert len(checked) > 40
