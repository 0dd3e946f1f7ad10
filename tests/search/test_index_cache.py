"""What a process keeps in memory of the index: always as new as the database, and bounded."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

import pytest

from memorist import Memory, Scope
from memorist.base.errors import ReadOnly
from memorist.search.index import Index
from memorist.search.indexer import BackgroundIndexer
from memorist.search.owner_index import OWNER_BYTES
from testkit.clock import Now
from testkit.embedders import Hashing, opened, word
from testkit.faults import with_faults
from testkit.memories import scope_of
from tests.search.indexing import finds, index_all, marks


def add_message(me: Scope, text: str) -> None:
    me.sessions.add("s")
    me.messages.append("s", "user", text)


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("forget", ["remove", "erase", "clear"])
def test_a_session_of_the_same_name_is_another_one(
    open_memory: Callable[..., Memory], now: Now, forget: str, indexed: bool
) -> None:
    """With the same number of messages, at the same time; a process that searched keeps nothing."""
    memory = open_memory(clock=now)
    me = scope_of(memory, "ada", "scout")
    add_message(me, "zoldo")
    assert finds(me, "zoldo")
    if indexed:
        index_all(memory)
    if forget == "clear":
        me.messages.clear("s")
    elif forget == "remove":
        me.sessions.remove("s")
    else:
        memory.scope(tenant="acme").admin.users.erase("ada")
    if indexed:
        index_all(memory)
    if forget == "clear":
        me.messages.append("s", "user", "znewo")
    else:
        add_message(me, "znewo")
    assert finds(me, "znewo")
    assert me.search("zoldo").hits == []


def test_what_was_rolled_back_is_not_found(me: Scope) -> None:
    """A search in a transaction sees its writes; later ones do not, and see other writes."""
    me.sessions.add("s")
    me.messages.append("s", "user", "first")

    def roll_back(inner: Scope) -> None:
        inner.messages.append("s", "user", "zoldo")
        assert len(finds(inner, "zoldo")) == 1
        raise KeyError

    with pytest.raises(KeyError):
        me.transaction(roll_back)
    me.messages.append("s", "user", "znewo")
    assert finds(me, "znewo")
    assert me.search("zoldo").hits == []


def test_many_fresh_documents_are_indexed_by_a_search_outside_of_transactions(
    me: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a thread; an open transaction belongs to another one."""
    started: list[Sequence[str]] = []
    monkeypatch.setattr(
        BackgroundIndexer, "start", lambda self, indexer, tenant, owners: started.append(owners)
    )
    me.sessions.add("s")

    def fill(inner: Scope) -> None:
        inner.messages.extend("s", [{"role": "user", "content": word(n)} for n in range(600)])
        assert finds(inner, word(599))

    me.transaction(fill)
    assert started == []
    assert finds(me, word(599))
    assert started == [["uada"]]


def test_a_search_needs_no_writes(memory: Memory, me: Scope) -> None:
    """As on a read-only file, or at a replica: what is fresh is found, and indexed by others."""
    me.sessions.add("s")
    me.messages.extend("s", [{"role": "user", "content": word(n)} for n in range(600)])
    index_all(memory)
    me.messages.extend("s", [{"role": "user", "content": word(n)} for n in range(600, 1000)])
    me.entries.add(" ".join(word(n) for n in range(100)))
    me.messages.extend("s", [{"role": "user", "content": f"again {n}"} for n in range(200)])
    before = marks(memory)
    faulty, faults = with_faults(memory)
    faults.fail("write", ReadOnly(problem="a test"), times=None)
    searching = scope_of(faulty, "ada", "scout")
    for n in (7, 599, 999):
        assert word(n) in finds(searching, word(n))
    for thread in threading.enumerate():
        if thread.name == "memorist-index":
            thread.join()
    assert faults.calls["write"] > 0, "the thread has tried"
    assert marks(memory) == before


def test_a_forked_child_searches(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Although a thread of the parent, which the child does not have, held its locks."""
    url = f"sqlite:///{tmp_path_factory.mktemp('fork')}/agent.db"
    with Memory.open(url) as memory:
        me = scope_of(memory, "ada", "scout")
        add_message(me, "zoldo")
        index_all(memory)
        me.messages.append("s", "user", "znewo")
        assert finds(me, "zoldo")
        index = memory.services.index
        with index.cache._lock, index.fresh._lock:
            child = os.fork()
            if not child:
                try:
                    os._exit(0 if finds(me, "zoldo") and finds(me, "znewo") else 1)
                finally:
                    os._exit(2)
        assert os.waitpid(child, 0)[1] == 0


def test_the_cache_stays_within_its_limit(memory: Memory) -> None:
    """The least recently searched owners leave it, and are found again."""
    users = [f"user{n}" for n in range(12)]
    for n, user in enumerate(users):
        me = scope_of(memory, user, "scout")
        me.sessions.add(user)
        me.messages.extend(user, [{"role": "user", "content": f"{word(n)} {k}"} for k in range(30)])
    index_all(memory)
    index = memory.services.index
    for user in users:
        scope_of(memory, user, "scout").search("anything")
    limit = index.cache.nbytes // 3
    assert limit > OWNER_BYTES
    small = Index(limit)
    object.__setattr__(memory.services, "index", small)
    for _ in range(2):
        for n, user in enumerate(users):
            assert finds(scope_of(memory, user, "scout"), word(n))
            assert 0 < small.cache.nbytes <= limit


def test_an_index_larger_than_the_cache_is_searched(url: str) -> None:
    """It is read again each time; nothing else is kept."""
    with opened(url, Hashing()) as memory:
        me = scope_of(memory, "ada", "scout")
        me.sessions.add("s")
        me.messages.extend("s", [{"role": "user", "content": word(n)} for n in range(300)])
        memory.run_jobs()
        object.__setattr__(memory.services, "index", Index(10))
        for n in (0, 150, 299):
            (hit, *_) = me.search(word(n))
            assert (hit.text, "vectors" in hit.legs) == (word(n), True)
