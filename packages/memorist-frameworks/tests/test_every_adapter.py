"""Every adapter needs its framework and a scope of a Memory; anything else is rejected at once."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memorist import AsyncMemory, Client, Memory
from memorist.base.errors import Invalid
from testkit.databases import one_engine

PACKAGE = Path(__file__).parent.parent
ADAPTERS: dict[str, tuple[str, ...]] = {
    "adk.MemoristMemoryService": (),
    "adk.MemoristSessionService": (),
    "agent_framework.MemoristContextProvider": (),
    "agent_framework.MemoristHistoryProvider": (),
    "anthropic.MemoristAsyncMemoryTool": (),
    "anthropic.MemoristMemoryTool": (),
    "langchain.MemoristMiddleware": (),
    "langchain.MemoristChatMessageHistory": ("session",),
    "langgraph.MemoristSaver": (),
    "langgraph.AsyncMemoristStore": (),
    "langgraph.MemoristStore": (),
    "openai_agents.MemoristSession": ("session",),
    "pydantic_ai.MemoristConversationStore": (),
    "pydantic_ai.MemoristMemory": (),
}
BLOCKED = """
import importlib, json, pkgutil, sys
for name in ("agent_framework", "agents", "anthropic", "google", "langchain", "langchain_core", "langgraph", "pydantic_ai"):
    sys.modules[name] = None
import memorist_frameworks
said = {}
for module in pkgutil.iter_modules(memorist_frameworks.__path__):
    try:
        importlib.import_module(f"memorist_frameworks.{module.name}")
    except ImportError as error:
        said[module.name] = str(error)
print(json.dumps(said))
"""


@one_engine
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_adapters_accept_only_a_scope(adapter: str, memory: Memory) -> None:
    """With another object a write would be acknowledged but not stored."""
    module, name = adapter.split(".")
    created: Callable[..., Any] = getattr(
        importlib.import_module(f"memorist_frameworks.{module}"), name
    )

    async def with_all() -> None:
        created(memory.scope(tenant="acme", user="ada", agent="scout"), *ADAPTERS[adapter])
        others = {
            "a scope of AsyncMemory": AsyncMemory(memory).scope(user="ada"),
            "a scope of Client": Client("http://127.0.0.1:1").scope(user="ada"),
            "Memory": memory,
            "str": "ada",
        }
        for value, other in others.items():
            with pytest.raises(
                Invalid, match=rf"scope: must be a scope of Memory.*; got {value}\.$"
            ):
                created(other, *ADAPTERS[adapter])

    asyncio.run(with_all())


def test_every_adapter_is_tested() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (PACKAGE / "src").rglob("*.py")]
    results = {
        name
        for text in texts
        for name in re.findall(r"^class ((?:Async)?Memorist\w+)", text, re.MULTILINE)
    }
    assert results == {adapter.split(".")[1] for adapter in ADAPTERS}


def test_without_a_framework_the_error_names_the_package(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    payload: dict[str, str] = json.loads(done.stdout)
    extras = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    assert set(payload) >= {adapter.split(".")[0] for adapter in ADAPTERS}
    for module, text in payload.items():
        extra = next(name for name in extras if module.replace("_", "-").startswith(name))
        assert f"pip install 'memorist[{extra}]'" in text, module
