"""Ids of index rows for records that have several keys.

Each kind makes its own index rows and declares them as `findable`. A write and the reindex job use
the same function for it, so both produce the same rows.
"""

from __future__ import annotations


def index_id(*keys: str) -> str:
    """Return several keys, such as a user and an agent, as one id: a JSON array of strings."""
    escaped = [key.replace("\\", "\\\\").replace('"', '\\"') for key in keys]
    return '["' + '","'.join(escaped) + '"]'


def index_id_sql(*columns: str) -> str:
    """Return the SQL expression that makes the same id of columns."""
    escaped = [rf"""replace(replace({column}, '\', '\\'), '"', '\"')""" for column in columns]
    return """'["' || """ + """ || '","' || """.join(escaped) + """ || '"]'"""
