"""What a person can put into a conversation over MCP: how references are opened (R6), and what is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from retain.base.errors import Invalid, NotFound
from retain.context.render import fence
from retain.kinds.entries.entry import list_item
from retain.kinds.refs import FRAGMENT
from retain.mcp.guest import Caller
from retain.messages import placeholder

PROMPTS = (
    Prompt(
        name="memory_references",
        title="How to open references",
        description="Explains the placeholders [MemoryRef: key - description] to a model, and the tools that open them.",
    ),
    Prompt(
        name="recall",
        title="Recall",
        description="What is remembered about a question, for a model to answer it with.",
        arguments=[
            PromptArgument(name="question", description="What you want to know.", required=True)
        ],
    ),
)
_MOST = 2_000


def given(guest: Caller, name: str, arguments: Mapping[str, str]) -> GetPromptResult:
    """A prompt, filled in."""
    match name:
        case "memory_references":
            return _said(FRAGMENT)
        case "recall":
            question = arguments.get("question", "").strip()
            if not question:
                raise Invalid(field="question", problem="must say what you want to know")
            guest.principal.require("read")
            return _said(f"{question}\n\n{_remembered(guest, question)}")
    raise NotFound(what="prompt", id=name[:200])


def _remembered(guest: Caller, question: str) -> str:
    scope = guest.scope()
    (search,) = scope.tools(["search_memory"])
    found = scope.services.observer.call_tool(search, scope.owner, {"query": question[:_MOST]})
    if "error" in found:
        raise Invalid(field="question", problem=found["error"])
    lines = [_told(one) for one in found["results"]]
    return fence("\n".join(lines)) if lines else "(Nothing is remembered about this.)"


def _told(one: Mapping[str, Any]) -> str:
    """Something that was found, as one item of a list that none of its own lines can leave."""
    day = one["created_at"].partition("T")[0]
    if "memory_key" in one:
        return f"- [{day}, stored] {placeholder.render(one['memory_key'], one['summary'])}"
    about = " ".join(str(one[part]) for part in ("kind", "title", "by") if one.get(part))
    return list_item(one["text"], f"[{day}, {placeholder.one_line(about)}] ")


def _said(text: str) -> GetPromptResult:
    return GetPromptResult(
        messages=[PromptMessage(role="user", content=TextContent(type="text", text=text))]
    )
