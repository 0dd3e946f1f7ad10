"""A cluster managed by Patroni: a switchover and a killed primary lose no acknowledged write."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
import yaml

from memorist import Memory
from testkit.databases import SETTINGS, memory_folder
from testkit.servers import debian_binaries, free_port, prepare_folder, without_root
from tests.chaos.crowd import Crowd
from tests.chaos.history import History, messages_of
from tests.chaos.writer import SESSION, scope_of

pytestmark = pytest.mark.slow
PATIENCE = 120.0
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
TIMES = {"loop_wait": 1, "retry_timeout": 3, "ttl": 20}
"""Patroni's polling interval, retry timeout and leader lease, in seconds."""


class PatroniCluster:
    """An etcd, and two servers of which one is the primary and waits for the other one."""

    def __init__(self, **times: int) -> None:
        self.folder = prepare_folder(
            Path(tempfile.mkdtemp(prefix="memorist-patroni-", dir=memory_folder()))
        )
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        try:
            self._start_all(times)
        except BaseException:
            self.close()
            raise

    def _start_all(self, times: dict[str, int]) -> None:
        self.ports = {"one": free_port(), "two": free_port()}
        self.apis = {name: f"127.0.0.1:{free_port()}" for name in self.ports}
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        urls = [f"--{kind}-urls={client}" for kind in ("listen-client", "advertise-client")]
        urls += [f"--{kind}={peer}" for kind in ("listen-peer-urls", "initial-advertise-peer-urls")]
        cluster = f"--initial-cluster=default={peer}"
        self._spawn("etcd", "etcd", f"--data-dir={self.folder}/etcd", *urls, cluster)
        for name in self.ports:
            config = yaml.safe_dump(self._config(name, client.removeprefix("http://"), times))
            self.config(name).write_text(config)
            self.start(name)
        self.wait_for_standby()

    def _config(self, name: str, etcd: str, times: dict[str, int]) -> dict[str, object]:
        api = self.apis[name]
        server = f"127.0.0.1:{self.ports[name]}"
        postgres = {
            "listen": server,
            "connect_address": server,
            "data_dir": str(self.folder / name),
            "bin_dir": str(debian_binaries()),
            "pgpass": str(self.folder / f"{name}.pgpass"),
            "authentication": {
                user: {"username": "postgres"} for user in ("superuser", "replication", "rewind")
            },
            "parameters": {"unix_socket_directories": "", "max_connections": 100},
            "pg_hba": [
                "host all all 127.0.0.1/32 trust",
                "host replication all 127.0.0.1/32 trust",
            ],
        }
        shared = {**times, "synchronous_mode": True, "postgresql": {"use_pg_rewind": True}}
        return {
            "scope": "memorist",
            "name": name,
            "restapi": {"listen": api, "connect_address": api},
            "etcd3": {"host": etcd},
            "bootstrap": {"dcs": shared, "initdb": [{"encoding": "UTF8"}, "data-checksums"]},
            "postgresql": postgres,
        }

    def config(self, name: str) -> Path:
        return self.folder / f"{name}.yaml"

    def start(self, name: str) -> None:
        """Start Patroni for one of the servers, which it starts."""
        self._spawn(name, "patroni", str(self.config(name)))

    def _spawn(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                without_root(list(command)),
                cwd=self.folder,
                env={"PATH": PATH, "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def url(self) -> str:
        """The address of both servers."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        return f"postgresql://postgres@{hosts}/postgres"

    def primary(self) -> str:
        """Return the name of the server that accepts writes."""
        with psycopg.connect(self.url, target_session_attrs="read-write") as connection:
            return next(n for n, port in self.ports.items() if port == connection.info.port)

    def wait_for_standby(self) -> None:
        """Wait until Patroni reports a synchronous standby.

        It does so a few seconds after replication becomes synchronous.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            with (
                suppress(OSError),
                urllib.request.urlopen(f"http://{self.apis['one']}/cluster", timeout=5) as response,
            ):
                if any(m["role"] == "sync_standby" for m in json.load(response)["members"]):
                    return
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.2)

    def switch_over(self, primary: str) -> None:
        """Switch over to the standby."""
        command = ["patronictl", "-c", str(self.config(primary)), "switchover", "--force"]
        subprocess.run(without_root(command), cwd=self.folder, check=True, capture_output=True)

    def kill(self, name: str) -> None:
        """Kill a server and its Patroni, as if the machine failed."""
        self.processes[name].kill()
        self.processes[name].wait()
        pid = int((self.folder / name / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)

    def logs(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in sorted(self.folder.glob("*.log")))

    def close(self) -> None:
        """Stop everything."""
        for name in reversed(self.processes):
            process = self.processes[name]
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def cluster() -> Iterator[PatroniCluster]:
    programs = [shutil.which(name, path=PATH) for name in ("patroni", "etcd")]
    if not (debian_binaries() and all(programs)):
        assert not os.environ.get("CI"), "Patroni or etcd is not installed"
        pytest.skip("Patroni or etcd is not installed: `make test-all` installs them")
    with closing(PatroniCluster(**TIMES)) as cluster:
        yield cluster


def test_no_acknowledged_write_is_lost(cluster: PatroniCluster) -> None:
    with Memory.open(cluster.url, settings=SETTINGS, wait_seconds=PATIENCE) as memory:
        me, history = scope_of(memory), History()
        me.sessions.add(SESSION)
        with Crowd(me, history, writers=8, keyed=lambda writer: writer % 4 != 0) as crowd:
            for end in (cluster.switch_over, cluster.kill):
                primary = cluster.primary()
                crowd.wait_for(100)
                end(primary)
                crowd.wait_for(100)
                assert cluster.primary() != primary
                if end == cluster.switch_over:
                    cluster.wait_for_standby()
        assert history.problems(messages_of(me, SESSION)) == []
        assert [finding for finding in memory.verify() if not finding.ok] == []
