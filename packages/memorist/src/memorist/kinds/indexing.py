"""Ids of index rows for records that have several keys.

Each kind creates its index rows and declares how in `findable`. Writes and the reindex job use the
same function, so both produce the same rows.
"""

from __future__ import annotations


def index_id(*keys: str) -> str:
    """Return several keys, such as a user and an agent, as one id: a JSON array of strings."""
    escaped = [key.replace("\\", "\\\\").replace('"', '\\"') for key in keys]
    return '["' + '","'.join(escaped) + '"]'


def index_id_sql(*columns: str) -> str:
    """Return the SQL expression that computes the same id from columns."""
    escaped = [rf"""replace(replace({column}, '\', '\\'), '"', '\"')""" for column in columns]
    return """'["' || """ + """ || '","' || """.join(escaped) + """ || '"]'"""
