"""The tools with which an agent remembers something, and what they answer: to the letter what their callers rely on (J3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from retain.base.errors import Invalid, NotFound, TooLarge
from retain.kinds.entries.entry import JOURNAL_WINDOW, MAIN_BOARD, MOST_CHARACTERS, Entry, EntryKind
from retain.kinds.tool import Answer, Tool, schema

JOURNAL_TOOL = f"""Write something into your private journal that matters for the coming days: what you are doing, what you \
noticed, what to do next. It fades from your prompt after {JOURNAL_WINDOW.days} days."""
CORE_TOOL = """Keep something for good in your private core memory: lasting facts, preferences, lessons, promises. It is in \
every prompt of yours from now on, so keep it short."""
BOARD_TOOL = """Write a line on a whiteboard that you share with other agents. They will see it with your name."""
CORE_NOTE = "This is kept for good and is part of every prompt of yours."
WAITS_NOTE = "This waits until a person accepts it, and is in no prompt before that. Saving it again changes nothing."
REFUSED_NOTE = "A person has refused this before: it is in no prompt of yours. Saving it again changes nothing."
_NOBODY = (
    "There is no agent here whose memory this could be: name one (X-Retain-Agent, or --agent)."
)


def tools(
    add: Callable[[str, EntryKind, str | None], Entry] | None, boards: Callable[[], Iterable[str]]
) -> list[Tool]:
    """The tools, over what keeps an entry, None where there is no agent; and the boards that the agent shares."""

    def save(content: str, kind: EntryKind, board: str | None = None) -> Answer:
        return _answer(add, content, kind, board)

    def on_board(content: str, board: str = MAIN_BOARD) -> Answer:
        try:
            return save(content, "whiteboard", board)
        except NotFound:
            shared = ", ".join(boards()) or "none"
            return {
                "error": f"You do not share a board {board!r}. The boards that you share: {shared}."
            }

    text = {
        "type": "string",
        "description": f"What to remember, at most {MOST_CHARACTERS} characters.",
    }
    name = {"type": "string", "description": f"Which board; `{MAIN_BOARD}` where it is left out."}
    one, two = schema(("content",), content=text), schema(("content",), content=text, board=name)
    journal, core = (
        (lambda content: save(content, "journal")),
        (lambda content: save(content, "core")),
    )
    return [
        Tool(
            "save_to_journal",
            JOURNAL_TOOL,
            one,
            journal,
            "Save to journal",
            _kept("expires_around"),
        ),
        Tool("save_to_core", CORE_TOOL, one, core, "Save to core memory", _kept("note")),
        Tool("save_to_whiteboard", BOARD_TOOL, two, on_board, "Save to whiteboard", _kept("board")),
    ]


def _kept(more: str) -> dict[str, Any]:
    """The schema of an answer; the note is in each that waits for a review."""
    said: dict[str, Mapping[str, Any]] = {
        "success": {"const": True},
        "memory_type": {"type": "string"},
        "content": {"type": "string"},
    }
    return schema((*said, more), **said, **{name: {"type": "string"} for name in (more, "note")})


def _answer(
    add: Callable[[str, EntryKind, str | None], Entry] | None,
    content: str,
    kind: EntryKind,
    board: str | None,
) -> Answer:
    """Keep something, and say what became of it."""
    if add is None:
        return {"error": _NOBODY}
    try:
        saved = add(content, kind, board)
    except TooLarge as error:
        return {
            "error": f"The content has {error.size} characters and may have {error.limit}: shorten or split it."
        }
    except Invalid as error:
        return {"error": f"The {error.field} {error.problem}."}
    answer: Answer = {"success": True, "memory_type": saved.kind, "content": saved.content}
    if kind == "journal":
        answer["expires_around"] = (saved.created_at + JOURNAL_WINDOW).date().isoformat()
    if kind == "whiteboard":
        answer["board"] = saved.board
    if kind == "core" or saved.review != "accepted":
        answer["note"] = {"accepted": CORE_NOTE, "pending": WAITS_NOTE, "refused": REFUSED_NOTE}[
            saved.review
        ]
    return answer
