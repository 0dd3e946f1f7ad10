"""Export and import: byte-identical between any two engines; incomplete files are rejected (P15)."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memorist import Memory, Scope
from memorist.base.errors import Conflict, Invalid, MemoristError, NotFound
from memorist.jobs import reindex
from memorist.search.reindexer import is_behind
from memorist.storage import leases
from memorist.storage.migrate import shipped
from memorist.storage.tables import Table
from testkit.databases import SETTINGS, new_database
from testkit.rows import TABLES, fill, hashes

DAY = 86_400_000_000
SCHEMA = shipped("sqlite")[-1].number


def exported(memory: Memory, **choice: Any) -> bytes:
    out = io.BytesIO()
    memory.export(out, **choice)
    return out.getvalue()


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


def sealed(content: list[Any]) -> bytes:
    """Return a file with these lines and a matching last line, as a careful forger would."""
    body = b"".join(
        (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in content
    )
    end = {"end": True, "rows": len(content), "sha256": hashlib.sha256(body).hexdigest()}
    return body + json.dumps(end).encode() + b"\n"


def beside(engine: str, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of another empty database."""
    if engine == "sqlite":
        yield f"sqlite:///{tmp_path}/beside.db"
    elif engine == "h2":
        from testkit.oracle import SECOND_H2_URL, oracle_database  # needs the extra `oracle`

        yield from oracle_database(engine, SECOND_H2_URL)
    else:
        yield from new_database(engine)


@pytest.fixture(params=["sqlite", "modern"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    """A second, empty database, on a file and on a server."""
    for url in beside(request.param, tmp_path):
        with Memory.open(url, settings=SETTINGS) as memory:
            yield memory


@pytest.fixture
def other(engine: str, tmp_path: Path) -> Iterator[Memory]:
    """A second, empty database on the same engine."""
    for url in beside(engine, tmp_path):
        with Memory.open(url, settings=SETTINGS) as memory:
            yield memory


def test_an_import_waits_for_the_index(
    memory: Memory, other: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 14, 5: after a kill while indexing, the dead process holds the lease for a while."""
    monkeypatch.setattr(reindex, "LEASE_POLL_SECONDS", 0.05)
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    me.sessions.add("s")
    me.messages.append("s", "user", "the lighthouse keeper")
    assert leases.claim(other.database, "acme", reindex.LEASE_NAME, 1.0)
    other.import_(io.BytesIO(exported(memory)))
    imported = other.scope(tenant="acme", user="ada", agent="scout")
    assert [hit.kind for hit in imported.search("lighthouse").hits] == ["messages"]
    assert not other.database.read("acme", is_behind)


# -- the round trip ------------------------------------------------------------------------------------------------


def test_numbering_survives_a_purge_and_a_move(
    open_memory: Callable[..., Memory], other: Memory
) -> None:
    now = [1_000 * DAY]
    memory = open_memory(clock=lambda: now[0])
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    me.sessions.add("s")
    me.messages.extend("s", [{"role": "user", "content": "old"}] * 5)
    now[0] += 30 * DAY
    memory.purge(days=7)
    data = exported(memory)
    other.import_(io.BytesIO(data))
    assert exported(other) == data
    assert (
        other.scope(tenant="acme", user="ada", agent="scout")
        .messages.append("s", "user", "new")
        .seq
        == 6
    )


def test_expired_state_is_not_exported(open_memory: Callable[..., Memory]) -> None:
    """P10."""
    now = [1_000 * DAY]
    memory = open_memory(clock=lambda: now[0])
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    me.state.set("short", "canary", ttl=10)
    me.state.set("long", 1, ttl=20)
    me.state.set("for good", 1)
    now[0] += 10_000_000
    data = exported(memory)
    assert b"canary" not in data
    assert [line["row"]["key"] for line in lines(data) if line.get("table") == "state"] == [
        "for good",
        "long",
    ]


def test_export_of_one_tenant_or_user(memory: Memory, other: Memory) -> None:
    for tenant in ("acme", "other"):
        fill(memory, tenant)
    found = lines(exported(memory, tenants=["acme"]))
    assert [line["tenant"] for line in found if "tenant" in line] == ["acme"]
    data = exported(memory, tenants=["acme"], user="ada")
    rows = [(line["table"], line["row"]) for line in lines(data) if "table" in line]
    assert {table for table, _ in rows} == set(TABLES) - {"tenants", "agents"}
    assert b"bob" not in data
    assert {row["user_id"] for _, row in rows if row.get("user_id")} == {"ada"}
    other.import_(io.BytesIO(data))
    assert exported(other) == data
    with pytest.raises(NotFound, match="nobody"):
        exported(memory, tenants=["acme", "nobody"])


def test_the_export_format(memory: Memory) -> None:
    """JSON Lines in a fixed order, with row count and checksum at the end; progress is reported."""
    fill(memory)
    told: list[tuple[int, int]] = []
    data = exported(memory, progress=lambda done, total: told.append((done, total)))
    body, end = data[: data.rindex(b'{"end"')], json.loads(data[data.rindex(b'{"end"') :])
    assert end == {
        "end": True,
        "rows": body.count(b"\n") - 2,
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    assert told[-1] == (end["rows"], end["rows"])
    assert b"\r" not in data
    assert data == exported(memory)


# -- an import that was interrupted --------------------------------------------------------------------------------


def test_an_interrupted_import_can_be_repeated(memory: Memory, other: Memory) -> None:
    """Every interruption leaves complete batches; the same file again adds the rest and nothing
    twice.
    """
    fill(memory)
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    me.sessions.add("long")
    me.messages.extend("long", [{"role": "user", "content": f"{n}"} for n in range(600)])
    data = exported(memory)
    for stop_after in (1, 3, 4):
        calls: list[int] = []

        def interrupt(
            done: int, total: int, calls: list[int] = calls, stop_after: int = stop_after
        ) -> None:
            calls.append(done)
            if len(calls) == stop_after:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            other.import_(io.BytesIO(data), progress=interrupt)
    done = other.import_(io.BytesIO(data))
    assert 0 < done.new < sum(done.rows.values())
    assert other.import_(io.BytesIO(data)).new == 0
    assert exported(other) == data


def test_a_row_with_other_content_stops_the_import(memory: Memory, other: Memory) -> None:
    fill(memory)
    data = exported(memory)
    other.scope(tenant="acme", user="ada", agent="scout").state.set("key 1", "mine")
    with pytest.raises(Conflict, match="state user:ada key 1"):
        other.import_(io.BytesIO(data))
    assert other.scope(tenant="acme", user="ada").state.get("key 1").value == "mine"


# -- files that are refused ----------------------------------------------------------------------------------------


def assert_rejected(memory: Memory, url: str, data: bytes, match: str) -> None:
    """Check that the file is rejected and no row was written."""
    before = hashes(url)
    with pytest.raises(Invalid, match=match) as error:
        memory.import_(io.BytesIO(data))
    assert error.value.field == "file"
    assert hashes(url) == before, match


@pytest.fixture(scope="module")
def valid_export() -> bytes:
    """An export with rows in every table."""
    with Memory.open("memory:", settings=SETTINGS) as memory:
        fill(memory)
        return exported(memory)


def test_a_truncated_file_is_rejected(memory: Memory, url: str, valid_export: bytes) -> None:
    ends = [place for place, byte in enumerate(valid_export) if byte == 10]
    for cut in (
        *ends[:-1:17],
        *(end + 1 for end in ends[:-1:17]),
        len(valid_export) - 2,
        len(valid_export) // 2,
        20,
    ):
        assert_rejected(memory, url, valid_export[:cut], "cut off|is not an export|checksum")
    assert_rejected(memory, url, b"", "is not an export")


def test_a_modified_file_is_rejected(memory: Memory, url: str, valid_export: bytes) -> None:
    content = valid_export.splitlines(keepends=True)
    assert_rejected(memory, url, valid_export.replace(b"plain", b"plane", 1), "checksum")
    assert_rejected(
        memory, url, b"".join([*content[:5], content[6], content[5], *content[7:]]), "checksum"
    )
    assert_rejected(memory, url, b"".join([*content[:5], *content[6:]]), "checksum")
    assert_rejected(memory, url, valid_export + content[3], "cut off")
    newer = valid_export.replace(b'"schema":%d' % SCHEMA, b'"schema":%d' % (SCHEMA + 1), 1)
    assert_rejected(memory, url, newer, f"schema {SCHEMA + 1}")


def test_a_foreign_file_is_rejected(memory: Memory, url: str) -> None:
    for data in (
        b"hello\n",
        b"\x00\xff\xfe",
        b"[]\n",
        b"{}\n",
        b'{"memorist":2,"schema":3}\n',
        b"\n\n",
        b"SQLite format 3\x00",
        b"null\n",
        b"[" * 100_000,
    ):
        assert_rejected(memory, url, data, "is not an export")


HEAD: dict[str, Any] = {"memorist": 1, "schema": SCHEMA}
AGENT: dict[str, Any] = {
    "name": "a", "prompt": "", "model": "", "tools": "[]", "color": "", "icon": "", "version": 1, "created_at": 1,
    "updated_at": 1, "model_label": "", "active": 1,
}  # fmt: skip


VALID: list[Any] = [{"tenant": "a"}, {"table": "agents", "row": AGENT}]
FORGED: list[tuple[list[Any], str]] = [
    ([{"table": "agents", "row": AGENT}], "tenant"),
    ([*VALID, {"table": "tenants", "row": {}}], "table 'tenants'"),
    ([*VALID, {"table": "memorist_schema", "row": {"version": 9}}], "table"),
    ([*VALID, {"table": "agents; drop table agents", "row": AGENT}], "table"),
    ([*VALID, {"what": 1}], "neither"),
    ([*VALID, b"not json"], "not a JSON object"),
    ([*VALID, b"\xff\xfe"], "not a JSON object"),
    ([*VALID, [1]], "not a JSON object"),
    ([{"tenant": "a"}, {"table": "agents", "row": [AGENT]}], "neither"),
    ([*VALID, {"tenant": "*"}, {"table": "agents", "row": AGENT}], "tenant"),
    ([*VALID, {"tenant": ""}, {"table": "agents", "row": AGENT}], "tenant"),
    ([*VALID, {"tenant": "b\0"}], "tenant"),
    ([*VALID, {"table": "agents", "row": {**AGENT, "name": ["x"]}}], "agents"),
    ([*VALID, {"table": "agents", "row": {**AGENT, "name": {}}}], "agents"),
    ([{"tenant": "a"}, {"table": "agents", "row": {**AGENT, "prompt": "nul \0"}}], "agents"),
    ([{"tenant": "a"}, {"table": "agents", "row": {**AGENT, "prompt": "half \ud83d"}}], "agents"),
    ([{"tenant": "a"}, {"table": "agents", "row": {**AGENT, "version": 2**63}}], "agents"),
    (
        [{"tenant": "a"}, {"table": "agents", "row": {**AGENT, "version": float("nan")}}],
        "agents|JSON",
    ),
    ([{"tenant": "a"}, {"table": "agents", "row": {**AGENT, "version": True}}], "agents"),
    ([{"tenant": "a"}, {"table": "agents", "row": {**AGENT, "extra": 1}}], "columns.*extra"),
    (
        [
            {"tenant": "a"},
            {"table": "agents", "row": {k: v for k, v in AGENT.items() if k != "icon"}},
        ],
        "columns.*icon",
    ),
    ([{"tenant": "a"}, {"table": "agents", "row": {**AGENT, "tenant": "b"}}], "columns.*tenant"),
    ([{"tenant": "a"}, {"table": "agents", "row": {**AGENT, "now": 1}}], "columns.*now"),
    ([*VALID, b'{"a":' + b"[" * 100_000], "not a JSON object"),
]


def test_a_forged_file_with_a_valid_checksum_is_rejected_before_writing(
    memory: Memory, url: str
) -> None:
    """A checksum proves completeness, not origin."""
    for content, match in FORGED:
        assert_rejected(memory, url, sealed([HEAD, *content]), match)
    memory.import_(io.BytesIO(sealed([HEAD, *VALID])))
    assert memory.scope(tenant="a").agents.get("a").version == 1


def test_a_column_name_in_the_file_cannot_become_sql(memory: Memory, url: str) -> None:
    for name in (
        "name) values ('x'); drop table agents; --", "name, tenant", 'name"', "name ", "NAME",
        "name\0", ":tenant",
    ):  # fmt: skip
        row = {**{key: value for key, value in AGENT.items() if key != "name"}, name: "x"}
        assert_rejected(
            memory, url, sealed([HEAD, {"tenant": "a"}, {"table": "agents", "row": row}]), "columns"
        )
        with pytest.raises(ValueError, match="not the name of a column"):
            Table("agents", order="name").insert(["tenant", name])


def test_values_in_the_file_are_bound(memory: Memory) -> None:
    hostile = "x'); drop table agents; --"
    row = {**AGENT, "name": hostile, "prompt": ":tenant %s %(tenant)s", "model": "b"}
    memory.import_(
        io.BytesIO(sealed([HEAD, {"tenant": "b' or 'a'='a"}, {"table": "agents", "row": row}]))
    )
    assert memory.tenants() == ["b' or 'a'='a"]
    (found,) = memory.scope(tenant="b' or 'a'='a").agents.list()
    assert (found.name, found.prompt) == (hostile, ":tenant %s %(tenant)s")


def test_an_orphan_row_stops_the_import_with_a_typed_error(
    open_memory: Callable[..., Memory], url: str
) -> None:
    memory = open_memory(wait_seconds=0.2)
    row = {
        "session_id": "nowhere",
        "key": "k",
        "digest": "d",
        "first_seq": 1,
        "last_seq": 1,
        "created_at": 1,
    }
    with pytest.raises(MemoristError):
        memory.import_(
            io.BytesIO(sealed([HEAD, {"tenant": "a"}, {"table": "message_keys", "row": row}]))
        )
    assert hashes(url, ["message_keys"])["message_keys"][0] == 0


def test_a_path_is_opened_and_a_text_stream_is_rejected(
    memory: Memory, me: Scope, tmp_path: Path
) -> None:
    """P3: an exported file appears when complete, with owner-only access."""
    me.sessions.add("trip")
    path = tmp_path / "out.jsonl"
    assert memory.export(path).rows == memory.export(str(path)).rows
    assert path.stat().st_mode & 0o077 == 0
    assert list(tmp_path.glob("*.partial")) == []
    assert memory.import_(str(path)).new == 0
    assert memory.import_(path).new == 0
    with pytest.raises(NotFound):
        memory.export(tmp_path / "other.jsonl", tenants=["nobody"])
    assert not (tmp_path / "other.jsonl").exists()
    wrong: Any
    for wrong in (io.StringIO(), None, 7):
        with pytest.raises(Invalid, match="must be a path"):
            memory.export(wrong)
        with pytest.raises(Invalid, match="must be a path"):
            memory.import_(wrong)
    for path in (tmp_path / "no" / "such", Path("")):
        with pytest.raises(Invalid, match="file: cannot be written"):
            memory.export(path)
        with pytest.raises(Invalid, match="file: cannot be read"):
            memory.import_(path)
    with pytest.raises(Invalid, match="target"):
        memory.backup("")
