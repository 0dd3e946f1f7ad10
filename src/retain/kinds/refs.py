"""References: big outputs out of the prompt, behind a placeholder, and opened again part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any

from retain import placeholder
from retain.kinds.kind import Home, Kind, Table, Who
from retain.storage.database import Transaction

Output = str | bytes | Mapping[str, Any] | Sequence[Any]
"""What can be stored: text, bytes, or JSON."""


@dataclass(frozen=True)
class Ref:
    """A stored content: what it is, where it came from, how large it is; `source` says who stored it."""

    key: str
    user: str | None
    agent: str | None
    session: str | None
    type: str
    summary: str
    media: str
    bytes: int
    lines: int
    tokens: int
    metadata: dict[str, Any]
    source: str
    is_active: bool
    created_at: datetime
    updated_at: datetime

    @property
    def placeholder(self) -> str:
        """What stands for it in a prompt."""
        return placeholder.write(self.key, self.summary)


@dataclass(frozen=True)
class Prepared:
    """Content that is measured, described and, where it is large, stored already: `add_row` has only rows to write.

    `line` is what stands for it in a context: the command, its status, and the placeholder.
    """

    key: str
    summary: str
    line: str

    @property
    def placeholder(self) -> str:
        """What will stand for it in a prompt."""
        return placeholder.write(self.key, self.summary)


class Preparing:
    """Everything that is done with a content outside of any transaction."""

    def __init__(self, home: Home, who: Who) -> None:
        self._home = home
        self._who = who

    def __call__(
        self,
        content: Output,
        description: str = "",
        *,
        type: str = "note",
        source: str = "",
        status: str = "",
        session: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Prepared:
        """Make a content ready; without a description, one is written from what it is."""
        raise NotImplementedError

    def file(
        self,
        file: IO[bytes],
        description: str = "",
        *,
        type: str = "note",
        source: str = "",
        status: str = "",
        session: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Prepared:
        """The same for everything that is left to read in a file, or in a pipe, of any size."""
        raise NotImplementedError


class Refs(Kind):
    """The references of the scope: its user's, and those that are no user's."""

    name = "refs"
    tables = (
        Table("blobs", order="user_id, digest", owned="user_id = :user"),
        Table("blob_parts", order="user_id, digest, part", owned="user_id = :user"),
        Table("refs", order="key", owned="user_id = :user"),
    )

    @property
    def prepare(self) -> Preparing:
        """`prepare(content, …)` and `prepare.file(file, …)`: for whoever adds references together with something else."""
        return Preparing(self._home, self._who)

    def add_row(self, tx: Transaction, prepared: Prepared) -> Ref:
        """Add what was prepared, in the transaction of whoever adds it together with something else."""
        raise NotImplementedError
