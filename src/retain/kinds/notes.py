"""Notes: one Markdown document for each user and agent, curated by the agent, with every version it had.

A change is written together with the version it makes, under the lock of the document's row, so that versions count 1, 2, 3
without a gap. What adds text, or changes one section, is worked out again on what another writer left; what sets the whole
document can be guarded with `if_version`. Reading Markdown takes its time and is done before the row is locked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from retain.base import canonical, clock, limits, tokens
from retain.base.errors import Invalid, NotFound, WrongVersion
from retain.kinds import findable as index
from retain.kinds.indexing import index_id
from retain.kinds.kind import Check, Kind, Page, Table, decode_cursor, make_page
from retain.kinds.section import Ask, Piece, RecallScope, Section
from retain.kinds.tool import Answer, Effect, Tool, schema
from retain.search.chunk import Chunk, split
from retain.search.query import Hit
from retain.storage.database import Row, Transaction
from retain.text import markdown
from retain.text.markdown import Edited, split_parts

MOST_WAIT = 300.0
"""The most seconds that one call waits for a change."""
POLL = 0.2
TRIES = 5
Edit = Callable[[str], Edited]


@dataclass(frozen=True)
class Note:
    """The document as it is now; at version 0, and empty, where nothing was ever written."""

    text: str
    version: int
    tokens: int
    created_at: datetime | None
    updated_at: datetime | None


@dataclass(frozen=True)
class NoteVersion:
    """The document as a change left it: by which verb, and written by whom."""

    version: int
    operation: str
    source: str
    text: str
    created_at: datetime


NOTHING = Note("", 0, 0, None, None)


def _note(row: Row) -> Note:
    text, version, size, created, updated = row
    return Note(text, version, size, clock.to_datetime(created), clock.to_datetime(updated))


def _version(row: Row) -> NoteVersion:
    version, operation, source, text, created = row
    return NoteVersion(version, operation, source, text, clock.to_datetime(created))


CUT_NOTICE = (
    "\n\n(The notes are cut here for want of room; manage_long_term_memory reads them whole.)"
)


class _ChangedMeanwhile(Exception):
    """Raised in a transaction that finds other notes than the edit was made of; it is rolled back."""


class Notes(Kind):
    """The notes of the scope's user and agent."""

    name = "notes"
    whole_in_layer = "notes"
    tables = (
        Table("notes", order="user_id, agent", owned="user_id = :user"),
        Table("note_versions", order="user_id, agent, version", owned="user_id = :user"),
    )
    checks = (
        Check(
            "notes are at their last version, and none is missing",
            """select user_id || ' ' || agent from notes where tenant = :tenant and (
                   version <> (select count(*) from note_versions v
                               where v.tenant = :tenant and v.user_id = notes.user_id and v.agent = notes.agent)
                   or not exists (select 1 from note_versions v
                                  where v.tenant = :tenant and v.user_id = notes.user_id and v.agent = notes.agent
                                  and v.version = notes.version and v.text = notes.text))""",
        ),
        *index.NOTES.checks,
    )
    findable = index.NOTES

    def read(self) -> Note:
        """The document; empty, at version 0, where there are no notes yet."""
        whose = self._whose()
        row = self._read(lambda tx: tx.one(_READ, **whose))
        return _note(row) if row else NOTHING

    def overwrite(self, text: str, *, if_version: int | None = None) -> Note:
        """Set the whole document."""
        text = self._text(text)
        return self._change("overwrite", lambda before: Edited(text), if_version)[0]

    def append(self, text: str, *, if_version: int | None = None) -> Note:
        """Add text at the end, with one blank line between."""
        text = self._text(text)
        return self._change(
            "append", lambda before: Edited(markdown.append(before, text)), if_version
        )[0]

    def prepend(self, text: str, *, if_version: int | None = None) -> Note:
        """Add text at the beginning, with one blank line between."""
        text = self._text(text)
        return self._change(
            "prepend", lambda before: Edited(markdown.prepend(before, text)), if_version
        )[0]

    def replace_section(self, header: str, text: str, *, if_version: int | None = None) -> Note:
        """Write another text under a heading, up to the next heading of the same or a higher level."""
        return self._replace(header, text, if_version)[0]

    def delete_section(self, header: str, *, if_version: int | None = None) -> Note:
        """Remove a heading and all under it, up to the next heading of the same or a higher level."""
        return self._delete(header, if_version)[0]

    def clear(self, *, if_version: int | None = None) -> Note:
        """Empty the document; its versions stay."""
        return self._change("clear", lambda before: Edited(""), if_version)[0]

    def history(self, *, limit: int = 20, after: str | None = None) -> Page[NoteVersion]:
        """The versions of the document, newest first."""
        whose, size = self._whose(), self._limit(limit)
        (start,) = decode_cursor(after, [int]) if after else (2**62,)
        rows = self._read(
            lambda tx: tx.all(
                """select version, operation, source, text, created_at from note_versions
                   where tenant = :tenant and user_id = :user and agent = :agent and version < :start
                   order by version desc limit :size""",
                **whose,
                start=start,
                size=size + 1,
            )
        )
        return make_page([_version(row) for row in rows], size, lambda version: [version.version])

    def diff(self, version: int, *, against: int | None = None) -> str:
        """What a version changed, against the version before it or any other, as a unified diff; empty if nothing."""
        import difflib  # not needed to start

        new = canonical.whole(version, "version")
        old = max(new - 1, 0) if against is None else canonical.whole(against, "against")
        before, after = self._read(lambda tx: [self._at(tx, number) for number in (old, new)])
        names = (f"notes v{old}", f"notes v{new}")
        lines = difflib.unified_diff(_lines(before), _lines(after), *names)
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        )

    def restore(self, version: int, *, if_version: int | None = None) -> Note:
        """Set the document to what it was at a version; that makes a new version."""
        canonical.whole(version, "version")
        text = self._read(lambda tx: self._at(tx, version))  # what a version holds never changes
        return self._change("restore", lambda before: Edited(text), if_version)[0]

    def changes(self, *, after: int = 0, wait: float = 0.0, limit: int = 100) -> list[NoteVersion]:
        """The versions after a number, oldest first; where there is none, wait up to so many seconds for one.

        Notes that were erased and begun anew count from 1 again. As long as there are fewer of them than `after`, all are
        told; then only those after it, since a number cannot say of which notes it was: `created_at` can.
        """
        canonical.whole(after, "after")
        if canonical.amount(wait, "wait") > MOST_WAIT:
            raise Invalid(
                field="wait",
                problem=f"must be at most {MOST_WAIT:.0f} seconds; ask again after that",
            )
        whose, size = self._whose(), self._limit(limit)
        deadline = time.monotonic() + wait

        def work(tx: Transaction) -> Sequence[Row]:
            there = tx.one(
                "select version from notes where tenant = :tenant and user_id = :user and agent = :agent",
                **whose,
            )
            if there is None or there[0] == after:
                return []
            start = after if after < there[0] else 0
            return tx.all(_CHANGES, **whose, start=start, size=size)

        while True:
            rows = self._read(work)
            left = deadline - time.monotonic()
            if rows or left <= 0:
                return [_version(row) for row in rows]
            time.sleep(min(POLL, left))

    # -- for models and prompts ------------------------------------------------------------------------------------

    def tools(self) -> list[Tool]:
        """The one tool with which an agent curates its notes."""
        parameters = schema(
            operation={
                "type": "string",
                "enum": list(OPERATIONS),
                "default": "read",
                "description": _OPERATION,
            },
            content={"type": "string", "description": _CONTENT},
            section_header={"type": "string", "description": _SECTION_HEADER},
        )
        title = "Manage long-term memory"
        return [
            Tool(
                "manage_long_term_memory",
                _DESCRIPTION,
                parameters,
                self._manage,
                title,
                _ANSWER,
                operations=_EFFECTS,
            )
        ]

    def section(self, tx: Transaction, ask: Ask) -> Section | None:
        """The document in its parts, of which the first are worth the most."""
        if self._owner.user is None or self._owner.agent is None:
            return None
        row = tx.one(_READ, user=self._owner.user, agent=self._owner.agent)
        if row is None or not row[0].strip():
            return None
        made = split_parts(row[0])
        pieces = [
            Piece(
                f"notes v{row[1]}.{n}",
                part,
                tokens.estimate(part),
                f"part {n} of {len(made)} of the notes",
                1 / n,
            )
            for n, part in enumerate(made, 1)
        ]
        return Section(
            "notes", pieces, lambda kept: "".join(piece.text for piece in kept), CUT_NOTICE
        )

    @staticmethod
    def hit_source(hit: Hit, session: str) -> str:
        """Return what the report of a context calls a hit of this kind."""
        return f"notes, section {hit.seq + 1}"

    @staticmethod
    def hit_origin(hit: Hit, scope: RecallScope) -> str:
        """Return who wrote a recalled hit of this kind, or where it is from."""
        return f"your notes › {hit.title}" if hit.title else "your notes"

    def _manage(
        self, operation: str = "read", content: str = "", section_header: str = ""
    ) -> Answer:
        """One call of the tool."""
        takes = OPERATIONS[operation]
        for name, given in (("content", content), ("section_header", section_header)):
            if name in takes and not given.strip():
                return {
                    "error": f"{operation} needs the argument '{name}', and it must not be blank."
                }
            if name not in takes and given.strip():
                *some, last = (other for other, its in OPERATIONS.items() if name in its)
                can = f"{', '.join(some)} or {last}"
                return {
                    "error": f"{operation} does not take the argument '{name}'; did you mean {can}?"
                }
        same = 1
        match operation:
            case "read":
                note = self.read()
                return {
                    "success": True,
                    "operation": operation,
                    "version": note.version,
                    "notes": note.text,
                }
            case "replace_section_by_header":
                note, same = self._replace(section_header, content, None)
            case "delete_section_by_header":
                note, same = self._delete(section_header, None)
            case "delete_all_notes":
                note = self.clear()
            case _:
                note = {
                    "overwrite": self.overwrite,
                    "append": self.append,
                    "prepend": self.prepend,
                }[operation](content)
        answer = {
            "success": True,
            "operation": operation,
            "version": note.version,
            "sections": markdown.headers(note.text),
        }
        if same > 1:
            answer["note"] = f"{same} sections have this header; the first one was changed."
        return answer

    # -- changing --------------------------------------------------------------------------------------------------

    def _replace(self, header: str, text: str, if_version: int | None) -> tuple[Note, int]:
        header, text = self._text(header, "header"), self._text(text)
        edit = partial(markdown.replace_section, header=header, body=text)
        return self._change("replace_section", edit, if_version, slow=True)

    def _delete(self, header: str, if_version: int | None) -> tuple[Note, int]:
        header = self._text(header, "header")
        return self._change(
            "delete_section", partial(markdown.delete_section, header=header), if_version, slow=True
        )

    def _change(
        self, operation: str, edit: Edit, if_version: int | None, *, slow: bool = False
    ) -> tuple[Note, int]:
        """Put an edited document in the place of the one that is there; and how many sections were meant by a header.

        It is edited and read in sections before the row is locked, and again if another writer came first, more than once
        where the edit is slow; in the end under the lock.
        """
        whose = self._whose()
        row = {"user_id": whose["user"], "agent": whose["agent"]}
        if if_version is not None:
            canonical.whole(if_version, "if_version")

        def work(
            tx: Transaction,
            before: str | None = None,
            made: Edited | None = None,
            sections: Sequence[Chunk] | None = None,
        ) -> tuple[Note, int]:
            while True:
                tx.lock_rows(
                    "select 1 from notes where tenant = :tenant and user_id = :user and agent = :agent",
                    **whose,
                )
                row = tx.one(_READ, **whose)
                note = _note(row) if row else NOTHING
                self._expect(note, if_version)
                if made is not None and note.text != before:
                    raise _ChangedMeanwhile
                edited = edit(note.text) if made is None else made
                if edited.text == note.text:
                    return note, edited.same
                text = canonical.within(edited.text, "notes", limits.MAX_NOTES_BYTES)
                values = {
                    **whose,
                    "text": text,
                    "tokens": tokens.estimate(text),
                    "version": note.version + 1,
                }
                changed = tx.one(_BEGIN if row is None else _CHANGE, **values)
                if changed is None:
                    continue  # another writer began the notes a moment ago
                source = self._owner.source
                tx.run(
                    _KEEP,
                    **whose,
                    text=text,
                    version=note.version + 1,
                    operation=operation,
                    source=source,
                )
                found = index.notes(
                    **whose,
                    sections=split(text, "markdown") if sections is None else sections,
                    at=tx.now,
                )
                self._services.index.update(
                    tx, self.name, index_id(whose["user"], whose["agent"]), found
                )
                return _note(changed), edited.same

        for _ in range(TRIES if slow else 1):
            there = self.read()
            self._expect(there, if_version)
            made = edit(there.text)
            edited = partial(
                work, before=there.text, made=made, sections=split(made.text, "markdown")
            )
            with suppress(_ChangedMeanwhile):
                return self._write(operation, edited, row=row, returns=lambda result: result[0])
        return self._write(operation, work, row=row, returns=lambda result: result[0])

    def _expect(self, note: Note, if_version: int | None) -> None:
        if if_version not in (None, note.version):
            id = f"{self._owner.user} {self._owner.agent}"
            raise WrongVersion(what="notes", id=id, actual=note.version, expected=if_version)

    def _at(self, tx: Transaction, version: int) -> str:
        """The text of a version; before the first, there is none."""
        if version == 0:
            return ""
        row = tx.one(
            """select text from note_versions
               where tenant = :tenant and user_id = :user and agent = :agent and version = :version""",
            **self._whose(),
            version=version,
        )
        if row is None:
            raise NotFound(what="version of the notes", id=version)
        return str(row[0])

    def _whose(self) -> dict[str, str]:
        return {"user": self._user(), "agent": self._agent()}

    def _text(self, text: str, field: str = "text") -> str:
        return canonical.text(text, field, limits.MAX_NOTES_BYTES, self._settings.secrets)


def _lines(text: str) -> list[str]:
    """Lines as a diff shows them: what else Python takes for a line ending is part of a line."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + [lines[-1]] * bool(lines[-1])


OPERATIONS: dict[str, tuple[str, ...]] = {
    "read": (),
    "overwrite": ("content",),
    "append": ("content",),
    "prepend": ("content",),
    "delete_section_by_header": ("section_header",),
    "replace_section_by_header": ("content", "section_header"),
    "delete_all_notes": (),
}
"""What the tool can do, and the arguments that each operation takes."""
_EFFECTS: dict[str, Effect] = {
    name: "read" if name == "read" else "delete" if name.startswith("delete") else "write"
    for name in OPERATIONS
}
_ANSWER = schema(
    ("success", "operation", "version"),
    success={"const": True},
    operation={"type": "string", "enum": list(OPERATIONS)},
    version={"type": "integer"},
    notes={"type": "string", "description": "The whole document, after read."},
    sections={
        "type": "array",
        "items": {"type": "string"},
        "description": "Its headings, after a change.",
    },
    note={"type": "string"},
)
_DESCRIPTION = (
    "Read and change your long-term notes about this user: one Markdown document that you keep across all conversations, "
    "for preferences, standing instructions and facts. Keep it short and well ordered under headings, and correct what is "
    "no longer true. Every version is kept."
)
_OPERATION = (
    "read: the notes. overwrite: set all of them. append, prepend: add content at the end or the beginning. "
    "replace_section_by_header: write content under a heading that is there, in place of all that is under it, its "
    "subsections too. delete_section_by_header: remove a heading and all under it. delete_all_notes: empty the notes."
)
_CONTENT = "The Markdown to write, for overwrite, append, prepend and replace_section_by_header."
_SECTION_HEADER = (
    "The heading of the section that is meant, for the two section operations: 'Preferences', or '## Preferences' where "
    "several are called alike."
)
_READ = """select text, version, tokens, created_at, updated_at from notes
           where tenant = :tenant and user_id = :user and agent = :agent"""
_RETURNING = "returning text, version, tokens, created_at, updated_at"
_BEGIN = (
    """insert into notes (tenant, user_id, agent, version, text, tokens, created_at, updated_at)
            values (:tenant, :user, :agent, :version, :text, :tokens, :now, :now) on conflict do nothing """
    + _RETURNING
)
_CHANGE = (
    """update notes set version = :version, text = :text, tokens = :tokens, updated_at = :now
             where tenant = :tenant and user_id = :user and agent = :agent """
    + _RETURNING
)
_KEEP = """insert into note_versions (tenant, user_id, agent, version, operation, source, text, created_at)
           values (:tenant, :user, :agent, :version, :operation, :source, :text, :now)"""
_CHANGES = """select version, operation, source, text, created_at from note_versions
              where tenant = :tenant and user_id = :user and agent = :agent and version > :start
              order by version limit :size"""
