"""The values that parameters may have, as JSON schema for the OpenAPI document.

The library checks values; the request models check only types. This table repeats the library's
rules, so that a request that is valid according to the document is not rejected.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from retain.base import limits
from retain.base.canonical import VISIBLE
from retain.kinds import SEARCHABLE_KINDS
from retain.kinds.entries.entry import REVIEWS, Entry
from retain.kinds.facts.fact import (
    MAX_EVIDENCE,
    MAX_STATEMENT_CHARACTERS,
    MAX_SUBJECT_CHARACTERS,
)

Schema = dict[str, Any]

_CONTROL = "\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029\U0010ffff"
_KEY = f"[^{_CONTROL}]*[^\\s{_CONTROL}][^{_CONTROL}]*"
KEY: Schema = {"pattern": f"^{_KEY}$"}
"""A name, id or key: not blank, without control characters."""
NOT_BLANK: Schema = {"pattern": VISIBLE}
ETAG: Schema = {"pattern": r'^(W/)?"[0-9]{1,15}"$', "examples": ['"3"']}
_KEY_ITEM: Schema = {"type": "string", **KEY}
_KEYS: Schema = {"minItems": 1, "items": _KEY_ITEM}
_PREFIX: Schema = {"pattern": f"^({_KEY})?$"}
_SEQ: Schema = {"minimum": 1, "maximum": 2**53}
_COUNT: Schema = {"minimum": 0, "maximum": 2**53}
_AMOUNT: Schema = {"minimum": 0, "maximum": 1e15}
_HITS: Schema = {"minimum": 1, "maximum": 200}
TIME: Schema = {"pattern": "^(19[7-9][0-9]|[2-9][0-9]{3})-"}
"""A time since the year 1970."""
_ANY_YEAR: Schema = {"pattern": "^[0-9]{4}-"}
_SUBJECT: Schema = {**NOT_BLANK, "maxLength": MAX_SUBJECT_CHARACTERS}
_TIME_ITEM: Schema = {"type": "string", "format": "date-time", **TIME}
_NEW_PLACE: Schema = {"minItems": 1, "maxItems": 64, "items": _KEY_ITEM}
_IMPORTED_ENTRY: Schema = {
    "type": "object",
    "required": ["content"],
    "additionalProperties": False,
    "properties": {
        **{field.name: {} for field in fields(Entry)},
        "id": _KEY_ITEM,
        "kind": {"enum": ["journal", "core"]},
        "content": {"type": "string", **NOT_BLANK},
        "review": {"enum": list(REVIEWS)},
        "created_at": {"anyOf": [_TIME_ITEM, {"type": "null"}]},
        "updated_at": {"anyOf": [_TIME_ITEM, {"type": "null"}]},
    },
}
_LIMITS: dict[str, Schema] = {
    "against": _COUNT,
    "agents": _KEYS,
    "area": {"pattern": f"^(user|tenant|session:{_KEY})$"},
    "around": {"minimum": 0, "maximum": limits.MAX_PAGE},
    "author": KEY,
    "before": _SEQ,
    "board": KEY,
    "budget": _SEQ,
    "color": {"pattern": "^(#[0-9a-fA-F]{6})?$"},
    "cost": _AMOUNT,
    "context.message": {"type": ["string", "object", "null"]},
    "days": {"minimum": 0, "exclusiveMaximum": 14},
    "depth": {"minimum": 1, "maximum": 64},
    "ending": {"items": _KEY_ITEM},
    "entries.content": NOT_BLANK,
    "entries": {"minItems": 1, "items": _IMPORTED_ENTRY},
    "expected_last_seq": _COUNT,
    "evidence": {
        "maxItems": MAX_EVIDENCE,
        "items": {"type": "string", "pattern": f"^{_KEY}#[0-9]{{1,15}}$"},
    },
    "facts_add.confidence": {"minimum": 0, "maximum": 1},
    "fields": {"items": _KEY_ITEM},
    "header": NOT_BLANK,
    "icon": {"maxLength": 8},
    "id": KEY,
    "ids": _KEYS,
    "if_version": _COUNT,
    "items.value": {"type": "object"},
    "items_get.place": _NEW_PLACE,
    "items_put.place": _NEW_PLACE,
    "items_remove.place": _NEW_PLACE,
    "key": KEY,
    "kinds": {"minItems": 1, "items": {"type": "string", "enum": list(SEARCHABLE_KINDS)}},
    "knowledge_add.media": {"enum": ["text", "markdown", "html", None]},
    "knowledge_add.path": _PREFIX,
    "last": _COUNT,
    "latency_ms": _AMOUNT,
    "limit": {"minimum": 1, "maximum": limits.MAX_PAGE},
    "min_score": {"minimum": 0, "maximum": 1},
    "minutes": _AMOUNT,
    "name": KEY,
    "notes_changes.after": _COUNT,
    "notes.version": _COUNT,
    "interactions.model": KEY,
    "number": _SEQ,
    "others": {"items": _KEY_ITEM},
    "place": {"maxItems": 64, "items": _KEY_ITEM},
    "prefix": _PREFIX,
    "refs.query": NOT_BLANK,
    "refs_get.grep": {"minLength": 1},
    "refs_get.head": _SEQ,
    "refs_get.page": _SEQ,
    "refs_get.path": {"pattern": r"^\$"},
    "refs_get.tail": _SEQ,
    "refs_add.key": {"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$"},
    "role": {"enum": ["system", "user", "assistant", "tool"]},
    "route": KEY,
    "search.limit": _HITS,
    "entries_search.limit": _HITS,
    "facts.at": _ANY_YEAR,
    "facts.since": _ANY_YEAR,
    "facts.valid_from": _ANY_YEAR,
    "facts.valid_to": _ANY_YEAR,
    "facts.name": _SUBJECT,
    "facts.other": _SUBJECT,
    "facts_search.limit": _HITS,
    "knowledge_search.limit": _HITS,
    "refs_search.limit": _HITS,
    "seq": _SEQ,
    "session": KEY,
    "statement": {**NOT_BLANK, "maxLength": MAX_STATEMENT_CHARACTERS},
    "subject": _SUBJECT,
    "about": _SUBJECT,
    "object": {"maxLength": MAX_STATEMENT_CHARACTERS},
    "predicate": {"maxLength": MAX_SUBJECT_CHARACTERS},
    "summary": NOT_BLANK,
    "messages.tokens": _COUNT,
    "refs.tokens": {"minimum": 50, "maximum": 100_000},
    "tokens_in": _COUNT,
    "tokens_out": _COUNT,
    "tools": {"items": _KEY_ITEM},
    "ttl": {"exclusiveMinimum": 0},
    "type": KEY,
    "under": {"items": _KEY_ITEM},
    "version": _SEQ,
    "wait": {"minimum": 0, "maximum": 300},
}
"""Rules by parameter name. A name with the prefix of an endpoint or a kind applies only there."""


def parameter_limits(endpoint: str, kind: str, parameter: str) -> Schema:
    """Return the rules for a parameter of an endpoint, as part of its schema."""
    for name in (f"{endpoint}.{parameter}", f"{kind}.{parameter}", parameter):
        if name in _LIMITS:
            return _LIMITS[name]
    return {}
