"""MCP prompts: how to open references, and memories about a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from memorist.base.errors import Invalid, NotFound
from memorist.content import placeholder
from memorist.context.render import fence
from memorist.kinds.entries.entry import list_item
from memorist.kinds.refs import FRAGMENT
from memorist.mcp.mcp_caller import McpCaller

PROMPTS = (
    Prompt(
        name="memory_references",
        title="How to open references",
        description="Explains the placeholders [MemoryRef: key - description] to a model, and the tools that open them.",
    ),
    Prompt(
        name="recall",
        title="Recall",
        description="Adds the stored memories about a question, so that the model can answer it.",
        arguments=[
            PromptArgument(name="question", description="What you want to know.", required=True)
        ],
    ),
)
MAX_QUESTION_CHARACTERS = 2_000


def fill(caller: McpCaller, name: str, arguments: Mapping[str, str]) -> GetPromptResult:
    """Return a prompt with its arguments filled in."""
    match name:
        case "memory_references":
            return _user_prompt(FRAGMENT)
        case "recall":
            question = arguments.get("question", "").strip()
            if not question:
                raise Invalid(field="question", problem="must not be blank")
            caller.principal.require("read")
            return _user_prompt(f"{question}\n\n{_recall(caller, question)}")
    raise NotFound(what="prompt", id=name[:200])


def _recall(caller: McpCaller, question: str) -> str:
    scope = caller.scope()
    (search,) = scope.tools(["search_memory"])
    answer = scope.services.observer.call_tool(
        search, scope.owner, {"query": question[:MAX_QUESTION_CHARACTERS]}
    )
    if "error" in answer:
        raise Invalid(field="question", problem=answer["error"])
    lines = [_render_result(result) for result in answer["results"]]
    return fence("\n".join(lines)) if lines else "(Nothing is remembered about this.)"


def _render_result(result: Mapping[str, Any]) -> str:
    """Render a search result as one list item; line breaks in its text do not end the item."""
    day = result["created_at"].partition("T")[0]
    if "memory_key" in result:
        return f"- [{day}, stored] {placeholder.render(result['memory_key'], result['summary'])}"
    about = " ".join(str(result[part]) for part in ("kind", "title", "by") if result.get(part))
    return list_item(result["text"], f"[{day}, {placeholder.one_line(about)}] ")


def _user_prompt(text: str) -> GetPromptResult:
    return GetPromptResult(
        messages=[PromptMessage(role="user", content=TextContent(type="text", text=text))]
    )
