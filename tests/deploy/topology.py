"""Start the services of a compose file as plain processes, with the settings of that file.

Each service gets its own address (127.x.y.1, .2, …), so every port is the one of the file. The names
of services in settings and configuration files are replaced by these addresses, `0.0.0.0` by the
address of the service itself, and paths in a container by paths in a temporary folder. Everything
else is used as it is written. The images themselves are not used: their programs are.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import containerfile
import yaml

from testkit.servers import modern_binaries, prepare_folder, without_root

ROOT = Path(__file__).parent.parent.parent
STAGES = containerfile.parse((ROOT / "Containerfile").read_text(encoding="utf-8"))
IMAGE = STAGES[-1]
PATIENCE = 120
PASSWORDS = {
    "POSTGRES_PASSWORD": "super-1",
    "MEMORIST_OWNER_PASSWORD": "owner-1",
    "MEMORIST_LOGIN_PASSWORD": "login-1",
}
PROGRAMS = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
PROXY_COMMAND = ["haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]
"""What the entry point of the HAProxy image runs."""


def read_compose(name: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Return a compose file with its variables filled in, as the compose specification says."""
    text = (ROOT / "deploy" / name).read_text(encoding="utf-8")
    services: dict[str, Any] = yaml.safe_load(text)["services"]
    return {name: _fill_in(service, env) for name, service in services.items()}


def _fill_in(value: Any, env: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _fill_in(item, env) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill_in(item, env) for item in value]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        name, operator, text = match.groups()
        if env.get(name):
            return env[name]
        if operator == ":?":
            raise LookupError(f"{name}: {text}")
        return text or ""

    return re.sub(r"\$\{(\w+)(?:(:[?-])([^}]*))?\}", replace, value)


class Topology:
    """The services of a compose file, as processes of this machine.

    servers, runners: copies of the server and of the job runner, if the file has fewer
    """

    def __init__(
        self, name: str, env: Mapping[str, str], *, servers: int = 2, runners: int = 1
    ) -> None:
        self.services = read_compose(name, env)
        for number in range(3, servers + 1):
            self.services[f"server-{number}"] = self.services["server-1"]
        for number in range(2, runners + 1):
            self.services[f"jobs-{number}"] = self.services["jobs"]
        self.folder = prepare_folder(Path(tempfile.mkdtemp(prefix="memorist-compose-")))
        network = f"127.{random.randint(1, 250)}.{random.randint(1, 250)}"
        self.addresses = {
            service: f"{network}.{number}" for number, service in enumerate(self.services, 1)
        }
        self.started: set[str] = set()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *services: str) -> None:
        """Start services, by default all, after those that they depend on."""
        for service in services or self.services:
            if service in self.started:
                continue
            self.start_dependencies(service)
            self.start_service(service)
            self.started.add(service)

    def start_dependencies(self, service: str) -> None:
        """Start the services that a service depends on."""
        for dependency in self.services[service].get("depends_on", ()):
            self.start(dependency)

    def start_service(self, service: str) -> None:
        """Start a service and wait until it is healthy or, for a single task, has ended."""
        if service == "postgres":
            self._start_postgres()
            return
        env, command = self.command_of(service)
        process = self._spawn(service, command, env)
        if self.services[service].get("restart") == "no":
            assert process.wait(PATIENCE) == 0, self.log(service)
        elif port := {"pgbouncer": 6432, "proxy": 8080}.get(service):
            self._wait_for_port(service, port)
        elif service.startswith("server"):
            self._wait_until_healthy(service, env)

    def command_of(self, service: str) -> tuple[dict[str, str], list[str]]:
        """Return the environment and the command of a service."""
        settings = self.services[service]
        image = settings["image"]
        env = {"PATH": PROGRAMS}
        variables: dict[str, str] = {}
        if image == "localhost/memorist":
            variables = {name: IMAGE.env[name] for name in IMAGE.env if name != "PATH"}
            command = [*IMAGE.entrypoint, *settings.get("command", IMAGE.command)]
        elif image == "localhost/memorist-pgbouncer":
            text = (ROOT / "deploy/pgbouncer/Containerfile").read_text(encoding="utf-8")
            command = containerfile.parse(text)[-1].command
        else:
            assert image.startswith("docker.io/library/haproxy:")
            command = PROXY_COMMAND
        for name, value in settings.get("environment", {}).items():
            if value is not None:  # without a value, the variable of this machine is passed on
                variables[name] = value
        env |= {name: self._local(service, value) for name, value in variables.items()}
        return env, [self._local(service, word) for word in command]

    def run(self, service: str, *arguments: str) -> str:
        """Run one command of the image with the settings of a service, as `compose run` does."""
        self.start_dependencies(service)
        env, _ = self.command_of(service)
        done = subprocess.run(
            [*IMAGE.entrypoint, *arguments], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def kill(self, service: str) -> None:
        """Kill a service without a warning."""
        self.processes[service].send_signal(signal.SIGKILL)
        self.processes[service].wait()

    def terminate(self, service: str) -> int:
        """Stop a service as an engine does, with SIGTERM; return its exit status."""
        self.processes[service].terminate()
        return self.processes[service].wait(PATIENCE)

    def log(self, service: str) -> str:
        """Return the end of what a service has written."""
        return (self.folder / f"{service}.log").read_text(errors="replace")[-3000:]

    def stop(self) -> None:
        """Stop everything and delete the files."""
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
        if (self.folder / "data/postmaster.pid").exists():
            self._postgres("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _local(self, service: str, text: str) -> str:
        """Replace the addresses and paths of containers by those of this machine."""
        for volume in self.services[service].get("volumes", ()):
            source, target, *_ = volume.split(":")
            if source.startswith("./") and target in text:
                text = text.replace(target, str(self._configuration(service, source)))
        return self._replace(service, text)

    def _replace(self, service: str, text: str) -> str:
        text = text.replace("/tmp/users", f"{self.folder}/users")
        if text == IMAGE.volumes[0]:
            text = str(self.folder)
        text = text.replace("0.0.0.0", self.addresses[service])
        for name, address in self.addresses.items():
            text = re.sub(rf"(?<=[@=]){name}\b(?!-)|\b{name}(?=:\d)", address, text)
        return text

    def _configuration(self, service: str, source: str) -> Path:
        """Write a copy of a configuration file with the addresses of this machine."""
        text = (ROOT / "deploy" / source).read_text(encoding="utf-8")
        if "server server-1 " in text:
            for name in self.services:
                if name.startswith("server-") and f"server {name} " not in text:
                    text += f"    server {name} {name}:7700\n"
        copy = self.folder / Path(source).name
        copy.write_text(self._replace(service, text))
        return copy

    def _spawn(
        self, service: str, command: list[str], env: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        with (self.folder / f"{service}.log").open("ab") as log:
            process = subprocess.Popen(
                without_root(command), env=env, cwd=self.folder, stdout=log, stderr=log
            )
        self.processes[service] = process
        return process

    def _wait_for_port(self, service: str, port: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self.processes[service].poll() is None:
            try:
                socket.create_connection((self.addresses[service], port), 2).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise AssertionError(self.log(service))

    def _wait_until_healthy(self, service: str, env: dict[str, str]) -> None:
        """Run the health command of the image until it succeeds."""
        health = [word.replace("127.0.0.1", self.addresses[service]) for word in IMAGE.health]
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self.processes[service].poll() is None:
            if subprocess.run(health, env=env, capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.2)
        raise AssertionError(self.log(service))

    def _start_postgres(self) -> None:
        """Create the database as the image's entry point does, run its scripts, then serve."""
        settings = self.services["postgres"]
        env = settings["environment"]
        data = str(self.folder / "data")
        password = self.folder / "password"
        password.write_text(env["POSTGRES_PASSWORD"])
        self._postgres(
            "initdb",
            "-D",
            data,
            f"--username={env['POSTGRES_USER']}",
            f"--pwfile={password}",
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            "--encoding=UTF8",
        )
        socket_folder = self.folder.as_posix()
        options = f"-c listen_addresses={self.addresses['postgres']} -p 5432 -k {socket_folder}"
        log = str(self.folder / "postgres.log")
        self._postgres("pg_ctl", "-D", data, "-o", options, "-l", log, "-w", "start")
        client = {"PATH": PROGRAMS, "PGHOST": socket_folder, **env}
        create = ["psql", "-U", env["POSTGRES_USER"], "-d", "postgres", "-c"]
        create.append(f'create database "{env["POSTGRES_DB"]}"')
        subprocess.run(create, env=client, check=True, capture_output=True)
        for volume in settings["volumes"]:
            source, target, *_ = volume.split(":")
            if target.startswith("/docker-entrypoint-initdb.d/"):
                script = ROOT / "deploy" / source
                assert os.access(script, os.X_OK)  # the image would read it into its own shell
                subprocess.run([str(script)], env=client, check=True, capture_output=True)

    def _postgres(self, program: str, *arguments: str) -> None:
        binaries = modern_binaries()
        env = {
            "PATH": PROGRAMS,
            "LD_LIBRARY_PATH": str(binaries.parent / "lib"),
            "LC_ALL": "C.UTF-8",
        }
        subprocess.run(
            without_root([str(binaries / program), *arguments]),
            env=env,
            cwd=self.folder,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


class Client:
    """Calls one service over HTTP."""

    def __init__(self, topology: Topology, service: str, port: int, key: str = "") -> None:
        self.address = (topology.addresses[service], port)
        self.key = key

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(*self.address, timeout=30)
        headers = {"Content-Type": "application/json", "Host": "localhost:7700"}
        headers |= {"X-Memorist-User": "ada", "X-Memorist-Agent": "scout"}
        if self.key:
            headers["X-API-Key"] = self.key
        connection.request(method, path, json.dumps(body) if body else None, headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, json.loads(content) if content else None
