"""How many cores, how much disk and memory an installation on PostgreSQL needs.

    python -m bench.capacity --tenants 10000 --messages 1000000000 --appends 500 --searches 100
    python -m bench.capacity --measure          # measure COSTS again, and check the model

The model adds up the CPU time of each operation, which depends less on other load than the
elapsed time does. It is fitted to tenants of two sizes, and checked against a larger tenant and a mixed load:
see `fit` and `check`.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import psycopg

from bench import growth, servers
from bench.harness import Plan, planned
from bench.load import Clients, Job, format_request
from bench.servers import ServerProcess
from memorist import Memory, NewMessage, Settings
from memorist.jobs.runner import JobRunner

OPERATIONS = ("append", "window", "search", "context")
FITTED_SIZES = (1_000, 20_000)
"""Messages of the tenants to which the model is fitted."""
CHECKED_SIZE = 60_000
"""Messages of the tenant that the model must predict."""
IDLE_TENANTS = 100
EMBEDDED_MESSAGES = 200
ROUND_SECONDS = 2.0
LONG_SESSION = 300
TEXT = "The train to Bern leaves at seven past nine; I would like a seat by the window."
UTILIZATION = 0.5
"""Share of the cores to use at the peak: the rest is for bursts, vacuum and failed machines."""
CACHED_SHARE = 0.1
"""Share of the database that is in use at the same time, and should be in memory."""
VECTOR_BYTES = 400
"""Memory of a server for each message of a user who searches (docs/internals/performance.md)."""
GIB = 1 << 30


@dataclass(frozen=True)
class Cost:
    """CPU time of an operation in milliseconds; it grows with the logarithm of a tenant's size."""

    server: float
    """Of `memorist serve`, for a tenant of 1,000 messages."""
    server_growth: float
    """Increase per tenfold growth."""
    database: float
    database_growth: float

    def at(self, messages: float) -> tuple[float, float]:
        """Return the time of the server and of the database for a tenant of this size."""
        decades = max(0.0, math.log10(max(messages, 1) / FITTED_SIZES[0]))
        return (
            self.server + self.server_growth * decades,
            self.database + self.database_growth * decades,
        )


@dataclass(frozen=True)
class Costs:
    """Measured costs."""

    operations: Mapping[str, Cost]
    job_per_message: float
    """CPU time of the jobs and the database for a new message, most of it for the encoder."""
    job_per_message_static: float
    """The same with `embedder: static`."""
    job_per_tenant: float
    """CPU time of a round of jobs for a tenant that has nothing to do."""
    bytes_per_message: float
    """In the database, with all indexes, and with the rows of other kinds."""
    server_bytes: float
    """Memory of a server process, without the vectors of its users."""


@dataclass(frozen=True)
class Measurement:
    """The results of `measure`.

    Times are milliseconds of CPU: of the server, and of the database without autovacuum.
    """

    requests: Mapping[int, Mapping[str, tuple[float, float]]]
    """By the number of messages of the tenant, then by operation."""
    mix: tuple[float, float]
    """A request of the largest tenant, of all operations in turn."""
    disk: Mapping[int, float]
    """Bytes of the database by the number of messages in it."""
    job_per_message: float
    job_per_message_static: float
    job_per_tenant: float
    server_bytes: float


@dataclass(frozen=True)
class Load:
    """The installation: its size, and the operations per second at its peak."""

    tenants: int
    messages: float
    per_second: Mapping[str, float]
    embedder: str = "encoder"
    searching_users: int = 0
    """Users who search within a few minutes; servers keep their vectors in memory."""
    users_per_tenant: int = 10
    round_seconds: float = 60.0
    """The time in which the jobs look at every tenant."""


@dataclass(frozen=True)
class Sizing:
    """What an installation needs."""

    server_cores: float
    job_cores: float
    database_cores: float
    disk_gib: float
    server_memory_gib: float
    database_memory_gib: float


def size(load: Load, costs: Costs) -> Sizing:
    """Return what a load needs, with reserves."""
    per_tenant = load.messages / load.tenants
    server = database = 0.0
    for name, rate in load.per_second.items():
        server_time, database_time = costs.operations[name].at(per_tenant)
        server += rate * server_time / 1000
        database += rate * database_time / 1000
    appends = load.per_second.get("append", 0.0)
    is_static = load.embedder == "static"
    per_message = costs.job_per_message_static if is_static else costs.job_per_message
    jobs = appends * per_message / 1000
    jobs += load.tenants * costs.job_per_tenant / 1000 / load.round_seconds
    disk = load.messages * costs.bytes_per_message / GIB
    processes = max(2, math.ceil(server / UTILIZATION))
    vectors = load.searching_users * per_tenant / load.users_per_tenant * VECTOR_BYTES
    return Sizing(
        server / UTILIZATION,
        jobs / UTILIZATION,
        database / UTILIZATION,
        # As much again for the write-ahead log, for bloat, and for a restored copy.
        2 * disk,
        (processes * costs.server_bytes + vectors) / GIB,
        CACHED_SHARE * disk,
    )


def fit(measured: Measurement) -> Costs:
    """Return the costs, fitted to the two smaller tenants."""
    small, large = (measured.requests[size] for size in FITTED_SIZES)
    decades = math.log10(FITTED_SIZES[1] / FITTED_SIZES[0])
    operations = {
        name: Cost(
            small[name][0],
            (large[name][0] - small[name][0]) / decades,
            small[name][1],
            (large[name][1] - small[name][1]) / decades,
        )
        for name in OPERATIONS
    }
    fitted_messages = sum(FITTED_SIZES)
    return Costs(
        operations,
        measured.job_per_message,
        measured.job_per_message_static,
        measured.job_per_tenant,
        measured.disk[fitted_messages] / fitted_messages,
        measured.server_bytes,
    )


def check(costs: Costs, measured: Measurement) -> dict[str, float]:
    """Return the model's values for the largest tenant, as shares of the measured ones."""
    expected = {name: costs.operations[name].at(CHECKED_SIZE) for name in OPERATIONS}
    expected["mix"] = (
        statistics.mean(cost[0] for cost in expected.values()),
        statistics.mean(cost[1] for cost in expected.values()),
    )
    measured_costs = {**measured.requests[CHECKED_SIZE], "mix": measured.mix}
    shares = {}
    for name, (server, database) in expected.items():
        shares[f"{name}, server"] = server / measured_costs[name][0]
        shares[f"{name}, database"] = database / measured_costs[name][1]
    messages = max(measured.disk)
    shares["disk"] = messages * costs.bytes_per_message / measured.disk[messages]
    return shares


MEASURED = Measurement(
    requests={
        1_000: {
            "append": (1.31, 0.84),
            "window": (0.85, 0.27),
            "search": (19.4, 3.56),
            "context": (32.2, 8.91),
        },
        20_000: {
            "append": (1.35, 0.83),
            "window": (0.78, 0.28),
            "search": (22.1, 4.43),
            "context": (37.9, 17.2),
        },
        60_000: {
            "append": (1.41, 0.87),
            "window": (0.76, 0.27),
            "search": (23.6, 5.11),
            "context": (39.9, 12.7),
        },
    },
    mix=(17.0, 6.86),
    disk={21_000: 138.3e6, 81_000: 541.6e6},
    job_per_message=32.6,
    job_per_message_static=0.76,
    job_per_tenant=3.83,
    server_bytes=207e6,
)
"""On 2026-11-18: a busy machine with 2 cores (Neoverse-N1), PostgreSQL 18, texts of 188 bytes."""


# -- measuring --------------------------------------------------------------------------------------


def measure(plan: Plan) -> Measurement:
    """Measure requests, jobs and disk of tenants of three sizes."""
    from bench.search import Texts  # needs the encoder, which the model itself does not

    texts = Texts()
    questions = Texts(9).questions(2_000)
    url = plan.postgres("capacity")
    sizes = {f"tenant {messages}": messages for messages in (*FITTED_SIZES, CHECKED_SIZE)}
    disk: dict[int, float] = {}
    total = 0
    with Memory.open(url, settings=Settings()) as memory:
        empty = database_bytes(memory)
        for tenant, messages in sizes.items():
            plan.progress(f"filling a tenant with {messages:,} messages")
            growth.fill(memory, texts.some, 0, messages, tenant)
            total += messages
            disk[total] = database_bytes(memory) - empty
        plan.progress("measuring the jobs")
        for tenant in sizes:  # a conversation that fills the budget of a context
            me = memory.scope(tenant=tenant, user="user 0", agent="scout")
            me.messages.extend(growth.session_id(0), [NewMessage("user", TEXT)] * LONG_SESSION)
        memory.run_jobs()
        idle = idle_job_cost(plan, memory)
        embedding = embedding_cost(plan, memory, texts.some(EMBEDDED_MESSAGES))
    static = Settings(embedder="static")
    with Memory.open(plan.postgres("static"), settings=static) as memory:
        memory.scope(tenant="idle 0", user="ada", agent="scout").sessions.add("s")
        static_embedding = embedding_cost(plan, memory, texts.some(EMBEDDED_MESSAGES))
    keys = {tenant: servers.key(url, tenant) for tenant in sizes}
    with (
        servers.memorist(url, plan.new_folder() / "log", "--no-jobs") as server,
        Clients() as clients,
    ):
        loads = {
            (name, tenant): requests(name, keys[tenant], questions)
            for name in OPERATIONS
            for tenant in sizes
        }
        largest = list(sizes)[-1]
        loads["mix", largest] = [
            request
            for group in zip(*(loads[name, largest] for name in OPERATIONS), strict=True)
            for request in group
        ]
        plan.progress("measuring the requests")
        measured = request_costs(plan, clients, server, loads)
        return Measurement(
            {
                messages: {name: measured[name, tenant] for name in OPERATIONS}
                for tenant, messages in sizes.items()
            },
            measured["mix", largest],
            disk,
            embedding,
            static_embedding,
            idle,
            float(psutil.Process(server.process.pid).memory_info().rss),
        )


def database_bytes(memory: Memory) -> int:
    """Return the size of the tables and their indexes."""
    with psycopg.connect(memory.settings.database, autocommit=True) as connection:
        connection.execute("vacuum analyze")
        row = connection.execute(
            """select sum(pg_total_relation_size(oid)) from pg_class
               where relkind = 'r' and relnamespace = to_regnamespace('memorist')"""
        ).fetchone()
    return int(row[0]) if row else 0


def idle_job_cost(plan: Plan, memory: Memory) -> float:
    """Return the milliseconds of a round for a small tenant with nothing to do."""
    tenants = [f"idle {number}" for number in range(IDLE_TENANTS)]
    for tenant in tenants:
        me = memory.scope(tenant=tenant, user="ada", agent="scout")
        me.sessions.add("s")
        me.messages.append("s", "user", "The train leaves at nine.")
    runner = JobRunner(memory.services)
    runner.run(tenants)
    runner.run(tenants)
    pid = plan.server_pid()
    rounds = []
    for _ in range(3):
        started = time.process_time() + growth.server_seconds(pid)
        runner.run(tenants)
        rounds.append(time.process_time() + growth.server_seconds(pid) - started)
    return 1000 * min(rounds) / IDLE_TENANTS


def embedding_cost(plan: Plan, memory: Memory, texts: Sequence[str]) -> float:
    """Return the milliseconds of all jobs for one new message."""
    me = memory.scope(tenant="idle 0", user="ada", agent="scout")
    runner = JobRunner(memory.services)
    me.messages.extend("s", [NewMessage("user", text) for text in texts[:20]])
    runner.run(["idle 0"])  # loads the encoder
    me.messages.extend("s", [NewMessage("user", text) for text in texts[20:]])
    pid = plan.server_pid()
    started = time.process_time() + growth.server_seconds(pid)
    runner.run(["idle 0"])
    seconds = time.process_time() + growth.server_seconds(pid) - started
    return 1000 * seconds / (len(texts) - 20)


def requests(name: str, key: str, questions: Sequence[str]) -> list[str]:
    """Return requests of the user 0 of a tenant. Another user appends: no job computes vectors."""
    headers = {"X_API_Key": key, "X_Memorist_User": "user 0", "X_Memorist_Agent": "scout"}
    session = growth.session_id(0).replace(" ", "%20")
    other_session = growth.session_id(growth.SESSION_LENGTH).replace(" ", "%20")
    other_headers = headers | {"X_Memorist_User": growth.user_id(growth.SESSION_LENGTH)}
    prepared = []
    for question in questions[:200]:
        if name == "append":
            body = {"role": "user", "content": TEXT}
            path = f"/api/messages/{other_session}"
            prepared.append(format_request("POST", path, body, **other_headers))
        elif name == "window":
            path = f"/api/messages/{session}/window?last=20"
            prepared.append(format_request("GET", path, **headers))
        elif name == "search":
            prepared.append(format_request("POST", "/api/search", {"query": question}, **headers))
        else:
            payload = {"session": growth.session_id(0), "message": question, "budget": 8000}
            prepared.append(format_request("POST", "/api/context", payload, **headers))
    return prepared


def request_costs(
    plan: Plan,
    clients: Clients,
    server: ServerProcess,
    loads: Mapping[tuple[str, str], Sequence[str]],
) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the milliseconds of CPU of the server and of the database for each request.

    The loads take turns, so that a busy moment of the machine affects all of them. The medians are of
    all rounds but the first.
    """
    rounds: dict[tuple[str, str], list[tuple[float, float]]] = {name: [] for name in loads}
    for _ in range(plan.amount(8, 4) + 1):
        for name, load in loads.items():
            rounds[name].append(request_cost(plan, clients, server, load))
    return {
        name: (
            statistics.median(part for part, _ in costs[1:]),
            statistics.median(part for _, part in costs[1:]),
        )
        for name, costs in rounds.items()
    }


def request_cost(
    plan: Plan, clients: Clients, server: ServerProcess, requests: Sequence[str]
) -> tuple[float, float]:
    """Return the milliseconds of CPU of the server and of the database for each request."""
    process = psutil.Process(server.process.pid)
    pid = plan.server_pid()
    seconds = ROUND_SECONDS
    while True:
        before = sum(process.cpu_times()[:2]), growth.server_seconds(pid)
        outcome = clients.run(Job(server.address, requests, 4, seconds))
        after = sum(process.cpu_times()[:2]), growth.server_seconds(pid)
        if outcome.errors:
            raise RuntimeError(f"requests failed: {outcome.statuses}")
        if outcome.successes:
            break
        seconds *= 2  # other programs left no time for a single response
    return (
        1000 * (after[0] - before[0]) / outcome.successes,
        1000 * (after[1] - before[1]) / outcome.successes,
    )


def print_progress(text: str) -> None:
    """Print what is measured now."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Print what an installation needs, or measure the costs."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.capacity",
        description="Estimate the cores, disk and memory of an installation on PostgreSQL.",
    )
    parser.add_argument("--tenants", type=int, default=10_000)
    parser.add_argument("--messages", type=float, default=1e9, help="of all tenants together")
    for name in OPERATIONS:
        plural = "searches" if name == "search" else f"{name}s"
        parser.add_argument(
            f"--{plural}", type=float, default=0.0, dest=name, help="per second, at the peak"
        )
    parser.add_argument("--embedder", choices=["encoder", "static"], default="encoder")
    parser.add_argument("--searching-users", type=int, default=0, help="within a few minutes")
    parser.add_argument("--round-seconds", type=float, default=60.0)
    parser.add_argument("--measure", action="store_true", help="measure the costs, ten minutes")
    parser.add_argument("--quick", action="store_true", help="measure for a shorter time")
    parser.add_argument("--folder", type=Path, help="create the database in this folder")
    options = parser.parse_args()
    if options.measure:
        with planned(options.quick, options.folder, print_progress) as plan:
            measured = measure(plan)
        print(measured)
        for what, share in check(fit(measured), measured).items():
            print(f"{what:22} {share:6.2f} of the measured value")
        return 0
    load = Load(
        options.tenants,
        options.messages,
        {name: getattr(options, name) for name in OPERATIONS},
        options.embedder,
        options.searching_users,
        round_seconds=options.round_seconds,
    )
    for name, value in asdict(size(load, fit(MEASURED))).items():
        print(f"{name.replace('_', ' '):22} {value:12,.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
