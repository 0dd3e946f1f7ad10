"""An entry: its record, its content, its source, its row and its documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from memorist.base import canonical, clock, ids, tokens
from memorist.base.errors import Invalid, TooLarge
from memorist.base.masking import OFF, Policy
from memorist.base.settings import Settings
from memorist.kinds import trust
from memorist.kinds.kind import Owner
from memorist.search.index import split_text
from memorist.search.search_document import Findable, IndexMark, SearchDocument, owner_of
from memorist.storage.checksum import checksum
from memorist.storage.database import Row, Transaction
from memorist.storage.rows import row_mapper
from memorist.text.warning_signs import find_warning_signs

EntryKind = Literal["journal", "core", "whiteboard"]
Review = Literal["accepted", "pending", "refused"]
"""Prompts, searches and consolidations use only accepted entries; the others are only listed."""
ENTRY_KINDS: tuple[EntryKind, ...] = get_args(EntryKind)
REVIEWS: tuple[Review, ...] = get_args(Review)
JOURNAL_WINDOW = timedelta(days=7)
"""The time for which a journal entry is in the prompt. It is not removed afterwards."""
JOURNAL_WINDOW_MICROS = JOURNAL_WINDOW // timedelta(microseconds=1)
MAX_CHARACTERS = 10_000
MAIN_BOARD = "main"


@dataclass(frozen=True)
class Entry:
    """One memory of an agent."""

    id: str
    agent: str
    kind: EntryKind
    board: str | None
    content: str
    user: str | None
    source: str
    version: int
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    expired: bool  # True for a journal entry that is no longer in the prompt
    review: Review = "accepted"
    signs: list[str] = field(default_factory=list)  # warning signs for a reviewer


COLUMNS = """id, agent, kind, board, content, user_id, source, version, created_at, updated_at,
    review"""


_entry = row_mapper(Entry, besides=["expires_at", "expired", "signs"])


def entry(row: Row, now: int) -> Entry:
    """Return the record of a row of COLUMNS."""
    record = _entry(row, expires_at=None, expired=False)
    if record.kind != "journal":
        return record
    expires_at = record.created_at + JOURNAL_WINDOW
    return replace(record, expires_at=expires_at, expired=expires_at <= clock.to_datetime(now))


def with_signs(entry: Entry) -> Entry:
    """Return an entry with warning signs for its reviewer, if it is not accepted.

    Takes milliseconds: never call it in a transaction.
    """
    if entry.review == "accepted":
        return entry
    return replace(entry, signs=find_warning_signs(entry.content))


# -- content -----------------------------------------------------------------------------------


def checked_content(value: str, field: str = "content", policy: Policy = OFF) -> str:
    """Return the content to store: stripped, not blank, at most 10,000 characters."""
    if not isinstance(value, str):
        raise Invalid(field=field, problem=f"must be text, not {type(value).__name__}")
    stripped = value.strip()
    if len(stripped) > MAX_CHARACTERS:
        raise TooLarge(field=field, size=len(stripped), unit="characters", limit=MAX_CHARACTERS)
    text = canonical.text(stripped, field, 4 * MAX_CHARACTERS, policy)
    if not canonical.is_visible(text):
        raise Invalid(field=field, problem="must not be blank")
    return text


def list_item(content: str, prefix: str = "") -> str:
    """Return an entry as an item of a Markdown list.

    Its lines after the first are indented, so that none looks like a heading, another entry, or the
    beginning of another turn.
    """
    text = prefix + content
    return f"- {text}" if text.isprintable() else f"- {indent_continuation(text)}"


def indent_continuation(text: str) -> str:
    """Return text with two spaces before each line after the first."""
    if text.isprintable():
        return text  # it has no line break of any kind
    first, *rest = text.splitlines()
    return "\n".join([first, *[f"  {line}" if line.strip() else "" for line in rest]])


def prompt_tokens(content: str) -> int:
    """Estimate the tokens of a content in a prompt."""
    return tokens.estimate(list_item(content))


# -- trust -------------------------------------------------------------------------------------


def initial_review(setting: str, sources: Sequence[str], kind: EntryKind, content: str) -> Review:
    """Return the review status of a new entry of these sources, by the setting `review`."""
    return "pending" if trust.waits(kind, sources, setting, content) else "accepted"


# -- rows --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NewEntry:
    """An entry to insert; times are set for an entry of `export` that has them."""

    agent: str
    kind: EntryKind
    content: str
    source: str
    board: str | None = None
    user: str | None = None
    review: Review = "accepted"
    id: str = field(default_factory=ids.uuid7)
    created_at: int | None = None
    updated_at: int | None = None


def insert(tx: Transaction, new: NewEntry) -> Row | None:
    """Insert an entry; return its COLUMNS, or None if its id exists."""
    created_at = tx.now if new.created_at is None else new.created_at
    return tx.one(
        f"""insert into entries (tenant, id, agent, kind, board, content, tokens, user_id, source,
                                 review, version, created_at, updated_at, checksum)
            values (:tenant, :id, :agent, :kind, :board, :content, :tokens, :user, :source,
                    :review, 1, :created_at, :updated_at, :checksum)
            on conflict do nothing returning {COLUMNS}""",
        **{
            **vars(new),
            "checksum": checksum(new.content),
            "tokens": prompt_tokens(new.content),
            "created_at": created_at,
            "updated_at": max(created_at, new.updated_at or 0),
        },
    )


def imported_entry(
    record: Mapping[str, Any], field: str, owner: Owner, settings: Settings
) -> NewEntry:
    """Return the entry to insert for an entry of `export`, with its times if it has them.

    The source of the record is used only if it is less trusted than an import. The record counts as
    accepted only if none of its sources requires a review.
    """
    if not isinstance(record, Mapping):
        raise Invalid(field=field, problem=f"must be an object, not {type(record).__name__}")
    names = [known.name for known in fields(Entry)]
    unknown = [name for name in record if name not in names]
    if unknown:
        raise Invalid(
            field=f"{field}.{unknown[0]}",
            problem=f"is not a field of an entry; the fields are {', '.join(names)}",
        )
    kind = record.get("kind", "journal")
    if kind not in ("journal", "core"):
        raise Invalid(field=f"{field}.kind", problem=f"must be journal or core, not {kind!r}")
    policy = settings.masking
    id = canonical.name(record["id"], f"{field}.id", policy) if "id" in record else ids.uuid7()
    user = owner.user
    if user is None and record.get("user") is not None:
        user = canonical.key(record["user"], f"{field}.user")
    content = checked_content(record.get("content", ""), f"{field}.content", policy)
    review = record.get("review", "accepted")
    canonical.one_of(review, f"{field}.review", REVIEWS)
    sources = ["import", owner.source]
    if record.get("source") in trust.TRUST_ORDER:
        sources.append(record["source"])
    source = trust.least_trusted(sources)
    if review == "accepted":
        review = initial_review(settings.review, ("import", owner.source, source), kind, content)
    return NewEntry(
        id=id,
        agent=owner.agent or "",
        kind=kind,
        content=content,
        source=source,
        user=user,
        review=review,
        created_at=_timestamp(record.get("created_at"), f"{field}.created_at"),
        updated_at=_timestamp(record.get("updated_at"), f"{field}.updated_at"),
    )


def _timestamp(value: Any, field: str) -> int | None:
    """Return a time of a record, or of its JSON, in microseconds."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise Invalid(
            field=field, problem=f"must be a time like 2026-01-31T12:00:00Z, not {value!r}"
        ) from None
    return clock.from_datetime(moment, field)


# -- documents ---------------------------------------------------------------------------------


def mark(entry: Entry) -> IndexMark:
    """Return the mark of an entry, for the index."""
    return IndexMark(owner_of(entry.user, entry.agent, entry.board), "entries", entry.id)


def _documents(row: Row) -> list[SearchDocument]:
    """Return the documents of a row of COLUMNS.

    An entry on a board has no agent in the index, so that all agents of the board find it.
    """
    id, agent, kind, board, content, user, _, _, created, *_ = row
    return [
        SearchDocument(
            "entries",
            id,
            text,
            created,
            part=part,
            user=user,
            agent=agent if board is None else None,
            board=board,
            author=agent,
            role=kind,
        )
        for part, text in enumerate(split_text(content))
    ]


ENTRY_INDEX = Findable(
    kind="entries",
    key=("id",),
    select=f"""select {COLUMNS} from entries
               where tenant = :tenant and review = 'accepted' and {{where}}""",
    documents=_documents,
    key_of=lambda id, seq: (id,),
    first=("",),
)
