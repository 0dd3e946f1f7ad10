"""Database engines of other packages, found by the scheme of an address such as `oracle://…`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from memorist.base.clock import Clock
from memorist.base.errors import SettingsError, install_hint
from memorist.base.extensions import ENGINES, extensions
from memorist.base.settings import Settings
from memorist.storage.database import Database
from memorist.storage.migrate import Migration

_EXTRAS = {"oracle": "Oracle (experimental)"}
"""Schemes of packages that may not be installed, with the name of the database; the extra has the
name of the scheme."""


class ForeignDatabase(Protocol):
    """Another program's database, for reading."""

    def tables(self) -> set[str]:
        """Return the names of its tables."""

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""

    def read_table(
        self, table: str, columns: Sequence[str], order: Sequence[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """Yield the given columns of every row, sorted by `order`."""

    def rows(self, statement: str, parameters: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
        """Yield the rows of a statement."""


class Engine(Protocol):
    """A database engine. Its entry point has the name of the scheme, which is also its dialect."""

    def open(
        self, settings: Settings, clock: Clock | None, wait_seconds: float | None
    ) -> tuple[Database, Sequence[Migration]]:
        """Open the database in the settings, and return it with the migrations of the engine."""

    def open_foreign(self, url: str) -> ForeignDatabase:
        """Open another program's database for reading."""

    def changelog(self, settings: Settings) -> str:
        """Return the migrations as a Liquibase changelog, for the users in the settings."""


def find_engine(url: str, where: str) -> Engine | None:
    """Return the engine of an address; None if no package has one. `where` is named by errors."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        return None
    installed = extensions(ENGINES)
    if scheme in installed:
        engine: Engine = installed[scheme].load()
        return engine
    if scheme in _EXTRAS:
        problem = f"{_EXTRAS[scheme]} requires the extra `{scheme}`; {install_hint(scheme)}"
        raise SettingsError(where=where, problem=problem)
    return None
