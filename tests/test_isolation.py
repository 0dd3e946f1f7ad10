"""Isolation of tenants (P11), also for statements that lack their condition on the tenant.

On PostgreSQL, row-level security separates the tenants even if a statement lacks
`tenant = :tenant`. On every engine, an id of another tenant behaves like one that does not exist.
"""

from __future__ import annotations

import inspect
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from retain import Memory, Scope
from retain.base.errors import NotFound, RetainError
from retain.kinds import KINDS
from retain.kinds.checkpoints.checkpoint import Write
from retain.kinds.graph import Entity, Observations, Relation
from retain.kinds.items import Drop, Put
from retain.kinds.kind import Kind
from retain.storage.database import Row, Sent, Transaction
from retain.testing import with_faults
from tests.conftest import SERVERS
from tests.storage.behind import TABLES, fill, hashes, raw

Verb = Callable[[Scope], Any]
CONDITION = re.compile(r"\b(?:\w+\.)?tenant = :tenant\b")

# Every verb of every kind, on ids that both tenants have; in an order in which each finds something to do.
READS: dict[str, list[Verb]] = {
    "agents.get": [lambda me: me.agents.get("cook")],
    "agents.list": [lambda me: me.agents.list().items, lambda me: me.agents.list(limit=1).items],
    "sessions.get": [lambda me: me.sessions.get("s1")],
    "sessions.list": [
        lambda me: me.sessions.list().items,
        lambda me: me.sessions.list(limit=1).items,
        lambda me: me.sessions.list(search="S").items,
    ],
    "sessions.active": [lambda me: me.sessions.active()],
    "messages.window": [
        lambda me: me.messages.window("s1"),
        lambda me: me.messages.window("s1", last=2),
        lambda me: me.messages.window("s1", minutes=60),
        lambda me: me.messages.window("s1", tokens=30, turns_only=True),
        lambda me: me.messages.window("s1", last=2, before=4),
    ],
    "messages.list": [
        lambda me: me.messages.list("s1").items,
        lambda me: me.messages.list("s1", limit=2).items,
    ],
    "messages.get": [lambda me: me.messages.get("s1", 2)],
    "summaries.get": [lambda me: me.summaries.get("s2")],
    "summaries.list": [lambda me: me.summaries.list("s2").items],
    "summaries.expand": [lambda me: me.summaries.expand("s2").items],
    "notes.read": [lambda me: me.notes.read()],
    "notes.history": [lambda me: me.notes.history().items],
    "notes.diff": [lambda me: me.notes.diff(2), lambda me: me.notes.diff(2, against=1)],
    "notes.changes": [lambda me: me.notes.changes(after=1)],
    "facts.get": [lambda me: me.facts.get(me.facts.list()[0].id)],
    "facts.list": [
        lambda me: me.facts.list().items,
        lambda me: me.facts.list(at=datetime.now(UTC)).items,
    ],
    "facts.history": [lambda me: me.facts.history(me.facts.list()[0].id)],
    "facts.profile": [lambda me: me.facts.profile()],
    "facts.review": [lambda me: me.facts.review().items],
    "facts.timeline": [lambda me: me.facts.timeline().items],
    "facts.entities": [lambda me: me.facts.entities().items],
    "facts.search": [lambda me: me.facts.search("mine theirs")],
    "entries.get": [lambda me: me.entries.get("e1")],
    "entries.queue": [
        lambda me: me.entries.queue().items,
        lambda me: me.entries.list(review="pending").items,
    ],
    "entries.list": [
        lambda me: me.entries.list().items,
        lambda me: me.entries.list(kind="core", search="i").items,
    ],
    "entries.search": [
        lambda me: me.entries.search("mine theirs"),
        lambda me: me.search("mine theirs", limit=200).hits,
    ],
    "entries.counts": [lambda me: (me.entries.counts(), "mine")],
    "entries.prompt": [lambda me: me.entries.prompt()],
    "entries.whiteboard": [lambda me: me.entries.whiteboard()],
    "entries.boards": [lambda me: me.entries.boards()],
    "entries.export": [lambda me: me.entries.export()],
    "consolidations.list": [lambda me: me.consolidations.list(status="proposed").items],
    "consolidations.get": [lambda me: me.consolidations.get(me.consolidations.list()[0].id)],
    "refs.get": [lambda me: me.refs.get("r1"), lambda me: me.refs.get("r1", grep="m")],
    "refs.info": [lambda me: me.refs.info("r1")],
    "refs.content": [lambda me: me.refs.content("r1")],
    "refs.list": [lambda me: me.refs.list().items, lambda me: me.refs.list(session="s1").items],
    "refs.search": [lambda me: me.refs.search("stored")],
    "knowledge.get": [lambda me: me.knowledge.get(me.knowledge.list()[0].id)],
    "knowledge.list": [
        lambda me: me.knowledge.list().items,
        lambda me: me.knowledge.list(prefix="a/").items,
    ],
    "knowledge.text": [lambda me: me.knowledge.text(me.knowledge.list()[0].id)],
    "knowledge.passages": [
        lambda me: me.knowledge.passages(me.knowledge.list()[0].id, seq=1).items
    ],
    "knowledge.counts": [lambda me: (me.knowledge.counts(), "mine")],
    "knowledge.search": [lambda me: me.knowledge.search("mine theirs").hits],
    "turns.get": [
        lambda me: (me.turns.get(me.turns.list("s2")[0].id), me.context("s2", "?").messages)
    ],
    "turns.list": [
        lambda me: (me.turns.list("s2").items, me.context("s2").messages),
        lambda me: (me.turns.list("s2", seq=6).items, me.turns.list("s2", seq=5).items, "mine"),
    ],
    "state.get": [
        lambda me: me.state.get("k"),
        lambda me: me.state.get("k", area="session:s1"),
        lambda me: me.state.get("k", area="tenant"),
    ],
    "state.list": [
        lambda me: me.state.list().items,
        lambda me: me.state.list(area="tenant", prefix="k").items,
    ],
    "items.get": [
        lambda me: me.items.get(("p",), "k"),
        lambda me: me.items.get(("p",), "k", refresh=True),
    ],
    "items.read": [lambda me: me.items.read([(("p",), "k"), (("p", "q"), "k")])],
    "items.list": [
        lambda me: me.items.list().items,
        lambda me: me.items.list(("p",), exact=True, where={"n": 1}).items,
        lambda me: me.items.list(newest=True).items,
    ],
    "items.search": [
        lambda me: me.items.search("harbour"),
        lambda me: me.items.search("harbour", ("p",), where={"n": 1}),
    ],
    "items.places": [
        lambda me: me.items.places().items,
        lambda me: me.items.places(("p",), depth=2).items,
    ],
    "interactions.list": [
        lambda me: me.interactions.list().items,
        lambda me: me.interactions.list(model="m").items,
    ],
    "interactions.totals": [
        lambda me: me.interactions.totals("day"),
        lambda me: me.interactions.totals("model"),
        lambda me: me.interactions.totals("route"),
        lambda me: me.interactions.totals("hour", split="agent"),
    ],
    "checkpoints.get": [
        lambda me: me.checkpoints.get("t1"),
        lambda me: me.checkpoints.get("t1", id="c1"),
    ],
    "checkpoints.list": [
        lambda me: me.checkpoints.list("t1", ns="").items,
        lambda me: me.checkpoints.list(where={"run_id": "r"}, limit=1).items,
    ],
    "graph.read": [lambda me: me.graph.read()],
    "graph.search": [lambda me: me.graph.search("e")],
    "graph.open": [lambda me: me.graph.open(["g1", "mine", "theirs"])],
    "checkpoints.trace": [lambda me: me.checkpoints.trace("t1", "c2", ["said"])],
}
WRITES: dict[str, list[Verb]] = {
    "agents.add": [lambda me: me.agents.add("new")],
    "agents.edit": [lambda me: me.agents.edit("cook", prompt="edited", if_version=1)],
    "agents.remove": [lambda me: me.agents.remove("cook")],
    "sessions.add": [lambda me: me.sessions.add("s9")],
    "sessions.resume": [lambda me: me.sessions.resume("s1")],
    "sessions.activate": [lambda me: me.sessions.activate("s1")],
    "sessions.edit": [lambda me: me.sessions.edit("s1", label="edited")],
    "messages.append": [
        lambda me: me.messages.append("s1", "user", "more", key="k2", expected_last_seq=5),
        lambda me: me.messages.append("s1", "user", "more", key="k2"),
        lambda me: me.messages.append("s1", "user", "more"),
    ],
    "messages.extend": [
        lambda me: me.messages.extend("s1", [{"role": "user", "content": "x"}] * 3, key="k")
    ],
    "messages.remove": [lambda me: me.messages.remove("s1", 2)],
    "messages.pop": [lambda me: me.messages.pop("s1")],
    "summaries.fold": [lambda me: me.summaries.fold("s1", force=True)],
    "notes.overwrite": [lambda me: me.notes.overwrite("mine", if_version=2)],
    "notes.append": [lambda me: me.notes.append("# One\nmine\n# Two\nmine")],
    "notes.prepend": [lambda me: me.notes.prepend("mine")],
    "notes.replace_section": [lambda me: me.notes.replace_section("One", "edited")],
    "notes.delete_section": [lambda me: me.notes.delete_section("Two")],
    "notes.clear": [lambda me: me.notes.clear()],
    "notes.restore": [lambda me: me.notes.restore(1)],
    "facts.add": [lambda me: me.facts.add("mine too", evidence=["s1#1"])],
    "facts.correct": [lambda me: me.facts.correct(me.facts.list()[0].id, "mine indeed")],
    "facts.merge": [lambda me: me.facts.merge("mine", "own")],
    "facts.separate": [lambda me: me.facts.separate("mine", "own")],
    "facts.undo": [lambda me: me.facts.undo(me.facts.list()[0].id)],
    "facts.confirm": [lambda me: me.facts.confirm(me.facts.list()[0].id)],
    "facts.retract": [lambda me: me.facts.retract(me.facts.list()[0].id)],
    "facts.forget": [lambda me: me.facts.forget(me.facts.list(status="retracted")[0].id)],
    "entries.add": [
        lambda me: me.entries.add("mine", kind="core"),
        lambda me: me.entries.add("mine", kind="whiteboard", board="mine board"),
    ],
    "entries.edit": [lambda me: me.entries.edit("e2", "edited", if_version=1)],
    "entries.accept": [lambda me: me.entries.accept("e6", if_version=1)],
    "entries.refuse": [lambda me: me.entries.refuse("e6"), lambda me: me.entries.refuse("e2")],
    "entries.share": [lambda me: me.entries.share("mine board", ["scout", "cook"])],
    "entries.add_many": [lambda me: me.entries.add_many([{"id": "e3", "content": "mine"}])],
    "consolidations.propose": [lambda me: me.consolidations.propose(days=5.0)],
    "consolidations.refuse": [
        lambda me: me.consolidations.refuse(me.consolidations.list(status="proposed")[0].id)
    ],
    "consolidations.accept": [
        lambda me: me.consolidations.accept(me.consolidations.list(status="refused")[0].id)
    ],
    "consolidations.undo": [
        lambda me: me.consolidations.undo(me.consolidations.list(status="accepted")[0].id)
    ],
    "entries.remove": [lambda me: me.entries.remove("e2")],
    "entries.remove_many": [lambda me: me.entries.remove_many(["e2", "e4", "e5"])],
    "refs.add": [lambda me: me.refs.add("mine", session="s1")],
    "refs.capture": [lambda me: me.refs.capture("mine " * 1000, source="mine", session="s1")],
    "refs.edit": [lambda me: me.refs.edit("r1", summary="edited", is_active=False)],
    "refs.remove": [lambda me: me.refs.remove("r1")],
    "knowledge.add": [
        lambda me: me.knowledge.add("other", "mine"),
        lambda me: me.knowledge.add("mine", "# mine\n\nedited", path="a/b.md"),
    ],
    "knowledge.remove": [lambda me: me.knowledge.remove(me.knowledge.list(prefix="a/")[0].id)],
    "state.set": [
        lambda me: me.state.set("k", "edited"),
        lambda me: me.state.set("k", "edited", if_version=2),
        lambda me: me.state.set("k", "edited", area="session:s1"),
        lambda me: me.state.set("fresh", "edited", area="tenant", if_version=0),
    ],
    "items.put": [
        lambda me: me.items.put(("p",), "k", {"text": "edited"}),
        lambda me: me.items.put(("p",), "k", {"text": "edited"}, if_version=2),
        lambda me: me.items.put(("p",), "fresh", {"text": "edited"}, if_version=0),
    ],
    "items.write": [
        lambda me: me.items.write([Put(("p",), "k", {"text": "edited"}), Drop(("p",), "fresh")])
    ],
    "items.apply": [
        lambda me: me.items.apply([Put(("p",), "k", {"text": "edited"}), Drop(("p",), "fresh")])
    ],
    "items.remove": [
        lambda me: me.items.remove(("p",), "k"),
        lambda me: me.items.remove(("p", "q"), "k", if_version=1),
    ],
    "state.remove": [
        lambda me: me.state.remove("k"),
        lambda me: me.state.remove("k", area="tenant", if_version=1),
    ],
    "interactions.add": [lambda me: me.interactions.add("r", "m", latency_ms=1, session="s1")],
    "graph.add": [
        lambda me: me.graph.add([Entity("g1", "edited"), Entity("fresh", "edited", ["edited"])])
    ],
    "graph.observe": [lambda me: me.graph.observe([Observations("g1", ["edited"])])],
    "graph.relate": [lambda me: me.graph.relate([Relation("g1", "g2", "edits")])],
    "graph.forget": [
        lambda me: me.graph.forget([Observations("g1", ["edited", "mine", "theirs"])])
    ],
    "graph.unrelate": [lambda me: me.graph.unrelate([Relation("g1", "g2", "edits")])],
    "graph.remove_many": [lambda me: me.graph.remove_many(["g1"])],
    "checkpoints.add": [
        lambda me: me.checkpoints.add(
            "t1", "c1", ("bytes", b"new"), values={("said", "1"): ("null", b"")}
        )
    ],
    "checkpoints.write": [
        lambda me: me.checkpoints.write("t1", "c1", [Write("t", -1, "said", ("bytes", b"new"))])
    ],
    "checkpoints.duplicate": [lambda me: me.checkpoints.duplicate("t1", "t2")],
    "checkpoints.prune": [lambda me: me.checkpoints.prune("t2")],
    "checkpoints.remove_runs": [lambda me: me.checkpoints.remove_runs(["r"])],
    "checkpoints.remove": [lambda me: me.checkpoints.remove("t1")],
    "messages.clear": [lambda me: me.messages.clear("s1")],
    "sessions.remove": [lambda me: me.sessions.remove("s1")],
}


@pytest.fixture
def memory(open_memory: Callable[..., Memory]) -> Memory:
    """A database that summarises sessions early."""
    return open_memory(
        summary_enabled=True, summary_model="extractive", summary_threshold=3, summary_keep_last=1
    )


def populate(memory: Memory, tenant: str, word: str) -> Scope:
    """Write the same ids with different words into a tenant."""
    me = memory.scope(tenant=tenant, user="ada", agent="scout")
    me.agents.add("cook", prompt=word)
    for n in (1, 2):
        me.sessions.add(f"s{n}", label=word)
        for k in range(5):
            me.messages.append(f"s{n}", "user", f"{word} {k}", key=f"first {k}")
    me.save_turn(
        "s2",
        [{"role": "user", "content": word}],
        usage={"model": "m2"},
        context=me.context("s2", word),
    )
    me.summaries.fold("s2")
    me.facts.add(f"{word} is a fact", subject=word, evidence=["s1#1"])
    by_tool = memory.scope(tenant=tenant, user=me.owner.user, agent=me.owner.agent, source="tool")
    by_tool.facts.add(f"{word} waits for a person")
    me.notes.overwrite("first")
    me.notes.overwrite(word)
    old = datetime.now(UTC) - timedelta(days=6)
    me.entries.add_many([
        *[{"id": f"e{n}", "content": f"The Lisbon harbour of {word} has {n} cranes.", "created_at": old} for n in (1, 4, 5)],
        {"id": "e2", "content": f"{word} in core", "kind": "core"},
        {"id": "e6", "content": f"{word} waits", "kind": "core", "review": "pending"},
    ])  # fmt: skip
    me.entries.share(f"{word} board", ["scout"])
    me.entries.add(word, kind="whiteboard", board=f"{word} board")
    assert me.consolidations.propose(days=5.0)
    me.refs.add(word, f"stored by {word}", key="r1", session="s1")
    me.knowledge.add(word, f"# {word}\n\nabout {word}", path="a/b.md")
    me.state.set("k", word)
    me.state.set("k", word, area="session:s1")
    me.state.set("k", word, area="tenant")
    me.state.set("gone", word, ttl=1e-6)
    me.items.put(("p",), "k", {"text": f"harbour {word}", "n": 1}, ttl=1000)
    me.items.put(("p", "q"), "k", {"text": word})
    me.items.put(("p", word), "k", {"text": word})
    me.graph.add([Entity("g1", word, [word, f"all of {word}"])])
    me.graph.relate([Relation("g1", word, word)])
    keep = partial(me.checkpoints.add, "t1", versions={"said": "1"}, metadata={"run_id": "r"})
    keep("c1", ("bytes", word.encode()), values={("said", "1"): ("bytes", word.encode())})
    keep("c2", ("bytes", word.encode()), parent="c1")
    me.checkpoints.write("t1", "c1", [Write("t", -1, "said", ("bytes", word.encode()))])
    me.interactions.add(
        "r", "m", latency_ms=5, tokens_in=len(word), parameters={"w": word}, session="s1"
    )
    return me


def test_every_verb_of_every_kind_is_covered() -> None:
    """A new kind or verb must be added here."""
    verbs = {
        f"{kind.name}.{name}"
        for kind in KINDS
        for name, value in vars(kind).items()
        if not name.startswith("_") and not hasattr(Kind, name) and inspect.isfunction(value)
        if "tx" not in inspect.signature(value).parameters  # a part of other verbs
    }
    assert verbs == READS.keys() | WRITES.keys()


class ForgetfulTransaction:
    """A transaction whose statements have lost their condition on the tenant."""

    def __init__(self, tx: Transaction, changed: list[str]) -> None:
        self.tenant = tx.tenant
        self.now = tx.now
        self._tx = tx
        self._changed = changed

    def _forget(self, sql: str) -> str:
        without_condition, count = CONDITION.subn("(:tenant <> '')", sql)
        if count:
            self._changed.append(sql)
        return without_condition

    def all(self, sql: str, **values: Any) -> list[Row]:
        return self._tx.all(self._forget(sql), **values)

    def one(self, sql: str, **values: Any) -> Row | None:
        return self._tx.one(self._forget(sql), **values)

    def run(self, sql: str, **values: Any) -> int:
        return self._tx.run(self._forget(sql), **values)

    def send(self, sql: str, **values: Any) -> Sent:
        return self._tx.send(self._forget(sql), **values)

    def lock_rows(self, sql: str, **values: Any) -> None:
        self._tx.lock_rows(self._forget(sql), **values)

    def lock(self, name: str) -> None:
        self._tx.lock(name)

    def many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self._tx.many(self._forget(sql), rows)

    def each(self, sql: str, **values: Any) -> Iterator[Mapping[str, Any]]:
        return self._tx.each(self._forget(sql), **values)

    def columns(self, table: str) -> list[str]:
        return self._tx.columns(table)


def forget_tenants(memory: Memory) -> tuple[Memory, list[str]]:
    """Return a memory whose statements lack the tenant, and a list of the changed statements."""
    memory, faults = with_faults(memory)
    changed: list[str] = []
    faults.wrap(lambda tx, work: work(ForgetfulTransaction(tx, changed)))
    return memory, changed


def foreign(url: str) -> dict[str, tuple[int, str]]:
    return hashes(url, where="where tenant <> 'mine'")


@pytest.fixture
def one_server(memory: Memory) -> None:
    """A cluster rejects most statements without a condition on the tenant."""
    if memory.database.is_cluster:
        pytest.skip("a cluster rejects statements without a tenant")


@pytest.mark.usefixtures("one_server")
@pytest.mark.parametrize("engine", SERVERS, indirect=True)
def test_no_verb_reads_or_changes_foreign_rows_without_a_tenant_condition(
    memory: Memory, url: str
) -> None:
    """P11: results contain only this tenant's rows, and other tenants' rows do not change."""
    memory, changed = forget_tenants(memory)
    others = [populate(memory, tenant, "theirs") for tenant in ("aaa", "zzz")]
    me = populate(memory, "mine", "mine")
    before = foreign(url)
    for name, calls in READS.items():
        for call in calls:
            changed.clear()
            answer = repr(call(me))
            assert changed, f"{name} has no condition that could be forgotten"
            assert "theirs" not in answer, name
            assert "mine" in answer or name == "interactions.totals", name
    totals = {by: me.interactions.totals(by) for by in ("day", "model", "route")}
    assert {(total.calls, total.tokens_in) for group in totals.values() for total in group} <= {
        (1, 4),
        (1, None),
        (2, 4),
    }
    assert [len(me.sessions.list()), len(me.state.list()), len(me.agents.list())] == [2, 1, 1]
    for name, calls in WRITES.items():
        for call in calls:
            answer = repr(call(me))
            assert "theirs" not in answer, name
            assert foreign(url) == before, name
    for other in others:
        assert other.sessions.get("s1").label == "theirs"


@pytest.mark.usefixtures("one_server")
@pytest.mark.parametrize("engine", SERVERS, indirect=True)
def test_no_operation_reaches_foreign_rows_without_a_tenant_condition(
    memory: Memory, url: str
) -> None:
    """Export, erase, purge and verify, each for one tenant, without the conditions."""
    memory, changed = forget_tenants(memory)
    populate(memory, "aaa", "theirs")
    populate(memory, "mine", "mine")
    before = foreign(url)
    out = io.BytesIO()
    memory.export(out, tenants=["mine"])
    assert b"theirs" not in out.getvalue()
    assert b"mine" in out.getvalue()
    assert all(finding.ok for finding in memory.verify())
    assert memory.erase("ada", tenant="mine").removed["messages"] == 11
    assert foreign(url) == before
    memory.import_(io.BytesIO(out.getvalue()))
    assert foreign(url) == before
    again = io.BytesIO()
    memory.export(again, tenants=["mine"])
    assert again.getvalue() == out.getvalue()
    assert changed
    purged = memory.purge(days=1)
    assert purged.messages == 0
    assert foreign(url)["messages"] == before["messages"]


@pytest.mark.usefixtures("one_server")
@pytest.mark.parametrize("engine", SERVERS, indirect=True)
def test_reads_return_foreign_rows_without_row_level_security(memory: Memory, url: str) -> None:
    """Without row-level security the same reads do return foreign rows: the tests above work."""
    memory, _ = forget_tenants(memory)
    populate(memory, "aaa", "theirs")
    me = populate(memory, "mine", "mine")
    with raw(url) as database:
        for table in TABLES:
            database.all(f"alter table {table} disable row level security")
    leaking = {
        name for name, calls in READS.items() for call in calls if "theirs" in answered(call, me)
    }
    assert {
        "agents.list",
        "sessions.list",
        "messages.window",
        "state.list",
        "interactions.list",
    } <= leaking


def answered(call: Verb, me: Scope) -> str:
    try:
        return repr(call(me))
    except RetainError as error:
        return repr(error)


def test_sixteen_tenants_write_concurrently(memory: Memory, url: str) -> None:
    """After 16 x 200 concurrent writes, every row is in its own tenant."""
    tenants = [f"tenant {n:02}" for n in range(16)]

    def write(tenant: str) -> None:
        me = memory.scope(tenant=tenant, user="ada", agent="scout")
        me.sessions.add("s")
        for n in range(100):
            assert me.messages.append("s", "user", f"{tenant} says {n}", key=f"{n}").seq == n + 1
        for n in range(50):
            me.state.set(f"k{n}", tenant)
            me.interactions.add(tenant, "m", latency_ms=n)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, tenants))
    assert memory.tenants() == tenants
    for tenant in tenants:
        me = memory.scope(tenant=tenant)
        assert [message.text for message in me.messages.window("s")] == [
            f"{tenant} says {n}" for n in range(100)
        ]
        assert {item.value for item in memory.scope(tenant=tenant, user="ada").state.list()} == {
            tenant
        }
        assert [total.name for total in me.interactions.totals("route")] == [tenant]
    with raw(url) as database:
        assert database.all("select count(*) from messages") == [(1600,)]
        assert database.all("select count(*) from state") == [(800,)]
        wrong = "select count(*) from messages where content not like '{\"text\":\"' || tenant || ' says %'"
        assert database.all(wrong) == [(0,)]


BY_ID: dict[str, Callable[[Scope, str], Any]] = {
    "agents.get": lambda me, id: me.agents.get(id),
    "agents.edit": lambda me, id: me.agents.edit(id, prompt="x"),
    "agents.edit version": lambda me, id: me.agents.edit(id, prompt="x", if_version=7),
    "agents.remove": lambda me, id: me.agents.remove(id),
    "sessions.get": lambda me, id: me.sessions.get(id),
    "sessions.edit": lambda me, id: me.sessions.edit(id, label="x"),
    "sessions.activate": lambda me, id: me.sessions.activate(id),
    "sessions.remove": lambda me, id: me.sessions.remove(id),
    "messages.append": lambda me, id: me.messages.append(id, "user", "x"),
    "messages.append key": lambda me, id: me.messages.append(id, "user", "x", key="first 1"),
    "messages.append last": lambda me, id: me.messages.append(id, "user", "x", expected_last_seq=3),
    "messages.extend": lambda me, id: me.messages.extend(id, [{"role": "user", "content": "x"}]),
    "messages.window": lambda me, id: me.messages.window(id),
    "messages.window last": lambda me, id: me.messages.window(id, last=3),
    "messages.list": lambda me, id: me.messages.list(id),
    "messages.get": lambda me, id: me.messages.get(id, 1),
    "messages.remove": lambda me, id: me.messages.remove(id, 1),
    "messages.pop": lambda me, id: me.messages.pop(id),
    "messages.clear": lambda me, id: me.messages.clear(id),
    "state.get": lambda me, id: me.state.get(id),
    "state.get tenant": lambda me, id: me.state.get(id, area="tenant"),
    "state.get session": lambda me, id: me.state.get("k", area=f"session:{id}"),
    "state.set session": lambda me, id: me.state.set("k", 1, area=f"session:{id}"),
    "state.list session": lambda me, id: me.state.list(area=f"session:{id}"),
    "state.remove": lambda me, id: me.state.remove(id),
    "state.remove version": lambda me, id: me.state.remove(id, area="tenant", if_version=1),
}


def test_a_foreign_id_behaves_like_an_unknown_id(memory: Memory, url: str) -> None:
    """The same error type, text and details, except for the id."""
    theirs = memory.scope(tenant="theirs", user="ada", agent="scout")
    theirs.agents.add("their-id")
    theirs.sessions.add("their-id")
    for n in range(5):
        theirs.messages.append("their-id", "user", "x", key=f"first {n}")
    for area in ("user", "tenant", "session:their-id"):
        theirs.state.set("their-id", 1, area=area)
        theirs.state.set("k", 1, area=area)
    bob = memory.scope(tenant="theirs", user="bob", agent="scout")
    before = hashes(url, where="where tenant = 'theirs'")
    for name, call in BY_ID.items():
        askers = [memory.scope(tenant="mine", user="ada", agent="scout")]
        if not name.startswith("agents") and "tenant" not in name and "version" not in name:
            askers.append(bob)
        for me in askers:
            received = []
            for id in ("their-id", "no-such"):
                with pytest.raises(NotFound) as error:
                    call(me, id)
                received.append(
                    f"{type(error.value)} {error.value} {error.value.details}".replace(id, "ID")
                )
            assert received[0] == received[1], name
    assert hashes(url, where="where tenant = 'theirs'") == before


def test_a_cursor_of_another_tenant_reveals_nothing(memory: Memory) -> None:
    fill(memory, "theirs", ("ada", "bob", "cid"))
    page = memory.scope(tenant="theirs").sessions.list(limit=2)
    assert page.next
    mine = memory.scope(tenant="mine", user="ada", agent="scout")
    mine.sessions.add("only mine")
    assert all(session.id == "only mine" for session in mine.sessions.list(after=page.next))
    state = memory.scope(tenant="theirs", user="ada").state.list(limit=2)
    assert state.next
    assert mine.state.list(after=state.next).items == []
