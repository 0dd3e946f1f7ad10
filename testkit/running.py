"""Run a server on a real port: in a thread of the test, or as a separate process."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from memorist import Memory
from memorist.server.process.serve import Server, bind, server
from testkit.limited import write_limits

COMMAND = str(Path(sys.executable).with_name("memorist"))


@contextlib.contextmanager
def running(memory: Memory, *, jobs: bool = True) -> Iterator[tuple[Server, tuple[str, int]]]:
    """Run a server in a thread and yield it with its address."""
    ready = threading.Event()
    created = server(memory, ready.set, jobs=jobs)
    with bind("127.0.0.1", 0) as listener:
        address = listener.getsockname()
        thread = threading.Thread(target=created.run, kwargs={"sockets": [listener]})
        thread.start()
        assert ready.wait(30)
        try:
            yield created, address
        finally:
            created.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


def exchange(address: tuple[str, int], *pieces: bytes, timeout: float = 10) -> bytes:
    """Send pieces over a new connection and read until the peer closes it."""
    with socket.create_connection(address, timeout) as connection:
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                connection.sendall(piece)
        text = b""
        with contextlib.suppress(ConnectionError):
            while block := connection.recv(65536):
                text += block
        return text


def run_script(script: str, *words: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run a Python script in a process of its own."""
    command = [sys.executable, "-c", script, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, **how)


class Process:
    """`memorist serve` as a process."""

    key = ""

    def __init__(
        self, database: str, *flags: str, limits: Mapping[str, float] | None = None, **settings: Any
    ) -> None:
        env = {
            name: value for name, value in os.environ.items() if not name.startswith("MEMORIST_")
        }
        env |= {f"MEMORIST_{name.upper()}": str(value) for name, value in settings.items()}
        command = [
            COMMAND,
            "serve",
            "--json",
            "--port",
            "0",
            "--database",
            database,
            *flags,
        ]
        self._folder = tempfile.TemporaryDirectory()
        if limits:
            write_limits(limits, Path(self._folder.name))
            env["PYTHONPATH"] = self._folder.name
        self.process = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.errors: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, f"it ended with {self.process.wait(10)}: {self.errors}"
        self.url = json.loads(line)["url"]
        split = urlsplit(self.url)
        assert split.hostname
        assert split.port
        self.address = (split.hostname, split.port)

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.errors.append(line)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        connection: http.client.HTTPConnection | None = None,
    ) -> Any:
        """Send a request; return the status and the JSON of the response."""
        mine = connection or http.client.HTTPConnection(*self.address, timeout=20)
        sent = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {self.key}"} if self.key else {}
        )
        mine.request(method, path, sent, headers)
        answer = mine.getresponse()
        result = answer.read()
        if connection is None:
            mine.close()
        is_json = "json" in (answer.getheader("Content-Type") or "")
        return answer.status, json.loads(result) if is_json else result

    def stop(self, number: int = signal.SIGTERM, timeout: float = 20) -> int:
        """Send a signal and wait; return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
        for stream in (self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
