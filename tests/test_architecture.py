"""The architecture: packages in layers, no import cycles, engine names only where they belong."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import memorist
from memorist.kinds import KINDS
from memorist.memory import Memory

ROOT = Path(__file__).parent.parent
PACKAGES = ROOT / "packages"
CORE = "memorist."
LAYERS = """base storage content text models search kinds learning context admin jobs memory aio capture chat api
            client importing mcp server coding_agents cli __main__ testing __init__""".split()  # noqa: SIM905
"""Packages from the bottom up: each imports only those before it."""
PEERS = {
    "server": {"mcp"},
    "mcp": set(),
    "client": set(),
    "importing": set(),
    "coding_agents": set(),
}
"""Packages that do not import each other, with the exceptions. The command line starts them all."""
ENGINE_FILES = {"memorist.storage.connect", "memorist.search.index", "memorist.base.settings"}
FRAMEWORK_CLASSES = {"sqlitesession"}  # of the OpenAI Agents SDK; it is no engine of ours
IMPORTS_BY_NAME = (
    "memorist.__init__",
    "memorist.cli.main",
)  # from a table of constants, when first used
EXECUTES = {"eval", "exec", "compile", "__import__", "importlib.import_module", "yaml.load"}
MAX_PARAMETERS = 6
WIDE_FUNCTIONS = {
    "memorist.client.Client.chat_events",
    "memorist.importing.__init__.import_from",
    "memorist.memory.Memory.open",
    "memorist_frameworks.agent_framework.MemoristHistoryProvider.__init__",
}
"""Functions that users call with keywords; the last one has the options of the framework's class."""
SLOW_TO_IMPORT = """fastapi starlette uvicorn mcp pydantic pydantic_ai genai_prices httpx httpx2 openai
    numpy onnxruntime orjson psycopg rich yaml regex markdown_it rs_bpe""".split()  # noqa: SIM905


@cache
def modules() -> dict[str, ast.Module]:
    """Return the syntax tree of every module of every package, by its name."""
    return {
        ".".join(path.relative_to(source).with_suffix("").parts): ast.parse(path.read_text())
        for source in sorted(PACKAGES.glob("*/src"))
        for path in sorted(source.rglob("*.py"))
    }


def core() -> list[str]:
    """Return the names of the modules of the core."""
    return [name for name in modules() if name.startswith(CORE)]


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


def graph(depth: int, within: str = CORE) -> dict[str, set[str]]:
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
        name = package.removeprefix("memorist.")
        for other in (package.removeprefix("memorist.") for package in imported):
            assert LAYERS.index(other) < LAYERS.index(name), f"{name} imports {other}"
            if name in PEERS and other in PEERS:
                assert other in PEERS[name], f"{name} imports {other}"


def test_the_core_imports_no_other_package() -> None:
    """It finds them through entry points."""
    for name in core():
        assert not [other for other in imports(name) if not other.startswith(CORE)], name


def test_other_packages_import_only_public_names_of_the_core() -> None:
    for name in modules().keys() - set(core()):
        for node in nodes(name):
            if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(CORE):
                parts = [*str(node.module).split("."), *(alias.name for alias in node.names)]
                assert not [part for part in parts if part.startswith("_")], name


def test_no_import_cycles() -> None:
    """Neither between packages, nor between kinds, nor between single modules."""
    for edges in (graph(2), graph(3, "memorist.kinds."), graph(9, "memorist")):
        TopologicalSorter(edges).prepare()  # raises CycleError, which names the cycle


def test_packages_that_meet_have_no_modules_of_the_same_name() -> None:
    """Otherwise `from memorist.x import tools` does not tell a reader which tools."""
    leaves: dict[str, set[str]] = {}
    for name in core():
        package, _, leaf = name.rpartition(".")
        leaves.setdefault(package, set()).add(leaf)
    for name in core():
        package = name.rpartition(".")[0]
        for imported in {imported.rpartition(".")[0] for imported in imports(name)} - {package}:
            shared = leaves[package] & leaves[imported] - {"__init__"}
            assert not shared, f"{package} imports {imported}; both have {shared}"


def test_engines_are_named_only_in_their_files() -> None:
    for name in modules():
        is_engine = any(
            part.removeprefix("memorist_").startswith(("sqlite", "postgres", "oracle"))
            for part in name.split(".")
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


def functions(name: str) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions of a module by their full names."""
    result: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    waiting: list[tuple[str, ast.AST]] = [(name, modules()[name])]
    while waiting:
        place, parent = waiting.pop()
        for node in ast.iter_child_nodes(parent):
            inner = place
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{place}.{node.name}"
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                result[inner] = node
            waiting.append((inner, node))
    return result


def test_functions_have_few_parameters() -> None:
    """More than six are a missing record. Verbs are public and called with keywords."""
    wide = set()
    for module in modules():
        for name, function in functions(module).items():
            arguments = function.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            count = len([argument for argument in every if argument.arg not in ("self", "cls")])
            is_verb = any(
                isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "verb"
                for decorator in function.decorator_list
            )
            if count > MAX_PARAMETERS and not is_verb:
                wide.add(name)
    assert wide == WIDE_FUNCTIONS


def test_no_two_classes_of_the_core_share_a_name() -> None:
    """Otherwise a reader does not know which one `Session` is. An underscore makes no difference."""
    places: dict[str, list[str]] = {}
    for name in core():
        for node in nodes(name):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


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


def test_importing_memorist_imports_nothing_until_a_name_is_used() -> None:
    imported = imported_by("import memorist")
    assert {name for name in imported if name.startswith("memorist")} == {
        "memorist",
        "memorist.base",
        "memorist.base.version",
    }


def test_memory_imports_no_server_and_no_model() -> None:
    script = """
from memorist import Memory
with Memory.open("memory:") as memory:
    memory.scope(user="ada").state.set("mood", {"now": "calm"})
"""
    packages = {name.partition(".")[0] for name in imported_by(script)}
    assert not {*SLOW_TO_IMPORT} & packages


def test_memory_imports_what_few_programs_call_later() -> None:
    imported = imported_by("from memorist import Memory")
    assert (
        not {
            "asyncio",
            "http.client",
            "memorist.jobs.runner",
            "memorist.storage.transfer.copy",
            "ssl",
            "statistics",
        }
        & imported
    )


def test_the_server_starts_without_mcp_and_models() -> None:
    script = """
from memorist.server.process.serve import create_app
from memorist import Memory
create_app(Memory.open("memory:"))
"""
    packages = {name.partition(".")[0] for name in imported_by(script)}
    assert not {"mcp", "pydantic_ai", "openai", "anthropic", "numpy", "onnxruntime"} & packages


def test_help_imports_no_memory() -> None:
    script = """
from memorist.cli.main import main
try:
    main(["--help"])
except SystemExit:
    pass
"""
    imported = imported_by(script)
    assert not {"memorist.memory", "memorist.kinds", "memorist.base.settings", "apsw"} & imported


def test_public_names_are_those_that_editors_see() -> None:
    tree = modules()["memorist.__init__"]
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == memorist._MODULES
    assert sorted(seen) == memorist.__all__
    assert all(getattr(memorist, name).__name__ == name for name in seen)
    assert {*seen} <= {*dir(memorist)}
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = memorist.Nothing  # type: ignore[attr-defined]


def test_no_test_file_imports_another() -> None:
    """What tests share is in testkit, which the tests of every package use; it imports no tests."""
    files = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("packages/*/tests/**/*.py")]
    for path in [*files, *ROOT.glob("testkit/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                imported = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                imported = (
                    [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                )
            for name in imported:
                assert ".test_" not in name.removeprefix("testkit"), f"{path} imports {name}"
                assert path.parent.name != "testkit" or not name.startswith("tests."), path
