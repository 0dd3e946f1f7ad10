"""Facts: the CPU time of a turn with `facts: explicit`, compared with `facts: off`.

Learning runs in the background, so storing a turn must take the same time. Contexts and searches
read what was learned, and take a little longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count

from bench.harness import RATIO_COLUMNS, SESSION, Plan, Table, Target, race, versus
from memorist import Scope, Settings

MODES = ("explicit", "off")
TURN_TEXTS = (
    "My friend {name} lives in Porto.",
    "The train to the harbour was late again. Which platform does number {number} leave from?",
    "Thanks, the tour of the old town was what I was looking for, for {number} people.",
    "Can you repeat the opening hours of museum {number}?",
)
QUESTION = "Which of my friends live in Porto?"


def run(plan: Plan) -> Iterator[Table]:
    """Yield the times of the steps of a turn on SQLite."""
    opened = {
        mode: plan.open(f"sqlite:///{plan.new_folder()}/facts.db", settings=settings(mode))
        for mode in MODES
    }
    numbers = {mode: count() for mode in MODES}

    def store(mode: str) -> None:
        number = next(numbers[mode])
        name = "Al" + chr(ord("a") + number % 26) + chr(ord("a") + number // 26 % 26)
        text = TURN_TEXTS[number % len(TURN_TEXTS)].format(name=name, number=number)
        opened[mode].messages.append(SESSION, "user", text)
        opened[mode].messages.append(SESSION, "assistant", f"I see. Here is answer {number}.")

    # Storing is last: nothing is learned from the turns that it adds.
    steps: dict[str, Callable[[str], object]] = {
        "search": lambda mode: opened[mode].search(QUESTION),
        "context": lambda mode: opened[mode].context(SESSION, QUESTION),
        "store a question and an answer": store,
    }
    turns = plan.amount(600, 80)
    for mode in MODES:
        for _ in range(turns):
            store(mode)
        learn(plan, opened[mode])
    facts = sum(1 for _ in opened["explicit"].facts.list(limit=1000))
    rows = []
    for name, step in steps.items():
        contenders = {mode: lambda mode=mode, step=step: step(mode) for mode in MODES}
        calls = 20 if step is store else 2
        race(2, calls, contenders)
        timings = race(plan.amount(200, 25), calls, contenders, time.process_time)
        target = Target(at_most=1.05) if step is store else None
        rows.append(versus(name, timings["explicit"], timings["off"], target))
    about = (
        f"CPU time with `facts: explicit` compared with `facts: off`; {turns:,} turns in one "
        f"session, from which {facts} current facts were learned."
    )
    yield Table("A turn with and without facts, SQLite", about, RATIO_COLUMNS, rows)


def settings(mode: str) -> Settings:
    """Return the settings of a contender."""
    return Settings(facts=mode, embedder="static")  # type: ignore[arg-type]


def learn(plan: Plan, me: Scope) -> None:
    """Run the background jobs, which learn and embed."""
    plan.memory_of(me).run_jobs()
