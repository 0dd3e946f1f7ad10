"""Anthropic's memory tool: every answer equals that of the SDK's tool on a folder."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import anyio
import httpx2
import pytest
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool
from hypothesis import given, settings
from hypothesis import strategies as st

from memorist import Memory, Scope
from memorist.base.errors import Invalid
from memorist_frameworks.anthropic import MemoristAsyncMemoryTool, MemoristMemoryTool
from memorist_frameworks.routes.anthropic_stores import Stores
from testkit.databases import SERVERS, one_engine

EXAMPLES = 400 if os.environ.get("VENDORS") == "full" else 25

Command = dict[str, Any]
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
ODD = [
    "/memories",
    "/memories/",
    "/memoriesa",
    "/memories/../memories/a",
    "/memories/./b//a/",
    "/memories/a/../b",
    "/etc/x",
]
ODD += [
    "/memories/../x",
    "/memories/..",
    "/memories/../memories",
    "a",
    "",
    "/memories/../../memories/a",
]
PATHS = st.sampled_from([f"/memories/{name}" for name in NAMES] * 4 + ODD)
TEXTS = st.sampled_from(
    [
        "",
        "a",
        "a\nb\n",
        "a\r\nb\r\n",
        "ab\u2028a\u0085\n\n",
        "x" * 1024,
        "é🎈" * 600,
        "\n" * 30,
        "a\nb\nc\nd\ne\nf",
    ]
)
PARTS = st.sampled_from(["a", "b", "a\n", "\n\n", "\r", "f", "", "nowhere", "\u2028"])
LINES = st.integers(-2, 6)


def of(command: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Command]:
    """Return commands of one kind."""
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
OFTEN = (
    ["create"] * 6 + ["view", "str_replace", "insert", "rename"] * 4 + ["delete"] * 2 + ["clear"]
)
COMMANDS = st.sampled_from(OFTEN).flatmap(KINDS.__getitem__)
FIRST = [
    {"command": "create", "path": f"/memories/{path}", "file_text": text}
    for path, text in (("a/b/c", "a\nb\nc\n"), ("c.md", "ab\r\na\n"), ("b/.c", ""), ("a/c.md", "f"))
]
EVERYTHING = ["/memories", *(f"/memories/{name}" for name in ("a", "b", "a/b", "B", "ä", "c.md"))]


def told(tool: Any, command: Command) -> str:
    """Return the answer or the error text that the SDK's runner sends, without paths of the disk."""
    try:
        return str(tool.clear_all_memory() if command["command"] == "clear" else tool.call(command))
    except ToolError as error:
        return f"error: {error.content}"
    except UnicodeEncodeError as error:
        return f"error: {error.reason}"
    except Exception as error:
        return f"error: {error!r}"


def sized(answer: str) -> str:
    """Return an answer with our folder sizes: those of a disk depend on the file system."""
    if not answer.startswith("Here're the files"):
        return answer
    header, top, *rest = answer.split("\n")
    lines = [line if not line.endswith("/") else "4K" + line[line.index("\t") :] for line in rest]
    return "\n".join([header, "4K" + top[top.index("\t") :], *lines])


STORIES = st.lists(COMMANDS, min_size=8, max_size=25)

LONG = ["x" * 255, "x" * 256, "é" * 127, "é" * 128, "🎈" * 64, "🎈" * 63 + "abc"]
WILD_NAMES = [
    *LONG,
    *("...", "..a", "~", "-rf", "*", "%2e%2e", "a\\b", "'\"`", "$HOME", "a ", " a", "a\u00a0b"),
    *("e\u0301", "é", "\u200b", "\u202ea", "\ufeff", "Ａ", "\ud800", "a\udbff", "memories"),
]
DEEP = ["d/" * count + "f" for count in (19, 20, 21, 62, 63)]
ODD_PATHS = st.one_of(
    PATHS,
    st.lists(st.sampled_from([*WILD_NAMES, "a", "b", "c.md", "..", ".", ""]), max_size=4).map(
        lambda names: "/memories/" + "/".join(names)
    ),
)
WILD_PATHS = ODD_PATHS | st.sampled_from([f"/memories/{path}" for path in DEEP])
NOT_TEXT = st.sampled_from([None, 0, 1.5, True, [], ["a"], {}, {"a": "b"}])
WILD_TEXTS = TEXTS | PARTS | NOT_TEXT | st.just("a\ud800")
WILD_NUMBERS: st.SearchStrategy[Any] = LINES | st.sampled_from(
    [None, "1", "", 1.0, 0.5, True, [1], {}, 10**30]
)
WILD_RANGES = (
    st.lists(WILD_NUMBERS, max_size=3)
    | NOT_TEXT
    | st.sampled_from(["ab", {"a": 1, "b": 2}, {"0": 1}])
)
FIELDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "create": {"path": WILD_PATHS, "file_text": WILD_TEXTS},
    "view": {"path": WILD_PATHS, "view_range": WILD_RANGES},
    "str_replace": {"path": WILD_PATHS, "old_str": WILD_TEXTS, "new_str": WILD_TEXTS},
    "insert": {"path": WILD_PATHS, "insert_line": WILD_NUMBERS, "insert_text": WILD_TEXTS},
    "delete": {"path": WILD_PATHS},
    # Not the deep ones: a folder with contents would come to have more levels than ours can.
    "rename": {"old_path": ODD_PATHS, "new_path": ODD_PATHS},
    "chmod": {"path": WILD_PATHS},
}


@st.composite
def wild_commands(draw: st.DrawFn) -> Command:
    """A command that may lack a field, or have one of another type."""
    kind = draw(st.sampled_from([*["create"] * 4, *FIELDS]))
    command = {"command": kind, **{name: draw(field) for name, field in FIELDS[kind].items()}}
    fault = draw(st.integers(0, 9))
    name = draw(st.sampled_from(sorted(FIELDS[kind])))
    if fault == 0:
        del command[name]
    elif fault == 1:
        command[name] = draw(NOT_TEXT)
    return command


def compare(ours: MemoristMemoryTool, folder: Path, commands: list[Command]) -> None:
    """Run the same commands on both and compare the answers byte for byte."""
    ours.clear_all_memory()
    with tempfile.TemporaryDirectory(dir=folder) as base:
        theirs = BetaLocalFilesystemMemoryTool(base)
        for command in [
            *FIRST,
            *commands,
            *({"command": "view", "path": path} for path in EVERYTHING),
        ]:
            assert told(ours, command) == sized(told(theirs, command)), command


@one_engine
@settings(max_examples=EXAMPLES)
@given(commands=STORIES)
def test_answers_equal_those_of_the_sdk_tool(
    me: Scope, tmp_path: Path, commands: list[Command]
) -> None:
    """For random commands in random order."""
    compare(MemoristMemoryTool(me), tmp_path, commands)


@pytest.mark.slow
@one_engine
@settings(max_examples=4 * EXAMPLES)
@given(commands=st.lists(wild_commands(), min_size=4, max_size=15))
def test_answers_to_wild_names_and_malformed_fields_equal_those_of_the_sdk_tool(
    me: Scope, tmp_path: Path, commands: list[Command]
) -> None:
    """Long, deep and odd names; missing fields, and fields of another type."""
    compare(MemoristMemoryTool(me), tmp_path, commands)


@one_engine
@pytest.mark.parametrize("folder", ["", "missing/"])
def test_renaming_a_missing_file_to_a_long_name(me: Scope, tmp_path: Path, folder: str) -> None:
    """That the file is missing is reported first."""
    rename = {"command": "rename", "old_path": "/memories/missing"}
    names = [f"{folder}{'x' * count}/{'x' * 256}" for count in (1, 255)]
    compare(
        MemoristMemoryTool(me), tmp_path, [{**rename, "new_path": f"/memories/{n}"} for n in names]
    )


@one_engine
@pytest.mark.parametrize("text", [None, 5, ["a"], {"a": 1}])
def test_create_without_text_is_an_error(me: Scope, tmp_path: Path, text: Any) -> None:
    """It used to report success. As with the SDK's tool, the file is there and empty."""
    command = {"command": "create", "path": "/memories/a/b", "file_text": text}
    if text is None:
        del command["file_text"]
    compare(
        MemoristMemoryTool(me), tmp_path, [command, {"command": "view", "path": "/memories/a/b"}]
    )
    answer = told(MemoristMemoryTool(me), {**command, "path": "/memories/new"})
    assert answer.startswith("error: AttributeError")


@pytest.mark.parametrize("engine", SERVERS, indirect=True)
@settings(max_examples=EXAMPLES // 5)
@given(commands=STORIES)
def test_answers_are_the_same_on_servers(
    me: Scope, tmp_path: Path, commands: list[Command]
) -> None:
    """On PostgreSQL and in a memory store."""
    store = Stores(me, "a test").create({"name": "Files"})["id"]
    compare(MemoristMemoryTool(me, store=store), tmp_path, commands)


@one_engine
def test_the_asynchronous_tool(me: Scope) -> None:
    """The same commands, awaited."""
    tool = MemoristAsyncMemoryTool(me, cache_control={"type": "ephemeral"})
    commands = [
        {"command": "create", "path": "/memories/a/b", "file_text": "one\n"},
        {"command": "insert", "path": "/memories/a/b", "insert_line": 1, "insert_text": "two"},
        {"command": "str_replace", "path": "/memories/a/b", "old_str": "one", "new_str": "1"},
        {"command": "rename", "old_path": "/memories/a/b", "new_path": "/memories/c"},
        {"command": "delete", "path": "/memories/a"},
        {"command": "view", "path": "/memories/c"},
    ]

    async def story() -> list[Any]:
        answers = [await tool.call(command) for command in commands]
        return [*answers, await tool.clear_all_memory()]

    *_, viewed, cleared = anyio.run(story)
    assert (
        viewed
        == "Here's the content of /memories/c with line numbers:\n     1\t1\n     2\ttwo\n     3\t"
    )
    assert cleared == "All memory cleared"
    assert tool.to_dict() == {
        "type": "memory_20250818",
        "name": "memory",
        "cache_control": {"type": "ephemeral"},
    }


@one_engine
@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            "/memories/a\nb",
            "Path /memories/a\nb cannot be used: "
            "a name in it has a control character (U+000A). Use another name.",
        ),
        (
            "/memories/ ",
            "Path /memories/  cannot be used: a name in it must not be blank. Use another name.",
        ),
        (
            "/memories" + "/a" * 65,
            f"Path /memories{'/a' * 65} has 65 levels; at most 64 are allowed. Use fewer folders.",
        ),
        (
            "/memories" + f"/{'é' * 120}" * 10,
            "The path is too long. Use shorter names or fewer folders.",
        ),
    ],
)
def test_names_that_a_disk_accepts_and_we_do_not(me: Scope, path: str, said: str) -> None:
    """They are rejected before anything is written, and are otherwise not found."""
    tool = MemoristMemoryTool(me)
    assert told(tool, {"command": "create", "path": path, "file_text": ""}) == f"error: {said}"
    tool.call({"command": "create", "path": "/memories/old", "file_text": ""})
    rename = {"command": "rename", "old_path": "/memories/old", "new_path": path}
    assert told(tool, rename) == f"error: {said}"
    assert told(tool, {"command": "view", "path": "/memories"}).count("\n") == 2
    assert "does not exist" in told(tool, {"command": "view", "path": path})


@one_engine
@pytest.mark.parametrize(
    "command",
    [
        {"command": "view"},
        {"command": "create", "file_text": ""},
        {"command": "str_replace", "old_str": "a", "new_str": "b"},
        {"command": "insert", "insert_line": 0, "insert_text": "a"},
        {"command": "delete"},
        {"command": "rename", "old_path": "/memories" + "/a" * 3000, "new_path": "/memories/b"},
    ],
    ids=lambda command: command["command"],
)
def test_a_path_that_no_file_system_accepts(me: Scope, tmp_path: Path, command: Command) -> None:
    """The exception is that of the SDK's tool, whose message names a path of the disk."""
    errors = []
    for tool in (MemoristMemoryTool(me), BetaLocalFilesystemMemoryTool(str(tmp_path))):
        with pytest.raises(OSError, match="File name too long") as caught:
            tool.call({"path": "/memories" + "/a" * 3000, **command})
        errors.append((type(caught.value), caught.value.errno))
    assert errors[0] == errors[1]


@one_engine
def test_a_file_that_is_too_large_is_refused_in_plain_words(me: Scope) -> None:
    command = {"command": "create", "path": "/memories/a", "file_text": "x" * (4 << 20)}
    answer = told(MemoristMemoryTool(me), command)
    assert answer.startswith("error: The file is too large: 4194315 bytes; at most 4194304")


@one_engine
def test_differences_to_a_disk(me: Scope, tmp_path: Path) -> None:
    """A name over 255 bytes or with NUL fails as on a disk; NUL in a text is stored."""
    ours, theirs = MemoristMemoryTool(me), BetaLocalFilesystemMemoryTool(str(tmp_path))
    for path in ("/memories/" + "é" * 128, "/memories/a\0b"):
        for command in (
            {"command": "view", "path": path},
            {"command": "create", "path": path, "file_text": ""},
        ):
            assert told(ours, command) == told(theirs, command)
    ours.call({"command": "create", "path": "/memories/nul", "file_text": "a\0b"})
    assert told(ours, {"command": "view", "path": "/memories/nul"}).endswith("a␀b")


@one_engine
def test_a_folder_is_moved_atomically(me: Scope) -> None:
    """If the path of one file would be too long, no file is moved."""
    tool = MemoristMemoryTool(me)
    for name in ("a", "b", "/".join("c" * 60)):
        tool.call({"command": "create", "path": f"/memories/old/{name}", "file_text": name})
    before = [item.raw for item in me.items.list()]
    move = {
        "command": "rename",
        "old_path": "/memories/old",
        "new_path": "/memories/new/" + "/".join("n" * 8),
    }
    assert "has 65 levels; at most 64 are allowed" in told(tool, move)
    assert [item.raw for item in me.items.list()] == before
    assert (
        told(tool, {**move, "new_path": "/memories/new"})
        == "Successfully renamed /memories/old to /memories/new"
    )


def test_concurrent_edits_are_all_stored(me: Scope, memory: Memory) -> None:
    """Concurrent edits of a file lose nothing; one of several creators of a path succeeds."""
    tool = MemoristMemoryTool(me)
    tool.call({"command": "create", "path": "/memories/log", "file_text": "0\n"})

    def edit(number: int) -> None:
        mine = MemoristMemoryTool(memory.scope(tenant="acme", user="ada", agent=f"agent {number}"))
        mine.call(
            {
                "command": "insert",
                "path": "/memories/log",
                "insert_line": 0,
                "insert_text": f"<{number}>",
            }
        )
        mine.call(
            {
                "command": "str_replace",
                "path": "/memories/log",
                "old_str": f"<{number}>",
                "new_str": f"({number})",
            }
        )

    def make(number: int) -> bool:
        path = "/memories/x" if number % 2 else "/memories/x/y"
        return told(tool, {"command": "create", "path": path, "file_text": ""}).startswith(
            "File created"
        )

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(edit, range(12)))
        created = list(threads.map(make, range(8)))
    lines = [
        line.partition("\t")[2]
        for line in told(tool, {"command": "view", "path": "/memories/log"}).split("\n")[1:]
    ]
    assert sorted(lines) == sorted([*(f"({number})" for number in range(12)), "0", ""])
    assert sum(created) == 1


@one_engine
def test_a_missing_store(memory: Memory, me: Scope) -> None:
    """Every command reports it, and touches nothing else at a place of that name."""
    theirs = Stores(memory.scope(tenant="acme", user="bob"), "a test").create({"name": "Files"})[
        "id"
    ]
    for store in ("memstore_none", theirs):
        me.items.put((store,), "a", {"text": "mine"})
        tool = MemoristMemoryTool(me, store=store)
        before = [item.raw for item in me.items.list()]
        for command in (
            {"command": "create", "path": "/memories/b", "file_text": ""},
            {"command": "view", "path": "/memories"},
            {"command": "view", "path": "/memories/a"},
            {"command": "str_replace", "path": "/memories/a", "old_str": "mine", "new_str": ""},
            {"command": "delete", "path": "/memories/a"},
            {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"},
            {"command": "clear"},
        ):
            assert f"no memory store '{store}'" in told(tool, command)
        assert [item.raw for item in me.items.list()] == before
    for store in ("m", "memory_tool", "memory_stores"):
        with pytest.raises(Invalid, match="memstore_"):
            MemoristMemoryTool(me, store=store)


def claude(script: Callable[[Any], Command]) -> anthropic.Anthropic:
    """Return the SDK's client with a model played by a function from the last message to one block."""
    tools = [{"type": "memory_20250818", "name": "memory"}]

    def answer(request: httpx2.Request) -> httpx2.Response:
        payload = json.loads(request.content)
        assert payload.get("tools", tools) == tools
        block = script(payload["messages"][-1]["content"])
        stop = "tool_use" if block["type"] == "tool_use" else "end_turn"
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [block],
        }
        return httpx2.Response(
            200,
            json={**message, "stop_reason": stop, "usage": {"input_tokens": 1, "output_tokens": 1}},
        )

    return anthropic.Anthropic(
        api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(answer))
    )


def test_an_agent_remembers_across_a_restart(open_memory: Callable[..., Memory]) -> None:
    """The SDK's loop with a scripted model reads after a restart what it wrote before."""
    path = "/memories/user.md"

    def use(**command: str) -> Command:
        return {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "memory",
            "input": {"path": path, **command},
        }

    def script(last: Any) -> Command:
        if isinstance(last, str):
            return use(command="view")
        result = last[0]
        if result.get("is_error"):
            assert (
                result["content"] == f"The path {path} does not exist. Please provide a valid path."
            )
            return use(command="create", file_text="The user is called Ada.")
        return {"type": "text", "text": result["content"]}

    def run() -> str:
        memory = open_memory()
        tool = MemoristMemoryTool(memory.scope(tenant="acme", user="ada", agent="claude"))
        messages: Any = [{"role": "user", "content": "Who am I?"}]
        runner = claude(script).beta.messages.tool_runner(
            model="m", max_tokens=99, messages=messages, tools=[tool]
        )
        block = runner.until_done().content[0]
        memory.close()
        assert block.type == "text"
        return block.text

    assert run() == f"File created successfully at: {path}"
    assert (
        run() == f"Here's the content of {path} with line numbers:\n     1\tThe user is called Ada."
    )
