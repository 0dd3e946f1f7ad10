"""Build every package of a release, try them in empty environments, and tag the version.

python scripts/release.py                 run every step, print what fails, create no tag
python scripts/release.py --tag           the same, then create the tag vX.Y.Z
python scripts/release.py --only build,install,serve,upgrade    some steps, on any tree

check     the changelog, the tree, the branch and the tag; then `make check` and `make test`
build     a wheel and a source distribution of each package, and the npm package, into dist/
install   each extra of the core by itself, into an empty environment, from the built wheels
serve     the server from the wheel: the page, REST, MCP, and a write that it finds again
upgrade   a database of the release before: upgrade it, verify it, roll it back, read it again

RELEASING.md says how the packages are published.
"""

from __future__ import annotations

import argparse
import email
import json
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Sequence
from pathlib import Path

from memorist.base.version import VERSION

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
STEPS = ("check", "build", "install", "serve", "upgrade")
MODULES = {
    "adk": "memorist_frameworks.adk",
    "agent-framework": "memorist_frameworks.agent_framework",
    "anthropic": "memorist_frameworks.anthropic",
    "eval": "memorist_eval",
    "importers": "memorist_importers",
    "langchain": "memorist_frameworks.langchain",
    "langgraph": "memorist_frameworks.langgraph",
    "mcp": "memorist.mcp.server",
    "openai-agents": "memorist_frameworks.openai_agents",
    "oracle": "memorist_oracle",
    "pydantic-ai": "memorist_frameworks.pydantic_ai",
    "server": "memorist.server.http.app",
}
"""A module that each extra must make importable; other extras change what existing modules do."""
FIRST_USE = """
import sys
from memorist import Memory
with Memory.open("sqlite:///first.db") as memory:
    me = memory.scope(user="ada", agent="scout")
    session = me.sessions.resume()
    me.messages.append(session.id, "user", "My sister Clara moved to Lisbon.")
    assert me.search("Clara")[0].text == "My sister Clara moved to Lisbon."
    assert me.context(session.id, "Where is Clara?").messages
if len(sys.argv) > 1:
    __import__(sys.argv[1])
"""
READ_BACK = """
from memorist import Memory
with Memory.open("sqlite:///upgrade.db") as memory:
    (hit,) = memory.scope(user="ada").search("Clara", limit=1)
    assert hit.text == "My sister Clara moved to Lisbon.", hit.text
"""


class ReleaseError(Exception):
    """Raised when a step fails; the message says what to do."""


def main() -> int:
    """Run the steps; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tag", action="store_true", help="create the tag if every step passes")
    parser.add_argument("--only", default=",".join(STEPS), help="steps, separated by commas")
    arguments = parser.parse_args()
    steps = arguments.only.split(",")
    if unknown := sorted(set(steps) - set(STEPS)):
        parser.error(f"unknown steps: {', '.join(unknown)}; the steps are {', '.join(STEPS)}")
    if arguments.tag and steps != list(STEPS):
        parser.error("--tag needs every step: leave out --only")
    try:
        for step in steps:
            print(f"== {step}", flush=True)
            {
                "check": check,
                "build": build,
                "install": install,
                "serve": serve,
                "upgrade": upgrade,
            }[step]()
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.tag:
        git("tag", "--annotate", f"v{VERSION}", "--message", f"memorist {VERSION}")
        print(f"Created the tag v{VERSION}. RELEASING.md says how to publish it.")
    return 0


def git(*arguments: str) -> str:
    """Run git in the project and return its output."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def call(command: Sequence[str | Path], cwd: Path = ROOT) -> str:
    """Run a command and return its output; raise ReleaseError with its errors if it fails."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        shown = " ".join(str(part) for part in command[:6])
        raise ReleaseError(f"`{shown}` failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


# check


def check() -> None:
    """Check the tree, then run the checks and the tests of the project."""
    sentences = problems(
        VERSION,
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        git("status", "--porcelain"),
        git("tag", "--list").split(),
        git("branch", "--show-current"),
    )
    if sentences:
        raise ReleaseError("\n".join(sentences))
    for target in ("check", "test"):
        if subprocess.run(["make", target], cwd=ROOT, check=False).returncode:
            raise ReleaseError(f"make {target} failed.")


def problems(version: str, changelog: str, status: str, tags: list[str], branch: str) -> list[str]:
    """Return the problems that block a release, as sentences."""
    sentences = []
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d{{2}}-\d{{2}}\)$", changelog, re.M):
        sentences.append(f"CHANGELOG.md has no section '## {version} (YYYY-MM-DD)'.")
    if "(unreleased)" in changelog:
        sentences.append("CHANGELOG.md has a section marked 'unreleased': give it a date.")
    if f"v{version}" in tags:
        sentences.append(
            f"The tag v{version} exists: raise the version in memorist/base/version.py."
        )
    if status:
        sentences.append("The working tree has uncommitted changes: commit or remove them.")
    if branch != "main":
        sentences.append(f"The current branch is {branch}: release from main.")
    return sentences


# build


def build() -> None:
    """Build all packages into dist/."""
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    build_python(ROOT, DIST)
    call([sys.executable, "scripts/build_site.py", "client"])
    call(["npm", "pack", "./clients/typescript", "--pack-destination", DIST, "--silent"])
    names = sorted(path.name for path in DIST.iterdir())
    print("\n".join(names))
    if wrong := [name for name in names if VERSION not in name]:
        raise ReleaseError(f"Not of version {VERSION}: {', '.join(wrong)}; run `make generate`.")
    if "memorist/server/site/index.html" not in zipfile.ZipFile(wheel("memorist")).namelist():
        raise ReleaseError("The wheel has no web app: install Node.js and build again.")


def build_python(tree: Path, target: Path) -> None:
    """Build a wheel and a source distribution of each Python package of a tree."""
    for package in sorted(tree.glob("packages/*/pyproject.toml")):
        call([uv(), "build", "--quiet", "--out-dir", target, package.parent], cwd=tree)
    (target / ".gitignore").unlink(missing_ok=True)


def wheel(package: str, folder: Path = DIST) -> Path:
    """Return the built wheel of a package."""
    found = sorted(folder.glob(f"{package.replace('-', '_')}-[0-9]*.whl"))
    if not found:
        raise ReleaseError(f"There is no wheel of {package} in {folder}: run the step build first.")
    return found[-1]


def uv() -> str:
    """Return the uv that `make` uses."""
    return shutil.which("uv") or str(ROOT / ".cache/uv/bin/uv")


# install


def install() -> None:
    """Install the core, and the core with each extra, and use it."""
    for extra in ("", *extras()):
        with tempfile.TemporaryDirectory() as folder:
            python = environment(Path(folder), extra, DIST)
            module = MODULES.get(extra)
            call([python, "-c", FIRST_USE, *([module] if module else [])], cwd=Path(folder))
            usage = call([python.parent / "memorist", "--help"], cwd=Path(folder))
            if not usage.startswith("usage: memorist"):
                raise ReleaseError(f"`memorist --help` prints no usage with the extra {extra!r}.")
        print(f"memorist[{extra}]" if extra else "memorist", "works", flush=True)


def extras() -> list[str]:
    """Return the names of the extras of the core."""
    with zipfile.ZipFile(wheel("memorist")) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    return metadata.get_all("Provides-Extra") or []


def environment(folder: Path, extra: str, wheels: Path) -> Path:
    """Create an environment with the core and an extra from built wheels; return its Python."""
    call([uv(), "venv", "--quiet", "--python", sys.executable, folder / "env"])
    python = folder / "env/bin/python"
    core = wheel("memorist", wheels)
    wanted = f"memorist[{extra}] @ {core.as_uri()}" if extra else str(core)
    options = ["--quiet", "--find-links", str(wheels), "--python", str(python)]
    call([uv(), "pip", "install", *options, wanted], cwd=folder)
    return python


# serve


def serve() -> None:
    """Serve from the wheel, write over HTTP, and find it again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = environment(folder, "server", DIST)
        command = [str(python.parent / "memorist"), "serve", "--port", "0", "--json"]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout
            try:
                url = json.loads(server.stdout.readline())["url"]
                said = {"message": "My sister Clara moved to Lisbon."}
                post(f"{url}/api/chat", said)
                hits = post(f"{url}/api/search", {"query": "Clara"})["data"]
                page = urllib.request.urlopen(url).read().decode()  # our own server
            finally:
                server.terminate()
    if said["message"] not in [hit["text"] for hit in hits]:
        raise ReleaseError("The server of the wheel does not find the message that it stored.")
    if 'id="root"' not in page and "<script" not in page:
        raise ReleaseError("The server of the wheel does not serve the web app.")
    print("the server works")


def post(url: str, body: object) -> dict[str, list[dict[str, str]]]:
    """Send a JSON request to our own server as the user `ada` and return the response."""
    request = urllib.request.Request(
        url,
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "X-Memorist-User": "ada"},
    )
    with urllib.request.urlopen(request) as response:
        answer: dict[str, list[dict[str, str]]] = json.load(response)
    return answer


# upgrade


def upgrade() -> None:
    """Upgrade a database of the release before, verify it, roll it back, and read it there."""
    tags = git("tag", "--list", "v*", "--sort=-v:refname").split()
    before = next((tag for tag in tags if tag != f"v{VERSION}"), None)
    if before is None:
        print("there is no release before this one: nothing to upgrade")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tree, wheels = folder / "tree", folder / "wheels"
        git("worktree", "add", "--detach", str(tree), before)
        try:
            build_python(tree, wheels)
        finally:
            git("worktree", "remove", "--force", str(tree))
        (folder / "old").mkdir()
        (folder / "new").mkdir()
        old = environment(folder / "old", "", wheels)
        new = environment(folder / "new", "", DIST)
        call([old, "-c", FIRST_USE.replace("first.db", "upgrade.db")], cwd=folder)
        url = "sqlite:///upgrade.db"
        memorist = new.parent / "memorist"
        status = json.loads(
            call([memorist, "migrate", "status", "--json", "--database", url], folder)
        )
        call([memorist, "migrate", "up", "--database", url], folder)
        call([new, "-c", READ_BACK], folder)
        call([memorist, "verify", "--database", url], folder)
        target = str(status["version"])
        call([memorist, "migrate", "down", "--to", target, "--yes", "--database", url], folder)
        call([old, "-c", READ_BACK], folder)
    print(f"a database of {before} was upgraded and rolled back")


if __name__ == "__main__":
    sys.exit(main())
