"""The README's blocks in the environment that its own install line makes, from the built wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from testkit.servers import free_port

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
INSTALL = re.compile(r"pip install --find-links /path/to/this/clone/dist '(memorist\[[\w,]+\])'")
PYTHON_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
CURL = re.compile(r"^    (curl .*\\\n.*)$", re.MULTILINE)


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command without the settings and packages of this process."""
    stored = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = stored | {
        "HOME": str(folder),
        "PATH": f"{folder}/env/bin{os.pathsep}{stored['PATH']}",
    }
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def install(folder: Path) -> None:
    """Make the environment of the README: an empty one, with the packages it names."""
    for package in sorted(ROOT.glob("packages/*/pyproject.toml")):
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", f"{folder}/dist"]
        subprocess.run(build, cwd=package.parent, check=True, capture_output=True)
    named = INSTALL.search(README)
    assert named
    assert run([sys.executable, "-m", "venv", "env"], folder).returncode == 0
    install = ["env/bin/pip", "install", "--quiet", "--find-links", "dist", named[1]]
    done = run(install, folder)
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"the packages cannot be installed: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr


@contextmanager
def served(folder: Path, port: int) -> Iterator[None]:
    """Run the server of the environment."""
    command = [str(folder / "env/bin/memorist"), "serve", "--port", str(port)]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + 60
            while not is_ready(port):
                assert time.monotonic() < deadline, "the server does not start"
                time.sleep(0.1)
            yield
        finally:
            server.terminate()


def is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_block_of_the_readme_runs(tmp_path: Path) -> None:
    install(tmp_path)
    library, client, langgraph = PYTHON_BLOCK.findall(README)
    (request,) = CURL.findall(README)
    port = free_port()

    def at_port(text: str) -> str:
        assert "7700" in text
        return text.replace("7700", str(port))

    for block in (library, langgraph):
        done = run(["env/bin/python", "-c", block], tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout
    with served(tmp_path, port):
        answered = run(["bash", "-c", at_port(request)], tmp_path)
        assert '"memory_only": true' in answered.stdout, answered
        result = run(["env/bin/python", "-c", at_port(client)], tmp_path)
        assert "My sister Clara moved to Lisbon." in result.stdout, result.stderr
