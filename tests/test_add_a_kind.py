"""The walkthrough "Add a kind" of CONTRIBUTING.md, applied to a copy of the package and used."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
STEP = re.compile(
    r"(?:Create|In) `(?P<path>[^`\n]+)`"  # a file
    r"|after\s+`(?P<anchor>[^`\n]+)`"  # a line of the file that was named last
    r"|^```(?:python|sql)\n(?P<block>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
SCRIPT = """
import io

from starlette.testclient import TestClient

from retain import Memory
from retain.auth.api_keys import Keys
from retain.auth.principal import PERMISSIONS
from retain.cli.main import main
from retain.server.app import create_app

url = "sqlite:///bookmarks.db"
with Memory.open(url) as memory:
    me = memory.scope(user="ada")
    first = me.bookmarks.add("https://example.org/trains", title="Night trains")
    assert [bookmark.title for bookmark in me.bookmarks.list()] == ["Night trains"]
    (hit,) = me.search("night trains", kinds=["bookmarks"])
    assert (hit.kind, hit.id) == ("bookmarks", first.id)
    assert not memory.scope(user="eve").bookmarks.list().items
    exported = io.BytesIO()
    memory.export(exported)
    assert b"https://example.org/trains" in exported.getvalue()
    assert all(finding.ok for finding in memory.verify()), memory.verify()

    with TestClient(create_app(memory), base_url="http://127.0.0.1") as http:
        key = Keys(memory.database).create("default", "a test", PERMISSIONS)[1]
        headers = {"Authorization": f"Bearer {key}", "X-Retain-User": "ada"}
        body = {"url": "https://example.org/maps", "title": "Maps"}
        added = http.post("/api/bookmarks", json=body, headers=headers)
        assert added.status_code == 201, added.text
        listed = http.get("/api/bookmarks", headers=headers).json()
        assert [bookmark["title"] for bookmark in listed["data"]] == ["Night trains", "Maps"]
        query = {"query": "maps", "kinds": ["bookmarks"]}
        found = http.post("/api/search", json=query, headers=headers).json()
        assert found["hits"][0]["id"] == added.json()["id"]

assert main(["bookmarks", "add", "https://example.org/tea", "--title", "Tea", "--user", "ada", "--database", url]) == 0
assert main(["bookmarks", "list", "--user", "ada", "--database", url]) == 0
assert main(["search", "tea", "--kind", "bookmarks", "--user", "ada", "--database", url]) == 0
assert main(["export", "all.jsonl", "--database", url]) == 0
assert "https://example.org/tea" in open("all.jsonl").read()
"""


def test_the_walkthrough_adds_a_kind(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "site")
    )
    apply_walkthrough(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("https://example.org/tea") >= 2, done.stdout


def apply_walkthrough(target: Path) -> None:
    """Create the files and insert the lines that the walkthrough shows."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## Add a kind\n")[2].partition("\n## ")[0]
    path = target
    anchor = ""
    for step in STEP.finditer(section):
        if step["path"]:
            path = target / step["path"]
            anchor = ""
        elif step["anchor"]:
            anchor = step["anchor"]
        elif anchor:
            content = path.read_text(encoding="utf-8")
            assert content.count(f"\n{anchor}\n") == 1, (path, anchor)
            new = content.replace(f"\n{anchor}\n", f"\n{anchor}\n{step['block']}")
            path.write_text(new, encoding="utf-8")
        else:
            path.write_text(step["block"], encoding="utf-8")
