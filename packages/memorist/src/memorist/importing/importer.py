"""What an importer declares: how to read a format, and how to recognize its files.

A package adds an importer by an entry point in the group `memorist.importers`; the name of the entry
point is the name of the format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from memorist.importing.records import Record


@dataclass(frozen=True)
class ImportSource:
    """What to import, with the options of the caller."""

    location: str  # a file, or the URL of a database
    user: str | None = None  # owns everything for which the source names no user
    map: str | None = None


@dataclass(frozen=True)
class Importer:
    """An importer of one format: it reads records, and memorist writes them.

    `read` is called twice, first to check the source. It raises Invalid for a broken source.
    """

    read: Callable[[ImportSource], Iterator[Record]]
    takes_map: bool = False  # the source names a map
    is_personal: bool = False  # its items belong to a person, even if they name none
    has_many_users: bool = False  # some records may lack an owner: they are listed
    tables: tuple[str, ...] = ()  # a database with one of these tables is of this format
    archive_member: str = ""  # pattern of a file name in a ZIP archive of this format
    beginning: str = ""  # pattern in the first 64 KB of a text file of this format
