"""The measured servers: `memorist serve`, memorist with a scripted model, and an empty route."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from memorist import Memory, Settings
from memorist.admin.principal import PERMISSIONS
from memorist.models import Models
from memorist.testing import ScriptedModel
from testkit.keys import create_key

COMMAND = str(Path(sys.executable).with_name("memorist"))


class ServerProcess(AbstractContextManager["ServerProcess"]):
    """A running server and its address."""

    def __init__(self, command: list[str], log: Path, **settings: Any) -> None:
        env = {
            name: value for name, value in os.environ.items() if not name.startswith("MEMORIST_")
        }
        env |= {f"MEMORIST_{name.upper()}": str(value) for name, value in settings.items()}
        with log.open("w") as errors:  # the log is on, because its cost counts too
            self.process = subprocess.Popen(
                command, env=env, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"The server did not start: {log.read_text()}")
        self.url: str = json.loads(line)["url"]
        split = urlsplit(self.url)
        self.address = (split.hostname or "", split.port or 0)

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()
        assert self.process.stdout
        self.process.stdout.close()


def memorist(database: str, log: Path, *flags: str, **settings: Any) -> ServerProcess:
    """Run `memorist serve` on a database."""
    command = [COMMAND, "serve", "--json", "--port", "0", "--database", database, *flags]
    return ServerProcess(command, log, **{"rate_per_second": 0, **settings})


def empty(log: Path) -> ServerProcess:
    """Run a server with one empty route, with the same library and options."""
    return ServerProcess([sys.executable, "-m", "bench.servers", "empty"], log)


def scripted(database: str, log: Path, **settings: Any) -> ServerProcess:
    """Run memorist with a scripted model."""
    command = [sys.executable, "-m", "bench.servers", "scripted", database]
    return ServerProcess(command, log, **{"rate_per_second": 0, **settings})


def key(database: str, tenant: str) -> str:
    """Create an API key with all permissions."""
    with Memory.open(database, settings=Settings()) as memory:
        return create_key(memory, tenant, "a benchmark", PERMISSIONS)[1]


def main() -> None:
    """Serve until a signal arrives."""
    import uvicorn
    from fastapi import FastAPI

    from memorist.server.observe import logs
    from memorist.server.process.serve import KEEP_ALIVE_SECONDS, bind, server

    with bind("127.0.0.1", 0) as listener:
        listener.listen(2048)
        host, port = listener.getsockname()

        def ready() -> None:
            print(json.dumps({"url": f"http://{host}:{port}"}), flush=True)

        if sys.argv[1] == "empty":
            app = FastAPI()

            @app.get("/")
            async def nothing() -> dict[str, str]:
                return {}

            config = uvicorn.Config(
                app,
                ws="none",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
            )
            # The socket already listens, so a client that is too early waits.
            threading.Timer(0.5, ready).start()
            uvicorn.Server(config).run(sockets=[listener])
            return
        settings = Settings.load(database=sys.argv[2])

        def answer(_: object) -> str:
            model.requests.clear()  # otherwise it would keep every prompt
            return "The train leaves at seven past nine, from platform four."

        model = ScriptedModel(answer)
        with Memory.open(settings=settings, models=Models(settings, main=model)) as memory:
            logs.configure(settings)
            server(memory, ready).run(sockets=[listener])


if __name__ == "__main__":
    main()
