"""The list of users that have data."""

from __future__ import annotations

from typing import Any, cast

import pytest

from memorist import Memory
from memorist.admin import users
from memorist.storage.database import Database, Row, Work

BOTH = pytest.mark.parametrize("engine", ["sqlite", "modern"], indirect=True)


class CountingDatabase:
    """A database that counts the rows it returns."""

    def __init__(self, memory: Memory) -> None:
        self.rows = 0
        self._database = memory.database

    def read(self, tenant: str, work: Work[Any]) -> Any:
        """Run work with a transaction that counts its rows."""

        def counted(tx: Any) -> Any:
            self._tx = tx
            return work(cast(Any, self))

        return self._database.read(tenant, counted)

    def all(self, sql: str, **values: Any) -> list[Row]:
        """Return the rows of a statement."""
        rows = list(self._tx.all(sql, **values))
        self.rows += len(rows)
        return rows


def add_users(memory: Memory, *names: str) -> None:
    for name in names:
        memory.scope(tenant="acme", user=name).state.set("theme", "dark")


@BOTH
def test_a_search_reads_only_the_users_that_may_match(memory: Memory) -> None:
    add_users(memory, *[f"User {n}" for n in range(30)], "Élodie", "100%_!sure", "STRASSE")
    for search, expected, most_rows in (
        ("user 7", ["User 7"], 2),
        ("USER 1", [f"User {n}" for n in (1, *range(10, 20))], 12),
        ("%_!", ["100%_!sure"], 2),
        ("straße", ["STRASSE"], 2),
        ("élo", ["Élodie"], 1),
        ("%", ["100%_!sure"], 2),
    ):
        database = CountingDatabase(memory)
        page = users.list_users(cast(Database, database), "acme", search=search)
        assert sorted(user.user for user in page.items) == sorted(expected), search
        assert database.rows <= most_rows, search


@BOTH
def test_a_search_goes_on_until_the_page_is_full(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users, "_SEARCH_BATCH", 2)
    names = [f"é{n} {'cook' if n % 3 else 'SCOUT'}" for n in range(20)]
    add_users(memory, *names)
    found: list[str] = []
    after = None
    while True:
        page = users.list_users(memory.database, "acme", search="scout", limit=3, after=after)
        assert len(page.items) <= 3
        found += [user.user for user in page.items]
        after = page.next
        if after is None:
            break
    assert found == [name for name in reversed(names) if name.endswith("SCOUT")]


def test_administration_is_for_one_tenant(memory: Memory) -> None:
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    me.sessions.add("trip")
    me.messages.append("trip", "user", "Hello.")
    assert [user.user for user in me.admin.users.list()] == ["ada"]
    assert memory.users.list().items == []
    assert me.admin.audit.list().items == memory.audit.list().items == []
