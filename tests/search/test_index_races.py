"""A writer between two steps of a job: nothing forgotten comes back, nothing is missed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

import pytest

from memorist import Memory, Scope
from memorist.jobs import index_owners
from testkit.fake_embedder import FakeEmbedder
from testkit.memories import problems, scope_of
from tests.search.indexing import (
    finds,
    index_all,
    interrupted,
    is_stored,
    marks,
    small_segments,
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
        owners = database.read("acme", lambda tx: index_owners.due_owners(tx, "", 9))
        assert owners == ["uada"]
        database.after_read(lambda: RACES[race].write(memory))
        index_owners.index_owner(slow.services, "acme", "uada")
        check(memory, RACES[race])


@pytest.mark.parametrize("race", RACES)
def test_a_writer_before_an_index_round_publishes(memory: Memory, race: str) -> None:
    """After the parts of a large segment were stored, which no reader sees yet."""
    with small_segments():
        fill(memory, others=60)
        slow, database = interrupted(memory)
        database.before_write(
            lambda: database.before_write(lambda: RACES[race].write(memory))
        )
        index_owners.index_owner(slow.services, "acme", "uada")
        check(memory, RACES[race])
