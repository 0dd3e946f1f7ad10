"""Whose file is it? Told from how it begins, so that who forgets `--from` hears what to say."""

from __future__ import annotations

import json
import re
from pathlib import Path

from retain.base.errors import RetainError
from retain.integrations.importers import files
from retain.storage.connect import foreign

_START = 65536
_TABLES = (
    ("agent_messages", "openai-agents"),
    ("store", "langgraph"),
    ("checkpoints", "langgraph"),
    ("history", "mem0"),
)
_NAMES = (
    (re.compile(r"(.*/)?(chat\.html|user\.json|message_feedback\.json)"), "chatgpt"),
    (re.compile(r"(.*/)?(users\.json|projects\.json|memories\.json)"), "claude"),
)
_SIGNS = (
    (r'"mapping"\s*:\s*\{', "chatgpt"),
    (r'"chat_messages"\s*:', "claude"),
    (r'"(agents|core_memory)"\s*:\s*\[', "letta"),
    (r'"type"\s*:\s*"(entity|relation)"', "mcp-memory"),
    (r'"(memory|payload)"\s*:', "mem0"),
)


def guess(source: Path | str) -> str | None:
    """The format of a file that is plainly somebody else's; None for one that is ours, or nobody's that is known here."""
    path = Path(source)
    try:
        with files.opened(path) as file:
            start = file.read(_START)
        if start.startswith(b"SQLite format 3"):
            tables = foreign(str(path)).tables()
            return next((format for table, format in _TABLES if table in tables), None)
        if start.startswith(b"PK\x03\x04"):
            with files.members(path) as archive:
                return next(
                    (format for pattern, format in _NAMES if any(map(pattern.fullmatch, archive))),
                    None,
                )
    except RetainError:
        return None
    first = start.split(b"\n", 1)[0]
    try:
        if "retain" in json.loads(first):
            return None
    except (ValueError, TypeError, RecursionError):
        pass
    text = start.decode("utf-8", "replace")
    found = [
        (match.start(), format) for pattern, format in _SIGNS if (match := re.search(pattern, text))
    ]
    return min(found)[1] if found else None
