"""The backlog in numbers: the same that the jobs would find."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from memorist import Memory, NewMessage
from memorist.jobs.backlog import count_backlog
from testkit.clock import START, Now
from testkit.memories import scope_of


def test_the_backlog_is_counted_and_processed(open_memory: Callable[..., Memory], now: Now) -> None:
    """Sessions to fold, agents with fading journals, expired state and old messages; then zero."""
    memory = open_memory(
        clock=now, summary_enabled=True, summary_model="extractive", summary_threshold=3, summary_keep_last=1,
        consolidate="propose", retention_days=30,
    )  # fmt: skip
    me = scope_of(memory, "ada", "scout")
    jobs = ("index", "summaries", "facts", "consolidations", "retention", "webhooks")
    nothing = dict.fromkeys(jobs, 0)
    me.sessions.add("s")
    assert count_backlog(memory.services, "acme") == nothing
    me.messages.extend("s", [NewMessage("user", f"Plan {n} it is.") for n in range(9)])
    moment = datetime.fromtimestamp(START / 1e6, UTC)
    me.entries.add_many([
        {"content": f"Ada goes to the {place} in Porto.", "created_at": moment - timedelta(days=6)}
        for place in ("harbour", "harbour")
    ])  # fmt: skip
    me.state.set("soon gone", 1, ttl=1)
    now.micros += 2_000_000
    assert count_backlog(memory.services, "acme") == {
        **nothing,
        "summaries": 1,
        "facts": 1,
        "consolidations": 1,
        "retention": 1,
    }
    assert count_backlog(memory.services, "other") == nothing
    memory.run_jobs()
    memory.purge(days=30)
    assert count_backlog(memory.services, "acme") == nothing
    me.sessions.add("old")
    me.messages.append("old", "user", "Hello.", created_at=moment - timedelta(days=31))
    assert count_backlog(memory.services, "acme") == {**nothing, "facts": 1, "retention": 1}


def test_disabled_jobs_have_no_backlog(open_memory: Callable[..., Memory]) -> None:
    memory = open_memory(
        summary_enabled=False, summary_threshold=3, facts="off", consolidate="off", retention_days=0
    )
    me = scope_of(memory, "ada", "scout")
    me.sessions.add("s")
    me.messages.extend("s", [NewMessage("user", f"Plan {n} it is.") for n in range(9)])
    long_ago = datetime.now(UTC) - timedelta(days=6)
    me.entries.add_many([{"content": "Ada goes to Porto.", "created_at": long_ago}])
    assert set(count_backlog(memory.services, "acme").values()) == {0}
