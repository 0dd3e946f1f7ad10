"""Contexts: what do they cost against a bare read of the same window, does a long conversation cost more than a short one,
and how much of each prompt is the unchanged beginning of the one before, which a provider's prompt cache serves?
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
from retain import Memory, NewMessage, Scope, Settings
from retain.base import tokens

OTHERS = 90
ENTRIES = 200
REFERENCES = 100
QUESTION = "And which platform does it leave from?"
WORDS = TEXT.replace(";", "").replace(".", "").lower().split()
ORDINARY = Settings()
EXTRACTIVE = Settings(summary_enabled=True, summary_model="extractive")
TURNS = (200, 60)


def run(plan: Plan) -> Iterator[Table]:
    """Yield the speed on SQLite, then the shares of unchanged prompts."""
    yield speed(plan)
    yield prefixes(plan)


def speed(plan: Plan) -> Table:
    """Measure a session of 10,000 and one of 100 messages, in a tenant of 100,000."""
    large, others = 10_000, plan.amount(OTHERS, OTHERS // 3)
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
    remember(me)
    for session in (SESSION, short):
        for number in range(REFERENCES):
            output = f"line {number} of an output\n" * 400
            me.refs.capture(
                output, source=f"make target-{number}", status="Success", session=session
            )
    shown = sum(item.layer == "window" for item in me.context(SESSION, QUESTION).report.items)
    held = memory.settings.context_budget() // me.messages.get(SESSION, 1).tokens
    with closing(direct.connect(folder / "context.db")) as bare:

        def window(number: int) -> Callable[[], object]:
            return lambda: bare.execute(
                direct.WINDOW, (TENANT, SESSION, MAX_SEQ, 1, number)
            ).fetchall()

        empty = memory.scope(tenant=TENANT, user="nobody", agent="new")
        fresh = empty.sessions.add("fresh").id
        empty.messages.extend(fresh, [NewMessage("user", TEXT)] * 20)
        contenders: dict[str, Callable[[], object]] = {
            "long": lambda: me.context(SESSION, QUESTION),
            "short": lambda: me.context(short, QUESTION),
            "bare": window(held),
            "bare shown": window(shown),
            "bare 20": window(20),
            "records": lambda: me.messages.window(SESSION, last=shown),
            "alone": lambda: empty.context(fresh, QUESTION),
        }
        race(3, 3, contenders)
        timings = race(plan.amount(300, 60), 3, contenders)
    goal = Target(at_most=10)
    rows = [
        versus(
            f"against a bare select of the {held} messages that the budget holds",
            timings["long"],
            timings["bare"],
            goal,
        ),
        versus(
            f"against a bare select of the {shown} messages that are shown",
            timings["long"],
            timings["bare shown"],
        ),
        versus("against a bare select of 20 messages", timings["long"], timings["bare 20"]),
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
            "20 messages and nothing else remembered, against a bare select of them",
            timings["alone"],
            timings["bare 20"],
        ),
    ]
    about = (
        f"A budget of {memory.settings.context_budget():,} tokens; {large + others * 1000:,} messages in the tenant, "
        f"{ENTRIES} entries, {REFERENCES} references, notes of 20 sections, 20 keys; read, shared, written and reported."
    )
    return Table("A context, SQLite", about, RATIO_COLUMNS, rows)


def remember(me: Scope) -> None:
    """Add entries, notes, state and references."""
    rng = random.Random(1)
    for number in range(ENTRIES):
        me.entries.add(sentence(rng), kind="core" if number % 2 else "journal")
    me.notes.overwrite(
        "".join(
            f"## Topic {number}\n\n{sentence(rng)}\n{sentence(rng)}\n\n" for number in range(20)
        )
    )
    for number in range(20):
        me.state.set(f"key{number}", {"value": rng.choice(WORDS)})


def sentence(rng: random.Random, words: int = 14) -> str:
    """Return some new words."""
    return " ".join(rng.choices(WORDS, k=words)).capitalize() + "."


@dataclass(frozen=True)
class Talk:
    """A kind of conversation of 200 turns."""

    name: str
    tools: bool = False
    state: bool = False
    entries: int = 0
    settings: Settings = ORDINARY


TALKS = (
    Talk("all messages"),
    Talk("a key changes every turn", state=True),
    Talk("an entry is added every 20 turns", entries=20),
    Talk("tool calls in every third turn, their outputs captured", tools=True),
    Talk("extractive summaries", settings=EXTRACTIVE),
    Talk(
        "extractive summaries, tool calls, a key, entries",
        tools=True,
        state=True,
        entries=20,
        settings=EXTRACTIVE,
    ),
)


def prefixes(plan: Plan) -> Table:
    """Compare each prompt with the previous one, in conversations that outgrow the budget."""
    rows = []
    for talk in TALKS:
        plan.progress(talk.name)
        same, whole, largest, last = shares(talk, plan.amount(*TURNS))
        share = same / whole
        target = Target(at_least=0.85)
        rows.append(
            [
                talk.name,
                f"{100 * share:.1f} %",
                f"{100 * last:.1f} %",
                f"{largest:,}",
                str(target),
                target.verdict(share),
            ]
        )
    about = (
        "Tokens (exact, o200k) that are an unchanged beginning of the prompt of the turn before, of all prompts, "
        f"over {plan.amount(*TURNS)} turns with a budget of {ORDINARY.context_budget():,} tokens; the same in the second half, "
        "when the conversation no longer fits; and the largest prompt, as plain text."
    )
    return Table(
        "Unchanged prefixes of prompts",
        about,
        ("conversation", "share", "second half", "largest", "aim", ""),
        rows,
    )


def shares(talk: Talk, turns: int) -> tuple[int, int, int, float]:
    """Return unchanged tokens, all tokens, the largest prompt, and the share in the second half."""
    rng = random.Random(7)
    counted = tokens.counter("gpt-4o")
    before, stayed, sizes, largest = "", [], [], 0
    with Memory.open("memory:", settings=talk.settings) as memory:
        me = scope_of(memory)
        me.sessions.add(SESSION)
        me.agents.add(AGENT, prompt="You are a travel assistant. " + sentence(rng, 60))
        remember_little(me, rng)
        for turn in range(turns):
            question = sentence(rng, 20)
            if talk.state:
                me.state.set("turn", turn)
            if talk.entries and turn % talk.entries == talk.entries - 1:
                me.entries.add(sentence(rng))
            context = me.context(SESSION, question)
            prompt = "\n".join(
                json.dumps(message, ensure_ascii=False) for message in context.messages
            )
            stayed.append(counted(os.path.commonprefix([before, prompt])))  # noqa: RUF071, characters are what is meant
            sizes.append(counted(prompt))
            largest = max(largest, counted(context.text()))
            before = prompt
            me.save_turn(
                SESSION,
                turn_of(rng, question, turn, talk.tools and turn % 3 == 2),
                context=context,
            )
            if talk.settings.summary_enabled:
                me.summaries.fold(SESSION)
    stayed, sizes, half = stayed[1:], sizes[1:], turns // 2
    return sum(stayed), sum(sizes), largest, sum(stayed[half:]) / sum(sizes[half:])


def remember_little(me: Scope, rng: random.Random) -> None:
    """Add the memories that exist before the conversation."""
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
