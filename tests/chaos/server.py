"""A server process that is killed and restarted on one port."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

import psutil

from memorist import Memory
from memorist.admin.principal import PERMISSIONS
from testkit.databases import SETTINGS
from testkit.keys import create_key
from testkit.running import Process
from tests.chaos.writer import TENANT

STOP_SECONDS = 30.0  # after which it would exit with 1; a slow machine is not what is tested


class Server:
    """`memorist serve`, restarted on one port."""

    def __init__(
        self,
        database: str,
        workers: int = 1,
        limits: dict[str, float] | None = None,
        **settings: Any,
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._database, self._workers = database, workers
        self._limits = {"STOP_SECONDS": STOP_SECONDS, "DRAIN_SECONDS": 0.1, **(limits or {})}
        self._settings = {"rate_per_second": 0, "tenant": TENANT, **settings}
        with Memory.open(database, settings=SETTINGS) as memory:
            self.key = create_key(memory, TENANT, "a test", PERMISSIONS)[1]

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.__exit__(None, None, None)

    def start(self) -> None:
        """Start it; the port may become free a moment later."""
        flags = ("--port", str(self.port), "--workers", str(self._workers))
        self.process = Process(self._database, *flags, limits=self._limits, **self._settings)
        self.process.key = self.key

    def kill(self) -> None:
        """Kill -9 every process, the supervisor first, which would restart the others."""
        parent = psutil.Process(self.process.process.pid)
        every = [parent, *parent.children()]
        for process in every:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(every, 20)
        self.process.__exit__(None, None, None)

    def stop(self) -> None:
        """Send SIGTERM; it exits with nothing unfinished (P11) and logs no failure."""
        assert self.process.stop(timeout=STOP_SECONDS + 20) == 0
        assert not any("Traceback" in line for line in self.process.errors), "".join(
            self.process.errors
        )
        self.process.__exit__(None, None, None)
