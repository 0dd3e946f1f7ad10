"""Damaged texts: each is found by its checksum, named, and never a traceback or a silent copy."""

from __future__ import annotations

import hashlib
import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import apsw
import psycopg
import pytest
from starlette.testclient import TestClient

from memorist import Memory, Scope
from memorist.base.errors import Corrupt, CorruptRecord
from memorist.cli.main import main
from memorist.memory import CHECKED_TABLES, TABLES
from memorist.server.http.app import create_app
from memorist.storage import migrate
from testkit.apps import HERE, URL
from testkit.databases import SETTINGS
from testkit.examples import populate

FLIPS = 40
CHECKED = [table for table in TABLES if table.checked]
ADMIN_TABLES = [table for table in CHECKED_TABLES if table not in TABLES]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A closed SQLite database with messages of 420 characters, which the commands use."""
    path = tmp_path / "agent.db"
    monkeypatch.setenv("MEMORIST_DATABASE", f"sqlite:///{path}")
    monkeypatch.setenv("MEMORIST_TENANT", "acme")
    monkeypatch.setenv("MEMORIST_USER", "ada")
    monkeypatch.setenv("MEMORIST_AGENT", "scout")
    with Memory.open(f"sqlite:///{path}", settings=SETTINGS) as memory:
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        me.sessions.add("trip")
        words = random.Random(1)
        for _ in range(120):
            me.messages.append("trip", "user", "".join(words.choices("abcde fghi. „ü“", k=420)))
    return path


def change(file: Path, table: str, column: str, condition: str, data: bytes) -> None:
    """Change a stored text behind the back of memorist."""
    with apsw.Connection(str(file)) as connection:
        sql = f"update {table} set {column} = cast(? as text) where {condition}"
        connection.execute(sql, (data,))


def flip_bits(file: Path, count: int) -> set[int]:
    """Flip a random bit in the text of this many messages; return their numbers."""
    choices = random.Random(2)
    numbers = set(choices.sample(range(1, 121), count))
    for number in numbers:
        with apsw.Connection(str(file)) as connection:
            sql = "select cast(content as blob) from messages where seq = ?"
            ((content,),) = connection.execute(sql, (number,)).fetchall()
        data = bytearray(bytes(cast(bytes, content)))
        bit = choices.randrange(len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
        change(file, "messages", "content", f"seq = {number}", bytes(data))
    return numbers


def findings(memory: Memory) -> dict[str, Any]:
    return {finding.check: finding for finding in memory.verify() if not finding.ok}


def error_of(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the error that a command wrote to standard error with --json."""
    error = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert isinstance(error, dict)
    return error


def test_every_flipped_bit_is_found_and_named(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = flip_bits(file, FLIPS)
    with Memory.open(f"sqlite:///{file}", settings=SETTINGS) as memory:
        finding = findings(memory)["every text of messages is as it was written"]
        assert finding.count == FLIPS
        assert set(map(int, re.findall(r"seq=(\d+)", finding.problem))) == numbers
        with pytest.raises(CorruptRecord, match="messages session_id=trip seq="):
            memory.export(tmp_path / "export.jsonl")
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        with pytest.raises(CorruptRecord, match="session_id=trip seq="):
            me.messages.list("trip", limit=200)
    assert not (tmp_path / "export.jsonl").exists()
    assert main(["verify", "--json"]) == 1
    assert "Traceback" not in capsys.readouterr().err
    for command in (
        ["messages", "list", "trip", "--limit", "200", "--json"],
        ["export", str(tmp_path / "export.jsonl"), "--json"],
    ):
        assert main(command) == Corrupt.exit_code
        assert error_of(capsys)["error"] == "CorruptRecord"
    assert main(["doctor", "--json"]) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    (check,) = (check for check in checks if "every text of messages" in check["found"])
    assert (check["check"], check["state"]) == ("verify", "problem")


def test_invalid_json_is_named_where_it_is_read(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text can be decoded, and its JSON is broken."""
    change(file, "messages", "content", "seq = 7", b'{"text":"a\x0e"')
    assert main(["messages", "list", "trip", "--limit", "200", "--json"]) == Corrupt.exit_code
    error = error_of(capsys)
    assert (error["error"], error["details"]["record"]) == (
        "CorruptRecord",
        "message 7 of session trip",
    )


def test_a_search_names_the_message_that_it_cannot_decode(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A search reads only a part of the content."""
    change(file, "messages", "content", "seq = 7", b'{"text":"a\xff heron"}')
    assert main(["context", "--session", "trip", "--message", "heron", "--json"]) == 5
    assert error_of(capsys)["details"]["record"] == "messages session_id=trip seq=7 of tenant acme"


@pytest.fixture
def populated(tmp_path: Path) -> Path:
    path = tmp_path / "populated.db"
    with Memory.open(f"sqlite:///{path}", settings=SETTINGS) as memory:
        populate(memory.scope(tenant="acme", user="ada", agent="scout"))
        assert findings(memory) == {}
    return path


def text_columns() -> list[tuple[Any, str]]:
    """Return the columns of checked tables that hold texts or JSON, as the schema declares them."""
    script = migrate.shipped("sqlite")[0].up
    declared = dict(re.findall(r"^create table (\w+) \((.*?)^\)", script, re.M | re.S))
    return [
        (table, column)
        for table in (*TABLES, *ADMIN_TABLES)
        for column in re.findall(r"^ +(\w+) \{(?:text|json)\}", declared[table.name], re.M)
    ]


def test_every_column_with_a_text_is_checked() -> None:
    """Or it is a word of ours, or another check finds damage in it."""
    unchecked = {
        f"{table.name}.{column}"
        for table, column in text_columns()
        if column not in (*table.checked, "source")
    }
    assert unchecked == {
        "blob_parts.data",  # by the hash of the content
        "blobs.file",  # a name that is derived from the hash
        "consolidations.model",  # from the settings
        "fact_positions.error",  # the name of an error
        "note_versions.operation",  # the name of a verb
        "sessions.summary",  # equal to a row of summaries
        "summaries.model",
        "threads.ns",  # by its hash, `line`
        "webhooks.error",  # of the last delivery
    }


@pytest.mark.parametrize(
    ("table", "column"),
    [(table, name) for table in CHECKED for name in table.checked],
    ids=lambda value: getattr(value, "name", value),
)
@pytest.mark.parametrize("damage", ["a bit", "valid", "invalid"])
def test_the_texts_of_every_kind_are_checked(
    table: Any, column: str, damage: str, populated: Path
) -> None:
    """`verify` goes on to the end, and the export names the record."""
    with apsw.Connection(str(populated)) as connection:
        row = connection.execute(
            f"""select rowid, cast({column} as blob) from {table.name}
                order by length({column}) desc limit 1"""
        ).fetchall()
    ((id, stored),) = cast(list[tuple[int, bytes | None]], row)
    data = bytearray(stored or b"")
    if damage == "a bit" and data:
        bit = random.Random(f"{table.name} {column}").randrange(len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
    else:
        data = bytearray(b"\xff\xfe" if damage == "invalid" else b"valid but other")
    change(populated, table.name, column, f"rowid = {id}", bytes(data))
    with Memory.open(f"sqlite:///{populated}", settings=SETTINGS, migrate_up=False) as memory:
        failed = findings(memory)
        assert failed[f"every text of {table.name} is as it was written"].count == 1
        with pytest.raises(CorruptRecord, match=f"text of {table.name} "):
            memory.export(populated.with_name("export.jsonl"))


@pytest.fixture
def administered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A closed SQLite database with a key, a webhook and a stored response, changed once each."""
    path = tmp_path / "administered.db"
    monkeypatch.setenv("MEMORIST_DATABASE", f"sqlite:///{path}")
    monkeypatch.setenv("MEMORIST_TENANT", "acme")
    settings = replace(SETTINGS, events="private", tenant="acme")
    with Memory.open(f"sqlite:///{path}", settings=settings) as memory:
        key = memory.admin.keys.add("ci", user="ada", agent="scout").key
        revoked = memory.admin.keys.add("old").id
        memory.admin.keys.revoke(revoked)
        webhook = memory.admin.webhooks.add("http://127.0.0.1:9/", kinds=["facts"]).id
        memory.admin.webhooks.edit(webhook, url="http://127.0.0.1:9/hooks", paused=True)
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "k1"}
        http = TestClient(create_app(memory, jobs=False), URL, client=HERE, headers=headers)
        assert http.post("/api/entries", json={"content": "Tea."}).status_code == 201
        assert findings(memory) == {}
    return path


@pytest.mark.parametrize(
    ("table", "column"),
    [(table, name) for table in ADMIN_TABLES for name in table.checked],
    ids=lambda value: getattr(value, "name", value),
)
@pytest.mark.parametrize("damage", ["a bit", "invalid"])
def test_the_texts_of_administration_are_checked(
    table: Any,
    column: str,
    damage: str,
    administered: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A changed address would get all events, and a changed permission is another permission."""
    with apsw.Connection(str(administered)) as connection:
        ((id, stored),) = cast(
            list[tuple[int, bytes]],
            connection.execute(
                f"select rowid, cast({column} as blob) from {table.name} where {column} <> '' limit 1"
            ).fetchall(),
        )
    data = bytes([stored[0] ^ 1]) + stored[1:] if damage == "a bit" else b"\xff\xfe"
    change(administered, table.name, column, f"rowid = {id}", data)
    assert main(["verify", "--json"]) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    failed = [check["check"] for check in checks if check["problem"]]
    assert f"every text of {table.name} is as it was written" in failed
    assert main(["backup", f"{administered}.backup", "--json"]) == Corrupt.exit_code
    assert error_of(capsys)["details"]["record"].startswith(f"acme: {table.name} ")
    assert main(["status", "--json"]) == 0
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert "acme has 1 damaged record" in problems[0]


def test_an_edit_keeps_the_damage_of_a_webhook(administered: Path) -> None:
    change(administered, "webhooks", "kinds", "1 = 1", b"facta")
    settings = replace(SETTINGS, events="private", tenant="acme")
    with Memory.open(f"sqlite:///{administered}", settings=settings) as memory:
        (webhook,) = memory.admin.webhooks.list()
        memory.admin.webhooks.edit(webhook.id, url="http://127.0.0.1:9/other")
        assert findings(memory)["every text of webhooks is as it was written"].count == 1


def test_every_write_sets_the_checksum(memory: Memory) -> None:
    """Adding, editing, removing and importing; on every engine."""
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    populate(me)
    me.notes.append("more")
    entry = me.entries.add("one")
    me.entries.edit(entry.id, "two")
    me.state.set("k", 1)
    me.state.set("k", 2)
    me.items.put(["a"], "k", {"a": 1})
    me.items.put(["a"], "k", {"a": 2})
    key = me.refs.add(b"content").key
    me.refs.edit(key, summary="another")
    me.refs.edit(key, is_active=False)
    me.sessions.add("removed")
    me.messages.append("removed", "user", "gone")
    me.messages.remove("removed", 1)
    me.sessions.edit("removed", label="another")
    me.sessions.edit("removed", attributes={"a": 1})
    me.agents.add("writer", prompt="Write.", tools=["search_memory"])
    me.agents.edit("writer", model="m", model_label="M")
    me.refs.edit(key, type="file_content")
    me.documents.add("One", "# One", path="a.md")
    me.documents.add("Two", "# Two", path="a.md")
    assert findings(memory) == {}


@pytest.mark.parametrize("edited", [{"label": "new"}, {"attributes": {"new": 1}}])
def test_an_edit_does_not_hide_the_damage_of_another_text(
    edited: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "agent.db"
    with Memory.open(f"sqlite:///{path}", settings=SETTINGS) as memory:
        memory.scope(user="ada", agent="scout").sessions.add("trip", label="old")
    column = "attributes" if "label" in edited else "label"
    change(path, "sessions", column, "id = 'trip'", b'{"b":1}')
    with Memory.open(f"sqlite:///{path}", settings=SETTINGS) as memory:
        memory.scope(user="ada", agent="scout").sessions.edit("trip", **edited)
        assert findings(memory)["every text of sessions is as it was written"].count == 1


@pytest.mark.parametrize("stored", ["no JSON", "other"])
def test_an_error_of_the_program_is_no_damage(memory: Memory, stored: str) -> None:
    """Also if a record has the same text, which is as it was written."""
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    me.entries.add(stored)
    me.entries.add("other")

    def parses(scope: Scope) -> None:
        scope.entries.list()
        json.loads("no JSON")

    def decodes(scope: Scope) -> None:
        scope.entries.list()
        b"\xff".decode()

    with pytest.raises(json.JSONDecodeError):
        me.transaction(parses)
    with pytest.raises(UnicodeDecodeError):
        me.transaction(decodes)


def test_status_counts_a_record_that_a_check_stumbles_on(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its key cannot be decoded, and has no checksum."""
    change(file, "active_sessions", "agent", "user_id = 'ada'", b"\xff\xfe")
    assert main(["verify", "--json"]) == 1
    capsys.readouterr()
    assert main(["status", "--json"]) == 0
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert "acme has 1 damaged record" in problem


def test_a_changed_byte_is_found_on_postgres(postgres_url: str) -> None:
    with Memory.open(postgres_url, settings=SETTINGS) as memory:
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        me.sessions.add("trip")
        for number in range(3):
            me.messages.append("trip", "user", f"message {number}")
        with psycopg.connect(postgres_url) as connection:
            connection.execute(
                "update memorist.messages set content = replace(content, 'message 1', 'massage 1')"
            )
        failed = findings(memory)
        finding = failed["every text of messages is as it was written"]
        assert (finding.count, "session_id=trip seq=2" in finding.problem) == (1, True)


def test_a_backup_does_not_copy_damage_silently(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "copy.db"
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == []
    before = file.read_bytes()
    numbers = flip_bits(file, 3)
    assert main(["backup", str(target), "--json"]) == Corrupt.exit_code
    error = error_of(capsys)
    assert error["error"] == "CorruptRecord"
    assert set(map(int, re.findall(r"seq=(\d+)", error["details"]["record"]))) == numbers
    assert not [path for path in tmp_path.iterdir() if "copy" in path.name]
    assert main(["status", "--json"]) == 0
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert "acme has 3 damaged records" in problem
    assert main(["backup", str(target), "--damaged", "--json"]) == 0
    assert main(["doctor", "--backup", str(target), "--json"]) == 1
    capsys.readouterr()
    file.write_bytes(before)  # the repair
    assert main(["verify", "--json"]) == 0
    capsys.readouterr()
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == []
    assert main(["backup", str(tmp_path / "good.db"), "--json"]) == 0


def test_a_content_that_cannot_be_decoded_is_named_by_its_hash(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Memory.open(f"sqlite:///{file}", settings=SETTINGS) as memory:
        memory.scope(tenant="acme", user="ada", agent="scout").refs.add(b"a report", key="report")
    change(file, "blob_parts", "data", "part >= 0", b"a \xff report")
    digest = hashlib.sha256(b"a report").hexdigest()
    with Memory.open(f"sqlite:///{file}", settings=SETTINGS) as memory:
        finding = findings(memory)["every stored content is what its hash says"]
        assert digest in finding.problem
    assert main(["refs", "content", "report", "--json"]) == Corrupt.exit_code
    error = error_of(capsys)
    assert (error["error"], digest in error["details"]["problem"]) == ("Corrupt", True)
