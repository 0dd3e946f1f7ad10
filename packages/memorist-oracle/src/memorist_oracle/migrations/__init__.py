"""The migrations for Oracle: the shared files of memorist, and what Oracle has in addition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources

from memorist.storage.migrate import SHARED_FOLDER, Migration, read_folders


@cache
def shipped() -> Sequence[Migration]:
    """Return the migrations of this version, in order."""
    own_folder = resources.files("memorist_oracle.migrations")
    return read_folders("oracle", resources.files(SHARED_FOLDER), own_folder)
