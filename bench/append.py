"""Append of one durable message by one thread, compared with a bare insert and commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench import direct
from bench.harness import RATIO_COLUMNS, SESSION, TEXT, Plan, Table, Target, race, versus
from memorist import NewMessage, Scope


def run(plan: Plan) -> Iterator[Table]:
    """Yield a table per engine."""
    yield sqlite(plan)
    yield postgres(plan)


def sqlite(plan: Plan) -> Table:
    """Measure with one file per contender.

    All files stay open: closing the last connection would delete the write-ahead log.
    """
    folder = plan.new_folder()
    scopes = {
        name: plan.open(f"sqlite:///{folder}/{name}.db")
        for name in ("memorist", "keyed", "insert", "correct")
    }
    plan.progress("warming up until every write-ahead log has wrapped")
    for name, me in scopes.items():
        fill_log(me, folder / f"{name}.db")
    if pragmas := direct.differences(folder / "insert.db"):
        raise RuntimeError(f"These pragmas differ from memorist's: {', '.join(pragmas)}.")
    me, keyed = scopes["memorist"], scopes["keyed"]
    keys = iter(range(10**9))
    with (
        closing(direct.connect(folder / "insert.db")) as bare,
        closing(direct.connect(folder / "correct.db")) as correct,
    ):
        timings = race(
            plan.amount(1000, 100),
            20,
            {
                "memorist": lambda: me.messages.append(SESSION, "user", TEXT),
                "keyed": lambda: keyed.messages.append(
                    SESSION, "user", TEXT, key=f"request {next(keys)}"
                ),
                "insert": direct.insert(bare),
                "correct": direct.correct(correct),
            },
        )
    return Table(
        "Append of one message, SQLite",
        "One thread, `synchronous = full`, compared with the same statements on apsw, with the same "
        "tables and pragmas.",
        RATIO_COLUMNS,
        [
            versus(
                "begin, insert, commit", timings["memorist"], timings["insert"], Target(at_most=1.5)
            ),
            versus(
                "begin, find the next number, insert, commit",
                timings["memorist"],
                timings["correct"],
            ),
            versus(
                "memorist with an idempotency key, against begin, insert, commit",
                timings["keyed"],
                timings["insert"],
            ),
        ],
    )


def fill_log(me: Scope, path: Path) -> None:
    """Write until the write-ahead log restarts. While the log file grows, an fsync takes longer."""
    log = path.with_name(path.name + "-wal")

    def restarts() -> int:
        with log.open("rb") as file:
            return int.from_bytes(file.read(16)[12:])

    me.messages.append(SESSION, "user", TEXT)
    before = restarts()
    while restarts() == before:
        me.messages.extend(SESSION, [NewMessage("user", TEXT * 4)] * 500)


def postgres(plan: Plan) -> Table:
    """Measure with one database per contender."""
    me = plan.open(plan.postgres("append_memorist"))
    urls = [plan.postgres(f"append_{name}") for name in ("insert", "correct")]
    for url in urls:
        plan.memory_of(plan.open(url)).close()
    with direct.connect_postgres(urls[0]) as bare, direct.connect_postgres(urls[1]) as correct:
        contenders = {
            "memorist": lambda: me.messages.append(SESSION, "user", TEXT),
            "insert": direct.insert_postgres(bare),
            "correct": direct.correct_postgres(correct),
        }
        race(5, 20, contenders)  # prepare the statements and warm up the cache
        plan.analyze()
        timings = race(plan.amount(400, 40), 20, contenders)
    return Table(
        "Append of one message, PostgreSQL",
        "One thread, `synchronous_commit = on`, server on the same machine, compared with plain "
        "psycopg on the same tables as a superuser, without row-level security.",
        RATIO_COLUMNS,
        [
            versus("insert, commit", timings["memorist"], timings["insert"], Target(at_most=1.15)),
            versus(
                "lock the session, find the next number, insert, commit",
                timings["memorist"],
                timings["correct"],
            ),
        ],
    )
