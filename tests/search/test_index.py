"""The index matches the stored data: after each operation, on each engine (P12, P13).

`documents` compares what a search sees before and after a round of the index job.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from memorist import Memory, NewMessage, Scope
from memorist.base.errors import Conflict, Full, NotFound, WrongVersion
from memorist.cli.main import main
from memorist.jobs import embed, reindex
from memorist.kinds.refs.reference import INACTIVE_ROLE, INDEXED_CHARACTERS
from memorist.search import reindexer, segment
from memorist.search.index import MAX_CHARACTERS, split_text
from memorist.search.reindexer import is_behind
from memorist.search.search_document import SearchDocument
from memorist.search.segment import analyse, build, encode
from memorist.storage import leases
from memorist.storage.database import Transaction, Work
from testkit.clock import START, Now
from testkit.examples import exported, populate
from testkit.failures import raised
from testkit.fake_embedder import FakeEmbedder
from testkit.faults import with_faults
from testkit.memories import problems, scope_of
from testkit.recording import recorded_calls
from tests.search.indexing import documents, finds, index_all, segments, texts, view_of

MISSING = "the index has all records (`memorist reindex` adds missing ones)"
STRAY = "the index has no records that do not exist (`memorist reindex` removes them)"
DAMAGED = "the segments and vectors of the index are whole (`memorist reindex` repairs them)"
_BEHIND = "insert into search_behind (tenant, round) values (:tenant, 1) on conflict do nothing"
_RAISE = "update index_owners set generation = generation + 1 where tenant = :tenant"
_SET_DEAD = """update index_segments set dead = :dead
    where tenant = :tenant and owner = :owner and id = :id"""
_ADD_SEGMENT = """insert into index_segments (tenant, owner, id, documents, dead, parts, content)
    values (:tenant, :owner, :id, 1, null, 0, :content)"""
_SET_CONTENT = """update index_segments set content = :content
    where tenant = :tenant and owner = :owner"""


def document(kind: str, id: str, text: str, **named: Any) -> SearchDocument:
    """Return a document of Ada, with defaults except the given values."""
    return SearchDocument(kind, id, text, **{"at": START, "user": "ada", **named})


def using(memory: Memory, embedder: FakeEmbedder) -> Memory:
    """Return the same memory with another embedder."""
    return Memory(replace(memory.services, embedder=embedder), memory.migrations)


def behind(memory: Memory, tenant: str = "acme") -> bool:
    return memory.database.read(tenant, is_behind)


def failed_checks(memory: Memory) -> list[str]:
    return [finding.check for finding in memory.verify() if not finding.ok]


@pytest.fixture
def memory(open_memory: Callable[..., Memory], now: Now) -> Memory:
    """The test's database with a stopped clock."""
    return open_memory(clock=now)


# -- messages ------------------------------------------------------------------------------------------------------


def message(seq: int, text: str, **named: Any) -> SearchDocument:
    named = {"agent": "scout", "session": "s", "role": "user", **named}
    return document("messages", "s", text, seq=seq, **named)


def test_a_message_is_indexed_by_its_text(memory: Memory, me: Scope) -> None:
    me.sessions.add("s")
    me.messages.append("s", "user", "It rains\x00 in Porto.", author="Caroline", key="k")
    me.messages.append("s", "user", "It rains\x00 in Porto.", author="Caroline", key="k")
    when = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    me.messages.extend(
        "s", [NewMessage("assistant", "Indeed.", created_at=when), NewMessage("user", " \n ")]
    )
    scope_of(memory).messages.append("s", "system", "Be kind.")
    at = 1_683_554_160_000_000
    assert documents(memory) == [
        message(1, "It rains␀ in Porto.", author="Caroline"),
        message(2, "Indeed.", role="assistant", author="scout", at=at),
        message(4, "Be kind.", role="system"),
    ]
    assert problems(memory) == []


@pytest.mark.parametrize(
    ("role", "content", "found"),
    [
        ("user", {"text": "Look!", "attachments": [{"type": "image", "url": "u", "caption": "a dog on a wall"}]},
         "Look!\na dog on a wall"),
        ("user", {"parts": [{"type": "text", "text": "One."}, {"type": "image", "data": "QUJD" * 90, "alt": "a cat"}]},
         "One.\na cat"),
        ("user", {"text": "", "attachments": [{"type": "file", "name": "plan.pdf", "description": "the plan"}]},
         "(an attachment: plan.pdf)\nthe plan"),
        ("assistant", {"tool_calls": [{"id": "1", "function": {"name": "grep", "arguments": '{"path": "src"}'}}]},
         'grep {"path": "src"}'),
        ("tool", {"text": "14 passed", "tool_call_id": "1"}, "14 passed"),
        ("tool", "Ran `ls`. [MemoryRef: ls-1234 - 40 lines]", "Ran `ls`. [MemoryRef: ls-1234 - 40 lines]"),
        ("user", {"parts": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "done"}]}]},
         "done"),
        ("tool", {"output": {"rows": [1, 2]}}, '{"rows": [1, 2]}'),
        ("user", {"parts": [{"type": "tool_result", "content": "A" * 5000}]}, "…"),
        ("user", {"other": "thing"}, None),
        ("user", {"text": 7}, None),
    ],
)  # fmt: skip
def test_other_message_content_is_indexed(
    open_memory: Callable[..., Memory], role: Any, content: Any, found: Any
) -> None:
    """Captions, tool calls and results; no binary data, and nothing twice."""
    memory = open_memory()
    me = scope_of(memory, "ada", "scout")
    me.sessions.add("s")
    me.messages.append("s", role, content)
    assert texts(memory, "messages") == ([] if found is None else [found])


def test_a_long_message_is_indexed_in_chunks(memory: Memory, me: Scope) -> None:
    me.sessions.add("s")
    whole = "\n\n".join(f"Paragraph {n} is about the number {n}. " * 8 for n in range(40))
    assert len(whole) > MAX_CHARACTERS
    me.messages.append("s", "user", whole)
    me.messages.append("s", "user", whole[:MAX_CHARACTERS])
    records = documents(memory)
    first = [each for each in records if each.seq == 1]
    assert [each.part for each in first] == list(range(len(split_text(whole))))
    assert [each.text for each in first] == split_text(whole)
    assert [each.text for each in records if each.seq == 2] == [whole[:MAX_CHARACTERS]]
    assert "".join("".join(split_text(whole)).split()) == "".join(whole.split()), (
        "nothing is lost between them"
    )
    assert problems(memory) == []


def test_a_turn_indexes_its_messages_and_references(memory: Memory, me: Scope) -> None:
    me.sessions.add("s")
    call = {
        "tool_calls": [
            {"id": "1", "function": {"name": "shell", "arguments": '{"command": "make test"}'}}
        ]
    }
    result = NewMessage("tool", {"text": "line of the log\n" * 2000, "tool_call_id": "1"})
    for _ in range(2):
        me.save_turn(
            "s", [NewMessage("user", "Test it."), NewMessage("assistant", call), result], key="k"
        )
    records = documents(memory)
    kinds = [(each.kind, each.seq) for each in records]
    assert kinds == [("messages", 1), ("messages", 2), ("messages", 3), ("refs", 0)]
    assert records[2].text.startswith("Ran `shell make test`. [MemoryRef: ")
    assert records[3].session == "s"
    assert records[3].text.splitlines()[1:3] == ["shell make test", "line of the log"]
    assert problems(memory) == []


# -- notes ---------------------------------------------------------------------------------------------------------


def titles(memory: Memory) -> list[str]:
    return [each.title for each in documents(memory, "notes")]


def test_notes_are_indexed_by_section(memory: Memory, me: Scope, now: Now) -> None:
    home, work = "She lives in Turin. " * 20, "She writes software. " * 20
    me.notes.overwrite(f"# Ada\n\n## Home\n\n{home}\n\n## Work\n\n{work}")
    owners = {(each.id, each.agent, each.author) for each in documents(memory)}
    assert owners == {('["ada","scout"]', "scout", "scout")}
    assert titles(memory) == ["Ada › Home", "Ada › Work"]
    now.pass_days(1)
    me.notes.replace_section("Work", "She has retired. " * 20)
    assert [each.at for each in documents(memory)] == [now.micros] * 2
    me.notes.delete_section("Home")
    assert titles(memory) == ["Ada › Work"]
    me.notes.append("# Later\n\n" + "More is to come. " * 20)
    assert titles(memory) == ["Ada › Work", "Later"]
    assert problems(memory) == []
    me.notes.clear()
    assert documents(memory) == []
    me.notes.restore(1)
    raised(WrongVersion, me.notes.overwrite, "no", if_version=1)
    assert titles(memory) == ["Ada › Home", "Ada › Work"]
    assert problems(memory) == []


def test_an_unchanged_passage_keeps_its_vector(open_memory: Callable[..., Memory]) -> None:
    fake = FakeEmbedder()
    memory = using(open_memory(), fake)
    me = scope_of(memory, "ada", "scout")
    home, work = "She lives in Turin. " * 20, "She writes software. " * 20
    me.notes.overwrite(f"# Ada\n\n## Home\n\n{home}\n\n## Work\n\n{work}")
    me.state.set("theme", "dark")
    assert memory.run_jobs().jobs["vectors"].done == 3
    fake.batches.clear()
    me.notes.replace_section("Work", "She has retired. " * 20)
    me.state.set("theme", "dark", ttl=60)
    assert memory.run_jobs().jobs["vectors"].done == 1
    assert "retired" in fake.batches[0][0]
    assert embed.lag(memory.services, "acme").pending == 0
    assert problems(memory) == []


def test_names_that_look_like_json_are_distinguished(memory: Memory) -> None:
    for user, agent in (('a","b', "c"), ("a", 'b","c'), ("\\", '"'), ('\\"', "%é")):
        scope_of(memory, user, agent).notes.overwrite(f"of {user}")
        scope_of(memory, user).state.set(agent, user)
    notes = documents(memory, "notes")
    assert sorted(json.loads(each.id) for each in notes) == sorted(
        [each.user, each.agent] for each in notes
    )
    assert len({each.id for each in notes}) == 4
    assert problems(memory) == []
    drop_index(memory)
    assert memory.reindex() == reindex.Reindexed(8, 0)
    assert problems(memory) == []


# -- entries -------------------------------------------------------------------------------------------------------


def test_entries_are_indexed_for_their_readers(memory: Memory, me: Scope) -> None:
    me.entries.share("plans", ["scout", "cook"])
    core = me.entries.add("Ada is a pilot.", kind="core").id
    board = me.entries.add("Buy rice.", kind="whiteboard", board="plans").id
    without_user = scope_of(memory, None, "scout")
    journal = without_user.entries.add("Nobody told me.").id
    by_scout = {"agent": "scout", "author": "scout"}
    on_board = document(
        "entries", board, "Buy rice.", board="plans", author="scout", role="whiteboard"
    )
    assert {each.id: each for each in documents(memory)} == {
        core: document("entries", core, "Ada is a pilot.", role="core", **by_scout),
        board: on_board,
        journal: document(
            "entries", journal, "Nobody told me.", user=None, role="journal", **by_scout
        ),
    }
    me.entries.edit(core, "Ada was a pilot.")
    without_user.entries.remove(journal)
    assert sorted(texts(memory, "entries")) == ["Ada was a pilot.", "Buy rice."]
    me.entries.share("plans", ["scout"])
    assert {each.id: each.board for each in documents(memory)} == {core: None, board: "plans"}
    assert problems(memory) == []


def test_imported_entries_are_indexed_once(memory: Memory, me: Scope) -> None:
    inputs = [
        {"id": "one", "content": "One."},
        {"id": "two", "content": "Two. " * 1900, "kind": "core"},
    ]
    for _ in range(2):
        me.entries.add_many(inputs)
    records = documents(memory)
    assert [each.text for each in records if each.id == "one"] == ["One."]
    two = split_text(("Two. " * 1900).strip())
    assert [each.text for each in records if each.id == "two"] == two
    raised(Conflict, me.entries.add_many, [{"content": "new"}, {"id": "one", "content": "other"}])
    assert documents(memory) == records
    assert problems(memory) == []


def test_expired_entries_are_still_found(memory: Memory, me: Scope, now: Now) -> None:
    me.entries.add("The ferry left at nine.")
    now.pass_days(30)
    assert me.entries.prompt() == ""
    (entry,) = documents(memory)
    assert (entry.text, entry.expires_at) == ("The ferry left at nine.", None)
    assert finds(me, "ferry")


def test_a_consolidation_is_indexed_while_accepted(memory: Memory, me: Scope) -> None:
    for place in ("harbour", "station", "harbour", "station"):
        me.entries.add(f"Ada goes to the {place} in Porto.")
    before = documents(memory)
    created = me.consolidations.propose(days=0)[0]
    assert documents(memory) == before, "a proposal is not remembered yet"
    id = me.consolidations.accept(created.id).entry_id or ""
    by_scout = {"agent": "scout", "author": "scout"}
    accepted = document("entries", id, created.content, role="core", **by_scout)
    assert [each for each in documents(memory) if each not in before] == [accepted]
    assert problems(memory) == []
    me.consolidations.undo(created.id)
    assert documents(memory) == before


# -- references ----------------------------------------------------------------------------------------------------


def test_references_are_indexed_by_description_command_and_beginning(
    memory: Memory, me: Scope
) -> None:
    me.sessions.add("s")
    me.refs.add("first line\n" + "x" * 9000, "The log", key="log", session="s", type="note")
    me.refs.capture(b"\xff\xfe" * 9000, source="cat photo.jpg")
    scope_of(memory).refs.add("of nobody", "Shared", key="shared")
    results = {each.id: each for each in documents(memory)}
    content = ("first line\n" + "x" * 9000)[:INDEXED_CHARACTERS]
    log = document("refs", "log", f"The log\n{content}", title="log", role="note", session="s")
    assert results["log"] == log
    assert results["shared"] == document(
        "refs", "shared", "Shared\nof nobody", title="shared", role="note", user=None
    )
    (photo,) = [each for id, each in results.items() if id.startswith("cat-photo")]
    assert photo.text.splitlines()[1:] == ["cat photo.jpg"], "bytes are not words"
    me.refs.edit("log", summary="The build log")
    me.refs.edit("shared", is_active=False)
    results = {each.id: each for each in documents(memory)}
    assert results["log"].text.splitlines()[:2] == ["The build log", "first line"]
    assert results["shared"].role == INACTIVE_ROLE
    assert problems(memory) == []
    me.refs.remove("log")
    raised(NotFound, me.refs.edit, "log", summary="gone")
    assert "log" not in {each.id for each in documents(memory)}
    assert problems(memory) == []


# -- state ---------------------------------------------------------------------------------------------------------


def test_state_is_indexed_with_its_last_value(memory: Memory, me: Scope, now: Now) -> None:
    me.sessions.add("s")
    me.state.set("theme", {"name": "dark"})
    me.state.set("theme", "light blue", ttl=60)
    scope_of(memory).state.set("step", 3, area="session:s")
    me.state.set("motd", "Hello all.", area="tenant")
    theme, motd = '["user:ada","theme"]', '["tenant","motd"]'
    expires_at = START + 60_000_000
    assert {each.title: each for each in documents(memory)} == {
        "theme": document("state", theme, "light blue", title="theme", expires_at=expires_at),
        "step": document("state", '["session:s","step"]', "3", title="step", session="s"),
        "motd": document("state", motd, "Hello all.", title="motd", user=None),
    }
    raised(WrongVersion, me.state.set, "theme", "no", if_version=7)
    raised(WrongVersion, me.state.remove, "theme", if_version=7)
    me.state.remove("motd", area="tenant")
    assert sorted(texts(memory, "state")) == ["3", "light blue"]
    now.pass_days(1)
    me.state.set("theme", "dark")
    (changed,) = [each for each in documents(memory) if each.title == "theme"]
    assert (changed.expires_at, changed.at) == (None, now.micros)
    assert problems(memory) == []


# -- removal -------------------------------------------------------------------------------------------------------


def test_a_session_is_removed_from_the_index(memory: Memory, me: Scope) -> None:
    """P13: messages, references and state of the session only."""
    for id in ("s", "s2", 's","'):
        me.sessions.add(id)
        me.messages.append(id, "user", f"said in {id}")
        me.state.set("step", id, area=f"session:{id}")
        me.refs.add(f"content of {id}", f"stored in {id}", session=id)
    me.refs.add("content of none", "stored in no session")
    me.sessions.remove("s")
    records = documents(memory)
    assert {each.session for each in records} == {"s2", 's","', None}
    assert len(records) == 7
    assert problems(memory) == []
    me.sessions.add("s")
    me.messages.append("s", "user", "begun anew")
    assert len(documents(memory)) == 8


def test_a_purge_removes_documents(memory: Memory, me: Scope, now: Now) -> None:
    me.sessions.add("s")
    for n in range(6):
        me.messages.append("s", "user", f"message {n}")
        me.state.set(f"key {n}", n, ttl=3600 if n % 2 else None)
        now.pass_days(1)
    assert memory.purge(days=2.5).messages == 4
    assert texts(memory, "messages") == ["message 4", "message 5"]
    assert sorted(texts(memory, "state")) == ["0", "2", "4"]
    assert problems(memory) == []


def test_an_erased_user_is_found_nowhere(memory: Memory) -> None:
    """At once; the receipt does not count what the index has."""
    for user in ("ada", "bob"):
        populate(scope_of(memory, user, "scout"), f"canary of {user}")
    scope_of(memory).refs.add("of nobody")
    others = [each for each in documents(memory) if each.user != "ada"]
    receipt = memory.scope(tenant="acme").admin.users.erase("ada")
    assert not any(name.startswith(("search", "index", "fresh")) for name in receipt.removed)
    assert "uada" not in {part.owner for part in view_of(memory).parts}
    assert documents(memory) == others
    assert problems(memory) == []


# -- filling it ----------------------------------------------------------------------------------------------------


def test_an_import_rebuilds_the_index(memory: Memory, tmp_path: Any) -> None:
    """P15: the index is not exported; the import creates the same one."""
    for tenant, user in (("acme", "ada"), ("acme", "bob"), ("z'\\%é", "ada")):
        populate(memory.scope(tenant=tenant, user=user, agent="scout"), f"canary of {user}")
    whole = exported(memory)
    for name in (b"search", b"index", b"fresh"):
        assert b'"table":"' + name not in whole
    expected = {tenant: documents(memory, tenant=tenant) for tenant in memory.tenants()}
    with Memory.open(f"sqlite:///{tmp_path}/away.db", clock=Now()) as away:
        for _ in range(2):
            away.import_(io.BytesIO(whole))
            for tenant, records in expected.items():
                assert documents(away, tenant=tenant) == records
                assert len(records) > 30
                assert not behind(away, tenant)
            assert problems(away) == []


def test_an_import_into_a_database_without_an_index_completes_it(memory: Memory) -> None:
    populate(scope_of(memory, "ada", "scout"))
    whole = exported(memory)
    expected = documents(memory)
    drop_index(memory)
    memory.import_(io.BytesIO(whole))
    assert documents(memory) == expected
    assert not behind(memory)


def fill(me: Scope, many: int) -> None:
    for n in range(many):
        me.sessions.add(f"s{n:03}")
        me.messages.extend(f"s{n:03}", [NewMessage("user", f"{k} of {n}") for k in range(5)])
        me.state.set(f"key {n:03}", n)
        me.entries.add(f"entry {n}")


def drop_index(memory: Memory) -> None:
    """Remove the index, as in a database from before it existed."""

    def work(tx: Transaction) -> None:
        for table in ("fresh_sessions", "fresh_records", "index_owners"):
            tx.run(f"delete from {table} where tenant = :tenant")
        tx.run("update sessions set fresh_from = null where tenant = :tenant")
        tx.run(_BEHIND)

    memory.database.write("acme", work)


class Killed(BaseException):
    """Ends a process without being an error."""


def test_an_interrupted_reindex_continues_on_opening_or_as_a_job(
    open_memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reindexer, "MARKS_PER_WRITE", 20)
    memory = open_memory()
    fill(scope_of(memory, "ada", "scout"), 60)
    before = documents(memory)

    def killed(done: int, total: int) -> None:
        raise Killed

    for finish in (lambda: open_memory(), lambda: memory.run_jobs()):
        drop_index(memory)
        with pytest.raises(Killed):
            memory.reindex(progress=killed)
        assert 0 < len(documents(memory)) < len(before)
        assert behind(memory)
        finish()
        assert documents(memory) == before
        assert not behind(memory)
    assert memory.run_jobs().jobs["index"].done == 0
    assert problems(memory) == []


def test_two_processes_do_not_fill_the_same_index(open_memory: Callable[..., Memory]) -> None:
    """While another process fills it, opening continues and the job waits for its next round."""
    memory = open_memory()
    fill(scope_of(memory, "ada", "scout"), 3)
    before = documents(memory)
    drop_index(memory)
    lease = leases.claim(memory.database, "acme", reindex.LEASE_NAME, 60)
    assert lease is not None
    again = open_memory()
    assert again.run_jobs().jobs["index"].left == 1
    assert documents(memory) == []
    leases.release(memory.database, lease)
    assert again.run_jobs().jobs["index"].done == len(before)
    assert documents(memory) == before


def test_a_search_says_that_the_index_is_incomplete(memory: Memory, me: Scope) -> None:
    fill(me, 1)
    drop_index(memory)
    assert "being completed" in me.search("entry").legs["index"]
    memory.reindex()
    assert "index" not in me.search("entry").legs


def test_opening_continues_if_the_index_cannot_be_filled(
    memory: Memory, me: Scope, caplog: pytest.LogCaptureFixture
) -> None:
    """`Memory.open` calls `catch_up`, which logs a full disk and raises nothing."""
    fill(me, 1)
    drop_index(memory)
    faulty_memory, faults = with_faults(memory)
    faults.fail("write", Full(problem="the disk"), at=2)  # the first write takes the lease
    assert reindex.catch_up(faulty_memory.services) == reindex.Reindexed()
    assert "Run `memorist reindex` to complete it" in caplog.text
    assert behind(memory)
    assert failed_checks(memory) == [MISSING]


def test_an_import_during_a_reindex_keeps_the_tenant_marked(memory: Memory, me: Scope) -> None:
    """The reindex finishes what it started with, not what came later."""
    fill(me, 1)
    drop_index(memory)
    later = "update search_behind set round = round + 1 where tenant = :tenant"

    def meanwhile(done: int, total: int) -> None:
        memory.database.write("acme", lambda tx: tx.run(later))

    memory.reindex(progress=meanwhile)
    assert behind(memory)
    assert memory.run_jobs().jobs["index"].done == 0
    assert not behind(memory)


def test_writers_continue_during_a_reindex(open_memory: Callable[..., Memory]) -> None:
    """Nothing twice, missing, or removed: whoever comes first, writer or reindex."""
    memory = open_memory()
    me = scope_of(memory, "ada", "scout")
    fill(me, 80)
    entries = [entry.id for entry in me.entries.list()]
    drop_index(memory)
    start = threading.Barrier(4)

    def write(offset: int) -> None:
        start.wait()
        for n in range(offset, 80, 3):
            me.messages.append(f"s{n:03}", "user", "added meanwhile")
            me.state.set(f"key {n:03}", f"set by {offset}")
            me.entries.edit(entries[n], f"edited by {offset}")
            if n % 2:
                me.sessions.remove(f"s{n:03}")
                me.state.remove(f"key {n:03}")
                me.entries.remove(entries[n])

    def filler() -> None:
        start.wait()
        for _ in range(3):
            memory.reindex()

    with ThreadPoolExecutor(4) as pool:
        for done in [*(pool.submit(write, offset) for offset in range(3)), pool.submit(filler)]:
            done.result()
    index_all(memory)
    assert memory.reindex() == reindex.Reindexed(0, 0)
    assert len(texts(memory, "messages")) == 40 * 6
    assert {text.split()[0] for text in texts(memory, "entries")} == {"edited"}
    assert len(texts(memory, "entries")) == len(texts(memory, "state")) == 40
    assert problems(memory) == []


# -- checking it ---------------------------------------------------------------------------------------------------


def lose(memory: Memory, kind: str) -> None:
    """Remove the documents of a kind from all segments."""
    stored = segments(memory)

    def work(tx: Transaction) -> None:
        for (owner, id), each in stored.items():
            codes = [n for n, name in enumerate(each.strings) if name == kind]
            dead = [n for n, code in enumerate(each.columns["kind"].tolist()) if code in codes]
            raw = b"".join(place.to_bytes(2, "little") for place in dead)
            if dead:
                tx.run(_SET_DEAD, owner=owner, id=id, dead=raw)
        tx.run(_RAISE)

    memory.database.write("acme", work)


def add_stray(memory: Memory, stray: SearchDocument) -> None:
    """Add a document to the index that its record does not have."""
    content = encode(build([analyse(stray)]))

    def work(tx: Transaction) -> None:
        tx.run(_ADD_SEGMENT, owner=stray.owner, id="stray", content=content)
        tx.run(_RAISE)

    memory.database.write("acme", work)


@pytest.mark.slow_on_postgres
def test_verify_finds_missing_and_stray_documents(memory: Memory) -> None:
    """They are named, and repaired by `reindex`."""
    populate(scope_of(memory, "ada", "scout"))
    before = documents(memory)
    assert problems(memory) == []
    kinds = sorted({each.kind for each in before})
    assert {"entries", "messages", "notes", "refs", "state"} <= set(kinds)
    for kind in kinds:
        lose(memory, kind)
        (wrong,) = [finding for finding in memory.verify() if not finding.ok]
        assert (wrong.check, kind in wrong.problem) == (MISSING, True)
        assert memory.reindex(tenants=["acme"]).added >= 1
        assert problems(memory) == []
    assert documents(memory) == before
    for kind in kinds:
        if memory.services.findables[kind].expires_unmarked:
            continue  # until they are purged, the index may have them
        stray = next(each for each in before if each.kind == kind)
        add_stray(memory, stray._replace(part=7, text="of nothing"))
        (wrong,) = [finding for finding in memory.verify() if not finding.ok]
        assert (wrong.check, f"{kind} {stray.id}" in wrong.problem) == (STRAY, True)
        assert memory.reindex() == reindex.Reindexed(0, 1)
        assert documents(memory) == before
    assert problems(memory) == []
    raised(NotFound, memory.reindex, tenants=["nobody"])


@pytest.mark.parametrize("content", [b"", b"abc", bytes(60)], ids=["empty", "short", "zeros"])
def test_a_damaged_segment_is_named_and_repaired(
    open_memory: Callable[..., Memory], content: bytes
) -> None:
    """Searches find the rest, and say so."""
    memory = open_memory()
    fill(scope_of(memory, "ada", "scout"), 4)
    before = documents(memory)
    memory = open_memory()  # a process that has not read the segment yet
    me = scope_of(memory, "ada", "scout")
    me.entries.add("entry that is fresh")

    def damage(tx: Transaction) -> None:
        tx.run(_SET_CONTENT, owner="uada", content=content)
        tx.run(_RAISE)

    memory.database.write("acme", damage)
    hits = me.search("entry")
    assert [hit.text for hit in hits] == ["entry that is fresh"]
    assert "damaged segment" in hits.legs["index"]
    wrong = {finding.check: finding.problem for finding in memory.verify() if not finding.ok}
    assert wrong.keys() == {MISSING, DAMAGED}
    assert "of owner uada" in wrong[DAMAGED]
    assert memory.reindex() == reindex.Reindexed(len(before), 0)
    assert len(documents(memory)) == len(before) + 1
    assert problems(memory) == []
    assert "index" not in me.search("entry").legs


def test_documents_of_an_older_analysis_are_indexed_again(
    open_memory: Callable[..., Memory],
) -> None:
    """They keep their vectors, which do not depend on it."""
    fake = FakeEmbedder()
    memory = using(open_memory(), fake)
    fill(scope_of(memory, "ada", "scout"), 10)
    memory.run_jobs()
    assert len(segments(memory)) == 1
    before = documents(memory)
    fake.batches.clear()
    older = {key: encode(replace(each, analysis=0)) for key, each in segments(memory).items()}

    def work(tx: Transaction) -> None:
        for (owner, _), content in older.items():
            tx.run(_SET_CONTENT, owner=owner, content=content)

    memory.database.write("acme", work)
    memory = using(open_memory(), fake)
    assert failed_checks(memory) == [MISSING]
    assert memory.reindex() == reindex.Reindexed(len(before), 0)
    assert {each.analysis for each in segments(memory).values()} == {segment.ANALYSIS}
    assert memory.run_jobs().jobs["vectors"].done == 0
    assert fake.batches == []
    assert documents(memory) == before
    assert problems(memory) == []


@pytest.mark.slow_on_postgres
def test_words_are_analysed_outside_of_transactions(memory: Memory) -> None:
    """Other writers do not wait for the analysis of a long document or of a reindex."""
    memory, faults = with_faults(memory)
    me = scope_of(memory, "ada", "scout")
    inside: list[dict[str, Any]] = []

    def record_inside(tx: Transaction, work: Work[Any]) -> Any:
        with recorded_calls(segment.analyse) as calls:
            result = work(tx)
        inside.extend(calls)
        return result

    text = "\n\n".join(f"Paragraph {n}. " + "one two three " * 90 for n in range(50))
    faults.wrap(record_inside)
    with recorded_calls(segment.analyse) as outside:
        me.documents.add("long", text)
        index_all(memory)
        drop_index(memory)
        memory.reindex()
    assert inside == []
    assert sum(len(call["document"].text) for call in outside) >= 2 * len(text) * 0.9
    assert finds(me, "Paragraph")


def test_the_command_fills_the_index(
    open_memory: Callable[..., Memory], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = open_memory()
    fill(scope_of(memory, "ada", "scout"), 2)
    index_all(memory)
    lose(memory, "messages")
    command = ["reindex", "--database", url, "--json"]
    assert main([*command, "--tenant", "acme"]) == 0
    assert json.loads(capsys.readouterr().out) == {"added": 10, "removed": 0}
    assert main([*command, "--all-tenants"]) == 0
    assert json.loads(capsys.readouterr().out) == {"added": 0, "removed": 0}
