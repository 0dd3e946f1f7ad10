"""Clients of an HTTP server, from a process of their own: `python -m bench.load`, a job on each line in, its outcome out.

A client is little more than a socket, so that what is measured is the server: it sends a request that is written already,
and reads the answer's status, length and Retry-After. It sends the next one when it has the answer, and no earlier.
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

SLOW_SECONDS = 60.0
MAX_WAITS = 2_000  # response times in an outcome: evenly spaced in their order


@dataclass(frozen=True)
class Job:
    """The requests of the clients: client n starts with request n and cycles through them."""

    address: tuple[str, int]
    requests: Sequence[str]
    clients: int = 64
    seconds: float = 2.0
    patient: bool = True
    """True if a refused client waits for Retry-After; otherwise it retries at once."""


@dataclass
class Outcome:
    """The result of a job."""

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    """Number of responses by status; 0 stands for no response."""
    waits: list[float] = field(default_factory=list)
    """Seconds of each successful response, sorted."""
    without: int = 0
    """Refusals without Retry-After."""

    @property
    def good(self) -> float:
        """Return successful responses per second."""
        return len(self.waits) / self.seconds

    @property
    def errors(self) -> int:
        """Return the number of failed responses."""
        return self.statuses.total() - len(self.waits)

    def slowest(self, share: float) -> float:
        """Return a quantile of the response times."""
        return (
            self.waits[min(len(self.waits) - 1, int(len(self.waits) * share))]
            if self.waits
            else float("inf")
        )


def written(method: str, path: str, body: Any = None, **headers: str) -> str:
    """Return the bytes of an HTTP request."""
    sent = "" if body is None else json.dumps(body)
    payload = {
        "Host": "127.0.0.1",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    if body is not None:
        payload |= {"Content-Type": "application/json", "Content-Length": str(len(sent))}
    return (
        f"{method} {path} HTTP/1.1\r\n"
        + "".join(f"{name}: {value}\r\n" for name, value in payload.items())
        + f"\r\n{sent}"
    )


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
        return Outcome(payload["seconds"], statuses, payload["waits"], payload["without"])


class _Client(asyncio.Protocol):
    """One HTTP client."""

    def __init__(
        self, number: int, job: Job, requests: Sequence[bytes], outcome: Outcome, until: float
    ) -> None:
        self._next, self._job, self._requests, self._outcome, self._until = (
            number,
            job,
            requests,
            outcome,
            until,
        )
        self._read = bytearray()
        self._whole = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self._outcome.statuses[0] += 1
            self.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._read += data
        if not self._whole:
            end = self._read.find(b"\r\n\r\n")
            if end < 0:
                return
            self._head = bytes(self._read[:end]).lower()
            self._whole = end + 4 + int(self._header(b"content-length", b"0"))
        if len(self._read) < self._whole:
            return
        moment, outcome = time.perf_counter(), self._outcome
        status = int(self._head[9:12])
        outcome.statuses[status] += 1
        self._read.clear()
        self._whole = 0
        wait = 0.0
        if status < 300:
            outcome.waits.append(moment - self._sent)
        elif status in (429, 503):
            retry = self._header(b"retry-after", b"")
            outcome.without += not retry
            wait = float(retry or 0) if self._job.patient else 0.0
        if moment + wait >= self._until:
            self.done.set_result(None)
            self._transport.close()
        elif wait:
            asyncio.get_running_loop().call_later(wait, self._send)
        else:
            self._send()

    def _header(self, name: bytes, otherwise: bytes) -> bytes:
        _, there, rest = self._head.partition(b"\r\n" + name + b": ")
        return rest.partition(b"\r\n")[0] if there else otherwise

    def _send(self) -> None:
        request = self._requests[self._next % len(self._requests)]
        self._next += 1
        self._sent = time.perf_counter()
        self._transport.write(request)


async def _run(job: Job) -> Outcome:
    outcome, loop = Outcome(), asyncio.get_running_loop()
    requests = [request.encode() for request in job.requests]
    started = time.perf_counter()
    until = started + job.seconds

    async def client(number: int) -> None:
        try:
            _, created = await loop.create_connection(
                lambda: _Client(number, job, requests, outcome, until),
                job.address[0],
                job.address[1],
            )
            await asyncio.wait_for(created.done, job.seconds + SLOW_SECONDS)
        except (OSError, TimeoutError):
            outcome.statuses[0] += 1

    await asyncio.gather(*(client(number) for number in range(job.clients)))
    outcome.seconds = time.perf_counter() - started
    outcome.waits.sort()
    return outcome


def main() -> None:
    """Run the jobs from standard input."""
    for line in sys.stdin:
        payload = json.loads(line)
        job = Job(**{**payload, "address": tuple(payload["address"])})
        outcome = uvloop.run(_run(job))
        step = len(outcome.waits) // MAX_WAITS + 1
        outcome.waits = [round(wait, 5) for wait in outcome.waits[::step]]
        print(json.dumps(vars(outcome)), flush=True)


if __name__ == "__main__":
    main()
