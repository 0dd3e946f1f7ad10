"""The Containerfile, as text. `make test-container` executes it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import containerfile
import pytest

from tests.deploy.topology import IMAGE, ROOT, STAGES

IGNORED = containerfile.ignore_patterns((ROOT / ".dockerignore").read_text(encoding="utf-8"))


def test_the_image_runs_without_root_and_with_one_volume() -> None:
    assert re.fullmatch(
        r"[1-9]\d+:[1-9]\d+", IMAGE.user
    )  # a number, so that Kubernetes can check it
    assert IMAGE.volumes == ["/data"]
    assert IMAGE.env["MEMORIST_DATABASE"].startswith("sqlite:////data/")
    assert [IMAGE.env["MEMORIST_PORT"]] == IMAGE.ports
    assert (IMAGE.entrypoint, IMAGE.command) == (["memorist"], ["serve"])
    assert "/readyz" in IMAGE.health[-1]


def test_the_stages_name_their_versions() -> None:
    assert [stage.name for stage in STAGES] == ["web", "build", ""]
    for stage in STAGES:
        assert re.fullmatch(r"docker\.io/library/\w+:\d[\d.]*-.+", stage.image)


def test_every_copied_file_is_in_the_build_context() -> None:
    for stage in STAGES:
        for instruction, rest in stage.steps:
            if instruction == "COPY" and not rest.startswith("--from"):
                for source in rest.split()[:-1]:
                    assert (ROOT / source).exists()
                    assert not containerfile.is_ignored(Path(source), IGNORED)


def test_nothing_private_is_in_the_build_context() -> None:
    for path in (".git/config", ".venv/bin/python", "web/node_modules/a.js", "memorist.db"):
        assert containerfile.is_ignored(Path(path), IGNORED), path


def test_an_unknown_instruction_is_an_error() -> None:
    with pytest.raises(ValueError, match="ONBUILD"):
        containerfile.parse("FROM a\nONBUILD RUN b\n")


def test_the_health_command_fails_without_a_server() -> None:
    done = subprocess.run(
        [sys.executable, *IMAGE.health[1:]],
        env={"MEMORIST_PORT": "9"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
