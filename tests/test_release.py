"""The release script rejects a tree that is not ready; the files of a release agree."""

from __future__ import annotations

import itertools
import json
import os
import re
import runpy
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from memorist.base.version import VERSION
from memorist.cli.main import parser

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "release.py"
problems = runpy.run_path(str(SCRIPT))["problems"]

CHANGELOG = "# Changes\n\n## 0.7.0 (2026-11-16)\n"


def test_a_clean_tree_with_a_dated_section_is_ready() -> None:
    assert problems("0.7.0", CHANGELOG, "", ["v0.6.0"], "main") == []


def test_every_problem_is_reported() -> None:
    missing = problems(
        "0.8.0", CHANGELOG + "## 0.8.0 (unreleased)\n", " M README.md", ["v0.8.0"], "fix"
    )
    assert [sentence.split(":")[0] for sentence in missing] == [
        "CHANGELOG.md has no section '## 0.8.0 (YYYY-MM-DD)'.",
        "CHANGELOG.md has a section marked 'unreleased'",
        "The tag v0.8.0 exists",
        "The working tree has uncommitted changes",
        "The current branch is fix",
    ]


def test_the_version_is_the_same_everywhere() -> None:
    package = json.loads((ROOT / "clients/typescript/package.json").read_text(encoding="utf-8"))
    server = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    assert package["version"] == VERSION
    for path in ROOT.glob("packages/*/pyproject.toml"):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        assert project.get("version", VERSION) == VERSION, path
        extras = project.get("optional-dependencies", {}).values()
        for dependency in itertools.chain(project.get("dependencies", ()), *extras):
            if dependency.startswith("memorist") and not dependency.startswith("memorist["):
                assert dependency.endswith(f"=={VERSION}"), path
    assert [server["version"], *(item["version"] for item in server["packages"])] == [VERSION] * 2


def test_the_command_of_the_mcp_registry_exists() -> None:
    server = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    arguments = [
        part.get("value") or part["name"] for part in server["packages"][0]["packageArguments"]
    ]
    flags = [part for name in arguments[1:] for part in (name, "ada")]
    parsed = parser([arguments[0]]).parse_args([arguments[0], *flags])
    assert (parsed.user, parsed.agent) == ("ada", "ada")


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name
)
def test_workflows_and_templates_name_files_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert yaml.safe_load(text)
    for name in re.findall(r"(?:scripts|tests|clients|\.ci)/[\w/.]+", text):
        assert (ROOT / name.rstrip(".")).exists(), name
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in re.findall(r"run: make ([\w -]+)", text):
        for target in command.split():
            assert f"\n{target}:" in targets


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.parametrize(
    ("target", "packages"), [("test-tools", "suites"), ("test-all", "clients")]
)
def test_one_process_installs_the_packages_for_mcp(target: str, packages: str) -> None:
    """Two at once, with `make -j`, would delete each other's files."""
    env = {"PATH": os.environ["PATH"]}  # without the options of the `make` that runs the tests
    plan = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    ).stdout
    assert re.findall(r"test_tools.sh (suites|clients)", plan) == [packages]


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_bench_recall_reads_the_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").touch()
    (tmp_path / "README.md").touch()
    env = {"PATH": os.environ["PATH"]}
    for data in (tmp_path, tmp_path / "a.json.gz"):
        plan = subprocess.run(
            ["make", "--dry-run", "bench-recall", f"DATA={data}"],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert f"memorist eval {tmp_path}/a.json.gz --out .cache/eval" in plan
