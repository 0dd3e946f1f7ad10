"""Search latency while the memory grows, and the cost of the index for an append.

Texts consist of real words with a Zipf distribution. The words are those of the encoder's tokenizer,
whose order is roughly that of their frequency. A question takes words of such a text. The tenant has
ten users; the searches are those of one user. Vectors are random directions around 2,000 centres: the
time of a comparison does not depend on their values.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import psutil

import memorist_encoder
from bench.filling import Floats, index_tenant, mark_sessions
from bench.harness import (
    RATIO_COLUMNS,
    SESSION,
    Plan,
    Table,
    Target,
    duration,
    race,
    versus,
)
from memorist import Memory, Scope, Settings
from memorist.jobs import index_owners
from memorist.search.embedders import choose, quantise
from memorist.search.search_view import SearchFilter, open_view
from memorist.search.words import STOP
from memorist.storage.checksum import checksum
from memorist.storage.database import Transaction

USERS = 10
SESSION_LENGTH = 200
BATCH_SIZE = 5000
START = 1_700_000_000_000_000
COLUMNS = (
    "what",
    "rows of the user",
    "in the tenant",
    "p50",
    "p99",
    "CPU p50",
    "target for p50 / p99",
    "",
)


class Texts:
    """Generator of texts with Zipf-distributed words, and of questions about them."""

    def __init__(self, seed: int = 1) -> None:
        vocabulary = json.loads(
            Path(memorist_encoder.__file__).with_name("tokenizer.json").read_text("utf-8")
        )
        words = [word for word in vocabulary["model"]["vocab"] if word.isascii() and word.isalpha()]
        self._words = np.array([word for word in words if len(word) > 2])
        frequency = 1 / (np.arange(len(self._words)) + 2.7)
        self._cumulative = np.cumsum(frequency / frequency.sum())
        self._rng = np.random.default_rng(seed)

    def some(self, count: int) -> list[str]:
        """Return texts of 3 to 300 words; the median is about 25."""
        sizes = np.clip(self._rng.lognormal(3.2, 0.7, count), 3, 300).astype(int)
        indexes = np.searchsorted(self._cumulative, self._rng.random(sizes.sum()))
        words = self._words[np.minimum(indexes, len(self._words) - 1)]
        return [" ".join(part) for part in np.split(words, np.cumsum(sizes)[:-1])]

    def questions(self, count: int) -> list[str]:
        """Return questions with up to six words of a text each, in random order, no stop words."""
        questions = []
        for text in self.some(count):
            words = [word for word in text.split() if word not in STOP]
            self._rng.shuffle(words)
            questions.append(f"What was the {' '.join(words[:6])}?")
        return questions


def run(plan: Plan) -> Iterator[Table]:
    """Yield the cost of the index, the speed of embedding, then search latency by size."""
    yield index_cost(plan)
    yield bulk_embedding(plan)
    rows: list[list[str]] = []
    rows += measure_growth(
        plan, "SQLite", f"sqlite:///{plan.new_folder()}/search.db", [10_000, 100_000, 1_000_000]
    )
    rows += measure_growth(plan, "PostgreSQL", plan.postgres("search"), [10_000, 100_000])
    yield Table(
        "Search",
        "One of the ten users of a tenant; 100 candidates from each retriever, ten hits. “default” includes "
        "embedding the question. The first search of a process reads the vectors and has its own row. CPU "
        "is the CPU time of this process.",
        COLUMNS,
        rows,
    )


def index_cost(plan: Plan) -> Table:
    """Measure a durable append with and without its mark for the index.

    The index job runs now and then, so the next append sets a mark again.
    """
    folder = plan.new_folder()
    results = []
    for engine in ("SQLite", "PostgreSQL"):
        calls: dict[str, Callable[[], object]] = {}
        scopes: dict[str, Scope] = {}
        for name in ("indexed", "bare"):
            url = (
                f"sqlite:///{folder}/{name}.db"
                if engine == "SQLite"
                else plan.postgres(f"search_{name}")
            )
            me = scopes[name] = plan.open(url)
            texts = iter(Texts(2).some(60_000))
            if name == "bare":
                object.__setattr__(me.services.index, "mark_messages", lambda *_: None)
            calls[name] = lambda me=me, texts=texts: me.messages.append(
                SESSION, "user", next(texts)
            )  # type: ignore[misc]
        race(20, 20, calls)
        timings: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(plan.amount(200, 30)):
            index_owners.run(scopes["indexed"].services, scopes["indexed"].owner.tenant)
            for name, seconds in race(2, 64, calls).items():
                timings[name] += seconds
        results.append(
            versus(
                f"{engine}: with the index, against without it",
                timings["indexed"],
                timings["bare"],
                Target(at_most=1.3),
            )
        )
    return Table(
        "Cost of the index for an append",
        "One thread, durable writes, texts with Zipf-distributed words. The index job runs after 128 "
        "appends and is not counted.",
        RATIO_COLUMNS,
        results,
    )


def bulk_embedding(plan: Plan) -> Table:
    """Measure both embedders on batches."""
    rows = [
        embed_many("static", plan.amount(100_000, 10_000), "100,000 in 30 s"),
        embed_many("encoder", plan.amount(2_000, 200), "40/s"),
    ]
    return Table(
        "Bulk embedding",
        "Texts without speakers and previous messages, one thread.",
        ("what", "time", "rate", "target"),
        rows,
    )


def embed_many(name: Literal["static", "encoder"], count: int, target: str) -> list[str]:
    """Measure one embedder."""
    embedder = choose(Settings(embedder=name))
    assert embedder is not None
    texts = Texts(4).some(count)
    embedder.embed(texts[:10])
    started = time.perf_counter()
    for start in range(0, count, BATCH_SIZE):
        quantise(embedder.embed(texts[start : start + BATCH_SIZE]))
    seconds = time.perf_counter() - started
    return [
        f"{name}: {count:,} texts, embedded and quantised",
        f"{seconds:.1f} s",
        f"{count / seconds:,.0f}/s",
        target,
    ]


def measure_growth(plan: Plan, engine: str, url: str, sizes: Sequence[int]) -> Iterator[list[str]]:
    """Measure search at each size of a growing database."""
    memory = Memory.open(url, settings=Settings())
    words = Memory.open(url, settings=Settings(embedder="none"))
    texts = Texts()
    size = 0
    questions = Texts(9).questions(plan.amount(300, 100))
    try:
        for target_size in sizes[: plan.amount(len(sizes), 1)]:
            plan.progress(f"{engine}: filling up to {target_size:,} rows")
            fill(memory, texts, size, target_size)
            size = target_size
            yield from at_size(engine, memory, words, questions, size)
    finally:
        words.close()
        memory.close()


def fill(memory: Memory, texts: Texts, size: int, target_size: int) -> None:
    """Add messages, their index and their vectors."""
    services = memory.scope(tenant="acme").services
    for start in range(size, target_size, BATCH_SIZE):
        rows = [
            message_row(start + offset, text)
            for offset, text in enumerate(texts.some(min(BATCH_SIZE, target_size - start)))
        ]
        services.database.write("acme", partial(write_rows, services, rows), long=True)

    def near_centres(count: int, dimensions: int) -> Floats:
        rng = np.random.default_rng(size)
        centres = rng.normal(size=(2000, dimensions)).astype(np.float32)
        return centres[rng.integers(0, 2000, count)] + 0.8 * rng.normal(
            size=(count, dimensions)
        ).astype(np.float32)

    index_tenant(services, "acme", near_centres)


def message_row(number: int, text: str) -> dict[str, Any]:
    """Return a message of one of the users, and its session."""
    user = number % USERS
    message_number = number // USERS
    content = json.dumps({"text": text})
    return {
        "session": f"{user} {message_number // SESSION_LENGTH}",
        "user": f"user {user}",
        "seq": message_number % SESSION_LENGTH + 1,
        "content": content,
        "at": START + number * 1_000_000,
        "checksum": checksum(content, "Ada"),
        "session_checksum": checksum("", "{}"),
    }


def write_rows(services: Any, rows: Sequence[Mapping[str, Any]], tx: Transaction) -> None:
    """Write messages and their sessions, and mark new sessions as fresh."""
    added = [row for row in rows if row["seq"] == 1]
    tx.many(
        """insert into sessions (tenant, id, user_id, agent, label, attributes, summary,
               summarized_count, first_seq, first_at, touched_at, created_at, checksum)
           values (:tenant, :session, :user, 'scout', '', '{}', '', 0, 1, :at, :at, :at,
               :session_checksum)""",
        [_without(row, "seq", "content", "checksum") for row in added],
    )
    tx.many(
        """insert into messages (tenant, session_id, seq, role, content, author, chatter, tokens,
               created_at, checksum)
           values (:tenant, :session, :seq, 'user', :content, 'Ada', 0, 20, :at, :checksum)""",
        [_without(row, "user", "session_checksum") for row in rows],
    )
    mark_sessions(services, tx, [(row["session"], row["user"]) for row in added])
    grown = {row["session"]: row for row in reversed(rows)}
    for row in grown.values():
        if row["seq"] > 1:  # a session of an earlier batch, which may be indexed already
            (fresh_from,) = tx.one(_FRESH_FROM, session=row["session"]) or (None,)
            services.index.mark_messages(tx, row["session"], row["user"], row["seq"], fresh_from)


_FRESH_FROM = "select fresh_from from sessions where tenant = :tenant and id = :session"


def _without(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def at_size(
    engine: str, memory: Memory, words: Memory, questions: Sequence[str], size: int
) -> Iterator[list[str]]:
    """Measure the latency of one user at one size."""
    user_rows = f"{size // USERS:,}"
    targets = {
        ("SQLite", "words"): (0.005, 0.025),
        ("SQLite", "default"): (0.015, 0.04),
        ("PostgreSQL", "default"): (0.025, 0.08),
    }
    scopes = {
        "words": words.scope(tenant="acme", user="user 0", agent="scout"),
        "default": memory.scope(tenant="acme", user="user 0", agent="scout"),
    }
    for name, me in scopes.items():
        started = time.perf_counter()
        me.search(questions[0])
        first = time.perf_counter() - started
        yield [
            f"{engine}, {name}: the first search",
            user_rows,
            f"{size:,}",
            duration(first),
            "",
            "",
            "",
            "",
        ]
        timings = [timed(partial(me.search, question)) for question in questions]
        target = (
            targets.get((engine, name)) if size == 1_000_000 or engine == "PostgreSQL" else None
        )
        yield line(f"{engine}, {name}", user_rows, size, timings, target)
    services = memory.scope(tenant="acme").services
    embedder = services.embedder
    assert embedder is not None
    timings = [timed(partial(embedder.embed, [question])) for question in questions]
    yield line(f"{engine}, default: the question's embedding", user_rows, size, timings, None)
    vector = np.ones(embedder.dimensions, np.float32) / np.sqrt(embedder.dimensions)
    before = psutil.Process().memory_info().rss
    all_users = SearchFilter()
    timings = [
        timed(lambda: find_nearest(services, vector, embedder.identity, all_users))
        for _ in range(5)
    ]
    mebibytes = (psutil.Process().memory_info().rss - before) >> 20
    what = f"{engine}, nearest vectors of all users ({mebibytes} MiB for the vectors)"
    yield line(what, f"{size:,}", size, timings[1:], None)


def find_nearest(services: Any, vector: Any, model: str, filter: SearchFilter) -> object:
    """Run only the vector search."""

    def work(tx: Transaction) -> object:
        view = open_view(tx, services.index, services.findables, filter, model)
        return view.nearest(vector, view.allowed(filter), 300)

    return services.database.read("acme", work)


class Timing(NamedTuple):
    """The elapsed seconds of a call, and the CPU seconds of this process."""

    seconds: float
    cpu: float


def timed(call: Callable[[], object]) -> Timing:
    """Return the time of one call."""
    started = time.perf_counter()
    cpu_started = time.process_time()
    call()
    return Timing(time.perf_counter() - started, time.process_time() - cpu_started)


def line(
    what: str,
    user_rows: str,
    size: int,
    timings: Sequence[Timing],
    target: tuple[float, float | None] | None,
) -> list[str]:
    """Return a row of COLUMNS."""
    seconds = sorted(timing.seconds for timing in timings)
    p50 = statistics.median(seconds)
    p99 = seconds[int(0.99 * (len(seconds) - 1))]
    cpu = statistics.median(timing.cpu for timing in timings)
    shown = verdict = ""
    if target:
        shown = f"{duration(target[0])} / {duration(target[1]) if target[1] else '–'}"
        verdict = (
            "met" if p50 <= target[0] and (target[1] is None or p99 <= target[1]) else "not met"
        )
    return [
        what,
        user_rows,
        f"{size:,}",
        duration(p50),
        duration(p99),
        duration(cpu),
        shown,
        verdict,
    ]
