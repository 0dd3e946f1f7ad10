"""The knowledge graph: rules beyond the official server's answers (see packages/memorist-frameworks/tests/test_mcp_graph.py)."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from memorist import Memory, Scope
from memorist.base.errors import Invalid, NotFound, TooLarge
from memorist.kinds.graph import (
    MAX_ITEMS,
    MAX_NAME_BYTES,
    Graph,
    GraphEntity,
    Observations,
    Relation,
)
from testkit.databases import one_engine
from testkit.failures import invalid, raised
from testkit.memories import scope_of
from testkit.search_index import clear_index, indexed_documents

ADA = GraphEntity("Ada", "person", ["likes maps", "lives in London"])


def test_existing_objects_are_not_created_again(me: Scope) -> None:
    """Each method can be repeated, and insertion order is kept."""
    for new in ([ADA, GraphEntity("Bob", "person", [])], []):
        assert me.graph.add([ADA, GraphEntity("Bob", "person")]) == new
    for texts in (["plays chess"], []):
        assert me.graph.observe([Observations("Ada", ["likes maps", "plays chess"])]) == [
            Observations("Ada", texts)
        ]
    for related in ([Relation("Bob", "Ada", "knows")], []):
        assert me.graph.relate([Relation("Bob", "Ada", "knows")]) == related
    whole = me.graph.read()
    assert [entity.name for entity in whole.entities] == ["Ada", "Bob"]
    assert whole.entities[0].observations == ["likes maps", "lives in London", "plays chess"]
    assert me.graph.open(["Bob", "nobody"]) == Graph(
        [GraphEntity("Bob", "person", [])], whole.relations
    )
    assert me.graph.search("CHESS") == Graph(whole.entities[:1], whole.relations)
    assert (
        me.graph.forget([Observations("Ada", ["plays chess", "no"]), Observations("nobody", ["x"])])
        == 1
    )
    assert me.graph.unrelate([Relation("Bob", "Ada", "knows"), Relation("no", "no", "no")]) == 1
    assert (me.graph.remove_many(["Ada", "nobody"]), me.graph.remove_many(["Bob"])) == (1, 1)
    assert me.graph.read() == Graph([], [])


def test_all_or_nothing(me: Scope) -> None:
    me.graph.add([ADA])
    with pytest.raises(NotFound, match="entity 'nobody'"):
        me.graph.observe([Observations("Ada", ["new"]), Observations("nobody", ["x"])])
    assert me.graph.read().entities == [ADA]


@one_engine
@pytest.mark.parametrize("texts", ["text", 5, [5]])
def test_a_string_is_not_a_list_of_strings(me: Scope, texts: Any) -> None:
    me.graph.add([GraphEntity("A", "letter", ["t", "x"])])
    for verb in (me.graph.forget, me.graph.observe):
        with pytest.raises(Invalid, match="must be a list of str"):
            verb([Observations("A", texts)])
    assert me.graph.open(["A"]).entities[0].observations == ["t", "x"]


def test_graphs_are_isolated_by_owner(memory: Memory) -> None:
    """A user's graph is private; the tenant's is separate and erased with no user."""
    ada, bob, all_of_them = (scope_of(memory, "ada"), scope_of(memory, "bob"), scope_of(memory))
    ada.graph.add([ADA])
    all_of_them.graph.add([GraphEntity("Acme", "company", ["makes anvils"])])
    assert bob.graph.read() == Graph([], [])
    assert [entity.name for entity in all_of_them.graph.read().entities] == ["Acme"]
    assert len(bob.search("maps anvils")) == 0
    assert {hit.title for hit in all_of_them.search("maps anvils", min_score=0.01)} == {
        "Ada",
        "Acme",
    }
    memory.reindex()
    memory.scope(tenant="acme").admin.users.erase("ada")
    assert ada.graph.read() == Graph([], [])
    assert len(all_of_them.graph.read().entities) == 1
    assert not [finding for finding in memory.verify() if finding.problem]


def test_search_by_words_and_by_meaning(me: Scope) -> None:
    """Observations under their entity's name, entities by name and type; removed ones are not
    found.
    """
    me.graph.add([ADA, GraphEntity("Difference Engine", "machine")])
    hits = me.search("who likes maps", kinds=["graph"])
    assert (hits[0].kind, hits[0].title, hits[0].text) == ("graph", "Ada", "likes maps")
    assert me.search("difference engine")[0].text == "machine"
    me.graph.forget([Observations("Ada", ["likes maps"])])
    me.graph.remove_many(["Difference Engine"])
    assert [
        hit.text for hit in me.search("likes maps difference engine machine", min_score=0.01)
    ] == []


def test_the_index_can_be_rebuilt(memory: Memory, me: Scope) -> None:
    """P13: missing documents are restored, and search works as before."""
    me.graph.add([ADA, GraphEntity("", "", ["", "nameless"]), GraphEntity(" ", " ")])
    before = indexed_documents(memory, "graph")
    assert len(before) == 4
    clear_index(memory)
    assert [finding for finding in memory.verify() if finding.problem]
    assert memory.reindex().added == 4
    assert indexed_documents(memory, "graph") == before
    assert not [finding for finding in memory.verify() if finding.problem]


def test_concurrent_writers_create_no_duplicates(memory: Memory) -> None:
    """No entity or sequence number twice, no observation lost."""

    def write(number: int) -> None:
        graph = scope_of(memory, "ada").graph
        for n in range(10):
            graph.add([GraphEntity(f"e{n}", "shared", [])])
            graph.observe([Observations(f"e{n}", ["the same", f"of {number}"])])

    threads = [Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    result = scope_of(memory, "ada").graph.read().entities
    assert [item.name for item in result] == [f"e{n}" for n in range(10)]
    assert all(
        sorted(item.observations) == ["of 0", "of 1", "of 2", "of 3", "the same"] for item in result
    )


@one_engine
def test_invalid_input_is_rejected(me: Scope) -> None:
    assert (
        raised(TooLarge, me.graph.add, [GraphEntity("x" * (MAX_NAME_BYTES + 1), "t")]).field
        == "entities[0].name"
    )
    assert raised(TooLarge, me.graph.remove_many, ["x"] * (MAX_ITEMS + 1)).field == "names"
    for wrong in ("Ada", ["Ada"], None):
        invalid("entities", me.graph.add, wrong)
    invalid("entities[0].observations", me.graph.add, [GraphEntity("a", "b", "not a list")])
    assert me.graph.read() == Graph([], [])


@one_engine
def test_secrets_are_rejected_or_masked(open_memory: Callable[..., Memory]) -> None:
    """Rejected in a name, masked in an observation, according to the setting."""
    secret = "AKIAIOSFODNN7EXAMPLE"
    me = scope_of(open_memory(secrets="mask"), "ada")
    me.graph.add([GraphEntity("key", "note", [f"it is {secret}"])])
    assert secret not in str(me.graph.read())
    invalid("entities[0].name", me.graph.add, [GraphEntity(secret, "note")])


@one_engine
def test_imported_text_is_labelled(memory: Memory) -> None:
    """Untrusted text is labelled where a model reads it."""
    scope_of(memory, "ada", "scout").graph.add([ADA])
    scope_of(memory, "ada", "scout", source="import").graph.observe(
        [Observations("Ada", ["collects globes"])]
    )
    (search,) = scope_of(memory, "ada", "scout").tools(["search_memory"])
    (first, *_) = search.call({"query": "globes"})["results"]
    assert (first["title"], first["source"]) == ("Ada", "import")


def test_facts_are_observations_and_relations(memory: Memory) -> None:
    me = scope_of(memory, "ada", "scout")
    me.graph.add([GraphEntity("Clara", "person", ["Has a dog."])])
    old = me.facts.add(
        "Clara lives in Lisbon.", subject="Clara", predicate="lives in", object="Lisbon"
    )
    me.facts.correct(old.id, "Clara lives in Porto.")
    me.facts.add("The user likes tea.", predicate="likes", object="tea")
    tool = scope_of(memory, "ada", "scout", source="tool")
    tool.facts.add("Clara is a spy.", subject="Clara")
    clara = GraphEntity("Clara", "person", ["Has a dog.", "Clara lives in Porto."])
    user = GraphEntity("user", "subject of facts", ["The user likes tea."])
    lives = [Relation("Clara", "Porto", "lives in")]
    likes = [Relation("user", "tea", "likes")]
    assert me.graph.read() == Graph([GraphEntity("Clara", "person", ["Has a dog."])], [])
    assert me.graph.read(facts=True) == Graph([clara, user], lives + likes)
    assert me.graph.search("porto", facts=True) == Graph([clara], lives)
    assert me.graph.open(["user"], facts=True) == Graph([user], likes)
