"""References: large contents stored outside of the prompt, and read again part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Annotated, Any

from memorist.base import canonical, limits
from memorist.base.errors import (
    AlreadyExists,
    Busy,
    Corrupt,
    InDoubt,
    Invalid,
    MemoristError,
    NotFound,
)
from memorist.base.parameters import HitCount, Key, Number, PageSize, Range, Text, Visible
from memorist.base.verbs import verb
from memorist.content import placeholder
from memorist.content.message import Message
from memorist.kinds import scope_search
from memorist.kinds.kind import Check, Kind, Owner, Services, Table, own_session
from memorist.kinds.page import Page, make_page, page_start
from memorist.kinds.refs import message_refs, reference
from memorist.kinds.refs.reference import COLUMNS, REF_INDEX, Output, Ref
from memorist.kinds.refs.reference_tools import MemoryHits, similar_keys, tools
from memorist.kinds.scope_search import SearchRequest
from memorist.kinds.section import Ask, RecallScope, Section
from memorist.kinds.tool import Tool
from memorist.models import Model
from memorist.search.query import Hit
from memorist.storage.checksum import checksum
from memorist.storage.contents.blobs import Stored
from memorist.storage.damage import changed_checksum
from memorist.storage.database import Sent, Transaction
from memorist.storage.tables import OF_AGENT_SESSION
from memorist.text import describe
from memorist.text.measure import Measure
from memorist.text.view import MAX_TOKENS, MIN_TOKENS, View

MAX_LISTED = 200
"""The number of references of a session that a context considers."""
_MAX_SUMMARY_BYTES = 2_000
_ATTEMPTS = 3

_VISIBLE = "(user_id = coalesce(:user, user_id) or user_id = '')"
_SELECT_REF = f"select {COLUMNS} from refs where tenant = :tenant and key = :key and {_VISIBLE}"


@dataclass(frozen=True)
class NewReference:
    """A reference to store. Without a description, one is made from the content."""

    content: Output | IO[bytes]
    """The content, or the rest of a file or a pipe, of any size."""
    description: str = ""
    type: str = "note"
    source: str = ""
    status: str = ""
    session: str | None = None
    metadata: Mapping[str, Any] | None = None
    key: str | None = None


@dataclass(frozen=True)
class Prepared:
    """A content that is measured, described and, if large, stored; its rows are not written yet."""

    key: str
    summary: str
    line: str  # replaces the content in a context: command, status, placeholder
    stored: Stored
    values: Mapping[str, Any]
    has_chosen_key: bool = False  # the caller chose the key

    @property
    def placeholder(self) -> str:
        """The placeholder that replaces the content in a prompt."""
        return placeholder.render(self.key, self.summary)


class RefPreparer:
    """Everything that is done with a content outside of a transaction."""

    def __init__(self, services: Services, owner: Owner) -> None:
        self._services = services
        self._owner = owner

    def __call__(self, new: NewReference) -> Prepared:
        """Measure, describe and store the content.

        Invalid arguments raise before anything is stored.
        """
        settings = self._services.settings
        limit = limits.MAX_ATTRIBUTES_BYTES
        policy = settings.masking
        source = canonical.text(new.source, "source", limit, policy)
        status = canonical.text(new.status, "status", limit, policy)
        description = canonical.text(new.description, "description", limit, policy)
        canonical.key(new.type, "type", policy)
        if new.key is not None and not placeholder.is_key(canonical.key(new.key, "key", policy)):
            raise Invalid(field="key", problem=placeholder.KEY_PROBLEM)
        metadata_json = canonical.dump(
            reference.checked_metadata(new.metadata) | reference.origin(source, status),
            "metadata",
            limit,
            policy,
        )
        chunks, media = reference.encode_chunks(new.content, limits.MAX_REF_BYTES, policy)
        measured = Measure()
        user = self._user_of(new.session)
        stored = self._services.blobs.take(self._owner.tenant, user, chunks, measured.see)
        try:
            media = media or describe.media_of(measured.head)
            summary = placeholder.one_line(description) or reference.describe_content(
                measured, source, status, media, self._model(new.session)
            )
            key = new.key or placeholder.new_key(source or description or summary)
        except BaseException:  # an interruption too must not leave the content behind
            self._services.blobs.settle(self._owner.tenant, stored)  # no reference will use it
            raise
        values = {
            "type": new.type,
            "media": media,
            "bytes": stored.bytes,
            "lines": measured.lines,
            "tokens": measured.tokens,
            "metadata": metadata_json,
            "agent": self._owner.agent,
            "session": new.session,
            "searchable": reference.searchable_content(source, media, measured.beginning),
        }
        line = reference.context_line(source, status, placeholder.render(key, summary))
        return Prepared(key, summary, line, stored, values, new.key is not None)

    def keep(
        self,
        prepared: Prepared,
        *,
        as_line: bool = False,
        after: Callable[[Transaction], None] | None = None,
    ) -> Ref:
        """Write a prepared content, in a transaction of its own.

        as_line: the caller returns the reference's line to its own caller, not the key
        after:   more to write in the same transaction
        """
        tenant = self._owner.tenant
        blobs = self._services.blobs
        refs = Refs(self._services, self._owner)

        def work(tx: Transaction) -> Ref:
            ref = refs.add_row(tx, prepared)
            if after is not None:
                after(tx)
            return ref

        try:
            ref: Ref = refs._write(
                "capture" if as_line else "add",
                work,
                row={"key": prepared.key},
                returns=lambda ref: ref.line if as_line else ref,
                idempotent=not prepared.has_chosen_key,
            )
        except InDoubt:
            raise  # the row may exist; the next purge finds out
        except MemoristError:
            blobs.settle(tenant, prepared.stored)
            raise
        blobs.settle(tenant, prepared.stored)
        return ref

    def _user_of(self, session: str | None) -> str:
        """Return the owner of the content: the scope's user, the session's user, or '' for none."""
        if session is None:
            return self._owner.user or ""
        id = canonical.key(session, "session")
        row = self._services.database.read(
            self._owner.tenant,
            lambda tx: tx.one(
                """select user_id from sessions
                   where tenant = :tenant and id = :session
                   and user_id = coalesce(:user, user_id)""",
                session=id,
                user=self._owner.user,
            ),
        )
        if row is None:
            raise NotFound(what="session", id=id)
        return str(row[0])

    def _model(self, session: str | None) -> Model | None:
        model = self._services.models.describer
        if model is None:
            return None
        return self._services.watched(model, self._owner, "describe", session)


class Refs(Kind):
    """The references of a user, and those without a user."""

    name = "refs"
    parameter_help = {
        "key": "The key, as shown in the placeholder.",
        "tokens": "Maximum number of tokens to show, 50 to 100000.",
    }
    tables = (
        Table(
            "blobs",
            order="user_id, digest",
            owned="user_id = :user",
            live="whole = 1",
            local={"file": "null", "whole": "0", "staged_at": ":now"},
        ),
        Table("blob_parts", order="user_id, digest, part", owned="user_id = :user"),
        Table(
            "refs",
            order="key",
            owned="user_id = :user",
            of_agent=OF_AGENT_SESSION,
            checked=("type", "summary", "metadata"),
            added={"searchable": reference.searchable_of_row},
        ),
    )
    checks = (
        Check(
            "every reference has its content",
            """select 'reference ' || key from refs where tenant = :tenant and not exists (
                   select 1 from blobs where blobs.tenant = :tenant
                   and blobs.user_id = refs.user_id and blobs.digest = refs.digest
                   and blobs.whole = 1 and blobs.bytes = refs.bytes)""",
        ),
        Check(
            "the references of a session belong to its user",
            """select 'reference ' || key from refs
               join sessions on sessions.tenant = refs.tenant and sessions.id = refs.session_id
               where refs.tenant = :tenant and sessions.user_id <> refs.user_id""",
        ),
    )
    findable = REF_INDEX

    @property
    def prepare(self) -> RefPreparer:
        """Prepare a content with `prepare(NewReference(…))`; `add_row` or `prepare.keep` writes it."""
        return RefPreparer(self._services, self._owner)

    @verb(
        "POST /refs",
        effect="add",
        calls_model="describer",
        example='memorist refs add "Ada flies to Lisbon on 3 May." "travel dates" --type user_preference --user ada',
    )
    def add(
        self,
        content: Output,
        description: str = "",
        *,
        type: Key = "note",
        session: Key | None = None,
        metadata: Mapping[str, Any] | None = None,
        key: Annotated[str, Text("^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$")] | None = None,
    ) -> Ref:
        """Store content as a reference; without `key`, create a readable one."""
        new = NewReference(
            content, description, type=type, session=session, metadata=metadata, key=key
        )
        return self._add(new)

    @verb(
        "POST /refs/capture",
        effect="add",
        calls_model="describer",
        example="npm install 2>&1 | memorist refs capture - --source 'npm install' --session trip",
    )
    def capture(
        self,
        output: Output,
        *,
        source: str = "",
        status: str = "",
        session: Key | None = None,
        type: Key = "command_output",
        metadata: Mapping[str, Any] | None = None,
    ) -> Any:
        """Store an output that is too large for a prompt, and return the line that replaces it.

        Returns a small output as it is.
        """
        data, _ = reference.encode(output, limits.MAX_REF_BYTES)
        if not reference.exceeds_tokens(data, limits.REF_TOKENS):
            return output
        new = NewReference(
            output,
            source=source,
            status=status,
            session=session,
            type=type,
            metadata=metadata,
        )
        return self._add(new, as_line=True).line

    def add_row(self, tx: Transaction, prepared: Prepared) -> Ref:
        """Write a prepared content, in a transaction of the caller."""
        values = prepared.values
        stored = prepared.stored
        if values["session"] is not None:
            own_session(tx, self._owner, values["session"])
        self._services.blobs.add(tx, stored)
        row = tx.one(
            f"""insert into refs (tenant, key, user_id, agent, session_id, type, summary, digest,
                                  media, bytes, lines, tokens, metadata, searchable, source,
                                  is_active, created_at, updated_at, checksum)
                values (:tenant, :key, :user, :agent, :session, :type, :summary, :digest,
                        :media, :bytes, :lines, :tokens, :metadata, :searchable, :source,
                        1, :now, :now, :checksum)
                on conflict do nothing returning {COLUMNS}""",
            **values,
            key=prepared.key,
            user=stored.user,
            summary=prepared.summary,
            checksum=checksum(values["type"], prepared.summary, values["metadata"]),
            digest=stored.digest,
            source=self._owner.source,
        )
        if row is not None:
            self._services.index.mark(tx, [reference.mark(row[0], row[1])])
        elif not prepared.has_chosen_key:  # a retry after a commit whose answer was lost
            row = tx.one(
                f"""select {COLUMNS} from refs
                    where tenant = :tenant and key = :key and user_id = :user
                    and digest = :digest""",
                key=prepared.key,
                user=stored.user,
                digest=stored.digest,
            )
        if row is None:
            raise AlreadyExists(what="reference", id=prepared.key)
        return reference.ref(row)

    @verb(
        "GET /refs/{key:path}",
        effect="read",
        example="memorist refs get npm-install-7f3a09c1 --grep 'ERR!'",
    )
    def get(
        self,
        key: Key,
        *,
        page: Number | None = None,
        lines: tuple[int, int] | None = None,
        head: Number | None = None,
        tail: Number | None = None,
        grep: Annotated[str, Text(min_length=1)] | None = None,
        path: Annotated[str, Text(r"^\$")] | None = None,
        tokens: Annotated[int, Range(50, 100_000)] = 2000,
    ) -> View:
        """Return part of the content, within a token limit; without options, its beginning.

        Choose one of a page, lines, the first or last lines, matching lines, or a JSON path.
        """
        chosen = reference.checked_view(
            page=page, lines=lines, head=head, tail=tail, grep=grep, path=path
        )
        canonical.check_integer(tokens, "tokens", MIN_TOKENS, MAX_TOKENS)
        return reference.show(self.opening(key), chosen, tokens)

    @verb(
        "GET /refs/{key:path}/content",
        effect="read",
        example="memorist refs content npm-install-7f3a09c1 > install.log",
    )
    def content(self, key: Key) -> bytes:
        """Return the whole content, byte for byte."""
        with self.opening(key) as file:
            return file.read()

    @verb(
        "GET /refs/{key:path}/info",
        effect="read",
        example="memorist refs info npm-install-7f3a09c1 --json",
    )
    def info(self, key: Key) -> Ref:
        """Return a reference without its content.

        The key of a long message, as its placeholder in a prompt names it, returns that message.
        """
        key = reference.checked_key(key)
        rows = self._read_rows(lambda tx: tx.send(_SELECT_REF, key=key, user=self._owner.user))
        if rows:
            return reference.ref(rows[0])
        message = self._read(lambda tx: self._message(tx, key))
        if message is None:
            raise self._not_found(key)
        return message_refs.message_ref(key, message, self._owner.user)

    @verb(
        "PATCH /refs/{key:path}",
        effect="change",
        example="memorist refs edit npm-install-7f3a09c1 --summary 'The install that failed' --no-is-active",
    )
    def edit(
        self,
        key: Key,
        *,
        summary: Visible | None = None,
        is_active: bool | None = None,
        type: Key | None = None,
    ) -> Ref:
        """Change the summary or the type of a reference, or activate or deactivate it.

        An inactive reference is in no prompt.
        """
        canonical.key(key, "key")
        if type is not None:
            canonical.key(type, "type", self._settings.masking)
        line = None
        if summary is not None:
            line = reference.checked_summary(summary, _MAX_SUMMARY_BYTES, self._settings.masking)
            if not line:
                raise Invalid(field="summary", problem="must not be blank")
        active = reference.checked_flag(is_active, "is_active")

        changes = {"summary": line, "type": type}
        changed = {name: text for name, text in changes.items() if text is not None}

        def work(tx: Transaction) -> Ref:
            tx.lock_rows("select 1 from refs where tenant = :tenant and key = :key", key=key)
            row = tx.one(
                f"""update refs set summary = coalesce(:summary, summary), checksum = :checksum,
                        is_active = coalesce(:active, is_active), type = coalesce(:type, type),
                        updated_at = :now
                    where tenant = :tenant and key = :key and {_VISIBLE} returning {COLUMNS}""",
                key=key,
                user=self._owner.user,
                summary=line,
                checksum=changed_checksum(tx, self.tables[-1], {"key": key}, changed),
                active=active,
                type=type,
            )
            if row is None:
                raise NotFound(what="reference", id=key)
            self._services.index.mark(tx, [reference.mark(row[0], row[1])])
            return reference.ref(row)

        return self._write("edit", work, row={"key": key})

    @verb(
        "DELETE /refs/{key:path}",
        effect="remove",
        example="memorist refs remove npm-install-7f3a09c1",
    )
    def remove(self, key: Key) -> None:
        """Delete a reference, and its content if no other reference has the same."""
        canonical.key(key, "key")

        def work(tx: Transaction) -> list[str]:
            row = tx.one(
                f"""delete from refs where tenant = :tenant and key = :key and {_VISIBLE}
                    returning user_id, digest""",
                key=key,
                user=self._owner.user,
            )
            if row is None:
                raise NotFound(what="reference", id=key)
            tx.send("delete from mentions where tenant = :tenant and key = :key", key=key)
            self._services.index.mark(tx, [reference.mark(key, row[0])])
            return self._services.blobs.release(tx, [(row[0], row[1])])

        self._services.blobs.discard(self._write("remove", work, row={"key": key}))

    @verb(
        "GET /refs/search",
        effect="read",
        calls_model="embedder",
        example="memorist refs search 'npm peer dependency' --limit 5",
    )
    def search(
        self, query: Visible, *, session: Key | None = None, limit: HitCount = 10
    ) -> Page[Ref]:
        """Return references whose key, summary, command or start match a query, best first."""
        return Page(list(self._search_memory(query, session, limit, [self.name]).refs.values()))

    def section(self, tx: Transaction, ask: Ask) -> Section | None:
        """Return the references that the session stored or mentions, oldest first."""
        stored = tx.all(
            """select key, summary, created_at, 1 from refs
               where tenant = :tenant and session_id = :session and is_active = 1
               order by created_at desc, key desc limit :size""",
            session=ask.session,
            size=MAX_LISTED,
        )
        mentioned = tx.all(
            """select refs.key, summary, created_at, 0
               from (select distinct key from mentions
                     where tenant = :tenant and session_id = :session) mentioned
               join refs on refs.tenant = :tenant and refs.key = mentioned.key and is_active = 1
                   and coalesce(session_id, '') <> :session and (
                       user_id = '' or user_id = (
                           select user_id from sessions where tenant = :tenant and id = :session))
               order by created_at desc, refs.key desc limit :size""",
            session=ask.session,
            size=MAX_LISTED,
        )
        mentioned += message_refs.long_messages(tx, ask.session, MAX_LISTED)
        rows = stored
        if mentioned:
            newest_first = sorted(
                [*stored, *mentioned], key=lambda row: (row[2], row[0]), reverse=True
            )
            rows = newest_first[:MAX_LISTED]
        if not rows:
            return None
        pieces = [reference.piece(row, age) for age, row in enumerate(rows)]
        return Section("references", pieces[::-1])

    def known(self, tx: Transaction, keys: Iterable[str]) -> dict[str, str]:
        """Return the placeholders of those keys that the scope has references for."""
        placeholders = {}
        for key in sorted(keys)[:MAX_LISTED]:
            row = tx.one(
                f"""select summary from refs
                    where tenant = :tenant and key = :key and {_VISIBLE}""",
                key=key,
                user=self._owner.user,
            )
            if row is not None:
                placeholders[key] = placeholder.render(key, row[0])
            elif message := self._message(tx, key):
                placeholders[key] = message_refs.message_placeholder(message)
        return placeholders

    def _message(self, tx: Transaction, key: str) -> Message | None:
        """Return the message of the scope that a key names, or None."""
        return message_refs.find_message(tx, key, self._owner.user)

    @staticmethod
    def hit_origin(hit: Hit, scope: RecallScope) -> str:
        """Return who wrote a recalled hit of this kind, or where it is from."""
        return "a stored output, which retrieve_memory opens"

    @staticmethod
    def hit_text(hit: Hit, words: Sequence[str], max_tokens: int) -> str:
        """Return the placeholder of a reference that was recalled."""
        return placeholder.render(hit.id, hit.text.partition("\n")[0])

    @staticmethod
    def hit_references(hit: Hit) -> set[str]:
        """Return the keys of a reference and of those that it mentions."""
        return {hit.id, *placeholder.find_keys(hit.text)}

    def tools(self, session: str | None = None) -> list[Tool]:
        """Return `store_memory`, `retrieve_memory` and `search_memory`."""

        def add(content: str, description: str, type: str) -> Ref:
            return self._add(NewReference(content, description, type=type, session=session))

        return tools(
            add,
            self.get,
            self._search_memory,
            self.verbs["add"].name,
        )

    @classmethod
    def source_of(cls, tx: Transaction, id: str) -> str | None:
        """Return who stored a reference."""
        row = tx.one("select source from refs where tenant = :tenant and key = :id", id=id)
        return None if row is None else str(row[0])

    @verb("GET /refs", effect="read", example="memorist refs list --session trip --active")
    def list(
        self,
        *,
        session: Key | None = None,
        type: Key | None = None,
        active: bool | None = None,
        limit: PageSize = 100,
        after: str | None = None,
    ) -> Page[Ref]:
        """Return the references of the scope or of a session, newest first."""
        size, (before_time, before_key) = page_start(limit, after, 2**62, "")
        if type is not None:
            canonical.key(type, "type")
        active_flag = reference.checked_flag(active, "active")
        in_session = "" if session is None else "and session_id = :session"
        sql = f"""select {COLUMNS} from refs where tenant = :tenant {in_session} and {_VISIBLE}
            and type = coalesce(:type, type) and is_active = coalesce(:active, is_active)
            and (created_at, key) < (:at, :key)
            order by created_at desc, key desc limit :size"""

        def work(tx: Transaction) -> Sent:
            if session is not None:
                own_session(tx, self._owner, canonical.key(session, "session"))
            return tx.send(
                sql,
                user=self._owner.user,
                session=session,
                type=type,
                active=active_flag,
                at=before_time,
                key=before_key,
                size=size + 1,
            )

        refs = [reference.ref(row) for row in self._read_rows(work, allow_replica=True)]
        return make_page(refs, size, lambda ref: [ref.created_at, ref.key])

    def _search_memory(
        self, query: str, session: str | None, limit: int, kinds: Sequence[str] | None = None
    ) -> MemoryHits:
        """Search, and read the references that are among the hits or mentioned in them."""
        if isinstance(query, str) and not query.strip():
            raise Invalid(field="query", problem="must not be blank")
        request = SearchRequest(
            query, kinds, session=session, limit=limit, min_score=scope_search.LIKELY_SCORE
        )
        results = scope_search.search(self._services, self._owner, request)
        keys = [hit.id for hit in results if hit.kind == self.name]
        mentioned = {
            key
            for hit in results
            if placeholder.MARK in hit.text
            for key in placeholder.find_keys(hit.text)
        }

        def work(tx: Transaction) -> MemoryHits:
            rows = [tx.one(_SELECT_REF, key=key, user=self._owner.user) for key in keys]
            refs = {row[0]: reference.ref(row) for row in rows if row}
            hits = [*results.hits, *results.facts]
            foreign = scope_search.foreign_sources(tx, self._services, hits)
            return MemoryHits(results, refs, self.known(tx, mentioned), foreign)

        return self._read(work)

    def opening(self, key: str) -> IO[bytes]:
        """Open a whole content as a file, to copy it in chunks."""
        key = reference.checked_key(key)
        for _ in range(_ATTEMPTS):
            row = self._read(
                lambda tx: tx.one(
                    f"""select user_id, digest from refs
                        where tenant = :tenant and key = :key and {_VISIBLE}""",
                    key=key,
                    user=self._owner.user,
                )
            )
            if row is None:
                message = self._read(lambda tx: self._message(tx, key))
                if message is None:
                    raise self._not_found(key)
                return message_refs.open_message(message)
            try:
                return self._services.blobs.open(self._owner.tenant, row[0], row[1])
            except Corrupt as error:  # if it was just removed, the next read finds no row
                last_error = error
        raise last_error

    def _not_found(self, key: str) -> NotFound:
        refs = self.list(limit=min(500, limits.MAX_PAGE))
        return NotFound(what="reference", id=key, hint=similar_keys(key, refs))

    def _add(
        self,
        new: NewReference,
        *,
        as_line: bool = False,
        after: Callable[[Transaction], None] | None = None,
    ) -> Ref:
        """Prepare and write; retry if a new key is taken or the same content is being removed."""
        for remaining in range(_ATTEMPTS, -1, -1):
            try:
                prepared = self.prepare(new)
                return self.prepare.keep(prepared, as_line=as_line, after=after)
            except (AlreadyExists, Busy) as error:
                key_taken = isinstance(error, AlreadyExists) and new.key is not None
                if not remaining or key_taken:
                    raise
        raise AssertionError
