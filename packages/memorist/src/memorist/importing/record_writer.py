"""Writes imported records: in batches, repeatable, interruptible, and as a dry run.

Every record has an id that comes from its source. What exists already stays: equal records are
counted, different ones are listed. A conversation that exists in part is continued if its beginning
is the same. A dry run does the same writes and rolls each batch back.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

from memorist.base import canonical, limits
from memorist.base.errors import Conflict, Invalid, NotFound
from memorist.content import placeholder
from memorist.content.message import NewMessage
from memorist.importing.records import (
    MAX_KEY_CHARACTERS,
    ImportedCall,
    ImportedConversation,
    ImportedEntry,
    ImportedItem,
    ImportedNote,
    ImportedReference,
    ImportedState,
    Placed,
    Unplaced,
)
from memorist.importing.report import RECORD_NAMES, ImportReport, location
from memorist.kinds import backdating
from memorist.kinds.backdating import RecordTimes
from memorist.kinds.entries.entry import checked_content
from memorist.kinds.graph import GraphEntity, Observations, Relation, add_twins
from memorist.kinds.items import Put
from memorist.kinds.messages.message_rows import new_rows
from memorist.kinds.page import all_records
from memorist.kinds.refs import NewReference, Ref, reference
from memorist.kinds.summaries import add_imported as add_summary
from memorist.memory import Memory, Scope

T = TypeVar("T")
BATCH_SIZE = 100
MAX_LABEL_CHARACTERS = 250
Batched = ImportedEntry | ImportedItem | GraphEntity | Relation | ImportedState | ImportedCall
Outcome = bool | str
"""True: written. False: was there already. Text: why it was not written."""


class _Rollback(Exception):
    """Ends the transaction of a dry run and carries its result."""

    def __init__(self, result: Any) -> None:
        self.result = result


class RecordWriter:
    """One import into a tenant; `user` and `agent` own what the source gives no owner."""

    def __init__(
        self,
        memory: Memory,
        tenant: str | None,
        user: str | None,
        agent: str | None,
        report: ImportReport,
    ) -> None:
        self.report = report
        self._memory = memory
        self._tenant = tenant
        self._user = user
        self._agent = agent
        self._policy = memory.settings.masking
        self._batch_size = min(BATCH_SIZE, limits.MAX_BATCH, limits.MAX_PAGE)
        self._batches: dict[tuple[type, str | None, str | None], list[Any]] = {}
        self._digests: dict[tuple[str, ...], bytes] = {}  # of the records seen so far
        # By user and name: how many entities the graph had before this import, without those that
        # were matched with one of the source.
        self._unmatched_entities: dict[tuple[str | None, str], int] = {}
        self._new_sessions: set[str] = set()  # in a dry run, which rolls them back
        self._early_references: dict[str | None, dict[str, list[Ref]]] = {}

    def add(self, record: Placed) -> None:
        """Write a record, or add it to the next batch."""
        self.report.read[RECORD_NAMES[type(record)][0]] += 1
        record_user = getattr(record, "user", None)
        if record_user is not None and self._user not in (None, record_user):
            if isinstance(record, ImportedConversation):
                self.report.read["messages"] += len(record.messages)
            reason = (
                f"belongs to {record_user}: import without --user, or with --user {record_user}"
            )
            self.report.reject(record, reason)
            return
        user = record_user or self._user
        agent = self._agent or getattr(record, "agent", None) or self.report.format
        try:
            self._scope(user, agent)
            if isinstance(record, ImportedConversation):
                self._write_conversation(record, user, agent)
            elif isinstance(record, ImportedNote):
                self._write_note(record, user, agent)
            elif isinstance(record, ImportedReference):
                self._write_reference(record, self._scope(user, self._agent or record.agent))
            elif isinstance(record, ImportedEntry):
                self._enqueue(record, user, agent)
            elif isinstance(record, ImportedCall):
                self._enqueue(record, user, self._agent or record.agent)
            else:
                self._enqueue(record, user, None)
        except (Invalid, Conflict, NotFound) as error:
            self.report.reject(record, str(error))

    def flush(self) -> None:
        """Write all batches."""
        for kind, user, agent in list(self._batches):
            self._write_batch(self._batches.pop((kind, user, agent)), self._scope(user, agent))

    # -- records that are written in batches ------------------------------------------------------

    def _enqueue(self, record: Batched, user: str | None, agent: str | None) -> None:
        """Add a record to its batch, unless the source contains it twice."""
        identity = (type(record).__name__, user or "", agent or "", *_identity(record))
        digest = _digest(repr(record))
        if identity in self._digests:
            if self._digests[identity] == digest:
                self.report.count(RECORD_NAMES[type(record)][0], is_new=False)
            else:
                self.report.reject(record, "is twice in the source, with different content")
            return
        self._digests[identity] = digest
        batch = self._batches.setdefault((type(record), user, agent), [])
        batch.append(record)
        if len(batch) >= self._batch_size:
            self.flush()

    def _write_batch(self, batch: Sequence[Any], scope: Scope) -> None:
        """Write a batch; if a record in it cannot be written, write each one alone."""
        writers: dict[type, Callable[[Scope, Any], Outcome]] = {
            ImportedEntry: self._write_entry,
            Relation: lambda scope, relation: bool(scope.graph.relate([relation])),
            ImportedState: self._write_state,
            ImportedCall: self._write_call,
        }
        kind = type(batch[0])
        if kind is ImportedEntry and self._agent is None:
            batch = self._without_imported(scope, batch)
            if not batch:
                return

        def work(inner: Scope) -> list[Outcome]:
            if kind is ImportedItem:
                return self._write_items(inner, batch)
            if kind is GraphEntity:
                return self._write_entities(inner, batch)
            return [writers[kind](inner, record) for record in batch]

        try:
            outcomes = self._transaction(scope, work)
        except (Invalid, Conflict) as error:
            if len(batch) == 1:
                self.report.reject(batch[0], str(error))
            else:
                for record in batch:
                    self._write_batch([record], scope)
            return
        for record, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, str):
                self.report.reject(record, outcome)
            else:
                self.report.count(RECORD_NAMES[kind][0], is_new=outcome)

    def _without_imported(
        self, scope: Scope, batch: Sequence[ImportedEntry]
    ) -> list[ImportedEntry]:
        """Leave out entries that another file of the same source gave to another agent.

        One file of Mem0 names the agent of a memory, and another one does not.
        """
        user = scope.owner.user
        place = (self.report.format, "memories")
        left = []
        items = scope.items.read([(place, entry.id[:MAX_KEY_CHARACTERS]) for entry in batch])
        for entry, item in zip(batch, items, strict=True):
            agents = {self.report.format, item.value.get("agent_id") if item else None}
            ids = {
                _entry_id(self.report.format, user, agent, entry)
                for agent in agents - {scope.owner.agent, None}
                if isinstance(agent, str)
            }
            if any(self._has_entry(user, id) for id in ids):
                self.report.count(RECORD_NAMES[ImportedEntry][0], is_new=False)
            else:
                left.append(entry)
        return left

    def _has_entry(self, user: str | None, id: str) -> bool:
        with suppress(NotFound):
            self._scope(user, None).entries.get(id)
            return True
        return False

    def _write_entry(self, scope: Scope, entry: ImportedEntry) -> Outcome:
        id = _entry_id(self.report.format, scope.owner.user, scope.owner.agent, entry)
        content = checked_content(entry.text, policy=self._policy)
        try:
            if scope.entries.get(id).content != content:
                return "exists with different content"
            return False
        except NotFound:
            values = {
                "id": id,
                "content": content,
                "kind": "core" if entry.core else "journal",
                "created_at": entry.created_at,
                "updated_at": entry.updated_at,
            }
            added = scope.entries.add_many([values])
            # Another id: the same content is queued for review, or was rejected there.
            return added[0].id == id

    def _write_items(self, scope: Scope, batch: Sequence[ImportedItem]) -> list[Outcome]:
        existing = scope.items.read([(item.place, item.key) for item in batch])
        new = [item for item, stored in zip(batch, existing, strict=True) if stored is None]
        scope.items.write(
            [Put(item.place, item.key, item.value, item.ttl, item.fields, 0) for item in new]
        )
        for item in new:
            if item.created_at is not None or item.expires_at is not None:
                created = item.created_at or datetime.now(UTC)
                times = RecordTimes.of(created, item.updated_at, item.expires_at)
                backdating.backdate_item(scope.items, item.place, item.key, times)
        limit = limits.MAX_ITEM_BYTES
        outcomes: list[Outcome] = []
        for item, stored in zip(batch, existing, strict=True):
            value = json.loads(canonical.dump(item.value, "value", limit, self._policy))
            if stored is None:
                outcomes.append(True)
            else:
                outcomes.append(False if stored.value == value else "exists with another value")
        return outcomes

    def _write_entities(self, scope: Scope, batch: Sequence[GraphEntity]) -> list[Outcome]:
        """Add entities; one that exists with the same type gets the observations that it lacks.

        Two of one name in the source stay two, also if an interrupted import added only the first.
        One of the source and one that the graph already had may be different things, so they are
        not merged if their types differ.
        """
        stored: dict[str, list[GraphEntity]] = {}
        for entity in scope.graph.open([entity.name for entity in batch]).entities:
            stored.setdefault(entity.name, []).append(entity)
        new: list[GraphEntity] = []
        outcomes: list[Outcome] = []
        for entity in batch:
            key = (scope.owner.user, entity.name)
            namesakes = stored.get(entity.name, [])
            if self._unmatched_entities.setdefault(key, len(namesakes)) == 0:
                new.append(entity)
                outcomes.append(True)
                continue
            outcome = self._merge_entity(scope, entity, namesakes)
            if outcome is False:
                self._unmatched_entities[key] -= 1
            outcomes.append(outcome)
        add_twins(scope.graph, new)
        return outcomes

    def _merge_entity(
        self, scope: Scope, entity: GraphEntity, namesakes: Sequence[GraphEntity]
    ) -> Outcome:
        """Add what one of the namesakes in the graph lacks; they are not empty."""
        same_type = [other for other in namesakes if other.type == entity.type]
        if any(set(entity.observations) <= set(other.observations) for other in same_type):
            return False
        if len(namesakes) > 1:
            return "the graph has several entities of this name; they were not merged"
        if not same_type:
            problem = f"the graph has another entity of this name, of type {namesakes[0].type}"
            return f"{problem}; they were not merged"
        scope.graph.observe([Observations(entity.name, entity.observations)])
        return False

    def _write_state(self, scope: Scope, state: ImportedState) -> Outcome:
        if state.area.startswith("session:"):
            session = state.area.removeprefix("session:")
            if session in self._new_sessions:
                return True
            if not self._has_session(scope, session):
                return f"belongs to the session {session}, which was not imported"
        raw = canonical.dump(state.value, "value", limits.MAX_STATE_BYTES, self._policy)
        with suppress(NotFound):
            existing = scope.state.get(state.key, area=state.area)
            return False if existing.value == json.loads(raw) else "exists with another value"
        now = datetime.now(UTC)
        ttl = None
        if state.expires_at is not None:
            ttl = (state.expires_at - now).total_seconds()
            if ttl <= 0:
                return f"expired at {state.expires_at.isoformat()}"
        scope.state.set(state.key, state.value, area=state.area, ttl=ttl)
        created = state.created_at or state.updated_at
        if created is not None:
            times = RecordTimes.of(created, state.updated_at, state.expires_at)
            backdating.backdate_state(scope.state, state.area, state.key, times)
        return True

    def _write_call(self, scope: Scope, call: ImportedCall) -> Outcome:
        source = "\n".join((self.report.format, call.id))
        id = str(uuid.UUID(bytes=_long_digest(source)[:16], version=5))
        session = call.session
        if session is not None and (
            session in self._new_sessions or not self._has_session(scope, session)
        ):
            session = None
        return backdating.add_call(scope.interactions, id, call.usage, session, call.created_at)

    def _has_session(self, scope: Scope, id: str) -> bool:
        if id in self._new_sessions:
            return True
        with suppress(NotFound):
            scope.sessions.get(id)
            return True
        return False

    # -- references -------------------------------------------------------------------------------

    def _write_reference(self, record: ImportedReference, scope: Scope) -> None:
        """Write a reference with its key, unless it exists."""
        if not placeholder.is_key(record.key):
            raise Invalid(field="key", problem=placeholder.KEY_PROBLEM)
        data, _ = reference.encode(record.content, limits.MAX_REF_BYTES, self._policy)
        with suppress(NotFound):
            everyone = self._scope(None, None).refs
            is_same_user = everyone.info(record.key).user == scope.owner.user
            if is_same_user and everyone.content(record.key) == data:
                self.report.count("references", is_new=False)
            else:
                self.report.reject(record, "exists with different content")
            return
        identity = ("reference", record.key)
        if identity in self._digests:  # in a dry run
            if self._digests[identity] == _digest(repr(record)):
                self.report.count("references", is_new=False)
            else:
                self.report.reject(record, "exists with different content")
            return
        self._digests[identity] = _digest(repr(record))
        metadata = dict(record.metadata)
        session = record.session
        if session is not None and not self._has_session(scope, session):
            metadata = {"session": session, **metadata}
            session = None
        if not self.report.dry_run:
            created = record.created_at or datetime.now(UTC)
            new = NewReference(
                record.content,
                record.description,
                type=record.type,
                session=session,
                metadata=metadata,
                key=record.key,
            )
            times = RecordTimes.of(created, record.updated_at)
            backdating.add_reference(scope.refs, new, times, is_active=record.is_active)
        self.report.count("references", is_new=True)

    def _link_references(self, scope: Scope, session: str) -> None:
        """Give a new session the references of it that were imported before it."""
        user = scope.owner.user
        if user not in self._early_references:
            early: dict[str, list[Ref]] = {}
            for ref in all_records(
                lambda after: scope.refs.list(after=after, limit=self._batch_size)
            ):
                named = ref.metadata.get("session")
                if ref.source == "import" and ref.session is None and isinstance(named, str):
                    early.setdefault(named, []).append(ref)
            self._early_references[user] = early
        for ref in self._early_references[user].pop(session, ()):
            if not self.report.dry_run:
                backdating.link_reference(scope.refs, ref, session)

    # -- conversations and notes ------------------------------------------------------------------

    def _write_conversation(
        self, conversation: ImportedConversation, user: str | None, agent: str
    ) -> None:
        id = conversation.id
        scope = self._scope(user, agent)
        messages, contents = self._valid_messages(scope, conversation)
        existing, last_seq = self._existing_messages(scope, id)
        earlier_digest = self._digests.get(("conversation", id))
        digest = _digest(repr(contents))
        self._digests["conversation", id] = digest
        has_diverged = existing and existing[: len(contents)] != contents[: len(existing)]
        if earlier_digest not in (None, digest) or has_diverged:
            self.report.read["messages"] += len(contents)
            reason = "exists with other messages: the two continued differently"
            self.report.reject(conversation, reason)
            return
        written = len(contents) if earlier_digest else min(len(existing or ()), len(contents))
        attributes = self._attributes(conversation, user)
        self.report.read["messages"] += len(contents)
        self.report.count("messages", is_new=False, number=written)
        is_new = existing is None and not earlier_digest
        if is_new:
            written = last_seq = min(len(messages), self._batch_size)
            self._create_session(scope, conversation, attributes, messages[:written])
            self._link_references(scope, id)
            self.report.count("messages", is_new=True, number=written)
        self.report.count("conversations", is_new=is_new)
        if self.report.dry_run:
            if is_new:
                self._new_sessions.add(id)
            self.report.count("messages", is_new=True, number=len(contents) - written)
            return
        for start in range(written, len(messages), self._batch_size):
            batch = messages[start : start + self._batch_size]
            # The expected number fails if another import writes to the session, too.
            added = scope.messages.extend(id, batch, expected_last_seq=last_seq)
            last_seq = added[-1].seq
            self.report.count("messages", is_new=True, number=len(batch))
        if existing is None or len(existing) <= len(messages):
            has_written = existing is None or len(existing) < len(messages)
            self._restore_times(scope, conversation, messages, has_written=has_written)
        if conversation.summary:
            # The count is wrong if some of its messages were not imported.
            is_complete = len(messages) == len(conversation.messages)
            count = conversation.summarized_count if is_complete else 0
            add_summary(scope.summaries, id, conversation.summary, count)

    def _existing_messages(
        self, scope: Scope, session: str
    ) -> tuple[list[tuple[str, str]] | None, int]:
        """Return role and content of a session's messages, and its last number; None if missing."""
        try:
            # First: a message that arrives meanwhile then makes the number wrong.
            last_seq = scope.sessions.get(session).last_seq
            messages = all_records(
                lambda after: scope.messages.list(session, after=after, limit=self._batch_size)
            )
            return [(message.role, message.raw) for message in messages], last_seq
        except NotFound:
            return None, 0

    def _valid_messages(
        self, scope: Scope, conversation: ImportedConversation
    ) -> tuple[list[NewMessage], list[tuple[str, str]]]:
        """Return the valid messages, and the role and content of each as it will be stored."""
        messages = []
        contents = []
        for number, message in enumerate(conversation.messages):
            try:
                (row,) = new_rows(scope.owner, self._memory.settings, [message])
            except Invalid as error:
                self.report.read["messages"] += 1
                where = f"{conversation.id} message {number}"
                self.report.unplaced.append(Unplaced("message", where, str(error)))
                continue
            messages.append(message)
            contents.append((row["role"], row["content"]))
        return messages, contents

    def _attributes(self, conversation: ImportedConversation, user: str | None) -> Any:
        """Return the session's attributes; attributes above the limit become an item."""
        attributes = conversation.attributes
        if len(conversation.label) > MAX_LABEL_CHARACTERS:
            attributes = {**attributes, "label": conversation.label}
        limit = limits.MAX_ATTRIBUTES_BYTES
        try:
            canonical.dump(attributes, "attributes", limit, self._policy)
            return attributes
        except Invalid:
            place = (self.report.format, "conversations")
            self.add(ImportedItem(place, conversation.id, attributes, user=user))
            return {"import": self.report.format}

    def _create_session(
        self,
        scope: Scope,
        conversation: ImportedConversation,
        attributes: Any,
        messages: Sequence[NewMessage],
    ) -> None:
        """Create the session with its first messages; the active session stays active."""
        active = None
        with suppress(NotFound):
            active = scope.sessions.active().id

        def work(inner: Scope) -> None:
            label = conversation.label[:MAX_LABEL_CHARACTERS]
            inner.sessions.add(conversation.id, label=label, attributes=attributes)
            if messages:
                inner.messages.extend(conversation.id, messages)
            if active is not None:
                inner.sessions.activate(active)
            elif not conversation.is_active:
                backdating.deactivate_session(inner.sessions, conversation.id)
            elif conversation.updated_at is not None:
                backdating.backdate_active_session(
                    inner.sessions, conversation.id, conversation.updated_at
                )

        self._transaction(scope, work)

    def _restore_times(
        self,
        scope: Scope,
        conversation: ImportedConversation,
        messages: Sequence[NewMessage],
        *,
        has_written: bool,
    ) -> None:
        """Give the session the times of the source."""
        times = [message.created_at for message in messages if message.created_at is not None]
        starts = [time for time in (conversation.created_at, *times[:1]) if time is not None]
        if not starts:
            return
        created = min(starts)
        if not has_written and scope.sessions.get(conversation.id).created_at <= created:
            return
        updated = max([created, *times]) if times else conversation.updated_at or created
        original = RecordTimes.of(created, updated)
        backdating.backdate_session(scope.sessions, conversation.id, original)

    def _write_note(self, note: ImportedNote, user: str | None, agent: str) -> None:
        scope = self._scope(user, agent)
        notes = scope.notes.read()
        limit = limits.MAX_NOTES_BYTES
        text = canonical.text(note.text, "text", limit, self._policy)
        is_new = text.strip() not in notes.text
        if is_new:
            separator = "\n\n" if notes.text.strip() else ""
            appended = f"{separator}{note.text}\n"

            def work(inner: Scope) -> None:
                inner.notes.append(appended, if_version=notes.version)
                created = note.created_at or note.updated_at
                if created is not None:
                    backdating.backdate_note(inner.notes, RecordTimes.of(created, note.updated_at))

            self._transaction(scope, work)
        self.report.count("notes", is_new=is_new)

    # -- shared -----------------------------------------------------------------------------------

    def _transaction(self, scope: Scope, work: Callable[[Scope], T]) -> T:
        """Run work in one transaction; in a dry run, roll it back."""
        if not self.report.dry_run:
            return scope.transaction(work)

        def work_and_roll_back(inner: Scope) -> None:
            raise _Rollback(work(inner))

        try:
            scope.transaction(work_and_roll_back)
        except _Rollback as rollback:
            result: T = rollback.result
            return result
        raise AssertionError("the transaction did not roll back")

    def _scope(self, user: str | None, agent: str | None) -> Scope:
        return self._memory.scope(tenant=self._tenant, user=user, agent=agent, source="import")


def _digest(text: str) -> bytes:
    return _long_digest(text)[:12]


def _long_digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _entry_id(format: str, user: str | None, agent: str | None, entry: ImportedEntry) -> str:
    """Return the id of an imported entry; it is the same each time."""
    source = (format, str(user), str(agent), entry.id)
    return str(uuid.UUID(bytes=_long_digest("\n".join(source))[:16], version=5))


def _identity(record: Batched) -> tuple[str, ...]:
    if isinstance(record, Relation):
        return (record.start, record.target, record.type)
    if isinstance(record, GraphEntity):
        return (record.name, record.type, *record.observations)
    return (location(record),)
