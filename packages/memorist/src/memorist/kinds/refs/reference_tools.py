"""The tools `store_memory`, `retrieve_memory` and `search_memory`."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memorist.base import canonical, tokens
from memorist.base.errors import Invalid, NotFound
from memorist.content import placeholder
from memorist.kinds.refs.reference import Ref
from memorist.kinds.scope_search import SearchResults
from memorist.kinds.tool import Tool, ToolOutput, schema, string
from memorist.search import snippet, words
from memorist.search.query import Hit
from memorist.text.view import View

_KEY = string("The key from a placeholder [MemoryRef: key - description].")
_STORE = schema(
    ("content", "description"),
    content=string("The whole text to store."),
    description=string("A one-line description, to decide later whether to open it."),
    type=string("The type: note, command_output, user_preference, file_content, or another word."),
)
_RETRIEVE = schema(
    ("memory_key",),
    memory_key=_KEY,
    page={
        "type": "integer",
        "minimum": 1,
        "description": "The page number, starting at 1. Without any option: the first page.",
    },
    lines={
        "type": "array",
        "items": {"type": "integer", "minimum": 1},
        "minItems": 2,
        "maxItems": 2,
        "description": "The first and the last line to show, such as [1, 40].",
    },
    head={"type": "integer", "minimum": 1, "description": "The first N lines."},
    tail={"type": "integer", "minimum": 1, "description": "The last N lines."},
    pattern=string("A regular expression; returns the matching lines with their numbers."),
    path=string("A JSON path, such as $.items[0].name, for content that is JSON."),
)
_SEARCH = schema(
    ("query",),
    query=string("A question, or words to search for."),
    thread_id=string("Search only in this session."),
)
_TEXT = string()
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
    memory_key=_TEXT,
    summary=_TEXT,
    type=_TEXT,
    kind=_TEXT,
    text=_TEXT,
    title=_TEXT,
    by=_TEXT,
    thread_id=_TEXT,
    created_at=_TEXT,
    more=_TEXT,
    source=_TEXT,
)
_SEARCHED = schema(("results",), results={"type": "array", "items": _RESULT}, note=_TEXT)
_RESULT_LIMIT = 10
_ANSWER_TOKENS = 1_500
"""The approximate token limit of an output of search_memory."""
_TEXT_TOKENS = 120
"""The approximate token limit of one text in it."""


@dataclass(frozen=True)
class MemoryHits:
    """The hits of a search, with the references among them."""

    results: SearchResults
    refs: Mapping[str, Ref]  # by key, best first
    known: Mapping[str, str]  # placeholders, by key, that texts mention
    foreign: Mapping[
        tuple[str, str], str
    ]  # source of what a tool or an import wrote, by kind and id


def tools(
    add: Callable[[str, str, str], Ref],
    get: Callable[..., View],
    search: Callable[[str, str | None, int], MemoryHits],
    action: str,
) -> list[Tool]:
    """Return the tools, over the verbs that do the work; `action` is for the audit log."""

    def store(content: str, description: str, type: str = "note") -> ToolOutput:
        if not canonical.is_visible(content):
            raise Invalid(field="content", problem="must not be blank")
        ref = add(content, description, type)
        return {"success": True, "memory_key": ref.key, "placeholder": ref.placeholder}

    def retrieve(memory_key: str, **options: Any) -> ToolOutput:
        if "pattern" in options:
            options["grep"] = options.pop("pattern")
        if "lines" in options:
            options["lines"] = _line_range(options["lines"])
        try:
            view = get(memory_key, **options)
        except NotFound as error:
            if error.details.get("hint"):
                return {"error": str(error)}
            return {"error": f"{error} search_memory finds keys by words."}
        output = {"memory_key": memory_key, "content": view.text, "shown": view.what}
        if view.more:
            output["more"] = view.more
        return output

    def find(query: str, thread_id: str | None = None) -> ToolOutput:
        hits = search(query, thread_id, _RESULT_LIMIT)
        return _search_output(hits, words.query_words(query), thread_id)

    return [
        Tool(
            "store_memory",
            "Store a text outside the conversation, under a key.",
            _STORE,
            store,
            "Store a text",
            _STORED,
            action=action,
        ),
        Tool(
            "retrieve_memory",
            "Open the content of a placeholder, or the part of it that you need.",
            _RETRIEVE,
            retrieve,
            "Open a stored text",
            _OPENED,
            "read",
            aliases={"id": "memory_key"},
        ),
        Tool(
            "search_memory",
            "Search all of your memory by words and by meaning: messages, facts, notes, entries, state, "
            "items, documents, and stored texts and outputs, which have a memory_key that "
            "retrieve_memory opens.",
            _SEARCH,
            find,
            "Search memory",
            _SEARCHED,
            "read",
        ),
    ]


def _search_output(hits: MemoryHits, terms: Sequence[str], thread: str | None) -> ToolOutput:
    """Return the best hits, as many as the output has room for."""
    shown: list[ToolOutput] = []
    cost = 0
    for hit in [*hits.results.hits, *hits.results.facts]:
        if hit.kind == "refs":
            ref = hits.refs.get(hit.id)
            if ref is None:
                continue  # it was just removed
            result = _ref_result(ref)
        else:
            result = _text_result(hit, terms, hits.known)
        source = hits.foreign.get((hit.kind, hit.id), "tool" if hit.role == "tool" else "")
        if source:
            result["source"] = source
        cost += tokens.estimate(json.dumps(result, ensure_ascii=False))
        if cost > _ANSWER_TOKENS and shown:
            break
        shown.append(result)
    output: ToolOutput = {"results": shown}
    if not shown:
        hint = ", or without thread_id" if thread else ""
        output["note"] = f"Nothing was found: try other words{hint}."
    elif hits.results.legs["vectors"].startswith("failed"):
        output["note"] = (
            "This was found by its words alone: if it is not what you need, try other words."
        )
    return output


def _ref_result(ref: Ref) -> ToolOutput:
    return {
        "memory_key": ref.key,
        "summary": ref.summary,
        "type": ref.type,
        "tokens": ref.tokens,
        "created_at": _timestamp(ref.created_at),
    }


def _text_result(hit: Hit, terms: Sequence[str], known: Mapping[str, str]) -> ToolOutput:
    """Return the part of a text that matters, and how to read more of it if it is longer."""
    part = snippet.excerpt_tokens(hit.text, terms, _TEXT_TOKENS)
    result = {
        "kind": hit.kind,
        "text": placeholder.verify(part, known),
        "title": placeholder.neutralize(hit.title),
        "by": hit.author or (hit.role if hit.kind == "messages" else ""),
        "thread_id": hit.session,
        "created_at": _timestamp(hit.at),
        "replaced": placeholder.neutralize(hit.newer_statement),
        "more": _MORE_HINTS.get(hit.kind, "") if part != hit.text else "",
    }
    return {name: value for name, value in result.items() if value}


_MORE_HINTS = {
    "notes": "manage_long_term_memory reads the notes whole.",
    "messages": "search_memory with this thread_id and other words shows other parts.",
}


def _timestamp(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def similar_keys(key: str, refs: Iterable[Ref]) -> str:
    """Return a hint with keys that are like a mistaken one; empty if there is none."""
    keys = difflib.get_close_matches(key[:100], [ref.key for ref in refs], 3, 0.5)
    return f"Did you mean {' or '.join(keys)}?" if keys else ""


def _line_range(lines: Any) -> tuple[int, int]:
    is_pair = isinstance(lines, Sequence) and len(lines) == 2
    if is_pair and all(type(number) is int for number in lines):
        return lines[0], lines[1]
    raise Invalid(field="lines", problem="must be the first and the last line, such as [1, 40]")
