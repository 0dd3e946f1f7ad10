"""Search latency while the memory grows, and the cost of the index for an append.

Texts are made of real words as frequent as words are (Zipf): those that the encoder's tokenizer knows, in its order, which is
about that of their frequency. A question takes words of such a text. A tenant has ten users; what is measured is the search of
one of them. Vectors are random directions around a few thousand centres: how long a comparison takes does not depend on them.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import retain_encoder

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
from retain import Memory, Settings
from retain.search.embedders import choose, quantise
from retain.search.search_engine import Item, SearchFilter
from retain.search.words import STOP

USERS = 10
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
    """Generator of texts of words by Zipf's law, and of questions about them."""

    def __init__(self, seed: int = 1) -> None:
        vocabulary = json.loads(
            Path(retain_encoder.__file__).with_name("tokenizer.json").read_text("utf-8")
        )
        words = [word for word in vocabulary["model"]["vocab"] if word.isascii() and word.isalpha()]
        self._words = np.array([word for word in words if len(word) > 2])
        frequency = 1 / (np.arange(len(self._words)) + 2.7)
        self._until = np.cumsum(frequency / frequency.sum())
        self._dice = np.random.default_rng(seed)

    def some(self, count: int) -> list[str]:
        """Return texts of 3 to 300 words, most of about 25."""
        sizes = np.clip(self._dice.lognormal(3.2, 0.7, count), 3, 300).astype(int)
        places = np.searchsorted(self._until, self._dice.random(sizes.sum()))
        words = self._words[np.minimum(places, len(self._words) - 1)]
        return [" ".join(part) for part in np.split(words, np.cumsum(sizes)[:-1])]

    def questions(self, count: int) -> list[str]:
        """Return questions: up to six words of a text that are no stop words, in random order."""
        questions = []
        for text in self.some(count):
            words = [word for word in text.split() if word not in STOP]
            self._dice.shuffle(words)
            questions.append(f"What was the {' '.join(words[:6])}?")
        return questions


def run(plan: Plan) -> Iterator[Table]:
    """Yield the cost for an append, then search latency by size."""
    yield share(plan)
    yield embedding(plan)
    rows: list[list[str]] = []
    rows += grown(
        plan, "SQLite", f"sqlite:///{plan.new_folder()}/search.db", [10_000, 100_000, 1_000_000]
    )
    rows += grown(plan, "PostgreSQL", plan.postgres("search"), [10_000, 100_000])
    yield Table(
        "Search",
        "One user of ten in a tenant, 100 candidates of each leg, ten hits. The question's own embedding is in the time of "
        "the default; the first search of a process, which reads the vectors, is shown alone. CPU is that of this process.",
        COLUMNS,
        rows,
    )


class NoIndex:
    """An index that stores nothing."""

    def add(self, tx: object, rows: object) -> None:
        """Do nothing."""


def share(plan: Plan) -> Table:
    """Measure a durable append with and without index rows."""
    folder, results = plan.new_folder(), []
    for engine in ("SQLite", "PostgreSQL"):
        calls: dict[str, Callable[[], object]] = {}
        for name in ("indexed", "bare"):
            url = (
                f"sqlite:///{folder}/{name}.db"
                if engine == "SQLite"
                else plan.postgres(f"search_{name}")
            )
            me = plan.open(url)
            texts = iter(Texts(2).some(60_000))
            if name == "bare":
                object.__setattr__(me.services.index, "engine", NoIndex())
            calls[name] = lambda me=me, texts=texts: me.messages.append(
                SESSION, "user", next(texts)
            )  # type: ignore[misc]
        race(20, 20, calls)
        timings = race(plan.amount(400, 60), 64, calls)
        results.append(
            versus(
                f"{engine}: with the index, without",
                timings["indexed"],
                timings["bare"],
                Target(at_most=1.3),
            )
        )
    return Table(
        "Cost of the index for an append",
        "One thread, durable, Zipfian texts.",
        RATIO_COLUMNS,
        results,
    )


def embedding(plan: Plan) -> Table:
    """Measure the built-in embedder on batches."""
    embedder = choose(Settings())
    assert embedder is not None
    count = plan.amount(100_000, 10_000)
    texts = Texts(4).some(count)
    embedder.embed(texts[:10])
    started = time.perf_counter()
    for start in range(0, count, BATCH_SIZE):
        quantise(embedder.embed(texts[start : start + BATCH_SIZE]))
    timings = time.perf_counter() - started
    row = [
        f"{count:,} texts, embedded and made bytes of",
        f"{timings:.1f} s",
        f"{count / timings:,.0f}/s",
        "100,000 in 30 s",
    ]
    return Table(
        "Bulk embedding",
        "The built-in embedder, one thread.",
        ("what", "time", "rate", "target"),
        [row],
    )


def grown(plan: Plan, engine: str, url: str, sizes: Sequence[int]) -> Iterator[list[str]]:
    """Measure search at each size of a growing database."""
    memory = Memory.open(url, settings=Settings())
    words = Memory.open(url, settings=Settings(embedder="none"))
    texts, size = Texts(), 0
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
    """Add index rows and their vectors."""
    services = memory.scope(tenant="acme").services
    embedder = services.embedder
    assert embedder is not None
    dimensions = embedder.dimensions
    rng = np.random.default_rng(size)
    centres = rng.normal(size=(2000, dimensions)).astype(np.float32)
    for start in range(size, target_size, BATCH_SIZE):
        items = [
            row(start + place, text)
            for place, text in enumerate(texts.some(min(BATCH_SIZE, target_size - start)))
        ]
        services.database.write(
            "acme",
            lambda tx, items=items: services.index.add(tx, items),  # type: ignore[misc]
            long=True,
        )
        vectors = centres[rng.integers(0, 2000, len(items))] + 0.8 * rng.normal(
            size=(len(items), dimensions)
        ).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        made = [
            (start + 1 + place, scale, small)
            for place, (scale, small) in enumerate(quantise(vectors))
        ]
        services.database.write(
            "acme",
            lambda tx, made=made: services.index.engine.put(tx, embedder.identity, made),  # type: ignore[misc]
            long=True,
        )


def row(number: int, text: str) -> Item:
    """Return a message of one of the users."""
    user, place = number % USERS, number // USERS
    session = f"{user} {place // 200}"
    values: Mapping[str, Any] = {
        "user": f"user {user}",
        "agent": "scout",
        "session": session,
        "author": "Ada",
    }
    return Item(
        "messages",
        session,
        text,
        START + number * 1_000_000,
        seq=place % 200,
        role="user",
        **values,
    )


def at_size(
    engine: str, memory: Memory, words: Memory, questions: Sequence[str], size: int
) -> Iterator[list[str]]:
    """Measure the latency of one user at one size."""
    mine = f"{size // USERS:,}"
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
            mine,
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
        yield line(f"{engine}, {name}", mine, size, timings, target)
    services = memory.scope(tenant="acme").services
    embedder = services.embedder
    assert embedder is not None
    timings = [timed(partial(embedder.embed, [question])) for question in questions]
    yield line(f"{engine}, default: the question's embedding", mine, size, timings, None)
    vector = np.ones(embedder.dimensions, np.float32) / np.sqrt(embedder.dimensions)
    before = psutil.Process().memory_info().rss
    everybody = SearchFilter()
    timings = [
        timed(lambda: near(services, vector, embedder.identity, everybody)) for _ in range(5)
    ]
    room = (psutil.Process().memory_info().rss - before) >> 20
    what = f"{engine}, nearest of everybody's ({room} MiB for their vectors)"
    yield line(what, f"{size:,}", size, timings[1:], None)


def near(services: Any, vector: Any, model: str, questions: SearchFilter) -> object:
    """Run only the vector search."""
    return services.database.read(
        "acme", lambda tx: services.index.engine.nearest(tx, vector, model, questions, 300)
    )


class Timing(NamedTuple):
    """Seconds of one call, and of CPU of this process."""

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
    mine: str,
    size: int,
    timings: Sequence[Timing],
    target: tuple[float, float | None] | None,
) -> list[str]:
    """Return a row of COLUMNS."""
    seconds = sorted(timing.seconds for timing in timings)
    middle = statistics.median(seconds)
    last = seconds[int(0.99 * (len(seconds) - 1))]
    cpu = statistics.median(timing.cpu for timing in timings)
    shown = verdict = ""
    if target:
        shown = f"{duration(target[0])} / {duration(target[1]) if target[1] else '–'}"
        verdict = (
            "met" if middle <= target[0] and (target[1] is None or last <= target[1]) else "not met"
        )
    return [
        what,
        mine,
        f"{size:,}",
        duration(middle),
        duration(last),
        duration(cpu),
        shown,
        verdict,
    ]
