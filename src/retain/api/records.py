"""JSON as the record that it was: the way back from `render`, for who has it from a server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from retain.base.canonical import JsonText
from retain.kinds.items.items import Match, PlacedItem
from retain.kinds.kind import Page
from retain.kinds.state import Item
from retain.messages.message import Message


def of_json(hint: Any, value: Any) -> Any:
    """A JSON value as the record that it was."""
    origin, inside = get_origin(hint), get_args(hint)
    if value is None or hint is Any:
        return value
    if origin in (Union, UnionType):
        return of_json(next(part for part in inside if part is not NoneType), value)
    if origin is Page:
        return Page([of_json(inside[0], one) for one in value["data"]], value["next"])
    if origin in (list, Sequence):
        return [of_json(inside[0], one) for one in value]
    if origin is tuple:
        return tuple(value)
    if origin in (dict, Mapping):
        return {name: of_json(inside[1], one) for name, one in value.items()}
    if hint is Match:
        return Match(_record(PlacedItem, value["item"]), value["score"])
    if hint is datetime:
        return datetime.fromisoformat(value)
    if is_dataclass(hint) and isinstance(hint, type):
        return _record(hint, value)
    return value


def _record(kind: type, value: Mapping[str, Any]) -> Any:
    hints = get_type_hints(kind)
    raw = {Message: "content", Item: "value", PlacedItem: "value"}.get(kind)
    made = {
        one.name: of_json(hints[one.name], value.get(one.name))
        for one in fields(kind)
        if one.name != "raw"
    }
    if raw:
        made["raw"] = JsonText(json.dumps(value[raw], ensure_ascii=False, separators=(",", ":")))
    return kind(**made)
