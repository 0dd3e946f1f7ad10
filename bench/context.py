"""Contexts: time compared with a bare read of the same window, and unchanged prefixes of prompts.

A provider's prompt cache serves the part of a prompt that is an unchanged prefix of the previous one.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from bench import direct
from bench.harness import (
    AGENT,
    RATIO_COLUMNS,
    SESSION,
    TENANT,
    TEXT,
    Plan,
    Table,
    Target,
    race,
    scope_of,
    versus,
)
from bench.window import MAX_SEQ, fill
from memorist import Memory, NewMessage, Scope, Settings
from memorist.base import tokens

OTHER_SESSIONS = 90
ENTRY_COUNT = 200
REFERENCE_COUNT = 100
QUESTION = "And which platform does it leave from?"
WORDS = TEXT.replace(";", "").replace(".", "").lower().split()
THANKS = "Thank you!"
"""A message for which nothing is recalled."""
DEFAULT_SETTINGS = Settings()
EXTRACTIVE_SUMMARIES = Settings(summary_enabled=True, summary_model="extractive")
TURNS = (200, 60)


def run(plan: Plan) -> Iterator[Table]:
    """Yield the speed on SQLite, then the share of prompts that does not change."""
    yield speed(plan)
    yield prefixes(plan)


def speed(plan: Plan) -> Table:
    """Measure sessions of 10,000 and of 100 messages, in a tenant of 100,000."""
    large = 10_000
    others = plan.amount(OTHER_SESSIONS, OTHER_SESSIONS // 3)
    folder = plan.new_folder()
    plan.progress(f"writing {large + others * 1000:,} messages")
    me = plan.open(f"sqlite:///{folder}/context.db")
    memory = plan.memory_of(me)
    for number in range(others):
        session = me.sessions.add(f"other {number}").id
        me.messages.extend(session, [NewMessage("user", TEXT)] * 1000)
    fill(me, large)
    short = me.sessions.add("short").id
    me.messages.extend(short, [NewMessage("user", TEXT)] * 100)
    add_memories(me)
    for session in (SESSION, short):
        for number in range(REFERENCE_COUNT):
            output = f"line {number} of an output\n" * 400
            me.refs.capture(
                output, source=f"make target-{number}", status="Success", session=session
            )
    shown = sum(item.layer == "window" for item in me.context(SESSION, THANKS).report.items)
    fitting = memory.settings.context_budget() // me.messages.get(SESSION, 1).tokens
    with closing(direct.connect(folder / "context.db")) as bare:

        def window(number: int) -> Callable[[], object]:
            return lambda: bare.execute(
                direct.WINDOW, (TENANT, SESSION, MAX_SEQ, 1, number)
            ).fetchall()

        empty = memory.scope(tenant=TENANT, user="nobody", agent="new")
        fresh = empty.sessions.add("fresh").id
        empty.messages.extend(fresh, [NewMessage("user", TEXT)] * 20)
        contenders: dict[str, Callable[[], object]] = {
            "long": lambda: me.context(SESSION, THANKS),
            "short": lambda: me.context(short, THANKS),
            "recall": lambda: me.context(SESSION, QUESTION),
            "bare": window(fitting),
            "bare shown": window(shown),
            "bare 20": window(20),
            "records": lambda: me.messages.window(SESSION, last=shown),
            "alone": lambda: empty.context(fresh, THANKS),
        }
        race(3, 3, contenders)
        timings = race(plan.amount(300, 60), 3, contenders)
    goal = Target(at_most=10)
    rows = [
        versus(
            f"against a bare select of the {fitting} messages that fit the budget",
            timings["long"],
            timings["bare"],
            goal,
        ),
        versus(
            f"against a bare select of the {shown} messages in the context",
            timings["long"],
            timings["bare shown"],
        ),
        versus("against a bare select of 20 messages", timings["long"], timings["bare 20"]),
        versus("with recall against without", timings["recall"], timings["long"]),
        versus(
            f"against a window of the same {shown} messages as records",
            timings["long"],
            timings["records"],
        ),
        versus(
            "10,000 messages in the session against 100",
            timings["long"],
            timings["short"],
            Target(at_most=1.3),
        ),
        versus(
            "context of 20 messages without other memory, against a bare select of them",
            timings["alone"],
            timings["bare 20"],
        ),
    ]
    about = (
        f"A budget of {memory.settings.context_budget():,} tokens; {large + others * 1000:,} messages in "
        f"the tenant, {ENTRY_COUNT} entries, {REFERENCE_COUNT} references, notes of 20 sections, 20 state "
        "keys. The time includes reading, dividing the budget, rendering and the report. Without recall "
        "except in one row: the new message is a thank-you."
    )
    return Table("A context, SQLite", about, RATIO_COLUMNS, rows)


def add_memories(me: Scope) -> None:
    """Add entries, notes and state."""
    rng = random.Random(1)
    for number in range(ENTRY_COUNT):
        me.entries.add(sentence(rng), kind="core" if number % 2 else "journal")
    me.notes.overwrite(
        "".join(
            f"## Topic {number}\n\n{sentence(rng)}\n{sentence(rng)}\n\n" for number in range(20)
        )
    )
    for number in range(20):
        me.state.set(f"key{number}", {"value": rng.choice(WORDS)})


def sentence(rng: random.Random, words: int = 14) -> str:
    """Return a sentence of random words."""
    return " ".join(rng.choices(WORDS, k=words)).capitalize() + "."


@dataclass(frozen=True)
class Scenario:
    """A kind of conversation, in which prompts are compared."""

    name: str
    tools: bool = False
    state: bool = False
    entries: int = 0
    settings: Settings = DEFAULT_SETTINGS


SCENARIOS = (
    Scenario("all messages"),
    Scenario("a key changes every turn", state=True),
    Scenario("an entry is added every 20 turns", entries=20),
    Scenario("tool calls in every third turn, their outputs captured", tools=True),
    Scenario("extractive summaries", settings=EXTRACTIVE_SUMMARIES),
    Scenario(
        "extractive summaries, tool calls, a key, entries",
        tools=True,
        state=True,
        entries=20,
        settings=EXTRACTIVE_SUMMARIES,
    ),
)


def prefixes(plan: Plan) -> Table:
    """Compare each prompt with the previous one, in conversations larger than the budget."""
    rows = []
    for scenario in SCENARIOS:
        plan.progress(scenario.name)
        unchanged, total, recalled, largest, second_half = shares(scenario, plan.amount(*TURNS))
        share = unchanged / total
        target = Target(at_least=0.85)
        rows.append(
            [
                scenario.name,
                f"{100 * share:.1f} %",
                f"{100 * unchanged / (total - recalled):.1f} %",
                f"{100 * second_half:.1f} %",
                f"{largest:,}",
                str(target),
                target.verdict(share),
            ]
        )
    about = (
        "Share of the tokens (exact, o200k) of all prompts that are an unchanged prefix of the previous "
        f"turn's prompt, over {plan.amount(*TURNS)} turns with a budget of "
        f"{DEFAULT_SETTINGS.context_budget():,} tokens; the same share of the tokens that are not "
        "recalled memories, which every question changes (random words recall more than real questions "
        "do); the share in the second half, when the conversation no longer fits; and the tokens of the "
        "largest prompt as plain text."
    )
    return Table(
        "Unchanged prefixes of prompts",
        about,
        ("conversation", "share", "without recall", "second half", "largest", "target", ""),
        rows,
    )


def shares(scenario: Scenario, turns: int) -> tuple[int, int, int, int, float]:
    """Return unchanged, all and recalled tokens, the largest prompt, and the share in the second half."""
    rng = random.Random(7)
    count_tokens = tokens.counter("gpt-4o")
    before = ""
    unchanged = []
    sizes = []
    recalled = largest = 0
    with Memory.open("memory:", settings=scenario.settings) as memory:
        me = scope_of(memory)
        me.sessions.add(SESSION)
        me.agents.add(AGENT, prompt="You are a travel assistant. " + sentence(rng, 60))
        add_initial_memories(me, rng)
        for turn in range(turns):
            question = sentence(rng, 20)
            if scenario.state:
                me.state.set("turn", turn)
            if scenario.entries and turn % scenario.entries == scenario.entries - 1:
                me.entries.add(sentence(rng))
            context = me.context(SESSION, question)
            prompt = "\n".join(
                json.dumps(message, ensure_ascii=False) for message in context.messages
            )
            unchanged.append(count_tokens(os.path.commonprefix([before, prompt])))  # noqa: RUF071 - a prefix of characters, not of paths
            sizes.append(count_tokens(prompt))
            recalled += sum(
                count_tokens(context.texts[item.source])
                for item in context.report.items
                if item.layer == "recall"
            )
            largest = max(largest, count_tokens(context.text()))
            before = prompt
            me.save_turn(
                SESSION,
                turn_of(rng, question, turn, scenario.tools and turn % 3 == 2),
                context=context,
            )
            if scenario.settings.summary_enabled:
                me.summaries.fold(SESSION)
    unchanged = unchanged[1:]
    sizes = sizes[1:]
    half = turns // 2
    second_half = sum(unchanged[half:]) / sum(sizes[half:])
    return sum(unchanged), sum(sizes), recalled, largest, second_half


def add_initial_memories(me: Scope, rng: random.Random) -> None:
    """Add the entries, notes and state that exist before the conversation."""
    for number in range(10):
        me.entries.add(sentence(rng), kind="core" if number % 2 else "journal")
    me.notes.overwrite(f"## Preferences\n\n{sentence(rng)}\n\n## Facts\n\n{sentence(rng)}\n")
    me.state.set("language", "de")


def turn_of(rng: random.Random, question: str, number: int, calls: bool) -> list[NewMessage]:
    """Return the messages of a turn, with or without a tool call and its output."""
    user_message = NewMessage("user", question)
    answer = NewMessage("assistant", " ".join(sentence(rng, 18) for _ in range(3)))
    if not calls:
        return [user_message, answer]
    call = {
        "type": "tool_call",
        "id": f"call-{number}",
        "name": "look_up",
        "arguments": {"what": rng.choice(WORDS)},
    }
    lines = "\n".join(sentence(rng, 10) for _ in range(120 if number % 2 else 10))
    result = {"type": "tool_result", "tool_call_id": f"call-{number}", "output": lines}
    return [
        user_message,
        NewMessage("assistant", {"parts": [call]}),
        NewMessage("tool", {"parts": [result]}),
        answer,
    ]
