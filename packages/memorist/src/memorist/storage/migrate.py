"""Migrations: bring a database's schema to this code's version, one numbered step at a time.

A step is one file with an `-- up` and a `-- down` part. An engine runs it in its own transaction,
under a lock, and only if the database is at the version before it. So any number of processes may
start at once, and a process killed midway leaves the database at the last complete step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from memorist.base.errors import Conflict, Invalid, SchemaTooNew
from memorist.storage import design_views
from memorist.storage.database import Database, Step
from memorist.storage.design_views import StoredView

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

SHARED_FOLDER = "memorist.storage.migrations"
_NAME = re.compile(r"(?P<number>\d{4})_(?P<name>\w+)(?:\.(?P<engine>\w+))?\.sql")
_PARTS = re.compile(r"^-- up\n(?P<up>.*)^-- down\n(?P<down>.*)\Z", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Migration:
    """One numbered step of the schema, for one engine."""

    number: int
    name: str
    up: str
    down: str

    def step(self, *, up: bool) -> Step:
        """Return the step in one direction."""
        return Step(self.number, self.name, self.up if up else self.down, up)


@cache  # reading the files takes a quarter of the time of opening an SQLite database
def shipped(engine: str) -> Sequence[Migration]:
    """Return the migrations of this version of memorist, in order."""
    return read_folders(engine, resources.files(SHARED_FOLDER))


def read_folders(engine: str, *folders: Traversable) -> Sequence[Migration]:
    """Return the migrations in folders for an engine, in order.

    An engine of another package has its own files in a folder of that package.
    """
    migrations: dict[int, Migration] = {}
    files = [file for folder in folders for file in folder.iterdir()]
    for file in sorted(files, key=_shared_file_first):
        match = _NAME.fullmatch(file.name)
        if match and match["engine"] in (None, engine):
            text = file.read_text(encoding="utf-8")
            migration = read(int(match["number"]), match["name"], text)
            shared = migrations.get(migration.number)
            if shared is not None:
                migration = replace(
                    shared, up=shared.up + migration.up, down=migration.down + shared.down
                )
            migrations[migration.number] = migration
    return tuple(migrations[number] for number in sorted(migrations))


def _shared_file_first(file: Traversable) -> tuple[int, str]:
    return file.name.count("."), file.name


def read(number: int, name: str, text: str) -> Migration:
    """Parse a migration file."""
    parts = _PARTS.search(text)
    if not parts:
        raise ValueError(
            f"migration {number:04} {name} has no '-- up' part followed by a '-- down' part"
        )
    return Migration(number, name, parts["up"], parts["down"])


def check(database: Database, known: Sequence[Migration]) -> int:
    """Return the database's version; raise `SchemaTooNew` if a newer memorist wrote it."""
    version = database.version()
    if version > known[-1].number:
        raise SchemaTooNew(found=version, known=known[-1].number)
    return version


def due_up(
    database: Database, known: Sequence[Migration], to: int | None = None
) -> list[Migration]:
    """Return the missing migrations up to a version, in the order to apply them."""
    last = known[-1].number if to is None else to
    if not 0 <= last <= known[-1].number:
        raise Invalid(field="to", problem=f"must be a version from 0 to {known[-1].number}")
    version = check(database, known)
    return [migration for migration in known if version < migration.number <= last]


def due_down(database: Database, known: Sequence[Migration], to: int) -> list[Migration]:
    """Return the migrations above a version, in the order to revert them."""
    version = check(database, known)
    if not 0 <= to <= version:
        raise Invalid(
            field="to", problem=f"must be a version from 0 to {version}, where the database is now"
        )
    return [migration for migration in reversed(known) if to < migration.number <= version]


def up(database: Database, known: Sequence[Migration], to: int | None = None) -> list[Migration]:
    """Apply the missing migrations up to a version, and return those that this call applied.

    Views of earlier designs are created again if there are any.
    """
    due = due_up(database, known, to)
    dropped: list[StoredView] = []
    if due:  # a view can keep a column from changing; one on which objects of others depend stays
        with suppress(Conflict):
            dropped = design_views.drop(database.views)
    try:
        applied = [migration for migration in due if database.step(migration.step(up=True))]
    finally:
        design_views.restore(database.views, dropped)
    # Also if nothing was applied, because a worker of the cluster may have been down at the last start.
    if to != 0:
        database.distribute()
    return applied


def down(database: Database, known: Sequence[Migration], to: int) -> list[Migration]:
    """Revert migrations down to a version, and return those that this call reverted.

    Views of earlier designs are dropped.
    """
    due = due_down(database, known, to)
    if due:  # an older schema may lack what the views show
        design_views.drop(database.views)
    return [migration for migration in due if database.step(migration.step(up=False))]
