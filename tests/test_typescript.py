"""The TypeScript client: its own tests and its examples, against a running server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testkit.talking import RunningServer, serve
from testkit.typescript import CLIENT, ROOT, build_site, node

serving = contextmanager(serve)
TESTS = sorted((CLIENT / "test").glob("*.test.ts"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    """A server without a model."""
    with serving(f"sqlite:///{tmp_path}/agent.db", None) as running:
        yield running


@pytest.mark.parametrize("file", TESTS, ids=lambda path: path.name)
def test_the_client_passes_its_own_tests(server: RunningServer, file: Path) -> None:
    env = {**os.environ, "MEMORIST_URL": server.url, "MEMORIST_KEY": server.key}
    command = [node(), "--test", "--test-reporter=spec", str(file)]
    done = subprocess.run(
        command, cwd=CLIENT, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_ai_sdk_example_remembers(server: RunningServer) -> None:
    output = run_example(server, CLIENT / "examples" / "ai-sdk.ts")
    assert "Nice, Lisbon!\nremembered: Lisbon.\n" in output
    assert output.count("\nuser ") == 2
    assert output.count("\nassistant ") == 2


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_mastra_example_remembers(server: RunningServer, tmp_path: Path) -> None:
    """Its packages are large, so they are installed only here."""
    folder = tmp_path / "mastra"
    shutil.copytree(CLIENT / "examples" / "mastra", folder)
    package = (folder / "package.json").read_text(encoding="utf-8")
    (folder / "package.json").write_text(package.replace("file:../..", f"file:{CLIENT}"))
    npm, env = build_site().node()
    node()
    done = subprocess.run(
        [*npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert run_example(server, folder / "storage.ts") == "remembered: In Lisbon.\nfound: items\n"


def test_the_code_of_the_guide_runs(server: RunningServer, tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guides" / "typescript.md").read_text(encoding="utf-8")
    code = "".join(re.findall(r"```ts\n(.*?)```", guide, re.DOTALL))
    for shown, used in (
        ("memorist-client", str(CLIENT / "dist" / "index.js")),
        ("http://127.0.0.1:7700", server.url),
        ("mst_…", server.key),
    ):
        assert shown in code
        code = code.replace(shown, used)
    file = tmp_path / "guide.ts"
    file.write_text(code + "console.log(hits[0]?.text);\n", encoding="utf-8")
    output = run_example(server, file)
    assert output.startswith("1 { text: 'My sister Clara moved to Lisbon.' }\n")
    assert output.endswith("My sister Clara moved to Lisbon.\n")


def test_no_name_is_exported_twice() -> None:
    """A user of the package could not name one of the two."""
    names: list[str] = []
    for file in ("schema.ts", "types.ts", "verbs.ts"):
        code = (CLIENT / "src" / file).read_text(encoding="utf-8")
        names += re.findall(r"^export (?:type|interface|class) (\w+)", code, re.MULTILINE)
    assert "Session" in names
    assert {name for name in names if names.count(name) > 1} == set()


def run_example(server: RunningServer, file: Path) -> str:
    """Run an example against the server and return its output."""
    env = {**os.environ, "MEMORIST_URL": server.url, "MEMORIST_KEY": server.key}
    done = subprocess.run(
        [node(), str(file)], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
