"""Where large contents are kept: content-addressed files in a folder, or parts in the database where there is none."""

from __future__ import annotations

from pathlib import Path


class Blobs:
    """The folder for large contents; None: everything stays in the database."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
