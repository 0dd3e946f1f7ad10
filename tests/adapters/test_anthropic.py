"""Anthropic's memory tool: every answer is the one that the SDK's own tool gives over a folder, and nothing is lost."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool
from hypothesis import given, settings
from hypothesis import strategies as st

from retain import Scope
from retain.adapters.anthropic import RetainMemoryTool

EXAMPLES = 1500 if os.environ.get("VENDORS") == "full" else 25

NAMES = [
    "a",
    "b",
    "c.md",
    "a/b",
    "a/c.md",
    "a/b/c",
    "a/b/c/d",
    "b/a",
    "c.md/a",
    "c.md/a/b",
    ".hidden",
    "b/.c",
    "ä",
    "c d",
    "B",
]
ODD = ["/memories", "/memories/", "/memoriesa", "/memories/../memories/a", "/memories/./b//a/", "/memories/a/../b", "/etc/x"]
ODD += ["/memories/../x", "/memories/..", "/memories/../memories", "a", "", "/memories/../../memories/a"]
PATHS = st.sampled_from([f"/memories/{name}" for name in NAMES] * 4 + ODD)
TEXTS = st.sampled_from(
    ["", "a", "a\nb\n", "a\r\nb\r\n", "ab\u2028a\u0085\n\n", "x" * 1024, "é🎈" * 600, "\n" * 30, "a\nb\nc\nd\ne\nf"]
)
PARTS = st.sampled_from(["a", "b", "a\n", "\n\n", "\r", "f", "", "nowhere", "\u2028"])
LINES = st.integers(-2, 6)


def of(command: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Commands of one kind."""
    return st.fixed_dictionaries({"command": st.just(command), **fields})


KINDS = {
    "create": of("create", path=PATHS, file_text=TEXTS),
    "view": of("view", path=PATHS, view_range=st.none() | st.lists(LINES, max_size=3)),
    "str_replace": of("str_replace", path=PATHS, old_str=PARTS, new_str=TEXTS),
    "insert": of("insert", path=PATHS, insert_line=LINES, insert_text=TEXTS),
    "delete": of("delete", path=PATHS),
    "rename": of("rename", old_path=PATHS, new_path=PATHS),
    "clear": of("clear"),
}
OFTEN = ["create"] * 6 + ["view", "str_replace", "insert", "rename"] * 4 + ["delete"] * 2 + ["clear"]
COMMANDS = st.sampled_from(OFTEN).flatmap(KINDS.__getitem__)
FIRST = [
    {"command": "create", "path": f"/memories/{path}", "file_text": text}
    for path, text in (("a/b/c", "a\nb\nc\n"), ("c.md", "ab\r\na\n"), ("b/.c", ""), ("a/c.md", "f"))
]
EVERYTHING = ["/memories", *(f"/memories/{name}" for name in ("a", "b", "a/b", "B", "ä", "c.md"))]


def told(tool: Any, command: dict[str, Any]) -> str:
    """What a model is told: the answer, or the error as the SDK's runner writes it, in which no path of a disk is."""
    try:
        return str(tool.clear_all_memory() if command["command"] == "clear" else tool.call(command))
    except ToolError as error:
        return f"error: {error.content}"
    except (OSError, ValueError) as error:
        return f"error: {error!r}"


def sized(answer: str) -> str:
    """An answer with the size of each folder as ours: a disk's depends on the file system, and on how many were in it."""
    if not answer.startswith("Here're the files"):
        return answer
    header, top, *rest = answer.split("\n")
    lines = [line if not line.endswith("/") else "4K" + line[line.index("\t") :] for line in rest]
    return "\n".join([header, "4K" + top[top.index("\t") :], *lines])


@settings(max_examples=EXAMPLES)
@given(commands=st.lists(COMMANDS, min_size=8, max_size=25))
def test_answers_are_those_of_the_sdks_own_tool(me: Scope, commands: list[dict[str, Any]]) -> None:
    """A9: the same commands in the same order, and the same answers, to the byte."""
    ours = RetainMemoryTool(me)
    ours.clear_all_memory()
    with tempfile.TemporaryDirectory() as folder:
        theirs = BetaLocalFilesystemMemoryTool(folder)
        for command in [*FIRST, *commands, *({"command": "view", "path": path} for path in EVERYTHING)]:
            assert told(ours, command) == sized(told(theirs, command)), command
