"""What a database would change, kept as it is: JSON with NUL or half a character in it, as the text of its escapes."""

from __future__ import annotations

import json
import re
from typing import Any

_CHANGED = re.compile(r"\\u0000|[\ud800-\udfff]")


def exact(value: Any) -> dict[str, str]:
    """`{"exact": …}` for a value that would not come back as it is, nothing for any other."""
    written = json.dumps(value, ensure_ascii=False)
    return {"exact": json.dumps(value)} if _CHANGED.search(written) else {}
