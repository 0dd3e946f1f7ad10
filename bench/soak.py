"""`make soak ARGS=SECONDS`: check that a server under mixed load does not grow and keeps its data.

Concurrent clients read, append, search, assemble contexts, chat and call MCP without a pause. Memory, threads and open files of
the server are sampled twenty times; the first fifth is warm-up. The exit status is 1 if they grew or any check failed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import psutil

from bench import servers
from bench.harness import TENANT, scope_of
from bench.http_requests import BODY, MEBIBYTE, headers
from bench.load import Clients, Job, Outcome, written
from retain import Memory, Settings

CLIENTS = 16
SAMPLES = 20
WARM = SAMPLES // 5
MAX_GROWTH = 1.1
"""Growth over the warm state that still counts as flat: allocators round up."""
STEP = "{:>8} {:>10} {:>12} {:>8} {:>6} {:>10}  {}"


def requests(key: str) -> list[str]:
    """Return one round of requests for each client."""
    auth_headers = headers(key)
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    both = {"Accept": "application/json, text/event-stream", "MCP_Protocol_Version": "2025-06-18"}
    found = []
    for number in range(CLIENTS):
        session = f"s{number}"
        found += [
            written("POST", f"/api/messages/{session}", BODY, **auth_headers),
            written("GET", f"/api/messages/{session}/window?last=50", **auth_headers),
            written("POST", "/api/search", {"query": "train to Bern"}, **auth_headers),
            written(
                "POST",
                "/api/context",
                {"session": session, "message": "Which platform?"},
                **auth_headers,
            ),
            written("GET", "/api/sessions?limit=20", **auth_headers),
            written(
                "POST",
                "/api/chat",
                {"message": "When does it leave?", "session_id": session},
                **auth_headers,
            ),
            written(
                "POST",
                "/mcp",
                {**rpc, "params": {"name": "list_state", "arguments": {}}},
                **auth_headers,
                **both,
            ),
        ]
    return found


def soak(seconds: float, database: str, folder: Path) -> bool:
    """Run the load; return True if all checks passed."""
    key = servers.key(database, TENANT)
    with Memory.open(database, settings=Settings()) as memory:
        me = scope_of(memory)
        for number in range(CLIENTS):
            me.sessions.add(f"s{number}")
    print(STEP.format("after", "answers", "memory", "threads", "files", "slowest 1%", "statuses"))
    held: list[tuple[int, int, int]] = []
    statuses: Counter[int] = Counter()
    with (
        servers.scripted(database, folder / "log") as server,
        Clients() as clients,
    ):
        process = psutil.Process(server.process.pid)
        job = Job(server.address, requests(key), CLIENTS, seconds / SAMPLES)
        for sample in range(1, SAMPLES + 1):
            outcome = clients.run(job)
            held.append((process.memory_info().rss, process.num_threads(), process.num_fds()))
            statuses += outcome.statuses
            print(_line(sample * seconds / SAMPLES, outcome, held[-1]), flush=True)
    with Memory.open(database, settings=Settings()) as memory:
        wrong = [str(finding) for finding in memory.verify() if not finding.ok]
    bad = {status: number for status, number in statuses.items() if status >= 500 or status == 0}
    grown = _grown(held)
    for name, found in (("verify", wrong), ("bad answers", bad), ("grown", grown)):
        print(f"{name}: {found or 'none'}")
    return not (wrong or bad or grown)


def _line(after: float, outcome: Outcome, held: Sequence[int]) -> str:
    rate, memory = f"{outcome.good:,.0f}/s", f"{held[0] / MEBIBYTE:.1f} MiB"
    statuses = dict(sorted(outcome.statuses.items()))
    return STEP.format(
        f"{after:.0f} s",
        rate,
        memory,
        held[1],
        held[2],
        f"{outcome.slowest(0.99) * 1000:.0f} ms",
        statuses,
    )


def _grown(held: Sequence[tuple[int, int, int]]) -> list[str]:
    """Return the measures that grew: the last fifth of the samples against the second."""
    found = []
    for place, name in enumerate(("memory", "threads", "files")):
        warm, end = (
            statistics.median(sample[place] for sample in samples)
            for samples in (held[WARM : 2 * WARM], held[-WARM:])
        )
        if end > warm * MAX_GROWTH + (0 if name == "memory" else 8):
            found.append(f"{name} {warm:,.0f} to {end:,.0f}")
    return found


def main() -> int:
    """Run the soak test."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak",
        description="Run a server under mixed load and check that it does not grow.",
    )
    parser.add_argument("seconds", type=float, nargs="?", default=300.0)
    parser.add_argument("--database", help="an empty database; default: a new SQLite file")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="retain-soak-") as folder:
        database = chosen.database or f"sqlite:///{folder}/soak.db"
        return 0 if soak(chosen.seconds, database, Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
