"""Growth: the time of each verb and job while one tenant grows.

The tenant has ten users and sessions of ten messages. For every ten messages there is a journal
entry, a state key with an expiry, a model call and a stored response; for every hundred messages, a
reference. Every message has a vector. The verbs are those of one user.

On PostgreSQL, messages after the first 100,000 are copied with SQL, because writing 1,000,000 one by
one takes an hour. No user has the same text twice.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import psycopg

from bench.filling import index_tenant, mark_records, mark_sessions, state_id
from bench.harness import Plan, Table, duration
from memorist import Memory, Scope, Settings
from memorist.base import clock
from memorist.jobs.job import Job
from memorist.jobs.runner import JobRunner, all_jobs
from memorist.kinds.kind import Services
from memorist.storage.checksum import checksum
from memorist.storage.database import Transaction
from memorist.storage.postgres.roles import SCHEMA

TENANT = "acme"
USERS = 10
SESSION_LENGTH = 10
BATCH_SIZE = 5_000
MAX_SECONDS = 3.0
"""A measurement repeats a call for this long at most."""
SIZES = (1_000, 10_000, 100_000)
MAX_SIZE = 1_000_000


def run(plan: Plan) -> Iterator[Table]:
    """Yield a table per engine."""
    largest = plan.largest or plan.amount(SIZES[-1], SIZES[1])
    sizes = [size for size in (*SIZES, MAX_SIZE) if size <= largest]
    yield measure_growth(plan, "SQLite", f"sqlite:///{plan.new_folder()}/growth.db", sizes)
    yield measure_growth(plan, "PostgreSQL", plan.postgres("growth"), sizes)


def measure_growth(plan: Plan, engine: str, url: str, sizes: Sequence[int]) -> Table:
    """Measure every verb at each size of a growing database."""
    from bench.search import Texts  # needs the encoder, which the tests of `fill` do not have

    columns: list[dict[str, float]] = []
    texts = Texts()
    size = 0
    for target in sizes:
        plan.progress(f"{engine}: filling up to {target:,} messages")
        with Memory.open(url, settings=Settings()) as memory:
            if engine == "PostgreSQL" and target > SIZES[-1]:
                fill_with_copies(memory, size, target)
            else:
                fill(memory, texts.some, size, target)
            size = target
            memory.run_jobs()
        if engine == "PostgreSQL":
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("vacuum analyze")
        plan.progress(f"{engine}: measuring at {target:,} messages")
        questions = Texts(9).questions(10_000)
        columns.append(measure(url, questions, None if engine == "SQLite" else plan.server_pid()))
    rows = [
        [
            name,
            *(duration(column[name]) for column in columns),
            f"{columns[-1][name] / columns[0][name]:.1f}",
        ]
        for name in columns[0]
    ]
    return Table(
        f"Growth, {engine}",
        "Median CPU time of this process and of the database server without autovacuum (opening: of "
        "this process). The ratio compares the largest size with the smallest. Jobs have nothing to "
        "do and run in a new runner.",
        ("what", *(f"{size:,}" for size in sizes), "ratio"),
        rows,
    )


def measure(url: str, questions: Sequence[str], server_pid: int | None) -> dict[str, float]:
    """Return the CPU seconds that each verb and job takes."""
    timed = partial(median_seconds, server_pid)
    settings = Settings(
        summary_enabled=True,
        summary_model="extractive",
        summary_threshold=1000,
        consolidate="propose",
    )
    opening = median_seconds(None, lambda: Memory.open(url, settings=settings).close())
    results = {"open": opening}
    with Memory.open(url, settings=settings) as memory:
        me = memory.scope(tenant=TENANT, user="user 0", agent="scout")
        memory.run_jobs()
        results |= {name: timed(call) for name, call in verbs(memory, me, iter(questions)).items()}
        for job in all_jobs():
            results[f"job: {job.name}"] = timed(partial(run_job, memory, job))
        results["job: all of them"] = timed(lambda: JobRunner(memory.services).run([TENANT]))
        results["an append and its jobs"] = timed(append_and_work(memory, me))
    return results


def server_seconds(pid: int | None) -> float:
    """Return the CPU time of the processes of a database server, without autovacuum."""
    if pid is None:
        return 0.0
    nanoseconds = 0
    for process in psutil.Process(pid).children():
        with suppress(OSError, psutil.Error):  # it has ended
            if "autovacuum worker" in " ".join(process.cmdline()):
                continue
            schedule = Path(f"/proc/{process.pid}/schedstat").read_text(encoding="utf-8")
            nanoseconds += int(schedule.split()[0])
    return nanoseconds / 1e9


def run_job(memory: Memory, job: Job) -> None:
    """Run one job in a new runner."""
    JobRunner(memory.services, [job]).run([TENANT])


def verbs(memory: Memory, me: Scope, questions: Iterator[str]) -> dict[str, Callable[[], object]]:
    """Return the calls to measure, by name."""
    session = session_id(0)
    return {
        "append": lambda: me.messages.append(session, "user", "The train leaves at nine."),
        "window": lambda: me.messages.window(session, last=20),
        "sessions.list": partial(me.sessions.list, limit=10),
        "sessions.list of the tenant": partial(memory.scope(tenant=TENANT).sessions.list, limit=10),
        "entries.list": partial(me.entries.list, limit=10),
        "entries.counts": me.entries.counts,
        "interactions.list": partial(me.interactions.list, limit=10),
        "refs.list": partial(me.refs.list, limit=10),
        "state.get": lambda: me.state.get("id 0"),
        "search in a session": lambda: me.search(next(questions), session=session),
        "search of a user": lambda: me.search(next(questions)),
        "context": lambda: me.context(session, next(questions)),
        "counts": memory.counts,
        "status": memory.status.get,
        "purge with nothing due": lambda: memory.purge(days=10_000),
    }


def append_and_work(memory: Memory, me: Scope) -> Callable[[], object]:
    """Return a call that appends a message and runs the jobs, as a server does."""
    runner = JobRunner(memory.services)
    session = session_id(0)

    def call() -> None:
        me.messages.append(session, "user", "The train leaves at nine.")
        runner.run([TENANT])

    return call


def median_seconds(server_pid: int | None, call: Callable[[], object]) -> float:
    """Return the median CPU time of a call, without the first one."""
    call()
    timings: list[float] = []
    until = time.monotonic() + MAX_SECONDS
    while len(timings) < 3 or (len(timings) < 50 and time.monotonic() < until):
        server_started = server_seconds(server_pid)
        started = time.process_time()
        call()
        own = time.process_time() - started
        timings.append(own + server_seconds(server_pid) - server_started)
    return statistics.median(timings)


@dataclass(frozen=True)
class Filler:
    """A statement that adds one row for every `every` messages."""

    every: int
    sql: str


def session_id(number: int) -> str:
    """Return the session of a message; each belongs to one user."""
    return f"session {number // SESSION_LENGTH}"


def user_id(number: int) -> str:
    """Return the user of a message."""
    return f"user {number // SESSION_LENGTH % USERS}"


FILLERS = (
    Filler(
        SESSION_LENGTH,
        """insert into sessions (tenant, id, user_id, agent, label, attributes, summary,
               summarized_count, first_seq, first_at, touched_at, created_at, checksum)
           values (:tenant, :session, :user, 'scout', '', '{}', '', 0, 1, :at, :at, :at,
               :session_checksum)""",
    ),
    Filler(
        1,
        """insert into messages (tenant, session_id, seq, role, content, author, chatter, tokens,
               created_at, checksum)
           values (:tenant, :session, :seq, 'user', :content, null, 0, 20, :at, :content_checksum)""",
    ),
    Filler(
        10,
        """insert into entries (tenant, id, agent, kind, content, tokens, user_id, source, version,
               created_at, updated_at, checksum)
           values (:tenant, :id, 'scout', 'journal', :text, 20, :user, 'user', 1, :at, :at,
               :text_checksum)""",
    ),
    Filler(
        10,
        """insert into state (tenant, area, key, user_id, value, version, expires_at, created_at,
               updated_at, checksum)
           values (:tenant, 'user:' || :user, :id, :user, '1', 1, :later, :at, :at,
               :one_checksum)""",
    ),
    Filler(
        10,
        """insert into interactions (tenant, id, user_id, agent, session_id, route, model,
               parameters, latency_ms, tokens_in, tokens_out, error, created_at, checksum)
           values (:tenant, :id, :user, 'scout', :session, 'chat', 'm', '{}', 1.0, 1, 1, '', :at,
               :call_checksum)""",
    ),
    Filler(
        10,
        """insert into stored_responses (tenant, principal, route, key, digest, status, body, created_at,
                                         checksum)
           values (:tenant, 'p', 'r', :id, '', 200, '', :recent, 0)""",
    ),
    Filler(
        100,
        """insert into blobs (tenant, user_id, digest, bytes, whole)
           values (:tenant, :user, :id, 0, 1)""",
    ),
    Filler(
        100,
        """insert into refs (tenant, key, user_id, agent, session_id, type, summary, digest, media,
               bytes, lines, tokens, metadata, source, is_active, created_at, updated_at,
               checksum)
           values (:tenant, :id, :user, 'scout', :session, 'output', '', :id, 'text', 0, 0, 0,
               '{}', 'user', 1, :at, :at, :reference_checksum)""",
    ),
)


def fill(
    memory: Memory,
    make_texts: Callable[[int], list[str]],
    size: int,
    target: int,
    tenant: str = TENANT,
) -> None:
    """Add messages and rows of other kinds, with their index and random vectors."""
    services = memory.services
    now = clock.now()
    for start in range(size, target, BATCH_SIZE):
        count = min(BATCH_SIZE, target - start)
        rows = [
            {
                "session": session_id(number),
                "user": user_id(number),
                "seq": number % SESSION_LENGTH + 1,
                "id": f"id {number}",
                "text": text,
                "content": f'{{"text":"{text}"}}',
                "text_checksum": checksum(text),
                "content_checksum": checksum(f'{{"text":"{text}"}}', None),
                "one_checksum": checksum("1"),
                "session_checksum": checksum("", "{}"),
                "call_checksum": checksum("chat", "m", "{}", ""),
                "reference_checksum": checksum("output", "", "{}"),
                "at": now - 60 * clock.DAY + number * clock.SECOND,
                "recent": now,
                "later": now + clock.DAY,
            }
            for number, text in enumerate(make_texts(count), start)
        ]
        services.database.write(tenant, partial(fill_batch, services, start, rows), long=True)
    index_tenant(services, tenant)


def fill_batch(
    services: Services, start: int, rows: Sequence[dict[str, Any]], tx: Transaction
) -> None:
    """Write one batch."""
    for filler in FILLERS:
        chosen = [row for number, row in enumerate(rows, start) if number % filler.every == 0]
        tx.many(filler.sql, [with_parameters(filler.sql, row) for row in chosen])
    mark_batch(services, range(start, start + len(rows)), tx)


def mark_batch(services: Services, numbers: range, tx: Transaction) -> None:
    """Mark the rows of some messages as fresh."""

    def owned(every: int, name: Callable[[int], str]) -> list[tuple[str, str]]:
        return [(name(number), user_id(number)) for number in numbers if number % every == 0]

    def key(number: int) -> str:
        return f"id {number}"

    mark_sessions(services, tx, owned(SESSION_LENGTH, session_id))
    mark_records(services, tx, "entries", owned(10, key))
    mark_records(services, tx, "state", [(state_id(user, id), user) for id, user in owned(10, key)])
    mark_records(services, tx, "refs", owned(100, key))


def with_parameters(sql: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return the values that a statement uses."""
    return {name: value for name, value in row.items() if f":{name}" in sql}


def fill_with_copies(memory: Memory, size: int, target: int, tenant: str = TENANT) -> None:
    """Multiply the rows of `fill` on PostgreSQL, up to `target` messages, and index them.

    Sessions are shifted by one from copy to copy, so that the copies of a text belong to different
    users. Times are those of the original.
    """
    assert size // SESSION_LENGTH % USERS == 0, "a user would get a text twice"
    assert target // size <= USERS, "a user would get a text twice"
    services = memory.services
    with psycopg.connect(memory.settings.database, autocommit=True) as connection:
        connection.execute(f"set search_path = {SCHEMA}")
        connection.execute("set session_replication_role = replica")  # no checks of foreign keys
        connection.execute("set synchronous_commit = off")
        for shift in range(1, target // size):
            copy_batch(connection, shift, size, tenant)
    for start in range(size, target, BATCH_SIZE):
        numbers = range(start, min(start + BATCH_SIZE, target))
        services.database.write(tenant, partial(mark_batch, services, numbers), long=True)
    index_tenant(services, tenant)


def copy_batch(connection: psycopg.Connection, shift: int, size: int, tenant: str) -> None:
    """Copy the first `size` messages and the rows that belong to them, for the nth time."""
    with connection.transaction():
        connection.execute(
            """create temp table copied on commit drop as
               select *, 'session ' || (number / %(length)s) as session,
                   'user ' || (number / %(length)s %% %(users)s) as user,
                   'id ' || number as id
               from (
                   select tenant, session_id as source, seq, content, content::json ->> 'text' as text,
                       created_at as at, %(now)s::bigint as recent, %(now)s + %(day)s as later,
                       ((split_part(session_id, ' ', 2)::int + %(shift)s) %% %(sessions)s
                        + %(shift)s::int * %(sessions)s) * %(length)s + seq - 1 as number
                   from messages
                   where tenant = %(tenant)s and seq <= %(length)s
                   and split_part(session_id, ' ', 2)::int < %(sessions)s) messages""",
            {
                "tenant": tenant,
                "shift": shift,
                "sessions": size // SESSION_LENGTH,
                "length": SESSION_LENGTH,
                "users": USERS,
                "now": clock.now(),
                "day": clock.DAY,
            },
        )
        for filler in FILLERS:
            sql = filler.sql.replace("values (", "select ").removesuffix(")")
            sql = re.sub(r":(\w+)", r'copied."\1"', sql)
            connection.execute(f"{sql} from copied where number %% {filler.every} = 0", ())
