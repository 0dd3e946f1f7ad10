"""The summary job: what is due, isolation of failures, and recorded costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memorist import Memory, NewMessage, Scope
from memorist.base import clock
from memorist.base.errors import Busy, ModelUnavailable, NotFound, Unreachable
from memorist.jobs import session_marks, summarize
from memorist.jobs.backlog import count_backlog
from memorist.jobs.job import MAX_ERRORS, JobResult
from memorist.jobs.runner import JobRunner
from memorist.jobs.status import job_problems
from memorist.kinds.backdating import RecordTimes, backdate_session
from memorist.models import Completion, Models
from memorist.storage.transfer.copy import _RESET_MARK
from memorist.testing import FailingModel, ModelRequest, ScriptedModel
from testkit.clock import Now
from testkit.failures import raised
from testkit.memories import scope_of
from testkit.models import ANSWER, with_model
from testkit.search_index import index_now

Open = Callable[..., Memory]


def fill(me: Scope, session: str, count: int) -> None:
    me.sessions.add(session)
    me.messages.extend(
        session, [NewMessage("user", f"This is m{n}m.") for n in range(1, count + 1)]
    )


def due(memory: Memory) -> list[str]:
    return summarize.due_sessions(memory.services, "acme")


def test_sessions_above_the_threshold_are_due(open_memory: Open) -> None:
    """By the number of stored messages that no summary covers."""
    memory = with_model(open_memory(summary_enabled=True), ScriptedModel(ANSWER))
    me = scope_of(memory, "ada", "scout")
    fill(me, "long", 41)
    fill(me, "short", 40)
    me.sessions.add("empty")
    assert due(memory) == ["long"]
    assert memory.run_jobs().jobs["summaries"] == JobResult(done=1)
    assert me.sessions.get("long").summarized_count == 29
    assert due(memory) == []
    memory.database.write(
        "acme",
        lambda tx: tx.run(
            "update sessions set first_seq = 30 where tenant = :tenant and id = 'short'"
        ),
    )
    assert due(memory) == []


def test_inactive_sessions_are_skipped(open_memory: Open) -> None:
    """Last use is stored to the minute: `since` allows for that."""
    memory = open_memory(summary_enabled=True)
    fill(scope_of(memory, "ada", "scout"), "long", 41)
    now = memory.database.read("acme", lambda tx: tx.now)
    ids = [
        [row[0] for row in session_marks.active_sessions(memory.services, "acme", since)]
        for since in (now - clock.MINUTE, now + clock.MINUTE)
    ]
    assert ids == [["long"], []]


def test_many_sessions_are_read_in_pages(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_marks, "SESSIONS_PER_READ", 3)
    memory = open_memory(summary_enabled=True, summary_threshold=2)
    me = scope_of(memory, "ada", "scout")
    for n in range(10):
        fill(me, f"s{n}", 3 if n % 2 else 2)
    assert sorted(due(memory)) == ["s1", "s3", "s5", "s7", "s9"]


def test_disabled_summaries_are_never_due(open_memory: Open) -> None:
    memory = with_model(open_memory(), ScriptedModel(ANSWER))
    fill(scope_of(memory, "ada", "scout"), "long", 60)
    assert memory.run_jobs().jobs["summaries"] == JobResult()


def test_a_failure_is_reported_and_does_not_stop_the_others(open_memory: Open) -> None:
    """Never swallowed, and retried in the next round."""

    def moody(request: ModelRequest) -> str:
        if "m7m" in request.prompt:
            raise ModelUnavailable(model="moody", problem="503")
        return ANSWER

    memory = with_model(
        open_memory(summary_enabled=True, summary_threshold=4, summary_keep_last=1),
        ScriptedModel(moody),
    )
    me = scope_of(memory, "ada", "scout")
    for name, count in (("a", 5), ("bad", 9), ("c", 5)):
        fill(me, name, count)
    worked = memory.run_jobs()
    assert (worked.jobs["summaries"].done, worked.failed) == (2, 1)
    assert worked.errors == [
        "tenant acme, session bad: The model 'moody' does not answer: 503. No result was saved; try again."
    ]
    assert memory.run_jobs().failed == 1
    assert [me.sessions.get(name).summarized_count for name in ("a", "bad", "c")] == [4, 0, 4]


def test_a_missing_model_is_reported_once(open_memory: Open) -> None:
    memory = open_memory(summary_enabled=True)
    me = scope_of(memory, "ada", "scout")
    for n in range(3):
        fill(me, f"s{n}", 41)
    done = memory.run_jobs().jobs["summaries"]
    assert (done.done, done.left, done.failed, len(done.errors)) == (0, 2, 1, 1)
    assert "summary_model: extractive" in done.errors[0]


def test_every_call_is_recorded_with_its_cost(open_memory: Open) -> None:
    """Also failed ones; for the session's user and agent."""
    model = ScriptedModel("", ANSWER, name="priced", cost=0.25)
    memory = with_model(open_memory(summary_enabled=True), model)
    me = scope_of(memory, "ada", "scout")
    fill(me, "long", 41)
    assert memory.run_jobs().failed == 1
    assert memory.run_jobs().jobs["summaries"].done == 1
    memory = with_model(memory, FailingModel(name="failing"))
    me.messages.extend("long", [NewMessage("user", "More.")] * 41)
    assert memory.run_jobs().failed == 1
    calls = me.interactions.list().items[::-1]
    assert [(call.route, call.model, call.cost, call.session) for call in calls] == [
        ("summary", "priced", 0.25, "long"),
        ("summary", "priced", 0.25, "long"),
        ("summary", "failing", None, "long"),
    ]
    assert (calls[1].tokens_in or 0) > 100
    assert calls[1].tokens_out == 10
    assert calls[2].error.startswith("ModelUnavailable: ")
    assert [call.user for call in calls] == ["ada"] * 3


def test_a_session_removed_meanwhile_is_no_failure(open_memory: Open) -> None:
    memory = open_memory(summary_enabled=True)

    def meanwhile(request: ModelRequest) -> str:
        scope_of(memory).sessions.remove("long")
        return ANSWER

    working = with_model(memory, ScriptedModel(meanwhile))
    fill(scope_of(memory, "ada", "scout"), "long", 41)
    assert working.run_jobs().jobs["summaries"] == JobResult()


def test_jobs_run_for_every_tenant_or_the_given_ones(open_memory: Open) -> None:
    memory = with_model(
        open_memory(summary_enabled=True, facts="off", embedder="none"), ScriptedModel(ANSWER)
    )
    for tenant in ("a", "b", "c"):
        fill(memory.scope(tenant=tenant, user="ada", agent="scout"), "long", 41)
    assert memory.run_jobs(tenants=["b"]).jobs["summaries"].done == 1
    for tenant in ("a", "c"):
        index_now(memory, tenant)
    seen: list[tuple[int, int]] = []
    assert memory.run_jobs(progress=lambda done, total: seen.append((done, total))).done == 2
    assert seen == [(1, 1), (1, 1)]
    raised(NotFound, memory.run_jobs, tenants=["typo"])


def read_since(memory: Memory) -> int:
    """Return the time from which the next run looks for activity."""
    return memory.database.read("acme", lambda tx: summarize._read_mark(tx, memory.services)).since


def test_a_new_process_reads_only_recent_activity(
    open_memory: Open, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_marks, "MARK_SESSIONS", 3)
    memory = with_model(open_memory(clock=now, summary_enabled=True), ScriptedModel(ANSWER))
    me = scope_of(memory, "ada", "scout")
    for n in range(3):
        fill(me, f"short {n}", 5)
    memory.run_jobs()
    started = now.micros
    assert read_since(memory) == started - session_marks.OVERLAP
    now.pass_days(1)
    memory.run_jobs()
    started = now.micros
    assert read_since(memory) == started - session_marks.OVERLAP
    now.pass_days(1)
    memory.run_jobs()
    assert read_since(memory) == started - session_marks.OVERLAP, "no write without need"
    me.messages.extend("short 1", [NewMessage("user", "More.")] * 41)
    assert memory.run_jobs().jobs["summaries"].done == 1


def test_another_threshold_makes_all_sessions_due(
    open_memory: Open, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_marks, "MARK_SESSIONS", 1)
    memory = with_model(open_memory(clock=now, summary_enabled=True), ScriptedModel(ANSWER))
    fill(scope_of(memory, "ada", "scout"), "s", 30)
    memory.run_jobs()
    now.pass_days(1)
    settings = replace(memory.settings, summary_threshold=20)
    lower = Memory(replace(memory.services, settings=settings), memory.migrations)
    assert read_since(memory) > 0
    assert read_since(lower) == 0
    assert lower.run_jobs().jobs["summaries"].done == 1


def test_imported_sessions_are_due(
    open_memory: Open, now: Now, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come with the times of their last activity, long before the mark."""
    monkeypatch.setattr(session_marks, "MARK_SESSIONS", 1)
    memory = with_model(open_memory(clock=now, summary_enabled=True), ScriptedModel(ANSWER))
    me = scope_of(memory, "ada", "scout")
    fill(me, "old", 41)
    memory.export(tmp_path / "export")
    me.sessions.remove("old")
    now.pass_days(10)
    fill(scope_of(memory, "ada", "other"), "new", 3)
    memory.run_jobs()
    assert read_since(memory) > 0

    def run_jobs_meanwhile(done: int, total: int) -> None:
        """Let jobs see the session before its messages."""
        memory.run_jobs()

    memory.import_(tmp_path / "export", progress=run_jobs_meanwhile)
    memory.run_jobs()
    assert me.summaries.get("old").text


def test_backdated_sessions_are_due(
    open_memory: Open, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Imports of other programs set the times of a session after its messages."""
    monkeypatch.setattr(session_marks, "MARK_SESSIONS", 1)
    memory = with_model(open_memory(clock=now, summary_enabled=True), ScriptedModel(ANSWER))
    me = scope_of(memory, "ada", "scout")
    fill(me, "new", 3)
    memory.run_jobs()
    fill(me, "old", 41)
    moment = datetime.fromtimestamp(now.micros / 1e6, UTC) - timedelta(days=100)
    backdate_session(me.sessions, "old", RecordTimes.of(moment))
    assert count_backlog(memory.services, "acme")["summaries"] == 1
    assert memory.run_jobs().jobs["summaries"].done == 1
    assert count_backlog(memory.services, "acme")["summaries"] == 0


def test_a_session_backdated_again_during_a_run_stays_due(
    open_memory: Open, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An importer appends to a session while the job folds it, and sets its old time again."""
    monkeypatch.setattr(session_marks, "MARK_SESSIONS", 1)
    memory = open_memory(clock=now, summary_enabled=True)
    me = scope_of(memory, "ada", "scout")
    moment = datetime.fromtimestamp(now.micros / 1e6, UTC) - timedelta(days=100)

    def meanwhile(request: ModelRequest) -> str:
        if count_backlog(memory.services, "acme")["summaries"] and not calls:
            calls.append(1)
            now.micros += 1
            me.messages.extend("old", [{"role": "user", "content": "more"}] * 60)
            backdate_session(me.sessions, "old", RecordTimes.of(moment))
        return ANSWER

    calls: list[int] = []
    fill(me, "old", 41)
    backdate_session(me.sessions, "old", RecordTimes.of(moment))
    working = with_model(memory, ScriptedModel(meanwhile))
    working.run_jobs()
    assert calls
    assert count_backlog(memory.services, "acme")["summaries"] == 1


def test_an_import_during_a_run_is_not_overlooked(
    open_memory: Open, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that started before must not move the mark beyond the imported sessions."""
    monkeypatch.setattr(session_marks, "MARK_SESSIONS", 1)
    memory = open_memory(clock=now, summary_enabled=True)

    def meanwhile(request: ModelRequest) -> str:
        memory.database.write("acme", lambda tx: tx.run(_RESET_MARK))
        return ANSWER

    fill(scope_of(memory, "ada", "scout"), "long", 41)
    working = with_model(memory, ScriptedModel(meanwhile))
    assert working.run_jobs().jobs["summaries"].done == 1
    assert read_since(working) == 0


def test_a_running_worker_finds_later_work(open_memory: Open) -> None:
    memory = with_model(open_memory(summary_enabled=True), ScriptedModel(ANSWER))
    me = scope_of(memory, "ada", "scout")
    worker = JobRunner(memory.services)
    fill(me, "first", 41)
    assert worker.run().jobs["summaries"].done == 1
    fill(me, "second", 41)
    me.messages.extend("first", [NewMessage("user", "More.")] * 41)
    assert worker.run().jobs["summaries"].done == 2
    assert worker.run().jobs["summaries"].done == 0


def test_two_workers_do_not_repeat_work(open_memory: Open) -> None:
    memory = open_memory(summary_enabled=True)
    other = ScriptedModel("Never.")
    results = []

    def meanwhile(request: ModelRequest) -> str:
        results.append(with_model(memory, other).run_jobs().jobs["summaries"])
        return ANSWER

    fill(scope_of(memory, "ada", "scout"), "long", 41)
    assert with_model(memory, ScriptedModel(meanwhile)).run_jobs().jobs["summaries"].done == 1
    assert results == [JobResult(left=1)]
    assert other.requests == []


def test_the_built_in_summarizer_works_without_models(open_memory: Open) -> None:
    memory = open_memory(summary_enabled=True, summary_model="extractive")
    memory = Memory(replace(memory.services, models=Models(memory.settings)), memory.migrations)
    me = scope_of(memory, "ada", "scout")
    fill(me, "long", 41)
    assert memory.run_jobs().jobs["summaries"].done == 1
    assert me.summaries.get("long").model == "extractive"
    assert me.interactions.list().items == []


def test_results_add_up_with_bounded_errors() -> None:
    many = sum((JobResult(1, 2, 3, ("e",)) for _ in range(30)), JobResult())
    assert (many.done, many.left, many.failed, len(many.errors)) == (30, 60, 90, MAX_ERRORS)


class Odd:
    """A model that reports impossible usage."""

    name = " "

    def complete(self, system: str, prompt: str, *, max_tokens: int) -> Completion:
        return Completion(ANSWER, "odd", -5, "many", float("nan"), -1.0)  # type: ignore[arg-type]


def test_impossible_usage_is_harmless(open_memory: Open) -> None:
    """The fold counts, and plausible values are recorded."""
    memory = with_model(open_memory(summary_enabled=True), Odd())
    me = scope_of(memory, "ada", "scout")
    fill(me, "long", 41)
    assert memory.run_jobs().jobs["summaries"] == JobResult(done=1)
    (call,) = me.interactions.list().items
    assert (call.model, call.tokens_in, call.tokens_out, call.cost) == ("unnamed", 0, 0, None)
    assert call.error == ""


def test_an_unexpected_error_is_one_failure(open_memory: Open) -> None:
    """Such as an invalid model name; the next session is tried, and so is the next round."""
    memory = open_memory(summary_enabled=True, model="nobody:model")
    memory = Memory(replace(memory.services, models=Models(memory.settings)), memory.migrations)
    me = scope_of(memory, "ada", "scout")
    for name in ("a", "b"):
        fill(me, name, 41)
    worker = JobRunner(memory.services)
    for _ in range(2):
        done = worker.run().jobs["summaries"]
        assert (done.done, done.failed, len(done.errors)) == (0, 2, 2)
        assert "'nobody' is not a known provider" in done.errors[0]


def test_a_database_failure_stops_the_jobs(open_memory: Open) -> None:
    """If the database cannot be reached, all of them; otherwise only this job of this tenant."""
    model = FailingModel(Busy(problem="held"))
    memory = with_model(open_memory(summary_enabled=True), model)
    me = scope_of(memory, "ada", "scout")
    for name in ("a", "b"):
        fill(me, name, 41)
    done = memory.run_jobs().jobs["summaries"]
    assert (done.done, done.failed, len(done.errors)) == (0, 1, 1)
    assert "held" in done.errors[0]
    memory = with_model(memory, FailingModel(Unreachable(problem="gone")))
    raised(Unreachable, memory.run_jobs)


def test_a_rejected_summary_is_retried_less_often_and_then_given_up(
    open_memory: Open, now: Now
) -> None:
    """Every call costs money: not one every few seconds, for ever."""
    model = ScriptedModel("I'm sorry, I can't help with that.", name="refusing")
    memory = with_model(open_memory(clock=now, summary_enabled=True), model)
    me = scope_of(memory, "ada", "scout")
    fill(me, "long", 41)
    worker = JobRunner(memory.services)
    for _ in range(120):
        worker.run()
        now.micros += 30 * clock.SECOND
    assert len(model.requests) == 5
    assert sum(total.errors for total in me.interactions.totals()) == 5
    (problem,) = summarize.problems(memory.services, "acme")
    assert problem.problem.startswith(
        "Summary of session long: failed 5 times, given up for a day."
    )
    assert "it refuses" in problem.problem
    assert "summary_model" in problem.todo
    assert job_problems(memory.services, ["acme"]) == [problem]
    other = with_model(memory, ScriptedModel(ANSWER, name="other"))
    assert other.run_jobs().jobs["summaries"].done == 1
    assert summarize.problems(other.services, "acme") == []


def test_a_given_up_summary_is_tried_again_after_a_day(open_memory: Open, now: Now) -> None:
    """Also by a running worker, and if nobody writes in the session."""
    model = ScriptedModel("I'm sorry, I can't help with that.", name="refusing")
    memory = with_model(open_memory(clock=now, summary_enabled=True), model)
    fill(scope_of(memory, "ada", "scout"), "long", 41)
    worker = JobRunner(memory.services)
    for _ in range(10):
        worker.run()
        now.micros += 60 * clock.MINUTE
    assert len(model.requests) == 5
    now.pass_days(1.5)
    worker.run()
    assert len(model.requests) == 6
