"""The tools with which an agent stores memories; clients rely on their exact answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from retain.base.errors import Invalid, NotFound, TooLarge
from retain.kinds.entries.entry import (
    JOURNAL_WINDOW,
    MAIN_BOARD,
    MAX_CHARACTERS,
    Entry,
    EntryKind,
)
from retain.kinds.tool import Answer, Tool, schema

AddEntry = Callable[[str, EntryKind, str | None, bool], Entry]

JOURNAL_TOOL = (
    "Write something into your private journal that matters for the coming days: what you are "
    "doing, what you noticed, what to do next. It is in your prompt for "
    f"{JOURNAL_WINDOW.days} days."
)
CORE_TOOL = (
    "Store something permanently in your private core memory: lasting facts, preferences, lessons, "
    "promises. It is part of all your prompts from now on, so keep it short."
)
BOARD_TOOL = (
    "Write a line on a whiteboard that you share with other agents. They will see it with your "
    "name."
)
CORE_NOTE = "This is stored permanently and is part of all your prompts."
PENDING_NOTE = (
    "This waits for a review. It is not part of any prompt until a person accepts it. Saving it "
    "again changes nothing."
)
REFUSED_NOTE = (
    "A person refused this before: it is not part of your prompts. Saving it again changes nothing."
)
_REVIEW_NOTES = {"accepted": CORE_NOTE, "pending": PENDING_NOTE, "refused": REFUSED_NOTE}
_NO_AGENT = (
    "No agent is set, so there is no memory to save to. Name one (X-Retain-Agent, or --agent)."
)


def tools(add: AddEntry | None, boards: Callable[[], Iterable[str]]) -> list[Tool]:
    """Return the tools.

    add:    adds an entry; None if there is no agent
    boards: returns the boards that the agent shares
    """

    def save_to_journal(content: str) -> Answer:
        return _save(add, content, "journal", None)

    def save_to_core(content: str, about: str = "user") -> Answer:
        return _save(add, content, "core", None, about_self=about == "self")

    def save_to_whiteboard(content: str, board: str = MAIN_BOARD) -> Answer:
        try:
            return _save(add, content, "whiteboard", board)
        except NotFound:
            shared = ", ".join(boards()) or "none"
            problem = f"You do not share a board {board!r}. The boards that you share: {shared}."
            return {"error": problem}

    text = {
        "type": "string",
        "description": f"What to remember, at most {MAX_CHARACTERS} characters.",
    }
    board_name = {
        "type": "string",
        "description": f"The name of the board. Default: `{MAIN_BOARD}`.",
    }
    about = {
        "type": "string",
        "enum": ["user", "self"],
        "default": "user",
        "description": "`user`: only in conversations with this user. `self`: about you, with all "
        "users, once a person has accepted it.",
    }
    content_only = schema(("content",), content=text)
    content_and_about = schema(("content",), content=text, about=about)
    content_and_board = schema(("content",), content=text, board=board_name)
    return [
        Tool(
            "save_to_journal",
            JOURNAL_TOOL,
            content_only,
            save_to_journal,
            "Save to journal",
            _answer_schema("expires_around"),
            action="entries_add",
        ),
        Tool(
            "save_to_core",
            CORE_TOOL,
            content_and_about,
            save_to_core,
            "Save to core memory",
            _answer_schema("note"),
            action="entries_add",
        ),
        Tool(
            "save_to_whiteboard",
            BOARD_TOOL,
            content_and_board,
            save_to_whiteboard,
            "Save to whiteboard",
            _answer_schema("board"),
            action="entries_add",
        ),
    ]


def _answer_schema(extra: str) -> dict[str, Any]:
    """Return the schema of an answer; any answer may have a note about the review."""
    required: dict[str, Mapping[str, Any]] = {
        "success": {"const": True},
        "memory_type": {"type": "string"},
        "content": {"type": "string"},
        extra: {"type": "string"},
    }
    return schema(tuple(required), **{**required, "note": {"type": "string"}})


def _save(
    add: AddEntry | None,
    content: str,
    kind: EntryKind,
    board: str | None,
    *,
    about_self: bool = False,
) -> Answer:
    """Add an entry and return the answer of the tool."""
    if add is None:
        return {"error": _NO_AGENT}
    try:
        entry = add(content, kind, board, about_self)
    except TooLarge as error:
        return {
            "error": f"The content has {error.size} characters; at most {error.limit} are allowed. "
            "Shorten or split it."
        }
    except Invalid as error:
        return {"error": f"The {error.field} {error.problem}."}
    answer: Answer = {"success": True, "memory_type": entry.kind, "content": entry.content}
    if kind == "journal":
        answer["expires_around"] = (entry.created_at + JOURNAL_WINDOW).date().isoformat()
    if kind == "whiteboard":
        answer["board"] = entry.board
    if kind == "core" or entry.review != "accepted":
        answer["note"] = _REVIEW_NOTES[entry.review]
    return answer
