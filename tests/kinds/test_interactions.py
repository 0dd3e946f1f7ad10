"""Interactions: each model call is recorded once, and totals match a plain computation: spec T1,
T2.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memorist import Memory, Scope
from memorist.base.errors import Invalid
from memorist.kinds.interactions import By, Interaction, Split, Total
from testkit.memories import scope_of

START = 1_760_000_000_000_000
DAY = 86_400_000_000


def at(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def test_an_interaction_round_trips(open_memory: Callable[..., Memory]) -> None:
    """Route, model, parameters, latency, tokens, cost, time."""
    me = scope_of(open_memory(clock=lambda: START), "ada", "scout")
    me.sessions.add("s1")
    sent = me.interactions.add(
        "/api/chat",
        "gpt-x",
        latency_ms=12.75,
        tokens_in=2**53,
        tokens_out=7,
        cost=0.1 + 0.2,
        parameters={"temperature": 0.5, "stop": ["\x00", "é"]},
        error="timeout",
        session="s1",
    )
    assert sent.parameters == {"temperature": 0.5, "stop": ["␀", "é"]}
    assert (sent.route, sent.model, sent.latency_ms) == ("/api/chat", "gpt-x", 12.75)
    assert (sent.tokens_in, sent.tokens_out, sent.cost) == (2**53, 7, 0.1 + 0.2)
    assert (sent.error, sent.user, sent.agent, sent.session) == ("timeout", "ada", "scout", "s1")
    assert sent.created_at == at(START)
    assert me.interactions.list().items == [sent]


def test_defaults_of_omitted_fields(memory: Memory) -> None:
    """Tenant-wide when the scope names nobody; an unknown cost is not zero."""
    sent = scope_of(memory).interactions.add("r", "m", latency_ms=0)
    assert (sent.tokens_in, sent.tokens_out, sent.cost, sent.parameters) == (None, None, None, {})
    assert sent.error == ""
    assert (sent.user, sent.agent, sent.session) == (None, None, None)
    assert scope_of(memory).interactions.list().items == [sent]
    (total,) = scope_of(memory).interactions.totals("model")
    assert (total.cost, total.p50, total.errors, total.split) == (None, 0.0, 0, "")
    scope_of(memory).interactions.add("r", "m", latency_ms=0, cost=0)
    assert [total.cost for total in scope_of(memory).interactions.totals("model")] == [0.0]


def test_unknown_tokens_and_latencies_are_left_out(me: Scope) -> None:
    """Sums and percentiles of the calls of which they are known; None if there is none."""
    sent = me.interactions.add("r", "m")
    assert (sent.latency_ms, sent.tokens_in, sent.tokens_out) == (None, None, None)
    assert me.interactions.list().items == [sent]
    (total,) = me.interactions.totals("model")
    assert (total.calls, total.tokens_in, total.tokens_out) == (1, None, None)
    assert (total.p50, total.p95, total.p99) == (None, None, None)
    for latency in (30, 10, 20):
        me.interactions.add("r", "m", latency_ms=latency, tokens_in=5)
    me.interactions.add("r", "m", tokens_out=2)
    (total,) = me.interactions.totals("model")
    assert (total.calls, total.tokens_in, total.tokens_out) == (5, 15, 2)
    assert (total.p50, total.p95, total.p99) == (20, 30, 30)
    for field in ("latency_ms", "tokens_in", "tokens_out"):
        with pytest.raises(Invalid, match=field):
            me.interactions.add("r", "m", **{field: -1})  # type: ignore[arg-type]


def test_no_interactions_have_no_totals(me: Scope) -> None:
    assert me.interactions.totals() == []
    assert me.interactions.list().items == []


# -- against a plain computation ------------------------------------------------------------------------------------


def percentile(latencies: Sequence[float | None], percent: int) -> float | None:
    """Return the nearest-rank percentile of the known latencies."""
    known = sorted(latency for latency in latencies if latency is not None)
    return known[math.ceil(percent * len(known) / 100) - 1] if known else None


def total_tokens(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def approximately(value: float) -> Any:
    """Compare floats; their sums depend on the order in the last digits."""
    return pytest.approx(value)


def group_key(call: Interaction, by: By | Split | None) -> str:
    hour = call.created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:00:00Z")
    return {"hour": hour, "day": hour[:10], None: ""}.get(by) or getattr(call, by or "", None) or ""


def total_cost(calls: list[Interaction]) -> Any:
    costs = [call.cost for call in calls if call.cost is not None]
    return approximately(math.fsum(costs)) if costs else None


def expected_totals(calls: list[Interaction], by: By, split: Split | None = None) -> list[Total]:
    groups: dict[tuple[str, str], list[Interaction]] = defaultdict(list)
    for call in calls:
        groups[group_key(call, by), group_key(call, split)].append(call)
    return [
        Total(
            *names,
            len(group),
            sum(1 for call in group if call.error),
            total_tokens([call.tokens_in for call in group]),
            total_tokens([call.tokens_out for call in group]),
            total_cost(group),
            *(percentile([call.latency_ms for call in group], percent) for percent in (50, 95, 99)),
        )
        for names, group in sorted(
            groups.items(), key=lambda pair: [name.encode() for name in pair[0]]
        )
    ]


@pytest.fixture
def calls(open_memory: Callable[..., Memory]) -> tuple[Memory, list[Interaction]]:
    """Random calls of two users, two agents and none, over nine days."""
    chance = random.Random(42)
    now = [START]
    memory = open_memory(clock=lambda: now[0])
    created = []
    for _ in range(260):
        now[0] = START + chance.randrange(9 * DAY)
        scope = scope_of(
            memory, chance.choice(["ada", "bob", None]), chance.choice(["scout", "cook", None])
        )
        created.append(
            scope.interactions.add(
                chance.choice(["/chat", "/run", "é", "Z"]),
                chance.choice(["small", "large", "Large", "ähnlich"]),
                latency_ms=chance.choice([chance.random() * 1000, 5, 5.0, 1e9, None]),
                tokens_in=chance.choice([chance.randrange(2**40), None]),
                tokens_out=chance.choice([chance.randrange(100), None]),
                cost=chance.choice([None, chance.random(), 0]),
                error=chance.choice(["", "", "broken"]),
            )
        )
    memory.scope(tenant="other", user="ada", agent="scout").interactions.add(
        "/chat", "small", latency_ms=1
    )
    return memory, created


BYS: tuple[tuple[By, Split | None], ...] = (
    ("day", None),
    ("hour", None),
    ("model", None),
    ("route", None),
    ("agent", None),
    ("hour", "agent"),
    ("day", "model"),
    ("day", "route"),
    ("model", "route"),
    ("agent", "model"),
)


def test_totals_and_lists_match_plain_python(calls: tuple[Memory, list[Interaction]]) -> None:
    """For the tenant, a user, an agent, and every filter; never another tenant's."""
    memory, created = calls
    choices: list[dict[str, Any]] = [
        {},
        {"model": "small"},
        {"route": "é"},
        {"model": "Large", "route": "/run"},
        {"since": at(START + 2 * DAY)},
        {"until": at(START + 2 * DAY)},
        {"since": at(START + DAY), "until": at(START + 5 * DAY), "model": "small"},
        {
            "since": created[3].created_at,
            "until": created[3].created_at + timedelta(microseconds=1),
        },
        {"model": "no such model"},
        {"since": at(START + 5 * DAY), "until": at(START + DAY)},
    ]
    for user in (None, "ada", "nobody"):
        for agent in (None, "scout"):
            scope = scope_of(memory, user, agent)
            for choice in choices:
                wanted = [
                    call
                    for call in created
                    if user in (None, call.user)
                    and agent in (None, call.agent)
                    and call.model == choice.get("model", call.model)
                    and call.route == choice.get("route", call.route)
                    and choice.get("since", call.created_at) <= call.created_at
                    and ("until" not in choice or call.created_at < choice["until"])
                ]
                for by, split in BYS:
                    result = scope.interactions.totals(by, split=split, **choice)
                    assert result == expected_totals(wanted, by, split), (
                        user,
                        agent,
                        choice,
                        by,
                        split,
                    )
                newest = sorted(wanted, key=lambda call: (call.created_at, call.id), reverse=True)
                assert scope.interactions.list(limit=1000, **choice).items == newest


# -- days -------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["UTC", "Asia/Kolkata", "America/St_Johns", "Pacific/Kiritimati"])
def zone(request: pytest.FixtureRequest) -> Iterator[str]:
    """The time zone of the process; the servers use another one."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield request.param
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def test_days_are_utc_days_everywhere(open_memory: Callable[..., Memory], zone: str) -> None:
    """Whatever the time zone of the machine or the server."""
    midnight = int(datetime(2026, 3, 29, tzinfo=UTC).timestamp()) * 1_000_000
    now = [midnight - 1]
    me = scope_of(open_memory(clock=lambda: now[0]), "ada", "scout")
    me.interactions.add("r", "m", latency_ms=1)
    now[0] = midnight
    me.interactions.add("r", "m", latency_ms=2)
    now[0] = midnight + DAY - 1
    me.interactions.add("r", "m", latency_ms=3)
    assert [(total.name, total.calls) for total in me.interactions.totals("day")] == [
        ("2026-03-28", 1),
        ("2026-03-29", 2),
    ]
    local = at(midnight).astimezone()
    assert [call.latency_ms for call in me.interactions.list(since=local)] == [3, 2]
    assert [call.latency_ms for call in me.interactions.list(until=local)] == [1]
    assert [call.created_at for call in me.interactions.list(until=local)] == [at(midnight - 1)]
