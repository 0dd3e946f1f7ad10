"""The three tools with which a model stores, opens and finds references: what they ask for and what they answer."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from retain.errors import Invalid, NotFound
from retain.kinds.reference import Ref
from retain.texts.view import View
from retain.tool import Answer, Tool, schema

_KEY = {"type": "string", "description": "The key, as it stands in a placeholder [MemoryRef: key - description]."}
_STORE = schema(
    ("content", "description"),
    content={"type": "string", "description": "The whole text to keep."},
    description={"type": "string", "description": "One line that says what it is, for whoever decides whether to open it."},
    type={
        "type": "string",
        "description": "What it is: note, command_output, user_preference, file_content, or a word of your own.",
    },
)
_RETRIEVE = schema(
    ("memory_key",),
    memory_key=_KEY,
    page={"type": "integer", "minimum": 1, "description": "A page of the content, from 1. Without any of these: the first."},
    lines={
        "type": "array",
        "items": {"type": "integer", "minimum": 1},
        "minItems": 2,
        "maxItems": 2,
        "description": "The first and the last line to show, such as [1, 40].",
    },
    head={"type": "integer", "minimum": 1, "description": "The first so many lines."},
    tail={"type": "integer", "minimum": 1, "description": "The last so many lines."},
    pattern={"type": "string", "description": "A regular expression: the lines that match it, with their numbers."},
    path={"type": "string", "description": "A JSON path, such as $.items[0].name, for content that is JSON."},
)
_SEARCH = schema(
    ("query",),
    query={"type": "string", "description": "Words that are in the key, the description, the command or the beginning."},
    thread_id={"type": "string", "description": "Only what was stored in this session."},
)


def tools(
    add: Callable[..., Ref],
    get: Callable[..., View],
    search: Callable[..., Iterable[Ref]],
) -> list[Tool]:
    """The tools, over the verbs that do the work."""

    def store(content: str, description: str, type: str = "note") -> Answer:
        made = add(content, description, type=type)
        return {"success": True, "memory_key": made.key, "placeholder": made.placeholder}

    def retrieve(memory_key: str, **part: Any) -> Answer:
        if "pattern" in part:
            part["grep"] = part.pop("pattern")
        if "lines" in part:
            part["lines"] = _range(part["lines"])
        try:
            found = get(memory_key, **part)
        except NotFound as error:
            return {"error": str(error) if error.details.get("hint") else f"{error} search_memory finds keys by words."}
        answer = {"memory_key": memory_key, "content": found.text, "shown": found.what}
        return {**answer, "more": found.more} if found.more else answer

    def find(query: str, thread_id: str | None = None) -> Answer:
        return {"results": [_result(ref) for ref in search(query, session=thread_id)]}

    return [
        Tool("store_memory", "Keep a text outside the conversation, behind a key.", _STORE, store),
        Tool("retrieve_memory", "Open what a placeholder stands for, or the part of it you need.", _RETRIEVE, retrieve),
        Tool("search_memory", "Find the keys of stored texts and outputs by words.", _SEARCH, find),
    ]


def _result(ref: Ref) -> Answer:
    at = ref.created_at.isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"memory_key": ref.key, "summary": ref.summary, "type": ref.type, "tokens": ref.tokens, "created_at": at}


def close(key: str, known: Iterable[Ref]) -> str:
    """What who made a mistake in a key can try next; '' where nothing is like it."""
    alike = difflib.get_close_matches(key[:100], [ref.key for ref in known], 3, 0.5)
    return f"Did you mean {' or '.join(alike)}?" if alike else ""


def _range(given: Any) -> tuple[int, int]:
    if isinstance(given, Sequence) and len(given) == 2 and all(type(number) is int for number in given):
        return given[0], given[1]
    raise Invalid(field="lines", problem="must be the first and the last line, such as [1, 40]")
