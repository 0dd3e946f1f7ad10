"""Putting what a reader found into our kinds: in batches, so that it can be repeated, stopped, and tried without writing.

Everything has an id that comes from its source. What is there already stays as it is: the same is counted, and what differs
is listed. A conversation that is there in part is gone on with, as long as what is there is how it began. A dry run does
all that a run does, and undoes each batch instead of keeping it.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

from retain.base import canonical, limits
from retain.base.errors import Conflict, Invalid, NotFound
from retain.integrations.importers.record import (
    Conversation,
    Fact,
    Passage,
    Record,
    Thing,
    Unplaced,
)
from retain.integrations.importers.report import NAMES, Report, where
from retain.kinds import moved
from retain.kinds.entries.entry import content as words
from retain.kinds.graph import Entity, Observations, Relation
from retain.kinds.items.items import Put
from retain.kinds.messages.new_message import new_rows
from retain.memory import Memory, Scope
from retain.messages.message import NewMessage

T = TypeVar("T")
_IN_ONE_WRITE = 100
_LABEL = 250
Batched = Fact | Thing | Entity | Relation


class _Undone(Exception):
    """The end of a batch that is not to be kept."""

    def __init__(self, done: Any) -> None:
        self.done = done


class Writer:
    """One import into a tenant. `user` and `agent` are whose it is where the source does not say."""

    def __init__(
        self,
        memory: Memory,
        format: str,
        tenant: str | None,
        user: str | None,
        agent: str | None,
        dry_run: bool,
    ) -> None:
        self._memory, self._tenant, self._user, self._agent = memory, tenant, user, agent
        self._secrets = memory.settings.secrets
        self._most = min(_IN_ONE_WRITE, limits.MAX_BATCH, limits.MAX_PAGE)
        self.report = Report(format, dry_run)
        self._waiting: dict[tuple[type, str | None, str | None], list[Any]] = {}
        self._seen: dict[tuple[str, ...], bytes] = {}
        self._types: dict[tuple[str | None, str], str] = {}

    def put(self, record: Record) -> None:
        """Keep a record, or put it into the batch that will be."""
        if isinstance(record, Unplaced):
            self.report.leave(record, record.reason)
            return
        self.report.read[NAMES[type(record)][0]] += 1
        user, agent = getattr(record, "user", None), getattr(record, "agent", None)
        if user is not None and self._user not in (None, user):
            self._count_messages(record)
            self.report.leave(record, f"is {user}'s: import without --user, or with --user {user}")
            return
        whose = (user or self._user, self._agent or agent or self.report.format)
        try:
            self._scope(*whose)
            if isinstance(record, Conversation | Passage):
                self._converse(record, *whose) if isinstance(record, Conversation) else self._note(
                    record, whose[1]
                )
            else:
                self._wait(record, whose[0], whose[1] if isinstance(record, Fact) else None)
        except (Invalid, Conflict, NotFound) as error:
            self.report.leave(record, str(error))

    def flush(self) -> None:
        """Write what waits."""
        for kind, user, agent in list(self._waiting):
            self._write(self._waiting.pop((kind, user, agent)), self._scope(user, agent))

    # -- records that are written in batches ----------------------------------------------------------------------

    def _wait(self, record: Batched, user: str | None, agent: str | None) -> None:
        """Put a record into its batch, unless the source has it twice."""
        name = (type(record).__name__, user or "", agent or "", *_name(record))
        print_ = hashlib.sha256(repr(record).encode("utf-8", "surrogatepass")).digest()[:12]
        if name in self._seen and not isinstance(record, Entity):
            if self._seen[name] == print_:
                self.report.count(NAMES[type(record)][0], new=False)
            else:
                self.report.leave(record, "is in the source twice, and not the same")
            return
        self._seen[name] = print_
        batch = self._waiting.setdefault((type(record), user, agent), [])
        batch.append(record)
        if len(batch) >= self._most:
            self.flush()

    def _write(self, batch: Sequence[Any], scope: Scope) -> None:
        """Write a batch; where something in it cannot be kept, each by itself."""
        what = NAMES[type(batch[0])][0]
        writers: dict[type, Callable[[Scope, Sequence[Any]], list[bool | str]]] = {
            Fact: self._facts, Thing: self._things, Entity: self._entities, Relation: self._relations,
        }  # fmt: skip
        write = writers[type(batch[0])]
        try:
            done = self._do(scope, lambda inner: write(inner, batch))
        except (Invalid, Conflict) as error:
            if len(batch) == 1:
                self.report.leave(batch[0], str(error))
            else:
                for one in batch:
                    self._write([one], scope)
            return
        for one, new in zip(batch, done, strict=True):
            if isinstance(one, Entity):
                self._types.setdefault((scope.owner.user, one.name), one.type)
            if isinstance(new, str):
                self.report.leave(one, new)
            else:
                self.report.count(what, new=new)

    def _facts(self, scope: Scope, batch: Sequence[Fact]) -> list[bool | str]:
        done: list[bool | str] = []
        for one in batch:
            whose = (self.report.format, str(scope.owner.user), str(scope.owner.agent), one.id)
            print_ = hashlib.sha256("\n".join(whose).encode("utf-8", "surrogatepass")).digest()
            id, said = (
                str(uuid.UUID(bytes=print_[:16], version=5)),
                words(one.text, secrets=self._secrets),
            )
            try:
                done.append(
                    "is here with other words" if scope.entries.get(id).content != said else False
                )
            except NotFound:
                times = {"created_at": one.created_at, "updated_at": one.updated_at}
                made = scope.entries.add_many(
                    [{"id": id, "content": said, "kind": _kind(one), **times}]
                )
                done.append(
                    made[0].id == id
                )  # or the same words wait for a review, or were refused
        return done

    def _things(self, scope: Scope, batch: Sequence[Thing]) -> list[bool | str]:
        there = scope.items.read([(one.place, one.key) for one in batch])
        new = [one for one, found in zip(batch, there, strict=True) if found is None]
        scope.items.write(
            [Put(one.place, one.key, one.value, one.ttl, one.fields, 0) for one in new]
        )
        for one in new:
            if one.created_at is not None or one.expires_at is not None:
                began = one.created_at or datetime.now(UTC)
                moved.item(
                    scope.items,
                    one.place,
                    one.key,
                    began,
                    one.updated_at or began,
                    expires=one.expires_at,
                )
        limit = limits.MAX_ITEM_BYTES
        kept = [
            json.loads(canonical.dump(one.value, "value", limit, self._secrets)) for one in batch
        ]
        return [
            True
            if found is None
            else False
            if found.value == value
            else "is here with another value"
            for found, value in zip(there, kept, strict=True)
        ]

    def _entities(self, scope: Scope, batch: Sequence[Entity]) -> list[bool | str]:
        """Entities that are there get the observations that they lack; so do those that the source has twice."""
        first: dict[str, Entity] = {}
        for one in batch:
            first.setdefault(one.name, one)
        known = {
            one.name: self._types.get((scope.owner.user, one.name)) for one in batch
        }  # in a dry run, it is not there
        added = {
            one.name for one in scope.graph.add(list(first.values())) if known[one.name] is None
        }
        scope.graph.observe(
            [Observations(one.name, one.observations) for one in batch if one.observations]
        )
        types = {
            one.name: one.type for one in scope.graph.open([one.name for one in batch]).entities
        }
        done: list[bool | str] = []
        for one in batch:
            kind = known[one.name] or types.get(one.name, one.type)
            other = f"is here as {kind}, not as {one.type}; what was observed is added to it"
            done.append(one.name in added if kind == one.type else other)
            added.discard(one.name)
        return done

    def _relations(self, scope: Scope, batch: Sequence[Relation]) -> list[bool | str]:
        return [bool(scope.graph.relate([one])) for one in batch]

    # -- conversations and notes ----------------------------------------------------------------------------------

    def _converse(self, one: Conversation, user: str | None, agent: str) -> None:
        scope = self._scope(user, agent)
        messages, raws = self._valid(scope, one)
        there, last = self._there(scope, one.id)
        known = self._seen.get(("conversation", one.id))
        self._seen["conversation", one.id] = print_ = hashlib.sha256(repr(raws).encode()).digest()[
            :12
        ]
        if known not in (None, print_) or (there and there[: len(raws)] != raws[: len(there)]):
            self.report.read["messages"] += len(raws)
            self.report.leave(
                one, "is here with other messages: it went on differently in one of both places"
            )
            return
        done = len(raws) if known else min(len(there or ()), len(raws))
        attributes = self._attributes(one, user)
        self.report.read["messages"] += len(raws)
        self.report.count("messages", new=False, number=done)
        if there is None and not known:
            last = min(len(messages), self._most)
            self._begin(scope, one, attributes, messages[:last])
            self.report.count("messages", new=True, number=last)
            done = last
        self.report.count("conversations", new=there is None and not known)
        if self.report.dry_run:
            self.report.count("messages", new=True, number=len(raws) - done)
            return
        for start in range(done, len(messages), self._most):
            some = messages[start : start + self._most]
            last = scope.messages.extend(one.id, some, expected_last_seq=last)[
                -1
            ].seq  # or another import is at it, too
            self.report.count("messages", new=True, number=len(some))
        if there is None or len(there) <= len(messages):
            self._date(scope, one, messages, wrote=there is None or len(there) < len(messages))

    def _there(self, scope: Scope, session: str) -> tuple[list[tuple[str, str]] | None, int]:
        """What a session has to read, and its last number; None where there is no such session."""
        found: list[tuple[str, str]] = []
        after: str | None = None
        try:
            last = scope.sessions.get(
                session
            ).last_seq  # first: what is said meanwhile makes the number wrong
            while True:
                page = scope.messages.list(session, after=after, limit=self._most)
                found += [(message.role, message.raw) for message in page]
                after = page.next
                if after is None:
                    return found, last
        except NotFound:
            return None, 0

    def _valid(
        self, scope: Scope, one: Conversation
    ) -> tuple[list[NewMessage], list[tuple[str, str]]]:
        """The messages that can be kept, and each as it is kept."""
        messages, raws = [], []
        for number, message in enumerate(one.messages):
            try:
                (row,) = new_rows(scope.owner, self._memory.settings, [message])
            except Invalid as error:
                self.report.read["messages"] += 1
                self.report.unplaced.append(
                    Unplaced("message", f"{one.id} message {number}", str(error))
                )
                continue
            messages.append(message)
            raws.append((row["role"], row["content"]))
        return messages, raws

    def _attributes(self, one: Conversation, user: str | None) -> Any:
        """What is said of a session, its name too where that is cut; where a session has no room for it, an item has."""
        about = (
            {**one.attributes, "label": one.label} if len(one.label) > _LABEL else one.attributes
        )
        try:
            canonical.dump(about, "attributes", limits.MAX_ATTRIBUTES_BYTES, self._secrets)
            return about
        except Invalid:
            self.put(Thing((self.report.format, "conversations"), one.id, about, user=user))
            return {"import": self.report.format}

    def _begin(
        self, scope: Scope, one: Conversation, attributes: Any, messages: Sequence[NewMessage]
    ) -> None:
        """Make the session with its first messages, and leave active what was."""
        active = None
        with suppress(NotFound):
            active = scope.sessions.active().id

        def work(inner: Scope) -> None:
            inner.sessions.add(one.id, label=one.label[:_LABEL], attributes=attributes)
            if messages:
                inner.messages.extend(one.id, messages)
            if active is None:
                moved.rest(inner.sessions, one.id)
            else:
                inner.sessions.activate(active)

        self._do(scope, work)

    def _date(
        self, scope: Scope, one: Conversation, messages: Sequence[NewMessage], *, wrote: bool
    ) -> None:
        """Give the session the times that it had."""
        said = [message.created_at for message in messages if message.created_at is not None]
        began = min([at for at in (one.created_at, *said[:1]) if at is not None], default=None)
        if began is None or not (wrote or scope.sessions.get(one.id).created_at > began):
            return
        used = max([began, *said]) if said else one.updated_at or began
        moved.session(scope.sessions, one.id, began, used)

    def _note(self, one: Passage, agent: str) -> None:
        scope = self._scope(self._user, agent)
        note = scope.notes.read()
        kept = canonical.text(one.text, "text", limits.MAX_NOTES_BYTES, self._secrets)
        new = kept.strip() not in note.text
        if new:
            before = "\n\n" if note.text.strip() else ""
            self._do(
                scope,
                lambda inner: inner.notes.append(f"{before}{one.text}\n", if_version=note.version),
            )
        self.report.count("notes", new=new)

    # -- what they share ------------------------------------------------------------------------------------------

    def _do(self, scope: Scope, work: Callable[[Scope], T]) -> T:
        """Do it at once and keep it; in a dry run, do it and undo it."""
        if not self.report.dry_run:
            return scope.transaction(work)

        def undone(inner: Scope) -> None:
            raise _Undone(work(inner))

        try:
            scope.transaction(undone)
        except _Undone as end:
            done: T = end.done
            return done
        raise AssertionError("what was undone says so")

    def _scope(self, user: str | None, agent: str | None) -> Scope:
        return self._memory.scope(tenant=self._tenant, user=user, agent=agent, source="import")

    def _count_messages(self, record: Record) -> None:
        if isinstance(record, Conversation):
            self.report.read["messages"] += len(record.messages)


def _kind(one: Fact) -> str:
    return "core" if one.core else "journal"


def _name(record: Batched) -> tuple[str, ...]:
    return (
        (record.start, record.target, record.type)
        if isinstance(record, Relation)
        else (where(record),)
    )
