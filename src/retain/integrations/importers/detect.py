"""Recognition of other memories' files by how they begin."""

from __future__ import annotations

import json
import re
from pathlib import Path

from retain.base.errors import RetainError
from retain.integrations.importers import reader
from retain.storage.connect import foreign

HEAD_BYTES = 65536
_TABLES = (
    ("agent_messages", "openai-agents"),
    ("store", "langgraph"),
    ("checkpoints", "langgraph"),
    ("history", "mem0"),
    ("chat_message_history", "sql"),
    ("agent_memories", "sql"),
    ("chat_sessions", "sql"),
    ("memory_kv", "sql"),
)
_ARCHIVED_FILES = (
    (re.compile(r"(.*/)?(chat\.html|user\.json|message_feedback\.json)"), "chatgpt"),
    (re.compile(r"(.*/)?(users\.json|projects\.json|memories\.json)"), "claude"),
)
_PATTERNS = (
    (r'"mapping"\s*:\s*\{', "chatgpt"),
    (r'"chat_messages"\s*:', "claude"),
    (r'"(agents|core_memory)"\s*:\s*\[', "letta"),
    (r'"type"\s*:\s*"(entity|relation)"', "mcp-memory"),
    (r'"(memory|payload)"\s*:', "mem0"),
)


def detect_format(source: Path | str) -> str | None:
    """Return the format of another memory's file; None for our own exports and unknown files."""
    path = Path(source)
    try:
        with reader.open_file(path) as file:
            head = file.read(HEAD_BYTES)
        if head.startswith(b"SQLite format 3"):
            tables = foreign(str(path)).tables()
            return next((format for table, format in _TABLES if table in tables), None)
        if head.startswith(b"PK\x03\x04"):
            return _detect_archive(path)
    except RetainError:
        return None
    if _is_own_export(head):
        return None
    text = head.decode("utf-8", "replace")
    matches = []
    for pattern, format in _PATTERNS:
        match = re.search(pattern, text)
        if match:
            matches.append((match.start(), format))
    return min(matches)[1] if matches else None


def _detect_archive(path: Path) -> str | None:
    with reader.open_archive(path) as archive:
        names = list(archive)
    for pattern, format in _ARCHIVED_FILES:
        if any(pattern.fullmatch(name) for name in names):
            return format
    return None


def _is_own_export(head: bytes) -> bool:
    first_line = head.split(b"\n", 1)[0]
    try:
        return "retain" in json.loads(first_line)
    except (ValueError, TypeError, RecursionError):
        return False
