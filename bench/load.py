"""HTTP load generator: `python -m bench.load` reads a job per line and prints the outcome of each.

It runs in its own process, and a client is little more than a socket, so that the server is measured
and not the client. A client sends prepared requests, one at a time, and reads only the status, the
length and the Retry-After header of each response.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any

import uvloop

TIMEOUT_SECONDS = 60.0
MAX_LATENCIES = 2_000
"""Latencies in an outcome. If there are more, it has every nth of the sorted ones."""


@dataclass(frozen=True)
class Job:
    """The requests of the clients: client n starts with request n and cycles through them."""

    address: tuple[str, int]
    requests: Sequence[str]
    clients: int = 64
    seconds: float = 2.0
    patient: bool = True
    """True if a rejected client waits as Retry-After says; otherwise it retries at once."""


@dataclass
class Outcome:
    """The result of a job."""

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    """Number of responses by status; 0 stands for no response."""
    latencies: list[float] = field(default_factory=list)
    """Seconds until a successful response, sorted; at most MAX_LATENCIES of them."""
    without_retry_after: int = 0
    """Responses with status 429 or 503 that lack Retry-After."""

    @property
    def successes(self) -> int:
        """The number of successful responses."""
        return sum(number for status, number in self.statuses.items() if 0 < status < 300)

    @property
    def successes_per_second(self) -> float:
        """Successful responses per second."""
        return self.successes / self.seconds

    @property
    def errors(self) -> int:
        """The number of failed responses, and of requests without a response."""
        return self.statuses.total() - self.successes

    def latency(self, share: float) -> float:
        """Return the seconds within which this share of the successful responses arrived."""
        if not self.latencies:
            return float("inf")
        return self.latencies[min(len(self.latencies) - 1, int(len(self.latencies) * share))]


def format_request(method: str, path: str, body: Any = None, **headers: str) -> str:
    """Return an HTTP request as text."""
    payload = "" if body is None else json.dumps(body)
    fields = {
        "Host": "127.0.0.1",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    if body is not None:
        fields |= {"Content-Type": "application/json", "Content-Length": str(len(payload))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n{payload}"


class Clients(AbstractContextManager["Clients"]):
    """The load-generating process."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "bench.load"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, job: Job) -> Outcome:
        """Run a job and return its outcome."""
        self.start(job)
        return self.finish()

    def start(self, job: Job) -> None:
        """Start a job."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()

    def finish(self) -> Outcome:
        """Return the outcome of the started job."""
        assert self._process.stdout
        payload: Mapping[str, Any] = json.loads(self._process.stdout.readline())
        statuses = Counter({int(status): number for status, number in payload["statuses"].items()})
        return Outcome(
            payload["seconds"], statuses, payload["latencies"], payload["without_retry_after"]
        )


class _Client(asyncio.Protocol):
    """One HTTP client."""

    def __init__(
        self, number: int, job: Job, requests: Sequence[bytes], outcome: Outcome, until: float
    ) -> None:
        self._next = number
        self._job = job
        self._requests = requests
        self._outcome = outcome
        self._until = until
        self._received = bytearray()
        self._response_bytes = 0  # of the current response; 0 until its headers have arrived
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self._outcome.statuses[0] += 1
            self.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._response_bytes:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            self._head = bytes(self._received[:end]).lower()
            self._response_bytes = end + 4 + int(self._header(b"content-length", b"0"))
        if len(self._received) < self._response_bytes:
            return
        now = time.perf_counter()
        outcome = self._outcome
        status = int(self._head[9:12])
        if now < self._until:  # a rejected client may wait for longer
            outcome.statuses[status] += 1
        self._received.clear()
        self._response_bytes = 0
        wait = 0.0
        if status < 300:
            outcome.latencies.append(now - self._sent)
        elif status in (429, 503):
            retry_after = self._header(b"retry-after", b"")
            outcome.without_retry_after += not retry_after
            wait = float(retry_after or 0) if self._job.patient else 0.0
        if now + wait >= self._until:
            self.done.set_result(None)
            self._transport.close()
        elif wait:
            asyncio.get_running_loop().call_later(wait, self._send)
        else:
            self._send()

    def _header(self, name: bytes, default: bytes) -> bytes:
        _, separator, rest = self._head.partition(b"\r\n" + name + b": ")
        return rest.partition(b"\r\n")[0] if separator else default

    def _send(self) -> None:
        request = self._requests[self._next % len(self._requests)]
        self._next += 1
        self._sent = time.perf_counter()
        self._transport.write(request)


async def _run(job: Job) -> Outcome:
    outcome = Outcome()
    loop = asyncio.get_running_loop()
    requests = [request.encode() for request in job.requests]
    started = time.perf_counter()
    until = started + job.seconds

    async def client(number: int) -> None:
        try:
            _, protocol = await loop.create_connection(
                lambda: _Client(number, job, requests, outcome, until),
                job.address[0],
                job.address[1],
            )
            await asyncio.wait_for(protocol.done, job.seconds + TIMEOUT_SECONDS)
        except (OSError, TimeoutError):
            outcome.statuses[0] += 1

    await asyncio.gather(*(client(number) for number in range(job.clients)))
    outcome.seconds = min(time.perf_counter() - started, job.seconds)
    outcome.latencies.sort()
    return outcome


def main() -> None:
    """Run the jobs from standard input."""
    for line in sys.stdin:
        payload = json.loads(line)
        job = Job(**{**payload, "address": tuple(payload["address"])})
        outcome = uvloop.run(_run(job))
        step = len(outcome.latencies) // MAX_LATENCIES + 1
        outcome.latencies = [round(latency, 5) for latency in outcome.latencies[::step]]
        print(json.dumps(vars(outcome)), flush=True)


if __name__ == "__main__":
    main()
