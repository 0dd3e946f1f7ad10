"""The tools with which an agent stores memories; clients rely on their exact outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from memorist.base.errors import Invalid, NotFound, TooLarge
from memorist.kinds.entries.entry import (
    JOURNAL_WINDOW,
    MAIN_BOARD,
    MAX_CHARACTERS,
    Entry,
    EntryKind,
)
from memorist.kinds.tool import Tool, ToolOutput, schema, string

AddEntry = Callable[[str, EntryKind, str | None, bool], Entry]

JOURNAL_TOOL = (
    "Write into your private journal what matters for the coming days: what you are doing, what you "
    "noticed, what to do next. Entries are temporary: they leave your prompt after "
    f"{JOURNAL_WINDOW.days} days."
)
CORE_TOOL = (
    "Add to your core identity, which is permanent and part of all your prompts: who you are, lasting "
    "facts, preferences, lessons, promises. Use sparingly and keep it short; use save_to_journal for "
    "what matters only for some days."
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
    "No agent is set, so there is no memory to save to. Name one (X-Memorist-Agent, or --agent)."
)


def tools(add: AddEntry | None, boards: Callable[[], Iterable[str]], action: str) -> list[Tool]:
    """Return the tools.

    add:    adds an entry; None if there is no agent
    boards: returns the boards that the agent shares
    action: the name of a call in the audit log
    """

    def save_to_journal(content: str) -> ToolOutput:
        return _save(add, content, "journal", None)

    def save_to_core(content: str, about: str = "user") -> ToolOutput:
        return _save(add, content, "core", None, about_self=about == "self")

    def save_to_whiteboard(content: str, board: str = MAIN_BOARD) -> ToolOutput:
        try:
            return _save(add, content, "whiteboard", board)
        except NotFound:
            shared = ", ".join(boards()) or "none"
            problem = f"You do not share a board {board!r}. The boards that you share: {shared}."
            return {"error": problem}

    text = string(f"What to remember, at most {MAX_CHARACTERS} characters.")
    board_name = string(f"The name of the board. Default: `{MAIN_BOARD}`.")
    about = string(
        "`user`: only in conversations with this user. `self`: about you, with all "
        "users, once a person has accepted it.",
        enum=["user", "self"],
        default="user",
    )
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
            _output_schema("expires_around"),
            action=action,
        ),
        Tool(
            "save_to_core",
            CORE_TOOL,
            content_and_about,
            save_to_core,
            "Save to core memory",
            _output_schema("note"),
            action=action,
        ),
        Tool(
            "save_to_whiteboard",
            BOARD_TOOL,
            content_and_board,
            save_to_whiteboard,
            "Save to whiteboard",
            _output_schema("board"),
            action=action,
        ),
    ]


def _output_schema(extra: str) -> dict[str, Any]:
    """Return the schema of an output; any output may have a note about the review."""
    required: dict[str, Mapping[str, Any]] = {
        "success": {"const": True},
        "memory_type": string(),
        "content": string(),
        extra: string(),
    }
    return schema(tuple(required), **{**required, "note": string()})


def _save(
    add: AddEntry | None,
    content: str,
    kind: EntryKind,
    board: str | None,
    *,
    about_self: bool = False,
) -> ToolOutput:
    """Add an entry and return the output of the tool."""
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
    output: ToolOutput = {"success": True, "memory_type": entry.kind, "content": entry.content}
    if kind == "journal":
        output["expires_around"] = (entry.created_at + JOURNAL_WINDOW).date().isoformat()
    if kind == "whiteboard":
        output["board"] = entry.board
    if kind == "core" or entry.review != "accepted":
        output["note"] = _REVIEW_NOTES[entry.review]
    return output
