"""Check a backup of a PostgreSQL database, made by pg_dump, without restoring it."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from memorist.base.errors import Corrupt, SettingsError, StorageError
from memorist.storage.contents.content_parts import chunks
from memorist.storage.contents.folder import Folder, read_errors
from memorist.storage.database import Finding

DUMP_HEAD = b"PGDMP"


def verify_dump(file: Path) -> list[Finding]:
    """Read the whole dump, and compare the files that its rows name with their hashes.

    Contents inside the dump are read but not compared: check these after restoring it.
    """
    try:
        _restore(file, "--file=/dev/null")
        blobs = list(_blobs(_restore(file, "--data-only", "--table=blobs", "--file=-")))
    except Corrupt as error:
        return [Finding("the dump can be read to its end", str(error.problem))]
    folder = Folder(file.with_name(file.name + "-refs"), min_free_mib=0)
    problems = [problem for digest, name in blobs if (problem := _problem(folder, digest, name))]
    return [
        Finding("the dump can be read to its end"),
        Finding("every content in a file is what its hash says", "; ".join(problems[:20])),
    ]


def _restore(file: Path, *options: str) -> str:
    try:
        done = subprocess.run(
            ["pg_restore", *options, str(file)], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        problem = "is not installed; it comes with PostgreSQL's client"
        raise SettingsError(where="pg_restore", problem=problem) from None
    if done.returncode:
        raise Corrupt(problem=done.stderr.strip())
    return done.stdout


def _blobs(sql: str) -> Iterator[tuple[str, str]]:
    """Yield the digest and the file of each content that is in a file, from the dumped rows."""
    columns: list[str] = []
    for line in sql.splitlines():
        if line.startswith("COPY "):
            columns = line[line.index("(") + 1 : line.index(")")].split(", ")
        elif line == "\\.":
            columns = []
        elif columns:
            row = dict(zip(columns, line.split("\t"), strict=True))
            if row["file"] != "\\N":
                yield row["digest"], row["file"]


def _problem(folder: Folder, digest: str, name: str) -> str:
    actual_digest = hashlib.sha256()
    try:
        with folder.open(name) as content, read_errors(name):
            for piece in chunks(content):
                actual_digest.update(piece)
    except StorageError as error:
        return str(error.problem)
    return "" if actual_digest.hexdigest() == digest else f"the content {digest} is damaged"
