"""Checkpoints of graphs: steps, values stored once per version, writes, and the cost of long
threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from memorist import Memory, Scope
from memorist.base.errors import NotFound, TooLarge
from memorist.kinds.checkpoints import line_of
from memorist.storage.database import Transaction
from memorist.storage.sqlite.engine import SqliteTransaction
from memorist_frameworks.checkpoints import checkpoint, checkpoints
from memorist_frameworks.checkpoints.checkpoint import Write
from memorist_frameworks.checkpoints.checkpoints import Checkpoints, checkpoints_of
from testkit.clock import Now
from testkit.databases import one_engine
from testkit.failures import invalid, raised
from testkit.faults import with_faults
from testkit.memories import scope_of
from testkit.recording import WorkCounter, recorded_calls

BINARY = bytes(range(256))


def steps(me: Scope, thread: str, count: int, *, ns: str = "", run: str = "r") -> None:
    """Add a thread in which `n` changes with every step and `big` never does."""
    for n in range(count):
        checkpoints_of(me).add(
            thread,
            f"{n:05}",
            ("json", b"%d" % n),
            ns=ns,
            parent=f"{n - 1:05}" if n else None,
            metadata={"step": n, "run_id": run, "even": n % 2 == 0},
            versions={"big": "1", "n": str(n + 1)},
            values={("n", str(n + 1)): ("bytes", b"%d" % n)}
            | ({} if n else {("big", "1"): ("bytes", BINARY * 40)}),
        )


def ids(me: Scope, *args: Any, **named: Any) -> list[str]:
    return [step.id for step in checkpoints_of(me).list(*args, **named)]


def rows(memory: Memory, table: str) -> int:
    return memory.counts()[table]


def test_a_checkpoint_round_trips(me: Scope) -> None:
    """Any bytes, names of any length and script; adding a step again replaces it."""
    ns = "|".join(f"größe_{n}:0198c1f2-7a3b-7c4d-8e5f-0123456789ab" for n in range(20))
    values = {("a", "1.0"): ("bytes", BINARY), ("b " * 200, "2"): ("null", b"")}
    versions = dict(values.keys()) | {"empty": "3"}
    checkpoints_of(me).add(
        "t é", "x", ("msgpack", BINARY[::-1]), ns=ns, versions=versions, values=values
    )
    stored = checkpoints_of(me).get("t é", ns=ns)
    assert (stored.thread, stored.ns, stored.id, stored.parent) == ("t é", ns, "x", None)
    assert stored.metadata == {}
    assert stored.state == ("msgpack", BINARY[::-1])
    assert stored.values == {channel: value for (channel, _), value in values.items()}
    assert stored.versions == versions
    checkpoints_of(me).add(
        "t é", "x", ("bytes", b"new"), ns=ns, parent="w", metadata={"a": [1.5, None]}
    )
    again = checkpoints_of(me).get("t é", ns=ns, id="x")
    assert (again.state, again.parent) == (("bytes", b"new"), "w")
    assert (again.metadata, again.values) == ({"a": [1.5, None]}, {})
    assert again.created_at == stored.created_at


def test_a_write_is_stored_once(me: Scope) -> None:
    """The first write of a task stays; special writes for the whole task are replaced."""
    checkpoints_of(me).write(
        "t", "1", [Write("b", 1, "x", ("bytes", b"1")), Write("b", 0, "x", ("bytes", b"0"))]
    )
    raised(NotFound, checkpoints_of(me).get, "t")
    checkpoints_of(me).add("t", "1", ("null", b""))
    checkpoints_of(me).write(
        "t",
        "1",
        [Write("b", 0, "x", ("bytes", b"again")), Write("b", -1, "error", ("bytes", b"e"), "p")],
    )
    checkpoints_of(me).write(
        "t",
        "1",
        [Write("b", -1, "error", ("bytes", b"f"), "p"), Write("a", 0, "y", ("bytes", b"a"), "p")],
    )
    assert checkpoints_of(me).get("t").writes == [
        Write("b", 0, "x", ("bytes", b"0")),
        Write("b", 1, "x", ("bytes", b"1")),
        Write("a", 0, "y", ("bytes", b"a"), "p"),
        Write("b", -1, "error", ("bytes", b"f"), "p"),
    ]


def test_lists(me: Scope) -> None:
    """Newest first; by namespace, thread or all; before a step; by metadata; page by page."""
    steps(me, "t", 5)
    steps(me, "t", 2, ns="inner:1")
    steps(me, "u", 1, run="s")
    assert ids(me, "t", ns="") == ["00004", "00003", "00002", "00001", "00000"]
    assert ids(me, "t") == ["00004", "00003", "00002", "00001", "00001", "00000", "00000"]
    assert len(ids(me)) == 8
    assert ids(me, "t", ns="", before="00002") == ["00001", "00000"]
    assert ids(me, "t", ns="", where={"even": True, "run_id": "r"}, limit=2) == ["00004", "00002"]
    assert ids(me, where={"run_id": "s"}) == ["00000"]
    assert ids(me, where={"missing": None, "step": 4}) == ["00004"]
    assert ids(me, "t", id="00003") == ["00003"]
    assert ids(me, "nothing") == []
    for item in ({}, {"where": {"run_id": "r"}}, {"thread": "t", "ns": ""}):
        whole, results, after = checkpoints_of(me).list(**item).items, [], None
        while True:
            page = checkpoints_of(me).list(**item, limit=3, after=after)
            results += page.items
            if (after := page.next) is None:
                break
        assert results == whole


def test_a_stranger_finds_and_changes_no_thread(memory: Memory, me: Scope) -> None:
    """P11: through every verb; a foreign thread behaves like an unknown one."""
    steps(me, "t", 3)
    before = checkpoints_of(me).list().items
    for stranger in (scope_of(memory, "bob"), memory.scope(tenant="other", user="ada")):
        theirs = checkpoints_of(stranger)
        raised(NotFound, theirs.get, "t")
        raised(NotFound, theirs.remove, "t")
        assert theirs.list("t").items == []
        assert theirs.trace("t", "00002", ["n"]) == {"n": checkpoint.Traced(None, [])}
        assert [theirs.prune("t"), theirs.duplicate("t", "u"), theirs.remove_runs(["r"])] == [0] * 3
        theirs.add("t", "00001", ("null", b""))
        theirs.write("t", "00001", [Write("task", 0, "n", ("null", b""))])
        assert len(theirs.list()) == 1
    assert len(before) == 3
    assert checkpoints_of(me).list().items == before


def test_removing_leaves_nothing_behind(memory: Memory, me: Scope) -> None:
    """A thread is removed completely; a run with its steps, their writes, and values no other step
    uses.
    """
    steps(me, "t", 4)
    checkpoints_of(me).write("t", "00001", [Write("task", 0, "n", ("bytes", b"1"))])
    checkpoints_of(me).add(
        "t", "00009", ("null", b""), metadata={"run_id": "late"}, versions={"big": "1", "n": "4"}
    )
    assert checkpoints_of(me).remove_runs(["r", "nothing"]) == 4
    assert ids(me, "t") == ["00009"]
    assert checkpoints_of(me).get("t").values == {
        "big": ("bytes", BINARY * 40),
        "n": ("bytes", b"3"),
    }
    assert (rows(memory, "channel_values"), rows(memory, "checkpoint_writes")) == (2, 0)
    assert checkpoints_of(me).remove_runs(["late"]) == 1
    assert [rows(memory, table.name) for table in Checkpoints.tables] == [0, 0, 0, 0]
    raised(NotFound, checkpoints_of(me).remove, "t")


def test_pruning_keeps_what_the_newest_step_needs(memory: Memory, me: Scope) -> None:
    """The newest step per namespace; for a channel stored as deltas, also the steps back to its
    full value.
    """
    steps(me, "t", 4)
    steps(me, "t", 2, ns="inner:1")
    assert checkpoints_of(me).prune("t") == 4
    assert ids(me, "t") == ["00003", "00001"]
    assert checkpoints_of(me).get("t").values["n"] == ("bytes", b"3")
    assert rows(memory, "channel_values") == 4
    for n in range(6):
        changing = {"counters_since_delta_snapshot": {"log": [n - 2, n - 2]}} if n > 2 else {}
        seed = {("log", "v2"): ("bytes", b"two")} if n == 2 else {}
        checkpoints_of(me).add(
            "d",
            str(n),
            ("null", b""),
            parent=str(n - 1) if n else None,
            metadata=changing,
            versions={"log": f"v{n}"},
            values=seed,
        )
        checkpoints_of(me).write(
            "d",
            str(n),
            [Write("task", 0, "log", ("bytes", b"%d" % n)), Write("t", 1, "x", ("null", b""))],
        )
    before = checkpoints_of(me).trace("d", "5", ["log", "other"])
    assert before["log"].seed == ("bytes", b"two")
    assert [write.value[1] for write in before["log"].writes] == [b"2", b"3", b"4"]
    assert before["other"] == checkpoint.Traced(None, [])
    assert checkpoints_of(me).prune("d") == 2
    assert ids(me, "d") == ["5", "4", "3", "2"]
    assert checkpoints_of(me).trace("d", "5", ["log", "other"]) == before
    assert checkpoints_of(me).prune("nothing") == 0


def test_a_copy_is_an_independent_thread(me: Scope) -> None:
    """Everything but the name is equal, and each can continue without the other."""
    steps(me, "t", 3)
    steps(me, "t", 1, ns="inner:1")
    checkpoints_of(me).write("t", "00002", [Write("task", 0, "n", ("bytes", b"w"), "p")])
    assert [checkpoints_of(me).duplicate("t", "u") for _ in range(2)] == [4, 4]
    mine, copied = (
        {(step.ns, step.id): step for step in checkpoints_of(me).list(thread)}
        for thread in ("t", "u")
    )
    assert {
        at: replace(step, thread="t", created_at=mine[at].created_at) for at, step in copied.items()
    } == mine
    checkpoints_of(me).remove("t")
    assert len(ids(me, "u")) == 4
    assert checkpoints_of(me).duplicate("t", "u") == 0


@contextmanager
def meanwhile(memory: Memory, statement: str, do: Callable[[], object]) -> Iterator[None]:
    """Run another writer just before a statement is executed for the first time, unless it blocks."""
    kind = memory.database.write("acme", type)
    other = threading.Thread(target=do)

    def after(real: Callable[..., Any]) -> Callable[..., Any]:
        def run(tx: Transaction, sql: str, **values: Any) -> Any:
            if sql == statement and other.ident is None:
                other.start()
                other.join(0.15)
            return real(tx, sql, **values)

        return run

    with pytest.MonkeyPatch.context() as patched:
        for name in ("run", "all", "send"):
            patched.setattr(kind, name, after(getattr(kind, name)))
        yield
    other.join()


@pytest.mark.parametrize("left", [True, False])
def test_removing_runs_keeps_concurrent_additions(memory: Memory, me: Scope, left: bool) -> None:
    """Values of a step that another writer adds stay, and so does the step."""
    steps(me, "t", 1, run="old")
    if left:
        checkpoints_of(me).add(
            "t", "00001", ("json", b"1"), versions={"n": "2"}, values={("n", "2"): ("bytes", b"1")}
        )
    new: Any = {"versions": {"n": "3"}, "values": {("n", "3"): ("bytes", b"2")}}
    gone = "delete from threads where tenant = :tenant and line = :line"
    before = checkpoints._STORED if left else gone
    with meanwhile(
        memory, before, lambda: checkpoints_of(me).add("t", "00002", ("json", b"2"), **new)
    ):
        assert checkpoints_of(me).remove_runs(["old", "old"]) == 1
    value = checkpoints_of(me).get("t")
    assert (value.id, value.values) == ("00002", {"n": ("bytes", b"2")})


def test_a_copy_has_the_values_of_every_step(memory: Memory, me: Scope) -> None:
    """Whatever is added during the copy."""
    steps(me, "t", 2)
    new: Any = {"versions": {"n": "3"}, "values": {("n", "3"): ("bytes", b"2")}}
    with meanwhile(
        memory,
        checkpoints._COPY_WRITES,
        lambda: checkpoints_of(me).add("t", "00002", ("json", b"2"), **new),
    ):
        checkpoints_of(me).duplicate("t", "u")
    for step in checkpoints_of(me).list("u"):
        assert step.values.keys() == step.versions.keys()


@one_engine
def test_writes_before_their_step_are_kept(me: Scope) -> None:
    checkpoints_of(me).write("t", "1", [Write("task", 0, "n", ("bytes", b"early"))])
    assert checkpoints_of(me).prune("t") == 0
    checkpoints_of(me).add("t", "1", ("json", b"1"), metadata={"run_id": "r"})
    assert [write.value for write in checkpoints_of(me).get("t").writes] == [("bytes", b"early")]
    checkpoints_of(me).write("t", "2", [Write("task", 0, "n", ("bytes", b"early"))])
    assert checkpoints_of(me).remove_runs(["r"]) == 1
    checkpoints_of(me).add("t", "2", ("json", b"1"))
    assert len(checkpoints_of(me).get("t").writes) == 1


@one_engine
def test_a_cycle_of_parents_terminates(me: Scope) -> None:
    checkpoints_of(me).add("t", "1", ("json", b"1"), parent="2")
    checkpoints_of(me).add("t", "2", ("json", b"1"), parent="1")
    assert checkpoints_of(me).trace("t", "1", ["n"])["n"].seed is None


def test_retention_removes_whole_threads(open_memory: Callable[..., Memory], now: Now) -> None:
    """A thread without recent runs is removed completely; an active one is kept completely."""
    memory = open_memory(clock=now)
    me = scope_of(memory, "ada")
    for thread in ("old", "going on"):
        steps(me, thread, 2)
    now.pass_days(10)
    checkpoints_of(me).write("going on", "00001", [Write("task", 0, "n", ("bytes", b"w"))])
    assert memory.purge(days=10).threads == 0
    now.pass_days(1)
    assert memory.purge(days=10).threads == 1
    assert ids(me) == ["00001", "00000"]
    assert rows(memory, "channel_values") == 3
    assert memory.purge().threads == 0


def fill(memory: Memory, me: Scope, thread: str, count: int) -> None:
    """Write the thread that `steps` would create, in one transaction."""
    steps(me, thread, 1)
    line, nothing = (
        line_of("ada", thread, ""),
        {"type": "null", "data": "", "metadata": "{}", "run": None, "checksum": 0},
    )
    versions = [
        {"line": line, "channel": "n", "version": str(n + 1), **nothing} for n in range(1, count)
    ]
    created = [
        {
            "line": line,
            "id": f"{n:05}",
            "parent": f"{n - 1:05}",
            "versions": f'{{"big":"1","n":"{n + 1}"}}',
            **nothing,
        }
        for n in range(1, count)
    ]

    def work(tx: Transaction) -> None:
        tx.many(
            checkpoints._KEEP,
            [
                {name: version[name] for name in version if name not in ("metadata", "run")}
                for version in versions
            ],
        )
        tx.many(checkpoints._ADD, created)

    memory.database.write("acme", work)


CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get", {}),
    ("get", {"id": "00005"}),
    ("list", {"ns": "", "limit": 2}),
    ("add", {"id": "99999", "state": ("null", b""), "parent": "00005", "versions": {"big": "1"}}),
    ("write", {"id": "99999", "writes": [Write("task", 0, "n", ("bytes", b"w"))]}),
)


@pytest.mark.not_on_h2("counts rows by the statistics of PostgreSQL")
def test_cost_does_not_grow_with_the_thread(memory: Memory, me: Scope) -> None:
    """With 1,000 steps, reading the newest, a middle one, a page and adding a step cost as
    much as with 10.
    """
    faulty_memory, faults = with_faults(memory)
    watched = checkpoints_of(scope_of(faulty_memory, "ada", "scout"))
    counter = WorkCounter("threads", "checkpoints", "channel_values", "checkpoint_writes")
    faults.wrap(counter)
    cost: dict[int, list[int]] = {}
    for length in (10, 1000):
        thread = f"of {length}"
        fill(memory, me, thread, length)
        cost[length] = []
        for verb, named in CALLS:
            getattr(watched, verb)(thread, **named)
            cost[length].append(counter.last)
    assert all(cost[10])
    assert all(long <= 1.3 * short + 5 for short, long in zip(cost[10], cost[1000], strict=True)), (
        cost
    )


@one_engine
def test_a_step_is_read_with_one_statement(me: Scope) -> None:
    """With its values and writes: over a network, each statement is a round trip."""
    steps(me, "t", 3)
    written = [Write("task", n, "n", ("bytes", b"x"), path) for n, path in ((1, "b"), (0, "a"))]
    checkpoints_of(me).write("t", "00002", written)
    checkpoints_of(me).write("t", "00001", written[:1])
    with recorded_calls(SqliteTransaction.all) as reads:
        newest = checkpoints_of(me).get("t")
    with recorded_calls(SqliteTransaction.one) as other_reads:
        checkpoints_of(me).get("t")
    assert (len(reads), len(other_reads)) == (1, 0)
    assert newest.values == {"big": ("bytes", BINARY * 40), "n": ("bytes", b"2")}
    assert newest.writes == [written[1], written[0]]
    assert checkpoints_of(me).get("t", id="00001").writes == written[:1]
    assert [newest] == checkpoints_of(me).list("t", limit=1).items


def test_unchanged_values_are_stored_once(memory: Memory, me: Scope) -> None:
    """A channel of 10 kB that no step changes is one row, whatever the number of steps."""
    me.transaction(lambda inner: steps(inner, "t", 40))
    sizes = "select channel, count(*), sum(length(data)) from channel_values where tenant = :tenant group by channel"
    results = {
        channel: (count, size)
        for channel, count, size in memory.database.read("acme", lambda tx: tx.all(sizes))
    }
    assert results["big"] == (1, 10_240)
    assert results["n"][0] == 40
    assert results["n"][1] < 200


@one_engine
def test_invalid_checkpoints_are_rejected(me: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each error names the field."""
    invalid("metadata", checkpoints_of(me).add, "t", "1", ("null", b""), metadata=["x"])
    invalid("metadata", checkpoints_of(me).add, "t", "1", ("null", b""), metadata={"x": object()})
    for ns in (7, "a\0b"):
        invalid("ns", checkpoints_of(me).get, "t", ns=ns)
    assert raised(TooLarge, checkpoints_of(me).get, "t", ns="x|" * 5000).field == "ns"
    monkeypatch.setattr(checkpoint, "MAX_BYTES", 10)
    assert (
        raised(
            TooLarge,
            checkpoints_of(me).add,
            "t",
            "1",
            ("null", b""),
            values={("big", "1"): ("bytes", b"x" * 11)},
        ).field
        == "big"
    )
    invalid("type", checkpoints_of(me).add, "t", "1", ("two words", b""))
    assert ids(me) == []


@one_engine
def test_verify_finds_a_thread_under_another_name(memory: Memory, me: Scope) -> None:
    """A row that was moved by hand would be unreachable, or visible to another owner."""
    steps(me, "t", 1)
    assert all(finding.ok for finding in memory.verify())
    memory.database.write(
        "acme", lambda tx: tx.run("update threads set thread = 'u' where tenant = :tenant")
    )
    assert [finding.problem for finding in memory.verify() if not finding.ok] == ["acme: thread u "]


@one_engine
def test_secrets_in_the_metadata_are_masked(open_memory: Callable[..., Memory]) -> None:
    """The run configuration is copied into the metadata, including credentials."""
    me = scope_of(open_memory(secrets="mask"), "ada")
    checkpoints_of(me).add("t", "1", ("null", b""), metadata={"key": "sk-proj-" + "a1B2" * 12})
    assert checkpoints_of(me).get("t").metadata == {"key": "[secret: openai-key …a1B2]"}
