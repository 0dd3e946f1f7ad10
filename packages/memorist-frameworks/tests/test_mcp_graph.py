"""The `graph` profile against the official memory server: the same tools, answers and errors."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memorist import Memory
from memorist.admin.principal import PERMISSIONS, Permission, Principal
from memorist.cli.mcp_command import import_hint
from memorist.kinds.graph import GraphEntity
from memorist.mcp.mcp_caller import McpCaller
from memorist.server.http.app import create_app
from memorist_frameworks.mcp_graph import FACTS_STAY, GRAPH_TOOLS, GraphTools
from testkit.databases import SETTINGS, one_engine
from testkit.keys import create_key
from testkit.mcp_clients import LEGACY, MODERN, NODE, PACKAGES, command, over_http, over_stdio, text
from testkit.serving import serving
from testkit.sizes import FULL

OFFICIAL = (
    PACKAGES / "node_modules" / "@modelcontextprotocol" / "server-memory" / "dist" / "index.js"
)
PROCESSES, WRITES = (8, 500) if FULL else (3, 20)
EXAMPLES = 500 if os.environ.get("VENDORS") == "full" else 25
WHOSE = ("--user", "ada")
Ask = Callable[..., Any]
ADA = {"name": "Ada", "entityType": "person", "observations": ["likes maps"]}
KNOWS = {"from": "Ada", "to": "Bob", "relationType": "knows"}
# Calls that random generation does not produce: errors of every form, and partial effects of failed
# calls.
ODD = [
    (
        "create_entities",
        {
            "entities": [
                {**ADA, "more": 1},
                {"entityType": "twin", "observations": [], "name": "Ada"},
            ]
        },
    ),
    ("create_entities", {"entities": [{"name": 1, "observations": [1, None, True, {}, []]}, 5]}),
    (
        "create_entities",
        {"entities": [{"name": 1.5, "entityType": "", "observations": "x"}, None, [], True]},
    ),
    ("create_entities", {"entities": "x"}),
    ("create_entities", {"entities": None}),
    ("create_entities", {}),
    ("create_entities", {"entities": [], "more": []}),
    (
        "add_observations",
        {
            "observations": [
                {"entityName": "Ada", "contents": ["q"]},
                {"entityName": "no", "contents": []},
            ]
        },
    ),
    ("create_relations", {"relations": [{**KNOWS, "relationType": 2}]}),
    ("search_nodes", {"query": 3}),
    ("search_nodes", {"query": "MAPS"}),
    ("open_nodes", {"names": ["Ada", 7]}),
    ("read_graph", {"more": 1}),
    ("no_such_tool", {}),
    ("read_graph", {}),
]


@contextmanager
def stdio_server(words: list[str], **environment: str) -> Iterator[tuple[Ask, Any]]:
    """Run a server of the older revision as a process; yield a request function and its first
    response.
    """
    numbers = count(1)
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(method: str, **params: Any) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            request = {"jsonrpc": "2.0", "id": next(numbers), "method": method, "params": params}
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            return answer.get("result", answer.get("error"))

        hello = ask(
            "initialize",
            protocolVersion=LEGACY,
            capabilities={},
            clientInfo={"name": "x", "version": "1"},
        )
        process.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        yield ask, hello
        process.stdin.close()
        process.wait(30)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the official server's graph; it is empty without the file."""
    return tmp_path_factory.mktemp("official") / "memory.jsonl"


@pytest.fixture(scope="module")
def official(file: Path) -> Iterator[Ask]:
    """The official server."""
    assert OFFICIAL.exists(), (
        "it is not there: run `make test-tools`, or the tests with `make test`"
    )
    with stdio_server([str(NODE), str(OFFICIAL)], MEMORY_FILE_PATH=str(file)) as (ask, _):
        yield ask


def without_descriptions(value: Any) -> Any:
    """Return a schema or resource without its descriptions."""
    if isinstance(value, list):
        return [without_descriptions(item) for item in value]
    return (
        {k: without_descriptions(v) for k, v in value.items() if k != "description"}
        if isinstance(value, dict)
        else value
    )


def test_equivalence_over_stdio(official: Ask, file: Path, tmp_path: Path) -> None:
    """The same tools and resources, byte-identical answers, and the same errors."""
    file.unlink(missing_ok=True)
    left = tmp_path / "memory of mine.jsonl"
    left.touch()
    words = command(f"sqlite:///{tmp_path}/a.db", "--profile", "graph")
    with stdio_server(words, MEMORY_FILE_PATH=str(left)) as (ours, hello):
        assert (
            f"memorist import '{left}' --from mcp-memory --database sqlite:///{tmp_path}/a.db"
            in hello["instructions"]
        )
        assert without_descriptions(ours("tools/list")["tools"]) == without_descriptions(
            official("tools/list")["tools"]
        )
        assert without_descriptions(ours("resources/list")) == without_descriptions(
            official("resources/list")
        )
        assert ours("resources/templates/list") == official("resources/templates/list")
        for name, arguments in ODD:
            request = {"name": name, "arguments": arguments}
            assert ours("tools/call", **request) == {
                "isError": False,
                **official("tools/call", **request),
            }, name
        there = {"uri": "memory://knowledge-graph"}
        assert ours("resources/read", **there) == official("resources/read", **there)
        assert ours("prompts/list")["code"] == official("prompts/list")["code"]
        assert ours("resources/read", uri="memory://x")["code"] in (-32002, -32602)


NAMES = st.sampled_from(
    ["Ada", "ada", "Bob", "", " ", "É\u2028🗺", 'a"\\\n\x01\x7f', "İSTANBUL", "ΣΑΣ"]
)
TEXTS = st.sampled_from(
    ["likes maps", "likes MAPS", "", "x", "Straße", "[MemoryRef: a - b]", "i̇", "σας"]
)
LISTS = st.lists(TEXTS, max_size=3)
ENTITIES = st.builds(
    lambda n, t, o: {"name": n, "entityType": t, "observations": o}, NAMES, TEXTS, LISTS
)
RELATIONS = st.builds(lambda a, b, t: {"from": a, "to": b, "relationType": t}, NAMES, NAMES, TEXTS)
CALLS = st.one_of(
    st.builds(
        lambda given: ("create_entities", {"entities": given}), st.lists(ENTITIES, max_size=4)
    ),
    st.builds(
        lambda given: ("create_relations", {"relations": given}), st.lists(RELATIONS, max_size=4)
    ),
    st.builds(
        lambda given: (
            "add_observations",
            {"observations": [{"entityName": n, "contents": t} for n, t in given]},
        ),
        st.lists(st.tuples(NAMES, LISTS), max_size=2),
    ),
    st.builds(
        lambda given: ("delete_entities", {"entityNames": given}), st.lists(NAMES, max_size=2)
    ),
    st.builds(
        lambda given: (
            "delete_observations",
            {"deletions": [{"entityName": n, "observations": t} for n, t in given]},
        ),
        st.lists(st.tuples(NAMES, LISTS), max_size=2),
    ),
    st.builds(
        lambda given: ("delete_relations", {"relations": given}), st.lists(RELATIONS, max_size=2)
    ),
    st.builds(lambda given: ("search_nodes", {"query": given}), TEXTS),
    st.builds(lambda given: ("open_nodes", {"names": given}), st.lists(NAMES, max_size=3)),
)


def test_random_calls_are_equivalent(memory: Memory, official: Ask, file: Path) -> None:
    """They get the same answers and leave the same graph."""
    users, nodes = count(), GraphTools()

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(CALLS, min_size=4, max_size=12))
    def same(calls: list[tuple[str, dict[str, Any]]]) -> None:
        file.unlink(missing_ok=True)
        caller = McpCaller(memory, Principal("acme", PERMISSIONS, "a test"), f"user {next(users)}")
        for name, arguments in [*calls, ("read_graph", {})]:
            ours = nodes.result(caller, name, arguments).model_dump(
                mode="json", by_alias=True, exclude_none=True
            )
            theirs = official("tools/call", name=name, arguments=arguments)
            assert {"isError": False, **theirs} == {
                k: v for k, v in ours.items() if k != "resultType"
            }, name

    same()
    assert not [finding for finding in memory.verify() if finding.problem]


@pytest.mark.slow
def test_many_processes_write_one_graph(tmp_path: Path) -> None:
    """One process per client on one file; every entity and observation is stored."""
    database = f"sqlite:///{tmp_path}/shared.db"
    with Memory.open(database, settings=SETTINGS) as memory:
        memory.scope(user="ada").graph.add([GraphEntity("all", "shared")])

    async def write(number: int) -> None:
        async with over_stdio(database, *WHOSE, "--profile", "graph") as client:
            for n in range(WRITES):
                name, arguments = _write(f"{number}-{n}", n % 2 == 0)
                result = await client.call_tool(name, arguments)
                assert not result.is_error, text(result)

    async def crowd() -> None:
        await asyncio.gather(*(write(number) for number in range(PROCESSES)))

    asyncio.run(crowd())
    with Memory.open(database, settings=SETTINGS) as memory:
        shared, *others = memory.scope(user="ada").graph.read().entities
        wanted = {
            (f"{number}-{n}", n % 2 == 0) for number in range(PROCESSES) for n in range(WRITES)
        }
        assert {(other.name, True) for other in others} | {
            (observation, False) for observation in shared.observations
        } == wanted
        assert len(others) + len(shared.observations) == PROCESSES * WRITES
        assert not [finding for finding in memory.verify() if finding.problem]


def _write(mark: str, alone: bool) -> tuple[str, dict[str, Any]]:
    """Return a write of an entity, or of an observation of a common one."""
    if alone:
        return "create_entities", {
            "entities": [{"name": mark, "entityType": "own", "observations": [mark]}]
        }
    return "add_observations", {"observations": [{"entityName": "all", "contents": [mark]}]}


@one_engine
def test_the_graph_profile_over_http(memory: Memory) -> None:
    """At /mcp/graph: for the named user, with permissions; audited, and found by every search."""
    _, key = create_key(memory, "acme", "a test", PERMISSIONS)
    _, reader = create_key(memory, "acme", "a reader", {"read"})
    _, bound = create_key(memory, "acme", "a bound one", PERMISSIONS, agent="scout")

    async def use(address: str) -> None:
        address = f"{address}/mcp/graph"
        async with over_http(address, MODERN, key, user="ada") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == [
                node.name for node in GRAPH_TOOLS
            ]
            assert not (await client.call_tool("create_entities", {"entities": [ADA]})).is_error
            assert "likes maps" in str(
                (await client.read_resource("memory://knowledge-graph")).contents
            )
        async with over_http(address, MODERN, reader, user="ada") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == [
                "read_graph",
                "search_nodes",
                "open_nodes",
            ]
            assert "may not delete" in text(
                await client.call_tool("delete_entities", {"entityNames": ["Ada"]})
            )
        async with over_http(address, MODERN, bound) as client:
            assert "whole tenant" in text(
                await client.call_tool("create_entities", {"entities": [ADA]})
            )

    with serving(create_app(memory)) as address:
        asyncio.run(use(address))
    me = memory.scope(tenant="acme", user="ada")
    assert [entity.name for entity in me.graph.read().entities] == ["Ada"]
    assert memory.scope(tenant="acme").graph.read().entities == []
    assert memory.scope(tenant="acme", user="bob").graph.read().entities == []
    assert me.search("maps")[0].title == "Ada"
    done = [(row.what, row.subject) for row in memory.scope(tenant="acme").admin.audit.list()]
    assert ("graph_add", "graph Ada") in done


@one_engine
@pytest.mark.parametrize("allowed", [frozenset({"read"}), frozenset({"write"}), PERMISSIONS])
def test_forbidden_tools_are_not_offered(memory: Memory, allowed: frozenset[Permission]) -> None:
    caller = McpCaller(memory, Principal("acme", allowed, "a test"), "ada")
    offered = {tool.name for tool in GraphTools().definitions(caller)}
    assert offered == {node.name for node in GRAPH_TOOLS if node.permission in allowed}
    for node in GRAPH_TOOLS:
        if node.permission not in allowed:
            arguments = {
                name: "x" if value["type"] == "string" else []
                for name, value in node.input_schema["properties"].items()
            }
            assert GraphTools().result(caller, node.name, arguments).is_error


@one_engine
def test_the_file_of_the_official_server_is_mentioned_once(memory: Memory, tmp_path: Path) -> None:
    """A configuration that still names the file gets import advice; nothing is imported by itself."""
    file, graph = tmp_path / "memory.jsonl", memory.scope(tenant="acme", user="ada").graph
    words = (None, "acme", "ada")
    assert import_hint(memory, str(file), *words) == ""
    file.write_text(json.dumps({"type": "entity", **ADA}))
    assert import_hint(memory, str(file), *words).endswith(
        f"memorist import {file} --from mcp-memory --tenant acme --user ada"
    )
    assert graph.read().entities == []
    graph.add([GraphEntity("Ada", "person")])
    assert import_hint(memory, str(file), *words) == ""


@one_engine
def test_the_delete_tools_report_that_facts_were_not_deleted(memory: Memory) -> None:
    me = memory.scope(tenant="acme", user="ada")
    me.graph.add([GraphEntity("Clara", "person", ["likes tea"])])
    me.facts.add("Clara lives in Porto.", subject="Clara", predicate="lives in", object="Porto")
    caller = McpCaller(memory, Principal("acme", PERMISSIONS, "a test"), "ada")

    def call(name: str, **arguments: Any) -> str:
        return text(GraphTools().result(caller, name, arguments))

    tea = {"entityName": "Clara", "observations": ["likes tea"]}
    porto = {"entityName": "Clara", "observations": ["Clara lives in Porto."]}
    lives = {"from": "Clara", "to": "Porto", "relationType": "lives in"}
    likes = {"from": "Clara", "to": "tea", "relationType": "likes"}
    done = "Observations deleted successfully"
    assert call("delete_observations", deletions=[tea]) == done
    assert call("delete_observations", deletions=[tea, porto]) == f"{done}. {FACTS_STAY}"
    bob = {"name": "Bob", "entityType": "friend", "observations": ["likes maps"]}
    call("create_entities", entities=[{**bob, "observations": []}, bob])
    maps = {"entityName": "Bob", "observations": ["likes maps"]}
    assert call("delete_observations", deletions=[maps]) == done, "the second Bob keeps it"
    done = "Relations deleted successfully"
    assert call("delete_relations", relations=[likes]) == done
    assert call("delete_relations", relations=[lives]) == f"{done}. {FACTS_STAY}"
    done = "Entities deleted successfully"
    assert call("delete_entities", entityNames=["Bob"]) == done
    assert call("delete_entities", entityNames=["Bob", "Clara"]) == f"{done}. {FACTS_STAY}"
    assert [fact.statement for fact in me.facts.list()] == ["Clara lives in Porto."]
