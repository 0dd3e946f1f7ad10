"""Memory against a plain dictionary: random sequences of calls on SQLite and PostgreSQL, with a
controlled clock.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from memorist import Memory, Message, NewMessage, Scope
from memorist.base.errors import (
    AlreadyExists,
    KeyReused,
    MemoristError,
    NotFound,
    OutOfOrder,
    WrongVersion,
)
from memorist.kinds.page import Page
from testkit.databases import SETTINGS, new_database
from testkit.memories import problems

SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 24 * 60 * MINUTE
START = 1_760_000_000_000_000
CALL = {"parts": [{"type": "tool_call", "name": "f"}]}
FULL = os.environ.get("FUZZ") == "full"

TENANTS = ["acme", "other"]
USERS = ["ada", "bob"]
AGENTS = ["scout", "cook"]
IDS = ["s1", "s2", "s3"]
KEYS = ["k1", "k2", "k3"]


class ScopeNames(NamedTuple):
    """Tenant, user and agent of a scope."""

    tenant: str
    user: str | None
    agent: str | None


class SentMessage(NamedTuple):
    """A message as the client sends it; `age` is its age in microseconds."""

    role: str
    content: Any
    age: int


@dataclass
class ModelSession:
    """A session in the model."""

    user: str
    agent: str
    touched: int
    label: str = ""
    first_seq: int = 1
    messages: list[Message] = field(default_factory=list)
    keys: dict[str, tuple[Any, int, int]] = field(default_factory=dict)

    @property
    def last_seq(self) -> int:
        return self.first_seq + len(self.messages) - 1

    @property
    def updated(self) -> int:
        """Time of the last use, as the database stores it: at most a minute late."""
        value = micros(self.messages[-1].created_at) if self.messages else 0
        return value if self.touched < value <= self.touched + MINUTE else self.touched


@dataclass(frozen=True)
class ModelState:
    """A state item in the model; it stays, hidden, from its expiry until the next purge."""

    value: Any
    version: int
    expires: int | None
    created: int
    updated: int


def at(micros_: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros_)


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


tenants = st.sampled_from(["acme", "acme", "acme", "other"])
users = st.builds(ScopeNames, tenants, st.sampled_from(USERS), st.sampled_from(AGENTS))
anyone = users | st.builds(ScopeNames, tenants, st.none(), st.none() | st.just("scout"))
ids = st.sampled_from(IDS)
contents = st.sampled_from(["", "hello", "x" * 40, "é\x00", CALL])
new_messages = st.builds(
    SentMessage,
    st.sampled_from(["user", "assistant", "tool", "system"]),
    contents,
    st.sampled_from([0, 0, 0, MINUTE, 2 * DAY]),
)
areas = st.sampled_from(["user", "user", "tenant", "session:s1", "session:s3"])
state_keys = st.sampled_from(["a", "a", "é"])
spans = st.sampled_from([1, SECOND, SECOND, MINUTE - 1, MINUTE, MINUTE, MINUTE + 1, DAY, 3 * DAY])
ends = st.sampled_from([None, None, None, "right", "wrong"])
mostly = st.sampled_from([True, True, True, False])


class MemoryMachine(RuleBasedStateMachine):
    """Runs the same calls on the database and the model."""

    open: Callable[[], Iterator[str]]
    look_every: int

    @initialize()
    def begin(self) -> None:
        self.now = START
        self.addresses = self.open()
        self.url = next(self.addresses)
        self.memory = self.reopened()
        self.talks: dict[tuple[str, str], ModelSession] = {}
        self.active: dict[tuple[str, str, str], str] = {}
        self.state: dict[tuple[str, str, str], ModelState] = {}
        self.steps = 0
        for owner, id in (
            (ScopeNames("acme", "ada", "scout"), "s1"),
            (ScopeNames("acme", "bob", "scout"), "s2"),
            (ScopeNames("other", "ada", "cook"), "s1"),
        ):
            self.add_session(owner, id)
        self.add(
            ScopeNames("acme", "ada", "scout"),
            "s1",
            [SentMessage("user", "hello", 0), SentMessage("assistant", "x" * 40, 0)],
            "k1",
            None,
        )
        for area in ("user", "session:s1"):
            self.set_state(ScopeNames("acme", "ada", "scout"), True, area, "a", 1, 60, None)

    def reopened(self) -> Memory:
        settings = replace(SETTINGS, postgres_pool=2)
        return Memory.open(self.url, settings=settings, clock=lambda: self.now)

    def scope(self, owner: ScopeNames) -> Scope:
        return self.memory.scope(**owner._asdict())

    def talk(self, owner: ScopeNames, id: str) -> ModelSession | None:
        """Return the session, if the scope may see it."""
        value = self.talks.get((owner.tenant, id))
        return value if value and owner.user in (None, value.user) else None

    def pick(self, owner: ScopeNames, id: str, own: bool) -> ScopeNames:
        """Return the drawn scope, or the owner of the session."""
        talk = self.talks.get((owner.tenant, id))
        return ScopeNames(owner.tenant, talk.user, owner.agent) if talk and own else owner

    def fails(self, error: type[MemoristError], call: Callable[[], Any]) -> MemoristError:
        """Check that the call raises exactly this error."""
        with pytest.raises(MemoristError) as raised:
            call()
        assert type(raised.value) is error
        return raised.value

    # -- time, and what an operator does -----------------------------------------------------------------------

    @rule(span=spans)
    def time_passes(self, span: int) -> None:
        self.now += span

    @rule()
    def restart(self) -> None:
        self.memory.close()
        self.memory = self.reopened()

    @rule(days=st.sampled_from([None, 1, 2.5]))
    def purge(self, days: float | None) -> None:
        expired = [place for place, value in self.state.items() if not self.live(value)]
        for place in expired:
            del self.state[place]
        old = 0
        for talk in self.talks.values():
            while (
                days is not None
                and talk.messages
                and micros(talk.messages[0].created_at) < self.now - round(days * DAY)
            ):
                del talk.messages[0]
                talk.first_seq += 1
                old += 1
            talk.keys = {
                key: entry for key, entry in talk.keys.items() if entry[2] >= talk.first_seq
            }
        done = self.memory.purge(days=days)
        assert (done.state, done.messages) == (len(expired), old)

    @rule(tenant=st.sampled_from(TENANTS), user=st.sampled_from(USERS))
    def erase(self, tenant: str, user: str) -> None:
        gone = {
            id: talk for (t, id), talk in self.talks.items() if (t, talk.user) == (tenant, user)
        }
        areas_ = {f"user:{user}", *(f"session:{id}" for id in gone)}
        state = [place for place in self.state if place[0] == tenant and place[1] in areas_]
        active = [place for place in self.active if place[:2] == (tenant, user)]
        receipt = self.memory.scope(tenant=tenant).admin.users.erase(user)
        assert receipt.removed == {
            **dict.fromkeys(receipt.removed, 0),
            "sessions": len(gone),
            "active_sessions": len(active),
            "messages": sum(len(talk.messages) for talk in gone.values()),
            "message_keys": sum(len(talk.keys) for talk in gone.values()),
            "state": len(state),
        }
        for id in gone:
            del self.talks[tenant, id]
        for place in active:
            del self.active[place]
        for place in state:
            del self.state[place]

    @rule()
    def export_and_import(self) -> None:
        """P15: an import of an export exports the same bytes."""
        out, again = io.BytesIO(), io.BytesIO()
        self.memory.export(out)
        with Memory.open("memory:", settings=SETTINGS, clock=lambda: self.now) as fresh:
            fresh.import_(io.BytesIO(out.getvalue()))
            fresh.export(again)
            assert again.getvalue() == out.getvalue()
            self.compare(fresh)

    # -- sessions ----------------------------------------------------------------------------------------------

    @rule(owner=users, id=ids)
    def add_session(self, owner: ScopeNames, id: str) -> None:
        if (owner.tenant, id) in self.talks:
            self.fails(AlreadyExists, lambda: self.scope(owner).sessions.add(id))
            return
        session = self.scope(owner).sessions.add(id, label="new")
        assert (session.id, session.user, session.agent) == (id, owner.user, owner.agent)
        assert session.count == 0
        self.begun(owner, id, label="new")

    def begun(self, owner: ScopeNames, id: str, label: str = "") -> None:
        assert owner.user is not None
        assert owner.agent is not None
        self.talks[owner.tenant, id] = ModelSession(
            owner.user, owner.agent, touched=self.now, label=label
        )
        self.active[owner.tenant, owner.user, owner.agent] = id

    @rule(owner=users, stored=st.none() | ids)
    def resume(self, owner: ScopeNames, stored: str | None) -> None:
        """The active session, whatever id the client has stored, or a new one."""
        assert owner.user is not None
        assert owner.agent is not None
        session = self.scope(owner).sessions.resume(stored)
        expected = self.active.get((owner.tenant, owner.user, owner.agent))
        if expected is None:
            assert (owner.tenant, session.id) not in self.talks
            self.begun(owner, session.id)
        else:
            assert session.id == expected

    @rule(owner=users, own=mostly, id=ids)
    def activate(self, owner: ScopeNames, own: bool, id: str) -> None:
        owner = self.pick(owner, id, own)
        talk = self.talk(owner, id)
        if talk is None:
            self.fails(NotFound, lambda: self.scope(owner).sessions.activate(id))
            return
        self.scope(owner).sessions.activate(id)
        self.active[owner.tenant, talk.user, talk.agent] = id

    @rule(owner=anyone, id=ids, label=st.sampled_from(["", "a label"]))
    def edit_session(self, owner: ScopeNames, id: str, label: str) -> None:
        talk = self.talk(owner, id)
        if talk is None:
            self.fails(NotFound, lambda: self.scope(owner).sessions.edit(id, label=label))
            return
        talk.label, talk.touched = label, self.now
        assert self.scope(owner).sessions.edit(id, label=label).label == label

    @rule(owner=anyone, id=ids)
    def remove_session(self, owner: ScopeNames, id: str) -> None:
        if self.talk(owner, id) is None:
            self.fails(NotFound, lambda: self.scope(owner).sessions.remove(id))
            return
        self.scope(owner).sessions.remove(id)
        del self.talks[owner.tenant, id]
        self.active = {
            place: a for place, a in self.active.items() if (place[0], a) != (owner.tenant, id)
        }
        self.state = {
            place: k
            for place, k in self.state.items()
            if place[:2] != (owner.tenant, f"session:{id}")
        }

    def list_sessions(self, owner: ScopeNames, limit: int) -> None:
        """The last used first, in pages."""
        mine = [
            (talk.updated, id)
            for (tenant, id), talk in self.talks.items()
            if tenant == owner.tenant
            and owner.user in (None, talk.user)
            and owner.agent in (None, talk.agent)
        ]
        seen = [
            (micros(s.updated_at), s.id)
            for s in paged(lambda after: self.scope(owner).sessions.list(limit=limit, after=after))
        ]
        assert seen == sorted(mine, reverse=True)

    # -- messages ----------------------------------------------------------------------------------------------

    @rule(
        owner=anyone,
        own=mostly,
        id=ids,
        new=new_messages,
        key=st.none() | st.sampled_from(KEYS),
        end=ends,
    )
    def append(
        self,
        owner: ScopeNames,
        own: bool,
        id: str,
        new: SentMessage,
        key: str | None,
        end: str | None,
    ) -> None:
        self.add(self.pick(owner, id, own), id, [new], key, end, single=True)

    @rule(
        owner=anyone,
        own=mostly,
        id=ids,
        batch=st.lists(new_messages, min_size=1, max_size=4),
        key=st.none() | st.sampled_from(KEYS),
        end=ends,
    )
    def extend(
        self,
        owner: ScopeNames,
        own: bool,
        id: str,
        batch: list[SentMessage],
        key: str | None,
        end: str | None,
    ) -> None:
        self.add(self.pick(owner, id, own), id, batch, key, end)

    @rule()
    def retry(self) -> None:
        """P2: repeat every request that had a key, from the same scope."""
        for (tenant, id), talk in self.talks.items():
            for key, (sent, first, last) in talk.keys.items():
                new = [
                    NewMessage(r, c, author=a, created_at=None if at_ is None else at(at_))
                    for r, c, a, at_ in sent
                ]
                agentless = self.scope(ScopeNames(tenant, talk.user, None))
                wanted = [message for message in talk.messages if first <= message.seq <= last]
                assert agentless.messages.extend(id, new, key=key) == wanted

    def add(
        self,
        owner: ScopeNames,
        id: str,
        batch: list[SentMessage],
        key: str | None,
        end: str | None,
        single: bool = False,
    ) -> None:
        talk = self.talk(owner, id)
        expected = (
            None if end is None else (talk.last_seq if talk else 0) + (5 if end == "wrong" else 0)
        )
        moments = [None if new.age == 0 else self.now - new.age for new in batch]
        sent = [
            (new.role, new.content, owner.agent if new.role == "assistant" else None, moment)
            for new, moment in zip(batch, moments, strict=True)
        ]

        def call() -> list[Message]:
            messages = self.scope(owner).messages
            times = [None if moment is None else at(moment) for moment in moments]
            if single:
                role: Any = batch[0].role
                content = batch[0].content
                return [
                    messages.append(
                        id, role, content, key=key, expected_last_seq=expected, created_at=times[0]
                    )
                ]
            new = [
                NewMessage(n.role, n.content, created_at=time)
                for n, time in zip(batch, times, strict=True)
            ]
            return messages.extend(id, new, key=key, expected_last_seq=expected)

        if talk is None:
            self.fails(NotFound, call)
        elif key in talk.keys and talk.keys[key][0] != sent:
            self.fails(KeyReused, call)
        elif key in talk.keys:
            _, first, last = talk.keys[key]
            assert call() == [message for message in talk.messages if first <= message.seq <= last]
        elif end == "wrong":
            self.fails(OutOfOrder, call)
        else:
            self.added(talk, sent, key, call())

    def added(
        self, talk: ModelSession, sent: list[Any], key: str | None, answer: list[Message]
    ) -> None:
        first = talk.last_seq + 1
        assert [message.seq for message in answer] == list(range(first, first + len(sent)))
        for message, (role, content, author, moment) in zip(answer, sent, strict=True):
            wanted = (
                content if isinstance(content, dict) else {"text": content.replace("\x00", "␀")}
            )
            assert (message.role, message.content, message.author) == (role, wanted, author)
            assert message.created_at == at(self.now if moment is None else moment)
        if self.now - talk.touched > MINUTE:
            talk.touched = self.now
        talk.messages += answer
        if key is not None:
            talk.keys[key] = (sent, first, talk.last_seq)

    def window(self, owner: ScopeNames, id: str, how: dict[str, Any], turns_only: bool) -> None:
        talk = self.talk(owner, id)
        if talk is None:
            self.fails(
                NotFound,
                lambda: self.scope(owner).messages.window(id, **how, turns_only=turns_only),
            )
            return
        spoken = [
            m
            for m in talk.messages
            if not turns_only or (m.role == "user" or (m.role == "assistant" and m.content != CALL))
        ]
        wanted: list[Message] = []
        for message in reversed(spoken):
            if len(wanted) == how.get("last"):
                break
            if "tokens" in how and sum(m.tokens for m in wanted) + message.tokens > how["tokens"]:
                break
            if "minutes" in how and micros(message.created_at) < self.now - round(
                how["minutes"] * MINUTE
            ):
                break
            wanted.insert(0, message)
        assert self.scope(owner).messages.window(id, **how, turns_only=turns_only) == wanted

    def read_messages(self, owner: ScopeNames, id: str, limit: int, seq: int) -> None:
        talk = self.talk(owner, id)
        if talk is None:
            self.fails(NotFound, lambda: self.scope(owner).messages.list(id, limit=limit))
            self.fails(NotFound, lambda: self.scope(owner).messages.get(id, seq))
            return
        assert (
            list(paged(lambda after: self.scope(owner).messages.list(id, limit=limit, after=after)))
            == talk.messages
        )
        if talk.first_seq <= seq <= talk.last_seq:
            assert self.scope(owner).messages.get(id, seq) == talk.messages[seq - talk.first_seq]
        else:
            self.fails(NotFound, lambda: self.scope(owner).messages.get(id, seq))

    # -- state -------------------------------------------------------------------------------------------------

    def live(self, kept: ModelState | None) -> bool:
        return kept is not None and (kept.expires is None or kept.expires > self.now)

    def area(self, owner: ScopeNames, area: str) -> str | None:
        """Return the full name of an area, or None if the scope may not see it."""
        if area.startswith("session:"):
            return area if self.talk(owner, area.removeprefix("session:")) else None
        return f"user:{owner.user}" if area == "user" else area

    @rule(
        owner=users,
        own=mostly,
        area=areas,
        key=state_keys,
        value=st.sampled_from([None, 1, "é", {"a": [1]}]),
        ttl=st.sampled_from([None, None, 1, 60, 86_400]),
        version=st.sampled_from([None, None, 0, "right", "wrong"]),
    )
    def set_state(
        self,
        owner: ScopeNames,
        own: bool,
        area: str,
        key: str,
        value: Any,
        ttl: float | None,
        version: Any,
    ) -> None:
        owner = self.pick(owner, area.removeprefix("session:"), own)
        place = self.area(owner, area)
        stored = self.state.get((owner.tenant, place or "", key))
        current = stored.version if stored and self.live(stored) else 0
        wanted = {"right": current, "wrong": current + 3}.get(version, version)

        def call() -> Any:
            return self.scope(owner).state.set(key, value, area=area, ttl=ttl, if_version=wanted)

        if place is None:
            self.fails(NotFound, call)
            return
        if wanted is not None and wanted != current:
            error = self.fails(WrongVersion, call)
            assert (error.actual, error.expected) == (current, wanted)  # type: ignore[attr-defined]
            return
        item = call()
        new = ModelState(
            value,
            version=stored.version + 1 if stored else 1,
            expires=None if ttl is None else self.now + round(ttl * SECOND),
            created=stored.created if stored and current else self.now,
            updated=self.now,
        )
        self.state[owner.tenant, place, key] = new
        assert same(item, place, key, new)

    def get_state(self, owner: ScopeNames, area: str, key: str) -> None:
        place = self.area(owner, area)
        value = self.state.get((owner.tenant, place or "", key))
        if place is None or value is None or not self.live(value):
            self.fails(NotFound, lambda: self.scope(owner).state.get(key, area=area))
        else:
            assert same(self.scope(owner).state.get(key, area=area), place, key, value)

    def list_state(self, owner: ScopeNames, area: str, prefix: str, limit: int) -> None:
        place = self.area(owner, area)
        if place is None:
            self.fails(NotFound, lambda: self.scope(owner).state.list(area=area, prefix=prefix))
            return
        wanted = [
            (key, value.version)
            for (tenant, area_, key), value in self.state.items()
            if (tenant, area_) == (owner.tenant, place)
            and key.startswith(prefix)
            and self.live(value)
        ]
        pages = paged(
            lambda after: self.scope(owner).state.list(
                area=area, prefix=prefix, limit=limit, after=after
            )
        )
        assert [(item.key, item.version) for item in pages] == sorted(
            wanted, key=lambda pair: pair[0].encode()
        )

    @rule(
        owner=users, area=areas, key=state_keys, version=st.sampled_from([None, "right", "wrong"])
    )
    def remove_state(self, owner: ScopeNames, area: str, key: str, version: str | None) -> None:
        place = self.area(owner, area)
        value = self.state.get((owner.tenant, place or "", key))
        wanted = None if version is None else (value.version if value else 1) + (version == "wrong")

        def call() -> None:
            self.scope(owner).state.remove(key, area=area, if_version=wanted)

        if place is None or value is None or not self.live(value):
            self.fails(NotFound, call)
        elif version == "wrong":
            self.fails(WrongVersion, call)
        else:
            call()
            del self.state[owner.tenant, place, key]

    # -- always ------------------------------------------------------------------------------------------------

    @invariant()
    def the_same_numbers(self) -> None:
        """Compare the number of rows over all tenants."""
        if not hasattr(self, "state"):
            return
        assert (result := self.memory.counts()) == {
            **dict.fromkeys(result, 0),
            "sessions": len(self.talks),
            "active_sessions": len(self.active),
            "messages": sum(len(talk.messages) for talk in self.talks.values()),
            "message_keys": sum(len(talk.keys) for talk in self.talks.values()),
            "state": sum(self.live(item) for item in self.state.values()),
        }
        self.steps += 1
        if self.steps % self.look_every == 0:
            self.look(self.steps // self.look_every)

    def look(self, n: int) -> None:
        """Make every kind of read from every scope; `n` chooses numbers at and near every edge."""
        for tenant in TENANTS:
            for user in (None, *USERS):
                self.list_sessions(ScopeNames(tenant, user, [None, "scout"][n % 2]), 1 + n % 3)
            for user in USERS:
                for area in ("user", "tenant", "session:s1"):
                    owner = ScopeNames(tenant, user, "scout")
                    self.list_state(owner, area, ["", "a", "é", "z"][n % 4], 1 + n % 3)
                    self.get_state(owner, area, ["a", "é"][n % 2])
        for (tenant, id), talk in list(self.talks.items()):
            owner, stranger = ScopeNames(tenant, talk.user, None), ScopeNames(tenant, "eve", None)
            self.read_messages([owner, stranger][n % 5 == 0], id, 1 + n % 4, talk.first_seq + n % 4)
            newest = talk.messages[::-1][: n % 5]
            spent = sum(message.tokens for message in newest)
            age = (self.now - micros(newest[-1].created_at)) if newest else 0
            for how in (
                {},
                {"last": n % 6},
                {"tokens": max(0, spent - n % 2)},
                {"minutes": max(0, age - n % 2) / MINUTE},
            ):
                self.window(owner, id, how, turns_only=n % 3 == 0)
            self.window(stranger, id, {"last": 3}, turns_only=False)

    def compare(self, memory: Memory) -> None:
        """Compare everything in the tenant's scope."""
        for (tenant, id), talk in self.talks.items():
            session = memory.scope(tenant=tenant).sessions.get(id)
            assert (session.user, session.agent) == (talk.user, talk.agent)
            assert session.label == talk.label
            assert (session.first_seq, session.last_seq) == (talk.first_seq, talk.last_seq)
            assert micros(session.updated_at) == talk.updated
            assert memory.scope(tenant=tenant).messages.window(id) == talk.messages
        for (tenant, user, agent), id in self.active.items():
            assert memory.scope(tenant=tenant, user=user, agent=agent).sessions.active().id == id
        for (tenant, place, key), value in self.state.items():
            if self.live(value):
                kind, _, user = place.partition(":")
                scope = memory.scope(tenant=tenant, user=user if kind == "user" else None)
                assert same(
                    scope.state.get(key, area="user" if kind == "user" else place),
                    place,
                    key,
                    value,
                )

    def teardown(self) -> None:
        if not hasattr(self, "state"):
            return
        try:
            self.look(self.steps)
            self.compare(self.memory)
            assert problems(self.memory) == []
        finally:
            self.memory.close()
            for _ in self.addresses:
                pass


def same(item: Any, place: str, key: str, kept: ModelState) -> bool:
    results = (
        item.area,
        item.key,
        item.value,
        item.version,
        item.expires_at,
        item.created_at,
        item.updated_at,
    )
    expires = None if kept.expires is None else at(kept.expires)
    return results == (
        place,
        key,
        kept.value,
        kept.version,
        expires,
        at(kept.created),
        at(kept.updated),
    )


def paged(page_after: Callable[[str | None], Page[Any]]) -> Iterator[Any]:
    """Return all records of a list, read in pages."""
    after: str | None = None
    while True:
        page = page_after(after)
        yield from page
        after = page.next
        if after is None:
            return


def explore(
    open: Callable[[], Iterator[str]], examples: int, steps: int, look_every: int = 1
) -> None:
    machine = type(
        "Machine", (MemoryMachine,), {"open": staticmethod(open), "look_every": look_every}
    )
    phases = [phase for phase in Phase if FULL or phase is not Phase.explain]
    settings = hypothesis_settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=not FULL,
        database=None,
        phases=phases,
        deadline=None,
    )
    run_state_machine_as_test(machine, settings=settings)


def test_sqlite_matches_the_model(tmp_path: Path) -> None:
    """P2–P5, P9, P10, P15, C1–C8, K1."""
    files = iter(range(10**9))

    def address() -> Iterator[str]:
        path = tmp_path / f"{next(files)}.db"
        yield f"sqlite:///{path}"
        for part in tmp_path.glob(f"{path.name}*"):
            part.unlink()

    explore(address, *((1000, 80) if FULL else (6, 30)))


@pytest.mark.slow
def test_postgres_matches_the_model() -> None:
    """The same on PostgreSQL."""
    explore(lambda: new_database("modern"), *((200, 60) if FULL else (6, 20)), look_every=5)
