"""Vendors' own test suites, run against our classes; downloaded on demand, pinned by hash, and not
committed.
"""

from __future__ import annotations

import base64
import configparser
import hashlib
import html
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

CACHE = Path(__file__).parents[3] / ".cache" / "vendors"
PLUGINS = Path(__file__).parent / "plugins"
INDEX = "https://pypi.org/simple"
SETTINGS = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
CONFIGURED = (
    os.environ.get("PIP_CONFIG_FILE", ""),
    "~/.config/pip/pip.conf",
    "~/.pip/pip.conf",
    "/etc/xdg/pip/pip.conf",
    "/etc/pip.conf",
)
NEEDED = ("pytest_asyncio.plugin", "pytest_retry.retry_plugin", "anyio.pytest_plugin")
LIMIT = 280  # seconds, less than one test may take


@dataclass(frozen=True)
class Outcome:
    """Results by test name, such as `tests.test_store::test_put[x]`, and the output of pytest."""

    passed: frozenset[str]
    failed: frozenset[str]
    skipped: frozenset[str]
    output: str

    def differences(self, expected: Iterable[str]) -> str:
        """Return unexpected failures and unexpected successes; empty if there are none."""
        listed = set(expected)
        lines = [f"fails: {name}" for name in sorted(self.failed - listed)]
        lines += [f"listed, but does not fail: {name}" for name in sorted(listed - self.failed)]
        return "\n".join([*lines, self.output[-20_000:]]) if lines else ""


def fetch(name: str, version: str, sha256: str) -> Path:
    """Download and unpack the source distribution of a release."""
    stem = f"{name.replace('-', '_').lower()}-{version}"
    folder = CACHE / f"{stem}-{sha256[:12]}" / stem
    if folder.is_dir():
        return folder
    data = _download(name, f"{stem}.tar.gz")
    result = hashlib.sha256(data).hexdigest()
    if result != sha256:
        raise ValueError(
            f"{stem}.tar.gz has the hash {result}, not {sha256}: look why before you pin another"
        )
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as place:
        Path(place, "it.tar.gz").write_bytes(data)
        with tarfile.open(Path(place, "it.tar.gz")) as archive:
            archive.extractall(Path(place, "unpacked"), filter="data")
        try:
            Path(place, "unpacked").rename(folder.parent)  # whole or not at all
        except OSError:
            if not folder.is_dir():  # nobody else was faster
                raise
    return folder


def run(
    folder: Path,
    plugin: str,
    environment: Mapping[str, str],
    tests: Iterable[str] = ("tests",),
    arguments: Iterable[str] = (),
) -> Outcome:
    """Run tests in a vendor's folder with one of our plugins, in a new process.

    Only the pytest plugins in NEEDED are loaded: importing all takes longer than most suites.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST", "MEMORIST_"))
    }
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-p", plugin, "-p", "no:cacheprovider"]
        command += [word for name in NEEDED for word in ("-p", name)]
        command += [
            f"--rootdir={folder}",
            f"--junitxml={report}",
            f"--basetemp={place}/tmp",
            *arguments,
            *tests,
        ]
        environment = {
            **inherited,
            **environment,
            "PYTHONPATH": str(PLUGINS),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        ended = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT
        )
        output = ended.stdout + ended.stderr
        if ended.returncode not in (0, 1) or not report.exists():
            raise RuntimeError(f"pytest ended with {ended.returncode}:\n{output[-10_000:]}")
        return _outcome(report, output)


def _outcome(report: Path, output: str) -> Outcome:
    results: dict[str, set[str]] = {"passed": set(), "failed": set(), "skipped": set()}
    for case in ElementTree.parse(report).iter("testcase"):
        tags = {child.tag for child in case}
        end = (
            "failed"
            if tags & {"failure", "error"}
            else "skipped"
            if "skipped" in tags
            else "passed"
        )
        results[end].add(f"{case.get('classname')}::{case.get('name')}")
    bad = frozenset(results["failed"])
    return Outcome(
        frozenset(results["passed"]) - bad, bad, frozenset(results["skipped"]) - bad, output
    )


def _download(name: str, file: str) -> bytes:
    """Download a file from the first index that has it."""
    for index in _indexes():
        page = f"{index.rstrip('/')}/{re.sub(r'[-_.]+', '-', name).lower()}/"
        try:
            text, address = _open(page)
        except (urllib.error.URLError, OSError):
            continue
        for link in re.findall(r"""href\s*=\s*["']([^"'#]+)""", text.decode()):
            target = urllib.parse.urljoin(address, html.unescape(link))
            if urllib.parse.unquote(target.rsplit("/", 1)[1]) == file:
                return _open(target)[0]
    raise LookupError(
        f"no package index here has {file}: {[urllib.parse.urlsplit(index).hostname for index in _indexes()]}"
    )


def _indexes() -> list[str]:
    """Return the indexes of the environment, of the pip configuration, and the public one."""
    results = [os.environ[name] for name in SETTINGS if os.environ.get(name)]
    for path in filter(None, CONFIGURED):
        parser = configparser.RawConfigParser()
        parser.read(Path(path).expanduser())
        results += parser.get("global", "index-url", fallback="").split()
        results += parser.get("global", "extra-index-url", fallback="").split()
    return list(dict.fromkeys([*results, INDEX]))


def _open(address: str) -> tuple[bytes, str]:
    """Return the content of an address, and the final address."""
    parts = urllib.parse.urlsplit(address)
    if parts.scheme == "file":
        path = Path(urllib.request.url2pathname(parts.path))
        return (path / "index.html" if path.is_dir() else path).read_bytes(), address
    headers = {"Accept": "text/html, application/octet-stream;q=0.9, */*;q=0.1"}
    if parts.username:
        pair = (
            f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        )
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        address = parts._replace(netloc=parts.netloc.rsplit("@", 1)[1]).geturl()
    with urllib.request.urlopen(
        urllib.request.Request(address, headers=headers), timeout=60
    ) as answer:
        return answer.read(), answer.url
