"""What memorist calls: the engine of addresses that begin with `oracle://`.

Each part is imported when it is used, because the driver takes long to import.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memorist.base.errors import SettingsError, install_hint

if TYPE_CHECKING:
    from memorist.base.clock import Clock
    from memorist.base.settings import Settings
    from memorist.storage.database import Database
    from memorist.storage.extra_engines import ForeignDatabase
    from memorist.storage.migrate import Migration

SCHEME = "oracle://"


class OracleEngine:
    """Oracle Database, for storage, foreign tables and Liquibase."""

    def open(
        self, settings: Settings, clock: Clock | None, wait_seconds: float | None
    ) -> tuple[Database, Sequence[Migration]]:
        """Open the database in the settings, and return it with the migrations of the engine."""
        from memorist_oracle.migrations import shipped

        try:
            from memorist_oracle.engine import OracleDatabase
        except ImportError as error:
            raise _incomplete(error) from error
        return OracleDatabase(settings.database, settings, clock, wait_seconds), shipped()

    def open_foreign(self, url: str) -> ForeignDatabase:
        """Open another program's schema for reading."""
        from memorist_oracle.foreign_schema import ForeignSchema

        return ForeignSchema(url)

    def changelog(self, settings: Settings) -> str:
        """Return the migrations as a Liquibase changelog, for the users in the settings."""
        from memorist_oracle.address import read_address

        try:
            from memorist_oracle.liquibase import changelog
        except ImportError as error:
            raise _incomplete(error) from error
        if not settings.database.startswith(SCHEME):
            return changelog("memorist", "memorist")
        worker = read_address(settings.database, "database")
        owner = read_address(settings.owner_database or settings.database, "owner_database")
        return changelog(owner.user, worker.user)


def _incomplete(error: ImportError) -> SettingsError:
    problem = (
        f"Oracle (experimental) requires the extra `oracle` ({error}); {install_hint('oracle')}"
    )
    return SettingsError(where="database", problem=problem)


ENGINE = OracleEngine()
