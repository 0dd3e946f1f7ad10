"""The index matches the stored data: after each operation, on each engine (P12, P13)."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from memorist.search.search_engine import IndexRow, SearchFilter
from memorist.search.sqlite import TAIL, SqliteEngine

from memorist import Memory, NewMessage, Scope
from memorist.base.canonical import JsonText
from memorist.base.errors import Conflict, Full, NotFound, WrongVersion
from memorist.cli.main import main
from memorist.jobs import reindex
from memorist.kinds.refs.reference import INACTIVE_ROLE, INDEXED_CHARACTERS
from memorist.search import reindexer as rebuild
from memorist.search import words as analysis
from memorist.search.index import MAX_CHARACTERS, split_text
from memorist.storage import leases
from memorist.storage.database import Transaction, Work
from testkit.clock import START, Now
from testkit.examples import exported, populate
from testkit.failures import raised
from testkit.faults import with_faults
from testkit.memories import problems, scope_of
from testkit.recording import recorded_calls
from testkit.rows import raw

COLUMNS = ("kind", "id", "seq", "part", "user_id", "agent", "board", "session_id", "author", "role", "title", "text", "at", "expires_at", "place")  # fmt: skip  # noqa: E501
_ROWS = """select kind, id, seq, part, user_id, agent, board, session_id, author, role, title, text, at, expires_at, place,
                  number from search_items where tenant = :tenant order by kind, id, seq, part"""
_LOSE = "delete from search_items where tenant = :tenant and kind = :kind and id = :id and seq = coalesce(:seq, seq)"
_BEHIND = "insert into search_behind (tenant, round) values (:tenant, 1) on conflict do nothing"
_OUTDATED = """insert into search_behind (tenant, round, old)
    select :tenant, 1, coalesce(max(number), 0) from search_items where tenant = :tenant
    on conflict (tenant) do update set round = search_behind.round + 1, old = excluded.old"""
_IS_BEHIND = "select round from search_behind where tenant = :tenant"


def rows(memory: Memory, kind: str = "", tenant: str = "acme") -> list[dict[str, Any]]:
    """Return the index rows without their numbers, each with its text and its session."""

    def work(tx: Transaction) -> list[dict[str, Any]]:
        stored = [row for row in tx.all(_ROWS) if kind in ("", row[0])]
        items = memory.services.index.engine.items(tx, [row[-1] for row in stored])
        return [
            dict(zip(COLUMNS, row, strict=False))
            | {"text": items[row[-1]].text, "session_id": items[row[-1]].session}
            for row in stored
        ]

    return memory.database.read(tenant, work)


def texts(memory: Memory, kind: str) -> list[str]:
    return [row["text"] for row in rows(memory, kind)]


def numbers(memory: Memory, kind: str) -> dict[int, int]:
    """Return the number of each row, by its position in an object."""
    return {
        row[2]: row[15]
        for row in memory.database.read("acme", lambda tx: tx.all(_ROWS))
        if row[0] == kind
    }


def row(kind: str, id: str, text: str, **named: Any) -> dict[str, Any]:
    """Return a row with defaults except the given values."""
    nothing = dict.fromkeys(COLUMNS) | {
        "seq": 0,
        "part": 0,
        "user_id": "ada",
        "author": "",
        "role": "",
        "title": "",
    }
    return nothing | {"kind": kind, "id": id, "text": text, "at": START} | named


def behind(memory: Memory, tenant: str = "acme") -> bool:
    return memory.database.read(tenant, lambda tx: tx.one(_IS_BEHIND)) is not None


@pytest.fixture
def memory(open_memory: Callable[..., Memory], now: Now) -> Memory:
    """The test's database with a stopped clock."""
    return open_memory(clock=now)


# -- messages ------------------------------------------------------------------------------------------------------


def message_row(seq: int, text: str, **named: Any) -> dict[str, Any]:
    return row("messages", "s", text, seq=seq, agent="scout", session_id="s", role="user", **named)


def test_a_message_is_indexed_by_its_text(memory: Memory, me: Scope) -> None:
    me.sessions.add("s")
    me.messages.append("s", "user", "It rains\x00 in Porto.", author="Caroline", key="k")
    me.messages.append("s", "user", "It rains\x00 in Porto.", author="Caroline", key="k")
    when = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    me.messages.extend(
        "s", [NewMessage("assistant", "Indeed.", created_at=when), NewMessage("user", " \n ")]
    )
    scope_of(memory).messages.append("s", "system", "Be kind.")
    assert rows(memory) == [
        message_row(1, "It rains␀ in Porto.", author="Caroline"),
        message_row(2, "Indeed.")
        | {"role": "assistant", "author": "scout", "at": 1_683_554_160_000_000},
        message_row(4, "Be kind.") | {"role": "system"},
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
    records = rows(memory)
    assert [item["part"] for item in records if item["seq"] == 1] == list(
        range(len(split_text(whole)))
    )
    assert [item["text"] for item in records if item["seq"] == 1] == split_text(whole)
    assert [item["text"] for item in records if item["seq"] == 2] == [whole[:MAX_CHARACTERS]]
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
    records = rows(memory)
    assert [(item["kind"], item["seq"]) for item in records] == [
        ("messages", 1),
        ("messages", 2),
        ("messages", 3),
        ("refs", 0),
    ]
    assert records[2]["text"].startswith("Ran `shell make test`. [MemoryRef: ")
    assert records[3]["session_id"] == "s"
    assert records[3]["text"].splitlines()[1:3] == ["shell make test", "line of the log"]
    assert problems(memory) == []


# -- notes ---------------------------------------------------------------------------------------------------------


def test_notes_are_indexed_by_section(memory: Memory, me: Scope, now: Now) -> None:
    """A section that a change leaves alone keeps its row and time."""
    services, work = "She lives in Turin. " * 20, "She writes software. " * 20
    me.notes.overwrite(f"# Ada\n\n## Home\n\n{services}\n\n## Work\n\n{work}")
    first = numbers(memory, "notes")
    records = rows(memory)
    assert [(item["id"], item["agent"], item["author"]) for item in records] == [
        ('["ada","scout"]', "scout", "scout")
    ] * len(records)
    assert [item["title"] for item in records] == ["Ada › Home", "Ada › Work"]
    now.pass_days(1)
    me.notes.replace_section("Work", "She has retired. " * 20)
    assert [item["at"] for item in rows(memory)] == [START, now.micros]
    assert numbers(memory, "notes")[0] == first[0]
    assert numbers(memory, "notes")[1] > first[1]
    me.notes.delete_section("Home")
    assert [item["title"] for item in rows(memory)] == ["Ada › Work"]
    me.notes.append("# Later\n\n" + "More is to come. " * 20)
    assert [item["title"] for item in rows(memory)] == ["Ada › Work", "Later"]
    assert problems(memory) == []
    me.notes.clear()
    assert rows(memory) == []
    me.notes.restore(1)
    assert [item["title"] for item in rows(memory)] == ["Ada › Home", "Ada › Work"]
    raised(WrongVersion, me.notes.overwrite, "no", if_version=1)
    assert [item["title"] for item in rows(memory)] == ["Ada › Home", "Ada › Work"]
    assert problems(memory) == []


def test_names_that_look_like_json_are_distinguished(memory: Memory) -> None:
    for user, agent in (('a","b', "c"), ("a", 'b","c'), ("\\", '"'), ('\\"', "%é")):
        scope_of(memory, user, agent).notes.overwrite(f"of {user}")
        scope_of(memory, user).state.set(agent, user)
    records = rows(memory, "notes")
    assert sorted(json.loads(item["id"]) for item in records) == sorted(
        [item["user_id"], item["agent"]] for item in records
    )
    assert len({item["id"] for item in records}) == 4
    assert problems(memory) == []
    memory.database.write(
        "acme", lambda tx: tx.run("delete from search_items where tenant = :tenant")
    )
    assert memory.reindex() == reindex.Reindexed(8, 0)
    assert problems(memory) == []


# -- entries -------------------------------------------------------------------------------------------------------


def test_entries_are_indexed_for_their_readers(memory: Memory, me: Scope) -> None:
    me.entries.share("plans", ["scout", "cook"])
    core = me.entries.add("Ada is a pilot.", kind="core").id
    board = me.entries.add("Buy rice.", kind="whiteboard", board="plans").id
    without_user = scope_of(memory, None, "scout")
    journal = without_user.entries.add("Nobody told me.").id
    expected = {
        core: row("entries", core, "Ada is a pilot.", agent="scout", author="scout", role="core"),
        board: row("entries", board, "Buy rice.", board="plans", author="scout", role="whiteboard"),
        journal: row(
            "entries",
            journal,
            "Nobody told me.",
            user_id=None,
            agent="scout",
            author="scout",
            role="journal",
        ),
    }
    assert {item["id"]: item for item in rows(memory)} == expected
    me.entries.edit(core, "Ada was a pilot.")
    without_user.entries.remove(journal)
    assert {item["id"]: item["text"] for item in rows(memory)} == {
        core: "Ada was a pilot.",
        board: "Buy rice.",
    }
    me.entries.share("plans", ["scout"])
    assert {item["id"]: item["board"] for item in rows(memory)} == {core: None, board: "plans"}
    assert problems(memory) == []


def test_imported_entries_are_indexed_once(memory: Memory, me: Scope) -> None:
    inputs = [
        {"id": "one", "content": "One."},
        {"id": "two", "content": "Two. " * 1900, "kind": "core"},
    ]
    for _ in range(2):
        me.entries.add_many(inputs)
    records = rows(memory)
    assert [item["text"] for item in records if item["id"] == "one"] == ["One."]
    assert [item["text"] for item in records if item["id"] == "two"] == split_text(
        ("Two. " * 1900).strip()
    )
    raised(Conflict, me.entries.add_many, [{"content": "new"}, {"id": "one", "content": "other"}])
    assert rows(memory) == records
    assert problems(memory) == []


def test_expired_entries_are_still_found(memory: Memory, me: Scope, now: Now) -> None:
    me.entries.add("The ferry left at nine.")
    now.pass_days(30)
    assert me.entries.prompt() == ""
    assert [(item["text"], item["expires_at"]) for item in rows(memory)] == [
        ("The ferry left at nine.", None)
    ]


def test_a_consolidation_is_indexed_while_accepted(memory: Memory, me: Scope) -> None:
    for place in ("harbour", "station", "harbour", "station"):
        me.entries.add(f"Ada goes to the {place} in Porto.")
    before = rows(memory)
    created = me.consolidations.propose(days=0)[0]
    assert rows(memory) == before, "a proposal is not remembered yet"
    accepted = me.consolidations.accept(created.id)
    assert [item for item in rows(memory) if item not in before] == [
        row(
            "entries",
            accepted.entry_id or "",
            created.content,
            agent="scout",
            author="scout",
            role="core",
        )
    ]
    assert problems(memory) == []
    me.consolidations.undo(created.id)
    assert rows(memory) == before


# -- references ----------------------------------------------------------------------------------------------------


def test_references_are_indexed_by_description_command_and_beginning(
    memory: Memory, me: Scope
) -> None:
    me.sessions.add("s")
    me.refs.add("first line\n" + "x" * 9000, "The log", key="log", session="s", type="note")
    me.refs.capture(b"\xff\xfe" * 9000, source="cat photo.jpg")
    scope_of(memory).refs.add("of nobody", "Shared", key="shared")
    results = {item["id"]: item for item in rows(memory)}
    assert results["log"] == row(
        "refs",
        "log",
        "The log\n" + ("first line\n" + "x" * 9000)[:INDEXED_CHARACTERS],
        title="log",
        role="note",
        session_id="s",
    )
    assert results["shared"] == row(
        "refs", "shared", "Shared\nof nobody", title="shared", role="note", user_id=None
    )
    (photo,) = [item for id, item in results.items() if id.startswith("cat-photo")]
    assert photo["text"].splitlines()[1:] == ["cat photo.jpg"], "bytes are not words"
    me.refs.edit("log", summary="The build log")
    me.refs.edit("shared", is_active=False)
    results = {item["id"]: item for item in rows(memory)}
    assert results["log"]["text"].splitlines()[:2] == ["The build log", "first line"]
    assert results["shared"]["role"] == INACTIVE_ROLE
    assert problems(memory) == []
    me.refs.remove("log")
    raised(NotFound, me.refs.edit, "log", summary="gone")
    assert "log" not in {item["id"] for item in rows(memory)}
    assert problems(memory) == []


# -- state ---------------------------------------------------------------------------------------------------------


def test_state_is_indexed_with_its_last_value(memory: Memory, me: Scope, now: Now) -> None:
    me.sessions.add("s")
    me.state.set("theme", {"name": "dark"})
    me.state.set("theme", "light blue", ttl=60)
    scope_of(memory).state.set("step", 3, area="session:s")
    me.state.set("motd", "Hello all.", area="tenant")
    assert {item["title"]: item for item in rows(memory)} == {
        "theme": row(
            "state",
            '["user:ada","theme"]',
            "light blue",
            title="theme",
            expires_at=START + 60_000_000,
        ),
        "step": row("state", '["session:s","step"]', "3", title="step", session_id="s"),
        "motd": row("state", '["tenant","motd"]', "Hello all.", title="motd", user_id=None),
    }
    raised(WrongVersion, me.state.set, "theme", "no", if_version=7)
    raised(WrongVersion, me.state.remove, "theme", if_version=7)
    me.state.remove("motd", area="tenant")
    assert sorted(texts(memory, "state")) == ["3", "light blue"]
    now.pass_days(1)
    me.state.set("theme", "dark")
    assert [
        (item["expires_at"], item["at"]) for item in rows(memory) if item["title"] == "theme"
    ] == [(None, now.micros)]
    assert problems(memory) == []


# -- removal -------------------------------------------------------------------------------------------------------


def test_a_session_is_removed_with_its_index_rows(memory: Memory, me: Scope) -> None:
    """P13: messages, references and state of the session only, in the same transaction."""
    for id in ("s", "s2", 's","'):
        me.sessions.add(id)
        me.messages.append(id, "user", f"said in {id}")
        me.state.set("step", id, area=f"session:{id}")
        me.refs.add(f"content of {id}", f"stored in {id}", session=id)
    me.refs.add("content of none", "stored in no session")
    me.sessions.remove("s")
    assert {item["session_id"] for item in rows(memory)} == {"s2", 's","', None}
    assert len(rows(memory)) == 7
    assert problems(memory) == []
    me.sessions.add("s")
    me.messages.append("s", "user", "begun anew")
    assert len(rows(memory)) == 8


def test_a_purge_removes_index_rows(memory: Memory, me: Scope, now: Now) -> None:
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
    """In the same transaction; the receipt does not count index rows."""
    for user in ("ada", "bob"):
        populate(scope_of(memory, user, "scout"), f"canary of {user}")
    scope_of(memory).refs.add("of nobody")
    bobs = [item for item in rows(memory) if item["user_id"] != "ada"]
    receipt = memory.scope(tenant="acme").admin.users.erase("ada")
    assert not any(name.startswith("search") for name in receipt.removed)
    assert [item for item in rows(memory) if item["user_id"] == "ada"] == []
    assert rows(memory) == bobs
    assert problems(memory) == []


# -- filling it ----------------------------------------------------------------------------------------------------


def without_change_times(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without the change times of note sections, which an import cannot restore."""
    return [item | {"at": 0} if item["kind"] == "notes" else item for item in found]


def test_an_import_rebuilds_the_index(memory: Memory, tmp_path: Any) -> None:
    """P15: the index is not exported; the import creates the same rows."""
    for tenant, user in (("acme", "ada"), ("acme", "bob"), ("z'\\%é", "ada")):
        populate(memory.scope(tenant=tenant, user=user, agent="scout"), f"canary of {user}")
    whole = exported(memory)
    assert b'"table":"search' not in whole
    with Memory.open(f"sqlite:///{tmp_path}/away.db", clock=Now()) as away:
        away.import_(io.BytesIO(whole))
        for tenant in memory.tenants():
            assert without_change_times(rows(away, "", tenant)) == without_change_times(
                rows(memory, "", tenant)
            )
            assert len(rows(away, "", tenant)) > 30
            assert not behind(away, tenant)
        assert problems(away) == []
        away.import_(io.BytesIO(whole))
        assert without_change_times(rows(away)) == without_change_times(rows(memory))


def test_an_import_into_a_database_without_digests_completes_the_index(
    open_memory: Callable[..., Memory], now: Now
) -> None:
    memory = open_memory(clock=now)
    populate(scope_of(memory, "ada", "scout"))
    whole = exported(memory)
    expected = len(rows(memory))
    memory.database.write(
        "acme", lambda tx: tx.run("delete from search_items where tenant = :tenant")
    )
    only_digests = "insert into search_behind (tenant, round) values (:tenant, 0)"
    memory.database.write("acme", lambda tx: tx.run(only_digests))
    memory.import_(io.BytesIO(whole))
    assert len(rows(memory)) == expected
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
        tx.run("delete from search_items where tenant = :tenant")
        tx.run(_BEHIND)

    memory.database.write("acme", work)


class Killed(BaseException):
    """Ends a process without being an error."""


def test_an_interrupted_reindex_continues_on_opening_or_as_a_job(
    open_memory: Callable[..., Memory],
) -> None:
    memory = open_memory()
    fill(scope_of(memory, "ada", "scout"), 60)
    before = rows(memory)
    drop_index(memory)

    def killed(done: int, total: int) -> None:
        raise Killed

    for finish in (lambda: open_memory(), lambda: memory.run_jobs()):
        drop_index(memory)
        with pytest.raises(Killed):
            memory.reindex(progress=killed)
        assert 0 < len(rows(memory)) < len(before)
        assert behind(memory)
        finish()
        assert rows(memory) == before
        assert not behind(memory)
    assert memory.run_jobs().jobs["index"].done == 0
    assert problems(memory) == []


def test_two_processes_do_not_fill_the_same_index(open_memory: Callable[..., Memory]) -> None:
    """While another process fills it, opening continues and the job waits for its next round."""
    memory = open_memory()
    fill(scope_of(memory, "ada", "scout"), 3)
    before = rows(memory)
    drop_index(memory)
    lease = leases.claim(memory.database, "acme", "index", 60)
    assert lease is not None
    again = open_memory()
    assert again.run_jobs().jobs["index"].left == 1
    assert rows(memory) == []
    leases.release(memory.database, lease)
    assert again.run_jobs().jobs["index"].done == len(before)
    assert rows(memory) == before


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
    assert [finding.check for finding in memory.verify() if not finding.ok] == [
        f"the index has all rows of {kind} (`memorist reindex` adds missing ones)"
        for kind in ("messages", "entries", "state")
    ]


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
    assert memory.reindex() == reindex.Reindexed(0, 0)
    assert len(texts(memory, "messages")) == 40 * 6
    assert {text.split()[0] for text in texts(memory, "entries")} == {"edited"}
    assert len(texts(memory, "entries")) == len(texts(memory, "state")) == 40
    assert problems(memory) == []


# -- checking it ---------------------------------------------------------------------------------------------------


@pytest.mark.slow_on_postgres
def test_verify_finds_missing_and_surplus_rows(memory: Memory, url: str) -> None:
    """An outdated index is detected, named, and repaired by `reindex`."""
    populate(scope_of(memory, "ada", "scout"))
    assert problems(memory) == []
    before = rows(memory)
    kinds = sorted({item["kind"] for item in before})
    assert {"entries", "messages", "notes", "refs", "state"} <= set(kinds)
    for kind in kinds:
        item = next(item for item in before if item["kind"] == kind)
        which = {
            "kind": kind,
            "id": item["id"],
            "seq": item["seq"] if kind in ("messages", "documents") else None,
        }
        memory.database.write("acme", lambda tx, which=which: tx.run(_LOSE, **which))  # type: ignore[misc]
        wrong = [finding.check for finding in memory.verify() if not finding.ok]
        assert wrong == [
            f"the index has all rows of {kind} (`memorist reindex` adds missing ones)"
        ], kind
        assert memory.reindex(tenants=["acme"]).added >= 1
        assert problems(memory) == []
    assert without_change_times(rows(memory)) == without_change_times(before)
    for kind in kinds:
        stray = [IndexRow(kind, "of nothing", "of nothing", START, part=7)]
        memory.database.write("acme", partial(memory.services.index.add, items=stray))
        wrong = [finding.check for finding in memory.verify() if not finding.ok]
        assert wrong == [f"the index has no rows of {kind} that do not exist"]
        assert memory.reindex() == reindex.Reindexed(0, 1)
    assert problems(memory) == []
    raised(NotFound, memory.reindex, tenants=["nobody"])


ENTRY = "entri"  # the stem


def every(memory: Memory) -> set[Any]:
    """Return all rows with their numbers."""
    return {tuple(row) for row in memory.database.read("acme", lambda tx: tx.all(_ROWS))}


def count_matches(memory: Memory, word: str) -> int:
    """Return how many rows keyword search finds."""
    engine = memory.services.index.engine
    return len(
        memory.database.read(
            "acme", lambda tx: engine.matching(tx, [word], SearchFilter(user="ada"), 1000)
        ).numbers
    )


def test_lost_words_are_restored(memory: Memory, me: Scope, url: str) -> None:
    """Verify names rows that are not found, with the remedy, which works."""
    fill(me, 40)
    before = every(memory)
    assert count_matches(memory, ENTRY) == 40
    with raw(url) as database:
        column = "rowid" if url.startswith("sqlite") else "number"
        database.all(f"delete from search_words where {column} % 2 = 0")
    assert count_matches(memory, ENTRY) < 40
    (wrong,) = (finding for finding in memory.verify() if not finding.ok)
    assert wrong.check == "every row of the index has its words (`memorist reindex` restores them)"
    assert memory.reindex().reworded >= 120
    assert problems(memory) == []
    assert count_matches(memory, ENTRY) == 40
    assert every(memory) == before
    assert memory.reindex() == reindex.Reindexed()


def test_words_of_removed_rows_are_removed(memory: Memory, me: Scope, url: str) -> None:
    """P13; verify names them in their own tenant only."""
    fill(me, 40)
    memory.scope(tenant="other", user="ada", agent="scout").entries.add("of another tenant")
    with raw(url) as database:
        if url.startswith("sqlite"):
            database.all("drop trigger search_items_removed")
        database.all("delete from search_items where kind = 'entries' and tenant = 'acme'")
    memory.database.write("acme", lambda tx: tx.run("delete from entries where tenant = :tenant"))
    (wrong,) = (finding for finding in memory.verify() if not finding.ok)
    assert wrong.check == "no words belong to removed rows (`memorist reindex` removes them)"
    assert wrong.problem.startswith("acme: ")
    assert "other: " not in wrong.problem
    assert memory.reindex().removed >= 30
    assert problems(memory) == []


def test_words_of_the_tail_are_kept(tmp_path: Path) -> None:
    """SQLite only. Numbers may be reused with other texts, and merged rows are looked up in place."""
    memory = Memory.open(f"sqlite:///{tmp_path}/tail.db")
    me, index = scope_of(memory, "ada", "scout"), memory.services.index.engine
    assert isinstance(index, SqliteEngine)
    fill(me, 40)
    assert count_matches(memory, ENTRY) == 40
    assert 0 < len(index._tail_words) <= 280 % TAIL
    last = max(key[0] for key in index._tail_words)
    other = "update search_items set text = :text where tenant = :tenant and number = :number"
    memory.database.write(
        "acme", lambda tx: tx.run(other, number=last, text="another text than it was")
    )
    assert count_matches(memory, "another") == 1
    me.messages.extend("s000", [NewMessage("user", f"more {n}") for n in range(TAIL)])
    me.messages.append("s000", "user", "and one more")
    assert count_matches(memory, "more") == TAIL + 1
    assert len(index._tail_words) == 1, "the others are absorbed"
    memory.close()


def test_the_words_of_the_tail_are_written_at_once(tmp_path: Path) -> None:
    """SQLite only. FTS5 makes a segment for each time that it writes its pending words."""
    with Memory.open(f"sqlite:///{tmp_path}/tail.db") as memory:
        me = scope_of(memory, "ada", "scout")
        session = me.sessions.add()
        me.messages.extend(session.id, [NewMessage("user", f"word {n}") for n in range(TAIL)])
        segments = "select count(distinct segid), :tenant from search_words_idx"
        assert memory.database.read("acme", lambda tx: tx.one(segments)) == (1, "acme")


def test_segments_are_merged_as_rows_are_added(tmp_path: Path) -> None:
    """SQLite only. Without our merges, FTS5 would merge a level at once when it has 16 segments."""
    with Memory.open(f"sqlite:///{tmp_path}/words.db") as memory:
        me = scope_of(memory, "ada", "scout")
        session = me.sessions.add()
        segments = "select count(distinct segid), :tenant from search_words_idx"
        counts = []
        for start in range(0, 40 * TAIL, TAIL):
            texts = [f"word {n} {n % 7}" for n in range(start, start + TAIL)]
            me.messages.extend(session.id, [NewMessage("user", text) for text in texts])
            counts.append((memory.database.read("acme", lambda tx: tx.one(segments)) or (0,))[0])
        assert max(counts) <= 10
        setting = "select v, :tenant from search_words_config where k = 'automerge'"
        assert memory.database.read("acme", lambda tx: tx.one(setting)) == (0, "acme")
        assert all(finding.ok for finding in memory.verify())


def test_the_tail_of_short_processes_is_absorbed(tmp_path: Path) -> None:
    """SQLite only. A process looks at the length of the tail when it adds its first row."""
    url = f"sqlite:///{tmp_path}/short.db"
    absorbed = "select number, :tenant from search_absorbed"
    with Memory.open(url) as first:
        me = scope_of(first, "ada", "scout")
        session = me.sessions.add()
        me.messages.extend(session.id, [NewMessage("user", f"kite {n}") for n in range(TAIL - 8)])
        for n in range(7):
            me.messages.append(session.id, "user", f"glider {n}")
        assert first.database.read("acme", lambda tx: tx.one(absorbed)) == (0, "acme")
        with Memory.open(url) as second:
            again = scope_of(second, "ada", "scout")
            again.messages.append(session.id, "user", "balloon")
        assert first.database.read("acme", lambda tx: tx.one(absorbed)) == (TAIL, "acme")
        (word,) = analysis.analyse("kite")
        assert count_matches(first, word) == TAIL - 8


def test_removing_rows_does_not_rewrite_the_words_of_others(tmp_path: Path) -> None:
    """SQLite only. Other writers would wait for it; compacting does it in small steps."""
    with Memory.open(f"sqlite:///{tmp_path}/removed.db") as memory:
        me = scope_of(memory, "ada", "scout")
        for session in ("a", "b"):
            me.sessions.add(session)
            words = [NewMessage("user", f"{session} w{n} x{n} y{n} z{n}") for n in range(4 * TAIL)]
            me.messages.extend(session, words)
        segments = "select segid, count(*), :tenant from search_words_idx group by segid"
        before = memory.database.read("acme", lambda tx: tx.all(segments))
        me.sessions.remove("a")
        assert memory.database.read("acme", lambda tx: tx.all(segments)) == before
        assert memory.database.compact()
        after = memory.database.read("acme", lambda tx: tx.all(segments))
        assert len(after) == 1
        assert after != before
        assert count_matches(memory, "w7") == 1
        assert problems(memory) == []


_STORED_TEXTS = """select seq, text, session_id from search_items
    where tenant = :tenant and kind = 'messages' order by seq, part"""


@pytest.mark.parametrize(
    "text",
    [
        "It rains in Porto.",
        'Quotes " and \\ and / and \\u0041, \b\f\n\r\t\x01\x1f\x7f\x85',
        "NUL \x00, surrogate \ud800, separator \u2028, emoji \U0001f44d, e\u0301, שלום",
        " surrounded by spaces ",
    ],
)
def test_the_text_of_a_message_is_stored_once(tmp_path: Path, text: str) -> None:
    """SQLite only. The index reads it from the message, before and after words are in FTS5."""
    with Memory.open(f"sqlite:///{tmp_path}/once.db") as memory:
        me = scope_of(memory, "ada", "scout")
        me.sessions.add("s")
        expected = me.messages.append("s", "user", text).text
        assert memory.database.read("acme", lambda tx: tx.all(_STORED_TEXTS)) == [(1, "", None)]
        assert texts(memory, "messages") == [expected]
        me.messages.extend("s", [NewMessage("user", f"more {n}") for n in range(TAIL)])
        assert texts(memory, "messages")[0] == expected
        (hit, *_) = me.search("porto quotes nul surrounded", limit=1)
        assert (hit.seq, hit.text, hit.session) == (1, expected, "s")
        assert [hit.seq for hit in me.search("more 5", session="s", limit=1)] == [7]
        assert problems(memory) == []


@pytest.mark.parametrize(
    "content",
    [
        {"text": "rain", "parts": [{"type": "text", "text": "wind"}]},
        {"text": "rain", "attachments": [{"type": "file", "name": "wind.txt"}]},
        JsonText('{"text": "rain"}'),
        JsonText('{"text":"wind","text":"rain"}'),
        JsonText('{"text":"r\\u0061in"}'),
        "rain and wind " * 1000,
    ],
)
def test_a_text_that_is_not_the_whole_content_is_stored_in_the_index(
    tmp_path: Path, content: Any
) -> None:
    """SQLite only. A repeated key, for one, has another value in SQL than in Python."""
    with Memory.open(f"sqlite:///{tmp_path}/copy.db") as memory:
        me = scope_of(memory, "ada", "scout")
        me.sessions.add("s")
        me.messages.append("s", "user", content)
        stored = memory.database.read("acme", lambda tx: tx.all(_STORED_TEXTS))
        assert all(text and session is None for _, text, session in stored)
        assert [text for _, text, _ in stored] == texts(memory, "messages")
        assert "rain" in stored[0][1]


def test_a_message_after_a_removed_one_keeps_its_text(tmp_path: Path) -> None:
    """SQLite only. Its index row is written again, without a copy of the text."""
    with Memory.open(f"sqlite:///{tmp_path}/removed.db") as memory:
        me = scope_of(memory, "ada", "scout")
        me.sessions.add("s")
        for text in ("one", "two", "three"):
            me.messages.append("s", "user", text)
        me.messages.remove("s", 2)
        assert texts(memory, "messages") == ["one", "three"]
        stored = memory.database.read("acme", lambda tx: tx.all(_STORED_TEXTS))
        assert stored == [(1, "", None), (3, "", None)]


@pytest.mark.slow_on_postgres
def test_words_are_analysed_before_the_transaction(memory: Memory) -> None:
    """Other writers do not wait for the analysis of a long document or of a reindex."""
    memory, faults = with_faults(memory)
    me = scope_of(memory, "ada", "scout")
    inside: list[dict[str, Any]] = []

    def record_inside(tx: Transaction, work: Work[Any]) -> Any:
        with recorded_calls(analysis.analyse) as calls:
            result = work(tx)
        inside.extend(calls)
        return result

    text = "\n\n".join(
        f"Paragraph {n}. " + " ".join(f"{n * k}" for k in range(200)) for n in range(150)
    )
    faults.wrap(record_inside)
    with recorded_calls(analysis.analyse) as outside:
        me.documents.add("long", text)
        drop_index(memory)
        memory.reindex()
    assert sum(len(call["text"]) for call in outside) >= 2 * len(text) * 0.9
    assert max(len(call["text"]) for call in inside) < 100, "only authors, titles and months"
    assert analysis._ready == {}
    assert count_matches(memory, "paragraph") >= 150 // 10


def test_rows_of_an_older_analyser_are_reindexed(
    open_memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of an older version are outdated; even after interruptions all get new words and
    keep their numbers.
    """
    memory = open_memory()
    me = scope_of(memory, "ada", "scout")
    fill(me, 80)
    before = every(memory)
    # A new analyser has another stem for this word.
    monkeypatch.setitem(analysis._known, "entry", (ENTRY + "new",))
    memory.database.write("acme", lambda tx: tx.run(_OUTDATED))
    assert behind(memory)

    def killed(done: int, total: int) -> None:
        raise Killed

    with pytest.raises(Killed):
        memory.reindex(progress=killed)
    assert 0 < count_matches(memory, ENTRY) < 80
    me.entries.add("entry 80")
    me.sessions.remove("s000")
    again = open_memory()
    assert not behind(again)
    assert (count_matches(again, ENTRY), count_matches(again, ENTRY + "new")) == (0, 81)
    assert len(every(again) - before) == 1
    assert {row[1] for row in before - every(again)} == {"s000"}
    assert problems(again) == []
    assert again.reindex() == reindex.Reindexed()


def test_writers_continue_while_words_are_rewritten(
    open_memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory()
    me = scope_of(memory, "ada", "scout")
    fill(me, 60)
    monkeypatch.setattr(rebuild, "ROWS_PER_WRITE", 20)
    memory.database.write("acme", lambda tx: tx.run(_OUTDATED))
    start = threading.Barrier(2)

    def write() -> None:
        start.wait()
        for n in reversed(range(60)):
            me.sessions.remove(f"s{n:03}")
            me.state.set(f"key {n:03}", "set meanwhile")

    def filler() -> None:
        start.wait()
        memory.reindex()

    with ThreadPoolExecutor(2) as pool:
        for done in (pool.submit(write), pool.submit(filler)):
            done.result()
    assert not behind(memory)
    assert (len(texts(memory, "messages")), len(texts(memory, "entries"))) == (0, 60)
    assert count_matches(memory, "meanwhil") == 60
    assert problems(memory) == []


def test_the_command_fills_the_index(
    open_memory: Callable[..., Memory], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = open_memory()
    fill(scope_of(memory, "ada", "scout"), 2)
    lose = "delete from search_items where tenant = :tenant and kind = 'messages'"
    memory.database.write("acme", lambda tx: tx.run(lose))
    command = ["reindex", "--database", url, "--json"]
    assert main([*command, "--tenant", "acme"]) == 0
    assert json.loads(capsys.readouterr().out) == {"added": 10, "removed": 0, "reworded": 0}
    assert main([*command, "--all-tenants"]) == 0
    assert json.loads(capsys.readouterr().out) == {"added": 0, "removed": 0, "reworded": 0}
