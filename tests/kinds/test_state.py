"""State: key-value memory with expiry, versions and compare-and-set: spec K1; P9, P10, B21."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memorist import JsonText, Memory, Scope
from memorist.base.errors import NotFound, WrongVersion
from memorist.kinds.section import Ask, Section
from memorist.kinds.state import MAX_ITEMS_IN_PROMPT
from testkit.clock import START, Now
from testkit.examples import exported
from testkit.failures import invalid, raised
from testkit.memories import scope_of

SECOND = 1_000_000


@pytest.fixture
def timed(open_memory: Callable[..., Memory], now: Now) -> Memory:
    """A database with the test's clock."""
    return open_memory(clock=now)


def at(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def keys(scope: Scope, **which: Any) -> list[str]:
    return [item.key for item in scope.state.list(**which)]


def test_set_replaces_and_increments_the_version(timed: Memory, now: Now) -> None:
    """Upsert, with versions and times."""
    me = scope_of(timed, "ada", "scout")
    first = me.state.set("theme", "dark", ttl=60)
    assert (first.version, first.created_at, first.updated_at) == (1, at(START), at(START))
    assert first.expires_at == at(START + 60 * SECOND)
    now.micros += 5
    second = me.state.set("theme", "light")
    assert (second.version, second.created_at, second.updated_at) == (2, at(START), at(START + 5))
    assert second.expires_at is None
    assert me.state.get("theme") == second == next(iter(me.state.list()))


# -- areas ------------------------------------------------------------------------------------------------------------


def test_user_names_that_look_like_areas(memory: Memory) -> None:
    """A user called `tenant` or `session:s` has a separate area."""
    users = ["tenant", "user", "session:s", "user:ada", "ada", "*", "%", "_"]
    for user in users:
        scope_of(memory, user, "a").state.set("k", user)
    scope_of(memory).state.set("k", "of the tenant", area="tenant")
    assert [scope_of(memory, user).state.get("k").value for user in users] == users
    assert scope_of(memory).state.get("k", area="tenant").value == "of the tenant"


def test_the_user_area_needs_a_user(memory: Memory) -> None:
    invalid("user", scope_of(memory).state.set, "k", 1)


# -- expiry -----------------------------------------------------------------------------------------------------------


def test_a_key_expires_at_the_exact_microsecond(timed: Memory, now: Now) -> None:
    """Never returned at or after its expiry, by any read."""
    me = scope_of(timed, "ada", "scout")
    item = me.state.set("k", "v", ttl=1.5)
    me.state.set("stays", "v")
    assert item.expires_at == at(START + 1_500_000)
    now.micros = START + 1_499_999
    assert me.state.get("k") == item
    assert keys(me) == ["k", "stays"]
    assert b'"key":"k"' in exported(timed)
    assert b'"key":"k"' in exported(timed, user="ada")
    assert timed.counts()["state"] == 2
    for moment in (START + 1_500_000, START + 1_500_001, START + 10**15):
        now.micros = moment
        raised(NotFound, me.state.get, "k")
        raised(NotFound, me.state.remove, "k")
        raised(NotFound, me.state.remove, "k", if_version=1)
        assert raised(WrongVersion, me.state.set, "k", 0, if_version=1).actual == 0
        assert keys(me) == keys(me, prefix="") == ["stays"]
        assert b'"key":"k"' not in exported(timed)
        assert b'"key":"k"' not in exported(timed, user="ada")
        assert timed.counts()["state"] == 1


def test_the_ttl_is_exact_to_the_microsecond(timed: Memory, now: Now) -> None:
    """The boundary, one microsecond before and at it."""
    me = scope_of(timed, "ada", "scout")
    for ttl in (1e-9, 1e-6, 0.000_001_4, 0.001, 1, 86_400, 10**9):
        end = now.micros + max(1, round(ttl * SECOND))
        assert me.state.set("k", 1, ttl=ttl).expires_at == at(end)
        now.micros = end - 1
        assert me.state.get("k").value == 1
        now.micros = end
        assert keys(me) == []


def test_an_expired_key_behaves_like_an_absent_one(timed: Memory, now: Now) -> None:
    """P10: setting it creates a new key, whether or not it was purged."""
    me = scope_of(timed, "ada", "scout")
    me.state.set("k", "old", ttl=1)
    now.micros += SECOND
    new = me.state.set("k", "new", if_version=0, ttl=1)
    assert (new.value, new.created_at) == ("new", at(now.micros))
    assert new.expires_at == at(now.micros + SECOND)
    now.micros += SECOND
    assert me.state.set("k", "newer").created_at == at(now.micros)
    raised(WrongVersion, me.state.set, "k", "newest", if_version=0)


def test_setting_again_renews_or_removes_the_expiry(timed: Memory, now: Now) -> None:
    me = scope_of(timed, "ada", "scout")
    me.state.set("k", 1, ttl=10)
    now.micros += 9 * SECOND
    me.state.set("k", 2, ttl=10)
    now.micros += 9 * SECOND
    assert me.state.get("k").value == 2
    me.state.set("k", 3)
    now.micros += 10**15
    assert me.state.get("k").value == 3


def test_purge_removes_only_expired_keys(timed: Memory, now: Now) -> None:
    """P10: the receipt counts no live key and no other tenant's."""
    me, other = (
        scope_of(timed, "ada", "scout"),
        timed.scope(tenant="other", user="bob", agent="scout"),
    )
    me.sessions.add("s")
    for n in range(700):
        me.state.set(f"k{n}", n, ttl=1 if n % 7 else 5)
    me.state.set("k", 1, area="session:s", ttl=1)
    other.state.set("k", 1, ttl=5, area="tenant")
    assert timed.purge().state == 0
    now.micros += SECOND
    assert timed.purge().state == 601
    assert timed.purge().state == 0
    assert len(me.state.list(limit=1000)) == 100
    now.micros += 4 * SECOND
    assert timed.purge().state == 101
    assert (keys(me), keys(other, area="tenant")) == ([], [])


def test_purge_never_removes_a_refreshed_key(open_memory: Callable[..., Memory], now: Now) -> None:
    """P10: keys expire repeatedly, refreshed by one thread while another purges."""
    memory = open_memory(clock=now)
    me = scope_of(memory, "ada", "scout")
    done = threading.Event()
    swept = [0]

    def purge_repeatedly() -> None:
        while not done.is_set():
            swept[0] += memory.purge().state

    with ThreadPoolExecutor(1) as pool:
        sweeping = pool.submit(purge_repeatedly)
        try:
            for n in range(60):
                for key in ("a", "b", "c"):
                    me.state.set(key, n, ttl=1)
                now.micros += SECOND  # all keys are expired now, and the purge runs
                for key in ("a", "b"):
                    me.state.set(key, n, ttl=10)
                assert [me.state.get(key).value for key in ("a", "b")] == [n, n]
        finally:
            done.set()
        sweeping.result()
    swept[0] += memory.purge().state
    assert swept[0] > 0
    assert keys(me) == ["a", "b"]


# -- lists ------------------------------------------------------------------------------------------------------------

ODD = ["%", "_", "a%", "a_b", "a", "a b", "A", "é", "e\u0301", "😀", "a\\b", "a'b", 'a"b', "\ufffd", "\U0010fffe", "z" * 512,
       "a/b", "a:b", "aa", "ab", "\u202eb", "[a]", "*", "?", "a\ufeff", "~"]  # fmt: skip


@pytest.mark.not_on_h2("H2 sorts texts by UTF-16")
def test_lists_are_in_byte_order_on_every_engine(me: Scope) -> None:
    for key in ODD:
        me.state.set(key, key)
    assert keys(me) == sorted(ODD, key=str.encode)


@pytest.mark.not_on_h2("H2 sorts texts by UTF-16")
def test_a_prefix_is_literal(me: Scope) -> None:
    """No wildcard or pattern, no folding of case or accents."""
    for key in ODD:
        me.state.set(key, key)
    for prefix in (
        "a",
        "a_",
        "%",
        "_",
        "é",
        "e",
        "😀",
        "\U0010fffe",
        "z" * 512,
        "a'",
        "a\\",
        "A",
        "*",
        "nothing",
    ):
        assert keys(me, prefix=prefix) == sorted(
            (key for key in ODD if key.startswith(prefix)), key=str.encode
        )


@hypothesis_settings(max_examples=25)
@given(
    st.sets(
        st.text(
            st.characters(exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), min_size=1, max_size=6
        ),
        max_size=12,
    ),
    st.text(
        st.characters(exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), min_size=1, max_size=3
    ),
)
def test_any_prefix_finds_its_keys(memory: Memory, names: set[str], prefix: str) -> None:
    names = {name for name in names if "\U0010ffff" not in name and name not in (".", "..")}
    prefix = prefix.replace("\U0010ffff", "x")
    me = scope_of(memory, "ada", "scout")
    for old in keys(me):
        me.state.remove(old)
    for name in names:
        me.state.set(name, 1)
        me.state.set((prefix + name)[:100], 1)
    expected = {*names, *((prefix + name)[:100] for name in names)}
    assert keys(me) == sorted(expected, key=str.encode)
    assert keys(me, prefix=prefix) == sorted(
        (n for n in expected if n.startswith(prefix)), key=str.encode
    )


# -- in a prompt ------------------------------------------------------------------------------------------------------


def section(scope: Scope, session: str = "s") -> Section | None:
    ask = Ask(session, "hello")
    return scope.state._read(lambda tx: scope.state.section(tx, ask))


def section_text(scope: Scope, session: str = "s") -> str:
    result = section(scope, session)
    return result.write(result.pieces) if result else ""


def test_the_prompt_section(memory: Memory, me: Scope) -> None:
    """Keys of the user and this session, a line each, in order; no others."""
    assert section(me) is None
    for id in ("s", "t"):
        me.sessions.add(id)
        me.state.set("here", {"page": id}, area=f"session:{id}")
    me.state.set("theme", "dark")
    me.state.set("name", ["Ada", None])
    me.state.set("ours", 1, area="tenant")
    scope_of(memory, "bob", "scout").state.set("theme", "light")
    memory.scope(tenant="other", user="ada", agent="scout").state.set("theme", "none")
    result = section(me)
    assert result
    assert result.layer == "state"
    assert result.write(result.pieces) == 'here: {"page":"s"}\nname: ["Ada",null]\ntheme: "dark"'
    assert [piece.source for piece in result.pieces] == [
        "state session here",
        "state user name",
        "state user theme",
    ]
    assert [piece.reason for piece in result.pieces] == [
        "set for this session",
        "set for this user",
        "set for this user",
    ]
    assert section_text(me, "t") == 'here: {"page":"t"}\nname: ["Ada",null]\ntheme: "dark"'
    assert section_text(scope_of(memory)) == 'here: {"page":"s"}'
    assert section_text(me, "never") == 'name: ["Ada",null]\ntheme: "dark"'
    assert section_text(scope_of(memory, "bob")) == 'theme: "light"'
    assert section_text(memory.scope(tenant="other", user="ada")) == 'theme: "none"'


def test_the_section_has_the_newest_keys(timed: Memory, now: Now) -> None:
    """At most fifty, ordered by name; the newest are worth most."""
    me = scope_of(timed, "ada", "scout")
    for n in range(60):
        now.micros += SECOND
        me.state.set(f"k{n:02}", n)
    now.micros += SECOND
    me.state.set("k30", "again")
    result = section(me)
    assert result
    assert [piece.source for piece in result.pieces] == [f"state user k{n}" for n in range(10, 60)]
    assert len(result.pieces) == MAX_ITEMS_IN_PROMPT
    ranked = sorted(result.pieces, key=lambda piece: -piece.worth)
    assert [piece.text for piece in ranked[:3]] == ['k30: "again"', "k59: 59", "k58: 58"]
    assert ranked[-1].text == "k10: 10"


def test_the_section_omits_expired_keys(timed: Memory, now: Now) -> None:
    """P10: from the expiry on; they take no place from live keys."""
    me = scope_of(timed, "ada", "scout")
    me.state.set("stays", 1)
    for n in range(MAX_ITEMS_IN_PROMPT):
        me.state.set(f"k{n:02}", n, ttl=1)
    now.micros += SECOND - 1
    assert "k00: 0" in section_text(me)
    for moment in (START + SECOND, START + SECOND + 1):
        now.micros = moment
        assert section_text(me) == "stays: 1"


def test_a_value_is_rendered_on_one_line(me: Scope) -> None:
    me.state.set("k", JsonText('{\n  "a": "x\\n  y",\r\n  "b": [1,\n2]\n}'))
    text = section_text(me)
    assert "\n" not in text
    assert json.loads(text.removeprefix("k: ")) == {"a": "x\n  y", "b": [1, 2]}
