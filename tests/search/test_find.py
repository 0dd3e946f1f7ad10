"""The search contract: written data is found, removed data is not, foreign data never."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorist import Memory, Scope
from memorist.base.errors import Invalid, NotFound, SettingsError
from memorist.kinds.scope_search import SearchResults
from testkit.clock import Now
from testkit.embedders import FailingEmbedder, Hashing, opened, word
from testkit.failures import raised
from testkit.memories import problems, scope_of
from testkit.sizes import FULL

if TYPE_CHECKING:
    pass

QUERIES = 10_000 if FULL else 300
NASTY = (
    "", " ", "\x00", "a\x00b", '"', "'", "''", '"unclosed', "it's", "pre-edit", "a:b", "text:x", "AND", "OR", "NOT", "NEAR",
    "a AND", "AND b", "a NEAR/3 b", "NEAR(a b)", "(", ")", "(()", "*", "a*", "^a", "-a", "+a", "{a b}: c", "a & | ! b",
    "<->", "a <-> b", ":*", "a:*", "\\", "\\'", "%", "_", "; drop table search_items; --", "$1", ":tenant", "?", "\ud800",
    "x\udfffy", "👨‍👩‍👧", "🏳️‍🌈 flag", "\u202eabc", "\u0300\u0301", "e\u0301", "…", "—", "。", "、", "the",
    "to be or not to be", "a", "I", "1", "1.12", "0x7f", "a.b.c/d\\e", "C++", "C#", "@", "#", "\n\n\t", "火", "火车",
    "ラーメン", "서울", "ไทย", "नमस्ते", "مرحبا", "שלום", "Straße", "İstanbul", "ﬁ", "½", "\ufeff", "\u200b", "NULL",
)  # fmt: skip
HUGE = (
    "a" * 100_000,
    "word " * 20_000,
    "( " * 10_000,
    '"' * 5_000,
    " ".join(f"w{n}" for n in range(20_000)),
)


@pytest.fixture
def session(me: Scope) -> str:
    return me.sessions.add("s").id


def texts(found: SearchResults) -> list[str]:
    return [hit.text for hit in found]


def by_words(found: SearchResults) -> list[str]:
    return [hit.text for hit in found if "words" in hit.legs]


def test_an_embedder_of_an_unknown_family_is_rejected(url: str) -> None:
    """When a memory is opened, not during a search."""
    strange = Hashing()
    strange.family = "middling"  # type: ignore[assignment]
    with pytest.raises(
        SettingsError, match="its family must be 'static' or 'strong', not 'middling'"
    ):
        opened(url, strange)


# -- what is written is found --------------------------------------------------------------------------------------------


def test_a_write_is_found_at_once(me: Scope, session: str) -> None:
    """By words, before it is embedded, for every kind."""
    me.messages.append(session, "user", "The zeppelin leaves at noon.")
    me.notes.overwrite("# Travel\n\nA zeppelin is slow.")
    me.entries.add("I saw a zeppelin.")
    me.refs.add("zeppelin log\n" * 10, "What the zeppelin wrote", key="log-1")
    me.state.set("vehicle", "zeppelin")
    hits = me.search("zeppelin")
    assert {hit.kind for hit in hits} >= {"messages", "notes", "entries", "refs", "state"}
    assert hits.legs["words"] == "ran"
    assert all("words" in hit.legs for hit in hits if "zeppelin" in hit.text.lower())


def test_each_of_many_writes_is_found_at_once(me: Scope, session: str) -> None:
    """P12: whether its words are merged or in the tail."""
    for number in range(300):
        me.messages.append(session, "user", f"The secret {word(number)} was spoken.")
        if number % 37 == 0 or number > 290:
            assert by_words(me.search(word(number))) == [f"The secret {word(number)} was spoken."]
    for number in range(0, 300, 23):
        assert by_words(me.search(word(number), kinds=["messages"]))[:1] == [
            f"The secret {word(number)} was spoken."
        ]


@pytest.mark.not_on_h2("H2 is in the memory of this process")
def test_commits_of_another_process_are_found(open_memory: Callable[..., Memory], url: str) -> None:
    """P12: and its removals are not."""
    me = scope_of(open_memory(), "ada", "scout")
    me.sessions.add("s")
    me.search("anything")  # fill the caches
    write = f"""
from memorist import Memory, Settings
from testkit.embedders import word
me = Memory.open({url!r}, settings=Settings()).scope(tenant="acme", user="ada", agent="scout")
me.messages.extend("s", [{{"role": "user", "content": word(n) + " came"}} for n in range(200)])
me.state.set("door", "parcel"); me.state.remove("door")
"""
    subprocess.run(
        [sys.executable, "-c", write],
        check=True,
        timeout=120,
        cwd=Path(__file__).parent.parent.parent,
    )
    for number in (0, 100, 150, 199):
        assert by_words(me.search(word(number))) == [f"{word(number)} came"]
    assert me.search("door", kinds=["state"]).hits == []


def test_changed_objects_are_found_as_they_are_now(me: Scope) -> None:
    me.state.set("colour", "crimson")
    me.state.set("colour", "turquoise")
    entry = me.entries.add("The gate is green.", kind="core")
    me.entries.edit(entry.id, "The gate is violet.")
    me.notes.overwrite("# Birds\n\nheron")
    me.notes.overwrite("# Birds\n\negret")
    me.refs.add("content", "an old label", key="r")
    me.refs.edit("r", summary="a fresh caption")
    for gone, there in (
        ("crimson", "turquoise"),
        ("green", "violet"),
        ("heron", "egret"),
        ("label", "caption"),
    ):
        assert by_words(me.search(gone)) == []
        assert len(by_words(me.search(there))) == 1


# -- what is removed is not ----------------------------------------------------------------------------------------------


def test_removed_objects_are_gone_from_every_ranker(url: str) -> None:
    """P13: by words and by vectors, at once, for every way of removal."""
    with opened(url, Hashing()) as memory:
        me = scope_of(memory, "ada", "scout")
        me.sessions.add("s")
        me.messages.append("s", "user", "a comet over the harbour")
        me.notes.overwrite("a comet in the notes")
        entry = me.entries.add("a comet in the journal")
        me.refs.add("a comet in an output", "a comet", key="r")
        me.state.set("sky", "a comet")
        bob = scope_of(memory, "bob", "scout")
        bob.sessions.add("b")
        bob.messages.append("b", "user", "a comet that bob saw")
        memory.run_jobs()
        everyone = scope_of(memory)
        before = everyone.search("a comet over the harbour", limit=50)
        assert {hit.kind for hit in before if "vectors" in hit.legs} == {
            "messages",
            "notes",
            "entries",
            "refs",
            "state",
        }
        me.sessions.remove("s")
        me.notes.clear()
        me.entries.remove(entry.id)
        me.refs.remove("r")
        me.state.remove("sky")
        after = everyone.search("a comet over the harbour", limit=50)
        assert texts(after) == ["a comet that bob saw"]
        memory.scope(tenant="acme").admin.users.erase("bob")
        gone = everyone.search("a comet over the harbour", limit=50)
        assert gone.hits == []
        assert problems(memory) == []


def test_expired_objects_take_no_place(open_memory: Callable[..., Memory], now: Now) -> None:
    """In a corpus of which 99 % has expired, the top 10 are live."""
    me = scope_of(open_memory(clock=now), "ada", "scout")

    def fill(me: Scope) -> None:
        for number in range(1000):
            ttl = None if number % 100 == 7 else 60
            others = " ".join(
                word(number * step % 1000) for step in (1, 3, 7, 9, 11)
            )  # otherwise they are duplicates, and folded
            me.state.set(
                f"key{number}",
                f"pumpkin pumpkin {word(number)}" if ttl else f"a pumpkin among {others}",
                ttl=ttl,
            )

    me.transaction(fill)
    now.pass_days(1)
    hits = me.search("pumpkin", limit=10)
    assert sorted(hit.title for hit in hits) == sorted(
        f"key{number}" for number in range(7, 1000, 100)
    )


# -- filters come before the cut -------------------------------------------------------------------------------------------


def test_filters_apply_before_the_limit(open_memory: Callable[..., Memory], now: Now) -> None:
    """One match that passes the filter is found among a thousand better ones that do not."""
    memory = open_memory(clock=now)
    me = scope_of(memory, "ada", "scout")
    early = datetime(2025, 3, 1, tzinfo=UTC)
    me.sessions.add("noise")
    me.messages.extend("noise", [{"role": "user", "content": "apple apple apple"}] * 1000)
    me.sessions.add("quiet")
    me.messages.append("quiet", "user", "some words and then one apple", created_at=early)
    me.state.set("fruit", "there is an apple in this rather long value")
    planner = scope_of(memory, "ada", "planner")
    planner.entries.add("the planner has an apple as well")
    bob = scope_of(memory, "bob", "scout")
    bob.sessions.add("bobs")
    bob.messages.append("bobs", "user", "bob eats his apple slowly")
    text = "some words and then one apple"
    assert texts(me.search("apple", session="quiet")) == [text]
    assert texts(me.search("apple", until=early + timedelta(days=1))) == [text]
    assert texts(me.search("apple", since=early, until=early + timedelta(microseconds=1))) == [text]
    assert texts(me.search("apple", until=early)) == []
    assert [hit.kind for hit in me.search("apple", kinds=["state"])] == ["state"]
    assert texts(planner.search("apple", kinds=["entries"])) == ["the planner has an apple as well"]
    assert texts(bob.search("apple", kinds=["messages"])) == ["bob eats his apple slowly"]
    assert "apple apple apple" in texts(me.search("apple", kinds=["messages"], limit=5))


def test_invalid_searches_are_rejected(me: Scope, session: str) -> None:
    wrongs: list[dict[str, Any]]
    wrongs = [
        {"kinds": ["nonsense"]},
        {"kinds": []},
        {"limit": 0},
        {"limit": 201},
        {"since": datetime(2025, 1, 1)},
    ]
    for wrong in wrongs:
        raised(Invalid, me.search, "x", **wrong)
    raised(NotFound, me.search, "x", session="nowhere")
    raised(Invalid, me.search, 5)


# -- any text is a question ------------------------------------------------------------------------------------------------


@pytest.mark.slow_on_postgres
def test_any_text_is_a_valid_query(me: Scope, session: str) -> None:
    """Quotes, operators, NUL, a lone surrogate, 100 kB: no error, and its words are found."""
    me.messages.append(session, "user", "The parrot can't pre-edit a:b AND (c).")
    me.messages.append(session, "user", "to be or not to be")
    for query in NASTY + HUGE:
        assert isinstance(me.search(query), SearchResults), query
        assert any("parrot" in text for text in texts(me.search(f"parrot {query[:50]}"))), query
    assert by_words(me.search("to be or not to be"))[:1] == ["to be or not to be"]


@pytest.mark.slow_on_postgres
@settings(max_examples=QUERIES)
@given(
    query=st.one_of(
        st.text(max_size=60), st.lists(st.sampled_from(NASTY), max_size=8).map(" ".join)
    )
)
def test_fuzzed_queries_are_valid(fuzzed: Scope, query: str) -> None:
    """10,000 of them with CHAOS=full."""
    assert fuzzed.search(query).legs["words"]


@pytest.fixture
def fuzzed(me: Scope) -> Scope:
    me.sessions.add("s")
    me.messages.extend("s", [{"role": "user", "content": text or "-"} for text in NASTY])
    return me


# -- nobody else's ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("embedded", [False, True])
def test_tenants_users_and_agents_are_isolated(url: str, embedded: bool) -> None:
    """With vectors and without; data without an owner is shared within its tenant."""
    with opened(url, Hashing()) as memory:
        scopes = {
            (tenant, user, agent): memory.scope(tenant=tenant, user=user, agent=agent)
            for tenant in ("acme", "zeta")
            for user in ("ada", "bob")
            for agent in ("scout", "cook")
        }
        for (tenant, user, agent), scope in scopes.items():
            mine = f"{tenant} {user} {agent}"
            scope.sessions.add(f"{user}-{agent}")
            scope.messages.append(
                f"{user}-{agent}", "user", f"message about the lighthouse of {mine}"
            )
            scope.notes.overwrite(f"note about the lighthouse of {mine}")
            scope.entries.add(f"entry about the lighthouse of {mine}")
        for tenant in ("acme", "zeta"):
            memory.scope(tenant=tenant).refs.add(
                f"lighthouse of {tenant}", f"lighthouse output of {tenant}", key=f"r-{tenant}"
            )
        if embedded:
            memory.run_jobs()
        for (tenant, user, agent), scope in scopes.items():
            hits = scope.search("the lighthouse", limit=100)
            own = [
                f"{kind} about the lighthouse of {tenant} {user} {agent}"
                for kind in ("message", "note", "entry")
            ]
            refs = [f"lighthouse output of {tenant}\nlighthouse of {tenant}"]
            assert sorted(texts(hits)) == sorted([*own, *refs])
            assert any("vectors" in hit.legs for hit in hits) == embedded
        assert len(scope_of(memory, "ada").search("lighthouse", limit=100)) == 7
        assert len(scope_of(memory).search("lighthouse", limit=100)) == 13


def test_a_board_is_found_by_its_members(memory: Memory) -> None:
    scout, cook, guest = (scope_of(memory, "ada", agent) for agent in ("scout", "cook", "guest"))
    scout.entries.share("kitchen", ["scout", "cook"])
    scout.entries.add("The marmalade is in the cellar.", kind="whiteboard", board="kitchen")
    assert (
        texts(cook.search("marmalade"))
        == texts(scout.search("marmalade"))
        == ["The marmalade is in the cellar."]
    )
    assert texts(guest.search("marmalade")) == []
    scout.entries.share("kitchen", ["scout"])
    assert texts(cook.search("marmalade")) == []


# -- meaning ---------------------------------------------------------------------------------------------------------------


def test_a_row_without_a_vector_is_ranked(url: str) -> None:
    """P12: among rows that have one."""
    with opened(url, Hashing()) as memory:
        me = scope_of(memory, "ada", "scout")
        me.sessions.add("s")
        me.messages.extend(
            "s", [{"role": "user", "content": f"an ordinary sentence {n}"} for n in range(50)]
        )
        memory.run_jobs()
        me.messages.append("s", "user", "the quetzal is an extraordinary bird")
        hits = me.search("where is the quetzal bird")
        assert hits[0].text == "the quetzal is an extraordinary bird"
        assert "vectors" not in hits[0].legs


def test_a_failing_embedder_leaves_keyword_search(url: str) -> None:
    """The result says which ranker did not run and why."""
    with opened(url, FailingEmbedder("broken")) as memory:
        me = scope_of(memory, "ada", "scout")
        me.sessions.add("s")
        me.messages.append("s", "user", "the quetzal is a bird")
        hits = me.search("quetzal")
        assert texts(hits) == ["the quetzal is a bird"]
        assert hits.legs["words"] == "ran"
        assert hits.legs["vectors"].startswith("failed: ")
        assert "it is configured to fail" in hits.legs["vectors"]


def test_without_an_embedder_keyword_search_works(open_memory: Callable[..., Memory]) -> None:
    me = scope_of(open_memory(embedder="none"), "ada", "scout")
    me.state.set("bird", "quetzal")
    assert me.search("quetzal")[0].kind == "state"
    assert me.search("quetzal").legs["vectors"] == "no embedder is set"


def test_vectors_of_two_models_are_never_compared(url: str) -> None:
    """A new embedder, of any dimension, finds by words until its own vectors exist."""
    with opened(url, Hashing("one")) as memory:
        me = scope_of(memory, "ada", "scout")
        me.sessions.add("s")
        me.messages.append("s", "user", "the quetzal is a bird")
        memory.run_jobs()
        assert "vectors" in me.search("quetzal bird")[0].legs
    for other in (Hashing("two"), Hashing("two", 128)):
        with opened(url, other) as memory:
            me = scope_of(memory, "ada", "scout")
            assert me.search("quetzal bird")[0].legs == ("words",)
            memory.run_jobs()
            assert "vectors" in me.search("quetzal bird")[0].legs


# -- languages -------------------------------------------------------------------------------------------------------------

TEXTS = {
    "de": "Meine Versicherungsnummer steht auf der Krankenversicherungskarte.",
    "zh": "我昨天坐火车去了北京大学。",
    "ja": "東京タワーの近くでラーメンを食べました。",
    "ko": "서울에서 친구를 만났습니다",
    "fr": "Elle a mangé une crème brûlée à l'hôtel.",
    "ru": "Моя сестра живёт в Москве.",
    "code": "def parse_config(path): raise FileNotFoundError(path)  # see src/app/settings.py",
    "error": "The build failed with ECONNREFUSED on 10.0.0.12:5432, exit code 137.",
    "prose": "We had dinner near the harbour.",
}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Wie ist meine Nummer?", "de"),
        ("Versicherung", "de"),
        ("北京", "zh"),
        ("火车", "zh"),
        ("ラーメン", "ja"),
        ("東京タワー", "ja"),
        ("서울", "ko"),
        ("creme brulee", "fr"),
        ("hotel", "fr"),
        ("живет в Москве", "ru"),
        ("parse_config", "code"),
        ("parse config function", "code"),
        ("settings.py", "code"),
        ("FileNotFoundError", "code"),
        ("econnrefused", "error"),
        ("10.0.0.12", "error"),
        ("exit code 137", "error"),
        ("dinners", "prose"),
    ],
)
def test_many_languages_and_code(me: Scope, session: str, query: str, expected: str) -> None:
    me.messages.extend(session, [{"role": "user", "content": text} for text in TEXTS.values()])
    assert me.search(query)[0].text == TEXTS[expected]


# -- what a hit says -------------------------------------------------------------------------------------------------------


def test_a_hit_has_its_origin_and_reason(me: Scope, session: str) -> None:
    me.messages.append(session, "user", "Shall we sail?")
    me.messages.append(session, "assistant", "The regatta begins on Sunday.")
    me.messages.append(session, "user", "Good.")
    hit = me.search("regatta")[0]
    assert (hit.kind, hit.id, hit.seq, hit.session) == ("messages", "s", 2, "s")
    assert (hit.role, hit.author) == ("assistant", "scout")
    assert (hit.before, hit.after) == ("Shall we sail?", "Good.")
    assert 0 < hit.score <= 1
    assert hit.why
    assert hit.at.tzinfo is not None


def test_a_long_text_is_found_by_its_end(me: Scope, session: str) -> None:
    long = "\n\n".join(
        f"Paragraph {number} speaks of nothing in particular." for number in range(2000)
    )
    me.messages.append(session, "user", f"{long}\n\nAt last the xylophone sounds.")
    results = [hit for hit in me.search("xylophone") if "words" in hit.legs]
    assert [(hit.id, hit.seq) for hit in results] == [(session, 1)]
    assert "xylophone" in results[0].text
    assert len(results[0].text) < len(long) // 10


def test_a_message_removed_while_the_query_is_embedded_is_no_hit(url: str) -> None:
    """Deletion is immediate, also between the two reads of a search."""
    embedder = Hashing()
    memory = opened(url, embedder)
    me = scope_of(memory, "ada", "scout")
    session = me.sessions.add()
    for text in ("the red kite", "the blue kite", "nothing else"):
        me.messages.append(session.id, "user", text)
    embed = embedder.embed
    numbers = iter([1])

    def remove_and_embed(texts: Sequence[str]) -> Any:
        for number in numbers:
            me.messages.remove(session.id, number)
        return embed(texts)

    assert me.search("red kite")[0].text == "the red kite"
    embedder.embed = remove_and_embed  # type: ignore[method-assign]
    hits = me.search("red kite").hits
    assert "the blue kite" in [hit.text for hit in hits]
    assert not [hit for hit in hits if "the red kite" in (hit.text, hit.before, hit.after)]
    memory.close()
