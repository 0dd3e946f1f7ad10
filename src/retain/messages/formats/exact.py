"""What a database would change, kept as it is: JSON with NUL or half a character in it, as the text of its escapes."""

from __future__ import annotations

import json
import re
from typing import Any

_CHANGED = re.compile(r"\\u0000|[\ud800-\udfff]")


def exact_copy(value: Any) -> dict[str, str]:
    """`{"exact": …}` for a value that would not come back as it is, nothing for any other."""
    try:
        written = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # no JSON: who writes it says so
        return {}
    return {"exact": json.dumps(value)} if _CHANGED.search(written) else {}


def read_exact_copy(kept: Any) -> dict[str, Any] | None:
    """The object that `exact` kept; None where it kept none."""
    try:
        found = json.loads(kept["exact"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
