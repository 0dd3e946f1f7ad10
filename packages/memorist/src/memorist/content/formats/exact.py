"""Lossless copies of JSON values that a database would change: NUL and unpaired surrogates."""

from __future__ import annotations

import json
import re
from typing import Any

_CHANGED = re.compile(r"\\u0000|[\ud800-\udfff]")


def is_exact(text: str) -> bool:
    """Return whether a database stores a text unchanged."""
    return "\x00" not in text and (text.isascii() or _CHANGED.search(text) is None)


def exact_copy(value: Any) -> dict[str, str]:
    """Return `{"exact": …}` for a value that a database would change, else an empty dictionary."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # not JSON: storing it will raise an error
        return {}
    return {"exact": json.dumps(value)} if _CHANGED.search(text) else {}


def read_exact_copy(copy: Any) -> dict[str, Any] | None:
    """Return the object in an exact copy, or None."""
    try:
        value = json.loads(copy["exact"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
