"""HTTP requests: a durable append and a window of a long session, compared with an empty route.

A separate process opens 64 connections. Every request has an API key. The server runs with its
middleware, request log and metrics; only the rate limit is off. All servers stay up and take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import psutil

from bench import servers
from bench.harness import (
    AGENT,
    RATIO_COLUMNS,
    TENANT,
    TEXT,
    USER,
    Plan,
    Series,
    Table,
    Target,
    duration,
    rate,
    scope_of,
    versus,
)
from bench.load import Clients, Job, Outcome, format_request
from memorist import Memory, NewMessage, Settings

CLIENTS = 64
LONG_SESSION = "long"
COLUMNS = (*RATIO_COLUMNS, "slowest 1 %", "ratio", "target", "", "errors")
BODY = {"role": "user", "content": TEXT}
MEBIBYTE = 1 << 20
NO_JOBS = {"facts": "off", "embedder": "none"}
"""Settings that keep background jobs from competing with the measured requests for the cores."""


def run(plan: Plan) -> Iterator[Table]:
    """Yield the tables: both engines, chat, overload, memory."""
    with Clients() as clients:
        sqlite = f"sqlite:///{plan.new_folder()}/http.db"
        yield calls(plan, clients, "SQLite", sqlite, Target(at_least=0.5), Target(at_least=0.4))
        postgres = plan.postgres("http")
        target = Target(at_least=0.35)
        yield calls(plan, clients, "PostgreSQL", postgres, target, target)
        yield chat(plan, clients)
        yield overload(plan, clients)
        yield memory(plan, clients)


def calls(
    plan: Plan, clients: Clients, engine: str, database: str, append: Target, window: Target
) -> Table:
    """Compare appends and windows with an empty route."""
    key = fill(plan, database)
    folder = plan.new_folder()
    with (
        servers.empty(folder / "empty.log") as bare,
        servers.memorist(database, folder / "memorist.log", **NO_JOBS) as full,
    ):
        jobs = {
            "empty": Job(bare.address, [format_request("GET", "/")]),
            "append": Job(full.address, appends(key)),
            "window": Job(
                full.address,
                [
                    format_request(
                        "GET", f"/api/messages/{LONG_SESSION}/window?last=50", **headers(key)
                    )
                ],
            ),
        }
        outcomes = take_turns(clients, plan.amount(15, 5), plan.amount(4, 2), jobs)
    return Table(
        f"{CLIENTS} clients over HTTP, {engine}",
        "Requests per second, compared with an empty route on the same server library. Every request has "
        "an API key, each writer has its own session, and every append is durable before the response. "
        "The clients, the server and the database share the cores. Facts and vectors are off, "
        "because the jobs for the 100,000 messages would compete with the requests.",
        COLUMNS,
        [
            row("append of one message", outcomes, "append", append),
            row("the last 50 of 100,000 messages", outcomes, "window", window),
        ],
    )


def take_turns(
    clients: Clients, rounds: int, seconds: float, jobs: Mapping[str, Job]
) -> dict[str, list[Outcome]]:
    """Return the outcomes of each job, one per round, after a warm-up. The first job to run changes."""
    names = list(jobs)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            outcome = clients.run(replace(jobs[name], seconds=seconds))
            if turn:
                outcomes[name].append(outcome)
    return outcomes


def row(
    what: str, outcomes: Mapping[str, list[Outcome]], name: str, throughput: Target
) -> list[str]:
    """Return a row of COLUMNS."""

    def series(name: str, figure: Callable[[Outcome], float]) -> Series:
        return [figure(outcome) for outcome in outcomes[name]]

    def per_second(outcome: Outcome) -> float:
        return outcome.successes_per_second

    def p99(outcome: Outcome) -> float:
        return outcome.latency(0.99)

    _, ours, theirs, ratio, _, target, verdict = versus(
        what, series(name, p99), series("empty", p99), Target(at_most=10)
    )
    return [
        *versus(
            what,
            series(name, per_second),
            series("empty", per_second),
            throughput,
            show=rate,
        ),
        f"{ours} / {theirs}",
        ratio,
        target,
        verdict,
        str(sum(outcome.errors for outcome in outcomes[name])),
    ]


def chat(plan: Plan, clients: Clients) -> Table:
    """Measure chat turns by one client and by eight, with a scripted model."""
    database = f"sqlite:///{plan.new_folder()}/chat.db"
    key = servers.key(database, TENANT)
    with Memory.open(database) as memory:
        scope_of(memory).agents.add(AGENT)
    rows = []
    with servers.scripted(database, plan.new_folder() / "chat.log") as server:
        for number in (1, 8):
            requests = [
                format_request(
                    "POST",
                    "/api/chat",
                    {
                        "message": "When does my train leave?",
                        "session_id": f"00000000-0000-7000-8000-{number:06}{n:06}",
                    },
                    **headers(key),
                )
                for n in range(number)
            ]
            outcome = clients.run(Job(server.address, requests, number, plan.amount(20, 5)))
            median = outcome.latency(0.5)
            target = Target(at_most=30) if number == 1 else None
            rows.append(
                [
                    f"{number} at once",
                    duration(median),
                    duration(outcome.latency(0.99)),
                    f"{target} ms" if target else "",
                    target.verdict(median * 1000) if target else "",
                    rate(outcome.successes_per_second),
                    str(outcome.errors),
                ]
            )
    return Table(
        "A chat turn, SQLite",
        "Everything except the model, over HTTP: take the session's lease, store the message, assemble "
        "the context, store the answer. The sessions grow with each turn.",
        ("clients", "p50", "p99", "target for p50", "", "turns", "errors"),
        rows,
    )


def overload(plan: Plan, clients: Clients) -> Table:
    """Measure with four times as many clients as the limit, then with the normal load again."""
    database = f"sqlite:///{plan.new_folder()}/overload.db"
    key = fill(plan, database, long=False)
    limit = 256  # limits.MAX_IN_FLIGHT
    rows = []
    seconds = plan.amount(10, 4)
    with servers.memorist(database, plan.new_folder() / "overload.log", **NO_JOBS) as server:
        job = Job(server.address, appends(key), limit, seconds)
        clients.run(job)
        for patient in (True, False):
            before = clients.run(job)
            during = clients.run(replace(job, clients=4 * limit, patient=patient))
            started = time.monotonic()
            recovered = None
            while recovered is None and time.monotonic() - started < 10:
                after = clients.run(replace(job, seconds=0.5))
                if (
                    after.successes_per_second >= 0.9 * before.successes_per_second
                    and not after.errors
                ):
                    recovered = time.monotonic() - started
            share = during.successes_per_second / before.successes_per_second
            target = Target(at_least=0.9)
            other_errors = {
                status: number
                for status, number in during.statuses.items()
                if status not in (200, 201, 429, 503)
            }
            rows.append(
                [
                    "wait for Retry-After" if patient else "retry at once",
                    rate(before.successes_per_second),
                    rate(during.successes_per_second),
                    f"{share:.2f}",
                    str(target),
                    target.verdict(share),
                    rate((during.statuses[429] + during.statuses[503]) / during.seconds),
                    str(during.without_retry_after),
                    str(sum(other_errors.values())),
                    f"{recovered:.1f} s" if recovered else "over 10 s",
                    Target(at_most=5).verdict(recovered or 10),
                ]
            )
    return Table(
        "Overload: four times as many clients as the limit, SQLite",
        f"{limit} clients, then {4 * limit}: successful responses per second, rejected requests (429 or "
        "503) per second, rejections without Retry-After, other errors, and the time to recover. "
        "Facts and vectors are off.",
        (
            "clients",
            "at the limit",
            "over it",
            "ratio",
            "target",
            "",
            "rejected",
            "no Retry-After",
            "other errors",
            "recovered after",
            "target: 5 s",
        ),
        rows,
    )


def memory(plan: Plan, clients: Clients) -> Table:
    """Measure memory, threads and open files under mixed load; `make soak` runs longer."""
    database = f"sqlite:///{plan.new_folder()}/memory.db"
    key = fill(plan, database)
    rows = []
    steps, seconds = plan.amount(6, 3), plan.amount(30, 5)
    reads = format_request("GET", f"/api/messages/{LONG_SESSION}/window?last=50", **headers(key))
    not_found = format_request("POST", "/api/messages/none", BODY, **headers(key))
    with servers.memorist(database, plan.new_folder() / "memory.log") as server:
        process = psutil.Process(server.process.pid)
        job = Job(
            server.address,
            [part for append in appends(key) for part in (append, reads, not_found)],
            seconds=seconds,
        )
        clients.run(job)
        first = process.memory_info().rss
        for step in range(1, steps + 1):
            outcome = clients.run(job)
            resident = process.memory_info().rss
            growth = resident / first
            target = Target(at_most=1.05)
            rows.append(
                [
                    f"{step * seconds} s",
                    rate(outcome.statuses.total() / outcome.seconds),
                    f"{resident / MEBIBYTE:.0f} MiB",
                    f"{growth:.3f}",
                    str(target),
                    target.verdict(growth),
                    str(process.num_threads()),
                    str(process.num_fds()),
                ]
            )
    return Table(
        "Memory, threads and open files of the server, SQLite",
        f"{CLIENTS} clients append, read and request unknown sessions; compared with the state after the "
        f"first {seconds} s.",
        ("after", "responses", "memory", "ratio", "target", "", "threads", "files"),
        rows,
    )


def fill(plan: Plan, database: str, *, long: bool = True) -> str:
    """Add a session per client and a long one; return the tenant's API key."""
    key = servers.key(database, TENANT)
    with Memory.open(database, settings=Settings()) as memory:
        me = scope_of(memory)
        for number in range(CLIENTS):
            me.sessions.add(f"s{number}")
        me.sessions.add(LONG_SESSION)
        if long:
            plan.progress("writing 100,000 messages")
            for _ in range(100):
                me.messages.extend(LONG_SESSION, [NewMessage("user", TEXT)] * 1000)
    return key


def appends(key: str) -> list[str]:
    """Return an append to the session of each client."""
    return [
        format_request("POST", f"/api/messages/s{number}", BODY, **headers(key))
        for number in range(CLIENTS)
    ]


def headers(key: str) -> dict[str, str]:
    """Return the headers of a client."""
    return {"Authorization": f"Bearer {key}", "X_Memorist_User": USER, "X_Memorist_Agent": AGENT}
