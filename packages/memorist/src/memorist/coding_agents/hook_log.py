"""The log of the hooks: one JSON line per call, for `memorist status` and for people."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memorist.coding_agents.project import data_folder, make_data_folder

FILE = "hooks.log"
MAX_BYTES = 1_000_000
MAX_RESULT_CHARACTERS = 300


def log_file() -> Path:
    """Return the path of the log."""
    return data_folder() / FILE


def write_line(**fields: Any) -> None:
    """Add a line; a log that became large is renamed to `hooks.log.1` first."""
    file = log_file()
    make_data_folder()
    if file.exists() and file.stat().st_size > MAX_BYTES:
        file.replace(file.with_suffix(".log.1"))
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    fields["result"] = str(fields.get("result", ""))[:MAX_RESULT_CHARACTERS]
    line = json.dumps({"at": at, **fields}, ensure_ascii=False) + "\n"
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode("utf-8", "replace"))  # one write: lines never mix
    finally:
        os.close(descriptor)


def last_calls() -> list[Mapping[str, Any]]:
    """Return the newest call of each host and event, in the order of the log."""
    newest: dict[tuple[str, str], Mapping[str, Any]] = {}
    try:
        lines = log_file().read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            call = json.loads(line)
        except ValueError:
            continue
        if isinstance(call, dict):
            key = (str(call.get("host")), str(call.get("event")))
            newest.pop(key, None)
            newest[key] = call
    return list(newest.values())
