"""The walkthroughs "Add a kind" and "Add a verb" of CONTRIBUTING.md, applied to a copy of the package."""

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
import sys
from pathlib import Path

sys.modules["memorist_encoder"] = None  # like the other tests

from memorist import Memory
from memorist.cli.main import main
from testkit import story
from testkit.examples import EXAMPLES, KEEP
from testkit.interfaces import compare_with_library
from testkit.isolation import check_isolation

# Other tests run the whole story: this one needs only the verbs of the new kind.
story.STORY = story.ENDING = ()
story.VERBS = {name: verb for name, verb in story.VERBS.items() if verb.kind == "bookmarks"}
steps = [step.verb for step in story.complete_story()]
assert steps == ["bookmarks_add", "bookmarks_list", "bookmarks_rename", "bookmarks_remove"], steps
for interface in ("rest", "mcp", "terminal"):
    folder = Path(interface)
    folder.mkdir()
    compare_with_library(interface, folder)
assert check_isolation("rest", ["tenant"]) == 4
assert check_isolation("rest", ["user"]) > 0

url = "sqlite:///bookmarks.db"
with Memory.open(url) as memory:
    me = memory.scope(user="ada")
    EXAMPLES["bookmarks"](me, KEEP)
    first = me.bookmarks.add("https://example.org/trains", title="Night trains")
    (hit,) = me.search("night trains", kinds=["bookmarks"])
    assert (hit.kind, hit.id) == ("bookmarks", first.id)
    exported = io.BytesIO()
    memory.export(exported)
    assert exported.getvalue().count(b"https://") == 2
    assert memory.users.erase("ada").removed["bookmarks"] == 2
    assert memory.import_(io.BytesIO(exported.getvalue())).new
    assert all(finding.ok for finding in memory.verify()), memory.verify()
assert main(["search", "trains", "--kind", "bookmarks", "--user", "ada", "--database", url]) == 0
"""


def test_the_walkthrough_adds_a_kind(tmp_path: Path) -> None:
    source = tmp_path / "packages/memorist/src"
    shutil.copytree(
        ROOT / "packages/memorist/src",
        source,
        ignore=shutil.ignore_patterns("__pycache__", "site"),
    )
    apply_walkthrough(tmp_path)
    generate_commands(tmp_path)
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "https://example.org/trains" in done.stdout


def generate_commands(target: Path) -> None:
    """Write the table of commands again, as `make generate` does."""
    (target / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts/generate_commands.py", target / "scripts")
    environment = {**os.environ, "PYTHONPATH": str(target / "packages/memorist/src")}
    subprocess.run([sys.executable, script], env=environment, check=True)


def apply_walkthrough(target: Path) -> None:
    """Create the files and insert the lines that the walkthrough shows."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## Add a kind\n")[2].partition("\n## Release")[0]
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
