"""The house stays as it was drawn: floors, rooms, where SQL and engines may be named, sizes, and faces that miss nothing."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from retain.faces.ways import SCOPE_WAYS, WAYS, WORDS
from retain.kinds import KINDS
from retain.kinds.kind import Kind
from retain.memory import Memory, Scope

PACKAGE = Path(__file__).parent.parent / "src" / "retain"
MODULES = sorted(PACKAGE.rglob("*.py"))
FLOORS = (
    {
        "errors",
        "ids",
        "clock",
        "tokens",
        "canonical",
        "settings",
        "placeholder",
        "masking",
        "section",
        "tool",
        "texts",
        "talk",
        "models",
        "testing",
    },
    {"storage"},
    {"search"},
    {"kinds"},
    {"context", "work", "access"},
    {"memory"},
    {"aio", "capture", "chat"},
    {
        "faces",
        "gate",
        "rest",
        "streams",
        "mcp",
        "watch",
        "server",
        "web",
        "client",
        "adapters",
        "wires",
        "importers",
        "__init__",
    },
)
PARTS = {
    "kinds.checkpoint",
    "kinds.document",
    "kinds.draft",
    "kinds.entry",
    "kinds.item",
    "kinds.reference",
    "kinds.reference_tools",
    "kinds.saying",
}
FOR_ADAPTERS = {"checkpoints", "graph", "items.read", "items.write"}
"""Kinds without ways: what is in them is another program's own, and only that program can say it."""
LATE = {
    "storage/connect.py": {"storage.postgres"},
    "faces/mcp.py": {"mcp.server"},
    "faces/serve.py": {"server.serve"},
}
"""What is imported only when it is used, because it needs an optional library."""


def name(path: Path) -> str:
    """A path as it reads in a failure."""
    return str(path.relative_to(PACKAGE))


def room(parts: tuple[str, ...]) -> str:
    """The room, or the file on the ground floor, that a module belongs to."""
    return parts[0].removesuffix(".py")


def floor(where: str) -> int:
    """How high a room lies."""
    return next(height for height, rooms in enumerate(FLOORS) if where in rooms)


def own_imports(tree: ast.AST) -> list[tuple[str, ast.stmt]]:
    """The modules of retain that a syntax tree imports, as `kinds.messages`."""
    found: list[tuple[str, ast.stmt]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module == "retain":
                found += [(alias.name, node) for alias in node.names]
            elif (node.module or "").startswith("retain."):
                found.append(((node.module or "").removeprefix("retain."), node))
        elif isinstance(node, ast.Import):
            found += [
                (alias.name.removeprefix("retain."), node)
                for alias in node.names
                if alias.name.startswith("retain.")
            ]
    return found


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_file_imports_its_own_floor_or_a_lower_one(path: Path) -> None:
    here = room(path.relative_to(PACKAGE).parts)
    for module, _ in own_imports(ast.parse(path.read_text())):
        assert floor(room(tuple(module.split(".")))) <= floor(here), (
            f"{here} imports {module}, which lies higher"
        )


@pytest.mark.parametrize("path", sorted((PACKAGE / "kinds").glob("*.py")), ids=name)
def test_kinds_do_not_import_each_other(path: Path) -> None:
    """But for the parts of a kind whose file would be too long: records and rules that know of no database."""
    imported = {
        module
        for module, _ in own_imports(ast.parse(path.read_text()))
        if module.startswith("kinds")
    }
    assert path.name == "__init__.py" or imported <= {
        "kinds",
        "kinds.kind",
        "kinds.finding",
        *PARTS,
    }
    if f"kinds.{path.stem}" in PARTS:
        assert not any(
            module.startswith("storage") for module, _ in own_imports(ast.parse(path.read_text()))
        )


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_no_import_of_our_own_inside_a_function(path: Path) -> None:
    """But for what needs an optional library."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = {module for module, _ in own_imports(node)}
            assert inside <= LATE.get(name(path), set())


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_engines_are_named_only_where_they_live(path: Path) -> None:
    """A third engine must be a file, not a hunt."""
    if path.name.startswith(("sqlite", "postgres")) or name(path) in (
        "storage/connect.py",
        "search/connect.py",
        "settings.py",
    ):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        used = [getattr(node, field, None) for field in ("id", "attr", "module", "name")]
        for word in ("sqlite", "postgres", "apsw", "psycopg"):
            assert not any(word in text.lower() for text in used if isinstance(text, str)), (
                ast.unparse(node)
            )


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_opens_with_why_it_exists(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_nothing_stored_is_ever_run(path: Path) -> None:
    """B26: no pickle, no eval, no dynamic import, no yaml.load."""
    tree = ast.parse(path.read_text())
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not imported & {"pickle", "marshal", "shelve", "dill"}
    assert not called & {
        "eval",
        "exec",
        "__import__",
        "importlib.import_module",
        "yaml.load",
        "compile",
    }


def verbs(kind: type) -> set[str]:
    """What can be asked of a kind: its public methods that need no open transaction and are not every kind's."""
    found = [
        (n, method)
        for n, method in inspect.getmembers(kind, inspect.isfunction)
        if not hasattr(Kind, n)
    ]
    return {
        n
        for n, method in found
        if not n.startswith("_") and "tx" not in inspect.signature(method).parameters
    }


def test_every_verb_of_every_kind_has_a_way() -> None:
    assert {(way.kind, way.verb) for way in WAYS} == {
        (kind.name, verb)
        for kind in KINDS
        for verb in verbs(kind)
        if not {kind.name, f"{kind.name}.{verb}"} & FOR_ADAPTERS
    }
    assert len(WAYS) == len({way.command for way in WAYS})


def test_every_parameter_is_explained_and_no_other() -> None:
    used = {
        (kind.name, parameter)
        for kind in KINDS
        for verb in verbs(kind)
        if not {kind.name, f"{kind.name}.{verb}"} & FOR_ADAPTERS
        for parameter in list(inspect.signature(getattr(kind, verb)).parameters)[1:]
    } | {
        ("", parameter)
        for way in SCOPE_WAYS
        for parameter in list(inspect.signature(getattr(Scope, way.verb)).parameters)[1:]
    }
    here = {word for word in WORDS if "." in word}
    assert {parameter for _, parameter in used} == set(WORDS) - here
    assert here <= {f"{kind}.{parameter}" for kind, parameter in used}


def test_a_scope_has_every_kind() -> None:
    with Memory.open("memory:") as memory:
        scope: Scope = memory.scope()
        assert {type(value) for value in vars(scope).values()} >= set(KINDS)
        assert all(hasattr(scope, kind.name) for kind in KINDS)


def test_importing_retain_imports_no_server_and_no_model() -> None:
    script = (
        "import retain, sys; print(*sorted({module.partition('.')[0] for module in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    heavy = {
        "fastapi",
        "starlette",
        "uvicorn",
        "mcp",
        "pydantic",
        "pydantic_ai",
        "genai_prices",
        "httpx",
        "httpx2",
        "openai",
        "numpy",
        "onnxruntime",
        "psycopg",
        "rich",
        "yaml",
        "regex",
        "markdown_it",
        "rs_bpe",
    }
    assert not heavy & set(done.stdout.split())
