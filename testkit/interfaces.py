"""Every interface to the verbs, called with JSON values: the library, HTTP, MCP, commands, clients."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from memorist import AsyncMemory, Client, Memory
from memorist.admin.principal import PERMISSIONS, Principal
from memorist.api.rendering import as_json
from memorist.base.errors import MemoristError
from memorist.base.verbs import Endpoint
from memorist.cli import main
from memorist.kinds import KINDS
from memorist.mcp.endpoint_tools import EndpointTools
from memorist.mcp.mcp_caller import McpCaller
from memorist.memory import Scope
from memorist.server.http.app import create_app
from testkit.apps import HERE, URL
from testkit.databases import SETTINGS
from testkit.keys import create_key
from testkit.serving import serving
from testkit.story import Call, run_story, same
from testkit.typescript import CLIENT, node

NOT_AT_THE_TERMINAL = {"save_turn": "an agent saves its turns, and a person has `messages extend`"}
_KINDS: dict[str, type] = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True)
class Setting:
    """What an interface is opened over."""

    memory: Memory
    folder: Path
    stack: contextlib.ExitStack
    """Closes what the interface opens."""
    tenant: str = "acme"
    user: str = "ada"
    agent: str = "scout"
    is_bound: bool = False
    """True if its key is for this user only."""
    is_bound_to_agent: bool = False
    """True if its key is for this agent only."""

    @property
    def scope(self) -> Scope:
        return self.memory.scope(tenant=self.tenant, user=self.user, agent=self.agent)


class Refused(Exception):
    """An error response."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = {name: value for name, value in problem.items() if name != "request_id"}
        super().__init__(f"{status} {problem}")


def outcome(call: Call, endpoint: Endpoint, arguments: dict[str, Any]) -> Any:
    """Return the result of a call, or everything that its error says."""
    try:
        return call(endpoint, arguments)
    except Refused as error:
        return {"status": error.status, "problem": error.problem}
    except MemoristError as error:
        return {"error": type(error).__name__, "text": str(error), "details": repr(error.details)}


def method(endpoint: Endpoint) -> Any:
    return getattr(_KINDS[endpoint.kind] if endpoint.kind else Scope, endpoint.verb)


def result_of(endpoint: Endpoint, result: Any) -> Any:
    """Return the result of a verb as JSON."""
    return result.report.as_json() if endpoint.name == "context" else as_json(result)


def python_values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with times as a Python program passes them."""
    values = {name: _moment(name, value) for name, value in arguments.items()}
    if "messages" in values:
        values["messages"] = [python_values(message) for message in values["messages"]]
    return values


def _moment(name: str, value: Any) -> Any:
    is_time = name in ("since", "until", "at", "valid_from", "created_at")
    return datetime.fromisoformat(value) if is_time and isinstance(value, str) else value


def _through_scope(scope: Any) -> Call:
    def call(endpoint: Endpoint, arguments: dict[str, Any]) -> Any:
        owner = getattr(scope, endpoint.kind) if endpoint.kind else scope
        return result_of(endpoint, getattr(owner, endpoint.verb)(**python_values(arguments)))

    return call


def _only_with_route(call: Call, setting: Setting) -> Call:
    """Leave verbs that only adapters call to the library."""
    own = library(setting)
    return lambda endpoint, arguments: (call if endpoint.request else own)(endpoint, arguments)


def library(setting: Setting) -> Call:
    """Call the verbs themselves."""
    return _through_scope(setting.scope)


def asynchronous(setting: Setting) -> Call:
    """Call the verbs of the asynchronous library."""
    runner = setting.stack.enter_context(asyncio.Runner())
    scope: Any = AsyncMemory(setting.memory).scope(
        tenant=setting.tenant, user=setting.user, agent=setting.agent
    )

    def call(endpoint: Endpoint, arguments: dict[str, Any]) -> Any:
        owner = getattr(scope, endpoint.kind) if endpoint.kind else scope
        verb = getattr(owner, endpoint.verb)
        return result_of(endpoint, runner.run(verb(**python_values(arguments))))

    return call


def client(setting: Setting) -> Call:
    """Call the methods of the Python client over HTTP."""
    url = setting.stack.enter_context(serving(create_app(setting.memory, jobs=False)))
    connection = setting.stack.enter_context(Client(url))
    remote = _through_scope(connection.scope(user=setting.user, agent=setting.agent))
    return _only_with_route(remote, setting)


@lru_cache(maxsize=2)
def _app(memory: Memory) -> Starlette:
    return create_app(memory, jobs=False)


def _client(app: Starlette, setting: Setting, headers: dict[str, str]) -> TestClient:
    """Return a client of an app; all clients share one event loop, which takes 10 ms to start."""
    if not hasattr(app.state, "portal"):
        app.state.portal = setting.stack.enter_context(TestClient(app)).portal
    client = TestClient(app, URL, client=HERE, headers=headers)
    client.portal = app.state.portal
    return client


def rest(setting: Setting) -> Call:
    """Send requests to the server, with a key of the tenant or the user."""
    app = _app(setting.memory)
    _, key = create_key(
        setting.memory,
        setting.tenant,
        "a test",
        PERMISSIONS,
        user=setting.user if setting.is_bound else None,
        agent=setting.agent if setting.is_bound_to_agent else None,
    )
    app.state.authenticator.forget()
    headers = {
        "Authorization": f"Bearer {key}",
        "X-Memorist-User": setting.user,
        "X-Memorist-Agent": setting.agent,
    }
    http = _client(app, setting, headers)

    def call(endpoint: Endpoint, arguments: dict[str, Any]) -> Any:
        path, values = endpoint.route, dict(arguments)
        for name in list(values):
            for pattern in (f"{{{name}}}", f"{{{name}:path}}", f"{{{name}:int}}"):
                if pattern in path:
                    path = path.replace(pattern, quote(str(values.pop(name)), safe=""))
        if "lines" in values:
            values["lines"] = "{}-{}".format(*values["lines"])
        response = http.request(
            endpoint.method,
            path,
            params=_query(values) if endpoint.in_query else {},
            json=None if endpoint.in_query else values,
        )
        if response.status_code >= 300:
            headers = {
                name: value
                for name, value in response.headers.items()
                if name not in ("x-request-id", "content-length")
            }
            raise Refused(response.status_code, {**response.json(), "headers": headers})
        if response.status_code == 204:
            return None
        if endpoint.name == "refs_content":
            return response.content.decode()
        return response.json()["report"] if endpoint.name == "context" else response.json()

    return _only_with_route(call, setting)


def _query(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: json.dumps(value) if isinstance(value, bool | dict) else value
        for name, value in values.items()
    }


def mcp(setting: Setting) -> Call:
    """Call the tools of the profile with every verb."""
    principal = Principal(
        setting.tenant,
        PERMISSIONS,
        "a test",
        user=setting.user if setting.is_bound else None,
        agent=setting.agent if setting.is_bound_to_agent else None,
    )
    caller = McpCaller(setting.memory, principal, setting.user, setting.agent)
    tools = EndpointTools()
    own = library(setting)

    def call(endpoint: Endpoint, arguments: dict[str, Any]) -> Any:
        if endpoint.people_only:  # an agent is not even offered them
            assert tools.schema(endpoint.name) is None
            return own(endpoint, arguments)
        if endpoint.name == "entries_list" and "review" in arguments:
            return own(endpoint, arguments)
        payload = {
            name: "{}-{}".format(*value) if name == "lines" else value
            for name, value in arguments.items()
        }
        result = tools.call(caller, endpoint.name, payload)
        if endpoint.name == "context":
            return result["report"]
        if result == {"success": True}:
            return None  # a tool has to say something
        return result["result"] if {"result"} <= result.keys() <= {"result", "encoding"} else result

    return _only_with_route(call, setting)


def terminal(setting: Setting) -> Call:
    """Run commands that print JSON."""
    own = library(setting)
    database = ["--database", setting.memory.settings.database, "--tenant", setting.tenant]
    owner = ["--user", setting.user, "--agent", setting.agent, "--json"]

    def call(endpoint: Endpoint, arguments: dict[str, Any]) -> Any:
        if endpoint.name in NOT_AT_THE_TERMINAL:
            return own(endpoint, arguments)
        words, stdin = _command(endpoint, arguments, setting.folder)
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
            text = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
            patch.setattr("sys.stdin", text)
            status = main.main([*words, *database, *owner])
            out.flush()
        assert status == 0, words
        return json.loads(out.buffer.getvalue())

    return _only_with_route(call, setting)


def _command(endpoint: Endpoint, arguments: dict[str, Any], folder: Path) -> tuple[list[str], str]:
    """Return a call as the words of a command, and its input."""
    if endpoint.name == "context":
        return ["context", *(f"--{name}={value}" for name, value in arguments.items())], ""
    if endpoint.name == "search":
        return ["search", arguments["query"], f"--limit={arguments['limit']}"], ""
    if endpoint.name == "documents_add":
        return ["documents", "add", "-", "--title", arguments["title"]], arguments["text"]
    words = [endpoint.kind, endpoint.word]
    for parameter in list(inspect.signature(method(endpoint)).parameters.values())[1:]:
        if parameter.name not in arguments:
            continue
        value = arguments[parameter.name]
        flag = f"--{parameter.name.replace('_', '-')}"
        if isinstance(value, bool) and parameter.name != "value":
            words.append(flag if value else flag.replace("--", "--no-", 1))
            continue
        if parameter.name == "content" and isinstance(value, dict):
            words.append("--as-json")
        word = _word(parameter.name, value, folder)
        words += [f"{flag}={word}"] if parameter.kind is parameter.KEYWORD_ONLY else [word]
    return words, ""


def _word(name: str, value: Any, folder: Path) -> str:
    if name in ("messages", "entries"):
        lines = "".join(json.dumps(item) + "\n" for item in value)
        (folder / "lines.jsonl").write_text(lines, encoding="utf-8")
        return str(folder / "lines.jsonl")
    if name == "lines":
        return "{}-{}".format(*value)
    if name == "value" or isinstance(value, dict):  # its text is kept as it came
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return ",".join(value) if isinstance(value, list) else str(value)


def typescript(setting: Setting) -> Call:
    """Call the methods of the TypeScript client, in a Node.js process."""
    url = setting.stack.enter_context(serving(create_app(setting.memory, jobs=False)))
    command = [node(), str(CLIENT / "test" / "driver.ts"), url, setting.user, setting.agent]
    driver = setting.stack.enter_context(
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
    )
    stdin, stdout = driver.stdin, driver.stdout
    assert stdin
    assert stdout
    setting.stack.callback(stdin.close)

    def call(endpoint: Endpoint, arguments: dict[str, Any]) -> Any:
        options = dict(arguments)
        positional = [
            options.pop(name, None)
            for name, parameter in list(inspect.signature(method(endpoint)).parameters.items())[1:]
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]
        first, *words = endpoint.verb.split("_")
        verb = first + "".join(map(str.title, words))
        request = {
            "kind": endpoint.kind,
            "verb": verb,
            "positional": positional,
            "options": options,
        }
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        answer = json.loads(stdout.readline())
        assert "error" not in answer, answer
        result = answer.get("result")
        return result["report"] if endpoint.name == "context" else result

    return _only_with_route(call, setting)


INTERFACES: dict[str, Callable[[Setting], Call]] = {
    "library": library,
    "asynchronous": asynchronous,
    "client": client,
    "rest": rest,
    "mcp": mcp,
    "terminal": terminal,
    "typescript": typescript,
}


def results_of_story(interface: str, folder: Path) -> list[tuple[str, Any]]:
    """Run the story through an interface, on a database of its own."""
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setenv("MEMORIST_SUMMARY_MODEL", "extractive")
        url = f"sqlite:///{folder}/{interface}.db"
        settings = replace(SETTINGS, database=url, tenant="acme", summary_model="extractive")
        memory = stack.enter_context(Memory.open(settings=settings))
        story = run_story(INTERFACES[interface](Setting(memory, folder, stack)))
        return [(step.verb, same(result)) for step, result in story]


@cache
def _results_of_library() -> list[tuple[str, Any]]:
    with TemporaryDirectory() as folder:
        return results_of_story("library", Path(folder))


def compare_with_library(interface: str, folder: Path) -> None:
    """Run the story through an interface, and compare each result with that of the library."""
    results = results_of_story(interface, folder)
    for actual, expected in zip(results, _results_of_library(), strict=True):
        assert actual == expected
