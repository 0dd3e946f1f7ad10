"""The index against a new one: random writes, removals and jobs, and the same hits after each step.

A world writes with two processes' worth of caches, sometimes runs a job, and after every few steps
checks that (1) every acknowledged text is found by its own rare word, and none that was removed,
(2) the hits of random questions are those of a database that was imported just now, (3) `verify`
finds nothing.
"""

from __future__ import annotations

import io
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from memorist import Memory, Scope
from memorist.jobs.embed import EmbedJob
from testkit.clock import Now
from testkit.databases import SETTINGS
from testkit.embedders import Hashing
from testkit.memories import problems
from tests.search.indexing import finds, index_all, rare, small_segments

WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "lambda",
    "omicron",
    "rho",
    "sigma",
]
STEPS = 36
STEPS_PER_CHECK = 12
SEEDS = [0, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 40))]
Live = dict[str, tuple[str, str, int]]
"""By its rare word, where a text is: its kind, its id, and its number."""


class PassageHashing(Hashing):
    """An embedder whose vector of a message depends on the message before it."""

    def embed_passages(self, passages: Any) -> Any:
        return self.embed([f"{passage.text} {passage.before}" for passage in passages])


class World:
    """What two users wrote, as they know it."""

    def __init__(
        self, memories: list[Memory], dice: random.Random, now: Now, copy_file: Callable[[], str]
    ) -> None:
        self.dice = dice
        self.now = now
        self._memories = memories
        self._copy_file = copy_file
        self.live: dict[str, Live] = {"ada": {}, "bob": {}}
        self.gone: list[str] = []
        self._count = 0
        self._embedder = PassageHashing("one")

    @property
    def memory(self) -> Memory:
        """One of the processes, with the embedder of the moment."""
        return with_embedder(self.dice.choice(self._memories), self._embedder)

    def scope(self, user: str, memory: Memory | None = None) -> Scope:
        return (memory or self.memory).scope(tenant="acme", user=user, agent="scout")

    # -- writes ------------------------------------------------------------------------------------

    def write(self) -> None:
        """Do something."""
        user = self.dice.choice(["ada", "ada", "bob"])
        self.now.micros += self.dice.choice([0, 0, 1, 10**6, 3600 * 10**6])
        (name,) = self.dice.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
        getattr(self, f"_{name}")(self.scope(user), self.live[user])

    def _text(self) -> tuple[str, str]:
        self._count += 1
        word = rare(self._count)
        words = self.dice.choices(WORDS, k=self.dice.randrange(0, 9))
        if not self.dice.randrange(25):
            words = (words * 1000)[:1600]  # in several parts
        return word, " ".join([*words, word]) + self.dice.choice(["", ".", "?"])

    def _session(self, me: Scope) -> str:
        known = [session.id for session in me.sessions.list(limit=50)]
        if not known or (len(known) < 4 and not self.dice.randrange(4)):
            # The same ids again and again, also those of removed sessions.
            prefix = me.owner.user or ""
            new = next(id for id in (f"{prefix}{n}" for n in range(9)) if id not in known)
            return me.sessions.add(new).id
        return self.dice.choice(known)

    def _append(self, me: Scope, live: Live) -> None:
        session = self._session(me)
        count = self.dice.choice([1, 1, 1, 2, 8])
        texts = dict(self._text() for _ in range(count))
        roles = [self.dice.choice(["user", "assistant"]) for _ in texts]
        new = [{"role": r, "content": t} for r, t in zip(roles, texts.values(), strict=True)]
        for word, message in zip(texts, me.messages.extend(session, new), strict=True):
            live[word] = ("messages", session, message.seq)

    def _add(self, me: Scope, live: Live) -> None:
        word, text = self._text()
        kind = self.dice.choice(["entries", "state", "documents", "items", "facts", "refs"])
        if kind == "entries":
            kind_of_entry: Literal["core", "journal"] = self.dice.choice(["core", "journal"])
            id = me.entries.add(text[-9000:], kind=kind_of_entry).id
        elif kind == "state":
            id = f"k{self.dice.randrange(4)}"
            me.state.set(id, text[-9000:])
            self._forget(live, "state", id)
        elif kind == "documents":
            id = me.documents.add(f"title {word}", text).id
        elif kind == "facts":
            id = me.facts.add(text[-400:]).id
        elif kind == "refs":
            id = me.refs.add("content", text[-80:]).key
        else:
            id = f"k{self.dice.randrange(4)}"
            me.items.put(["a"], id, {"text": text})
            self._forget(live, "items", id)
        live[word] = (kind, id, 0)

    def _edit(self, me: Scope, live: Live) -> None:
        ids = [(word, id) for word, (kind, id, _) in live.items() if kind == "entries"]
        if ids:
            word, id = self.dice.choice(ids)
            new, text = self._text()
            me.entries.edit(id, text[-9000:])
            self._drop(live, [word])
            live[new] = ("entries", id, 0)

    def _remove(self, me: Scope, live: Live) -> None:
        if live:
            word = self.dice.choice(list(live))
            kind, id, seq = live[word]
            if kind == "messages":
                me.messages.remove(id, seq)
            elif kind == "items":
                me.items.remove(["a"], id)
            elif kind == "facts":
                me.facts.forget(id)
            else:
                getattr(me, kind).remove(id)
            self._drop(live, [word])

    def _forget_session(self, me: Scope, live: Live) -> None:
        session = self._session(me)
        if self.dice.randrange(2):
            me.messages.clear(session)
        else:
            me.sessions.remove(session)
        self._forget(live, "messages", session)

    def _purge(self, me: Scope, live: Live) -> None:
        self.memory.purge(days=self.dice.choice([0.05, 0.2]))
        for user, texts in self.live.items():
            scope = self.scope(user)
            kept = {
                (session.id, message.seq)
                for session in scope.sessions.list(limit=50)
                for message in scope.messages.window(session.id)
            }
            self._drop(
                texts,
                [
                    w
                    for w, (kind, *key) in texts.items()
                    if kind == "messages" and tuple(key) not in kept
                ],
            )

    def _erase(self, me: Scope, live: Live) -> None:
        if me.owner.user == "bob" and self._count:
            self.memory.scope(tenant="acme").admin.users.erase("bob")
            self._drop(live, list(live))

    def _index(self, me: Scope, live: Live) -> None:
        index_all(self.memory)

    def _embed(self, me: Scope, live: Live) -> None:
        EmbedJob().run(self.memory.services, "acme")

    def _change_embedder(self, me: Scope, live: Live) -> None:
        self._embedder = PassageHashing(self.dice.choice(["one", "two"]))

    def _reindex(self, me: Scope, live: Live) -> None:
        self.memory.reindex()

    def end_leases(self) -> None:
        """Let the leases of a killed process expire."""
        expire = "update leases set expires_at = :now where tenant = :tenant"
        self.memory.database.write("acme", lambda tx: tx.run(expire))

    def _forget(self, live: Live, kind: str, id: str) -> None:
        self._drop(live, [word for word, known in live.items() if known[:2] == (kind, id)])

    def _drop(self, live: Live, words: list[str]) -> None:
        for word in words:
            del live[word]
        self.gone += words

    # -- checks ------------------------------------------------------------------------------------

    def check_words(self, most: int) -> None:
        """Check that the newest texts and some others are found, and removed ones are not."""
        memory = self.memory
        for user, live in self.live.items():
            me = self.scope(user, memory)
            for word in {*list(live)[-1:], *self.dice.sample(list(live), min(most, len(live)))}:
                assert finds(me, word, limit=100), (word, live[word])
            for word in self.dice.sample(self.gone, min(most, len(self.gone))):
                assert not finds(me, word, limit=100), word

    def check_hits(self) -> None:
        """Check that the hits are those of a new index: by words now, and with all vectors."""
        whole = io.BytesIO()
        self.memory.export(whole)
        with Memory.open(self._copy_file(), settings=SETTINGS, clock=self.now) as copy:
            copy.import_(io.BytesIO(whole.getvalue()))
            index_all(copy)
            self._compare(copy, None)
            assert problems(self.memory) == []
            for memory in (copy, self.memory):
                index_all(memory)
                EmbedJob().run(with_embedder(memory, self._embedder).services, "acme")
            self._compare(copy, self._embedder)
        assert problems(self.memory) == []

    def _compare(self, copy: Memory, embedder: Hashing | None) -> None:
        questions = [" ".join(self.dice.sample(WORDS, self.dice.randrange(1, 5))) for _ in range(3)]
        users: list[str | None] = ["ada", "bob", None]
        for question in questions:
            for user in users:
                expected = hits(with_embedder(copy, embedder), user, question)
                for memory in self._memories:
                    found = hits(with_embedder(memory, embedder), user, question)
                    assert [hit[:-1] for hit in found] == [hit[:-1] for hit in expected]
                    scores = [hit[-1] for hit in expected]
                    assert [hit[-1] for hit in found] == pytest.approx(scores, abs=1e-5)


_WEIGHTS = {
    "append": 30, "add": 16, "edit": 5, "remove": 8, "forget_session": 4, "purge": 2, "erase": 3,
    "index": 10, "embed": 6, "change_embedder": 1, "reindex": 1,
}  # fmt: skip


def hits(memory: Memory, user: str | None, question: str) -> list[Any]:
    """Return what tells hits apart."""
    agent = None if user is None else "scout"
    found = memory.scope(tenant="acme", user=user, agent=agent).search(question, limit=30)
    assert "index" not in found.legs
    return [
        (
            hit.kind,
            hit.id,
            hit.seq,
            hit.text,
            hit.before,
            hit.after,
            hit.at,
            hit.same,
            hit.legs,
            hit.score,
        )
        for hit in [*found.hits, *found.facts]
    ]


def with_embedder(memory: Memory, embedder: Hashing | None) -> Memory:
    """Return the same memory, with the same caches, and another embedder."""
    return Memory(replace(memory.services, embedder=embedder), memory.migrations)


@pytest.fixture
def copy_file(migrated_file: Path, tmp_path: Path) -> Callable[[], str]:
    """Return the address of an empty SQLite database."""

    def copy() -> str:
        for old in tmp_path.glob("copy.db*"):
            old.unlink()
        shutil.copy(migrated_file, tmp_path / "copy.db")
        return f"sqlite:///{tmp_path}/copy.db"

    return copy


def live_through(world: World) -> None:
    """Write and check again and again."""
    for step in range(STEPS):
        world.write()
        world.check_words(0)
        if step % STEPS_PER_CHECK == 0:
            world.check_words(4)
            world.check_hits()
    world.check_hits()
    world.check_words(1000)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_index_is_always_that_of_the_records(
    open_memory: Callable[..., Memory], copy_file: Callable[[], str], seed: int
) -> None:
    """With segments so small that all merges happen, or large ones."""
    now = Now()
    world = World([open_memory(now), open_memory(now)], random.Random(seed), now, copy_file)
    with nullcontext() if seed % 3 == 2 else small_segments():
        live_through(world)


JOBS = """
import sys
from memorist import Memory
from memorist.jobs.embed import EmbedJob
from tests.search.indexing import index_all, small_segments
from tests.search.test_index_property import PassageHashing
with small_segments(), Memory.open(sys.argv[1], embedder=PassageHashing("one")) as memory:
    print("ready", flush=True)
    while True:
        index_all(memory)
        EmbedJob().run(memory.services, "acme")
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 104))
@pytest.mark.not_on_h2("H2 is in the memory of this process")
def test_another_process_runs_the_jobs(
    open_memory: Callable[..., Memory], copy_file: Callable[[], str], url: str, seed: int
) -> None:
    """All the time, beside the jobs and searches of this one, until it is killed."""
    world = World([open_memory()], random.Random(seed), Now(), copy_file)
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", JOBS, url]
    with small_segments(), subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            for _ in range(4 * STEPS):
                world.write()
                world.check_words(1)
            assert process.poll() is None
        finally:
            process.kill()
        world.end_leases()
        world.check_hits()
        world.check_words(1000)
