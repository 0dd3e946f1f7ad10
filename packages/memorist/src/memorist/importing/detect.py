"""Recognition of other memories' files by how they begin."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

from memorist.base.errors import MemoristError
from memorist.importing import foreign_files
from memorist.importing.registry import importers
from memorist.storage.connect import foreign
from memorist.storage.former_name import EXPORT_MARK

HEAD_BYTES = 65536


def detect_format(source: Path | str) -> str | None:
    """Return the format of another memory's file; None for our own exports and unknown files."""
    path = Path(source)
    try:
        with foreign_files.open_file(path) as file:
            head = file.read(HEAD_BYTES)
        if head.startswith(b"SQLite format 3"):
            return _detect_database(path)
        if head.startswith(b"PK\x03\x04"):
            return _detect_archive(path)
    except MemoristError:
        return None
    if _is_own_export(head):
        return None
    text = head.decode("utf-8", "replace")
    matches = []
    for format, importer in importers().items():
        match = re.search(importer.beginning, text) if importer.beginning else None
        if match:
            matches.append((match.start(), format))
    return min(matches)[1] if matches else None


def _detect_database(path: Path) -> str | None:
    tables = foreign(str(path)).tables()
    for format, importer in importers().items():
        if tables & {*importer.tables}:
            return format
    return None


def _detect_archive(path: Path) -> str | None:
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(archive.namelist())
    except zipfile.BadZipFile:
        return None
    for format, importer in importers().items():
        if importer.archive_member and any(
            re.fullmatch(importer.archive_member, name) for name in names
        ):
            return format
    return None


def _is_own_export(head: bytes) -> bool:
    first_line = head.split(b"\n", 1)[0]
    try:
        return not {"memorist", EXPORT_MARK}.isdisjoint(json.loads(first_line))
    except (ValueError, TypeError, RecursionError):
        return False
