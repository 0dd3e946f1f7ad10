"""Packages: the wheel contains the web app, built from its sources, and runs in an empty environment;
without Node.js the wheel says that it has no web app.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from memorist import Client
from memorist.base.version import VERSION
from memorist.server.routes import web_app
from testkit.browser import ROOT

PACKAGE = "packages/memorist"
PACKAGED = (
    "pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "src/memorist/__init__.py",
    "src/memorist/base/version.py", "src/memorist/search/static.LICENSE",
)  # fmt: skip
FILES = (
    *(f"{PACKAGE}/{name}" for name in PACKAGED),
    "scripts/build_site.py",
    "web/package.json",
    "web/package-lock.json",
    "web/index.html",
)


def pack(target: str, root: Path, to: Path, **env: str) -> tuple[Path, str]:
    """Build a wheel or an sdist; return the file and the output."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(to)]
    done = subprocess.run(
        command, cwd=root, env=os.environ | env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (item,) = to.iterdir()
    return item, done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what a build needs, with a nearly empty package."""
    root = tmp_path / "project"
    for file in FILES:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, root / file)
    (root / ".gitignore").write_text("packages/memorist/src/memorist/server/site/\n")
    return root


def test_the_wheel_has_the_page_and_its_version(tmp_path: Path) -> None:
    created, _ = pack("wheel", ROOT / PACKAGE, tmp_path)
    assert created.name == f"memorist-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(created) as wheel:
        names = wheel.namelist()
        page = wheel.read("memorist/server/site/index.html").decode()
        metadata = wheel.read(f"memorist-{VERSION}.dist-info/METADATA").decode()
        assert f"Version: {VERSION}\n" in metadata
    loaded = re.findall(r'(?:src|href)="/([^"]*)"', page)
    assert any(re.fullmatch(r"assets/index-[\w-]{8}\.js", path) for path in loaded)
    assert {f"memorist/server/site/{path}" for path in loaded} <= set(names)
    assert not [
        name for name in names if "node_modules" in name or name.startswith(("web/", "tests/"))
    ]


@pytest.mark.slow
def test_one_command_serves_the_wheel(
    tmp_path: Path, chromium: Callable[[], Browser], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an empty environment with the extra `server`: the page, MCP and the client work."""
    for name in [name for name in os.environ if name.startswith("MEMORIST_")]:
        monkeypatch.delenv(name)
    wheel, _ = pack("wheel", ROOT / PACKAGE, tmp_path / "dist")
    uv = shutil.which("uv") or str(ROOT / ".cache" / "uv" / "bin" / "uv")
    encoder = ["--with", str(ROOT / "packages" / "memorist-encoder")]
    memorist = [uv, "tool", "run", "--isolated", *encoder, "--from", f"{wheel}[server]", "memorist"]
    usage = subprocess.run(memorist, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert usage.returncode == 0
    assert usage.stdout.startswith("usage: memorist")
    command = [*memorist, "serve", "--port", "0", "--json"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout
        try:
            url = json.loads(process.stdout.readline())["url"]
            page = chromium().new_page()
            page.goto(url)
            page.get_by_role("textbox", name="Message").fill("My sister Clara moved to Lisbon.")
            page.keyboard.press("Enter")
            expect(page.get_by_role("article", name="said").last).to_contain_text("No model")
            page.close()
            asyncio._set_running_loop(None)  # see the fixture
            hello = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            }
            answer = httpx2.post(
                f"{url}/mcp",
                json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
                headers={"Accept": "application/json, text/event-stream"},
                timeout=60,  # the first call imports the library
            )
            assert answer.status_code == 200
            assert '"serverInfo"' in answer.text
            with Client(url) as client:
                (hit,) = client.scope(user="default").search("where is Clara", limit=1)
            assert hit.text == "My sister Clara moved to Lisbon."
        finally:
            process.terminate()
    assert (tmp_path / "memorist.db").exists()


@pytest.mark.slow
def test_without_node_the_wheel_has_no_page_and_a_warning(project: Path, tmp_path: Path) -> None:
    created, text = pack(
        "wheel", project / PACKAGE, tmp_path / "out", PATH=str(tmp_path / "nothing")
    )
    assert "THE WEB APP IS NOT IN THIS PACKAGE" in text
    assert "Node.js 20" in text
    with zipfile.ZipFile(created) as wheel:
        assert "memorist/__init__.py" in wheel.namelist()
        assert not [name for name in wheel.namelist() if "server/site" in name]


def test_the_sdist_has_the_sources_and_the_built_page(project: Path, tmp_path: Path) -> None:
    """A wheel made from it needs no Node.js."""
    (project / "packages/memorist/src/memorist/server/site").mkdir(parents=True)
    for name in ("index.html", "stamp"):
        (project / "packages/memorist/src/memorist/server/site" / name).write_text(name)
    script = [
        sys.executable,
        "-c",
        "import build_site; build_site.STAMP.write_text(build_site.sources())",
    ]
    subprocess.run(script, cwd=project / "scripts", check=True)
    created, text = pack(
        "sdist", project / PACKAGE, tmp_path / "out", PATH=str(tmp_path / "nothing")
    )
    assert "the web app is built" in text
    with tarfile.open(created) as sdist:
        sdist.extractall(tmp_path / "there", filter="data")
    (root,) = (tmp_path / "there").iterdir()
    assert {path for path in PACKAGED if not (root / path).is_file()} == set()
    wheel, text = pack("wheel", root, tmp_path / "again", PATH=str(tmp_path / "nothing"))
    assert "NOT IN THIS PACKAGE" not in text
    with zipfile.ZipFile(wheel) as result:
        assert result.read("memorist/server/site/index.html") == b"index.html"


def test_a_server_starts_without_the_page(project: Path, tmp_path: Path) -> None:
    script = [sys.executable, str(project / "scripts" / "build_site.py")]
    env = os.environ | {"PATH": str(tmp_path)}
    alone = subprocess.run(script, env=env, capture_output=True, text=True, check=False)
    assert alone.returncode == 1
    assert "Node.js 20.19, or 22.12 or newer" in alone.stderr
    serving = subprocess.run(
        [*script, "--if-possible"], env=env, capture_output=True, text=True, check=False
    )
    assert serving.returncode == 0
    assert "the server runs without it" in serving.stderr
    for version in ("18.20.4", "21.7.0", "22.11.0"):
        fake_node(tmp_path, version)
        assert (
            version
            in subprocess.run(script, env=env, capture_output=True, text=True, check=False).stderr
        )


def fake_node(folder: Path, version: str) -> None:
    """Create a Node.js that cannot build anything."""
    for program, does in (("node", f"echo v{version}"), ("npm", "exit 1")):
        (folder / program).write_text(f"#!/bin/sh\n{does}\n")
        (folder / program).chmod(0o755)


@pytest.mark.parametrize("version", [None, "22.12.0"])
def test_a_wheel_is_never_built_with_an_outdated_page(
    project: Path, tmp_path: Path, version: str | None
) -> None:
    """If nothing can be built, or the build fails, there is no wheel, and the error says why."""
    built = project / "packages/memorist/src/memorist/server/site"
    built.mkdir(parents=True)
    for name in ("index.html", "stamp"):
        (built / name).write_text("old")
    bin = tmp_path / "bin"
    bin.mkdir()
    if version:
        fake_node(bin, version)
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        str(tmp_path / "out"),
    ]
    env = os.environ | {"PATH": str(bin)}
    done = subprocess.run(
        command, cwd=project / PACKAGE, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert ("`npm ci --no-audit" if version else "build it again or remove it") in done.stderr
    assert not list(tmp_path.glob("out/*.whl"))
    serving = [sys.executable, str(project / "scripts" / "build_site.py"), "--if-possible"]
    assert subprocess.run(serving, env=env, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("package", ["web", "clients/typescript"])
def test_lock_files_name_only_the_public_registry(package: str) -> None:
    """No lock file has the address of a local mirror; hashes identify the files."""
    hosts = set(re.findall(r"https?://([^/\"]+)", (ROOT / "uv.lock").read_text()))
    assert hosts <= {"pypi.org", "files.pythonhosted.org"}
    locked = json.loads((ROOT / package / "package-lock.json").read_text())["packages"]
    wrong = {name: value["resolved"] for name, value in locked.items() if "resolved" in value}
    assert not wrong
    assert all(
        "integrity" in value for name, value in locked.items() if name and not value.get("link")
    )
    named = {name for value in locked.values() for name in value.get("optionalDependencies", {})}
    there = {name.rpartition("node_modules/")[2] for name in locked}
    assert named <= there, (
        "npm ci refuses it: what other machines need is missing, make it where the registry has all of it"
    )


def test_the_built_page_has_only_its_own_files_and_is_small() -> None:
    """P0.6: no inline script or style, nothing from other hosts, under 150 kB compressed at first."""
    there = web_app.files(web_app.FOLDER)
    assert there, "the page was not built: make site"
    page = there["index.html"].content.decode()
    assert not re.search(
        r"<style|style=|\son\w+=|javascript:|//", page.replace("<!doctype html>", "")
    )
    named = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert named
    assert {path.removeprefix("/") for path in named} <= there.keys()
    assert "<script>" not in page
    first = sum(
        len(there[path.removeprefix("/")].packed or b"") for path in named if path.endswith(".js")
    )
    assert 0 < first < 150_000
