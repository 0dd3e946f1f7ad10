"""References: big outputs out of the prompt, behind a placeholder, and opened again part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from retain.base import canonical, clock, limits
from retain.base.errors import (
    AlreadyExists,
    Busy,
    InDoubt,
    Invalid,
    NotFound,
    RetainError,
    Unreachable,
)
from retain.kinds import findable as index
from retain.kinds import finding
from retain.kinds.kind import (
    Check,
    Kind,
    Owner,
    Page,
    Services,
    Table,
    decode_cursor,
    make_page,
    own_session,
)
from retain.kinds.refs import reference
from retain.kinds.refs.reference import FRAGMENT, Output, Ref
from retain.kinds.refs.reference_tools import Results, close, tools
from retain.kinds.section import Ask, RecallScope, Section
from retain.kinds.tool import Tool
from retain.messages import placeholder
from retain.models import Model
from retain.search.query import Hit
from retain.storage.blobs import Stored
from retain.storage.database import Row, Transaction
from retain.text import describe
from retain.text.measure import Measure
from retain.text.view import MAX_TOKENS, MIN_TOKENS, View

__all__ = ["FRAGMENT", "MOST_LISTED", "Output", "Prepared", "Preparing", "Ref", "Refs"]

MOST_LISTED = 200
"""The most references of a session that a context looks at."""
_MOST_SUMMARY = 2_000
_TRIES = 3
_LOCAL = {"file": "null", "whole": "0", "staged_at": ":now"}


@dataclass(frozen=True)
class Prepared:
    """Content that is measured, described and, where it is large, stored already: `add_row` has only rows to write.

    `line` is what stands for it in a context: the command, its status, and the placeholder.
    """

    key: str
    summary: str
    line: str
    stored: Stored
    values: Mapping[str, Any]
    given: bool = False

    @property
    def placeholder(self) -> str:
        """What will stand for it in a prompt."""
        return placeholder.render(self.key, self.summary)


class Preparing:
    """Everything that is done with a content outside of any transaction."""

    def __init__(self, services: Services, owner: Owner) -> None:
        self._services = services
        self._owner = owner

    def __call__(
        self,
        content: Output | IO[bytes],
        description: str = "",
        *,
        type: str = "note",
        source: str = "",
        status: str = "",
        session: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Prepared:
        """Make a content ready, or everything that is left to read in a file or a pipe, of any size.

        Without a description, one is written from what it is. What can be refused is refused before anything is stored.
        """
        limit, secrets = (
            limits.MAX_ATTRIBUTES_BYTES,
            self._services.settings.secrets,
        )
        given = {"source": source, "status": status, "description": description}
        source, status, description = (
            canonical.text(said, field, limit, secrets) for field, said in given.items()
        )
        canonical.key(type, "type", secrets)
        if key is not None and not placeholder.is_key(canonical.key(key, "key", secrets)):
            raise Invalid(
                field="key", problem="must be of lower-case letters, digits and hyphens, at most 80"
            )
        told = canonical.dump(
            reference.an_object(metadata) | reference.origin(source, status),
            "metadata",
            limit,
            secrets,
        )
        pieces, media = reference.in_pieces(content, limits.MAX_REF_BYTES, secrets)
        measured = Measure()
        stored = self._services.blobs.take(
            self._owner.tenant, self._session_user(session), pieces, measured.see
        )
        try:
            media = media or describe.media_of(measured.head)
            said = placeholder.one_line(description)
            summary = said or reference.described(
                measured, source, status, media, self._model(session)
            )
            name = key or placeholder.new_key(source or description or summary)
        except BaseException:  # then nobody gets to keep it
            self._services.blobs.settle(self._owner.tenant, stored)
            raise
        values = {
            "type": type, "media": media, "bytes": stored.bytes, "lines": measured.lines, "tokens": measured.tokens,
            "metadata": told, "agent": self._owner.agent, "session": session,
            "begins": index.begins(source, media, measured.beginning),
        }  # fmt: skip
        return Prepared(
            name,
            summary,
            reference.line(source, status, placeholder.render(name, summary)),
            stored,
            values,
            key is not None,
        )

    def keep(self, prepared: Prepared, *, as_line: bool = False) -> Ref:
        """Store what was prepared in a transaction of its own.

        as_line: the caller returns the reference's line to its own caller, not the key
        """
        tenant = self._owner.tenant
        blobs = self._services.blobs
        refs = Refs(self._services, self._owner)
        try:
            kept = refs._write(
                "capture" if as_line else "add",
                lambda tx: refs.add_row(tx, prepared),
                row={"key": prepared.key},
                returns=lambda ref: ref.line if as_line else ref.key,
                idempotent=not prepared.given,
            )
        except InDoubt:
            raise  # nobody knows whether its row is there: the next purge will
        except RetainError:
            blobs.settle(tenant, prepared.stored)
            raise
        blobs.settle(tenant, prepared.stored)
        return kept

    def _session_user(self, session: str | None) -> str:
        """Whose the content is: the scope's user's, the session's user's, or nobody's ('')."""
        if session is None:
            return self._owner.user or ""
        id = canonical.key(session, "session")
        found = self._services.database.read(
            self._owner.tenant, lambda tx: tx.one(_OWNER, session=id, user=self._owner.user)
        )
        if found is None:
            raise NotFound(what="session", id=id)
        return str(found[0])

    def _model(self, session: str | None) -> Model | None:
        model = (
            self._services.models.main if self._services.settings.ref_describe == "model" else None
        )
        return model and self._services.watched(model, self._owner, "describe", session)


class Refs(Kind):
    """The references of the scope: its user's, and those that are no user's."""

    name = "refs"
    tables = (
        Table("blobs", "user_id, digest", "user_id = :user", "whole = 1", _LOCAL),
        Table("blob_parts", order="user_id, digest, part", owned="user_id = :user"),
        Table("refs", order="key", owned="user_id = :user"),
    )
    checks = (
        Check(
            "every reference has its content",
            """select 'reference ' || key from refs where tenant = :tenant and not exists (
                   select 1 from blobs where blobs.tenant = :tenant and blobs.user_id = refs.user_id
                   and blobs.digest = refs.digest and blobs.whole = 1 and blobs.bytes = refs.bytes)""",
        ),
        Check(
            "a session's references are its user's",
            """select 'reference ' || key from refs join sessions on sessions.tenant = refs.tenant
               and sessions.id = refs.session_id where refs.tenant = :tenant and sessions.user_id <> refs.user_id""",
        ),
        *index.REFS.checks,
    )
    findable = index.REFS

    @property
    def prepare(self) -> Preparing:
        """`prepare(content, …)`, then `add_row` in a transaction or `prepare.keep`: for who adds more than that."""
        return Preparing(self._services, self._owner)

    def add(
        self,
        content: Output,
        description: str = "",
        *,
        type: str = "note",
        session: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> str:
        """Store a content and return its key, a new one that can be read where none is given."""
        return self._add(
            content, description, type=type, session=session, metadata=metadata, key=key
        ).key

    def capture(
        self,
        output: Output,
        *,
        source: str = "",
        status: str = "",
        session: str | None = None,
        type: str = "command_output",
        metadata: Mapping[str, Any] | None = None,
    ) -> Any:
        """Store an output that is too large for a prompt and return the line that stands for it; a small one comes back."""
        data, _ = reference.encoded(output, limits.MAX_REF_BYTES)
        if not reference.over(data, limits.REF_TOKENS):
            return output
        return self._add(
            output,
            as_line=True,
            source=source,
            status=status,
            session=session,
            type=type,
            metadata=metadata,
        ).line

    def add_row(self, tx: Transaction, prepared: Prepared) -> Ref:
        """Add what was prepared, in the transaction of whoever adds it together with something else."""
        values, stored = dict(prepared.values), prepared.stored
        if values["session"] is not None:
            own_session(tx, self._owner, values["session"])
        begins, key, said = values.pop("begins"), prepared.key, prepared.summary
        self._services.blobs.add(tx, stored)
        values |= {"key": key, "user": stored.user, "summary": said, "digest": stored.digest}
        row = tx.one(_INSERT, **values, source=self._owner.source)
        if row is not None:
            self._services.index.add(tx, [index.ref(row, begins)])
        elif not prepared.given:  # the work was run before, and nobody heard the answer
            row = tx.one(_AGAIN, key=key, user=stored.user, digest=stored.digest)
        if row is None:
            raise AlreadyExists(what="reference", id=key)
        return reference.ref(row)

    def get(
        self,
        key: str,
        *,
        page: int | None = None,
        lines: tuple[int, int] | None = None,
        head: int | None = None,
        tail: int | None = None,
        grep: str | None = None,
        path: str | None = None,
        tokens: int = 2000,
    ) -> View:
        """Part of a content, at most so many tokens: a page, lines, first or last lines, lines that match, a JSON path."""
        given = reference.asked(page=page, lines=lines, head=head, tail=tail, grep=grep, path=path)
        canonical.whole(tokens, "tokens", MIN_TOKENS, MAX_TOKENS)
        return reference.shown(self._open(key), given, tokens)

    def content(self, key: str) -> bytes:
        """The whole content, byte for byte."""
        with self._open(key) as file:
            return file.read()

    @property
    def opening(self) -> Callable[[str], IO[bytes]]:
        """`opening(key)` is a whole content as a file, for who copies it piece by piece."""
        return self._open

    def info(self, key: str) -> Ref:
        """What is known of a reference, without its content."""
        key = reference.key_of(key)
        row = self._read(lambda tx: tx.one(_GET, key=key, user=self._owner.user))
        if row is None:
            raise self._unknown(key)
        return reference.ref(row)

    def edit(
        self,
        key: str,
        *,
        summary: str | None = None,
        is_active: bool | None = None,
        type: str | None = None,
    ) -> Ref:
        """Change how a reference is described; one that is not active is in no prompt, and can still be opened."""
        canonical.key(key, "key")
        if type is not None:
            canonical.key(type, "type", self._settings.secrets)
        line = (
            None
            if summary is None
            else reference.one_line(summary, _MOST_SUMMARY, self._settings.secrets)
        )
        if line == "":
            raise Invalid(field="summary", problem="must not be blank")
        wanted = reference.flag(is_active, "is_active")

        def work(tx: Transaction) -> Ref:
            row = tx.one(
                _EDIT, key=key, user=self._owner.user, summary=line, active=wanted, type=type
            )
            if row is None:
                raise NotFound(what="reference", id=key)
            if found := tx.one(
                _FOUND, key=key
            ):  # else whoever fills the index will find it as it is now
                self._services.index.replace(
                    tx, self.name, key, [index.ref(row, found[0].partition("\n")[2])]
                )
            return reference.ref(row)

        return self._write("edit", work, row={"key": key})

    def remove(self, key: str) -> None:
        """Delete a reference, and its content if no other has the same."""
        canonical.key(key, "key")

        def work(tx: Transaction) -> list[str]:
            row = tx.one(_REMOVE, key=key, user=self._owner.user)
            if row is None:
                raise NotFound(what="reference", id=key)
            tx.run("delete from mentions where tenant = :tenant and key = :key", key=key)
            self._services.index.remove(tx, self.name, key)
            return self._services.blobs.release(tx, [(row[0], row[1])])

        self._services.blobs.discard(
            self._write("remove", work, row={"key": key}, frees_space=True)
        )

    def search(self, query: str, *, session: str | None = None, limit: int = 10) -> Sequence[Ref]:
        """The references that are most likely wanted, by their key, summary, command and beginning, best first."""
        return list(self._found(query, session, limit, [self.name]).refs.values())

    def section(self, tx: Transaction, ask: Ask) -> Section | None:
        """R7: what this session stored, and what its messages mention; oldest first, the newest is worth most."""
        rows = tx.all(_OF_SESSION, session=ask.session, size=MOST_LISTED)
        if mentioned := tx.all(_MENTIONED, session=ask.session, size=MOST_LISTED):
            rows = sorted(rows + mentioned, key=lambda row: (row[2], row[0]), reverse=True)[
                :MOST_LISTED
            ]
        return (
            Section("references", [reference.piece(row, age) for age, row in enumerate(rows)][::-1])
            if rows
            else None
        )

    def known(self, tx: Transaction, keys: Iterable[str]) -> dict[str, str]:
        """The placeholders of keys, as far as the scope has such references."""
        rows = [
            tx.one(_SUMMARY, key=key, user=self._owner.user) for key in sorted(keys)[:MOST_LISTED]
        ]
        return {row[0]: placeholder.render(*row) for row in rows if row}

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

    def tools(self) -> list[Tool]:
        """`store_memory`, `retrieve_memory` and `search_memory`."""
        return tools(self._add, self.get, self._found)

    def list(
        self,
        *,
        session: str | None = None,
        type: str | None = None,
        active: bool | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[Ref]:
        """The references of the scope, or of a session, newest first."""
        size = self._limit(limit)
        at, key = decode_cursor(after, [int, str]) if after else (2**62, "")
        which = {
            "type": None if type is None else canonical.key(type, "type"),
            "active": reference.flag(active, "active"),
        }

        def work(tx: Transaction) -> Sequence[Row]:
            if session is not None:
                own_session(tx, self._owner, canonical.key(session, "session"))
            sql = _LIST if session is None else _LIST_IN_SESSION
            return tx.all(
                sql, **which, user=self._owner.user, session=session, at=at, key=key, size=size + 1
            )

        rows = self._read(work)
        return make_page(
            [reference.ref(row) for row in rows],
            size,
            lambda ref: [clock.from_datetime(ref.created_at, "after"), ref.key],
        )

    def _found(
        self, query: str, session: str | None, limit: int, kinds: Sequence[str] | None = None
    ) -> Results:
        """What a search finds, with the references that are among it or are mentioned in it."""
        if isinstance(query, str) and not query.strip():
            raise Invalid(field="query", problem="must not be blank")
        least = 0.0 if kinds else finding.LIKELY
        found = finding.search(
            self._services, self._owner, query, kinds, session, None, None, None, limit, least
        )
        keys = [hit.id for hit in found if hit.kind == self.name]
        mentioned = {
            key
            for hit in found
            if placeholder.MARK in hit.text
            for key in placeholder.find_keys(hit.text)
        }

        def work(tx: Transaction) -> Results:
            rows = [tx.one(_GET, key=key, user=self._owner.user) for key in keys]
            refs = {row[0]: reference.ref(row) for row in rows if row}
            return Results(found, refs, self.known(tx, mentioned), finding.foreign(tx, found))

        return self._read(work)

    def _open(self, key: str) -> IO[bytes]:
        """The content of a reference that the scope may see."""
        key = reference.key_of(key)
        for _ in range(_TRIES):
            row = self._read(lambda tx: tx.one(_GET_CONTENT, key=key, user=self._owner.user))
            if row is None:
                raise self._unknown(key)
            try:
                return self._services.blobs.open(self._owner.tenant, row[0], row[1])
            except Unreachable as error:  # or it was removed just now: then there is no row
                failed = error
        raise failed

    def _unknown(self, key: str) -> NotFound:
        return NotFound(
            what="reference",
            id=key,
            hint=close(key, self.list(limit=min(500, limits.MAX_PAGE))),
        )

    def _add(
        self, content: Output, description: str = "", *, as_line: bool = False, **how: Any
    ) -> Ref:
        """Prepare and keep; again where a new key was taken, or where the same content was just being removed."""
        for left in range(_TRIES, -1, -1):
            try:
                prepared = self.prepare(content, description, **how)
                return self.prepare.keep(prepared, as_line=as_line)
            except (AlreadyExists, Busy) as error:
                if not left or (isinstance(error, AlreadyExists) and how.get("key") is not None):
                    raise
        raise AssertionError


_COLUMNS = """key, user_id, agent, session_id, type, summary, media, bytes, lines, tokens, metadata, source, is_active,
              created_at, updated_at"""
_SELECT = "select " + _COLUMNS + " from refs where tenant = :tenant and "
_VISIBLE = "(user_id = coalesce(:user, user_id) or user_id = '') "
_GET = _SELECT + "key = :key and " + _VISIBLE
_GET_CONTENT = (
    "select user_id, digest from refs where tenant = :tenant and key = :key and " + _VISIBLE
)
_SUMMARY = "select key, summary from refs where tenant = :tenant and key = :key and " + _VISIBLE
_FOUND = "select text from search_items where tenant = :tenant and kind = 'refs' and id = :key"
_OWNER = """select user_id from sessions
            where tenant = :tenant and id = :session and user_id = coalesce(:user, user_id)"""
_INSERT = """insert into refs (tenant, key, user_id, agent, session_id, type, summary, digest, media, bytes, lines, tokens,
                               metadata, source, is_active, created_at, updated_at)
             values (:tenant, :key, :user, :agent, :session, :type, :summary, :digest, :media, :bytes, :lines, :tokens,
                     :metadata, :source, 1, :now, :now)
             on conflict do nothing returning """ + _COLUMNS  # fmt: skip
_AGAIN = _SELECT + "key = :key and user_id = :user and digest = :digest"
_EDIT = """update refs set summary = coalesce(:summary, summary), is_active = coalesce(:active, is_active),
               type = coalesce(:type, type), updated_at = :now
           where tenant = :tenant and key = :key and """ + _VISIBLE + "returning " + _COLUMNS  # fmt: skip
_REMOVE = (
    "delete from refs where tenant = :tenant and key = :key and "
    + _VISIBLE
    + "returning user_id, digest"
)
_ANY_SESSION = "coalesce(session_id, '') = coalesce(:session, session_id, '') and "
_ONE_SESSION = "session_id = :session and "
_WANTED = "and type = coalesce(:type, type) and is_active = coalesce(:active, is_active) and (created_at, key) < (:at, :key)"
_NEWEST = " order by created_at desc, key desc limit :size"
_LIST = _SELECT + _ANY_SESSION + _VISIBLE + _WANTED + _NEWEST
_LIST_IN_SESSION = _SELECT + _ONE_SESSION + _VISIBLE + _WANTED + _NEWEST
_OF_SESSION = """select key, summary, created_at, 1 from refs
                 where tenant = :tenant and session_id = :session and is_active = 1
                 order by created_at desc, key desc limit :size"""
_MENTIONED = """select refs.key, summary, created_at, 0
                from (select distinct key from mentions where tenant = :tenant and session_id = :session) found
                join refs on refs.tenant = :tenant and refs.key = found.key and is_active = 1
                    and coalesce(session_id, '') <> :session and (
                        user_id = '' or user_id = (select user_id from sessions where tenant = :tenant and id = :session))
                order by created_at desc, refs.key desc limit :size"""
