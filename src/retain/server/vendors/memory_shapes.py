"""The shapes of Anthropic's memory stores: what a request may say, and how stores, memories and versions are told."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from retain.api.files import Path, path_of
from retain.base import clock
from retain.base.errors import Invalid
from retain.kinds.items import PlacedItem as Item

MOST_BYTES = 102_400
MOST_PATH_BYTES = 1024
MOST_NAMES = 20
MOST_FULL = 20
"""The most records of a page that has their contents."""
_SHA = re.compile("[0-9a-f]{64}")
_NO_PATH = {"Cc", "Cf", "Cs", "Zl", "Zp"}
Json = dict[str, Any]
Query = Mapping[str, Any]


def described(value: Query) -> Json:
    """The name, description and metadata of a store, if they may be so."""
    name, description = (
        _text(value.get("name"), "name", 1, 255),
        _text(value["description"], "description", 0, 1024),
    )
    if any(unicodedata.category(letter) == "Cc" for letter in name):
        raise Invalid(field="name", problem="must have no control characters")
    metadata = an_object(value["metadata"], "metadata")
    if len(metadata) > 16:
        raise Invalid(field="metadata", problem=f"must have at most 16 pairs, not {len(metadata)}")
    for key, one in metadata.items():
        _text(key, "metadata", 1, 64)
        _text(one, f"metadata.{key}", 0, 512)
    return {"name": name, "description": description, "metadata": metadata}


def an_object(value: Any, field: str) -> Json:
    """A value, if it is an object."""
    if not isinstance(value, dict):
        raise Invalid(field=field, problem="must be an object")
    return value


def _text(value: Any, field: str, least: int, most: int) -> str:
    if not isinstance(value, str):
        raise Invalid(field=field, problem="is needed" if value is None else "must be text")
    if not least <= len(value) <= most:
        raise Invalid(
            field=field, problem=f"must have {least} to {most} characters, not {len(value)}"
        )
    return value


def content(value: Any) -> str:
    """What is in a memory, if it may be so."""
    text = _text(value, "content", 0, MOST_BYTES)
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise Invalid(
            field="content",
            problem="must have no NUL and no half of a letter: these cannot be kept as they are",
        )
    if (size := len(text.encode())) > MOST_BYTES:
        raise Invalid(field="content", problem=f"must have at most {MOST_BYTES} bytes, not {size}")
    return text


def path(value: Any, *, prefix: bool = False) -> Path:
    """The names of a path, or of a folder, which ends with a slash."""
    field = "path_prefix" if prefix else "path"
    text = _text(value, field, 1, MOST_PATH_BYTES)
    if prefix and not text.endswith("/"):
        raise Invalid(field=field, problem="must end with /")
    if any(
        unicodedata.category(letter) in _NO_PATH for letter in text
    ) or not unicodedata.is_normalized("NFC", text):
        raise Invalid(
            field=field,
            problem="must have no control and format characters, and be in Normalization Form C",
        )
    if len(text.encode()) > MOST_PATH_BYTES:
        raise Invalid(field=field, problem=f"must have at most {MOST_PATH_BYTES} bytes")
    top, *names = (text[:-1] if prefix else text).split("/")
    if (
        top
        or (not names and not prefix)
        or len(names) > MOST_NAMES
        or any(name in ("", ".", "..") for name in names)
    ):
        raise Invalid(
            field=field,
            problem=f"must begin with /, and have up to {MOST_NAMES} names that are not empty, . or ..",
        )
    return tuple(names)


def expected(precondition: Any) -> str | None:
    """The SHA-256 that a precondition names, None where there is no precondition."""
    if precondition is None:
        return None
    if not isinstance(precondition, dict) or precondition.get("type") != "content_sha256":
        raise Invalid(field="precondition.type", problem="must be content_sha256")
    return sha(precondition.get("content_sha256", ""), "precondition.content_sha256")


def sha(value: Any, field: str) -> str | None:
    """A SHA-256, if it is one."""
    if value is not None and not (isinstance(value, str) and _SHA.fullmatch(value)):
        raise Invalid(
            field=field, problem="must be a SHA-256 as 64 lowercase hexadecimal characters"
        )
    return value


def is_full(query: Query, default: str = "basic") -> bool:
    """Whether contents are to be answered, too."""
    view = query.get("view", default)
    if view not in ("basic", "full"):
        raise Invalid(field="view", problem="must be basic or full")
    return bool(view == "full")


def flag(query: Query, name: str) -> bool:
    """Whether a parameter says true."""
    if query.get(name, "false") not in ("true", "false"):
        raise Invalid(field=name, problem="must be true or false")
    return query.get(name) == "true"


def limit(query: Query, most: int = 100) -> int:
    """How many records a page may have."""
    return min(most, whole(query, "limit", 20, 1, 100))


def whole(query: Query, name: str, default: int, least: int, most: int) -> int:
    """A parameter that is a whole number."""
    value = query.get(name, str(default))
    if not (
        value.isascii() and value.isdecimal() and len(value) < 6 and least <= int(value) <= most
    ):
        raise Invalid(field=name, problem=f"must be a whole number from {least} to {most}")
    return int(value)


def between(query: Query) -> Json:
    """The moments between which something was made, as what to look for."""
    found = {f"${bound}": query.get(f"created_at[{bound}]") for bound in ("gte", "lte")}
    at = {name: _moment(value, name) for name, value in found.items() if value}
    return {"at": at} if at else {}


def _moment(value: str, name: str) -> int:
    field = f"created_at[{name[1:]}]"
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise Invalid(
            field=field, problem="must be a moment such as 2026-01-31T12:00:00Z"
        ) from None
    return clock.from_datetime(moment, field)


def packed(after: str, last: str) -> str:
    """Where a page ended: after which item, and in which folder that was the last to be told."""
    return base64.urlsafe_b64encode(json.dumps([after, last]).encode()).decode()


def unpacked(page: str) -> tuple[str, str]:
    """What `packed` made of a place."""
    try:
        after, last = json.loads(base64.urlsafe_b64decode(page))
    except (ValueError, TypeError, RecursionError):
        raise Invalid(field="page", problem="is not a next_page from the page before") from None
    return str(after), str(last)


def is_store(item: Item) -> bool:
    """Whether an item is a store: others may put theirs at the same place."""
    return _has(item, name=str, description=str, metadata=dict, archived=bool)


def is_memory(item: Item) -> bool:
    """Whether an item is a memory, and no folder or somebody else's."""
    return _has(item, text=str, id=str, version=str)


def is_version(item: Item) -> bool:
    """Whether an item is a version of a memory."""
    return _has(item, memory=str, operation=str, path=list | None, text=str | None, by=str | None)


def _has(item: Item, **fields: Any) -> bool:
    return all(
        name in item.value and isinstance(item.value[name], kind) for name, kind in fields.items()
    )


def store(item: Item) -> Json:
    """A store as it is told."""
    value, changed = item.value, _time(item.updated_at)
    said = {name: value[name] for name in ("name", "description", "metadata")}
    archived = {
        "archived_at": changed if value["archived"] else None
    }  # it was changed last by that
    return {
        "id": item.key,
        "type": "memory_store",
        **said,
        "created_at": _time(item.created_at),
        "updated_at": changed,
    } | archived


def memory(store: str, item: Item, full: bool) -> Json:
    """A memory as it is told."""
    value = item.value
    return {
        "id": value["id"],
        "type": "memory",
        "memory_store_id": store,
        "memory_version_id": value["version"],
        "path": f"/{'/'.join(path_of(item))}",
        **_written(value["text"], full),
        "created_at": value.get("created") or _time(item.created_at),
        "updated_at": _time(item.updated_at),
    }


def version(store: str, item: Item, full: bool) -> Json:
    """A version of a memory as it is told."""
    value = item.value
    redacted = value.get("redacted_by")
    return {
        "id": item.key,
        "type": "memory_version",
        "memory_store_id": store,
        "memory_id": value["memory"],
        "operation": value["operation"],
        "path": None if value["path"] is None else f"/{'/'.join(value['path'])}",
        **_written(value["text"], full),
        "created_at": _time(item.created_at),
        "created_by": _actor(value["by"]),
        "redacted_at": _time(item.updated_at) if redacted else None,
        "redacted_by": _actor(redacted),
    }


def _written(text: str | None, full: bool) -> Json:
    if text is None:
        return dict.fromkeys(("content", "content_sha256", "content_size_bytes"))
    return {
        "content": text if full else None,
        "content_sha256": digest(text),
        "content_size_bytes": len(text.encode()),
    }


def _actor(name: str | None) -> Json | None:
    return None if name is None else {"type": "api_actor", "api_key_id": name}


def digest(text: str) -> str:
    """The SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
