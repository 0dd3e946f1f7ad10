"""Records from JSON: the inverse of `rendering.as_json`, for clients."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from memorist.api.rendering import STORED_FIELDS
from memorist.base import clock
from memorist.base.canonical import JsonText
from memorist.content.message import Message
from memorist.kinds.items import Match, PlacedItem
from memorist.kinds.page import Page
from memorist.kinds.state import Item

# The JSON field that each of these records keeps as raw text.
_RAW_FIELDS: dict[type, str] = {Message: "content", Item: "value", PlacedItem: "value"}


def from_json(hint: Any, value: Any) -> Any:
    """Return a JSON value as an instance of a type."""
    origin = get_origin(hint)
    arguments = get_args(hint)
    if value is None or hint is Any:
        return value
    if origin in (Union, UnionType):
        return from_json(next(part for part in arguments if part is not NoneType), value)
    if origin is Page:
        return Page([from_json(arguments[0], item) for item in value["data"]], value["next"])
    if origin in (list, Sequence):
        return [from_json(arguments[0], item) for item in value]
    if origin is tuple:
        return tuple(value)
    if origin in (dict, Mapping):
        return {name: from_json(arguments[1], item) for name, item in value.items()}
    if hint is Match:
        return Match(_record_from_json(PlacedItem, value["item"]), value["score"])
    if hint is datetime:
        return datetime.fromisoformat(value)
    if is_dataclass(hint) and isinstance(hint, type):
        if issubclass(hint, Page):
            value = {**value, "items": value["data"]}
        return _record_from_json(hint, value)
    return value


def _record_from_json(kind: type, value: Mapping[str, Any]) -> Any:
    hints = get_type_hints(kind)
    arguments = {
        field.name: from_json(hints[field.name], value.get(field.name))
        for field in fields(kind)
        if field.name not in STORED_FIELDS
    }
    if kind is Message:
        created_at = datetime.fromisoformat(value["created_at"])
        arguments["created_micros"] = clock.from_datetime(created_at, "created_at")
    raw_field = _RAW_FIELDS.get(kind)
    if raw_field:
        text = json.dumps(value[raw_field], ensure_ascii=False, separators=(",", ":"))
        arguments["raw"] = JsonText(text)
    return kind(**arguments)
