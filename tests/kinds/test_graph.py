"""The graph: its rules beyond what the official server's answers show (tests/mcp/test_graph.py has those)."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from retain import Memory, Scope
from retain.base.errors import Invalid, NotFound, TooLarge
from retain.kinds.graph import LONGEST, MOST, Entity, Graph, Observations, Relation
from tests.conftest import one_engine

ADA = Entity("Ada", "person", ["likes maps", "lives in London"])


def test_what_is_there_is_not_made_again(me: Scope) -> None:
    """Each verb can be repeated, and keeps the order in which things came."""
    for new in ([ADA, Entity("Bob", "person", [])], []):
        assert me.graph.add([ADA, Entity("Bob", "person")]) == new
    for texts in (["plays chess"], []):
        assert me.graph.observe([Observations("Ada", ["likes maps", "plays chess"])]) == [
            Observations("Ada", texts)
        ]
    for related in ([Relation("Bob", "Ada", "knows")], []):
        assert me.graph.relate([Relation("Bob", "Ada", "knows")]) == related
    whole = me.graph.read()
    assert [one.name for one in whole.entities] == ["Ada", "Bob"]
    assert whole.entities[0].observations == ["likes maps", "lives in London", "plays chess"]
    assert me.graph.open(["Bob", "nobody"]) == Graph([Entity("Bob", "person", [])], whole.relations)
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
def test_a_text_is_no_list_of_texts(me: Scope, texts: Any) -> None:
    me.graph.add([Entity("A", "letter", ["t", "x"])])
    for verb in (me.graph.forget, me.graph.observe):
        with pytest.raises(Invalid, match="must be a list of str"):
            verb([Observations("A", texts)])
    assert me.graph.open(["A"]).entities[0].observations == ["t", "x"]


def test_whose_it_is(memory: Memory) -> None:
    """A user's graph is that user's alone; the tenant's is apart from all of them, and goes with nobody."""
    ada, bob, all_of_them = (
        memory.scope(tenant="acme", user="ada"),
        memory.scope(tenant="acme", user="bob"),
        memory.scope(tenant="acme"),
    )
    ada.graph.add([ADA])
    all_of_them.graph.add([Entity("Acme", "company", ["makes anvils"])])
    assert bob.graph.read() == Graph([], [])
    assert [one.name for one in all_of_them.graph.read().entities] == ["Acme"]
    assert len(bob.search("maps anvils")) == 0
    assert {hit.title for hit in all_of_them.search("maps anvils", min_score=0.01)} == {
        "Ada",
        "Acme",
    }
    memory.reindex()
    memory.erase("ada", tenant="acme")
    assert ada.graph.read() == Graph([], [])
    assert len(all_of_them.graph.read().entities) == 1
    assert not [finding for finding in memory.verify() if finding.problem]


def test_it_is_found_by_words_and_by_meaning(me: Scope) -> None:
    """Each observation under its entity's name, and the entity by its name and type; what is gone is not found."""
    me.graph.add([ADA, Entity("Difference Engine", "machine")])
    found = me.search("who likes maps", kinds=["graph"])
    assert (found[0].kind, found[0].title, found[0].text) == ("graph", "Ada", "likes maps")
    assert me.search("difference engine")[0].text == "machine"
    me.graph.forget([Observations("Ada", ["likes maps"])])
    me.graph.remove_many(["Difference Engine"])
    assert [
        hit.text for hit in me.search("likes maps difference engine machine", min_score=0.01)
    ] == []


def test_the_index_can_be_made_anew(memory: Memory, me: Scope) -> None:
    """P13: what lost its rows gets them again, and is found as before."""
    me.graph.add([ADA, Entity("", "", ["", "nameless"]), Entity(" ", " ")])
    rows = "select id, seq, part, title, text from search_items where tenant = :tenant and kind = 'graph' order by id, seq"
    before = memory.database.read("acme", lambda tx: tx.all(rows))
    assert len(before) == 4
    gone = "delete from search_items where tenant = :tenant and kind = 'graph'"
    memory.database.write("acme", lambda tx: tx.run(gone))
    assert [finding for finding in memory.verify() if finding.problem]
    memory.reindex()
    assert memory.database.read("acme", lambda tx: tx.all(rows)) == before
    assert not [finding for finding in memory.verify() if finding.problem]


def test_two_at_once_make_one(memory: Memory) -> None:
    """Whoever comes second finds what the first made: no entity twice, no number twice, no observation lost."""

    def write(number: int) -> None:
        graph = memory.scope(tenant="acme", user="ada").graph
        for n in range(10):
            graph.add([Entity(f"e{n}", "shared", [])])
            graph.observe([Observations(f"e{n}", ["the same", f"of {number}"])])

    threads = [Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = memory.scope(tenant="acme", user="ada").graph.read().entities
    assert [one.name for one in found] == [f"e{n}" for n in range(10)]
    assert all(
        sorted(one.observations) == ["of 0", "of 1", "of 2", "of 3", "the same"] for one in found
    )


@one_engine
def test_what_is_refused(me: Scope) -> None:
    with pytest.raises(TooLarge, match="entities.0..name"):
        me.graph.add([Entity("x" * (LONGEST + 1), "t")])
    with pytest.raises(TooLarge, match=str(MOST)):
        me.graph.remove_many(["x"] * (MOST + 1))
    for wrong in ("Ada", ["Ada"], None):
        with pytest.raises(Invalid, match="list of Entity"):
            me.graph.add(wrong)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="list of str"):
        me.graph.add([Entity("a", "b", "not a list")])
    assert me.graph.read() == Graph([], [])


@one_engine
def test_secrets(open_memory: Callable[..., Memory]) -> None:
    """A secret in a name is refused, in an observation masked, as the setting says."""
    secret = "AKIAIOSFODNN7EXAMPLE"
    me = open_memory(secrets="mask").scope(tenant="acme", user="ada")
    me.graph.add([Entity("key", "note", [f"it is {secret}"])])
    assert secret not in str(me.graph.read())
    with pytest.raises(Invalid, match="name"):
        me.graph.add([Entity(secret, "note")])


@one_engine
def test_what_an_import_says_is_told_apart(memory: Memory) -> None:
    """Words that may be anybody's are labelled where a model reads them."""
    memory.scope(tenant="acme", user="ada", agent="scout").graph.add([ADA])
    memory.scope(tenant="acme", user="ada", agent="scout", source="import").graph.observe(
        [Observations("Ada", ["collects globes"])]
    )
    (search,) = memory.scope(tenant="acme", user="ada", agent="scout").tools(["search_memory"])
    (first, *_) = search.call({"query": "globes"})["results"]
    assert (first["title"], first["source"]) == ("Ada", "import")
