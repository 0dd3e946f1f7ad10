"""MCP over standard input and output as a separate process, as a desktop client starts it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from memorist import Memory
from memorist.memory import Scope
from testkit.databases import SETTINGS
from testkit.mcp_clients import (
    LEGACY,
    MODERN,
    NAMES,
    READING,
    call_error,
    call_ok,
    command,
    over_stdio,
)
from testkit.sizes import FULL

WHOSE = ("--tenant", "acme", "--user", "ada", "--agent", "scout")
PROCESSES, WRITES = (8, 500) if FULL else (3, 25)
NOTED = 15


def scope(memory: Memory) -> Scope:
    return memory.scope(tenant="acme", user="ada", agent="scout")


def request(number: int, method: str, **params: Any) -> bytes:
    return (
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()
        + b"\n"
    )


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
def test_a_round_trip(tmp_path: Path, revision: str) -> None:
    """The file is created, the flags select the owner, and no other can be named."""
    database = f"sqlite:///{tmp_path}/new.db"

    async def use() -> None:
        async with over_stdio(database, *WHOSE, revision=revision) as client:
            assert client.protocol_version == revision
            assert [tool.name for tool in (await client.list_tools()).tools] == NAMES
            await call_ok(client, "save_to_core", content="Ich mag Karten: 地図 🗺")
            await call_ok(client, "manage_long_term_memory", operation="append", content="# Tee")
            read = await client.read_resource("memorist://notes/ada/scout")
            assert "# Tee" in str(read.contents)
            with pytest.raises(Exception, match="bound to the user"):
                await client.read_resource("memorist://notes/bob/scout")

    async def only_read() -> None:
        async with over_stdio(database, *WHOSE, "--read-only", revision=revision) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == READING
            assert "may not write" in await call_error(client, "save_to_core", content="x")

    asyncio.run(use())
    if revision == MODERN:
        asyncio.run(only_read())
    with Memory.open(database, settings=SETTINGS) as memory:
        assert [entry.content for entry in scope(memory).entries.list()] == [
            "Ich mag Karten: 地図 🗺"
        ]


def test_standard_output_has_only_protocol_messages(tmp_path: Path) -> None:
    """Every line is a message, whatever the input; logs go to standard error, and EOF ends the
    process.
    """
    hello = {
        "protocolVersion": LEGACY,
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    sent = [
        b"not json\n", b"\xff\xfe\n", b"\n", b"[]\n", request(1, "initialize", **hello),
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n', request(2, "tools/list"),
        request(3, "tools/call", name="save_to_core", arguments={"content": "x"}), request(4, "no/such/method"),
    ]  # fmt: skip
    words = command(f"sqlite:///{tmp_path}/a.db")
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(sent))
        process.stdin.flush()
        seen: dict[int, Any] = {}
        while len(seen) < 4:
            message = json.loads(process.stdout.readline())
            if message.get("id") is not None:
                seen[message["id"]] = message
        rest, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert rest == b""
    assert len(seen[2]["result"]["tools"]) == len(NAMES)
    assert seen[3]["result"]["isError"] is True
    assert seen[4]["error"]["code"] == -32601
    assert b"without --agent" in errors
    assert b"Traceback" not in errors


def test_a_client_that_gives_up_on_discovery(tmp_path: Path) -> None:
    """A process takes a while to start: after a timeout a client may begin with an older revision."""
    hello = {
        "protocolVersion": LEGACY,
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    words = command(f"sqlite:///{tmp_path}/a.db", *WHOSE)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(
            request(1, "server/discover", _meta=meta) + request(2, "initialize", **hello)
        )
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.stdin.close()
        assert process.wait(30) == 0
    assert answers[0]["result"]["supportedVersions"] == [MODERN]
    assert answers[1]["result"]["protocolVersion"] == LEGACY


def test_without_the_library_it_names_the_extra(tmp_path: Path) -> None:
    script = "import sys; sys.modules['anyio'] = None; from memorist.cli.main import main; sys.exit(main(['mcp']))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stdout) == (6, "")
    assert "pip install 'memorist[mcp]'" in done.stderr


@pytest.mark.slow
def test_many_processes_write_to_one_file(tmp_path: Path) -> None:
    """One process per client on one file; everything acknowledged is stored."""
    database = f"sqlite:///{tmp_path}/shared.db"
    Memory.open(database, settings=SETTINGS).close()

    async def write(number: int) -> None:
        async with over_stdio(database, *WHOSE) as client:
            await asyncio.gather(*(_one(client, f"{number}-{n}", n < NOTED) for n in range(WRITES)))

    async def _one(client: Client, name: str, noted: bool) -> None:
        await call_ok(client, "set_state", key=name, value=name)
        if noted:  # one document that all of them change
            await call_ok(
                client, "manage_long_term_memory", operation="append", content=f"- {name}"
            )

    async def crowd() -> None:
        await asyncio.gather(*(write(number) for number in range(PROCESSES)))

    asyncio.run(crowd())
    wanted = {f"{number}-{n}" for number in range(PROCESSES) for n in range(WRITES)}
    with Memory.open(database, settings=SETTINGS) as memory:
        page, seen = None, set()
        while page is None or page.next:
            page = scope(memory).state.list(limit=1000, after=page.next if page else None)
            seen |= {item.value for item in page}
        assert seen == wanted
        noted = [
            line.removeprefix("- ") for line in scope(memory).notes.read().text.splitlines() if line
        ]
        assert sorted(noted) == sorted(
            name for name in wanted if int(name.partition("-")[2]) < NOTED
        )
        assert not [finding for finding in memory.verify() if finding.problem]
