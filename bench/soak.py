"""`make soak ARGS=SECONDS`: check that a server under mixed load does not grow and keeps its data.

Concurrent clients read, append, search, assemble contexts, chat and call MCP without a pause.
Memory, threads and open files of the server are sampled twenty times; the first fifth is warm-up.
After each sample, messages older than a fifth of the run are purged: the amount of data stays the
same after the warm-up, so growth is a leak. The exit status is 1 if anything grew or a check failed.
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
from bench.load import Clients, Job, Outcome, format_request
from memorist import Memory, Settings

CLIENTS = 16
SAMPLES = 20
WARM_UP_SAMPLES = SAMPLES // 5
MAX_GROWTH = 1.1
"""The largest ratio to the state after warm-up that does not count as growth."""
DAY_SECONDS = 86_400
ROW = "{:>8} {:>10} {:>12} {:>8} {:>6} {:>9} {:>10}  {}"


def requests(key: str) -> list[str]:
    """Return one round of requests for each client."""
    auth_headers = headers(key)
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    mcp_headers = {
        "Accept": "application/json, text/event-stream",
        "MCP_Protocol_Version": "2025-06-18",
    }
    round_of_requests = []
    for number in range(CLIENTS):
        session = f"s{number}"
        round_of_requests += [
            format_request("POST", f"/api/messages/{session}", BODY, **auth_headers),
            format_request("GET", f"/api/messages/{session}/window?last=50", **auth_headers),
            format_request("POST", "/api/search", {"query": "train to Bern"}, **auth_headers),
            format_request(
                "POST",
                "/api/context",
                {"session": session, "message": "Which platform?"},
                **auth_headers,
            ),
            format_request("GET", "/api/sessions?limit=20", **auth_headers),
            format_request(
                "POST",
                "/api/chat",
                {"message": "When does it leave?", "session_id": session},
                **auth_headers,
            ),
            format_request(
                "POST",
                "/mcp",
                {**rpc, "params": {"name": "list_state", "arguments": {}}},
                **auth_headers,
                **mcp_headers,
            ),
        ]
    return round_of_requests


def soak(seconds: float, database: str, folder: Path) -> bool:
    """Run the load; return True if all checks passed."""
    key = servers.key(database, TENANT)
    with Memory.open(database, settings=Settings()) as memory:
        me = scope_of(memory)
        for number in range(CLIENTS):
            me.sessions.add(f"s{number}")
    print(
        ROW.format(
            "after", "responses", "memory", "threads", "files", "messages", "p99", "statuses"
        )
    )
    samples: list[tuple[int, int, int]] = []
    statuses: Counter[int] = Counter()
    sample_seconds = seconds / SAMPLES
    with (
        servers.scripted(database, folder / "log") as server,
        Clients() as clients,
    ):
        process = psutil.Process(server.process.pid)
        job = Job(server.address, requests(key), CLIENTS, sample_seconds)
        for number in range(1, SAMPLES + 1):
            outcome = clients.run(job)
            samples.append((process.memory_info().rss, process.num_threads(), process.num_fds()))
            statuses += outcome.statuses
            messages = _purge(database, WARM_UP_SAMPLES * sample_seconds)
            line = _line(number * sample_seconds, outcome, samples[-1], messages)
            print(line, flush=True)
    with Memory.open(database, settings=Settings()) as memory:
        findings = [str(finding) for finding in memory.verify() if not finding.ok]
    failed = {status: number for status, number in statuses.items() if status >= 500 or status == 0}
    warm, end = _warm_and_end(samples, 0)
    ratio = f"{end / warm:.2f} × the state after warm-up"
    print(f"memory: {warm / MEBIBYTE:.1f} MiB to {end / MEBIBYTE:.1f} MiB, {ratio}")
    grown = _grown(samples)
    for name, problems in (("verify", findings), ("failed responses", failed), ("growth", grown)):
        print(f"{name}: {problems or 'none'}")
    return not (findings or failed or grown)


def _purge(database: str, older_than_seconds: float) -> int:
    """Remove old messages; return how many messages there were before."""
    with Memory.open(database, settings=Settings()) as memory:
        messages = memory.counts()["messages"]
        memory.purge(days=older_than_seconds / DAY_SECONDS)
    return messages


def _line(after: float, outcome: Outcome, sample: Sequence[int], messages: int) -> str:
    memory, threads, files = sample
    return ROW.format(
        f"{after:.0f} s",
        f"{outcome.successes_per_second:,.0f}/s",
        f"{memory / MEBIBYTE:.1f} MiB",
        threads,
        files,
        f"{messages:,}",
        f"{outcome.latency(0.99) * 1000:.0f} ms",
        dict(sorted(outcome.statuses.items())),
    )


def _warm_and_end(samples: Sequence[tuple[int, int, int]], index: int) -> tuple[float, float]:
    """Return the medians of a measure: of the second fifth of the samples, and of the last."""
    warm = statistics.median(
        sample[index] for sample in samples[WARM_UP_SAMPLES : 2 * WARM_UP_SAMPLES]
    )
    end = statistics.median(sample[index] for sample in samples[-WARM_UP_SAMPLES:])
    return warm, end


def _grown(samples: Sequence[tuple[int, int, int]]) -> list[str]:
    """Return the measures that grew."""
    grown = []
    for index, name in enumerate(("memory", "threads", "files")):
        warm, end = _warm_and_end(samples, index)
        if end > warm * MAX_GROWTH + (0 if name == "memory" else 8):
            grown.append(f"{name} {warm:,.0f} to {end:,.0f}")
    return grown


def main() -> int:
    """Run the soak test."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak",
        description="Run a server under mixed load and check that it does not grow.",
    )
    parser.add_argument("seconds", type=float, nargs="?", default=300.0)
    parser.add_argument("--database", help="an empty database; default: a new SQLite file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memorist-soak-") as folder:
        database = arguments.database or f"sqlite:///{folder}/soak.db"
        return 0 if soak(arguments.seconds, database, Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
