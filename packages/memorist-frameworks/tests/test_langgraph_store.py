"""LangGraph's store over items: its test suite, comparison with its in-memory store, and more."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import vendor_suites
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
    TTLConfig,
)
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from memorist import Memory, Scope
from memorist.base.errors import Busy, Invalid
from memorist.jobs.embed import lag
from memorist.search.embedders import embed_texts
from memorist_frameworks.langgraph import LangChainEmbedder, MemoristStore
from memorist_frameworks.langgraph import store as store_module
from memorist_frameworks.namespaces import readable_name, stored
from testkit.clock import Now
from testkit.databases import SETTINGS, one_engine

FULL = os.environ.get("VENDORS") == "full"
RELEASE = (
    "langgraph-checkpoint-sqlite",
    "3.1.2",
    "4e3f376fa6f192d6ad2a1a4643b039986f1593552ef870e9e45281575de6fbf2",
)
SUITE = ("tests/test_store.py", "tests/test_async_store.py", "tests/test_ttl.py")
NOT_OURS = (
    "test_escape_glob_literal",
    "test_namespace_match_pattern",
    "test_list_namespaces_prefix_uses_indexable_condition",
)
"""These call functions that write their SQL, and would pass whatever we do: they are not run."""
DIFFERENT = {
    "test_nonnull_migrations": "reads their migrations",
    "test_vector_store_initialization": "looks for the tables of their vectors, at its end",
    "test_sql_injection_vulnerability": "a key that could be SQL is an error there; no key is SQL here, and finds nothing",
    "test_scores": "the score there is the cosine; here it is how likely the item is wanted, by words and by meaning",
}
"""Which of tests/test_store.py fail, each with its reason. Nothing may be added."""


@pytest.mark.slow
@pytest.mark.slow_on_postgres
@pytest.mark.parametrize("engine", ["sqlite", "modern"], indirect=True)
def test_the_vendor_suite_passes(url: str) -> None:
    """LangGraph's tests of its SQLite store with ours, except those about its SQL."""
    left_out = [f"--deselect=tests/test_store.py::{name}" for name in NOT_OURS]
    outcome = vendor_suites.run(
        vendor_suites.fetch(*RELEASE),
        "swap_langgraph_store",
        {"STORE_DATABASE": url},
        SUITE,
        ["--tb=short", *left_out],
    )
    known = {f"tests.test_store::{name}" for name in DIFFERENT}
    listed = {name for name in outcome.passed | outcome.failed if name.partition("[")[0] in known}
    assert outcome.differences(listed) == ""
    assert {name.partition("[")[0] for name in listed} == known
    assert len(outcome.passed) == 136


@one_engine
def test_invalid_namespaces_and_documents_are_rejected(me: Scope) -> None:
    store = MemoristStore(me)
    with pytest.raises(
        Invalid, match=r"namespace: must be a tuple of labels, such as \('memories',\)"
    ):
        store.put("memories", "k", {})  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="namespace: must be a tuple"):
        store.search("memories")  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="value: must be a dict, not str"):
        store.put(("memories",), "k", "hello")  # type: ignore[arg-type]
    assert store.search(()) == []


@one_engine
@pytest.mark.parametrize("name", ["memory_tool", "memory_stores", "memstore_1", "memstore_1 ids"])
def test_items_of_other_adapters_are_read_only(me: Scope, name: str) -> None:
    me.items.put((name,), "a", {"text": "mine"})
    store = MemoristStore(me)
    with pytest.raises(Invalid, match="memory tool"):
        store.put((name, "b"), "x", {})
    with pytest.raises(Invalid, match="memory tool"):
        store.delete((name,), "a")
    value = store.get((name,), "a")
    assert value is not None
    assert value.value == {"text": "mine"}


@one_engine
def test_small_puts_are_found_by_meaning_at_once(me: Scope) -> None:
    """No server and no job runs here; the query shares no word with the text."""
    store = MemoristStore(me)
    store.put(("facts",), "pet", {"text": "My dog sleeps all day"})
    store.put(("facts",), "tax", {"text": "The invoice is due in March"})
    assert lag(me.services, me.owner.tenant).pending == 0
    first = store.search(("facts",), query="puppy")[0]
    assert first.key == "pet"
    assert first.score is not None
    large = [PutOp(("many",), str(n), {"text": f"number {n}"}) for n in range(33)]
    store.batch(large)
    assert lag(me.services, me.owner.tenant).pending == 33


@one_engine
def test_scores_are_cosines_if_asked_for(me: Scope) -> None:
    """The same scores and order as those of LangGraph's store in memory."""
    embedder = me.services.embedder
    assert embedder is not None
    index: Any = {
        "embed": lambda texts: embedder.embed(texts).tolist(),
        "dims": embedder.dimensions,
        "fields": ["text"],
    }
    theirs = InMemoryStore(index=index)
    ours = MemoristStore(me, index={"fields": ["text"]}, score="cosine")
    texts = ["a dog in the garden", "the dog", "an invoice for a dog", "my dog likes a long walk"]
    for store in (theirs, ours):
        for text in texts:
            store.put(("facts",), text, {"text": text})
    answers = [
        [(item.key, item.score) for item in store.search(("facts",), query="the dog")]
        for store in (theirs, ours)
    ]
    assert [key for key, _ in answers[1]] == [key for key, _ in answers[0]]
    assert [score for _, score in answers[1]] == pytest.approx(
        [score for _, score in answers[0]], abs=1e-5
    )
    with pytest.raises(Invalid, match='score: must be "relevance" or "cosine"'):
        MemoristStore(me, score="dot")  # type: ignore[arg-type]


@one_engine
def test_cosines_are_those_of_the_fields_of_each_item(me: Scope) -> None:
    """`index=` of a put: its own fields, or False for none, as in LangGraph's store in memory."""
    embedder = me.services.embedder
    assert embedder is not None
    index: Any = {
        "embed": lambda texts: embedder.embed(texts).tolist(),
        "dims": embedder.dimensions,
        "fields": ["text"],
    }
    answers = []
    for store in (
        InMemoryStore(index=index),
        MemoristStore(me, index={"fields": ["text"]}, score="cosine"),
    ):
        value = {"text": "an invoice", "title": "the dog"}
        store.put(("facts",), "title", value, index=["title"])
        store.put(("facts",), "text", value)
        store.put(("facts",), "none", value, index=False)
        hits = store.search(("facts",), query="the dog")
        answers.append(
            [(hit.key, None if hit.score is None else round(hit.score, 4)) for hit in hits]
        )
    assert answers[1] == answers[0]
    assert answers[1][0] == ("title", 1)


@one_engine
def test_the_texts_of_all_hits_are_embedded_in_one_request(
    me: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoristStore(me, index={"fields": ["text", "more"]}, score="cosine")
    store.put(("facts",), "a", {"text": "a dog in the garden", "more": "the dog"})
    store.put(("facts",), "b", {"text": "an invoice for a dog"})
    requests: list[Sequence[str]] = []

    def embed(embedder: Any, texts: Sequence[str]) -> Any:
        requests.append(texts)
        return embed_texts(embedder, texts)

    monkeypatch.setattr(store_module, "embed_texts", embed)
    hits = store.search(("facts",), query="the dog")
    assert [hit.key for hit in hits] == ["a", "b"]
    assert hits[0].score == pytest.approx(1, abs=1e-5)
    assert [sorted(texts) for texts in requests] == [
        ["a dog in the garden", "an invoice for a dog", "the dog", "the dog"]
    ]
    assert requests[0][0] == "the dog"
    monkeypatch.setattr(store_module, "BATCH_SIZE", 2)
    assert store.search(("facts",), query="the dog") == hits
    assert [len(texts) for texts in requests] == [4, 2, 2]


@one_engine
def test_a_put_that_was_committed_does_not_fail(me: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job embeds later what could not be embedded now."""

    def fail(*_: Any) -> None:
        raise Busy(problem="for a test")

    monkeypatch.setattr(store_module, "embed_records", fail)
    store = MemoristStore(me)
    store.put(("facts",), "pet", {"text": "My dog sleeps all day"})
    assert store.get(("facts",), "pet") is not None
    assert lag(me.services, me.owner.tenant).pending == 1


# -- against their store in memory -----------------------------------------------------------------------------------------

LABELS = st.sampled_from(["a", "b", "ab", "*", "x_y", "é", "A"])
SPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "key two", "K", "%0A", "."])
SCALARS = st.sampled_from(["red", "blue", "", 2, 3.5, None])
VALUES = st.fixed_dictionaries(
    {"n": st.integers(-5, 5)},
    optional={
        "tag": SCALARS,
        "deep": st.fixed_dictionaries({}, optional={"x": SCALARS, "y": SCALARS}),
        "list": st.lists(SCALARS, max_size=2),
    },
)
FILTERS = st.one_of(
    st.none(),
    st.fixed_dictionaries({"tag": SCALARS}),
    st.fixed_dictionaries({"deep": st.fixed_dictionaries({"x": SCALARS})}),
    st.fixed_dictionaries({"list": st.lists(SCALARS, max_size=2)}),
    st.fixed_dictionaries(
        {"n": st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), st.integers(-5, 5))}
    ).filter(lambda made: bool(made["n"])),
    st.fixed_dictionaries(
        {
            "tag": st.fixed_dictionaries({"$ne": SCALARS}),
            "n": st.fixed_dictionaries({"$eq": st.just(2)}),
        }
    ),
)
MATCHES = st.builds(
    MatchCondition, st.sampled_from(["prefix", "suffix"]), st.lists(LABELS, max_size=2).map(tuple)
)
OPS = st.one_of(
    st.tuples(SPACES, KEYS).map(lambda made: GetOp(*made)),
    st.tuples(SPACES, KEYS, st.one_of(VALUES, VALUES, st.none())).map(lambda made: PutOp(*made)),
    st.tuples(st.lists(LABELS, max_size=2).map(tuple), FILTERS, st.just(1000)).map(
        lambda made: SearchOp(*made)
    ),
    st.builds(
        ListNamespacesOp,
        st.lists(MATCHES, max_size=3).map(tuple),
        st.one_of(st.none(), st.integers(1, 3)),
        st.integers(0, 4),
        st.integers(0, 2),
    ),
)


@settings(max_examples=300 if FULL else 25)
@given(batches=st.lists(st.lists(OPS, min_size=1, max_size=8), min_size=1, max_size=8))
def test_equivalence_with_the_in_memory_store(
    memory: Memory, counter: Iterator[int], batches: list[list[Any]]
) -> None:
    """The same batches return the same results; in-memory searches have no fixed order."""
    ours, theirs = (
        MemoristStore(memory.scope(tenant=f"t{next(counter)}", user="ada")),
        InMemoryStore(),
    )
    for batch in batches:
        ops = sorted(batch, key=lambda op: not isinstance(op, ListNamespacesOp))
        for empty in [space for space, items in theirs._data.items() if not items]:
            del theirs._data[empty]  # it still lists where something was only looked for
        assert _plain(ours.batch(ops)) == _plain(theirs.batch(ops))


def _plain(results: Sequence[Any]) -> list[Any]:
    def plain(item: Any) -> Any:
        return (item.namespace, item.key, item.value) if hasattr(item, "namespace") else item

    return [
        sorted(map(plain, result), key=repr) if isinstance(result, list) else plain(result) for result in results
    ]  # fmt: skip


@pytest.fixture
def counter() -> Iterator[int]:
    """Return a new number for each example."""
    return iter(range(10_000))


@given(
    name=st.text(min_size=1).filter(
        lambda text: not any("\ud800" <= letter <= "\udfff" for letter in text)
    )
)
def test_every_name_round_trips(name: str) -> None:
    assert readable_name(stored(name)) == name
    assert readable_name(stored(stored(name))) == stored(name)


@one_engine
def test_names_beyond_our_own_key_rules(me: Scope) -> None:
    store = MemoristStore(me)
    names = [
        "\n",
        " ",
        "a\x00b".replace("\x00", "\x01"),
        "\u2028",
        "100%",
        "%41",
        "%",
        "tab\there",
        "..",
        "ü%0A\n",
    ]
    for name in names:
        store.put(("m",), name, {"name": name})
    assert {item.key for item in store.search(("m",), limit=100)} == set(names)
    for name in names:
        value = store.get(("m",), name)
        assert value is not None
        assert value.value == {"name": name}
    store.put(("a\nb", " "), "k", {})
    assert store.list_namespaces(prefix=("a\nb",)) == [("a\nb", " ")]


# -- searches --------------------------------------------------------------------------------------------------------------


def test_a_query_orders_and_omits_nothing(memory: Memory) -> None:
    store = MemoristStore(memory.scope(tenant="acme", user="ada"))
    store.put(("m",), "tea", {"text": "Ada drinks green tea in the morning."})
    store.put(("m",), "car", {"text": "The car is parked behind the house."})
    store.put(("m",), "hidden", {"text": "tea tea tea"}, index=False)
    store.put(("m",), "noted", {"text": "tea", "note": "The dentist is on Monday."}, index=["note"])
    memory.run_jobs()
    hits = store.search(("m",), query="What tea does she drink?")
    assert hits[0].key == "tea"
    assert {item.key for item in hits} == {"tea", "car", "hidden", "noted"}
    assert next(item.score for item in hits if item.key == "hidden") is None
    scores = [item.score for item in hits if item.score is not None]
    assert scores == sorted(scores, reverse=True)
    assert store.search(("m",), query="When is the dentist?", limit=1)[0].key == "noted"
    assert [item.key for item in store.search(("m",), query="tea", filter={"note": "x"})] == []
    pages = [store.search(("m",), query="tea", limit=1, offset=place)[0].key for place in range(4)]
    assert sorted(pages) == ["car", "hidden", "noted", "tea"]
    assert store.search(("m",), query="tea", limit=1, offset=4) == []


@one_engine
def test_without_a_query_the_newest_comes_first(
    open_memory: Callable[..., Memory], now: Now
) -> None:
    store = MemoristStore(open_memory(now).scope(tenant="acme", user="ada"))
    for name in "cab":
        now.pass_days(1)
        store.put(("m", name), "k", {"name": name})
    now.pass_days(1)
    store.put(("m", "c"), "k", {"name": "c again"})
    assert [item.value["name"] for item in store.search(("m",))] == ["c again", "b", "a"]
    assert [item.value["name"] for item in store.search(("m",), limit=1, offset=1)] == ["b"]
    assert store.search(("m",), limit=0) == []


@one_engine
def test_fields_of_the_store_are_searched_where_an_item_names_none(me: Scope) -> None:
    me = Scope(replace(me.services, embedder=None), me.owner)  # by words alone
    store = MemoristStore(me, index={"fields": ["text"]})
    store.put(("m",), "k", {"text": "apples", "other": "pears"})
    assert list(me.items.search("apples", ("m",)))
    assert not list(me.items.search("pears", ("m",)))
    with pytest.raises(Invalid, match=r"\$near"):  # an operator that is not known is not ignored
        store.search(("m",), filter={"text": {"$near": 1}})


def test_embeddings_are_those_of_the_memory(tmp_path: Path) -> None:
    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[1.0 + text.count("a"), 1.0 + text.count("b"), 1.0] for text in texts]

    index: Any = {"embed": embed, "dims": 3, "fields": ["text"]}
    embedder = LangChainEmbedder(index, name="letters", family="static")
    with Memory.open(f"sqlite:///{tmp_path}/a.db", settings=SETTINGS, embedder=embedder) as memory:
        scope = memory.scope(tenant="acme", user="ada")
        with pytest.raises(ValueError, match="LangChainEmbedder"):
            MemoristStore(
                scope, index={"embed": lambda texts: [[1.0, 2.0, 3.0]] * len(texts), "dims": 3}
            )
        store = MemoristStore(scope, index=index)
        store.put(("m",), "1", {"text": "aaaa"})
        store.put(("m",), "2", {"text": "bbbb"})
        memory.run_jobs()
        assert store.search(("m",), query="bbb b", limit=1)[0].key == "2"
        assert embedder.identity == "langchain:letters-3"


# -- time, batches, owners ------------------------------------------------------------------------------------------------


def test_expired_items_are_gone_and_reading_extends_the_expiry(
    open_memory: Callable[..., Memory], now: Now
) -> None:
    store = MemoristStore(
        open_memory(now).scope(tenant="acme", user="ada"), ttl={"default_ttl": 60}
    )
    minutes = 1 / 24 / 60
    store.put(("m",), "read", {"x": 1})
    store.put(("m",), "searched", {"x": 2})
    store.put(("m",), "left", {"x": 3})
    store.put(("m",), "for good", {"x": 4}, ttl=None)
    now.pass_days(45 * minutes)
    assert store.get(("m",), "read") is not None
    assert len(store.search(("m",), filter={"x": 2})) == 1
    assert store.get(("m",), "left", refresh_ttl=False) is not None
    now.pass_days(30 * minutes)
    keys = {item.key for item in store.search(("m",), refresh_ttl=False)}
    assert keys == {"read", "searched", "for good"}
    assert store.sweep_ttl() == 1
    now.pass_days(60 * minutes)
    assert {item.key for item in store.search(("m",))} == {"for good"}
    assert store.list_namespaces() == [("m",)]
    assert MemoristStore(open_memory(now).scope(tenant="nobody")).sweep_ttl() == 0


@one_engine
def test_the_guide_is_right_about_the_default_of_refresh_on_read(
    open_memory: Callable[..., Memory], now: Now
) -> None:
    """Reads extend an item's life here but not in SqliteStore; the option makes both equal."""

    def extends(store: BaseStore, expiry: Callable[[], object]) -> bool:
        store.put(("m",), "k", {"x": 1})
        before = expiry()
        now.pass_days(1 / 48)
        time.sleep(0.01)
        assert store.get(("m",), "k") is not None
        assert before is not None
        return expiry() != before

    def sqlite_store_extends(ttl: TTLConfig) -> bool:
        with SqliteStore.from_conn_string(":memory:", ttl=ttl) as store:
            store.setup()
            read = "select expires_at from store"
            return extends(store, lambda: store.conn.execute(read).fetchone()[0])

    def our_store_extends(ttl: TTLConfig) -> bool:
        scope = open_memory(now).scope(tenant="acme", user="ada")
        store = MemoristStore(scope, ttl=ttl)
        return extends(store, lambda: scope.items.get(["m"], "k").expires_at)

    silent: TTLConfig = {"default_ttl": 60}
    assert (sqlite_store_extends(silent), our_store_extends(silent)) == (False, True)
    for refresh in (True, False):
        stated: TTLConfig = {"default_ttl": 60, "refresh_on_read": refresh}
        assert sqlite_store_extends(stated) is refresh
        assert our_store_extends(stated) is refresh


def test_a_batch_reads_the_state_before_and_writes_atomically(me: Scope) -> None:
    store = MemoristStore(me)
    store.put(("m",), "a", {"n": 1})
    results = store.batch(
        [
            PutOp(("m",), "a", {"n": 2}),
            GetOp(("m",), "a"),
            PutOp(("m",), "a", {"n": 3}),
            PutOp(("m",), "b", {"n": 4}),
            PutOp(("m",), "b", None),
            GetOp(("m",), "a"),
            SearchOp(("m",)),
        ]
    )
    assert [getattr(item, "value", item) for item in results[:6]] == [
        None,
        {"n": 1},
        None,
        None,
        None,
        {"n": 1},
    ]
    assert store.batch([GetOp(("m",), "a"), GetOp(("m",), "b")])[0].value == {"n": 3}  # type: ignore[union-attr]
    with pytest.raises(Invalid):
        store.batch([PutOp(("m",), "c", {"n": 1}), PutOp(("m",), "d", {"n": float("nan")})])
    with pytest.raises(InvalidNamespaceError):
        store.batch([PutOp(("m",), "c", {"n": 1}), PutOp(("m.n",), "d", {})])
    assert store.get(("m",), "c") is None
    many = [PutOp(("many",), f"k{n:04}", {"n": n}, index=False) for n in range(1500)]
    store.batch(many)
    assert len(store.search(("many",), limit=2000)) == 1500


# -- an agent -------------------------------------------------------------------------------------------------------------


class Model(GenericFakeChatModel):
    """LangChain's fake model, with tools."""

    def bind_tools(self, tools: Any, **_: Any) -> Model:
        """It knows what it will say."""
        return self


@tool
def remember(fact: str, runtime: ToolRuntime) -> str:
    """Keep a fact about the user."""
    assert runtime.store is not None
    runtime.store.put(("facts",), fact[:20], {"text": fact})
    return "kept"


@tool
def recall(question: str, runtime: ToolRuntime) -> str:
    """What is known about the user."""
    assert runtime.store is not None
    return "; ".join(
        item.value["text"] for item in runtime.store.search(("facts",), query=question, limit=1)
    )


def test_an_agent_remembers_across_a_restart(open_memory: Callable[..., Memory]) -> None:
    """A real agent with the framework's fake model; the second recalls a fact of the first."""

    def ask(said: str, tool: str, **arguments: str) -> list[BaseMessage]:
        call = {"name": tool, "args": arguments, "id": "call-1", "type": "tool_call"}
        model = Model(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("Done.")]))
        with open_memory() as memory:
            agent = create_agent(
                model,
                [remember, recall],
                store=MemoristStore(memory.scope(tenant="acme", user="ada")),
            )
            messages: list[BaseMessage] = agent.invoke({"messages": [HumanMessage(said)]})[
                "messages"
            ]
            return messages

    ask(
        "I am called Ada and I live in Porto.",
        "remember",
        fact="The user is called Ada and lives in Porto.",
    )
    ask("My cat is Kafka.", "remember", fact="The user has a cat called Kafka.")
    readable_name = ask("Where do I live?", "recall", question="Where does the user live?")
    results = [message.text for message in readable_name if isinstance(message, ToolMessage)]
    assert results == ["The user is called Ada and lives in Porto."]
