"""Rules for every kind of memory: isolation, export and import, erasure, keys by tenant."""

from __future__ import annotations

import hashlib
import inspect
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from retain import JsonText, Memory, NewMessage, Scope
from retain.base.errors import Conflict, Invalid, NotFound
from retain.kinds import KINDS
from retain.kinds.checkpoints.checkpoint import Write
from retain.kinds.graph import Entity, Observations, Relation
from retain.kinds.items import Drop
from retain.kinds.kind import Kind
from retain.kinds.summaries import Summaries
from retain.memory import TABLES
from retain.storage.postgres.engine import PostgresDatabase
from retain.storage.sqlite.engine import SqliteDatabase
from tests.chaos.sizes import FULL
from tests.conftest import ENGINES, SETTINGS, new_database

KEEP = "canary"
"""A word in everything that the owner writes."""


def make_session(me: Scope, mark: str) -> str:
    return me.sessions.add(
        f"session of {mark}", label=f"{mark} é\x00😀", attributes={"b": mark, "a": [1.0, None]}
    ).id


def make_read_session(me: Scope, mark: str) -> None:
    """Make a session from which facts were learned."""
    id = make_session(me, mark)
    me.services.database.write(
        me.owner.tenant,
        lambda tx: tx.run(
            """insert into fact_positions (tenant, session_id, seq, tries)
               values (:tenant, :id, 0, 0)""",
            id=id,
        ),
    )


def make_agents(me: Scope, mark: str) -> None:
    me.agents.add(f"agent of {mark}", prompt=mark, tools=["search_memory"], icon="🍳")
    me.agents.edit(f"agent of {mark}", model=f"model {mark}")


def make_messages(me: Scope, mark: str) -> None:
    id = make_session(me, f"{mark} talking")
    me.messages.append(
        id,
        "user",
        f"{mark} \\u0000 \x00",
        key="k",
        created_at=datetime(2001, 2, 3, 4, 5, 6, 789_012, UTC),
    )
    raw = JsonText('{ "text" : "' + mark + ' \\u00e9", "n": 1.0e2, "n": 2 }')
    me.messages.extend(
        id,
        [
            NewMessage("assistant", raw, cost=0.1 + 0.2),
            NewMessage("tool", f"[MemoryRef: some-key - {mark}]", tokens_in=2**53),
        ],
        key=mark,
    )
    me.messages.append(id, "user", f"{mark} said and taken back")
    me.messages.pop(id)


def make_facts(me: Scope, mark: str) -> None:
    id = make_session(me, f"{mark} stating")
    me.messages.append(id, "user", f"{mark} lives in Lisbon.")
    fact = me.facts.add(
        f"{mark} é😀 lives in Lisbon.",
        subject=mark,
        predicate="lives in",
        object=f"Lisbon of {mark}",
        topic="home",
        valid_from=datetime(1965, 2, 3, tzinfo=UTC),
        evidence=[f"{id}#1"],
        confidence=0.1 + 0.2,
    )
    me.facts.correct(fact.id, f"{mark} lives in Porto.", since=datetime(2020, 1, 1, tzinfo=UTC))
    me.facts.retract(me.facts.add(f"{mark} likes trains.").id)
    me.facts.merge(mark, f"{mark}'s brother")


def make_summaries(me: Scope, mark: str) -> None:
    id = make_session(me, f"{mark} folding")
    me.messages.extend(
        id, [NewMessage("user", f"{mark} decided on plan {n} \x00 é.") for n in range(14)]
    )
    services = replace(
        me.services, settings=replace(me.services.settings, summary_model="extractive")
    )
    Summaries(services, me.owner).fold(id, force=True)


def make_notes(me: Scope, mark: str) -> None:
    me.notes.overwrite(f"# {mark}\r\n\u2028 \x00 😀\r\n")
    me.notes.append(f"## {mark} é\nmore")


def make_state(me: Scope, mark: str) -> None:
    id = make_session(me, f"{mark} keeping")
    me.state.set(f"{mark} %_\\", JsonText('{ "b":1.0 , "a":"' + mark + '" }'))
    me.state.set("soon gone", mark, ttl=10**6 + 0.000_001)
    me.state.set("again", mark, area=f"session:{id}")
    me.state.set("again", [mark], area=f"session:{id}", if_version=1)


def make_items(me: Scope, mark: str) -> None:
    place = (f"place of {mark}", '%_"\\')
    me.items.put(
        place, f"{mark} %_\\", JsonText('{ "b":1.0 , "text":"' + mark + '" }'), fields=["text"]
    )
    me.items.put(place, f"{mark} %_\\", {"text": f"{mark} é\x00😀"}, if_version=1)
    me.items.put(place[:1], "soon gone", {mark: [mark, 1]}, ttl=10**6 + 0.000_001)


def make_interactions(me: Scope, mark: str) -> None:
    id = make_session(me, f"{mark} calling")
    me.interactions.add(
        f"route {mark}",
        "m",
        latency_ms=0.1,
        cost=1e-300,
        parameters={"b": mark, "a": 1},
        session=id,
    )
    me.interactions.add(
        "r", f"model {mark}", latency_ms=2**40, tokens_in=2**53, error=f"{mark} \x00 broke"
    )


def make_refs(me: Scope, mark: str) -> None:
    id = make_session(me, f"{mark} storing")
    me.refs.add(
        f"{mark} é\x00😀\n" * 3, f"{mark} [in] brackets", session=id, metadata={"b": mark, "a": 1.0}
    )
    me.refs.capture(b"\xff" + mark.encode() * 500, source=f"cat {mark}", status="Success")
    me.refs.edit(me.refs.add(mark), summary=f"{mark} édité", is_active=False)


def make_knowledge(me: Scope, mark: str) -> None:
    me.knowledge.add(
        f"guide of {mark}", f"# {mark} é\r\n\r\n\x00 😀\r\n\r\n## Two\r\n" + f"About {mark}. " * 200
    )
    me.knowledge.add(f"page of {mark}", f"<!doctype html><p>{mark}", path=f"web/{mark}.html")
    me.knowledge.add(f"guide of {mark}", f"# {mark}\n\nagain")


def make_turns(me: Scope, mark: str) -> None:
    id = make_session(me, f"{mark} taking turns")
    report = me.context(id, mark)
    me.save_turn(
        id,
        [NewMessage("user", mark), NewMessage("assistant", mark)],
        usage={"model": mark},
        context=report,
    )


def make_entries(me: Scope, mark: str) -> None:
    board = f"board of {mark}"
    me.entries.share(board, [me.owner.agent or "scout", f"friend of {mark}"])
    me.entries.add(f"on the board \x00 😀 {mark}", kind="whiteboard", board=board)
    me.entries.add(f"{mark}\nfor good", kind="core")
    me.entries.edit(me.entries.add("first words").id, f"{mark} for a week")


def make_consolidations(me: Scope, mark: str) -> None:
    for place in ("harbour", "station", "harbour", "station"):
        me.entries.add(f"{mark} goes to the {place} in Porto.")
    stored, *rest = me.consolidations.propose(days=0)
    me.consolidations.accept(stored.id)
    for item in rest:
        me.consolidations.refuse(item.id)


def make_checkpoints(me: Scope, mark: str) -> None:
    thread, written = (
        f"thread of {mark}",
        Write("task", 0, "said", ("bytes", mark.encode()), "path"),
    )
    values = {("said", "1.5"): ("bytes", b"\xff" + mark.encode())}
    payload = {"run_id": f"run of {mark}", "n": 1.5}
    me.checkpoints.add(
        thread,
        "1",
        ("bytes", mark.encode()),
        metadata=payload,
        versions={"said": "1.5"},
        values=values,
    )
    me.checkpoints.add(thread, "2", ("null", b""), parent="1", versions={"said": "1.5"})
    me.checkpoints.write(thread, "1", [written], ns=f"inner:{mark}|é")
    me.checkpoints.write(thread, "2", [written])


def make_graph(me: Scope, mark: str) -> None:
    me.graph.add(
        [
            Entity(f"entity of {mark}", f"{mark} é\x00😀", [mark, "", mark]),
            Entity(f"entity of {mark}", "twin"),
        ]
    )
    me.graph.observe([Observations(f"entity of {mark}", [f"{mark} again", "gone"])])
    me.graph.relate([Relation(f"entity of {mark}", "\u2028", mark)])
    me.graph.forget([Observations(f"entity of {mark}", ["gone"])])


EXAMPLES: dict[str, Callable[[Scope, str], Any]] = {
    "agents": make_agents,
    "sessions": make_read_session,
    "messages": make_messages,
    "facts": make_facts,
    "summaries": make_summaries,
    "notes": make_notes,
    "entries": make_entries,
    "consolidations": make_consolidations,
    "refs": make_refs,
    "state": make_state,
    "items": make_items,
    "knowledge": make_knowledge,
    "interactions": make_interactions,
    "turns": make_turns,
    "checkpoints": make_checkpoints,
    "graph": make_graph,
}
WORDS: dict[str, Any] = {
    "id": f"session of {KEEP} talking",
    "ids": [f"session of {KEEP} talking"],
    "session": f"session of {KEEP} talking",
    "stored_id": f"session of {KEEP} talking",
    "seq": 1,
    "role": "user",
    "content": "foreign",
    "messages": [NewMessage("user", "foreign")],
    "name": f"agent of {KEEP}",
    "key": f"{KEEP} %_\\",
    "value": "foreign",
    "route": f"route {KEEP}",
    "model": f"model {KEEP}",
    "latency_ms": 1.0,
    "text": "foreign",
    "header": f"## {KEEP} é",
    "version": 1,
    "board": f"board of {KEEP}",
    "agents": ["foreign"],
    "entries": [{"content": "foreign"}],
    "output": "foreign",
    "query": KEEP,
    "title": f"guide of {KEEP}",
    "place": (f"place of {KEEP}", '%_"\\'),
    "asks": [((f"place of {KEEP}", '%_"\\'), f"{KEEP} %_\\")],
    "changes": [Drop((f"place of {KEEP}", '%_"\\'), f"{KEEP} %_\\")],
    "thread": f"thread of {KEEP}",
    "state": ("bytes", b"foreign"),
    "writes": [Write("task", 0, "said", ("bytes", b"foreign"))],
    "channels": ["said"],
    "runs": [f"run of {KEEP}"],
    "statement": "foreign",
    "other": "foreign",
    "target": "foreign",
    "entities": [Entity("foreign", "foreign", ["foreign"])],
    "observations": [Observations(f"entity of {KEEP}", ["foreign"])],
    "relations": [Relation(f"entity of {KEEP}", "\u2028", KEEP)],
    "names": [f"entity of {KEEP}"],
}
OWN_WORDS: dict[str, dict[str, Any]] = {
    "checkpoints": {"id": "2"},
    "turns": {"session": f"session of {KEEP} taking turns"},
    "items": {"value": {"text": "foreign"}},
    "summaries": {"session": f"session of {KEEP} folding"},
}
"""Words that mean something else to one kind."""
AREAS = ("user", "tenant", f"session:session of {KEEP} keeping")
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def exported(memory: Memory, **which: Any) -> bytes:
    out = io.BytesIO()
    memory.export(out, **which)
    return out.getvalue()


def verbs(kind: type[Kind]) -> list[str]:
    """Return the public verbs of a kind that need no open transaction."""
    own = [(name, value) for name, value in vars(kind).items() if not hasattr(Kind, name)]
    results = [
        name for name, value in own if inspect.isfunction(value) and not name.startswith("_")
    ]
    return [
        name for name in results if "tx" not in inspect.signature(getattr(kind, name)).parameters
    ]


def calls(scope: Scope, kind: type[Kind]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Return a call of every verb with the owner's arguments, in every area if it has areas."""
    for verb in verbs(kind):
        method = getattr(getattr(scope, kind.name), verb)
        parameters = inspect.signature(method).parameters.values()
        known = {**WORDS, **OWN_WORDS.get(kind.name, {})}
        words = {
            p.name: known[p.name]
            for p in parameters
            if p.default is inspect.Parameter.empty or p.name in ("id",)
        }
        for area in AREAS if "area" in inspect.signature(method).parameters else (None,):
            yield (
                f"{verb} {area}",
                partial(method, **words, **({} if area is None else {"area": area})),
            )


def test_every_kind_has_an_example() -> None:
    """A new kind must be added to the table above."""
    assert EXAMPLES.keys() == {kind.name for kind in KINDS}
    assert [kind.name for kind in KINDS] == [
        name for name in vars(Memory.open("memory:").scope()) if name not in ("owner", "services")
    ]


def populate(me: Scope, mark: str = KEEP) -> None:
    for make in EXAMPLES.values():
        make(me, mark)


@pytest.mark.slow_on_postgres
@kinds
def test_another_tenant_reads_and_changes_nothing(
    memory: Memory, me: Scope, kind: type[Kind]
) -> None:
    """P11: through every verb, with the owner's ids; a foreign id behaves like an unknown one."""
    populate(me)
    before = exported(memory, tenants=["acme"])
    assert before.count(KEEP.encode()) > 20
    results = [word for word in (*WORDS.values(), *AREAS) if isinstance(word, str) and KEEP in word]
    results = sorted(
        {*results, *(word.removeprefix("session:") for word in results)}, key=len, reverse=True
    )
    for n, (name, _) in enumerate(calls(me, kind)):
        other = memory.scope(tenant=f"other {n}", user=me.owner.user, agent=me.owner.agent)
        result = answer([call for _, call in calls(other, kind)][n])
        received = repr(result)
        for word in results:  # what the caller said may come back; what the owner stored may not
            received = received.replace(word, "").replace(repr(word)[1:-1], "")
        assert KEEP not in received, name
        begins = kind.name == "notes"  # everyone has notes, be they empty
        if (
            name.split()[0]
            in ("get", "edit", "remove", "active", "activate", "append", "extend", "window")
            and not begins
        ):
            assert isinstance(result, NotFound), name
    assert exported(memory, tenants=["acme"]) == before
    assert sum(KEEP in repr(answer(call)) for _, call in calls(me, kind)) >= 2, (
        "the owner does find it"
    )


def answer(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or its error."""
    try:
        return call()
    except (NotFound, Conflict, Invalid) as error:
        return error


@kinds
def test_another_user_reads_only_tenant_wide_rows(
    memory: Memory, me: Scope, kind: type[Kind]
) -> None:
    """P11: rows of a user are hidden from other users."""
    EXAMPLES[kind.name](me, KEEP)
    bob = exported(memory, tenants=["acme"], user="bob")
    assert KEEP.encode() not in bob
    mine = exported(memory, tenants=["acme"], user="ada")
    for table in kind.tables:
        rows = mine.count(f'"table":"{table.name}"'.encode())
        assert (rows > 0) == bool(table.owned), table.name


# -- export and import -----------------------------------------------------------------------------------------------


@contextmanager
def opened(engine: str, folder: Path, **options: Any) -> Iterator[Memory]:
    """Open an empty database of an engine."""
    if engine == "sqlite":
        with Memory.open(f"sqlite:///{folder}/agent.db", settings=SETTINGS, **options) as memory:
            yield memory
        return
    for url in new_database(engine):
        with Memory.open(url, settings=SETTINGS, **options) as memory:
            yield memory


@pytest.mark.parametrize("target", ENGINES)
@pytest.mark.parametrize("source", ENGINES)
def test_an_export_round_trips_byte_for_byte(tmp_path: Path, source: str, target: str) -> None:
    """Ids, numbers, times, expiry, versions and raw JSON, from any engine into any other."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with opened(source, tmp_path / "a") as first, opened(target, tmp_path / "b") as two:
        for tenant, user in (("acme", "ada"), ("acme", "bob"), ("z'\\%é", "ada")):
            populate(first.scope(tenant=tenant, user=user, agent="scout"), f"{KEEP} of {user}")
        whole = exported(first)
        rows = two.import_(io.BytesIO(whole))
        assert exported(two) == whole
        assert rows.new == sum(rows.rows.values()) == sum(first.counts().values())
        assert two.import_(io.BytesIO(whole)).new == 0
        assert exported(two) == whole
        assert all(count > 0 for count in rows.rows.values()), rows.rows
        assert first.counts() == two.counts()
        for tenant in first.tenants():
            for kind in KINDS:
                ours, theirs = (
                    m.scope(tenant=tenant, user="ada", agent="scout") for m in (first, two)
                )
                for (name, call), (_, twin) in zip(
                    calls(ours, kind), calls(theirs, kind), strict=True
                ):
                    if name.split()[0] in ("get", "list", "window", "totals", "active"):
                        assert repr(answer(call)) == repr(answer(twin)), name
        assert [finding for finding in two.verify() if not finding.ok] == []


def test_work_continues_after_an_import(tmp_path: Path, engine: str) -> None:
    """Numbers, versions and keys continue as in the exported database."""
    with opened("sqlite", tmp_path) as services:
        me = services.scope(tenant="acme", user="ada", agent="scout")
        populate(me)
        whole = exported(services)
    (tmp_path / "away").mkdir()
    with opened(engine, tmp_path / "away") as away:
        away.import_(io.BytesIO(whole))
        me = away.scope(tenant="acme", user="ada", agent="scout")
        session = WORDS["session"]
        assert me.messages.append(session, "user", "next").seq == 5
        retried = {
            "role": "user",
            "content": f"{KEEP} \\u0000 \x00",
            "created_at": datetime(2001, 2, 3, 4, 5, 6, 789_012, UTC),
        }
        assert me.messages.extend(session, [retried], key="k")[0].seq == 1
        assert me.state.set("again", 1, area=AREAS[2], if_version=2).version == 3
        assert me.sessions.active().id == f"session of {KEEP} taking turns"
        with pytest.raises(Conflict):
            away.import_(io.BytesIO(whole))


# -- erasure ----------------------------------------------------------------------------------------------------------


def hashed(memory: Memory, user: str) -> str:
    """Return a hash of all rows of a user."""
    return hashlib.sha256(exported(memory, tenants=["acme"], user=user)).hexdigest()


@pytest.mark.slow_on_postgres
def test_erasing_a_user_leaves_other_users_unchanged(
    open_memory: Callable[..., Memory],
) -> None:
    """Compares hashes in every kind, and checks the receipt; also for user names that contain
    one another. CHAOS=full tries all 49.
    """
    memory = open_memory()
    users = [f"user {n}" for n in range(46 if FULL else 2)] + ["user%", "user_1", "user", "*"]
    for user in users:
        populate(memory.scope(tenant="acme", user=user, agent="scout"), f"{KEEP} of {user}")
    populate(memory.scope(tenant="other", user="user", agent="scout"), f"{KEEP} elsewhere")
    memory.scope(tenant="acme").state.set("of all", KEEP, area="tenant")
    elsewhere = exported(memory, tenants=["other"])
    nothing = hashed(memory, "nobody")
    for gone in ("user", "user%"):
        users.remove(gone)
        before = {user: hashed(memory, user) for user in users}
        assert len(set(before.values())) == len(users)
        counts = memory.counts()
        held = exported(memory, tenants=["acme"], user=gone)
        receipt = memory.erase(gone, tenant="acme")
        owned = [table.name for table in TABLES if table.owned]
        assert receipt.removed == {
            name: held.count(f'"table":"{name}"'.encode()) for name in owned
        } | {"answers": 0}
        assert all(receipt.removed[name] for name in owned)
        assert {name: counts[name] - count for name, count in memory.counts().items()} == {
            table.name: receipt.removed.get(table.name, 0) for table in TABLES
        }
        assert {user: hashed(memory, user) for user in users} == before
        assert hashed(memory, gone) == nothing
    assert exported(memory, tenants=["other"]) == elsewhere
    assert memory.scope(tenant="acme").state.get("of all", area="tenant").value == KEEP
    assert set(memory.erase("user", tenant="acme").removed.values()) == {0}
    assert [finding for finding in memory.verify() if not finding.ok] == []


# -- keys -------------------------------------------------------------------------------------------------------------


def keys_of(memory: Memory) -> dict[str, list[list[str]]]:
    """Return the columns of every primary, unique and foreign key by table, from the catalog."""
    results: dict[str, list[list[str]]] = {}
    if isinstance(memory.database, SqliteDatabase):
        import apsw

        connection = apsw.Connection(str(memory.database.path))
        for (table,) in connection.execute(
            "select name from sqlite_master where type = 'table'"
        ).fetchall():
            rows = connection.execute(
                "select name from pragma_table_info(?) where pk > 0 order by pk", (table,)
            ).fetchall()
            results[str(table)] = [[str(name) for (name,) in rows]]
            for (index,) in connection.execute(
                'select name from pragma_index_list(?) where "unique"', (table,)
            ).fetchall():
                columns = connection.execute(
                    "select name from pragma_index_info(?) order by seqno", (index,)
                ).fetchall()
                results[str(table)].append([str(name) for (name,) in columns])
            foreign: dict[Any, list[str]] = {}
            for id, column in connection.execute(
                'select id, "from" from pragma_foreign_key_list(?) order by id, seq', (table,)
            ):
                foreign.setdefault(id, []).append(str(column))
            results[str(table)] += foreign.values()
        connection.close()
        return results
    import psycopg

    assert isinstance(memory.database, PostgresDatabase)
    with psycopg.connect(memory.settings.database) as connection_:
        rows_ = connection_.execute(
            """select c.relname, k.conname,
                      array(select a.attname::text from unnest(k.conkey) with ordinality as u(n, place)
                            join pg_attribute a on a.attrelid = c.oid and a.attnum = u.n order by place)
               from pg_class c join pg_namespace s on s.oid = c.relnamespace
               left join pg_constraint k on k.conrelid = c.oid and k.contype in ('p', 'u', 'f')
               where c.relkind = 'r' and s.nspname = %s""",
            ("retain",),
        ).fetchall()
    for table, _, columns_ in rows_:
        results.setdefault(table, []).append(columns_)
    return results


def test_every_database_key_starts_with_the_tenant(memory: Memory) -> None:
    """No id can be probed, or collide, between tenants."""
    if memory.database.name.startswith("oracle:"):
        pytest.skip("the migrations are the same; this reads the catalogs of the other engines")
    result = keys_of(memory)
    assert result.pop("retain_schema")
    assert result.pop("leases")[0] == ["tenant", "what"], "who is at work is not memory"
    assert result.pop("job_marks")[0] == ["tenant", "job"], "nor how far jobs are"
    assert result.pop("due_sessions")[0] == ["tenant", "session_id"], "nor what they do again"
    assert result.pop("keys")[0] == ["tenant", "id"], (
        "who may come in is not memory: no export has it, no import brings it"
    )
    assert result.pop("keyed")[0] == ["tenant"]
    assert result.pop("signins")[0] == ["tenant", "digest"], (
        "nor is which browsers came in with them"
    )
    assert result.pop("audit")[0] == ["tenant", "number"], (
        "what was done is not memory: it stays where it was done"
    )
    assert result.pop("answers")[0] == ["tenant", "principal", "route", "key"], (
        "nor is what was answered"
    )
    assert result.pop("event_numbers")[0] == ["tenant"], "nor who is told about changes"
    assert result.pop("events")[0] == ["tenant", "number"]
    assert result.pop("webhooks")[0] == ["tenant", "id"]
    assert result.pop("dead_letters")[0] == ["tenant", "webhook_id", "number"]
    assert result.pop("tenants")[0] == ["tenant"]
    derived = {
        name: result.pop(name) for name in list(result) if name.startswith(("search_", "sqlite_"))
    }
    assert derived.keys() >= {"search_items", "search_vectors", "search_behind"}, (
        "what is made of the others"
    )
    assert result.keys() == {table.name for table in TABLES}
    for table in TABLES:
        assert all(key[0] == "tenant" for key in result[table.name]), (
            table.name,
            result[table.name],
        )
        assert ["tenant", *table.key] in result[table.name]
        assert len(result[table.name]) >= 2, (
            "and a foreign key to the tenant or to what it belongs to"
        )


def test_every_table_declares_its_user_column() -> None:
    """Erasing a user needs to know the rows of a user in every table."""
    folder = Path(__file__).parent.parent / "src" / "retain" / "storage" / "migrations"
    schema = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.sql")))
    for table in TABLES:
        definition = re.search(rf"create table {table.name} \((.*?)\n\) ", schema, re.DOTALL)
        assert definition, table.name
        personal = any(
            column in definition[1]
            for column in (
                "user_id",
                "area {key}",
                "session_id",
                "consolidation_id",
                "document_id",
                "entity_id",
                "fact_id",
                "references threads",
            )
        )
        assert personal == bool(table.owned), table.name
