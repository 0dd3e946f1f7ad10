"""Descriptions of the kinds' tables, and the statements to export, import, erase and check them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from memorist.storage.checksum import checksum
from memorist.storage.database import Transaction

_IDENTIFIER = re.compile(r"[a-z][a-z_]*")

CHECKSUM = "checksum"
PLACE_SEPARATOR = "\x1f"
"""Ends each name of a place. No name contains it, and it sorts before every character of a name."""
OF_AGENT_SESSION = (
    "session_id in (select id from sessions where tenant = :tenant and agent = :agent)"
)
"""Condition for rows of the sessions of `:agent`."""


@dataclass(frozen=True)
class Table:
    """A table: the order of its rows, and the conditions for rows of `:user` and unexpired rows.

    `of_agent` is the condition for rows that go when the agent `:agent` is forgotten.

    `local` columns describe storage in this database: exports omit them, and an import sets them to
    these values. `advancing` columns say how far jobs are: exports have them, but a repeated import
    does not compare them. Exports of earlier versions lack the columns `added`: an import computes
    them from the row and the beginning of its stored content, if it has one.

    `checked` are the columns with the texts of a row; its column `checksum` has the checksum of
    these texts, which every write sets, and `verify`, `backup` and exports compare.
    """

    name: str
    order: str
    owned: str = ""
    of_agent: str = ""
    live: str = ""
    local: Mapping[str, str] = field(default_factory=dict)
    advancing: Sequence[str] = ()
    added: Mapping[str, Callable[[Mapping[str, Any], str], Any]] = field(default_factory=dict)
    checked: Sequence[str] = ()

    @property
    def omitted(self) -> Set[str]:
        """The columns that exports omit."""
        return self.local.keys() | ({CHECKSUM} if self.checked else set())

    def complete(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an imported row with its checksum."""
        if not self.checked:
            return row
        texts = (row[name] for name in self.checked)
        return {
            **row,
            CHECKSUM: checksum(*[text if isinstance(text, str) else "" for text in texts]),
        }

    def texts(self, condition: str = "1 = 1") -> str:
        """Return the statement for the keys, checksums and stored texts, as bytes, of rows."""
        texts = [f"{_stored_bytes(name)} as stored_{name}" for name in self.checked]
        columns = ", ".join([*self.key, CHECKSUM, *texts])
        return f"select {columns} from {self.name} where tenant = :tenant and ({condition}) order by {self.order}"

    def find_text(self) -> str:
        """Return the statement as of `texts` for the rows with a text, by its stored bytes."""
        return self.texts(" or ".join(f"{_stored_bytes(name)} = :text" for name in self.checked))

    def texts_of_row(self) -> str:
        """Return the statement as of `texts` for the row with a key."""
        return self.texts(" and ".join(f"{name} = :{name}" for name in self.key))

    def select(self, *, of_user: bool) -> str:
        """Return the statement for all readable rows of the tenant, or of one user, in order."""
        conditions = [self.live] if self.live else []
        if of_user:
            conditions.append(self.owned or "1 = 0")
        return f"select * from {self.name} where {' and '.join(['tenant = :tenant', *conditions])} order by {self.order}"

    def count(self) -> str:
        """Return the statement that counts the readable rows, up to a limit."""
        live = f" and {self.live}" if self.live else ""
        rows = f"select 1 from {self.name} where tenant = :tenant{live} limit :limit"
        return f"select count(*) from ({rows}) as counted"

    def count_sampled(self, sampling: str) -> str:
        """Return the statement that counts the tenant's rows in a sample of an engine."""
        return f"select count(*) from {self.name} {sampling} where tenant = :tenant"

    def outermost(self, value: str) -> str:
        """Return the statement for a value of an engine, such as the highest one, of all tenants."""
        return f"select {value} from {self.name}"

    def delete(self) -> str:
        """Return the statement that deletes the rows of one user."""
        return f"delete from {self.name} where tenant = :tenant and {self.owned}"

    def delete_of_agent(self) -> str:
        """Return the statement that deletes the rows of one agent."""
        return f"delete from {self.name} where tenant = :tenant and {self.of_agent}"

    def insert(self, columns: Sequence[str]) -> str:
        """Return the statement that adds one row unless its key exists."""
        names = [_identifier(column) for column in columns if column != "tenant"]
        values = ", ".join(self.local.get(name, f":{name}") for name in names)
        return f"insert into {self.name} (tenant, {', '.join(names)}) values (:tenant, {values}) on conflict do nothing"

    def find(self) -> str:
        """Return the statement that selects the row with a key."""
        key = " and ".join(f"{name} = :{name}" for name in self.key)
        return f"select * from {self.name} where tenant = :tenant and {key}"

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The primary key without the tenant."""
        return tuple(name.strip() for name in self.order.split(","))


@dataclass(frozen=True)
class Check:
    """An invariant: a statement, or a function, that returns a description of each violation."""

    what: str
    sql: str = ""
    find: Callable[[Transaction], Sequence[str]] | None = None
    max_shown: int = 20
    """Of how many violations a finding has the description."""


def fingerprint(tx: Transaction, table: Table, key: Mapping[str, object]) -> str | None:
    """Return the SHA-256 of the row with a key, or None."""
    row = tx.one(table.find(), **key)
    return (
        None
        if row is None
        else hashlib.sha256(
            json.dumps(row, default=lambda raw: bytes(raw).hex()).encode()
        ).hexdigest()
    )


def owner_of(tx: Transaction, table: Table, key: Mapping[str, object]) -> str | None:
    """Return the user of the row with a key; None if it is missing or its table names no user."""
    if table.owned != "user_id = :user":
        return None
    row = tx.one(table.find(), **key)
    return row[tx.columns(table.name).index("user_id")] if row else None


def row_owner(tx: Transaction, table: Table | None, row: object) -> str | None:
    """Return the user of a row, for a caller whose scope is not limited to that user."""
    if table is None or not isinstance(row, Mapping):
        return None
    area = str(row.get("area", ""))
    if area.startswith("user:"):
        return area.removeprefix("user:")
    if area.startswith("session:"):
        return session_owner(tx, area.removeprefix("session:"))
    return owner_of(tx, table, row)


def session_owner(tx: Transaction, session: str) -> str | None:
    """Return the user of a session; None if there is no such session."""
    row = tx.one(
        "select user_id from sessions where tenant = :tenant and id = :session", session=session
    )
    return row[0] if row else None


def row_name(table: Table | None, row: Mapping[str, object]) -> str:
    """Return the values of a row's key as one text."""
    columns = table.key if table else tuple(row)
    return " ".join(str(row[column]) for column in columns).replace(PLACE_SEPARATOR, "/")


def _stored_bytes(column: str) -> str:
    return f"{{bytes_begin}}{column}{{bytes_end}}"


def _identifier(name: str) -> str:
    if not _IDENTIFIER.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a column")
    return name
