"""Write the version of the core into every package, the npm package, the MCP entry and the chart.

python scripts/set_version.py            write the files
python scripts/set_version.py --check    fail if a file is out of date

The version is in packages/memorist/src/memorist/base/version.py. All packages have the same version,
and depend on each other with `==`, so that an installation never mixes two releases.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from memorist.base.version import VERSION

ROOT = Path(__file__).parent.parent


def main() -> int:
    """Write the files, or check them."""
    files = versioned_files()
    if "--check" not in sys.argv:
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [path for path, text in files.items() if path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)} is out of date: run `make generate`", file=sys.stderr)
    return 1 if stale else 0


def versioned_files() -> dict[Path, str]:
    """Return the text that each file with a version should have."""
    files = {}
    for path in sorted(ROOT.glob("packages/*/pyproject.toml")):
        text = path.read_text(encoding="utf-8")
        text = re.sub(r'^version = "[^"]*"', f'version = "{VERSION}"', text, flags=re.MULTILINE)
        # "memorist-encoder==1.2.3" and "memorist-frameworks[langgraph]==1.2.3"
        text = re.sub(r'("memorist[\w-]*(?:\[[\w,-]*\])?==)[^"]*"', rf'\g<1>{VERSION}"', text)
        files[path] = text
    for path in (ROOT / "clients/typescript/package.json", ROOT / "server.json"):
        text = path.read_text(encoding="utf-8")
        files[path] = re.sub(r'"version": "[^"]*"', f'"version": "{VERSION}"', text)
    chart = ROOT / "deploy/helm/memorist/Chart.yaml"
    text = re.sub(r"^version: .*", f"version: {VERSION}", chart.read_text(), flags=re.MULTILINE)
    text = re.sub(r"^appVersion: .*", f'appVersion: "{VERSION}"', text, flags=re.MULTILINE)
    files[chart] = text
    return files


if __name__ == "__main__":
    sys.exit(main())
