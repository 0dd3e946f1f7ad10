"""Items: documents at a place and key, with expiry, versions, filters and search below a place."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from memorist import JsonText, Memory, Scope
from memorist.base.errors import Invalid, NotFound, TooLarge, WrongVersion
from memorist.kinds.backdating import RecordTimes, backdate_item
from memorist.kinds.items import Drop, Items, Place, Put
from memorist.kinds.items.items import MAX_ID_BYTES
from memorist.kinds.page import Page
from memorist.text import fields as json_fields
from testkit.clock import START, Now
from testkit.databases import SETTINGS, one_engine
from testkit.failures import raised
from testkit.fake_embedder import FakeEmbedder
from testkit.memories import problems, scope_of
from testkit.search_index import clear_index, indexed_documents

SECOND = 1_000_000


@pytest.fixture
def timed(open_memory: Callable[..., Memory], now: Now) -> Memory:
    """A database with the test's clock."""
    return open_memory(clock=now)


def locations(page: Iterator[Any] | Page[Any]) -> list[tuple[Place, str]]:
    return [(item.place, item.key) for item in page]


def pages(fetch: Callable[[str | None], Page[Any]]) -> list[Any]:
    """Fetch a list page by page."""
    results, after = [], None
    while True:
        page = fetch(after)
        results += page.items
        if page.next is None:
            return results
        after = page.next


def list_places(items: Items, depth: int, limit: int, after: str | None) -> Page[Place]:
    return items.places(depth=depth, limit=limit, after=after)


def list_singly(items: Items, asked: dict[str, Any], after: str | None) -> Page[Any]:
    return items.list(where=asked, limit=1, after=after)


# -- one item -----------------------------------------------------------------------------------------------------------


def test_an_item_exists_until_removed(timed: Memory, now: Now) -> None:
    me = scope_of(timed, "ada").items
    value = {"text": "likes tea é😀", "tags": ["a", None, 1.5], "deep": {"b": True}}
    put = me.put(("memories", "ada"), "k", value)
    assert (put.place, put.key, put.value, put.version) == (("memories", "ada"), "k", value, 1)
    assert me.get(["memories", "ada"], "k") == put
    now.micros += SECOND
    again = me.put(("memories", "ada"), "k", JsonText('{ "n" : 1.0e2 }'))
    assert (again.raw, again.version, again.created_at) == ('{ "n" : 1.0e2 }', 2, put.created_at)
    assert again.updated_at - put.updated_at == timedelta(seconds=1)
    assert me.read([(("memories",), "k"), (("memories", "ada"), "k")]) == [None, again]
    me.remove(("memories", "ada"), "k")
    for place, key in (
        (("memories", "ada"), "k"),
        (("memories",), "k"),
        (("memories", "ada"), "no"),
    ):
        raised(NotFound, me.get, place, key)
        raised(NotFound, me.remove, place, key)
    assert problems(timed) == []


@one_engine
def test_invalid_items_are_rejected_with_the_field(memory: Memory) -> None:
    me = scope_of(memory, "ada").items
    calls: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (Invalid, "place", lambda: me.put("p", "k", {})),
        (Invalid, "place", lambda: me.put((), "k", {})),
        (Invalid, "place", lambda: me.put(("p",) * 65, "k", {})),
        (Invalid, "place", lambda: me.put(("p", ""), "k", {})),
        (Invalid, "place", lambda: me.get(("a\x1fb",), "k")),
        (Invalid, "key", lambda: me.put(("p",), "..", {})),
        (Invalid, "value", lambda: me.put(("p",), "k", [1])),
        (Invalid, "value", lambda: me.put(("p",), "k", {"n": float("nan")})),
        (TooLarge, "value", lambda: me.put(("p",), "k", {"t": "x" * (4 << 20)})),
        (TooLarge, "place", lambda: me.put(("p" * 512,) * 4, "k", {})),
        (Invalid, "ttl", lambda: me.put(("p",), "k", {}, ttl=1e12)),
        (Invalid, "where", lambda: me.list(where={"n": {"$in": [1]}})),
        (Invalid, "where", lambda: me.list(where={"a": {"b": {"$eq": 1, "c": 2}}})),
        (Invalid, "where", lambda: me.search("x", where={"n": {"$gt": 1, "$regex": "."}})),
        (Invalid, "where", lambda: me.list(where=JsonText("[]"))),  # type: ignore[arg-type]
        (
            Invalid,
            "after",
            lambda: me.list(newest=True, after=me.places(limit=1).next or "WyJhIl0"),
        ),
        (Invalid, "changes", lambda: me.write([{"place": ["p"]}])),  # type: ignore[list-item]
    ]
    for kind, field, call in calls:
        assert getattr(raised(kind, call), "details", {})["field"] == field
    assert me.list().items == []


def test_the_longest_place_and_key_fit_every_index(memory: Memory) -> None:
    """An owner, place and key of maximum length, and quotes, which take two bytes in an id."""
    longest = memory.scope(tenant="t" * 512, user="u" * 512).items
    place = ("é" * 250, '"' * 200, "\\" * 5, "x" * 200)
    room = MAX_ID_BYTES - len(
        f'["user:{"u" * 512}","{"é" * 250}","{"x" * 400}","{"x" * 10}","{"x" * 200}",""]'.encode()
    )
    longest.put(place, "k" * room, {"text": "harbour"})
    raised(TooLarge, longest.put, place, "k" * (room + 1), {})
    assert locations(longest.list(place)) == [(place, "k" * room)]
    assert longest.search("harbour", place)[0].item.place == place
    assert longest.places().items == [place]
    assert problems(memory) == []
    memory.reindex()
    assert problems(memory) == []


# -- time ---------------------------------------------------------------------------------------------------------------


def test_expired_items_are_invisible_and_purged(timed: Memory, now: Now) -> None:
    me = scope_of(timed, "ada").items
    me.put(("p",), "soon", {"text": "harbour"}, ttl=10)
    me.put(("p", "q"), "later", {"text": "harbour"}, ttl=20)
    me.put(("p",), "ever", {"text": "harbour"})
    now.micros += 10 * SECOND
    assert me.read([(("p",), "soon")]) == [None]
    assert locations(me.list()) == [(("p",), "ever"), (("p", "q"), "later")]
    assert {item.key for item, _ in me.search("harbour")} == {"ever", "later"}
    assert (
        me.put(("p",), "soon", {"n": 2}, if_version=0, ttl=5).created_at
        == me.get(("p",), "soon").updated_at
    )
    now.micros += 10 * SECOND
    assert me.places().items == [("p",)]
    raised(NotFound, me.remove, ("p", "q"), "later")
    assert timed.purge().items == 2
    assert timed.purge().items == 0
    assert locations(me.list()) == [(("p",), "ever")]
    assert problems(timed) == []


def test_a_refresh_extends_the_expiry(timed: Memory, now: Now) -> None:
    me = scope_of(timed, "ada").items
    me.put(("p",), "k", {"text": "harbour"}, ttl=10)
    me.put(("p",), "ever", {"n": 1})
    now.micros += 9 * SECOND
    assert me.get(("p",), "k").expires_at == me.list()[1].expires_at
    refreshed = me.get(("p",), "k", refresh=True)
    assert refreshed.version == 1
    assert refreshed.expires_at is not None
    assert refreshed.expires_at - refreshed.created_at == timedelta(seconds=19)
    assert me.read([(("p",), "ever"), (("p",), "no")], refresh=True)[1] is None
    now.micros += 9 * SECOND
    assert me.get(("p",), "k") == refreshed
    assert [item.key for item, _ in me.search("harbour")] == ["k"]
    now.micros += SECOND
    raised(NotFound, me.get, ("p",), "k", refresh=True)
    assert not list(me.search("harbour"))


# -- lists --------------------------------------------------------------------------------------------------------------


def test_lists_are_ordered_by_place_and_key(timed: Memory, now: Now) -> None:
    me = scope_of(timed, "ada").items
    names = ["a", "a b", "a.b", "a!", "A", "é", "z", "*", '"', "\\", "%", "_"]
    keys: list[tuple[Place, str]] = [((one,), key) for one in names for key in ("1", "2")] + [
        ((one, two), "1") for one in names for two in names
    ]
    keys += [(("a", "a", "c"), "deep")]
    for n, (place, key) in enumerate(reversed(keys)):
        now.micros = START + n // 2
        me.put(place, key, {"n": n})
    assert locations(me.list(limit=1000)) == sorted(keys)
    assert locations(iter(pages(lambda after: me.list(limit=7, after=after)))) == sorted(keys)
    below = [one for one in sorted(keys) if one[0][0] == "a"]
    assert locations(iter(pages(lambda after: me.list(("a",), limit=3, after=after)))) == below
    assert locations(me.list(("a",), exact=True)) == [(("a",), "1"), (("a",), "2")]
    assert locations(me.list(("a", "a"))) == [(("a", "a"), "1"), (("a", "a", "c"), "deep")]
    assert me.list((), exact=True).items == me.list(("b",)).items == []
    newest = pages(lambda after: me.list(newest=True, limit=5, after=after))
    assert locations(iter(newest)) == locations(
        iter(sorted(newest, key=lambda one: (-one.updated_at.timestamp(), one.place, one.key)))
    )
    assert sorted(locations(iter(newest))) == sorted(keys)
    assert locations(me.list(("a",), newest=True, limit=1)) == [(("a",), "1")]


def test_places_filter_by_prefix_and_suffix(memory: Memory) -> None:
    me = scope_of(memory, "ada").items
    places = [
        ("a",),
        ("a", "b", "c"),
        ("a", "x", "c"),
        ("a", "x"),
        ("a b", "c"),
        ("b", "x", "c", "d"),
    ]
    for place in places:
        for key in ("1", "2"):
            me.put(place, key, {})
    assert me.places().items == sorted(places)
    assert pages(lambda after: me.places(limit=1, after=after)) == sorted(places)
    assert me.places(("a",)).items == [("a",), ("a", "b", "c"), ("a", "x"), ("a", "x", "c")]
    assert me.places(("*", "x")).items == [("a", "x"), ("a", "x", "c"), ("b", "x", "c", "d")]
    assert me.places(ending=("c",)).items == [("a", "b", "c"), ("a", "x", "c"), ("a b", "c")]
    assert me.places(("a",), ending=("x", "*")).items == [("a", "x", "c")]
    for limit in (1, 2, 9):
        assert pages(partial(list_places, me, 1, limit)) == [("a",), ("a b",), ("b",)]
        cut = pages(partial(list_places, me, 2, limit))
        assert cut == [("a",), ("a", "b"), ("a", "x"), ("a b", "c"), ("b", "x")]
    for start in (0, 550):
        me.write(
            [
                Put(("many", f"{number:04}"), "k", {}, fields=[])
                for number in range(start, start + 550)
            ]
        )
    assert len(me.places(("many",), limit=1000).items) == 1000
    assert len(pages(lambda after: me.places(("many",), limit=1000, after=after))) == 1100
    assert me.places(depth=1, ending=("1099",)).items == [("many",)]


def test_filters_compare_json_values(memory: Memory) -> None:
    """No part of a filter is ignored, and it means the same everywhere."""
    me = scope_of(memory, "ada").items
    values: dict[str, dict[str, Any]] = {
        "one": {"n": 1, "kind": "fact", "deep": {"a": 1, "b": [1, 2]}, "a.b": 1},
        "two": {"n": 2.5, "kind": "fact", "ok": True, "deep": {"a": 2}},
        "text": {"n": "2", "kind": "opinion", "ok": 1},
        "null": {"n": None},
    }
    for key, value in values.items():
        me.put(("p",), key, {**value, "text": "harbour"})
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"kind": "fact"}, {"one", "two"}),
        ({"kind": "fact", "n": 1.0}, {"one"}),
        ({"ok": True}, {"two"}),
        ({"ok": 1}, {"text"}),
        ({"n": None}, {"null"}),
        ({"n": {"$eq": 1}}, {"one"}),
        ({"n": {"$ne": 1}}, {"two", "text", "null"}),
        ({"n": {"$gt": 1}}, {"two"}),
        ({"n": {"$gte": 1, "$lt": 2.5}}, {"one"}),
        ({"n": {"$lte": "2"}}, {"text"}),
        ({"deep": {"a": {"$gte": 2}}}, {"two"}),
        ({"deep": {"b": [1, 2]}}, {"one"}),
        ({"deep": {"b": [1]}}, set()),
        ({"deep.a": 2}, {"two"}),
        ({"a.b": 1}, {"one"}),
        ({"missing": {"$lt": 1}}, set()),
        ({}, set(values)),
    ]
    for request, keys in cases:
        assert {item.key for item in me.list(where=request)} == keys, request
        assert {item.key for item in pages(partial(list_singly, me, request))} == keys
        assert {item.key for item, _ in me.search("harbour", where=request)} == keys, request


def test_the_database_rejects_nothing_that_a_filter_matches(memory: Memory) -> None:
    """What SQL compares is only a part of the filter, and never stricter than the filter."""
    me = scope_of(memory, "ada").items
    texts = [
        '{"n": 1}',
        '{"n": 1.0}',
        '{"n": 10e-1}',
        '{"n": 0.99999999999999999999}',
        '{"n": 9007199254740993}',
        '{"n": 1e300}',
        '{"n": -0.0}',
        '{"n": 1e-320}',
        '{"n": true}',
        '{"n": false}',
        '{"n": null}',
        '{"n": "1"}',
        '{"n": "true"}',
        '{"n": ""}',
        '{"n": "caf\\u00e9 50%_"}',
        '{"n": [1]}',
        '{"n": {"n": 1}}',
        '{"n": 2, "n": 1}',
        '{"n": 1, "n": "x"}',
        '{"n": 2, "\\u006e": 1}',
        '{"other": 1}',
    ]
    conditions: list[Any] = [1, 0, 1.0, 1e300, 2**53 + 1, 2**70, True, False, None]
    conditions += ["1", "true", "", "x", "café 50%_", "line\n", [1], {"n": 1}]
    conditions += [
        {comparison: bound}
        for comparison in ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
        for bound in (0, 1, 1.5, -1e300, 2**53, "1", True, None)
    ]
    conditions += [{"$gte": 1, "$lt": 2}, {"$gt": 1, "$lt": "x"}, {"$eq": 1, "$ne": "1"}]
    me.write([Put(("p",), f"{n:02}", JsonText(text), None, []) for n, text in enumerate(texts)])
    for condition in conditions:
        expected = [
            f"{n:02}"
            for n, text in enumerate(texts)
            if json_fields.match(json.loads(text), {"n": condition})
        ]
        for newest in (False, True):
            items = me.list(where={"n": condition}, newest=newest)
            assert [item.key for item in items] == expected, condition


@one_engine
def test_an_escape_that_a_server_cannot_decode_breaks_no_filter(memory: Memory) -> None:
    """Parsing drops the first value of a repeated key, but the stored text would keep it."""
    me = scope_of(memory, "ada", "scout")
    for number, escape in enumerate((r"\u0000", r"\ud800", r"\udfff", r"\ud83d\ude00")):
        text = JsonText(f'{{"z":"{escape}","z":"x","a":"x"}}')
        me.items.put(("p",), f"k{number}", text)
    assert len(me.items.list(("p",), where={"a": "x"})) == 4


@pytest.mark.not_on_h2(
    "Oracle takes no parameter as a JSON path, so memorist checks the fields itself"
)
def test_a_selective_filter_reads_few_rows(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only rows that the filter may match leave the database."""

    def item_value(n: int) -> dict[str, Any]:
        return {"n": n, "double": 2 * n, "odd": n % 2 == 1}

    me = scope_of(memory, "ada").items
    me.write([Put(("p",), f"{n:03}", item_value(n), None, []) for n in range(300)])
    parsed: list[Any] = []
    match = json_fields.match

    def counting(value: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
        parsed.append(value)
        return match(value, where)

    monkeypatch.setattr(json_fields, "match", counting)
    for where, keys in (
        ({"n": {"$lt": 2}}, ["000", "001"]),
        ({"n": 7}, ["007"]),
        ({"odd": True, "n": {"$gte": 298}}, ["299"]),
        ({"n": {"$lt": 2}, "double": {"$gt": 0}}, ["001"]),
        ({"double": {"$gt": 594}, "n": {"$lt": 299}}, ["298"]),
    ):
        parsed.clear()
        assert [item.key for item in me.list(where=where)] == keys
        assert len(parsed) <= len(keys) + 2


# -- several at once ------------------------------------------------------------------------------------------------------


@one_engine
def test_a_filter_matches_equivalent_json(memory: Memory) -> None:
    me = scope_of(memory, "ada").items
    me.put(("p",), "escaped", JsonText('{"a":"t\\u00e9\\/"}'))
    me.put(("p",), "plain", {"a": "té/"})
    me.put(("p",), "quoted", {"a": 'say "no"', "b": "té/"})
    assert locations(me.list(where={"a": "té/"})) == locations(me.list(where={"a": {"$eq": "té/"}}))
    assert [key for _, key in locations(me.list(where={"a": "té/"}))] == ["escaped", "plain"]
    assert [key for _, key in locations(me.list(where={"a": 'say "no"', "b": "té/"}))] == ["quoted"]
    me.write([Put(("p",), f"{n:03}", {"n": n, "a": "many"}) for n in range(100)])
    for newest in (False, True):  # reads grow with each batch
        rows = me.list(where={"a": "many", "n": {"$gte": 98}}, limit=1, newest=newest)
        more = me.list(
            where={"a": "many", "n": {"$gte": 98}}, limit=1, newest=newest, after=rows.next
        )
        assert {item.key for item in (*rows, *more)} == {"098", "099"}
        assert more.next is None


def test_a_write_is_all_or_nothing(memory: Memory) -> None:
    me = scope_of(memory, "ada").items
    me.put(("p",), "old", {"text": "harbour"})
    me.write(
        [
            Put(("p",), "new", {"text": "station"}, if_version=0),
            Drop(("p",), "old", if_version=1),
            Drop(("p",), "never"),
            Drop(("p",), "never", if_version=0),
            Put(("p",), "new", {"text": "market"}, if_version=1),
        ]
    )
    assert [(item.key, item.version) for item in me.list()] == [("new", 2)]
    for wrong in (
        Put(("p",), "new", {}, if_version=7),
        Drop(("p",), "new", if_version=7),
        Drop(("p",), "old", if_version=1),
    ):
        with pytest.raises(WrongVersion):
            me.write(
                [
                    Put(("a",), "before", {}),
                    Drop(("p",), "new"),
                    Put(("p",), "new", {}),
                    wrong,
                    Put(("z",), "after", {}),
                ]
            )
    assert [(item.key, item.value) for item in me.list()] == [("new", {"text": "market"})]
    assert [len(me.search(word)) for word in ("harbour", "station", "market")] == [0, 0, 1]
    me.write([])
    assert problems(memory) == []


def test_a_write_does_what_single_calls_do(memory: Memory) -> None:
    ada = memory.scope(tenant="acme", user="ada").items
    bob = memory.scope(tenant="acme", user="bob").items
    batches: list[list[Put | Drop]] = [
        [Put(("p",), f"{n}", {"text": f"harbour {n}"}) for n in range(5)],
        [Put(("p",), f"{n}", {"text": f"station {n}"}, None, []) for n in range(2)],
        [Put(("p",), "1", {"text": "market"}), Put(("p",), "1", {"text": "bridge"}, 60)],
        [Put(("p",), "2", {}), Drop(("p",), "2"), Drop(("p",), "3"), Put(("p",), "3", {"n": 1})],
        [Drop(("p",), "4"), Drop(("p",), "never"), Put(("q", 'a "quoted" \\ name'), "k", {})],
        [Put(("p",), "0", {"text": "tower"}, if_version=2), Put(("q",), "x", {}, if_version=0)],
    ]
    for batch in batches:
        for change in batch:
            ada.write([change])
        bob.write(batch)
        ours, theirs = (
            [(item.place, item.key, item.raw, item.version) for item in items.list()]
            for items in (ada, bob)
        )
        assert ours == theirs
        for word in ("harbour", "station", "market", "bridge", "tower", "quoted"):
            assert len(ada.search(word)) == len(bob.search(word)), word
    for wrong in (Put(("p",), "0", {}, if_version=7), Drop(("p",), "0", if_version=7)):
        with pytest.raises(WrongVersion):
            bob.write([Put(("a",), "before", {}), wrong, Put(("z",), "after", {})])
    assert [item.key for item in bob.list()] == [item.key for item in ada.list()]
    bob.write([])
    assert problems(memory) == []


def test_concurrent_writers_lose_nothing(memory: Memory) -> None:
    """Eight threads increment one number by compare-and-set; others write the same keys in both
    orders.
    """
    me = scope_of(memory, "ada").items
    start = threading.Barrier(8)

    def count(worker: int) -> int:
        start.wait()
        done = tries = 0
        while done < 5:
            tries += 1
            result = me.read([(("p",), "n")])[0]
            try:
                value = {"n": 1 if result is None else result.value["n"] + 1}
                me.put(("p",), "n", value, if_version=0 if result is None else result.version)
                done += 1
            except WrongVersion:
                continue
            keys = ["a", "b", "c"] if worker % 2 else ["c", "b", "a"]
            me.write([Put(("both",), key, {"by": worker}) for key in keys])
        return tries

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(8)))
    assert (me.get(("p",), "n").value, me.get(("p",), "n").version) == ({"n": 40}, 40)
    assert len({item.value["by"] for item in me.list(("both",))}) == 1
    assert {item.version for item in me.list(("both",))} == {40}
    assert problems(memory) == []


# -- search -------------------------------------------------------------------------------------------------------------


def test_search_is_limited_to_a_place_before_ranking(url: str) -> None:
    """However many others rank higher, items below the place are found, by words and by meaning."""
    with Memory.open(url, settings=SETTINGS, embedder=FakeEmbedder()) as memory:
        below_a_place(memory)


def below_a_place(memory: Memory) -> None:
    me = scope_of(memory, "ada").items
    me.write(
        [Put(("crowd", str(n % 7)), f"{n}", {"text": f"harbour harbour {n}"}) for n in range(600)]
    )
    me.put(
        ("quiet", "corner"),
        "k",
        {"text": "a walk past the old harbour on a windy day, and then services"},
    )
    me.put(("quiet",), "other", {"text": "nothing of the kind"})
    memory.run_jobs()
    results = me.search("harbour", ("quiet",), limit=5)
    assert results[0].item.key == "k"
    assert 0 < results[0].score <= 1
    assert [item.key for item, _ in results.items[1:]] in ([], ["other"])
    assert not list(me.search("harbour", ("qui",)))
    assert not list(me.search("harbour", ("quiet", "corner", "k")))
    assert len(me.search("harbour", ("crowd", "3"), limit=200)) == len(
        [n for n in range(600) if n % 7 == 3]
    )
    assert {item.place[0] for item, _ in me.search("harbour", limit=50)} == {"crowd"}
    hits = scope_of(memory, "ada").search("windy harbour", kinds=["items"], limit=3)
    assert (hits[0].kind, hits[0].id) == ("items", '["user:ada","quiet","corner","k"]')
    assert hits[0].title == "k"


def test_a_filter_finds_low_ranked_items(memory: Memory) -> None:
    me = scope_of(memory, "ada").items
    me.write([Put(("p",), f"{n:04}", {"text": f"harbour {n}", "n": n}) for n in range(500)])
    me.put(("p",), "long", {"text": "harbour " + "and many other words " * 50, "n": 1000})
    assert [item.key for item, _ in me.search("harbour", where={"n": 1000})] == ["long"]
    assert [item.key for item, _ in me.search("harbour", where={"n": 0})] == ["0000"]
    assert not list(me.search("harbour", where={"n": -1}))
    assert len(me.search("harbour", where={"n": {"$lt": 300}}, limit=250)) == 250


def test_fields_select_what_is_indexed(memory: Memory) -> None:
    me = scope_of(memory, "ada").items
    value = {
        "text": "harbour",
        "tags": ["station", "market"],
        "deep": {"a": {"b": "bridge"}, "list": [{"c": "tower"}, {"c": "castle"}]},
        "secret": "cellar",
        "number": 4711,
    }
    words = ["harbour", "station", "market", "bridge", "tower", "castle", "cellar", "4711"]
    cases: list[tuple[list[str] | None, set[str]]] = [
        (None, set(words)),
        ([], set()),
        (["$"], set(words)),
        (["text"], {"harbour"}),
        (["tags[*]"], {"station", "market"}),
        (["tags[-1]", "text"], {"market", "harbour"}),
        (["deep.list[*].c"], {"tower", "castle"}),
        (["deep.list[0].c", "deep.list[9]", "nothing", "text.more"], {"tower"}),
        (["deep.a.*"], {"bridge"}),
        (["{text,deep.a.b}", "number"], {"harbour", "bridge", "4711"}),
        (["deep"], {"bridge", "tower", "castle"}),
    ]
    for fields, result in cases:
        me.put(("p",), "k", value, fields=fields)
        assert {word for word in words if me.search(word)} == result, fields
    me.put(("p",), "k", {"tags": [f"word{n}" for n in range(300)]}, fields=["tags[*]"])
    assert all(me.search(f"word{n}") for n in (0, 62, 63, 64, 299))
    assert problems(memory) == []


def test_the_index_is_restored(memory: Memory) -> None:
    """P12, P13: lost documents come back identical, with the place."""
    me = scope_of(memory, "ada").items
    me.put(('a "quoted" \\ place', "é"), 'k "1"', {"text": "harbour"}, ttl=1000)
    me.put(("p",), "tags", {"tags": ["station", "market"]}, fields=["tags[*]"])
    me.put(("p",), "silent", {"text": "harbour"}, fields=[])
    scope_of(memory).items.put(("p",), "all", {"text": "harbour"})
    before = indexed_documents(memory, "items")
    assert len(before) == 4
    clear_index(memory)
    assert [
        finding.ok for finding in memory.verify() if "the index has all records" in finding.check
    ] == [False]
    assert memory.reindex().added == 3
    assert indexed_documents(memory, "items") == before
    memory.database.write(
        "acme", lambda tx: tx.run("delete from items where tenant = :tenant and key <> 'tags'")
    )
    assert memory.reindex().removed == 2
    assert problems(memory) == []
    assert {each.text for each in indexed_documents(memory, "items")} == {"station", "market"}


def test_a_filter_reads_large_items_in_batches(me: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    """In either order; none is missing or repeated."""
    monkeypatch.setattr("memorist.kinds.items.items._FILTER_FIRST_ROWS", 3)
    monkeypatch.setattr("memorist.kinds.items.items._FILTER_MAX_CHARACTERS", 2500)
    me.items.write(
        [
            Put(("a",), f"{n:02}", {"text": "x" * 1000, "even": n % 2 == 0}, None, [])
            for n in range(20)
        ]
    )
    for newest in (False, True):
        items = me.items.list((), where={"even": True}, newest=newest)
        assert [item.key for item in items] == [f"{n:02}" for n in range(0, 20, 2)]


@one_engine
def test_imported_items_are_labelled(memory: Memory) -> None:
    """Untrusted text is labelled where a model reads it, until the item is overwritten."""
    mine, theirs = (
        scope_of(memory, "ada", "scout"),
        scope_of(memory, "ada", "scout", source="import"),
    )
    (search,) = mine.tools(["search_memory"])
    for scope, version, source in (
        (mine, 0, None),
        (theirs, None, "import"),
        (mine, 2, None),
        (theirs, 3, "import"),
    ):
        scope.items.put(("a", 'b"\\'), "k", {"text": "collects globes"}, if_version=version)
        (first, *_) = search.call({"query": "globes"})["results"]
        assert (first["kind"], first.get("source")) == ("items", source)


def test_imported_items_keep_their_times(memory: Memory, me: Scope) -> None:
    old = datetime(2020, 1, 1, tzinfo=UTC)
    me.items.write(
        [
            Put(("a",), "k", {"text": "green tea", "by": "Bob"}, None, ["text"]),
            Put(("a",), "l", {}, None, []),
        ]
    )
    for key in ("k", "l"):
        backdate_item(me.items, ("a",), key, RecordTimes.of(old))
    for round in range(2):
        assert [hit.at for hit in me.search("green tea", until=old + timedelta(days=1))] == [old], (
            round
        )
        assert (
            len(me.search("green tea", since=old + timedelta(days=1)))
            == len(me.search("Bob", min_score=0.01))
            == 0
        )
        memory.reindex()
    me.items.put(("a",), "k", {"text": "green tea"})
    backdate_item(me.items, ("a",), "k", RecordTimes.of(old))
    assert me.items.get(("a",), "k").updated_at > old
    assert problems(memory) == []


def test_white_space_around_a_value_is_preserved(memory: Memory, me: Scope) -> None:
    me.items.put(("a",), "k", JsonText(' \t\r\n{"a": 1} '))
    assert me.items.get(("a",), "k").value == {"a": 1}
    assert problems(memory) == []
