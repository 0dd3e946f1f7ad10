"""The same calls through every interface return the same results as through the library."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from retain import Memory
from retain.api.endpoints import ENDPOINTS, FOR_PEOPLE, SCOPE_ENDPOINTS, Endpoint
from retain.api.rendering import as_json
from retain.auth.principal import PERMISSIONS, Principal
from retain.cli import main
from retain.kinds import KINDS
from retain.mcp.endpoint_tools import EndpointTools
from retain.mcp.mcp_caller import McpCaller
from retain.memory import Scope
from retain.server.app import create_app
from tests.calling import HERE, URL
from tests.conftest import SETTINGS
from tests.serving import serving
from tests.typescript import CLIENT, node

Call = Callable[[Endpoint, dict[str, Any]], Any]


@dataclass(frozen=True)
class Step:
    """One call: an endpoint, its arguments, and the name under which later steps know its id."""

    endpoint: str
    given: Mapping[str, Any]
    called: str = ""


def step(endpoint: str, called: str = "", **given: Any) -> Step:
    return Step(endpoint, given, called)


SAID = [
    {"role": "user", "content": "Where do we go? é😀"},
    {
        "role": "assistant",
        "content": {"text": "To Lisbon.", "parts": [{"type": "text", "text": "By train."}]},
        "cost": 0.5,
    },
    {"role": "user", "content": "When?", "created_at": "2026-01-31T12:00:00Z"},
]
LONG = "a line of output that goes on for a while\n" * 200
STORY = (
    step("agents_add", name="scout", prompt="You scout ahead.", tools=["search_memory"], icon="🧭"),
    step("agents_get", name="scout"),
    step("agents_edit", name="scout", model="gpt-5-mini", if_version=1),
    step("agents_list", limit=10),
    step("sessions_add", id="a/trip", label="A trip", attributes={"pinned": True, "n": 1.5}),
    step("sessions_get", id="a/trip"),
    step("sessions_edit", id="a/trip", label="Lisbon é"),
    step("sessions_resume", stored_id="a/trip"),
    step("sessions_active"),
    step("sessions_add", id="other"),
    step("sessions_activate", id="a/trip"),
    step("sessions_list", limit=1),
    step("sessions_list", search="lisbon"),
    step(
        "messages_append",
        session="a/trip",
        role="user",
        content="Hello",
        key="k",
        author="Ada",
        tokens_in=3,
    ),
    step(
        "messages_append",
        session="a/trip",
        role="user",
        content="Hello",
        key="k",
        author="Ada",
        tokens_in=3,
    ),
    step(
        "messages_append",
        session="a/trip",
        role="assistant",
        content={"text": "Hi", "parts": []},
        expected_last_seq=1,
    ),
    step("messages_extend", session="a/trip", messages=SAID, key="k2"),
    step("messages_window", session="a/trip", last=2, turns_only=True),
    step("messages_window", session="a/trip", tokens=30),
    step("messages_window", session="a/trip", last=2, before=3),
    step("messages_list", session="a/trip", limit=2),
    step("messages_get", session="a/trip", seq=4),
    step(
        "messages_extend",
        session="a/trip",
        messages=[{"role": "user", "content": f"Plan {n} it is."} for n in range(14)],
    ),
    step("summaries_fold", session="a/trip", force=True),
    step("summaries_get", session="a/trip"),
    step("summaries_list", session="a/trip"),
    step("summaries_expand", session="a/trip", limit=2),
    step(
        "facts_add",
        "fact",
        statement="Clara lives in Lisbon.",
        subject="Clara",
        predicate="lives in",
        object="Lisbon",
        topic="people",
        valid_from="2020-01-01T00:00:00Z",
        evidence=["a/trip#2"],
        confidence=0.9,
    ),
    step("facts_list", about="Clara", topic="people", limit=1),
    step("facts_get", id="$fact"),
    step(
        "facts_correct",
        "corrected",
        id="$fact",
        statement="Clara lives in Porto.",
        since="2026-01-01T00:00:00Z",
        evidence=["a/trip#3"],
    ),
    step("facts_list", at="2025-01-01T00:00:00Z"),
    step("facts_list", include_replaced=True),
    step("facts_list", status="replaced"),
    step("facts_history", id="$fact"),
    step("facts_search", query="where does Clara live", limit=3),
    step("facts_profile"),
    step("facts_review"),
    step("facts_timeline", about="Clara", limit=2),
    step("facts_entities"),
    step("facts_merge", name="Clara", other="the user's sister"),
    step("facts_separate", name="Clara", other="the user's sister"),
    step("facts_undo", id="$corrected"),
    step("facts_retract", id="$fact"),
    step("facts_undo", id="$fact"),
    step("facts_retract", id="$fact"),
    step("facts_add", "forgotten", statement="Ada likes trains."),
    step("facts_forget", id="$forgotten"),
    step("facts_add", "confirmed", statement="Ada has a sister."),
    step("facts_confirm", id="$confirmed"),
    step("notes_read"),
    step("notes_overwrite", text="# Likes\n- tea\n\n# Other\nx"),
    step("notes_append", text="- more é", if_version=1),
    step("notes_prepend", text="Speak German."),
    step("notes_replace_section", header="Likes", text="- coffee"),
    step("notes_delete_section", header="# Other"),
    step("notes_history", limit=2),
    step("notes_diff", version=4, against=1),
    step("notes_changes", after=4),
    step("notes_clear"),
    step("notes_restore", version=2),
    step("entries_share", board="trips", agents=["scout", "planner"]),
    step("entries_boards"),
    step("entries_add", "entry", content="Ada prefers trains.", kind="core"),
    step("entries_add", content="On the board.", kind="whiteboard", board="trips"),
    step("entries_get", id="$entry"),
    step("entries_edit", id="$entry", content="Ada prefers night trains.", if_version=1),
    step("entries_list", kind="core", search="night"),
    step("entries_list", since="2020-01-01T00:00:00Z", expired=False, limit=1),
    step("entries_search", query="what does Ada prefer", limit=3),
    step("entries_counts"),
    step("entries_prompt"),
    step("entries_whiteboard"),
    step("entries_add_many", entries=[{"content": "Ada goes to the port in Porto."}]),
    *(
        step("entries_add", content=f"Ada goes to the {place} in Porto.")
        for place in ("inn", "port", "inn")
    ),
    step("entries_export"),
    step("entries_remove", id="$entry"),
    step(
        "entries_add_many",
        "waits",
        entries=[{"content": "Always obey.", "kind": "core", "review": "pending"}],
    ),
    step("entries_queue"),
    step("entries_list", review="pending"),
    step("entries_accept", id="$waits", if_version=1),
    step("entries_refuse", id="$waits"),
    step("entries_queue", review="refused", limit=5),
    step("entries_add", "gone", content="Soon gone."),
    step("entries_remove_many", ids=["$gone", "never there"]),
    step("consolidations_propose", "one", days=0.0),
    step("consolidations_list", status="proposed"),
    step("consolidations_get", id="$one"),
    step("consolidations_accept", id="$one"),
    step("consolidations_undo", id="$one"),
    *(
        step("entries_add", content=f"Bob sails to the {place} of Rome.")
        for place in ("port", "inn") * 2
    ),
    step("consolidations_propose", "two", days=0.0),
    step("consolidations_refuse", id="$two"),
    step(
        "refs_add",
        content="one\ntwo\nthree\n",
        description="counting",
        key="numbers",
        session="a/trip",
        metadata={"a": 1},
    ),
    step("refs_capture", output="small", source="make"),
    step("refs_capture", output=LONG, source="make all", status="Success"),
    step("refs_get", key="numbers", lines=(2, 3)),
    step("refs_get", key="numbers", grep="t.*"),
    step("refs_content", key="numbers"),
    step("refs_info", key="numbers"),
    step("refs_edit", key="numbers", summary="counted", is_active=False),
    step("refs_list", session="a/trip", active=False),
    step("refs_search", query="counted", limit=2),
    step("refs_remove", key="numbers"),
    step("state_set", key="a/theme", value={"dark": True, "n": [1, None, "é"]}, ttl=3600.5),
    step("state_set", key="plain", value=None, area="tenant", if_version=0),
    step("state_get", key="a/theme"),
    step("state_list", prefix="a", limit=5),
    step("state_remove", key="a/theme", if_version=1),
    step(
        "items_put",
        place=["memories", "ada"],
        key="a/tea",
        value={"text": "likes green tea é", "n": 1},
        ttl=3600.5,
    ),
    step(
        "items_put",
        place=["memories"],
        key="k",
        value={"n": 2},
        fields=["text", "tags[*]"],
        if_version=0,
    ),
    step("items_get", place=["memories", "ada"], key="a/tea"),
    step("items_list", place=["memories"], where={"n": {"$gte": 2}}, exact=True, limit=5),
    step("items_search", query="green tea", place=["memories"], where={"n": 1}, limit=5),
    step("items_places", under=["memories"], depth=2, limit=5),
    step("items_remove", place=["memories", "ada"], key="a/tea", if_version=1),
    step(
        "knowledge_add", "document", title="Handbook", text="# Trams\n\nLine 28 goes up the hill. é"
    ),
    step("knowledge_get", id="$document"),
    step("knowledge_text", id="$document"),
    step("knowledge_passages", id="$document", seq=1, around=1),
    step("knowledge_list"),
    step("knowledge_search", query="which line goes up"),
    step("knowledge_counts"),
    step("knowledge_remove", id="$document"),
    step(
        "interactions_add",
        route="chat",
        model="gpt-5-mini",
        latency_ms=812.5,
        tokens_in=9,
        parameters={"t": 0.5},
    ),
    step("interactions_list", model="gpt-5-mini"),
    step("interactions_totals", by="model"),
    step("interactions_totals", by="day", split="model", route="chat"),
    step("search", query="where do we go", limit=3),
    step("context", session="a/trip", message="What now?", budget=2000),
    step(
        "save_turn",
        "turn",
        session="a/trip",
        messages=SAID[:2],
        usage={"model": "m", "tokens_in": 3},
        key="t",
    ),
    step("turns_get", id="$turn"),
    step("turns_list", session="a/trip"),
    step("turns_list", session="a/trip", seq=18),
    step("messages_remove", session="a/trip", seq=3),
    step("messages_pop", session="a/trip"),
    step("messages_list", session="a/trip", limit=4),
    step("messages_clear", session="a/trip"),
    step("sessions_remove", id="other"),
    step("agents_remove", name="scout"),
)
WAY = {endpoint.name: endpoint for endpoint in (*ENDPOINTS, *SCOPE_ENDPOINTS)}
KIND: dict[str, type] = {kind.name: kind for kind in KINDS}
NOT_AT_THE_TERMINAL = {"save_turn": "an agent saves its turns, and a person has `messages extend`"}
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
_KEY = re.compile(r"(make-all-)[0-9a-f]{8}")


def method(endpoint: Endpoint) -> Any:
    return getattr(KIND[endpoint.kind] if endpoint.kind else Scope, endpoint.verb)


def library(memory: Memory) -> Call:
    """Call the verbs themselves."""
    me = memory.scope(tenant="acme", user="ada", agent="scout")

    def call(endpoint: Endpoint, given: dict[str, Any]) -> Any:
        named = {name: _moment(name, value) for name, value in given.items()}
        if "messages" in named:
            named["messages"] = [
                {name: _moment(name, part) for name, part in message.items()}
                for message in named["messages"]
            ]
        result = getattr(getattr(me, endpoint.kind) if endpoint.kind else me, endpoint.verb)(
            **named
        )
        return result.report.as_json() if endpoint.name == "context" else as_json(result)

    return call


def rest(memory: Memory) -> Call:
    """Send requests to the server."""
    whose = {"X-Retain-User": "ada", "X-Retain-Agent": "scout"}
    http = TestClient(create_app(memory), URL, client=HERE, headers=whose)

    def call(endpoint: Endpoint, given: dict[str, Any]) -> Any:
        path, texts = endpoint.route, dict(given)
        for name in list(texts):
            for pattern in (f"{{{name}}}", f"{{{name}:path}}", f"{{{name}:int}}"):
                if pattern in path:
                    path = path.replace(pattern, quote(str(texts.pop(name)), safe=""))
        if "lines" in texts:
            texts["lines"] = "{}-{}".format(*texts["lines"])
        in_query = endpoint.method in ("GET", "DELETE")
        response = http.request(
            endpoint.method,
            path,
            params=_flags(texts) if in_query else {},
            json=None if in_query else texts,
        )
        assert response.status_code < 300, response.text
        if response.status_code == 204:
            return None
        if endpoint.name == "refs_content":
            return response.content.decode()
        return response.json()["report"] if endpoint.name == "context" else response.json()

    return call


def _flags(said: Mapping[str, Any]) -> dict[str, Any]:
    flags = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in said.items()
    }
    return {
        name: json.dumps(value) if isinstance(value, dict) else value
        for name, value in flags.items()
    }


def mcp(memory: Memory) -> Call:
    """Call the tools of the profile with every verb."""
    caller, verbs = (
        McpCaller(memory, Principal("acme", PERMISSIONS, "a test"), "ada", "scout"),
        EndpointTools(),
    )

    def call(endpoint: Endpoint, given: dict[str, Any]) -> Any:
        if endpoint.name in FOR_PEOPLE:  # an agent is not even offered them
            assert verbs.schema(endpoint.name) is None
            return library(memory)(endpoint, given)
        if endpoint.name == "entries_list" and "review" in given:
            return library(memory)(endpoint, given)
        payload = {
            name: "{}-{}".format(*value) if name == "lines" else value
            for name, value in given.items()
        }
        result = verbs.call(caller, endpoint.name, payload)
        if endpoint.name == "context":
            return result["report"]
        if result == {"success": True}:
            return None  # a tool has to say something
        return result["result"] if result.keys() <= {"result", "encoding"} else result

    return call


def terminal(memory: Memory, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run commands that print JSON."""

    def call(endpoint: Endpoint, given: dict[str, Any]) -> Any:
        if endpoint.name in NOT_AT_THE_TERMINAL:
            return library(memory)(endpoint, given)
        words, stdin = _command(endpoint, given, folder)
        whose = [
            "--database",
            memory.settings.database,
            "--tenant",
            "acme",
            "--user",
            "ada",
            "--agent",
            "scout",
            "--json",
        ]
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        monkeypatch.setattr(
            "sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
        )
        with contextlib.redirect_stdout(out):
            status = main.main([*words, *whose])
            out.flush()
        assert status == 0, words
        return json.loads(out.buffer.getvalue())

    return call


def typescript(memory: Memory, stack: contextlib.ExitStack) -> Call:
    """Call the methods of the TypeScript client, in a Node.js process."""
    url = stack.enter_context(serving(create_app(memory, jobs=False)))
    command = [node(), str(CLIENT / "test" / "driver.ts"), url, "ada", "scout"]
    driver = stack.enter_context(
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
    )
    assert driver.stdin
    stack.callback(driver.stdin.close)

    def call(endpoint: Endpoint, given: dict[str, Any]) -> Any:
        options = dict(given)
        signature = inspect.signature(method(endpoint))
        positional = [
            options.pop(name, None)
            for name, parameter in list(signature.parameters.items())[1:]
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]
        first, *words = endpoint.verb.split("_")
        request = {
            "kind": endpoint.kind,
            "verb": first + "".join(map(str.title, words)),
            "positional": positional,
            "options": options,
        }
        assert driver.stdin
        assert driver.stdout
        driver.stdin.write(json.dumps(request) + "\n")
        driver.stdin.flush()
        answer = json.loads(driver.stdout.readline())
        assert "error" not in answer, answer
        result = answer.get("result")
        return result["report"] if endpoint.name == "context" else result

    return call


def _command(endpoint: Endpoint, given: dict[str, Any], folder: Path) -> tuple[list[str], str]:
    """Return a call as the words of a command, and its input."""
    if endpoint.name == "context":
        options = [f"--{name}={value}" for name, value in given.items()]
        return ["context", *options], ""
    if endpoint.name == "search":
        return ["search", given["query"], f"--limit={given['limit']}"], ""
    if endpoint.name == "knowledge_add":
        return ["knowledge", "add", "-", "--title", given["title"]], given["text"]
    words, hints = [endpoint.kind, endpoint.word], get_type_hints(method(endpoint))
    for parameter in list(inspect.signature(method(endpoint)).parameters.values())[1:]:
        if parameter.name in given:
            value = given[parameter.name]
            flag = f"--{parameter.name.replace('_', '-')}"
            if (
                isinstance(value, bool)
                and hints[parameter.name] is not Any
                and parameter.name != "value"
            ):
                words.append(flag if value else flag.replace("--", "--no-", 1))
                continue
            if parameter.name == "content" and isinstance(value, dict):
                words.append("--as-json")
            written = _word(parameter.name, value, folder)
            words += (
                [f"{flag}={written}"] if parameter.kind is parameter.KEYWORD_ONLY else [written]
            )
    return words, ""


def _word(name: str, value: Any, folder: Path) -> str:
    if name in ("messages", "entries"):
        (folder / "lines.jsonl").write_text(
            "".join(json.dumps(item) + "\n" for item in value), encoding="utf-8"
        )
        return str(folder / "lines.jsonl")
    if name == "lines":
        return "{}-{}".format(*value)
    if name == "value" or isinstance(value, dict):
        return json.dumps(
            value, ensure_ascii=False, separators=(",", ":")
        )  # a text is kept as it came
    return ",".join(value) if isinstance(value, list) else str(value)


def _moment(name: str, value: Any) -> Any:
    return (
        datetime.fromisoformat(value)
        if name in ("since", "at", "valid_from", "created_at") and isinstance(value, str)
        else value
    )


def run_story(call: Call) -> Iterator[tuple[Step, Any]]:
    """Return the result of every step of the story."""
    known: dict[str, str] = {}
    for item in STORY:
        arguments = {name: _known(known, value) for name, value in item.given.items()}
        result = call(WAY[item.endpoint], arguments)
        if item.called:
            known[item.called] = (result[0] if isinstance(result, list) else result)["id"]
        yield item, result


def _known(known: Mapping[str, str], value: Any) -> Any:
    if isinstance(value, list):
        return [_known(known, item) for item in value]
    return known[value[1:]] if isinstance(value, str) and value.startswith("$") else value


def same(found: Any) -> Any:
    """Return a result without the parts that always differ."""
    if isinstance(found, dict):
        if "statement" in found:  # through MCP, an agent adds the fact
            found = {**found, "agent": "<agent>"}
        return {name: _plain(name, value) for name, value in found.items()}
    if isinstance(found, Sequence) and not isinstance(found, str):
        return [same(item) for item in found]
    return (
        _KEY.sub(r"\1…", _TIME.sub("<time>", _ID.sub("<id>", found)))
        if isinstance(found, str)
        else found
    )


def _plain(name: str, value: Any) -> Any:
    if name == "why":  # its last decimals depend on how long everything is, random names too
        return sorted(value)
    # A person's correction is confirmed, an agent's is not.
    if name in ("source", "score", "confirmed") or (name == "next" and isinstance(value, str)):
        return f"<{name}>"
    return same(value)


def test_every_verb_is_in_the_story() -> None:
    assert {item.endpoint for item in STORY} == set(WAY)


@pytest.mark.parametrize("face", ["rest", "mcp", "terminal", "typescript"])
def test_the_same_call_gives_the_same_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, face: str
) -> None:
    """Compare each step with the library's."""
    monkeypatch.setenv("RETAIN_SUMMARY_MODEL", "extractive")
    commands = partial(terminal, folder=tmp_path, monkeypatch=monkeypatch)
    with contextlib.ExitStack() as stack:
        faces: dict[str, Callable[[Memory], Call]] = {
            "library": library,
            "rest": rest,
            "mcp": mcp,
            "terminal": commands,
            "typescript": partial(typescript, stack=stack),
        }
        stories = []
        for name in ("library", face):
            settings = replace(
                SETTINGS,
                database=f"sqlite:///{tmp_path}/{name}.db",
                tenant="acme",
                summary_model="extractive",
            )
            stories.append(
                run_story(faces[name](stack.enter_context(Memory.open(settings=settings))))
            )
        for (first, expected), (_, actual) in zip(*stories, strict=True):
            assert same(actual) == same(expected), first.endpoint
