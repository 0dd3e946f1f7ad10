"""The architecture: packages in layers, no cycles, SQL and engine names only where they belong."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from retain.api.endpoints import ENDPOINTS, PARAMETER_HELP, SCOPE_ENDPOINTS
from retain.kinds import KINDS
from retain.kinds.kind import Kind
from retain.memory import Memory, Scope

PACKAGE = Path(__file__).parent.parent / "src" / "retain"
LAYERS = [
    "base",
    "storage",
    "messages",
    "text",
    "models",
    "search",
    "kinds",
    "context",
    "auth",
    "jobs",
    "memory",
    "aio",
    "capture",
    "chat",
    "api",
    "client",
    "integrations",
    "mcp",
    "server",
    "cli",
    "testing",
    "__init__",
]
"""Packages from the bottom up: each imports only those before it."""
PEERS = {"server": {"mcp"}, "mcp": set(), "client": set(), "integrations": set()}
"""Packages that do not import each other, with the exceptions. The command line may start any of them."""
FOR_ADAPTERS = {"checkpoints", "graph", "items.read", "items.write"}
"""Kinds and verbs without an endpoint: only an adapter of a framework calls them."""
ENGINE_FILES = ("storage/connect.py", "search/index.py", "base/settings.py")


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Yield each module's path within the package and its syntax tree."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text())


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the packages of retain that a module imports, however it spells the import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module == "retain":
                yield from (alias.name for alias in node.names)
            elif (node.module or "").startswith("retain."):
                yield str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            yield from (name[1] for name in names if name[0] == "retain" and len(name) > 1)


def test_packages_import_only_lower_layers() -> None:
    for path, tree in sources():
        package = path.split("/", maxsplit=1)[0].removesuffix(".py")
        for imported in set(imports(tree)) - {package}:
            assert LAYERS.index(imported) < LAYERS.index(package), f"{path} imports {imported}"
            if package in PEERS and imported in PEERS:
                assert imported in PEERS[package], f"{path} imports {imported}"


def test_engines_are_named_only_in_their_files() -> None:
    for path, tree in sources():
        if Path(path).name.startswith(("sqlite", "postgres")) or path in ENGINE_FILES:
            continue
        for node in ast.walk(tree):
            names = [getattr(node, field, None) for field in ("id", "attr", "module", "name")]
            for word in ("sqlite", "postgres", "apsw", "psycopg"):
                used = [name for name in names if isinstance(name, str) and word in name.lower()]
                assert not used, f"{path}: {ast.unparse(node)}"


def test_every_module_has_a_docstring() -> None:
    for path, tree in sources():
        assert ast.get_docstring(tree), path


def test_stored_data_is_never_executed() -> None:
    """B26: no pickle, no eval, no dynamic import, no yaml.load."""
    for path, tree in sources():
        nodes = list(ast.walk(tree))
        imported = {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
        called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
        assert not imported & {"pickle", "marshal", "shelve", "dill"}, path
        forbidden = {
            "eval",
            "exec",
            "__import__",
            "importlib.import_module",
            "yaml.load",
            "compile",
        }
        assert not called & forbidden, path


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
    assert {(endpoint.kind, endpoint.verb) for endpoint in ENDPOINTS} == {
        (kind.name, verb)
        for kind in KINDS
        for verb in verbs(kind)
        if not {kind.name, f"{kind.name}.{verb}"} & FOR_ADAPTERS
    }
    assert len(ENDPOINTS) == len({endpoint.command for endpoint in ENDPOINTS})


def test_every_parameter_is_explained_and_no_other() -> None:
    used = {
        (kind.name, parameter)
        for kind in KINDS
        for verb in verbs(kind)
        if not {kind.name, f"{kind.name}.{verb}"} & FOR_ADAPTERS
        for parameter in list(inspect.signature(getattr(kind, verb)).parameters)[1:]
    } | {
        ("", parameter)
        for endpoint in SCOPE_ENDPOINTS
        for parameter in list(inspect.signature(getattr(Scope, endpoint.verb)).parameters)[1:]
    }
    here = {word for word in PARAMETER_HELP if "." in word}
    assert {parameter for _, parameter in used} == set(PARAMETER_HELP) - here
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
