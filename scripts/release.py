"""Check that the working tree is ready for a release, and tag it.

python scripts/release.py            run every check and print the problems
python scripts/release.py --tag      the same, then create the tag vX.Y.Z
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from retain.base.version import VERSION

ROOT = Path(__file__).parent.parent


def git(*arguments: str) -> str:
    """Run git in the project and return its output."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def problems(version: str, changelog: str, status: str, tags: list[str], branch: str) -> list[str]:
    """Return the problems that block a release, as sentences."""
    sentences = []
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d{{2}}-\d{{2}}\)$", changelog, re.M):
        sentences.append(f"CHANGELOG.md has no section '## {version} (YYYY-MM-DD)'.")
    if "(unreleased)" in changelog:
        sentences.append("CHANGELOG.md has a section marked 'unreleased': give it a date.")
    if f"v{version}" in tags:
        sentences.append(
            f"The tag v{version} exists: raise the version in src/retain/base/version.py."
        )
    if status:
        sentences.append("The working tree has uncommitted changes: commit or remove them.")
    if branch != "main":
        sentences.append(f"The current branch is {branch}: release from main.")
    return sentences


def main() -> int:
    """Run the checks, then the test suite, then tag."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tag", action="store_true", help="create the tag if every check passes")
    arguments = parser.parse_args()
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sentences = problems(
        VERSION,
        changelog,
        git("status", "--porcelain"),
        git("tag", "--list").split(),
        git("branch", "--show-current"),
    )
    for sentence in sentences:
        print(sentence, file=sys.stderr)
    if sentences:
        return 1
    for target in ("check", "test"):
        if subprocess.run(["make", target], cwd=ROOT, check=False).returncode:
            print(f"make {target} failed.", file=sys.stderr)
            return 1
    if arguments.tag:
        git("tag", "--annotate", f"v{VERSION}", "--message", f"retain {VERSION}")
        print(f"Created the tag v{VERSION}; push it with: git push origin v{VERSION}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
