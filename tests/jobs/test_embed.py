"""Vectors: all are computed eventually despite failures, and nothing is lost or hidden until then."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from memorist import Memory, NewMessage, Scope
from memorist.base import clock
from memorist.base.errors import ModelUnavailable
from memorist.jobs import embed
from memorist.jobs.embed import EmbedJob, Lag, lag
from memorist.jobs.job import JobResult
from memorist.jobs.runner import JobRunner
from memorist.kinds.items.item import item_index_id, join_names
from memorist.search.embedders import embed_texts
from memorist.search.onnx_embedder import PACKAGE
from memorist.search.vectors import unpack
from memorist.storage import leases
from memorist.storage.database import Transaction
from testkit.clock import Now
from testkit.databases import SERVERS, SETTINGS
from testkit.failures import raised
from testkit.fake_embedder import FakeEmbedder
from testkit.limited import Limited
from testkit.memories import scope_of
from testkit.model_service import FakeService
from testkit.recording import recorded_calls
from tests.search.indexing import finds, index_all, view_of

Open = Callable[..., Memory]


def using(memory: Memory, embedder: Any) -> Memory:
    """Return the same memory with another embedder."""
    memory.services = replace(memory.services, embedder=embedder)
    return memory


def mine(memory: Memory) -> Scope:
    return scope_of(memory, "ada", "scout")


def add_messages(memory: Memory, count: int, start: int = 0) -> list[str]:
    """Add this many messages to a session, each with a unique word."""
    me = mine(memory)
    if start == 0:
        me.sessions.add("s")
    texts = [f"message about topic{n}" for n in range(start, start + count)]
    me.messages.extend("s", [{"role": "user", "content": text} for text in texts])
    return texts


def vectors(memory: Memory) -> dict[str, tuple[str, list[float]]]:
    """Return model and vector of each text that has one."""
    stored = "select owner, model, content from index_vectors where tenant = :tenant"
    result = {}
    places = {
        (part.owner, int(part.block.columns["number"][place])): part.block.key(place)
        for part in view_of(memory).parts
        for place in part.alive.nonzero()[0].tolist()
    }

    def text(tx: Transaction, owner: str, number: int) -> str:
        key = places[owner, number]
        findable = memory.services.findables[key.kind]
        (row,) = findable.send_between(tx, key.id, key.seq, key.seq).rows()
        return findable.documents(row)[key.part].text

    def work(tx: Transaction) -> None:
        for owner, model, content in tx.all(stored):
            rows = unpack(content)
            assert rows is not None
            for number, vector in zip(rows.numbers.tolist(), rows.vectors.tolist(), strict=True):
                result[text(tx, owner, number)] = (model, vector)

    memory.database.read("acme", work)
    return result


@pytest.fixture
def fake() -> FakeEmbedder:
    return FakeEmbedder()


def test_every_write_gets_its_vector(memory: Memory, fake: FakeEmbedder) -> None:
    """P12: pending rows are counted, and after a round none is pending."""
    texts = add_messages(using(memory, fake), 600)
    before = lag(memory.services, "acme")
    assert (before.pending, before.identity) == (600, "fake-16@1")
    assert before.seconds >= 0
    done = memory.run_jobs().jobs["vectors"]
    assert (done.done, done.left, done.failed) == (600, 0, 0)
    assert lag(memory.services, "acme") == Lag(0, 0.0, "fake-16@1")
    assert [len(batch) for batch in fake.batches] == [256, 256, 88]
    result = vectors(memory)
    assert result.keys() == set(texts)
    vector = np.array(result[texts[7]][1])
    cosine = vector @ embed_texts(fake, [texts[7]])[0] / np.linalg.norm(vector)
    assert cosine == pytest.approx(1, abs=1e-3)
    assert memory.run_jobs().jobs["vectors"].done == 0


def test_without_an_embedder_nothing_is_due(memory: Memory) -> None:
    add_messages(using(memory, None), 3)
    assert memory.run_jobs().jobs["vectors"].done == 0
    assert lag(memory.services, "acme") == Lag(0)


@pytest.mark.parametrize(
    "how", ["error", "nan", "wrong-dimension", "zero", "wrong-count", "unavailable"]
)
def test_an_embedder_that_fails_for_a_third_loses_nothing(memory: Memory, how: str) -> None:
    """Every row is stored and found by words, the others have vectors, and pending ones are
    counted.
    """
    fake = FakeEmbedder(
        fails=lambda text: "topic" in text and int(text.rpartition("topic")[2]) % 10 < 3, how=how
    )
    texts = add_messages(using(memory, fake), 100)
    done = memory.run_jobs().jobs["vectors"]
    assert (done.done, done.failed) == (70, 30)
    assert "acme, messages s" in done.errors[0]
    assert lag(memory.services, "acme").pending == 30
    assert len(vectors(memory)) == 70
    assert len(mine(memory).messages.list("s", limit=100)) == 100
    for place in (0, 1, 2, 12):
        hits = mine(memory).search(f"topic{place}").hits
        assert texts[place] in [hit.text for hit in hits]
        assert "words" in hits[0].legs
    fake.fails = lambda text: False
    assert memory.run_jobs().jobs["vectors"].done == 30
    assert lag(memory.services, "acme").pending == 0


def test_one_failing_text_costs_few_calls_and_no_other_text(memory: Memory) -> None:
    fake = FakeEmbedder(fails=lambda text: text.endswith("topic77"))
    add_messages(using(memory, fake), 256)
    assert memory.run_jobs().jobs["vectors"].done == 255
    assert len(fake.batches) <= 2 + 2 * 8


def test_an_embedder_that_always_fails_is_called_twice(memory: Memory) -> None:
    fake = FakeEmbedder(fails=lambda text: True)
    add_messages(using(memory, fake), 300)
    done = memory.run_jobs().jobs["vectors"]
    assert (done.done, done.failed) == (0, 1)
    assert "it is configured to fail" in done.errors[0]
    assert len(fake.batches) == 2
    assert lag(memory.services, "acme").pending == 300


def test_a_worker_postpones_a_failed_text(open_memory: Open, now: Now) -> None:
    fake = FakeEmbedder(fails=lambda text: text.endswith("topic5"))
    memory = using(open_memory(now), fake)
    add_messages(memory, 10)
    worker = JobRunner(memory.services)
    assert worker.run().failed == 1
    fake.batches.clear()
    fake.fails = lambda text: False
    waiting = worker.run().jobs["vectors"]
    assert (waiting.done, waiting.left, waiting.failed, fake.batches) == (0, 1, 0, [])
    now.micros += 31 * clock.SECOND
    assert worker.run().jobs["vectors"].done == 1
    assert worker.run().jobs["vectors"] == JobResult()


def test_each_retry_of_a_failed_text_waits_longer(open_memory: Open, now: Now) -> None:
    fake = FakeEmbedder(fails=lambda text: text.endswith("topic5"))
    memory = using(open_memory(now), fake)
    add_messages(memory, 10)
    worker = JobRunner(memory.services)
    failures = []
    for _ in range(20):
        failures.append(worker.run().jobs["vectors"].failed)
        now.micros += 31 * clock.SECOND
    assert sum(failures) == 5, "after 0, 30, 60, 120 and 240 seconds"


def test_a_removed_text_is_not_retried(memory: Memory) -> None:
    fake = FakeEmbedder(fails=lambda text: text.endswith("topic5"))
    add_messages(using(memory, fake), 10)
    memory.run_jobs()
    assert lag(memory.services, "acme").pending == 1
    mine(memory).messages.clear("s")
    assert memory.run_jobs().jobs["vectors"] == JobResult()
    assert lag(memory.services, "acme").pending == 0


def test_a_new_process_reads_only_owners_with_missing_vectors(
    memory: Memory, fake: FakeEmbedder
) -> None:
    add_messages(using(memory, fake), 10)
    scope_of(memory, "bob", "scout").entries.add("An entry of Bob.")
    memory.run_jobs()
    with recorded_calls(embed._missing) as calls:
        assert memory.run_jobs().jobs["vectors"] == JobResult()
        assert calls == []
        assert lag(memory.services, "acme") == Lag(0, 0.0, "fake-16@1")
        add_messages(memory, 1, 10)
        assert lag(memory.services, "acme").pending == 1
        assert memory.run_jobs().jobs["vectors"].done == 1
    assert {call["owner"] for call in calls} == {"uada"}


@pytest.mark.parametrize("engine", SERVERS, indirect=True)
def test_a_message_that_is_committed_late_gets_its_vector(
    memory: Memory, fake: FakeEmbedder
) -> None:
    """It is written before a round of the jobs and committed after it."""
    add_messages(using(memory, fake), 2)
    late = mine(memory)
    late.sessions.add("late")
    added = threading.Event()
    go_on = threading.Event()

    def slowly(scope: Scope) -> None:
        scope.messages.append("late", "user", "committed late")
        added.set()
        assert go_on.wait(30)

    writer = threading.Thread(target=late.transaction, args=(slowly,))
    writer.start()
    assert added.wait(30)
    add_messages(memory, 1, 2)
    assert memory.run_jobs().jobs["vectors"].done == 3
    assert memory.run_jobs().jobs["vectors"].done == 0
    go_on.set()
    writer.join()
    assert memory.run_jobs().jobs["vectors"].done == 1
    assert "committed late" in vectors(memory)
    assert memory.run_jobs().jobs["vectors"] == JobResult()


LACKS = "documents whose owner is embedded have a vector (`memorist reindex`, then `memorist jobs`)"
DAMAGED = "the segments and vectors of the index are whole (`memorist reindex` repairs them)"


@pytest.mark.parametrize(
    "damage",
    [
        "delete from index_vectors where tenant = :tenant",
        "update index_vectors set model = 'other' where tenant = :tenant",
    ],
)
def test_a_lost_vector_is_found_by_verify_and_restored_after_reindex(
    memory: Memory, fake: FakeEmbedder, damage: str
) -> None:
    add_messages(using(memory, fake), 3)
    memory.run_jobs()
    memory.database.write("acme", lambda tx: tx.run(damage))
    assert memory.run_jobs().jobs["vectors"].done == 0
    (wrong,) = [finding for finding in memory.verify() if not finding.ok]
    assert wrong.check == LACKS
    assert "messages s 1" in wrong.problem
    memory.reindex()
    assert memory.run_jobs().jobs["vectors"].done == 3
    assert all(finding.ok for finding in memory.verify())


def test_a_damaged_vector_is_found_by_verify_and_restored_after_reindex(
    memory: Memory, fake: FakeEmbedder
) -> None:
    add_messages(using(memory, fake), 3)
    memory.run_jobs()
    damage = "update index_vectors set content = :short where tenant = :tenant"
    memory.database.write("acme", lambda tx: tx.run(damage, short=b"abc"))
    wrong = {finding.check: finding.problem for finding in memory.verify() if not finding.ok}
    assert "owner uada" in wrong[DAMAGED]
    memory.reindex()
    assert memory.run_jobs().jobs["vectors"].done == 3
    assert all(finding.ok for finding in memory.verify())


def test_a_replaced_embedder_does_not_hide_the_new_vectors(url: str, open_memory: Open) -> None:
    """What it computed meanwhile is removed, and nothing is embedded again."""
    memory = open_memory()
    texts = add_messages(using(memory, FakeEmbedder(name="old")), 3)
    memory.run_jobs()
    mine(memory).items.put(["a"], "k", {"text": "an item"})
    new = FakeEmbedder(24, name="new")

    def replaced(text: str) -> bool:
        with Memory.open(url, settings=SETTINGS, embedder=new) as other:
            assert other.run_jobs().jobs["vectors"].done == 4
        return False

    old = FakeEmbedder(name="old", fails=replaced)
    id = item_index_id("user:ada", join_names(["a"]), "k")
    embed.embed_records(using(memory, old).services, "acme", "items", [id])
    new.batches.clear()
    assert "vectors" in mine(using(memory, new)).search(texts[1]).hits[0].legs
    assert memory.run_jobs().jobs["vectors"].done == 0
    assert {model for model, _ in vectors(memory).values()} == {"new-24@1"}
    assert lag(memory.services, "acme").pending == 0


def test_some_records_are_embedded_at_once(memory: Memory, fake: FakeEmbedder) -> None:
    """As the store of LangGraph does; the others wait for the jobs."""
    add_messages(using(memory, fake), 3)
    mine(memory).items.put(["a"], "k", {"text": "an item"})
    id = item_index_id("user:ada", join_names(["a"]), "k")
    embed.embed_records(memory.services, "acme", "items", [id])
    assert vectors(memory).keys() == {"text: an item"}
    assert lag(memory.services, "acme").pending == 3
    assert memory.run_jobs().jobs["vectors"].done == 3


def test_vectors_of_the_encoder_are_kept(open_memory: Open) -> None:
    """With `embedder: auto`, a process without the encoder does not replace its vectors."""
    memory = open_memory(embedder="auto")
    encoder = FakeEmbedder(name=PACKAGE, family="strong")
    add_messages(using(memory, encoder), 3)
    memory.run_jobs()
    static = FakeEmbedder(name="static")
    using(memory, static)
    add_messages(memory, 1, 3)
    assert memory.run_jobs().jobs["vectors"] == JobResult()
    assert (static.batches, lag(memory.services, "acme")) == ([], Lag(0))
    assert finds(mine(memory), "topic3")
    assert using(memory, encoder).run_jobs().jobs["vectors"].done == 1


def test_a_row_removed_while_it_is_embedded_gets_no_vector(memory: Memory) -> None:

    def gone(text: str) -> bool:
        if text.endswith("topic0"):
            mine(memory).sessions.remove("s")
        return False

    add_messages(using(memory, FakeEmbedder(fails=gone)), 5)
    memory.run_jobs()
    assert finds(mine(memory), "message") == []
    memory.run_jobs()
    assert vectors(memory) == {}
    assert lag(memory.services, "acme").pending == 0


def test_another_embedder_embeds_again_while_search_works(memory: Memory) -> None:
    """Vectors of two models are never compared; eventually all are the new one's."""
    texts = add_messages(using(memory, FakeEmbedder(16, name="old")), 20)
    memory.run_jobs()
    new = FakeEmbedder(24, name="new")
    using(memory, new)
    assert lag(memory.services, "acme").pending == 20
    hits = mine(memory).search(texts[3]).hits
    assert hits[0].text == texts[3]
    assert all("vectors" not in hit.legs for hit in hits)
    assert memory.run_jobs().jobs["vectors"].done == 20
    assert {model for model, _ in vectors(memory).values()} == {"new-24@1"}
    assert {len(vector) for _, vector in vectors(memory).values()} == {24}
    assert "vectors" in mine(memory).search(texts[3]).hits[0].legs
    assert all(finding.ok for finding in memory.verify())


def test_vectors_of_another_dimension_are_not_compared(memory: Memory) -> None:
    """An embedder whose identity lacks the dimension finds by words until that is changed."""
    texts = add_messages(using(memory, FakeEmbedder(16)), 20)
    memory.run_jobs()
    longer = FakeEmbedder(24)
    longer.identity = "fake-16@1"
    using(memory, longer)
    (hit, *_) = mine(memory).search(texts[3]).hits
    assert (hit.text, hit.legs) == (texts[3], ("words",))
    add_messages(memory, 1, 20)
    assert memory.run_jobs().jobs["vectors"].failed == 0
    assert mine(memory).search(texts[3]).hits[0].text == texts[3]
    longer.identity = "fake-24@1"
    assert memory.run_jobs().jobs["vectors"].done == 21
    assert "vectors" in mine(memory).search(texts[3]).hits[0].legs
    assert all(finding.ok for finding in memory.verify())


def test_only_one_of_two_workers_embeds(memory: Memory, fake: FakeEmbedder) -> None:
    add_messages(using(memory, fake), 5)
    lease = leases.claim(memory.database, "acme", "embed", 60)
    assert lease is not None
    done = memory.run_jobs().jobs["vectors"]
    assert (done.done, done.left) == (0, 1)
    assert fake.batches == []
    leases.release(memory.database, lease)
    assert memory.run_jobs().jobs["vectors"].done == 5


def test_a_worker_that_lost_its_lease_stops(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed, "LEASE_SECONDS", 1e-9)
    monkeypatch.setattr(embed, "BATCH_SIZE", 2)
    taken: list[object] = []

    def take(text: str) -> bool:
        taken.append(taken or leases.claim(memory.database, "acme", "embed", 60))
        return False

    add_messages(using(memory, FakeEmbedder(fails=take)), 6)
    done = memory.run_jobs().jobs["vectors"]
    assert (done.done, done.left) == (2, 1)


def test_progress_is_reported(memory: Memory, fake: FakeEmbedder) -> None:
    add_messages(using(memory, fake), 300)
    received: list[tuple[int, int]] = []
    index_all(memory)
    EmbedJob().run(memory.services, "acme", progress=lambda done, of: received.append((done, of)))
    assert (received[0], received[-1]) == ((256, 300), (300, 300))


def test_many_documents_are_embedded_in_batches(
    memory: Memory, fake: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed, "BATCH_SIZE", 4)
    add_messages(using(memory, fake), 10)
    assert memory.run_jobs().jobs["vectors"].done == 10
    assert [len(batch) for batch in fake.batches] == [4, 4, 2]


def test_a_service_is_recorded_with_its_usage(open_memory: Open, limited: Limited) -> None:
    limited(MODEL_RETRIES=0)
    with FakeService(dimension=8) as service:
        memory = open_memory(embedder="service:m", embedding_base_url=service.url)
        add_messages(memory, 3)
        assert memory.run_jobs().jobs["vectors"].done == 3
        (call,) = scope_of(memory).interactions.list()
        assert (call.route, call.model, call.tokens_in, call.error) == ("embed", "m", 9, "")
        add_messages(memory, 1, 3)
        service.misbehave("500")
        done = memory.run_jobs().jobs["vectors"]
        assert (done.failed, lag(memory.services, "acme").pending) == (1, 1)
        assert "500" in scope_of(memory).interactions.list()[0].error
        hits = mine(memory).search("topic3")
        assert hits.hits[0].text == "message about topic3"
        assert "500" in hits.legs["vectors"]


KILLED = """import os, sys
from memorist import Memory
from memorist.base.settings import Settings
class Deadly:
    identity, dimensions, family = "deadly-4@1", 4, "static"
    def embed(self, texts): os._exit(9)
memory = Memory.open(sys.argv[1], settings=Settings(), embedder=Deadly())
me = memory.scope(tenant="acme", user="ada", agent="scout")
me.sessions.add("s")
me.messages.append("s", "user", "message about topic0")
memory.run_jobs()"""


@pytest.mark.not_on_h2("H2 is in the memory of this process")
def test_rows_of_a_killed_process_are_embedded_after_a_restart(
    url: str, open_memory: Open, now: Now
) -> None:
    """The process dies between the write and the vector, holding the lease."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, url],
        capture_output=True,
        text=True,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 9, done.stderr
    memory = using(Memory.open(url, settings=SETTINGS, embedder=FakeEmbedder()), FakeEmbedder())
    with memory:
        assert mine(memory).search("topic0").hits[0].text == "message about topic0"
        assert lag(memory.services, "acme").pending == 1
        memory.database.write(
            "acme", lambda tx: tx.run("update leases set expires_at = :now where tenant = :tenant")
        )
        assert memory.run_jobs().jobs["vectors"].done == 1
        assert lag(memory.services, "acme").pending == 0


def test_lag_of_an_embedder_without_identity(memory: Memory) -> None:
    class Silent(FakeEmbedder):
        @property
        def identity(self) -> str:
            raise ModelUnavailable(model="silent", problem="it is away")

        @identity.setter
        def identity(self, name: str) -> None:
            pass

    add_messages(using(memory, Silent()), 2)
    done = memory.run_jobs().jobs["vectors"]
    assert (done.failed, done.done) == (1, 0)
    raised(ModelUnavailable, lag, memory.services, "acme")


def test_lag_uses_the_database_clock(open_memory: Open, now: Now) -> None:
    memory = using(open_memory(now), FakeEmbedder())
    add_messages(memory, 1)
    now.pass_days(0.5)
    assert lag(memory.services, "acme").seconds == pytest.approx(clock.DAY / clock.SECOND / 2)


def test_lag_of_old_content_counts_from_the_last_round(open_memory: Open, now: Now) -> None:
    """P12: `embedding_lag_seconds` is how long a row waits for its vector, not the age of its
    content.
    """
    memory = using(open_memory(now), FakeEmbedder(fails=lambda text: text.endswith("topic1")))
    add_messages(memory, 2)
    now.pass_days(300)
    memory.run_jobs()
    now.pass_days(1)
    assert lag(memory.services, "acme") == Lag(1, clock.DAY / clock.SECOND, "fake-16@1")
    using(memory, FakeEmbedder())
    memory.run_jobs()
    old = clock.to_datetime(now.micros - 100 * clock.DAY)
    now.pass_days(0.25)
    mine(memory).messages.extend("s", [NewMessage("user", "as if imported", created_at=old)])
    since_last_round = (1 + 0.25) * clock.DAY / clock.SECOND
    assert lag(memory.services, "acme") == Lag(1, since_last_round, "fake-16@1")


def test_a_search_does_not_wait_for_a_hanging_service(open_memory: Open, limited: Limited) -> None:
    """It continues with words, says so, and the failure is recorded; jobs may wait longer."""
    limited(QUERY_VECTOR_SECONDS=0.2)
    with FakeService(dimension=8) as service:
        memory = open_memory(embedder="service:m", embedding_base_url=service.url)
        texts = add_messages(memory, 2)
        service.misbehave("hang")
        hits = mine(memory).search("topic1")
        assert hits.hits[0].text == texts[1]
        assert "no answer within 0.2 s" in hits.legs["vectors"]
        (call,) = mine(memory).interactions.list()
        assert (call.route, call.user) == ("embed", "ada")
        service.misbehave("")
        assert memory.run_jobs().jobs["vectors"].done == 2
        assert mine(memory).search("topic1").legs["vectors"] == "ran: m-8@service"
