"""Webhooks: signed, in order, at least once, whatever the receiver does."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from memorist import Memory, Scope
from memorist.admin import webhook_request
from memorist.admin.webhooks import MAX_WEBHOOKS, Webhooks
from memorist.base import clock
from memorist.base.errors import AlreadyExists, Invalid, NotFound
from memorist.jobs import deliver_webhooks
from memorist.jobs.backlog import count_backlog
from memorist.jobs.job import JobResult
from memorist.jobs.runner import JobRunner
from memorist.jobs.status import job_problems
from memorist.storage import leases
from testkit.databases import SETTINGS, one_engine
from testkit.failures import invalid
from testkit.memories import scope_of
from testkit.receiver import Receiver
from testkit.rows import raw

PRIVATE = replace(SETTINGS, events="private")
COMMAND = str(Path(sys.executable).with_name("memorist"))


@pytest.fixture
def recorded(url: str) -> Iterator[Memory]:
    """A memory whose webhooks may call this machine."""
    with Memory.open(url, settings=PRIVATE) as memory:
        yield memory


@pytest.fixture
def ada(recorded: Memory) -> Scope:
    return scope_of(recorded, "ada", "scout")


@pytest.fixture
def hooks(recorded: Memory, ada: Scope) -> Webhooks:
    """The webhooks, in a tenant with one older event."""
    ada.state.set("before", 1)
    return recorded.scope(tenant="acme").admin.webhooks


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_request, "RESPONSE_SECONDS", 1.0)
    monkeypatch.setattr(deliver_webhooks, "FIRST_RETRY_SECONDS", 0.000_001)
    monkeypatch.setattr(deliver_webhooks, "REPLAY_RETRY_SECONDS", 0.000_001)


def run(memory: Memory) -> JobResult:
    return deliver_webhooks.run(memory.services, "acme")


def test_events_arrive_in_order_and_signed(recorded: Memory, ada: Scope, hooks: Webhooks) -> None:
    with Receiver() as receiver:
        webhook = hooks.add(receiver.url)
        for number in range(5):
            ada.state.set("theme", f"canary {number}")
        assert count_backlog(recorded.services, "acme")["webhooks"] == 5
        assert run(recorded) == JobResult(done=5)
        assert run(recorded) == JobResult()
    assert receiver.numbers == [2, 3, 4, 5, 6]
    assert receiver.deliveries[0].path == "/hooks?a=1"
    assert receiver.deliveries[0].data == {
        "tenant": "acme",
        "number": 2,
        "type": "changed",
        "kind": "state",
        "verb": "set",
        "subject": "user:ada theme",
        "user": "ada",
    }
    key = base64.b64decode(webhook.secret.removeprefix("whsec_"))
    for delivery in receiver.deliveries:
        assert b"canary" not in delivery.body
        timestamp = delivery.headers["webhook-timestamp"]
        assert abs(int(timestamp) - time.time()) < 60
        signed = f"{delivery.id}.{timestamp}.".encode() + delivery.body
        digest = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        assert delivery.headers["webhook-signature"] == f"v1,{digest}"
    state = hooks.get(webhook.id)
    assert (state.position, state.tries, state.error, state.dead_letters) == (6, 0, "", 0)
    assert state.delivered_at
    assert webhook.secret not in repr(hooks.list())
    assert count_backlog(recorded.services, "acme")["webhooks"] == 0


def test_learning_is_an_event(recorded: Memory, ada: Scope) -> None:
    ada.sessions.add("s1")
    ada.messages.append("s1", "user", "My name is Ada and I live in Lisbon.")
    ada.sessions.add("s2")
    ada.messages.append("s2", "user", "Hello!")
    recorded.run_jobs(tenants=["acme"])
    learned = [event for event in recorded.events(tenant="acme") if event.type == "learned"]
    assert [(event.kind, event.subject, event.user) for event in learned] == [
        ("facts", "s1", "ada")
    ]


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (500, "the response has the status 500"),
        ("redirect", "the response has the status 302, a redirect, which is not followed"),
        ("reset", "the connection failed (ConnectionResetError)"),
        ("slow", "there was no response within 1 s"),
    ],
)
def test_a_failing_receiver_gets_the_same_event_again_and_nothing_is_lost(
    recorded: Memory, ada: Scope, hooks: Webhooks, behaviour: str | int, error: str
) -> None:
    with Receiver(behaviour) as receiver:
        webhook = hooks.add(receiver.url)
        ada.state.set("theme", 1)
        ada.state.set("theme", 2)
        for tries in (1, 2):
            result = run(recorded)
            assert (result.done, result.failed, result.left) == (0, 1, 1)
            assert error in result.errors[0]
            state = hooks.get(webhook.id)
            assert (state.position, state.tries, state.error) == (1, tries, error)
        assert f"fails: {error}" in job_problems(recorded.services, ["acme"])[0].problem
        receiver.behaviour = 200
        assert run(recorded).done == 2
    assert receiver.numbers == [2, 2, 2, 3], "in order, and no event before its predecessor"
    assert len({delivery.id for delivery in receiver.deliveries}) == 2, "repeated with the same id"


def test_a_receiver_that_lies_about_its_body_has_accepted_the_event(
    recorded: Memory, ada: Scope, hooks: Webhooks
) -> None:
    with Receiver("lie") as receiver:
        hooks.add(receiver.url)
        ada.state.set("theme", 1)
        assert run(recorded) == JobResult(done=1)
        assert run(recorded) == JobResult()


def test_a_retry_waits_longer_each_time(
    recorded: Memory, ada: Scope, hooks: Webhooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver_webhooks, "FIRST_RETRY_SECONDS", 100.0)
    with Receiver(500) as receiver:
        webhook = hooks.add(receiver.url)
        ada.state.set("theme", 1)
        assert run(recorded).failed == 1
        assert run(recorded) == JobResult(), "not due yet"
        retry_at = hooks.get(webhook.id).retry_at
        assert retry_at
        assert 90 < retry_at.timestamp() - time.time() < 110
        hooks.edit(webhook.id, url=receiver.url + "&b=2")
        assert run(recorded).failed == 1, "after a change it is tried at once"


def test_a_refused_event_becomes_a_dead_letter_and_can_be_replayed(
    recorded: Memory, ada: Scope, hooks: Webhooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver_webhooks, "MAX_TRIES", 2)
    with Receiver(400) as receiver:
        webhook = hooks.add(receiver.url)
        ada.state.set("theme", 1)
        assert run(recorded).failed == 1
        assert run(recorded).failed == 1
        assert hooks.get(webhook.id).dead_letters == 1
        (letter,) = hooks.dead_letters(webhook.id)
        assert (letter.event.number, letter.error) == (2, "the response has the status 400")
        assert "did not accept 1 event(s)" in job_problems(recorded.services, ["acme"])[0].problem
        receiver.behaviour = 200
        ada.state.set("theme", 2)
        assert run(recorded) == JobResult(done=1), "later events go on"
        assert receiver.numbers == [2, 2, 3]

        assert hooks.replay(webhook.id).events == 1
        receiver.behaviour = 400
        assert run(recorded).failed == 1
        assert hooks.get(webhook.id).dead_letters == 1
        receiver.behaviour = 200
        before = hooks.get(webhook.id).delivered_at
        assert run(recorded) == JobResult(done=1)
        after = hooks.get(webhook.id).delivered_at
        assert before is not None
        assert after is not None
        assert after > before
        assert (hooks.get(webhook.id).dead_letters, receiver.numbers[-1]) == (0, 2)
        assert job_problems(recorded.services, ["acme"]) == []


def test_a_replay_to_a_receiver_that_is_down_waits_and_new_events_go_on(
    recorded: Memory, ada: Scope, hooks: Webhooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver_webhooks, "MAX_TRIES", 1)
    monkeypatch.setattr(deliver_webhooks, "REPLAY_RETRY_SECONDS", 100.0)
    with Receiver(500) as receiver:
        webhook = hooks.add(receiver.url)
        for number in range(3):
            ada.state.set("theme", number)
        assert run(recorded).failed == 3
        page = hooks.dead_letters(webhook.id, limit=2)
        assert [letter.event.number for letter in page] == [2, 3]
        page = hooks.dead_letters(webhook.id, limit=2, after=page.next)
        assert ([letter.event.number for letter in page], page.next) == ([4], None)
        assert hooks.replay(webhook.id).events == 3
        receiver.deliveries.clear()
        result = run(recorded)
        assert (result.failed, result.left) == (1, 1), "the first failure ends the run"
        assert run(recorded) == JobResult(), "not due yet"

        receiver.behaviour = 200
        ada.state.set("theme", 3)
        assert run(recorded) == JobResult(done=1), "new events do not wait"
        assert run(recorded) == JobResult(), "an event does not shorten the pause"
        assert hooks.get(webhook.id).dead_letters == 3
        assert hooks.replay(webhook.id).events == 3, "a new replay ends the pause"
        assert run(recorded) == JobResult(done=3)
    assert receiver.numbers == [2, 5, 3, 4, 2], "a refused letter is tried after the others"


def test_a_webhook_gets_only_the_kinds_it_wants(
    recorded: Memory, ada: Scope, hooks: Webhooks
) -> None:
    with Receiver() as receiver:
        webhook = hooks.add(receiver.url, kinds=["sessions"])
        ada.state.set("theme", 1)
        ada.sessions.add("s1")
        ada.state.set("theme", 2)
        assert run(recorded) == JobResult(done=1)
        assert run(recorded) == JobResult()
        assert receiver.numbers == [3]
        assert hooks.get(webhook.id).position == 4
        hooks.edit(webhook.id, paused=True)
        ada.sessions.add("s2")
        assert run(recorded) == JobResult()
        hooks.edit(webhook.id, paused=False)
        assert run(recorded) == JobResult(done=1)


def test_two_runners_do_not_deliver_at_the_same_time(
    recorded: Memory, ada: Scope, hooks: Webhooks
) -> None:
    with Receiver() as receiver:
        hooks.add(receiver.url)
        for number in range(10):
            ada.state.set("theme", number)
        threads = [threading.Thread(target=run, args=(recorded,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        run(recorded)
    assert receiver.numbers == list(range(2, 12))


def test_a_runner_that_lost_its_lease_stores_nothing(
    recorded: Memory, ada: Scope, hooks: Webhooks, url: str
) -> None:
    class Thief(Receiver):
        def respond(self, handler: BaseHTTPRequestHandler) -> None:
            with raw(url) as database:
                database.all("update leases set fence = fence + 1")
            super().respond(handler)

    with Thief() as receiver:
        webhook = hooks.add(receiver.url)
        ada.state.set("theme", 1)
        assert run(recorded).done == 0
        assert hooks.get(webhook.id).position == 1


@one_engine
def test_killed_between_deliveries_it_repeats_at_most_one(
    recorded: Memory, ada: Scope, hooks: Webhooks, url: str
) -> None:
    with Receiver() as receiver:
        webhook = hooks.add(receiver.url)
        for number in range(30):
            ada.state.set("theme", number)
        env = {**os.environ, "MEMORIST_EVENTS": "private"}
        command = [COMMAND, "jobs", "--tenant", "acme", "--database", url]
        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
        while len(receiver.deliveries) < 5 and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = len(receiver.deliveries)
        assert before >= 5
        lease = f"webhook {webhook.id}"
        if leases.taken(recorded.database, "acme", lease):
            assert run(recorded) == JobResult(left=1), "the lease of the dead process expires"
            with raw(url) as database:
                database.all("update leases set expires_at = 0")
        run(recorded)
    assert sorted(set(receiver.numbers)) == list(range(2, 32)), "nothing is lost"
    assert len(receiver.numbers) <= 31
    ids: dict[int, set[str]] = {}
    for delivery in receiver.deliveries:
        ids.setdefault(delivery.data["number"], set()).add(delivery.id)
    assert all(len(of_number) == 1 for of_number in ids.values())


def test_events_that_were_never_accepted_become_dead_letters(
    recorded: Memory, ada: Scope, hooks: Webhooks, url: str
) -> None:
    with Receiver(500) as receiver:
        webhook = hooks.add(receiver.url)
        ada.state.set("theme", 1)
        run(recorded)
        with raw(url) as database:
            database.all(f"update events set created_at = created_at - {8 * clock.DAY}")
        assert JobRunner(recorded.services).run(["acme"]).jobs["retention"].done == 2
        assert [letter.event.number for letter in hooks.dead_letters(webhook.id)] == [2]
        recorded.scope(tenant="acme").admin.users.erase("ada")
        assert list(hooks.dead_letters(webhook.id)) == []


def test_dead_letters_are_removed_after_30_days(
    recorded: Memory, ada: Scope, hooks: Webhooks, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when no events are recorded any more."""
    monkeypatch.setattr(deliver_webhooks, "MAX_TRIES", 1)
    with Receiver(400) as receiver:
        webhook = hooks.add(receiver.url)
        for number in range(3):
            ada.state.set("theme", number)
        run(recorded)
    assert hooks.get(webhook.id).dead_letters == 3
    with raw(url) as database:
        database.all("delete from events")
        database.all(f"update dead_letters set failed_at = failed_at - {29 * clock.DAY}")
    assert JobRunner(recorded.services).run(["acme"]).jobs["retention"].done == 0
    with raw(url) as database:
        database.all(
            f"update dead_letters set failed_at = failed_at - {2 * clock.DAY} where number > 2"
        )
    assert JobRunner(recorded.services).run(["acme"]).jobs["retention"].done == 2
    assert [letter.event.number for letter in hooks.dead_letters(webhook.id)] == [2]


def test_events_that_wait_for_a_paused_webhook_become_dead_letters(
    recorded: Memory, ada: Scope, hooks: Webhooks, url: str
) -> None:
    with Receiver() as receiver:
        webhook = hooks.add(receiver.url, kinds=["state"])
        hooks.edit(webhook.id, paused=True)
        ada.state.set("theme", 1)
        ada.notes.append("other kinds are not wanted")
        with raw(url) as database:
            database.all(f"update events set created_at = created_at - {8 * clock.DAY}")
        ada.state.set("theme", 2)
        JobRunner(recorded.services).run(["acme"])
        (letter,) = hooks.dead_letters(webhook.id)
        assert (letter.event.number, letter.error) == (2, "the webhook was paused")
        hooks.replay(webhook.id)
        assert run(recorded) == JobResult()
        hooks.edit(webhook.id, paused=False)
        run(recorded)
    assert receiver.numbers == [4, 2]


def test_private_networks_are_refused_unless_allowed(
    recorded: Memory, ada: Scope, url: str
) -> None:
    hosts = ("127.0.0.1", "localhost", "10.1.2.3", "169.254.169.254", "[::1]", "[fd00::1]")
    with Receiver() as receiver:
        hooks = ada.admin.webhooks
        webhook = hooks.add(receiver.url)
        ada.state.set("theme", 1)
        with Memory.open(url, settings=replace(SETTINGS, events="on")) as strict:
            result = deliver_webhooks.run(strict.services, "acme")
            assert "private network" in result.errors[0]
            public_only = strict.scope(tenant="acme").admin.webhooks
            assert not public_only.test(webhook.id).delivered
            for host in hosts:
                with pytest.raises(Invalid, match="private network"):
                    public_only.add(f"http://{host}/hooks")
        assert receiver.deliveries == [], "the address is checked again when it is used"
        assert hooks.test(webhook.id).delivered


@pytest.mark.parametrize(
    "address",
    [
        "example.org",
        "ftp://example.org/",
        "http:///path",
        "https://user:secret@example.org/",
        "https://example.org/#part",
        "https://example.org:99999/",
        "https://example.org/a b",
        "https://example.org/\r\nX-Header: 1",
        "https://example.org/" + "a" * 2000,
        "https://no-such-host.invalid/",
    ],
)
@one_engine
def test_a_bad_address_is_rejected(hooks: Webhooks, address: str) -> None:
    with pytest.raises(Invalid, match="url"):
        hooks.add(address)


@one_engine
def test_webhooks_have_limits_and_the_events_of_their_tenant(
    recorded: Memory, hooks: Webhooks
) -> None:
    with Receiver() as receiver:
        webhook = hooks.add(receiver.url)
        recorded.scope(tenant="other", user="eve").state.set("theirs", 1)
        deliver_webhooks.run(recorded.services, "other")
        assert receiver.deliveries == []
        with pytest.raises(AlreadyExists):
            hooks.add(receiver.url)
        other = hooks.add(receiver.url + "&other=1")
        with pytest.raises(AlreadyExists):
            hooks.edit(other.id, url=receiver.url)
        hooks.edit(other.id, url=other.url, paused=True)
        hooks.remove(other.id)
        invalid("kinds", hooks.add, receiver.url + "&x=1", kinds=["feelings"])
        for number in range(MAX_WEBHOOKS - 1):
            hooks.add(f"{receiver.url}&n={number}")
        with pytest.raises(Invalid, match="at most 20"):
            hooks.add(f"{receiver.url}&n=x")
        hooks.remove(webhook.id)
        with pytest.raises(NotFound):
            hooks.get(webhook.id)
