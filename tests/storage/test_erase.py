"""Erasing a user: nothing is left, not even in bytes on disk, and others are unaffected."""

from __future__ import annotations

import io
import itertools
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from memorist import Memory, Scope
from memorist.admin.audited_writer import AuditedAction, acting_as
from memorist.admin.principal import PERMISSIONS, Principal
from memorist.base.errors import Invalid, NotFound, StorageError
from memorist.kinds.graph import GraphEntity, Relation
from memorist.kinds.items import Put
from memorist.kinds.kind import Owner
from memorist.memory import TABLES as ALL
from memorist.storage.transfer.erase import NOT_REACHED_OF_AGENT, hash_subject
from memorist_frameworks.checkpoints.checkpoints import checkpoints_of
from testkit.databases import SETTINGS
from testkit.rows import raw

CANARY = "canary-7f3a-of-ada"


def fill_user(memory: Memory, tenant: str, user: str, word: str) -> None:
    """Add rows of a user to every table, with a word in every text column."""
    me = memory.scope(tenant=tenant, user=user, agent="scout")
    for n in range(3):
        session = me.sessions.add(f"{word} {user} {n}", label=word, attributes={word: word})
        for k in range(20):
            me.messages.append(
                session.id,
                "user",
                f"{word} " * (400 if k == 7 else 1),
                key=f"{word} {k}",
                author=word,
            )
        me.state.set(word, {word: word}, area=f"session:{session.id}")
        me.interactions.add(
            word, word, latency_ms=1, parameters={word: word}, error=word, session=session.id
        )
    me.state.set(f"{word} key", word)
    me.state.set("gone soon", word, ttl=1000)
    me.state.set("kept", word)
    me.state.remove("kept")


def test_the_receipt_counts_removed_rows(memory: Memory) -> None:
    fill_user(memory, "acme", "ada", CANARY)
    fill_user(memory, "acme", "bob", "word")
    receipt = memory.scope(tenant="acme").admin.users.erase("ada")
    assert (receipt.tenant, receipt.user) == ("acme", "ada")
    assert {table: count for table, count in receipt.removed.items() if count} == {
        "sessions": 3,
        "active_sessions": 1,
        "messages": 60,
        "message_keys": 60,
        "state": 5,
        "interactions": 3,
    }
    assert CANARY not in repr(receipt)
    assert receipt.erased_at.tzinfo is not None
    again = memory.scope(tenant="acme").admin.users.erase("ada")
    assert set(again.removed.values()) == {0}
    assert memory.scope(tenant="acme").admin.users.erase("never seen").removed == again.removed
    tenants = memory.tenants()
    for call in (
        lambda: memory.scope(tenant="no such tenant").admin.users.erase("ada"),
        lambda: memory.purge(days=1, tenants=["no such tenant"]),
        lambda: memory.export(io.BytesIO(), tenants=["no such tenant"]),
    ):
        with pytest.raises(NotFound):
            call()
    assert memory.tenants() == tenants


def fill_audited(memory: Memory, word: str) -> None:
    """Change records of Ada whose names are made of a word, as a caller whose changes are audited."""
    principal = Principal("acme", PERMISSIONS, "ci (k1)")

    def scope(action: str, user: str | None = "ada") -> Scope:
        services = acting_as(memory.services, principal, AuditedAction(action, "r1"))
        return Scope(services, Owner("acme", user, "scout", "user"))

    session = scope("sessions_add").sessions.add(f"{word} session", label=word).id
    for name in ("kept", "removed"):
        scope("state_set").state.set(f"{word} {name}", word)
        scope("state_set").state.set(f"{word} {name}", word, area=f"session:{session}")
        scope("refs_add").refs.add(f"{word} " * 100, f"{word} {name} description")
        scope("refs_add", None).refs.add(f"{word} {name} for a session", session=session)
        scope("items_write").items.write([Put((word, name), f"{word} {name}", {word: word})])
        scope("graph_add").graph.add([GraphEntity(f"{word} {name}", word, [word])])
        scope("entries_add").entries.add(f"{word} {name}")
        scope("documents_add").documents.add(f"{word} {name}", f"{word} text")
    for number in range(30):
        scope("messages_append").messages.append(
            session, "user", f"{word} {number}", key=f"{word} {number}", author=word
        )
    scope("summaries_fold").summaries.fold(session, force=True)
    scope("save_turn").save_turn(session, [{"role": "user", "content": word}], key=word)
    scope("interactions_add").interactions.add(word, word, error=word, session=session)
    checkpoints_of(scope("checkpoints_add")).add(
        word,
        word,
        ("json", word.encode()),
        metadata={word: word},
        values={(word, word): ("json", word.encode())},
    )
    scope("notes_append").notes.append(f"# {word}\n{word}\n")
    scope("notes_replace_section").notes.replace_section(word, word)
    scope("graph_relate").graph.relate([Relation(f"{word} kept", f"{word} removed", word)])
    scope("state_remove").state.remove(f"{word} removed")
    scope("state_remove", None).state.remove(f"{word} removed", area=f"session:{session}")
    for ref in list(scope("refs_list").refs.list()):
        if "removed" in ref.key:
            scope("refs_remove", None).refs.remove(ref.key)
    scope("items_remove").items.remove((word, "removed"), f"{word} removed")
    scope("graph_remove_many").graph.remove_many([f"{word} removed"])
    scope("messages_append", None).messages.append(session, "user", word)
    scope("messages_remove", None).messages.remove(session, 30)
    scope("messages_pop", None).messages.pop(session)
    scope("save_turn", None).save_turn(session, [{"role": "user", "content": word}])
    scope("summaries_fold", None).summaries.fold(session, force=True)
    scope("messages_clear", None).messages.clear(session)


def rows_with(url: str, word: str) -> dict[str, int]:
    """Return how many rows of which table contain a word, seen past every protection."""
    with raw(url) as database:
        counts = {
            table: sum(word in repr(row) for row in database.all(f"select * from {table}"))
            for table in database.tables()
        }
    return {table: count for table, count in counts.items() if count}


def test_no_word_of_an_erased_user_stays_in_any_table(
    open_memory: Callable[..., Memory], url: str
) -> None:
    """Issue 14, 4: keys and names are made of words, and the audit log has the names of records."""
    memory = open_memory(summary_model="extractive")
    fill_audited(memory, CANARY)
    before = rows_with(url, CANARY)
    assert {"audit", "memorist.audit"} & before.keys()
    audited = memory.scope(tenant="acme").admin.audit.list().items
    receipt = memory.scope(tenant="acme").admin.users.erase("ada")
    assert receipt.audit_subjects_hashed >= sum(CANARY in record.subject for record in audited) > 10
    assert rows_with(url, CANARY) == {}
    after = memory.scope(tenant="acme").admin.audit.list().items
    assert [record.chain for record in after] == [record.chain for record in audited]
    assert all(record.subject.startswith("sha256:") for record in after)
    assert [finding for finding in memory.verify() if not finding.ok] == []
    for word in ("backups", "saved about itself", *memory.database.remnants):
        assert any(word in copy for copy in receipt.not_reached)
    assert bool(memory.database.remnants) == memory.database.runs_on_server
    assert memory.scope(tenant="acme").admin.users.erase("ada").audit_subjects_hashed == 0


@pytest.mark.not_on_h2("the audit log is append-only for a working user; H2 has only the owner")
def test_an_erasure_keeps_the_audit_rows_of_others(memory: Memory) -> None:
    principal = Principal("acme", PERMISSIONS, "ci (k1)")
    for user in ("ada", "bob"):
        services = acting_as(memory.services, principal, AuditedAction("state_set"))
        Scope(services, Owner("acme", user, "scout", "user")).state.set("theme", "dark")
    memory.scope(tenant="acme").admin.users.erase("ada")
    subjects = [record.subject for record in memory.scope(tenant="acme").admin.audit.list().items]
    assert subjects[0] == "state user:bob theme"
    assert subjects[1] == hash_subject("state user:ada theme")
    with pytest.raises(StorageError):
        memory.database.write(
            "acme", lambda tx: tx.run("update audit set who = 'me' where tenant = :tenant")
        )
    memory.database.write(
        "acme",
        lambda tx: tx.run(
            "update audit set subject = :subject where tenant = :tenant and number = 2",
            subject=hash_subject("something else"),
        ),
    )
    (finding,) = [finding for finding in memory.verify() if not finding.ok]
    assert "number 2" in finding.problem


def test_erased_data_is_not_found_again(memory: Memory) -> None:
    """P13: neither by reading nor in an export, and the name can be reused."""
    fill_user(memory, "acme", "ada", CANARY)
    memory.scope(tenant="acme").admin.users.erase("ada")
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    assert not me.sessions.list().items
    assert not me.state.list().items
    assert not me.interactions.list().items
    out = io.BytesIO()
    memory.export(out)
    assert b"canary" not in out.getvalue()
    assert me.messages.append(me.sessions.add(f"{CANARY} ada 0").id, "user", "hello again").seq == 1


def files_with_canary(folder: Path) -> list[str]:
    """Return the files whose bytes contain the canary, in UTF-8 or UTF-16."""
    needles = (CANARY.encode(), CANARY.encode("utf-16-le"), CANARY[:14].encode())
    return [
        path.name
        for path in folder.iterdir()
        if any(needle in path.read_bytes() for needle in needles)
    ]


def test_no_byte_is_left_in_the_file_or_its_wal(tmp_path: Path) -> None:
    """The canary was in the file and the WAL; after the erasure it is in neither, with the database
    open.
    """
    with Memory.open(f"sqlite:///{tmp_path}/agent.db", settings=SETTINGS) as memory:
        fill_user(memory, "acme", "bob", "word")
        fill_user(memory, "acme", "ada", CANARY)
        memory.database.compact()
        memory.scope(tenant="acme", user="ada", agent="scout").messages.append(
            f"{CANARY} ada 1", "user", CANARY * 10
        )
        memory.scope(tenant="acme").messages.window(
            f"{CANARY} ada 1"
        )  # a reader with a snapshot in its cache
        assert set(files_with_canary(tmp_path)) == {"agent.db", "agent.db-wal"}
        assert memory.scope(tenant="acme").admin.users.erase("ada").compacted
        assert files_with_canary(tmp_path) == []
        memory.scope(tenant="acme", user="bob", agent="scout").sessions.add("after")
        assert files_with_canary(tmp_path) == []
    assert files_with_canary(tmp_path) == []


def test_a_reader_that_holds_deleted_pages_is_reported(tmp_path: Path) -> None:
    """Pages another process still reads cannot be removed; the receipt says so, and the next purge
    does it.
    """
    url = f"sqlite:///{tmp_path}/agent.db"
    with Memory.open(url, settings=SETTINGS, wait_seconds=0.2) as memory:
        fill_user(memory, "acme", "ada", CANARY)
        reader = apsw.Connection(str(tmp_path / "agent.db"))
        reader.execute("begin")
        assert reader.execute("select count(*) from messages").fetchall() == [(60,)]
        receipt = memory.scope(tenant="acme").admin.users.erase("ada")
        assert receipt.removed["messages"] == 60
        assert not receipt.compacted
        assert files_with_canary(tmp_path)
        reader.close()
        assert memory.purge().compacted
        assert files_with_canary(tmp_path) == []


def test_a_purge_leaves_no_bytes(tmp_path: Path) -> None:
    now = [1_000_000_000_000_000]
    with Memory.open(
        f"sqlite:///{tmp_path}/agent.db", settings=SETTINGS, clock=lambda: now[0]
    ) as memory:
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        me.sessions.add("s")
        me.messages.extend(
            "s", [{"role": "user", "content": f"{CANARY} {n}"} for n in range(700)], key="k"
        )
        me.state.set("k", CANARY, ttl=1)
        memory.database.compact()
        assert "agent.db" in files_with_canary(tmp_path)
        now[0] += 10 * 86_400_000_000
        assert memory.purge(days=1).compacted
        assert files_with_canary(tmp_path) == []


def test_an_erasure_beside_a_writer_leaves_no_words(tmp_path: Path) -> None:
    """SQLite only. The index has hashes of the words, so the words are also keys and authors here."""
    with Memory.open(f"sqlite:///{tmp_path}/agent.db", settings=SETTINGS) as memory:
        ada = memory.scope(tenant="acme", user="ada", agent="scout")
        bob = memory.scope(tenant="acme", user="bob", agent="scout")
        bob.sessions.add("b")
        for start in range(0, 1000, 500):
            ada.sessions.add(f"zqjmark {start}")
            texts = [f"w{n:05}zqjmark" for n in range(start, start + 500)]
            messages = [{"role": "user", "content": t, "author": t} for t in texts]
            ada.messages.extend(f"zqjmark {start}", messages)
            memory.scope(tenant="acme").admin.jobs.run()
        with raw(f"sqlite:///{tmp_path}/agent.db") as database:
            segments = database.all("select content from index_segments")
            parts = database.all("select content from index_parts")
        assert any(b"zqjmark" in content for (content,) in [*segments, *parts])
        stop = threading.Event()

        def write() -> None:
            for number in itertools.count():
                if stop.is_set():
                    return
                texts = [f"other {n} {number}" for n in range(128)]
                bob.messages.extend("b", [{"role": "user", "content": text} for text in texts])

        writer = threading.Thread(target=write)
        writer.start()
        memory.scope(tenant="acme").admin.users.erase("ada")
        stop.set()
        writer.join()
        assert rows_with(f"sqlite:///{tmp_path}/agent.db", "zqjmark") == {}
        assert memory.database.compact()
        assert not any(b"zqjmark" in path.read_bytes() for path in tmp_path.iterdir())
        assert all(finding.ok for finding in memory.verify())


def test_an_erasure_frees_space(tmp_path: Path) -> None:
    file = tmp_path / "agent.db"
    with Memory.open(f"sqlite:///{file}", settings=SETTINGS) as memory:
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        memory.database.compact()
        empty = file.stat().st_size
        me.sessions.add("s")
        me.messages.extend("s", [{"role": "user", "content": "x" * 2000} for _ in range(1000)])
        memory.database.compact()
        assert file.stat().st_size > empty + 2_000_000
        memory.scope(tenant="acme").admin.users.erase("ada")
        assert file.stat().st_size <= empty + 65_536


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.users.erase(""),
        lambda m: m.users.erase("x" * 513),
        lambda m: m.scope(tenant="").admin.users.erase("a"),
    ],
)
def test_an_invalid_name_is_rejected(memory: Memory, call: Callable[[Memory], object]) -> None:
    with pytest.raises(Invalid):
        call(memory)


def test_every_table_with_a_user_is_erased(memory: Memory) -> None:
    """A kind with user rows must declare them, or an erasure would leave them."""
    for table in ALL:
        columns = memory.database.read("acme", lambda tx, name=table.name: tx.columns(name))  # type: ignore[misc]
        if {"user_id", "session_id", "user"} & set(columns):
            assert table.owned, table.name


def test_an_agent_is_forgotten(memory: Memory) -> None:
    """D10: entries, notes and sessions of all users, with a receipt; other agents keep theirs."""
    for agent in ("scout", "critic"):
        for user in ("ada", "bob"):
            me = memory.scope(tenant="acme", user=user, agent=agent)
            session = me.sessions.resume().id
            me.messages.append(session, "user", f"The harbour of {agent}.")
            me.entries.add(f"The harbour is red, says {agent}.", kind="core")
            me.notes.append(f"The harbour opens at nine, says {agent}.")
            me.refs.add("crane " * 1000, f"the harbour log of {agent}", session=session)
        memory.scope(tenant="acme").agents.add(agent)
    receipt = memory.scope(tenant="acme").admin.users.erase_agent("scout")
    assert (receipt.agent, receipt.removed["sessions"], receipt.removed["entries"]) == (
        "scout",
        2,
        2,
    )
    assert receipt.removed["notes"] == receipt.removed["refs"] == 2
    assert {*memory.database.remnants, *NOT_REACHED_OF_AGENT} == {*receipt.not_reached}
    everybody = memory.scope(tenant="acme")
    assert [agent.name for agent in everybody.agents.list()] == ["critic"]
    found = [hit.text for hit in everybody.search("harbour", limit=50)]
    assert len(found) >= 6
    assert not [text for text in found if "scout" in text]
    assert {session.agent for session in everybody.sessions.list()} == {"critic"}
    assert [finding for finding in memory.verify() if not finding.ok] == []
    with pytest.raises(NotFound):
        memory.scope(tenant="typo").admin.users.erase_agent("critic")
