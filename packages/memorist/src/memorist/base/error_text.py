"""The text of an error for clients and models; the reason of a database failure is only logged."""

from __future__ import annotations

import logging

from memorist.base.errors import (
    Busy,
    Corrupt,
    Full,
    MemoristError,
    ReadOnly,
    StorageError,
    Unreachable,
)
from memorist.base.logging import FIELDS

_PLAIN = (Busy, Corrupt, Full, ReadOnly, Unreachable)  # others may quote the data
_log = logging.getLogger("memorist.storage")


def error_text(error: MemoristError, request_id: str | None = None) -> str:
    """Return the public text of an error; the reason of a database failure goes to the log only."""
    if isinstance(error, StorageError):
        fields = {
            "error": type(error).__name__,
            "reason": reason(error),
            "request_id": request_id or None,
        }
        _log.warning("The database failed.", extra={FIELDS: fields})
    return error.public


def reason(error: StorageError) -> str | None:
    """Return the reason that the database gave for a failure, unless it may quote stored data."""
    text = str(error.details.get("problem", "")).partition("\n")[0]
    return text if text and isinstance(error, _PLAIN) else None
