"""Names that every part of memorist uses when it logs."""

from __future__ import annotations

FIELDS = "fields"
"""The key of `extra` under which a log record carries structured fields."""
