"""The three tools with which a model stores and opens references, and searches its memory: what they ask and answer."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retain.base import tokens
from retain.base.errors import Invalid, NotFound
from retain.kinds.finding import SearchResults
from retain.kinds.refs.reference import Ref
from retain.kinds.tool import Answer, Tool, schema
from retain.messages import placeholder
from retain.search import snippet, words
from retain.search.query import Hit
from retain.text.view import View

_KEY = {
    "type": "string",
    "description": "The key, as it stands in a placeholder [MemoryRef: key - description].",
}
_STORE = schema(
    ("content", "description"),
    content={"type": "string", "description": "The whole text to keep."},
    description={
        "type": "string",
        "description": "One line that says what it is, for whoever decides whether to open it.",
    },
    type={
        "type": "string",
        "description": "What it is: note, command_output, user_preference, file_content, or a word of your own.",
    },
)
_RETRIEVE = schema(
    ("memory_key",),
    memory_key=_KEY,
    page={
        "type": "integer",
        "minimum": 1,
        "description": "A page of the content, from 1. Without any of these: the first.",
    },
    lines={
        "type": "array",
        "items": {"type": "integer", "minimum": 1},
        "minItems": 2,
        "maxItems": 2,
        "description": "The first and the last line to show, such as [1, 40].",
    },
    head={"type": "integer", "minimum": 1, "description": "The first so many lines."},
    tail={"type": "integer", "minimum": 1, "description": "The last so many lines."},
    pattern={
        "type": "string",
        "description": "A regular expression: the lines that match it, with their numbers.",
    },
    path={
        "type": "string",
        "description": "A JSON path, such as $.items[0].name, for content that is JSON.",
    },
)
_SEARCH = schema(
    ("query",),
    query={"type": "string", "description": "A question, or words that are in what you look for."},
    thread_id={"type": "string", "description": "Only what was said or stored in this session."},
)
_TEXT = {"type": "string"}
_STORED = schema(
    ("success", "memory_key", "placeholder"),
    success={"const": True},
    memory_key=_TEXT,
    placeholder=_TEXT,
)
_OPENED = schema(
    ("memory_key", "content", "shown"), memory_key=_TEXT, content=_TEXT, shown=_TEXT, more=_TEXT
)
_RESULT = schema(
    (),
    tokens={"type": "integer"},
    **dict.fromkeys(
        (
            "memory_key",
            "summary",
            "type",
            "kind",
            "text",
            "title",
            "by",
            "thread_id",
            "created_at",
            "more",
            "source",
        ),
        _TEXT,
    ),
)
_SEARCHED = schema(("results",), results={"type": "array", "items": _RESULT}, note=_TEXT)
_ABOUT_STORE = "Keep a text outside the conversation, behind a key."
_ABOUT_RETRIEVE = "Open what a placeholder stands for, or the part of it you need."
_ABOUT_SEARCH = """Search all of your memory by words and by meaning: what was said, notes, entries, state, documents, and \
stored texts and outputs, which have a memory_key that retrieve_memory opens."""
_RESULTS = 10
_TOKENS, _TEXT_TOKENS = 1_500, 120
"""The most that an answer of search_memory costs, about, and one text in it."""
_MORE = {
    "notes": "manage_long_term_memory reads the notes whole.",
    "messages": "search_memory with this thread_id and other words shows other parts.",
}


@dataclass(frozen=True)
class Results:
    """What a search found; the references among it by their keys, best first, and placeholders that texts in it mention.

    `foreign` is the source of what is no person's and no agent's own words, by kind and id.
    """

    found: SearchResults
    refs: Mapping[str, Ref]
    known: Mapping[str, str]
    foreign: Mapping[tuple[str, str], str]


def tools(
    add: Callable[..., Ref],
    get: Callable[..., View],
    search: Callable[[str, str | None, int], Results],
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
            return {
                "error": str(error)
                if error.details.get("hint")
                else f"{error} search_memory finds keys by words."
            }
        answer = {"memory_key": memory_key, "content": found.text, "shown": found.what}
        return {**answer, "more": found.more} if found.more else answer

    def find(query: str, thread_id: str | None = None) -> Answer:
        return _answer(search(query, thread_id, _RESULTS), words.query_words(query), thread_id)

    return [
        Tool("store_memory", _ABOUT_STORE, _STORE, store, "Store a text", _STORED),
        Tool(
            "retrieve_memory",
            _ABOUT_RETRIEVE,
            _RETRIEVE,
            retrieve,
            "Open a stored text",
            _OPENED,
            "read",
        ),
        Tool("search_memory", _ABOUT_SEARCH, _SEARCH, find, "Search memory", _SEARCHED, "read"),
    ]


def _answer(results: Results, looked: Sequence[str], thread: str | None) -> Answer:
    """What was found, best first, as much of it as an answer may cost."""
    shown: list[Answer] = []
    spent = 0
    for hit in results.found:
        ref = results.refs.get(hit.id) if hit.kind == "refs" else None
        if ref is None and hit.kind == "refs":
            continue  # it was removed just now
        result = _text(hit, looked, results.known) if ref is None else _reference(ref)
        if source := results.foreign.get((hit.kind, hit.id), "tool" if hit.role == "tool" else ""):
            result["source"] = source
        spent += tokens.estimate(json.dumps(result, ensure_ascii=False))
        if spent > _TOKENS and shown:
            break
        shown.append(result)
    answer: Answer = {"results": shown}
    if not shown:
        answer["note"] = (
            f"Nothing was found: try other words{', or without thread_id' if thread else ''}."
        )
    elif results.found.legs["vectors"].startswith("failed"):
        answer["note"] = (
            "This was found by its words alone: if it is not what you need, try other words."
        )
    return answer


def _reference(ref: Ref) -> Answer:
    at = _moment(ref.created_at)
    return {
        "memory_key": ref.key,
        "summary": ref.summary,
        "type": ref.type,
        "tokens": ref.tokens,
        "created_at": at,
    }


def _text(hit: Hit, looked: Sequence[str], known: Mapping[str, str]) -> Answer:
    """Something that is no reference: the part of it that matters, whose it is, and how to read more of a longer one."""
    part = snippet.excerpt_tokens(hit.text, looked, _TEXT_TOKENS)
    told = {
        "kind": hit.kind,
        "text": placeholder.verify(part, known),
        "title": placeholder.neutralize(hit.title),
        "by": hit.author or (hit.role if hit.kind == "messages" else ""),
        "thread_id": hit.session,
        "created_at": _moment(hit.at),
        "more": _MORE.get(hit.kind, "") if part != hit.text else "",
    }
    return {name: value for name, value in told.items() if value}


def _moment(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def close(key: str, known: Iterable[Ref]) -> str:
    """What who made a mistake in a key can try next; '' where nothing is like it."""
    alike = difflib.get_close_matches(key[:100], [ref.key for ref in known], 3, 0.5)
    return f"Did you mean {' or '.join(alike)}?" if alike else ""


def _range(given: Any) -> tuple[int, int]:
    if (
        isinstance(given, Sequence)
        and len(given) == 2
        and all(type(number) is int for number in given)
    ):
        return given[0], given[1]
    raise Invalid(field="lines", problem="must be the first and the last line, such as [1, 40]")
