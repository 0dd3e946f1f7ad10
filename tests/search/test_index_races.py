"""A writer between two steps of a job: nothing forgotten comes back, nothing is missed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from memorist import Memory, Scope
from memorist.base.errors import StorageError
from memorist.jobs import embed, index_owners
from memorist.search.embedders import embed_texts
from memorist.search.indexer import due_owners
from testkit.fake_embedder import FakeEmbedder
from testkit.faults import with_faults
from testkit.memories import problems, scope_of
from tests.search.indexing import (
    documents,
    finds,
    index_all,
    interrupted,
    is_stored,
    marks,
    small_segments,
    view_of,
)

SECOND, THIRD, ENTRY, NEW = "zsecondo", "zthirdo", "zentryo", "znewo"
"""Words of the second and third message of a session and of an entry, and of what is written meanwhile."""


class Race(NamedTuple):
    """What a writer does meanwhile, and which words must be gone afterwards or be found."""

    write: Callable[[Memory], object]
    gone: tuple[str, ...] = ()
    found: tuple[str, ...] = ()


def ada(memory: Memory) -> Scope:
    return scope_of(memory, "ada", "scout")


def append(memory: Memory) -> None:
    ada(memory).messages.append("s", "user", f"{NEW} in a message")


def clear_and_append(memory: Memory) -> None:
    ada(memory).messages.clear("s")
    append(memory)


def recreate_session(memory: Memory) -> None:
    ada(memory).sessions.remove("s")
    ada(memory).sessions.add("s")
    append(memory)


def give_session_away(memory: Memory) -> None:
    """The same id, and another user."""
    ada(memory).sessions.remove("s")
    bob = scope_of(memory, "bob", "scout")
    bob.sessions.add("s")
    bob.messages.append("s", "user", "of bob")


def entry_id(memory: Memory) -> str:
    return next(entry.id for entry in ada(memory).entries.list() if ENTRY in entry.content)


def edit_entry(memory: Memory) -> None:
    ada(memory).entries.edit(entry_id(memory), f"{NEW} in an entry")


def erase_user(memory: Memory) -> None:
    memory.scope(tenant="acme").admin.users.erase("ada")


def erase_user_and_begin_again(memory: Memory) -> None:
    erase_user(memory)
    ada(memory).sessions.add("s")
    append(memory)


RACES = {
    "append": Race(append, found=(SECOND, THIRD, ENTRY, NEW)),
    "remove": Race(lambda memory: ada(memory).messages.remove("s", 2), (SECOND,), (THIRD, ENTRY)),
    "clear": Race(lambda memory: ada(memory).messages.clear("s"), (SECOND, THIRD), (ENTRY,)),
    "clear and append": Race(clear_and_append, (SECOND, THIRD), (ENTRY, NEW)),
    "edit": Race(edit_entry, (ENTRY,), (SECOND, THIRD, NEW)),
    "remove an entry": Race(
        lambda memory: ada(memory).entries.remove(entry_id(memory)), (ENTRY,), (SECOND, THIRD)
    ),
    "remove the session": Race(
        lambda memory: ada(memory).sessions.remove("s"), (SECOND, THIRD), (ENTRY,)
    ),
    "recreate the session": Race(recreate_session, (SECOND, THIRD), (ENTRY, NEW)),
    "another user's session": Race(give_session_away, (SECOND, THIRD), (ENTRY,)),
    "erase the user": Race(erase_user, (SECOND, THIRD, ENTRY)),
    "erase the user, who begins again": Race(
        erase_user_and_begin_again, (SECOND, THIRD, ENTRY), (NEW,)
    ),
    "another round": Race(index_all, found=(SECOND, THIRD, ENTRY)),
}


def fill(memory: Memory, others: int = 0) -> None:
    """Write an entry, and a session of three messages, after others that nobody changes."""
    me = ada(memory)
    if others:
        me.sessions.add("others")
        me.messages.extend("others", [{"role": "user", "content": f"w{n}"} for n in range(others)])
    me.entries.add(f"{ENTRY} in the journal")
    me.sessions.add("s")
    me.messages.extend(
        "s", [{"role": "user", "content": text} for text in ("first", SECOND, THIRD)]
    )


def check(memory: Memory, race: Race) -> None:
    """Check what a search finds now, and after all rounds also what is stored."""
    for _ in range(2):
        assert [word for word in race.gone if finds(ada(memory), word)] == []
        assert [word for word in race.found if not finds(ada(memory), word)] == []
        index_all(memory)
    assert [word for word in race.gone if is_stored(memory, word)] == []
    assert marks(memory) == (0, 0, 0)
    assert problems(memory) == []


@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("state", ["nothing is indexed", "something is", "the rest is", "in parts"])
def test_a_writer_during_an_index_round(memory: Memory, race: str, state: str) -> None:
    """Between its read and its publication."""
    with small_segments() if state == "in parts" else nullcontext():
        if state == "something is":
            ada(memory).entries.add("an entry")
            index_all(memory)
        fill(memory, others=40 if state == "in parts" else 0)
        if state in ("the rest is", "in parts"):
            index_all(memory)
            ada(memory).messages.append("s", "user", "fourth")
            ada(memory).entries.add("another entry")
        finds(ada(memory), SECOND)  # fill the caches
        slow, database = interrupted(memory)
        owners = database.read("acme", lambda tx: due_owners(tx, "", 9))
        assert owners == ["uada"]
        database.after_read(lambda: RACES[race].write(memory))
        index_owners.index_owner(slow.services, "acme", "uada")
        check(memory, RACES[race])


def test_an_index_round_ends_although_a_writer_goes_on(memory: Memory) -> None:
    """What was written before it is indexed, also if that takes several rounds."""
    with small_segments():
        fill(memory, others=100)
        slow, database = interrupted(memory)

        def write() -> None:
            append(memory)
            database.after_read(write)

        database.after_read(write)
        assert index_owners.index_owner(slow.services, "acme", "uada") >= 104
        assert marks(memory) == (0, 1, 1)
        check(memory, RACES["append"])


@pytest.mark.parametrize("at", range(1, 9))
@pytest.mark.parametrize("committed", [False, True])
def test_a_round_that_fails_at_any_commit(memory: Memory, at: int, committed: bool) -> None:
    """Before it or after it, of the lease, of a part, of the publication."""
    with small_segments():
        fill(memory, others=40)
        failing, faults = with_faults(memory)
        faults.kill("commit", at=at, committed=committed)
        with suppress(StorageError):
            index_all(failing)
        memory.database.write(
            "acme", lambda tx: tx.run("delete from leases where tenant = :tenant")
        )
        check(memory, RACES["another round"])


@pytest.mark.parametrize("race", RACES)
def test_a_writer_before_an_index_round_publishes(memory: Memory, race: str) -> None:
    """After the parts of a large segment were stored, which no reader sees yet."""
    with small_segments():
        fill(memory, others=60)
        slow, database = interrupted(memory)
        database.before_write(lambda: database.before_write(lambda: RACES[race].write(memory)))
        index_owners.index_owner(slow.services, "acme", "uada")
        check(memory, RACES[race])


class PassageEmbedder(FakeEmbedder):
    """An embedder whose vector of a message depends on the message before it."""

    def embed_passages(self, passages: Any) -> Any:
        return self.embed([f"{passage.before}\n{passage.text}" for passage in passages])


def embedding(memory: Memory, embedder: FakeEmbedder) -> Memory:
    return Memory(replace(memory.services, embedder=embedder), memory.migrations)


def check_vectors(memory: Memory) -> None:
    """Check that each vector is that of its message as it is now, and of the one before it."""
    embedder = PassageEmbedder()
    messages = {document.seq: document.text for document in documents(memory, "messages")}
    view = view_of(memory, model=embedder.identity)
    for part in view.parts:
        for place in part.alive.nonzero()[0].tolist():
            key = part.block.key(place)
            if key.kind == "messages" and part.owner == "uada" and part.vectors is not None:
                passage = f"{messages.get(key.seq - 1, '')}\n{messages[key.seq]}"
                (expected,) = embed_texts(embedder, [passage])
                (cosine,) = part.vectors.exact(expected, part.vector_rows[[place]])
                assert cosine == pytest.approx(1, abs=1e-3), key


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("race", RACES)
def test_a_writer_while_messages_are_embedded(memory: Memory, race: str, indexed: bool) -> None:
    """Also if a round takes the change into a segment before the vectors are stored: afterwards
    each vector is that of its message and the one before it.
    """
    fill(memory)
    index_all(memory)
    slow, database = interrupted(embedding(memory, PassageEmbedder()))

    def write() -> None:
        RACES[race].write(memory)
        if indexed:
            index_all(memory)

    database.before_write(lambda: database.after_read(lambda: database.after_read(write)))
    embed.EmbedJob().run(slow.services, "acme")
    check(memory, RACES[race])
    quiet = embedding(memory, PassageEmbedder())
    quiet.run_jobs()
    assert embed.lag(quiet.services, "acme").pending == 0
    check_vectors(quiet)
