"""Formats of Anthropic's memory stores: validation of requests, rendering of records."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from memorist.base import clock
from memorist.base.errors import Invalid
from memorist.kinds.items import PlacedItem as Item
from memorist_frameworks.memory_files import Path, path_of

MAX_CONTENT_BYTES = 102_400
MAX_PATH_BYTES = 1024
MAX_PATH_NAMES = 20
MAX_FULL_RECORDS = 20
"""Maximum number of records on a page with contents."""
_SHA = re.compile("[0-9a-f]{64}")
_FORBIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
Json = dict[str, Any]
Query = Mapping[str, Any]


def check_store(value: Query) -> Json:
    """Return the valid name, description and metadata of a store."""
    name = _check_text(value.get("name"), "name", 1, 255)
    description = _check_text(value["description"], "description", 0, 1024)
    if any(unicodedata.category(character) == "Cc" for character in name):
        raise Invalid(field="name", problem="must have no control characters")
    metadata = check_object(value["metadata"], "metadata")
    if len(metadata) > 16:
        raise Invalid(field="metadata", problem=f"must have at most 16 pairs, not {len(metadata)}")
    for key, text in metadata.items():
        _check_text(key, "metadata", 1, 64)
        _check_text(text, f"metadata.{key}", 0, 512)
    return {"name": name, "description": description, "metadata": metadata}


def check_object(value: Any, field: str) -> Json:
    """Return the value, or raise Invalid if it is not an object."""
    if not isinstance(value, dict):
        raise Invalid(field=field, problem="must be an object")
    return value


def _check_text(value: Any, field: str, minimum: int, maximum: int) -> str:
    if not isinstance(value, str):
        raise Invalid(field=field, problem="is required" if value is None else "must be text")
    if not minimum <= len(value) <= maximum:
        raise Invalid(
            field=field, problem=f"must have {minimum} to {maximum} characters, not {len(value)}"
        )
    return value


def check_content(value: Any) -> str:
    """Return the valid content of a memory."""
    text = _check_text(value, "content", 0, MAX_CONTENT_BYTES)
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise Invalid(
            field="content",
            problem="must not contain NUL or unpaired surrogates, which cannot be stored",
        )
    if (size := len(text.encode())) > MAX_CONTENT_BYTES:
        raise Invalid(
            field="content", problem=f"must have at most {MAX_CONTENT_BYTES} bytes, not {size}"
        )
    return text


def parse_path(value: Any, *, prefix: bool = False) -> Path:
    """Return the names of a path, or of a folder, which ends with a slash."""
    field = "path_prefix" if prefix else "path"
    text = _check_text(value, field, 1, MAX_PATH_BYTES)
    if prefix and not text.endswith("/"):
        raise Invalid(field=field, problem="must end with /")
    if any(
        unicodedata.category(character) in _FORBIDDEN_CATEGORIES for character in text
    ) or not unicodedata.is_normalized("NFC", text):
        raise Invalid(
            field=field,
            problem="must have no control and format characters, and be in Normalization Form C",
        )
    if len(text.encode()) > MAX_PATH_BYTES:
        raise Invalid(field=field, problem=f"must have at most {MAX_PATH_BYTES} bytes")
    top, *names = (text[:-1] if prefix else text).split("/")
    if (
        top
        or (not names and not prefix)
        or len(names) > MAX_PATH_NAMES
        or any(name in ("", ".", "..") for name in names)
    ):
        raise Invalid(
            field=field,
            problem=f"must begin with /, and have up to {MAX_PATH_NAMES} names that are not empty, . or ..",
        )
    return tuple(names)


def parse_precondition(precondition: Any) -> str | None:
    """Return the SHA-256 of a precondition, or None."""
    if precondition is None:
        return None
    if not isinstance(precondition, dict) or precondition.get("type") != "content_sha256":
        raise Invalid(field="precondition.type", problem="must be content_sha256")
    return check_sha256(precondition.get("content_sha256", ""), "precondition.content_sha256")


def check_sha256(value: Any, field: str) -> str | None:
    """Return a valid SHA-256, or None."""
    if value is not None and not (isinstance(value, str) and _SHA.fullmatch(value)):
        raise Invalid(
            field=field, problem="must be a SHA-256 as 64 lowercase hexadecimal characters"
        )
    return value


def is_full(query: Query, default: str = "basic") -> bool:
    """Return True if the response includes contents."""
    view = query.get("view", default)
    if view not in ("basic", "full"):
        raise Invalid(field="view", problem="must be basic or full")
    return bool(view == "full")


def parse_flag(query: Query, name: str) -> bool:
    """Return a boolean parameter."""
    if query.get(name, "false") not in ("true", "false"):
        raise Invalid(field=name, problem="must be true or false")
    return query.get(name) == "true"


def parse_limit(query: Query, maximum: int = 100) -> int:
    """Return the page size."""
    return min(maximum, parse_int(query, "limit", 20, 1, 100))


def parse_int(query: Query, name: str, default: int, minimum: int, maximum: int) -> int:
    """Return an integer parameter."""
    value = query.get(name, str(default))
    if not (
        value.isascii()
        and value.isdecimal()
        and len(value) < 6
        and minimum <= int(value) <= maximum
    ):
        raise Invalid(field=name, problem=f"must be a whole number from {minimum} to {maximum}")
    return int(value)


def created_filter(query: Query) -> Json:
    """Return the filter for the creation time."""
    bounds = {f"${bound}": query.get(f"created_at[{bound}]") for bound in ("gte", "lte")}
    at = {name: _parse_time(value, name) for name, value in bounds.items() if value}
    return {"at": at} if at else {}


def _parse_time(value: str, name: str) -> int:
    field = f"created_at[{name[1:]}]"
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise Invalid(field=field, problem="must be a time such as 2026-01-31T12:00:00Z") from None
    return clock.from_datetime(moment, field)


def encode_page(after: str, last: str) -> str:
    """Encode the end of a page: the last item, and the last folder that was listed."""
    return base64.urlsafe_b64encode(json.dumps([after, last]).encode()).decode()


def decode_page(page: str) -> tuple[str, str]:
    """Decode what `encode_page` returned."""
    try:
        after, last = json.loads(base64.urlsafe_b64decode(page))
    except (ValueError, TypeError, RecursionError):
        raise Invalid(field="page", problem="is not a next_page from the page before") from None
    return str(after), str(last)


def is_store(item: Item) -> bool:
    """Return True for a store; other clients may put items at the same place."""
    return _has_fields(item, name=str, description=str, metadata=dict, archived=bool)


def is_memory(item: Item) -> bool:
    """Return True for a memory: not a folder, not another client's item."""
    return _has_fields(item, text=str, id=str, version=str)


def is_version(item: Item) -> bool:
    """Return True for a version of a memory."""
    return _has_fields(
        item, memory=str, operation=str, path=list | None, text=str | None, by=str | None
    )


def _has_fields(item: Item, **fields: Any) -> bool:
    return all(
        name in item.value and isinstance(item.value[name], kind) for name, kind in fields.items()
    )


def render_store(item: Item) -> Json:
    """Render a store."""
    value = item.value
    updated = _time(item.updated_at)
    return {
        "id": item.key,
        "type": "memory_store",
        "name": value["name"],
        "description": value["description"],
        "metadata": value["metadata"],
        "created_at": _time(item.created_at),
        "updated_at": updated,
        "archived_at": updated if value["archived"] else None,  # archiving is the last change
    }


def render_memory(store: str, item: Item, full: bool) -> Json:
    """Render a memory."""
    value = item.value
    return {
        "id": value["id"],
        "type": "memory",
        "memory_store_id": store,
        "memory_version_id": value["version"],
        "path": f"/{'/'.join(path_of(item))}",
        **_content_fields(value["text"], full),
        "created_at": value.get("created") or _time(item.created_at),
        "updated_at": _time(item.updated_at),
    }


def render_version(store: str, item: Item, full: bool) -> Json:
    """Render a version of a memory."""
    value = item.value
    redacted = value.get("redacted_by")
    return {
        "id": item.key,
        "type": "memory_version",
        "memory_store_id": store,
        "memory_id": value["memory"],
        "operation": value["operation"],
        "path": None if value["path"] is None else f"/{'/'.join(value['path'])}",
        **_content_fields(value["text"], full),
        "created_at": _time(item.created_at),
        "created_by": _actor(value["by"]),
        "redacted_at": _time(item.updated_at) if redacted else None,
        "redacted_by": _actor(redacted),
    }


def _content_fields(text: str | None, full: bool) -> Json:
    if text is None:
        return dict.fromkeys(("content", "content_sha256", "content_size_bytes"))
    return {
        "content": text if full else None,
        "content_sha256": sha256(text),
        "content_size_bytes": len(text.encode()),
    }


def _actor(name: str | None) -> Json | None:
    return None if name is None else {"type": "api_actor", "api_key_id": name}


def sha256(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
