"""The audit log: append-only, paged and filtered, with detection of tampering."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from memorist import Memory
from memorist.admin import audit_log
from memorist.admin.audit_log import NewAuditRecord
from memorist.base.errors import Invalid
from testkit.clock import Now
from testkit.databases import one_engine, server_url

ATTEMPTS = (
    "update audit set who = 'somebody else' where tenant = :tenant",
    "delete from audit where tenant = :tenant",
    "delete from audit where tenant = :tenant and number = 2",
)


def add(
    memory: Memory, count: int, owner: str = "ci", what: str = "state_set", tenant: str = "acme"
) -> None:
    for n in range(count):
        memory.database.write(
            tenant,
            lambda tx, n=n: audit_log.add(  # type: ignore[misc]
                tx, NewAuditRecord(owner, what, f"state k{n}", after="a" * 64)
            ),
        )


@pytest.mark.parametrize("sql", ATTEMPTS)
def test_the_log_is_append_only(memory: Memory, sql: str) -> None:
    """D6, 3.2 item 12: enforced by privileges on a server and by triggers in a file."""
    add(memory, 3)
    before = memory.scope(tenant="acme").admin.audit.list().items
    with pytest.raises(Exception, match=r"can only be added to|permission denied"):
        memory.database.write("acme", lambda tx: tx.run(sql))
    assert memory.scope(tenant="acme").admin.audit.list().items == before


def test_pages_and_filters(open_memory: Callable[..., Memory], now: Now) -> None:
    memory = open_memory(clock=now)
    for owner, what in (("ci", "state_set"), ("cli:ada", "users_erase"), ("ci", "notes_append")):
        add(memory, 2, owner, what)
        now.pass_days(1)
    add(memory, 1, tenant="other")
    assert [record.number for record in memory.scope(tenant="acme").admin.audit.list()] == [
        6,
        5,
        4,
        3,
        2,
        1,
    ]
    first = memory.scope(tenant="acme").admin.audit.list(limit=4)
    assert [
        record.number
        for record in memory.scope(tenant="acme").admin.audit.list(limit=4, after=first.next)
    ] == [
        2,
        1,
    ]
    assert {
        record.what for record in memory.scope(tenant="acme").admin.audit.list(who="cli:ada")
    } == {"users_erase"}
    assert [
        record.number for record in memory.scope(tenant="acme").admin.audit.list(what="state_set")
    ] == [
        2,
        1,
    ]
    day = first[0].at - timedelta(days=1)
    assert [
        record.number for record in memory.scope(tenant="acme").admin.audit.list(since=day)
    ] == [
        6,
        5,
        4,
        3,
    ]
    assert [
        record.number
        for record in memory.scope(tenant="acme").admin.audit.list(since=day, until=first[0].at)
    ] == [
        4,
        3,
    ]
    assert len(memory.scope(tenant="other").admin.audit.list()) == 1
    assert memory.scope(tenant="nobody").admin.audit.list().items == []
    for wrong in ({"limit": 0}, {"limit": 10_000}, {"after": "x"}, {"who": ""}):
        with pytest.raises(Invalid):
            memory.scope(tenant="acme").admin.audit.list(**wrong)


@one_engine
def test_secrets_are_masked_whatever_the_setting(memory: Memory) -> None:
    """The log is permanent."""
    secret = "gh" + "p_" + "a1" * 18
    memory.database.write(
        "acme",
        lambda tx: audit_log.add(tx, NewAuditRecord("ci", "state_set", f"state user:ada {secret}")),
    )
    (record,) = memory.scope(tenant="acme").admin.audit.list()
    assert record.subject == "state user:ada [secret: github-token …a1a1]"
    assert memory.database.read("acme", audit_log.find_tampering) == []


def test_concurrent_writers_leave_no_gap_and_one_chain(memory: Memory) -> None:
    threads = [threading.Thread(target=add, args=(memory, 10, f"thread {n}")) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    items = memory.scope(tenant="acme").admin.audit.list().items
    assert [record.number for record in items] == list(range(80, 0, -1))
    assert memory.database.read("acme", audit_log.find_tampering) == []


@pytest.mark.parametrize(
    "change", ["update audit set who = 'x' where number = 2", "delete from audit where number = 2"]
)
def test_verify_finds_tampering(memory: Memory, engine: str, tmp_path: Path, change: str) -> None:
    """P17: a row changed or deleted by a database administrator."""
    add(memory, 4)
    if engine == "sqlite":
        with apsw.Connection(str(tmp_path / "agent.db")) as file:
            for name in ("audit_is_not_changed", "audit_is_not_removed"):
                file.execute(f"drop trigger {name}")
            file.execute(change)
    else:
        import psycopg

        address = server_url(engine, memory.database.name.rpartition("/")[2])
        with psycopg.connect(address, autocommit=True) as owner:
            owner.execute(change.replace("audit", "memorist.audit", 1))
    wrong = [finding for finding in memory.verify() if not finding.ok]
    assert [finding.check for finding in wrong] == ["the audit log is as it was written"]
    assert "number 2" in wrong[0].problem
