"""The architecture: packages in layers, no import cycles, engine names only where they belong."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import retain
from retain.kinds import KINDS
from retain.memory import Memory

SOURCE = Path(__file__).parent.parent / "src"
LAYERS = """base storage messages text models search kinds context auth jobs memory aio capture chat api
            client integrations mcp server evaluation cli __main__ testing __init__""".split()  # noqa: SIM905
"""Packages from the bottom up: each imports only those before it."""
PEERS = {"server": {"mcp"}, "mcp": set(), "client": set(), "integrations": set()}
"""Packages that do not import each other, with the exceptions. The command line starts them all."""
FRAMEWORKS = {"agent_framework", "langchain", "openai"}
"""Modules named after the framework that they serve: its message format, its integration."""
ENGINE_FILES = {"retain.storage.connect", "retain.search.index", "retain.base.settings"}
FRAMEWORK_CLASSES = {"sqlitesession"}  # of the OpenAI Agents SDK; it is no engine of ours
IMPORTS_BY_NAME = (
    "retain.__init__",
    "retain.cli.main",
)  # from a table of constants, when first used
EXECUTES = {"eval", "exec", "compile", "__import__", "importlib.import_module", "yaml.load"}
SLOW_TO_IMPORT = """fastapi starlette uvicorn mcp pydantic pydantic_ai genai_prices httpx httpx2 openai
    numpy onnxruntime orjson psycopg rich yaml regex markdown_it rs_bpe""".split()  # noqa: SIM905


@cache
def modules() -> dict[str, ast.Module]:
    """Return the syntax tree of every module of the package, by its name."""
    return {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts): ast.parse(path.read_text())
        for path in sorted(SOURCE.rglob("*.py"))
    }


@cache
def nodes(name: str) -> list[ast.AST]:
    """Return every node of the syntax tree of a module."""
    return list(ast.walk(modules()[name]))


@cache
def imports(name: str) -> set[str]:
    """Return the modules of ours that a module imports, however it spells the import."""
    imported: set[str] = set()
    for node in nodes(name):
        candidates: list[str] = []
        if isinstance(node, ast.Import):
            candidates = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            candidates = [f"{node.module}.{alias.name}" for alias in node.names]
        for candidate in candidates:
            while candidate:
                results = {candidate, f"{candidate}.__init__"} & modules().keys()
                if results:
                    imported |= results
                    break
                candidate = candidate.rpartition(".")[0]
    return imported


def graph(depth: int, within: str = "retain") -> dict[str, set[str]]:
    """Return which parts of a package import which others; `depth` counts the names of a part."""
    edges: dict[str, set[str]] = {}
    for name in modules():
        part = ".".join(name.split(".")[:depth])
        for imported in imports(name):
            other = ".".join(imported.split(".")[:depth])
            if part != other and name.startswith(within) and imported.startswith(within):
                edges.setdefault(part, set()).add(other)
    return edges


def test_packages_import_only_lower_layers() -> None:
    for package, imported in graph(depth=2).items():
        name = package.removeprefix("retain.")
        for other in (package.removeprefix("retain.") for package in imported):
            assert LAYERS.index(other) < LAYERS.index(name), f"{name} imports {other}"
            if name in PEERS and other in PEERS:
                assert other in PEERS[name], f"{name} imports {other}"


def test_no_import_cycles() -> None:
    """Neither between packages, nor between kinds, nor between single modules."""
    for edges in (graph(2), graph(3, "retain.kinds."), graph(9)):
        TopologicalSorter(edges).prepare()  # raises CycleError, which names the cycle


def test_packages_that_meet_have_no_modules_of_the_same_name() -> None:
    """Otherwise `from retain.x import tools` does not tell a reader which tools."""
    leaves: dict[str, set[str]] = {}
    for name in modules():
        package, _, leaf = name.rpartition(".")
        leaves.setdefault(package, set()).add(leaf)
    for name in modules():
        package = name.rpartition(".")[0]
        for imported in {imported.rpartition(".")[0] for imported in imports(name)} - {package}:
            shared = leaves[package] & leaves[imported] - {"__init__"} - FRAMEWORKS
            assert not shared, f"{package} imports {imported}; both have {shared}"


def test_engines_are_named_only_in_their_files() -> None:
    for name in modules():
        is_engine = any(
            part.startswith(("sqlite", "postgres", "oracle")) for part in name.split(".")
        )
        if is_engine or name in ENGINE_FILES:
            continue
        for node in nodes(name):
            for field in ("id", "attr", "module", "name"):
                word = str(getattr(node, field, "")).lower()
                if word in FRAMEWORK_CLASSES:
                    continue
                for engine in ("sqlite", "postgres", "apsw", "psycopg", "oracledb"):
                    assert engine not in word, f"{name}: {ast.unparse(node)}"


def test_stored_data_is_never_executed() -> None:
    """No pickle, no eval, no dynamic import, no yaml.load."""
    for name in modules():
        for node in nodes(name):
            if isinstance(node, ast.Import):
                imported = {alias.name for alias in node.names}
                assert not imported & {"pickle", "marshal", "shelve", "dill"}, name
            elif isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called == "importlib.import_module" and name in IMPORTS_BY_NAME:
                    continue
                assert called not in EXECUTES, name


def test_every_module_has_a_docstring() -> None:
    assert [name for name, tree in modules().items() if not ast.get_docstring(tree)] == []


def test_a_scope_has_every_kind() -> None:
    with Memory.open("memory:") as memory:
        scope = memory.scope()
        assert all(type(getattr(scope, kind.name)) is kind for kind in KINDS)


def imported_by(script: str) -> set[str]:
    """Return the modules that a script imports, in a process of its own."""
    script = f"import sys\n{script}\nprint(*sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_importing_retain_imports_nothing_until_a_name_is_used() -> None:
    imported = imported_by("import retain")
    assert {name for name in imported if name.startswith("retain")} == {
        "retain",
        "retain.base",
        "retain.base.version",
    }


def test_memory_imports_no_server_and_no_model() -> None:
    script = """
from retain import Memory
with Memory.open("memory:") as memory:
    memory.scope(user="ada").state.set("mood", {"now": "calm"})
"""
    packages = {name.partition(".")[0] for name in imported_by(script)}
    assert not {*SLOW_TO_IMPORT} & packages


def test_memory_imports_what_few_programs_call_later() -> None:
    imported = imported_by("from retain import Memory")
    assert (
        not {
            "asyncio",
            "http.client",
            "retain.jobs.runner",
            "retain.storage.copy",
            "ssl",
            "statistics",
        }
        & imported
    )


def test_the_server_starts_without_mcp_and_models() -> None:
    script = """
from retain.server.serve import create_app
from retain import Memory
create_app(Memory.open("memory:"))
"""
    packages = {name.partition(".")[0] for name in imported_by(script)}
    assert not {"mcp", "pydantic_ai", "openai", "anthropic", "numpy", "onnxruntime"} & packages


def test_help_imports_no_memory() -> None:
    script = """
from retain.cli.main import main
try:
    main(["--help"])
except SystemExit:
    pass
"""
    imported = imported_by(script)
    assert not {"retain.memory", "retain.kinds", "retain.base.settings", "apsw"} & imported


def test_public_names_are_those_that_editors_see() -> None:
    tree = modules()["retain.__init__"]
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == retain._MODULES
    assert sorted(seen) == retain.__all__
    assert all(getattr(retain, name).__name__ == name for name in seen)
    assert {*seen} <= {*dir(retain)}
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = retain.Nothing  # type: ignore[attr-defined]
