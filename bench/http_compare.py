"""Compare the HTTP server of this checkout with that of another one: CPU time per request.

    python -m bench.http_compare OTHER_CHECKOUT [--rounds 5] [--seconds 3] [--log-level info]

Each checkout runs `retain serve` from its own `.venv`, on an empty SQLite database of its own. Both
servers get the same requests in turns, from 32 connections. The figure is the CPU time of the
server process, which other programs on the machine change less than the time on the clock.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import urllib.request
from pathlib import Path

import psutil

from bench.load import Clients, Job, written
from bench.served import Served

CLIENTS = 32
LONG_SESSION_MESSAGES = 200
MESSAGE = {"role": "user", "content": "word " * 30}
HEADERS = {"X_Retain_User": "ada", "X_Retain_Agent": "a"}
TOPICS = ("train", "garden", "invoice", "holiday", "printer")


def main() -> None:
    """Measure both servers and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.http_compare", description=__doc__)
    parser.add_argument("other", type=Path, help="the checkout to compare with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--log-level", default="info", help="`warning` turns the request log off")
    options = parser.parse_args()
    requests = {
        "append": [
            written("POST", f"/api/messages/s{number}", MESSAGE, **HEADERS)
            for number in range(CLIENTS)
        ],
        "last 50": [written("GET", "/api/messages/long/window?last=50", **HEADERS)],
        "search": [
            written("POST", "/api/search", {"query": f"the {topic} in March"}, **HEADERS)
            for topic in TOPICS
        ],
    }
    here = Path(__file__).parent.parent
    with (
        tempfile.TemporaryDirectory() as folder,
        Clients() as clients,
        start(options.other, Path(folder, "other"), options.log_level) as other,
        start(here, Path(folder, "here"), options.log_level) as this,
    ):
        fill(other)
        fill(this)
        print(f"{'CPU per request':<16} {'other':>9} {'this':>9} {'speed of this':>14}")
        for name, texts in requests.items():
            times: dict[Served, list[float]] = {other: [], this: []}
            for number in range(options.rounds + 1):
                for server in (other, this) if number % 2 else (this, other):
                    seconds = measure(clients, server, texts, options.seconds)
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


def start(checkout: Path, folder: Path, log_level: str) -> Served:
    """Start the server of a checkout."""
    folder.mkdir()
    command = [str(checkout.absolute() / ".venv/bin/retain"), "serve", "--json", "--port", "0"]
    return Served(
        command,
        folder / "log",
        database=f"sqlite:///{folder}/memory.db",
        rate_per_second=0,
        work_inside="false",
        log_level=log_level,
    )


def fill(server: Served) -> None:
    """Add a session for each client, and a long one."""
    for name in ("long", *(f"s{number}" for number in range(CLIENTS))):
        post(server, "/api/sessions", {"id": name})
    for number in range(LONG_SESSION_MESSAGES):
        topic = TOPICS[number % len(TOPICS)]
        content = f"Note {number} about the {topic}: " + "word " * 25
        post(server, "/api/messages/long", {"role": "user", "content": content})


def post(server: Served, path: str, body: object) -> None:
    """Send one request; raise an error unless it succeeds."""
    headers = {name.replace("_", "-"): value for name, value in HEADERS.items()}
    headers["Content-Type"] = "application/json"
    data = json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data, headers, method="POST")
    with urllib.request.urlopen(request) as response:
        response.read()


def measure(clients: Clients, server: Served, requests: list[str], seconds: float) -> float:
    """Return the seconds of CPU time that the server took per request."""
    process = psutil.Process(server.process.pid)
    before = process.cpu_times()
    outcome = clients.run(Job(server.address, requests, CLIENTS, seconds))
    after = process.cpu_times()
    if outcome.errors:
        raise RuntimeError(f"requests failed: {dict(outcome.statuses)}")
    used = after.user + after.system - before.user - before.system
    return used / outcome.statuses.total()


if __name__ == "__main__":
    main()
