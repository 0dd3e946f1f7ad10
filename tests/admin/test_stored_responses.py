"""Idempotency keys: one effect; the response is stored with the change, across restarts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from memorist import Memory, Scope
from memorist.admin import stored_responses
from memorist.admin.audited_writer import (
    AuditedAction,
    AuditedWriter,
    respond_once,
)
from memorist.admin.principal import PERMISSIONS, Principal
from memorist.admin.stored_responses import IdempotentRequest, StoredResponse
from memorist.api.endpoints import ENDPOINTS
from memorist.base import clock
from memorist.base.errors import Conflict, Full, Invalid, KeyReused
from memorist.kinds.kind import Services
from memorist.models import Models
from memorist.testing import ScriptedModel
from testkit.clock import Now
from tests.admin.audited import records, render

ME = Principal("acme", PERMISSIONS, "ci (k1)")


def send_request(
    memory: Memory,
    what: str,
    key: str,
    call: Callable[[Scope], Any],
    asked: str = "",
    owner: Principal = ME,
) -> StoredResponse:
    """Send a request of Ada's with a key."""
    mine = memory.scope(tenant="acme", user="ada", agent="scout").owner
    request = IdempotentRequest.of(owner.name, what, key, asked, user="ada")
    return respond_once(
        memory.services,
        owner,
        AuditedAction(what, idempotency=request),
        lambda services: call(Scope(services, mine)),
        render,
    )


def add_entry(me: Scope) -> Any:
    return me.entries.add("Ada likes tea.")


def test_a_retry_gets_the_first_response_and_changes_nothing(
    open_memory: Callable[..., Memory],
) -> None:
    """P2, across restarts and processes."""
    first = send_request(open_memory(), "entries_add", "k", add_entry)
    again = send_request(open_memory(), "entries_add", "k", add_entry)
    assert again == replace(first, replayed=True)
    assert not first.replayed
    memory = open_memory()
    assert len(memory.scope(tenant="acme", user="ada", agent="scout").entries.list()) == 1
    assert len(records(memory)) == 1


def test_a_key_belongs_to_one_principal_and_one_route(memory: Memory) -> None:
    send_request(memory, "entries_add", "k", add_entry)
    assert not send_request(
        memory, "entries_add", "k", add_entry, owner=replace(ME, name="other (k2)")
    ).replayed
    assert not send_request(memory, "state_set", "k", lambda me: me.state.set("k", 1)).replayed
    assert len(memory.scope(tenant="acme", user="ada", agent="scout").entries.list()) == 2


def test_other_content_under_the_same_key_is_an_error(memory: Memory) -> None:
    send_request(memory, "entries_add", "k", add_entry, "one")
    with pytest.raises(KeyReused) as error:
        send_request(memory, "entries_add", "k", add_entry, "another")
    assert error.value.status == 422
    with pytest.raises(Invalid):
        send_request(memory, "entries_add", "a\nb", add_entry)


def test_a_failed_request_can_be_retried_with_its_key(memory: Memory) -> None:
    with pytest.raises(Conflict):
        send_request(memory, "state_set", "k", lambda me: me.state.set("n", 1, if_version=3))
    assert not send_request(memory, "state_set", "k", lambda me: me.state.set("n", 1)).replayed


def test_of_concurrent_requests_one_runs_and_all_get_its_response(memory: Memory) -> None:
    answers: list[StoredResponse] = []
    threads = [
        threading.Thread(
            target=lambda: answers.append(send_request(memory, "entries_add", "k", add_entry))
        )
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(memory.scope(tenant="acme", user="ada", agent="scout").entries.list()) == 1
    assert len(answers) == 16
    assert len({answer.body for answer in answers}) == 1
    assert [answer.replayed for answer in answers].count(False) == 1


def test_a_request_in_progress_is_a_conflict(memory: Memory) -> None:
    """For actions with several transactions; after a failure the next attempt may run."""
    wanted = IdempotentRequest.of(ME.name, "summaries_fold", "k")

    def fold(me: Scope) -> None:
        me.state.set("step", 1)
        with pytest.raises(Conflict) as error:
            send_request(memory, "summaries_fold", "k", lambda me: None)
        assert error.value.status == 409
        raise RuntimeError("the second step failed")

    with pytest.raises(RuntimeError):
        send_request(memory, "summaries_fold", "k", fold)
    assert wanted.find(memory.database, "acme") is None
    assert (
        send_request(memory, "summaries_fold", "k", lambda me: me.state.set("step", 2)).replayed
        is False
    )
    assert send_request(memory, "summaries_fold", "k", lambda me: None).replayed


class Killed(BaseException):
    """The process is gone without any cleanup."""


def test_the_key_of_a_killed_process_is_released_after_a_timeout(
    open_memory: Callable[..., Memory], now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: while each transaction comes in time, nobody else starts; then a retry may continue."""
    memory = open_memory(clock=now, model_seconds=60.0)

    def die(me: Scope) -> None:
        for step in range(3):
            me.state.set("step", step)
            now.micros += 80 * clock.SECOND
            with pytest.raises(Conflict):
                send_request(memory, "summaries_fold", "k", add_entry)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(AuditedWriter, "release_key", lambda self: None)
        with pytest.raises(Killed):
            send_request(memory, "summaries_fold", "k", die)
    now.micros += 5 * clock.SECOND
    with pytest.raises(Conflict):
        send_request(memory, "summaries_fold", "k", add_entry)
    now.micros += 6 * clock.SECOND
    with pytest.raises(KeyReused):
        send_request(memory, "summaries_fold", "k", add_entry, "another")
    first = send_request(memory, "summaries_fold", "k", add_entry)
    assert not first.replayed
    assert send_request(memory, "summaries_fold", "k", add_entry) == replace(first, replayed=True)


def test_a_response_that_cannot_be_stored_is_returned_and_its_key_kept(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change is done: reporting a failure or releasing the key would do it twice."""

    def raise_full(self: IdempotentRequest, tx: Any, answer: StoredResponse) -> None:
        raise Full(problem="no room")

    with monkeypatch.context() as patch:
        patch.setattr(IdempotentRequest, "store", raise_full)
        assert send_request(memory, "summaries_fold", "k", add_entry).status == 200
    with pytest.raises(Conflict):
        send_request(memory, "summaries_fold", "k", add_entry)


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("agents_add", lambda me: me.agents.add("x")),
        ("sessions_add", lambda me: me.sessions.add()),
        ("sessions_resume", lambda me: me.sessions.resume()),
        ("notes_append", lambda me: me.notes.append("x")),
        ("notes_clear", lambda me: me.notes.clear()),
        ("entries_add_many", lambda me: me.entries.add_many([{"content": "x"}])),
        ("entries_share", lambda me: me.entries.share("trips", ["scout"])),
        ("refs_add", lambda me: me.refs.add("x", "y")),
        (
            "refs_capture",
            lambda me: me.refs.capture("line\n" * 9000, source="make", status="exit 0"),
        ),
        ("state_set", lambda me: me.state.set("k", 1)),
        ("documents_add", lambda me: me.documents.add("x", "y")),
        ("interactions_add", lambda me: me.interactions.add("chat", "m", latency_ms=1.0)),
    ],
)
def test_the_response_is_stored_in_the_transaction_of_the_change(
    memory: Memory, what: str, call: Callable[[Scope], Any]
) -> None:
    """P2: a process killed right after the commit has stored the response."""
    stored: list[StoredResponse | None] = []

    def then_look_up(me: Scope) -> Any:
        result = call(me)
        stored.append(IdempotentRequest.of(ME.name, what, "k", "").find(memory.database, "acme"))
        return result

    value = send_request(memory, what, "k", then_look_up)
    assert stored == [replace(value, replayed=True)]


def test_model_calls_do_not_consume_the_key(open_memory: Callable[..., Memory]) -> None:
    """Their usage is stored first, and is not the request's change."""
    memory = open_memory()
    services = replace(
        memory.services, models=Models(memory.settings, summary=ScriptedModel("A log of a build."))
    )
    mine = memory.scope(tenant="acme", user="ada", agent="scout")
    once = IdempotentRequest.of(ME.name, "refs_capture", "k")
    stored: list[StoredResponse | None] = []

    def capture(services: Services) -> Any:
        line = Scope(services, mine.owner).refs.capture("line\n" * 9000, source="make")
        stored.append(once.find(memory.database, "acme"))
        return line

    result = respond_once(
        services, ME, AuditedAction("refs_capture", idempotency=once), capture, render
    )
    assert "A log of a build." in result.body
    assert stored == [replace(result, replayed=True)]
    assert [record.subject.split("-")[0] for record in records(memory)] == ["refs make"]
    assert len(mine.interactions.list()) == 1


def test_verbs_that_call_the_main_model_write_in_steps() -> None:
    in_steps = {endpoint.name for endpoint in ENDPOINTS if endpoint.in_steps}
    assert in_steps == {"summaries_fold", "consolidations_propose"}


def test_responses_expire_after_a_day(open_memory: Callable[..., Memory], now: Now) -> None:
    memory = open_memory(clock=now)
    send_request(memory, "entries_add", "k", add_entry)
    now.micros += stored_responses.KEEP_RESPONSES
    memory.purge()
    assert send_request(memory, "entries_add", "k", add_entry).replayed
    now.micros += clock.MINUTE
    memory.run_jobs()
    assert not send_request(memory, "entries_add", "k", add_entry).replayed


def test_responses_are_erased_with_the_user_and_not_exported(memory: Memory, tmp_path: Any) -> None:
    """Responses contain user data."""
    send_request(memory, "entries_add", "k", lambda me: me.entries.add("CANARY"))
    memory.export(tmp_path / "all.jsonl")
    assert (tmp_path / "all.jsonl").read_bytes().count(b"CANARY") == 1
    assert memory.scope(tenant="acme").admin.users.erase("ada").removed["stored_responses"] == 1
    assert (
        IdempotentRequest.of(ME.name, "entries_add", "k", "").find(memory.database, "acme") is None
    )
