"""The release script rejects a tree that is not ready."""

from __future__ import annotations

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "scripts" / "release.py"
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
