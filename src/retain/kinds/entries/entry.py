"""An entry: its record, its content, its source, its row and its index rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from retain.base import canonical, clock, ids, tokens
from retain.base.errors import Invalid, TooLarge
from retain.base.masking import OFF, Policy
from retain.search.index import split_text
from retain.search.reindexer import Findable, Place
from retain.search.search_engine import Item as IndexRow
from retain.storage.database import Row, Transaction
from retain.text.warning_signs import find_warning_signs

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
TRUST_ORDER = ("admin", "user", "agent", "import", "tool")
"""Sources, the most trusted first. A person chose an import; a tool may return any text."""
REVIEWERS = ("admin", "user")
"""Sources that are people. They may review the entries of the other sources."""


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


def entry(row: Row, now: int) -> Entry:
    """Return the record of a row of COLUMNS."""
    id, agent, kind, board, content, user, source, version, created, updated, review = row
    expires = created + JOURNAL_WINDOW_MICROS if kind == "journal" else None
    return Entry(
        id,
        agent,
        kind,
        board,
        content,
        user,
        source,
        version,
        clock.to_datetime(created),
        clock.to_datetime(updated),
        clock.to_datetime_or_none(expires),
        expires is not None and expires <= now,
        review,
    )


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


def least_trusted(sources: Iterable[str]) -> str:
    """Return the least trusted of several sources: the source of text derived from all of them."""
    ranks = {name: rank for rank, name in enumerate(TRUST_ORDER)}
    return max(sources, key=lambda name: ranks.get(name, len(TRUST_ORDER)))


def initial_review(setting: str, sources: Sequence[str], kind: str) -> Review:
    """Return the review status of a new entry of these sources, by the setting `review`."""
    words = setting.split(",")
    if kind == "journal" and kind not in words:
        return "accepted"
    return "pending" if any(source in words for source in sources) else "accepted"


# -- rows --------------------------------------------------------------------------------------


def new_row(
    id: str,
    agent: str,
    kind: EntryKind,
    board: str | None,
    content: str,
    user: str | None,
    source: str,
    review: Review = "accepted",
) -> dict[str, Any]:
    """Return the values of a new row, without its times."""
    return {
        "id": id,
        "agent": agent,
        "kind": kind,
        "board": board,
        "content": content,
        "tokens": prompt_tokens(content),
        "user": user,
        "source": source,
        "review": review,
    }


def insert(tx: Transaction, values: Mapping[str, Any], created: int, updated: int) -> Row | None:
    """Insert a row; return its COLUMNS, or None if its id exists."""
    return tx.one(
        f"""insert into entries (tenant, id, agent, kind, board, content, tokens, user_id, source,
                                 review, version, created_at, updated_at)
            values (:tenant, :id, :agent, :kind, :board, :content, :tokens, :user, :source,
                    :review, 1, :created_at, :updated_at)
            on conflict do nothing returning {COLUMNS}""",
        **values,
        created_at=created,
        updated_at=updated,
    )


def imported_row(
    record: Mapping[str, Any],
    field: str,
    agent: str,
    user: str | None,
    source: str,
    review_setting: str,
    policy: Policy = OFF,
) -> dict[str, Any]:
    """Return the values of a row for an entry of `export`, with its times or None.

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
    id = canonical.name(record["id"], f"{field}.id", policy) if "id" in record else ids.uuid7()
    if user is None and record.get("user") is not None:
        user = canonical.key(record["user"], f"{field}.user")
    content = checked_content(record.get("content", ""), f"{field}.content", policy)
    review = record.get("review", "accepted")
    if review not in REVIEWS:
        raise Invalid(
            field=f"{field}.review",
            problem=f"must be one of {', '.join(REVIEWS)}, not {review!r}",
        )
    sources = ["import", source]
    if record.get("source") in TRUST_ORDER:
        sources.append(record["source"])
    stored_source = least_trusted(sources)
    if review == "accepted":
        review = initial_review(review_setting, ("import", source, stored_source), kind)
    return {
        **new_row(id, agent, kind, None, content, user, stored_source, review),
        "created_at": _timestamp(record.get("created_at"), f"{field}.created_at"),
        "updated_at": _timestamp(record.get("updated_at"), f"{field}.updated_at"),
    }


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


# -- index rows --------------------------------------------------------------------------------


def index_rows(row: Row, texts: Sequence[str] | None = None) -> list[IndexRow]:
    """Return the index rows of a row of COLUMNS; none if it is not accepted.

    An entry on a board has no agent in the index, so that all agents of the board find it.
    texts: the content in parts, if the caller has split it already
    """
    id, agent, kind, board, content, user, _, _, created, _, review = row
    if review != "accepted":
        return []
    return [
        IndexRow(
            "entries",
            id,
            text,
            created,
            0,
            part,
            user,
            agent if board is None else None,
            board,
            author=agent,
            role=kind,
        )
        for part, text in enumerate(split_text(content) if texts is None else texts)
    ]


def _missing_from_index(tx: Transaction, after: Place, size: int) -> Sequence[Row]:
    return tx.all(
        f"""select {COLUMNS} from entries
            where tenant = :tenant and id > :id and review = 'accepted' and not exists (
                select 1 from search_items existing
                where existing.tenant = :tenant and existing.kind = 'entries'
                and existing.id = entries.id)
            order by id limit :size""",
        id=after[0],
        size=size,
    )


def _stray_in_index(tx: Transaction, size: int) -> Sequence[Row]:
    return tx.all(
        """select number, 'entry ' || id from search_items
           where tenant = :tenant and kind = 'entries' and not exists (
               select 1 from entries
               where entries.tenant = :tenant and entries.id = search_items.id
               and entries.review = 'accepted')
           limit :size""",
        size=size,
    )


def _lock_entries(tx: Transaction, keys: Sequence[Place]) -> None:
    for (id,) in sorted(keys):
        tx.lock_rows("select 1 from entries where tenant = :tenant and id = :id", id=id)


ENTRY_INDEX = Findable(
    "entries",
    ("",),
    _missing_from_index,
    _stray_in_index,
    _lock_entries,
    lambda row, _: index_rows(row),
)
