"""Notes: one Markdown document for each user and agent, curated by the agent, with every version.

A change and the version that it makes are written together, under the lock of the document's row:
versions count 1, 2, 3 without a gap. A verb that adds text or edits a section is applied again if
another writer was faster; one that sets the whole document can be guarded with `if_version`.
Parsing Markdown takes time and is done before the row is locked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Annotated

from memorist.base import canonical, limits, tokens
from memorist.base.errors import Invalid, NotFound, WrongVersion
from memorist.base.parameters import Count, PageSize, Range, Visible
from memorist.base.verbs import verb
from memorist.kinds import trust
from memorist.kinds.indexing import index_id, keys_of
from memorist.kinds.kind import Check, Kind, Table
from memorist.kinds.page import Page, make_page, page_start
from memorist.kinds.section import Ask, Piece, RecallScope, Section
from memorist.kinds.tool import Operation, Tool, ToolOutput, schema, string
from memorist.kinds.trust import PEOPLE_SQL
from memorist.search.chunk import split
from memorist.search.query import Hit
from memorist.search.search_document import Findable, IndexMark, SearchDocument, owner_of
from memorist.storage.checksum import checksum
from memorist.storage.database import Row, Transaction
from memorist.storage.rows import row_mapper
from memorist.text import markdown
from memorist.text.markdown import Edited, split_parts

MAX_WAIT_SECONDS = 300.0
"""The longest wait of one call of `changes`."""
POLL_SECONDS = 0.2
EDIT_ATTEMPTS = 5
"""Attempts of a slow edit outside of the lock, before it is made under the lock."""
Edit = Callable[[str], Edited]
WAITING_NOTE = "This waits for a review. It is not part of any prompt until a person accepts it."
CUT_NOTICE = "\n\n(The notes are cut here because they are too long; manage_long_term_memory reads all of them.)"

_SELECT_NOTE = """select text, version, tokens, created_at, updated_at from notes
    where tenant = :tenant and user_id = :user and agent = :agent"""
_LOCK_NOTE = "select 1 from notes where tenant = :tenant and user_id = :user and agent = :agent"


@dataclass(frozen=True)
class Note:
    """The current document; empty and at version 0 if nothing was ever written."""

    text: str
    version: int
    tokens: int
    created_at: datetime | None
    updated_at: datetime | None


@dataclass(frozen=True)
class NoteVersion:
    """The document after a change."""

    version: int
    operation: str  # the verb that made the change
    source: str  # who made it
    text: str
    created_at: datetime


class _ChangedMeanwhileError(Exception):
    """Raised to roll back a write whose text was edited from an older version."""


EMPTY_NOTE = Note("", 0, 0, None, None)


_note = row_mapper(Note)


_version = row_mapper(NoteVersion)


# -- documents: the id names the user and the agent, `seq` counts the sections -----------------


def _documents(row: Row) -> list[SearchDocument]:
    user, agent, text, at = row
    id = index_id(user, agent)
    return [
        SearchDocument(
            "notes",
            id,
            section.text,
            at,
            seq=seq,
            user=user,
            agent=agent,
            author=agent,
            title=section.title,
        )
        for seq, section in enumerate(split(text, "markdown"))
    ]


NOTES_INDEX = Findable(
    kind="notes",
    key=("user_id", "agent"),
    select="""select user_id, agent, text, updated_at from notes
              where tenant = :tenant and {where}""",
    documents=_documents,
    key_of=lambda id, seq: tuple(keys_of(id)),
    first=("", ""),
)


class Notes(Kind):
    """The notes that an agent keeps about a user."""

    name = "notes"
    parameter_help = {
        "after": "Only changes after this version.",
    }
    tables = (
        Table(
            "notes",
            order="user_id, agent",
            owned="user_id = :user",
            of_agent="agent = :agent",
            checked=("text",),
        ),
        Table(
            "note_versions",
            order="user_id, agent, version",
            owned="user_id = :user",
            of_agent="agent = :agent",
            checked=("text",),
        ),
    )
    checks = (
        Check(
            "notes are at their last version, and no version is missing",
            """select user_id || ' ' || agent from notes where tenant = :tenant and (
                   version <> (
                       select count(*) from note_versions v
                       where v.tenant = :tenant and v.user_id = notes.user_id
                       and v.agent = notes.agent)
                   or not exists (
                       select 1 from note_versions v
                       where v.tenant = :tenant and v.user_id = notes.user_id
                       and v.agent = notes.agent and v.version = notes.version
                       and v.text = notes.text))""",
        ),
    )
    findable = NOTES_INDEX
    whole_in_layer = "notes"

    @verb(
        "GET /notes",
        effect="read",
        raw_output=True,
        example="memorist notes read --user ada --agent scout > notes.md",
    )
    def read(self) -> Note:
        """Return the document; empty, at version 0, if there are no notes yet."""
        key = self._key()
        rows = self._read_rows(lambda tx: tx.send(_SELECT_NOTE, **key))
        return _note(rows[0]) if rows else EMPTY_NOTE

    @verb(
        "PUT /notes",
        effect="change",
        example='memorist notes overwrite "# Preferences" --user ada --agent scout',
    )
    def overwrite(self, text: str, *, if_version: Count | None = None) -> Note:
        """Set the whole document."""
        text = self._checked_text(text)
        return self._change("overwrite", lambda before: Edited(text), if_version)[0]

    @verb(
        "POST /notes/append",
        effect="change",
        example='memorist notes append "- prefers tea" --user ada --agent scout',
    )
    def append(self, text: str, *, if_version: Count | None = None) -> Note:
        """Add text at the end, after a blank line."""
        text = self._checked_text(text)

        def edit(before: str) -> Edited:
            return Edited(markdown.append(before, text))

        return self._change("append", edit, if_version)[0]

    @verb(
        "POST /notes/prepend",
        effect="change",
        example='memorist notes prepend "Speak German." --user ada --agent scout',
    )
    def prepend(self, text: str, *, if_version: Count | None = None) -> Note:
        """Add text at the beginning, before a blank line."""
        text = self._checked_text(text)

        def edit(before: str) -> Edited:
            return Edited(markdown.prepend(before, text))

        return self._change("prepend", edit, if_version)[0]

    @verb(
        "PUT /notes/section",
        effect="change",
        example='memorist notes replace-section Preferences "- coffee, now" --user ada --agent scout',
    )
    def replace_section(
        self, header: Visible, text: str, *, if_version: Count | None = None
    ) -> Note:
        """Replace the text under a heading, up to the next heading of the same or a higher level."""
        return self._replace_section(header, text, if_version)[0]

    @verb(
        "DELETE /notes/section",
        effect="change",
        example="memorist notes delete-section '# Preferences' --user ada --agent scout",
    )
    def delete_section(self, header: Visible, *, if_version: Count | None = None) -> Note:
        """Delete a heading and its text, up to the next heading of the same or a higher level."""
        return self._delete_section(header, if_version)[0]

    @verb("DELETE /notes", effect="change", example="memorist notes clear --user ada --agent scout")
    def clear(self, *, if_version: Count | None = None) -> Note:
        """Empty the document; its versions stay."""
        return self._change("clear", lambda before: Edited(""), if_version)[0]

    @verb(
        "GET /notes/history",
        effect="read",
        example="memorist notes history --user ada --agent scout --limit 10",
    )
    def history(self, *, limit: PageSize = 20, after: str | None = None) -> Page[NoteVersion]:
        """Return the versions of the document, newest first."""
        key = self._key()
        size, (start,) = page_start(limit, after, 2**62)
        rows = self._read_rows(
            lambda tx: tx.send(
                """select version, operation, source, text, created_at from note_versions
                   where tenant = :tenant and user_id = :user and agent = :agent
                   and version < :start
                   order by version desc limit :size""",
                **key,
                start=start,
                size=size + 1,
            )
        )
        return make_page([_version(row) for row in rows], size, lambda version: [version.version])

    @verb(
        "GET /notes/diff",
        effect="read",
        example="memorist notes diff 4 --against 1 --user ada --agent scout",
    )
    def diff(self, version: Count, *, against: Count | None = None) -> str:
        """Return a unified diff of a version against the version before it, or against another."""
        import difflib  # not needed at start

        new = canonical.check_integer(version, "version")
        old = max(new - 1, 0) if against is None else canonical.check_integer(against, "against")
        after, before = self._read(lambda tx: [self._text_at(tx, number) for number in (new, old)])
        lines = difflib.unified_diff(
            _lines(before), _lines(after), f"notes v{old}", f"notes v{new}"
        )
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        )

    @verb(
        "POST /notes/restore",
        effect="change",
        example="memorist notes restore 3 --user ada --agent scout",
    )
    def restore(self, version: Count, *, if_version: Count | None = None) -> Note:
        """Set the document to the text of a version; this makes a new version.

        A person who restores the newest version accepts what waits for a review in it.
        """
        canonical.check_integer(version, "version")
        text = self._read(lambda tx: self._text_at(tx, version))  # a version never changes
        return self._change("restore", lambda before: Edited(text), if_version)[0]

    @verb(
        "GET /notes/changes",
        effect="read",
        example="memorist notes changes --after 6 --wait 30 --user ada --agent scout --json",
    )
    def changes(
        self,
        *,
        after: Count = 0,
        wait: Annotated[float, Range(0, 300)] = 0.0,
        limit: PageSize = 100,
    ) -> list[NoteVersion]:
        """Return the versions after a number, oldest first; if there is none, wait for one.

        wait: seconds to wait at most

        Notes that were erased and written anew count from 1 again. While there are fewer versions
        than `after`, all of them are returned. Compare `created_at` to notice that.
        """
        canonical.check_integer(after, "after")
        if canonical.amount(wait, "wait") > MAX_WAIT_SECONDS:
            raise Invalid(
                field="wait",
                problem=f"must be at most {MAX_WAIT_SECONDS:.0f} seconds; then call again",
            )
        key = self._key()
        size = self._limit(limit)
        deadline = time.monotonic() + wait

        def work(tx: Transaction) -> Sequence[Row]:
            current = tx.one(
                """select version from notes
                   where tenant = :tenant and user_id = :user and agent = :agent""",
                **key,
            )
            if current is None or current[0] == after:
                return []
            return tx.all(
                """select version, operation, source, text, created_at from note_versions
                   where tenant = :tenant and user_id = :user and agent = :agent
                   and version > :start
                   order by version limit :size""",
                **key,
                start=after if after < current[0] else 0,
                size=size,
            )

        while True:
            rows = self._read(work)
            remaining = deadline - time.monotonic()
            if rows or remaining <= 0:
                return [_version(row) for row in rows]
            time.sleep(min(POLL_SECONDS, remaining))

    # -- prompt section and tool ---------------------------------------------------------------

    def section(self, tx: Transaction, ask: Ask) -> Section | None:
        """Return the document in parts; the first parts are the most valuable."""
        if self._owner.user is None or self._owner.agent is None:
            return None
        text, version = self._reviewed_text(tx)
        if not text.strip():
            return None
        texts = split_parts(text)
        pieces = [
            Piece(
                f"notes v{version}.{number}",
                part,
                tokens.estimate(part),
                f"part {number} of {len(texts)} of the notes",
                1 / number,
            )
            for number, part in enumerate(texts, 1)
        ]
        return Section(
            "notes", pieces, lambda pieces: "".join([piece.text for piece in pieces]), CUT_NOTICE
        )

    def _reviewed_text(self, tx: Transaction) -> tuple[str, int]:
        """Return the text that prompts may contain, and its version.

        That is the newest version, or the one before the first that waits for a review.
        """
        waiting = self._first_waiting(tx)
        if waiting is not None:
            return self._text_at(tx, waiting - 1), waiting - 1
        row = tx.one(_SELECT_NOTE, **self._key())
        return (row[0], row[1]) if row else ("", 0)

    def _first_waiting(self, tx: Transaction) -> int | None:
        """Return the first version whose text waits for a review; None if there is none.

        A version of a source under review waits, and so does what others add to it. A change by a
        person accepts the text; so does an overwrite by a source that is not under review.
        """
        sources = self._sources_under_review()
        if not sources:
            return None
        row = tx.one(
            f"""select min(version) from note_versions
               where tenant = :tenant and user_id = :user and agent = :agent
               and :sources like '%,' || source || ',%'
               and version > coalesce((
                   select max(version) from note_versions
                   where tenant = :tenant and user_id = :user and agent = :agent
                   and (source in {PEOPLE_SQL}
                        or (operation in ('overwrite', 'clear')
                            and :sources not like '%,' || source || ',%'))), 0)""",
            sources=f",{','.join(sources)},",
            **self._key(),
        )
        return int(row[0]) if row and row[0] is not None else None

    def text_before_review(self, tx: Transaction, id: str) -> str | None:
        """Return the reviewed text of a document by its id in the index; None if nothing waits."""
        if not self._sources_under_review():
            return None
        user, agent = keys_of(id)
        notes = Notes(self._services, replace(self._owner, user=user, agent=agent))
        waiting = notes._first_waiting(tx)
        return None if waiting is None else notes._text_at(tx, waiting - 1)

    def _sources_under_review(self) -> list[str]:
        return trust.sources_under_review("notes", self._settings.review)

    @staticmethod
    def hit_source(hit: Hit, session: str) -> str:
        """Return the source of a hit of this kind in the report of a context."""
        return f"notes, section {hit.seq + 1}"

    @staticmethod
    def hit_origin(hit: Hit, scope: RecallScope) -> str:
        """Return who wrote a recalled hit of this kind, or where it is from."""
        return f"your notes › {hit.title}" if hit.title else "your notes"

    def tools(self, session: str | None = None) -> list[Tool]:
        """Return the tool with which an agent curates its notes."""
        parameters = schema(
            operation=string(_OPERATION, enum=list(OPERATIONS), default="read"),
            content=string(_CONTENT),
            section_header=string(_SECTION_HEADER),
        )
        return [
            Tool(
                "manage_long_term_memory",
                _DESCRIPTION,
                parameters,
                self._manage,
                "Manage long-term memory",
                _ANSWER,
                operations=OPERATIONS,
            )
        ]

    def _manage(
        self, operation: str = "read", content: str = "", section_header: str = ""
    ) -> ToolOutput:
        """Run one call of the tool."""
        arguments = {"content": content, "section_header": section_header}
        for name, value in arguments.items():
            problem = _argument_problem(operation, name, value)
            if problem:
                return {"error": problem}
        same_header = 1
        match operation:
            case "read":
                note = self.read()
                return {
                    "success": True,
                    "operation": operation,
                    "version": note.version,
                    "notes": note.text,
                }
            case "overwrite":
                note = self.overwrite(content)
            case "append":
                note = self.append(content)
            case "prepend":
                note = self.prepend(content)
            case "replace_section_by_header":
                note, same_header = self._replace_section(section_header, content, None)
            case "delete_section_by_header":
                note, same_header = self._delete_section(section_header, None)
            case _:
                note = self.clear()
        output = {
            "success": True,
            "operation": operation,
            "version": note.version,
            "sections": markdown.headers(note.text),
        }
        if same_header > 1:
            output["note"] = f"{same_header} sections have this header; the first one was changed."
        if self._owner.source in self._sources_under_review():
            output["note"] = f"{WAITING_NOTE} {output.get('note', '')}".rstrip()
        return output

    # -- writing -------------------------------------------------------------------------------

    def _replace_section(self, header: str, text: str, if_version: int | None) -> tuple[Note, int]:
        header = self._checked_text(header, "header")
        text = self._checked_text(text)
        edit = partial(markdown.replace_section, header=header, body=text)
        return self._change("replace_section", edit, if_version, slow=True)

    def _delete_section(self, header: str, if_version: int | None) -> tuple[Note, int]:
        header = self._checked_text(header, "header")
        edit = partial(markdown.delete_section, header=header)
        return self._change("delete_section", edit, if_version, slow=True)

    def _change(
        self, operation: str, edit: Edit, if_version: int | None, *, slow: bool = False
    ) -> tuple[Note, int]:
        """Edit the document; return it, and how many sections have the header that was meant.

        The text is edited before the row is locked. If another writer was faster, this is tried
        again, several times for a slow edit, and in the end under the lock.
        """
        key = self._key()
        row_key = {"user_id": key["user"], "agent": key["agent"]}
        if if_version is not None:
            canonical.check_integer(if_version, "if_version")

        def work(
            tx: Transaction,
            before: str | None = None,
            edited: Edited | None = None,
        ) -> tuple[Note, int]:
            while True:
                tx.lock_rows(_LOCK_NOTE, **key)
                row = tx.one(_SELECT_NOTE, **key)
                note = _note(row) if row else EMPTY_NOTE
                self._expect_version(note, if_version)
                if edited is not None and note.text != before:
                    raise _ChangedMeanwhileError
                result = edit(note.text) if edited is None else edited
                if result.text == note.text and not self._accepts(tx, operation):
                    return note, result.same
                text = canonical.within(result.text, "notes", limits.MAX_NOTES_BYTES)
                changed = self._store(tx, text, note.version + 1, operation)
                if changed is None:
                    continue  # another writer created the notes a moment ago
                mark = IndexMark(
                    owner_of(key["user"]), self.name, index_id(key["user"], key["agent"])
                )
                self._services.index.mark(tx, [mark])
                return changed, result.same

        for _ in range(EDIT_ATTEMPTS if slow else 1):
            note = self.read()
            self._expect_version(note, if_version)
            edited = edit(note.text)
            prepared = partial(work, before=note.text, edited=edited)
            with suppress(_ChangedMeanwhileError):
                return self._write(operation, prepared, row=row_key, returns=_first)
        return self._write(operation, work, row=row_key, returns=_first)

    def _accepts(self, tx: Transaction, operation: str) -> bool:
        """Return whether a change accepts text that waits, although the text stays the same."""
        is_person = trust.is_person(self._owner.source)
        return operation == "restore" and is_person and self._first_waiting(tx) is not None

    def _store(self, tx: Transaction, text: str, version: int, operation: str) -> Note | None:
        """Write the document and its new version; None if another writer just created it."""
        if version == 1:
            sql = """insert into notes
                         (tenant, user_id, agent, version, text, tokens, created_at, updated_at, checksum)
                     values (:tenant, :user, :agent, :version, :text, :tokens, :now, :now, :checksum)
                     on conflict do nothing"""
        else:
            sql = """update notes
                     set version = :version, text = :text, checksum = :checksum, tokens = :tokens,
                         updated_at = :now
                     where tenant = :tenant and user_id = :user and agent = :agent"""
        row = tx.one(
            sql + " returning text, version, tokens, created_at, updated_at",
            **self._key(),
            text=text,
            checksum=checksum(text),
            tokens=tokens.estimate(text),
            version=version,
        )
        if row is None:
            return None
        tx.send(
            """insert into note_versions
                   (tenant, user_id, agent, version, operation, source, text, created_at, checksum)
               values (:tenant, :user, :agent, :version, :operation, :source, :text, :now, :checksum)""",
            **self._key(),
            text=text,
            checksum=checksum(text),
            version=version,
            operation=operation,
            source=self._owner.source,
        )
        return _note(row)

    def _expect_version(self, note: Note, if_version: int | None) -> None:
        if if_version not in (None, note.version):
            id = f"{self._owner.user} {self._owner.agent}"
            raise WrongVersion(what="notes", id=id, actual=note.version, expected=if_version)

    def _text_at(self, tx: Transaction, version: int) -> str:
        """Return the text of a version; version 0 is empty."""
        if version == 0:
            return ""
        row = tx.one(
            """select text from note_versions
               where tenant = :tenant and user_id = :user and agent = :agent
               and version = :version""",
            **self._key(),
            version=version,
        )
        if row is None:
            raise NotFound(what="notes version", id=version)
        return str(row[0])

    def _key(self) -> dict[str, str]:
        return {"user": self._user(), "agent": self._agent()}

    def _checked_text(self, text: str, field: str = "text") -> str:
        return canonical.text(text, field, limits.MAX_NOTES_BYTES, self._settings.masking)


def _first(result: tuple[Note, int]) -> Note:
    return result[0]


def _lines(text: str) -> list[str]:
    """Split text at newlines only; Python's `splitlines` breaks at other characters too."""
    *lines, last = text.split("\n")
    result = [line + "\n" for line in lines]
    return [*result, last] if last else result


OPERATIONS = {
    "read": Operation.of(Notes.read),
    "overwrite": Operation.of(Notes.overwrite),
    "append": Operation.of(Notes.append),
    "prepend": Operation.of(Notes.prepend),
    "delete_section_by_header": Operation.of(Notes.delete_section),
    "replace_section_by_header": Operation.of(Notes.replace_section),
    "delete_all_notes": Operation.of(Notes.clear),
}
"""The operations of the tool, with their effects and audit actions."""
_REQUIRED_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "read": (),
    "overwrite": ("content",),
    "append": ("content",),
    "prepend": ("content",),
    "delete_section_by_header": ("section_header",),
    "replace_section_by_header": ("content", "section_header"),
    "delete_all_notes": (),
}


def _argument_problem(operation: str, name: str, value: str) -> str:
    """Return the problem with an argument of the tool; empty if there is none."""
    is_needed = name in _REQUIRED_ARGUMENTS[operation]
    if is_needed and not value.strip():
        return f"{operation} needs the argument '{name}', and it must not be blank."
    if not is_needed and value.strip():
        *others, last = (other for other, needs in _REQUIRED_ARGUMENTS.items() if name in needs)
        choices = f"{', '.join(others)} or {last}"
        return f"{operation} does not take the argument '{name}'; did you mean {choices}?"
    return ""


_ANSWER = schema(
    ("success", "operation", "version"),
    success={"const": True},
    operation=string(enum=list(OPERATIONS)),
    version={"type": "integer"},
    notes=string("The whole document, after read."),
    sections={
        "type": "array",
        "items": string(),
        "description": "Its headings, after a change.",
    },
    note=string(),
)
_DESCRIPTION = (
    "Read and change your long-term notes about this user: one Markdown document that you keep "
    "across all conversations, for preferences, standing instructions and facts. Keep it short and "
    "well ordered under headings, and correct what is no longer true. Every version is kept."
)
_OPERATION = (
    "read: return the notes. overwrite: replace all of them. append, prepend: add content at the "
    "end or the beginning. replace_section_by_header: replace everything under an existing heading, "
    "including its subsections, with content. delete_section_by_header: remove a heading and "
    "everything under it. delete_all_notes: empty the notes."
)
_CONTENT = "The Markdown to write, for overwrite, append, prepend and replace_section_by_header."
_SECTION_HEADER = (
    "The heading of the section, for the two section operations: 'Preferences', or "
    "'## Preferences' if several headings have the same text."
)


def reviewed_text(notes: Notes) -> str:
    """Return the text of notes that prompts may contain: without what waits for a review."""
    return notes._read(notes._reviewed_text)[0]
