"""Records as JSON."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

from memorist.content.message import Message
from memorist.kinds.items import Match, PlacedItem
from memorist.kinds.page import Page
from memorist.kinds.state import Item

STORED_FIELDS = {"raw", "created_micros"}
"""Fields of records that JSON has in another form: as `content` or `value`, and `created_at`."""


def as_json(value: Any) -> Any:
    """Return a record, a page or a list of records as JSON values.

    Contents and values become nested JSON values, not strings that contain JSON.
    """
    if isinstance(value, Page):
        names = (field.name for field in fields(value) if field.name != "items")
        return {
            "data": as_json(value.items),
            **{name: as_json(getattr(value, name)) for name in names},
        }
    if isinstance(value, Match):
        return {"item": as_json(value.item), "score": value.score}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        record = {
            field.name: as_json(getattr(value, field.name))
            for field in fields(value)
            if field.name not in STORED_FIELDS
        }
        if isinstance(value, Message):
            record["created_at"] = as_json(value.created_at)
            record["content"] = value.content
        if isinstance(value, Item | PlacedItem):
            record["value"] = value.value
        return record
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {name: as_json(item) for name, item in value.items()}
    return value
