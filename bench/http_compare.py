"""Compare the HTTP server of this checkout with that of another one: CPU time per request.

    python -m bench.http_compare OTHER_CHECKOUT [--rounds 5] [--seconds 3] [--log-level info]

Each checkout runs `memorist serve` from its own `.venv`, on an empty SQLite database of its own. Both
servers get the same requests in turns, each with an API key, from 32 connections. The figure is the
CPU time of the server process, because other programs on the machine affect it less than elapsed
time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import urllib.request
from pathlib import Path

import psutil

from bench.load import Clients, Job, format_request
from bench.servers import ServerProcess

CLIENTS = 32
LONG_SESSION_MESSAGES = 200
MESSAGE = {"role": "user", "content": "word " * 30}
TOPICS = ("train", "garden", "invoice", "holiday", "printer")


def main() -> None:
    """Measure both servers and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.http_compare", description=__doc__)
    parser.add_argument("other", type=Path, help="the checkout to compare with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each measurement")
    parser.add_argument("--log-level", default="info", help="`warning` turns the request log off")
    options = parser.parse_args()
    here = Path(__file__).parent.parent
    with (
        tempfile.TemporaryDirectory() as folder,
        Clients() as clients,
        Candidate(options.other, Path(folder, "other"), options.log_level) as other,
        Candidate(here, Path(folder, "here"), options.log_level) as this,
    ):
        print(f"{'CPU per request':<16} {'other':>9} {'this':>9} {'speed-up':>14}")
        for name in ("append", "last 50", "search"):
            times: dict[Candidate, list[float]] = {other: [], this: []}
            for number in range(options.rounds + 1):
                for server in (other, this) if number % 2 else (this, other):
                    seconds = measure(clients, server, name, options.seconds)
                    if number:  # the first round warms up
                        times[server].append(seconds)
            before = statistics.median(times[other])
            after = statistics.median(times[this])
            ratios = [theirs / ours for theirs, ours in zip(times[other], times[this], strict=True)]
            spread = f"{min(ratios):.2f}–{max(ratios):.2f}"
            print(
                f"{name:<16} {before * 1e6:6.0f} µs {after * 1e6:6.0f} µs"
                f" {before / after:6.2f} ({spread})",
                flush=True,
            )


class Candidate(ServerProcess):
    """The server of a checkout, with a session for each client and a long one."""

    def __init__(self, checkout: Path, folder: Path, log_level: str) -> None:
        folder.mkdir()
        command = str(checkout.absolute() / ".venv/bin/memorist")
        database = f"sqlite:///{folder}/memory.db"
        created = subprocess.run(
            [command, "keys", "add", "bench", "--permissions", "read,write", "--json"],
            env={**os.environ, "MEMORIST_DATABASE": database},
            capture_output=True,
            check=True,
        )
        self.headers = {
            "Authorization": f"Bearer {json.loads(created.stdout)['key']}",
            "X-Memorist-User": "ada",
            "X-Memorist-Agent": "a",
        }
        super().__init__(
            [command, "serve", "--json", "--port", "0"],
            folder / "log",
            database=database,
            rate_per_second=0,
            log_level=log_level,
        )
        for name in ("long", *(f"s{number}" for number in range(CLIENTS))):
            self.post("/api/sessions", {"id": name})
        for number in range(LONG_SESSION_MESSAGES):
            topic = TOPICS[number % len(TOPICS)]
            content = f"Note {number} about the {topic}: " + "word " * 25
            self.post("/api/messages/long", {"role": "user", "content": content})

    def __enter__(self) -> Candidate:
        return self

    def post(self, path: str, body: object) -> None:
        """Send one request; raise an error unless it succeeds."""
        headers = {**self.headers, "Content-Type": "application/json"}
        data = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method="POST")
        with urllib.request.urlopen(request) as response:
            response.read()

    def requests(self, name: str) -> list[str]:
        """Return the requests of a measurement."""
        if name == "append":
            paths = [f"/api/messages/s{number}" for number in range(CLIENTS)]
            return [format_request("POST", path, MESSAGE, **self.headers) for path in paths]
        if name == "search":
            queries = [{"query": f"the {topic} in March"} for topic in TOPICS]
            return [
                format_request("POST", "/api/search", query, **self.headers) for query in queries
            ]
        return [format_request("GET", "/api/messages/long/window?last=50", **self.headers)]


def measure(clients: Clients, server: Candidate, name: str, seconds: float) -> float:
    """Return the CPU seconds that the server uses per request."""
    process = psutil.Process(server.process.pid)
    before = process.cpu_times()
    outcome = clients.run(Job(server.address, server.requests(name), CLIENTS, seconds))
    after = process.cpu_times()
    if outcome.errors:
        raise RuntimeError(f"Requests failed; responses by status: {dict(outcome.statuses)}")
    used = after.user + after.system - before.user - before.system
    return used / outcome.statuses.total()


if __name__ == "__main__":
    main()
