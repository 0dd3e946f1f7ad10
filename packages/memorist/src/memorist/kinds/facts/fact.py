"""A fact: its record, its rows, its evidence and its documents."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, get_args

from memorist.base import canonical, clock
from memorist.base.errors import Invalid, NotFound, TooLarge
from memorist.base.masking import OFF, Policy
from memorist.search.search_document import Findable, IndexMark, SearchDocument, owner_of
from memorist.storage.database import Row, Transaction
from memorist.storage.rows import row_mapper

Status = Literal["active", "replaced", "retracted", "pending"]
STATUSES: tuple[Status, ...] = get_args(Status)
Topic = Literal[
    "identity", "people", "home", "work", "health", "preferences", "plans", "instructions", "other"
]
TOPICS: tuple[Topic, ...] = get_args(Topic)
ABOUT_USER = "user"
"""The subject of facts about the scope's user."""
MAX_SUBJECT_CHARACTERS = 200
MAX_STATEMENT_CHARACTERS = 1_000
MAX_EVIDENCE = 100
"""Messages in one call."""
LATEST = 2**62
EARLIEST = -LATEST
"""Times before and after every other one."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_TIME = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST_TIME = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_SPACES = re.compile(r"\s+")
_USER_NAMES = ("user", "the user", "i", "me", "myself")


ReplacementType = Literal["changed", "refined", "corrected"]
"""Why a fact replaces another: the world changed, it is more exact, or the other was never true."""


@dataclass(frozen=True)
class Evidence:
    """A message that a fact comes from."""

    session: str
    seq: int


@dataclass(frozen=True)
class Fact:
    """A known fact: its words, when it is true, and the messages that support it."""

    id: str
    subject: str
    statement: str
    predicate: str
    object: str
    topic: Topic
    valid_from: datetime | None
    valid_to: datetime | None
    learned_at: datetime
    source: str
    agent: str | None
    confidence: float
    status: Status
    confirmed: bool
    replaces: str | None
    replaced_by: str | None
    conflicts_with: str | None
    evidence: list[Evidence] = field(default_factory=list)


FactAction = Literal[
    "added", "supported", "confirmed", "retracted", "replaced", "refined", "corrected", "undone"
]


@dataclass(frozen=True)
class FactChange:
    """One change of a fact. Changes of the same step were made together and are undone together."""

    fact: str
    statement: str
    action: FactAction
    source: str
    step: str
    undone: bool
    at: datetime
    evidence: list[Evidence] = field(default_factory=list)
    """The messages that led to the change."""


# `stated_to` is the end as it was stated; `valid_to` is earlier if a newer fact replaces this one.
# `replaces_how` says why this fact replaces `replaces`, and `replaced_how` why `replaced_by` replaces it.
COLUMNS = """id, user_id, agent, subject, statement, predicate, object, topic, valid_from, stated_to,
    source, confidence, learned_at, replaces, replaces_how, conflicts_with, needs_review, status,
    confirmed, valid_to, replaced_by, replaced_how"""


class FactRow(NamedTuple):
    """A row of COLUMNS."""

    id: str
    user_id: str
    agent: str | None
    subject: str
    statement: str
    predicate: str
    object: str
    topic: Topic
    valid_from: int | None
    stated_to: int | None
    source: str
    confidence: float
    learned_at: int
    replaces: str | None
    replaces_how: str | None
    conflicts_with: str | None
    needs_review: int
    status: Status
    confirmed: int
    valid_to: int | None
    replaced_by: str | None
    replaced_how: str | None


_fact = row_mapper(Fact, columns=FactRow._fields)


def fact_rows(rows: Iterable[Row]) -> list[FactRow]:
    """Return rows of COLUMNS with names."""
    return [FactRow(*row) for row in rows]


def fact(row: Row, evidence: Sequence[Evidence] = ()) -> Fact:
    """Return the record of a row of COLUMNS."""
    return _fact(row, evidence=list(evidence))


def from_time(moment: datetime | None, field: str) -> int | None:
    """Convert a time at which something became or ceased to be true; it may be before 1970."""
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise Invalid(field=field, problem="must be a datetime")
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise Invalid(
            field=field, problem="has no time zone; add one, as in 2026-01-31T12:00:00+00:00"
        )
    micros = (moment - _EPOCH) // _MICROSECOND
    if not _FIRST_TIME <= micros <= _LAST_TIME:
        raise Invalid(field=field, problem="must lie between the years 1 and 9999, in UTC")
    return micros


TRUE_AT = """(status = 'active' or (
        status = 'replaced' and replaced_how = 'changed' and valid_to is not null))
    and coalesce(valid_from, :earliest) <= :at and coalesce(valid_to, :latest) > :at"""
"""Condition for facts that are true at a time."""


def read_current(tx: Transaction, user: str, size: int) -> list[FactRow]:
    """Return what is true now about a user: confirmed facts first, then new ones."""
    rows = tx.all(
        f"""select {COLUMNS} from facts
            where tenant = :tenant and user_id = :user and {TRUE_AT}
            order by confirmed desc, learned_at desc, id desc limit :size""",
        user=user,
        at=tx.now,
        earliest=EARLIEST,
        latest=LATEST,
        size=size,
    )
    return fact_rows(rows)


def count_current(tx: Transaction, user: str) -> int:
    """Return how many facts about a user are true now."""
    row = tx.one(
        f"""select count(*) from facts
            where tenant = :tenant and user_id = :user and {TRUE_AT}""",
        user=user,
        at=tx.now,
        earliest=EARLIEST,
        latest=LATEST,
    )
    return int((row or (0,))[0])


# -- content -----------------------------------------------------------------------------------


def checked_text(value: str, field: str, limit: int, policy: Policy = OFF) -> str:
    """Return a text as it is stored: on one line, not blank, and not too long."""
    text = optional_text(value, field, limit, policy)
    if not canonical.is_visible(text):
        raise Invalid(field=field, problem="must not be blank")
    return text


def optional_text(value: str, field: str, limit: int, policy: Policy = OFF) -> str:
    """Return a text as it is stored: on one line and not too long."""
    if not isinstance(value, str):
        raise Invalid(field=field, problem=f"must be text, not {type(value).__name__}")
    text = _SPACES.sub(" ", value).strip()
    if len(text) > limit:
        raise TooLarge(field=field, size=len(text), unit="characters", limit=limit)
    return canonical.text(text, field, 4 * limit, policy)


def subject_name(value: str, field: str, policy: Policy = OFF) -> str:
    """Return the name of a subject as it is stored; the user is always `user`."""
    name = checked_text(value, field, MAX_SUBJECT_CHARACTERS, policy)
    return ABOUT_USER if name.casefold() in _USER_NAMES else name


def comparison_key(text: str) -> str:
    """Return a short key that is equal for texts that differ in case, spaces or end mark."""
    plain = _SPACES.sub(" ", text).strip().rstrip(".!").casefold()
    return hashlib.blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# -- evidence ----------------------------------------------------------------------------------


def parse_evidence(values: Sequence[str]) -> list[Evidence]:
    """Parse messages that are named as SESSION#NUMBER."""
    checked = canonical.check_list(values, "evidence", MAX_EVIDENCE) if values else ()
    return [_parse_message(value, f"evidence[{n}]") for n, value in enumerate(checked)]


def _parse_message(value: str, field: str) -> Evidence:
    session, mark, number = value.rpartition("#") if isinstance(value, str) else ("", "", "")
    if not mark or not number.isascii() or not number.isdigit() or len(number) > 15:
        raise Invalid(field=field, problem=f"must be SESSION#NUMBER, such as trip#4, not {value!r}")
    return Evidence(canonical.key(session, field), int(number))


def lock_messages(tx: Transaction, user: str, evidence: Sequence[Evidence]) -> None:
    """Keep messages from being removed; raise NotFound unless each is in a session of the user."""
    for session in sorted({message.session for message in evidence}):
        tx.lock_rows("select 1 from sessions where tenant = :tenant and id = :id", id=session)
    for message in evidence:
        row = tx.one(
            """select 1 from messages join sessions
               on sessions.tenant = :tenant and sessions.id = messages.session_id
               where messages.tenant = :tenant and session_id = :session and seq = :seq
               and chatter < 2 and user_id = :user""",
            session=message.session,
            seq=message.seq,
            user=user,
        )
        if row is None:
            raise NotFound(what="message", id=f"{message.session}#{message.seq}")


def lock_facts(tx: Transaction, user: str) -> None:
    """Serialize all changes to the facts of a user. Lock messages first."""
    tx.lock(f"facts {user}")


def read_evidence(tx: Transaction, fact_ids: Sequence[str]) -> Mapping[str, list[Evidence]]:
    """Return the messages of facts, by the fact's id, without those of steps that were undone."""
    sent = {
        id: tx.send(
            """select session_id, seq from fact_evidence evidence
               where tenant = :tenant and fact_id = :id and exists (
                   select 1 from fact_events event
                   where event.tenant = :tenant and event.fact_id = :id
                   and event.step = evidence.step and undone = 0)""",
            id=id,
        )
        for id in fact_ids
    }
    return {
        id: [Evidence(session, seq) for session, seq in sorted(set(result.rows()))]
        for id, result in sent.items()
    }


CHANGE_COLUMNS = """event.created_at, step, fact_id, number, statement, action, actor, undone"""


def read_changes(tx: Transaction, rows: Sequence[Row]) -> list[FactChange]:
    """Return the records of rows of CHANGE_COLUMNS, each with the messages that led to it."""
    evidence = [
        tx.send(
            """select session_id, seq from fact_evidence
               where tenant = :tenant and fact_id = :id and step = :step
               order by session_id, seq""",
            id=fact_id,
            step=step,
        )
        for _, step, fact_id, *_ in rows
    ]
    return [
        FactChange(
            fact=fact_id,
            statement=statement,
            action=action,
            source=actor,
            step=step,
            undone=bool(undone),
            at=clock.to_datetime(created_at),
            evidence=[Evidence(session, seq) for session, seq in messages.rows()],
        )
        for (created_at, step, fact_id, _, statement, action, actor, undone), messages in zip(
            rows, evidence, strict=True
        )
    ]


def change_position(row: Row) -> list[int | str]:
    """Return the cursor of a row of CHANGE_COLUMNS."""
    return list(row[:4])


# -- documents ---------------------------------------------------------------------------------


def mark(user: str, id: str) -> IndexMark:
    """Return the mark of a fact about a user, for the index."""
    return IndexMark(owner_of(user), "facts", id)


def _documents(row: Row) -> list[SearchDocument]:
    """Return the document of a row of COLUMNS; it expires when the fact ceases to be true."""
    known = FactRow(*row)
    title = "" if known.subject == ABOUT_USER else known.subject
    valid_from = known.valid_from
    if valid_from is not None and valid_from > known.learned_at:
        title = f"{title or 'the user'} from {clock.to_datetime(valid_from):%Y-%m-%d}"
    return [
        SearchDocument(
            "facts",
            known.id,
            known.statement,
            known.learned_at,
            user=known.user_id,
            title=title,
            expires_at=known.valid_to,
        )
    ]


FACT_INDEX = Findable(
    kind="facts",
    key=("id",),
    select=f"""select {COLUMNS} from facts
               where tenant = :tenant and (
                   status = 'active' or (status = 'replaced' and replaced_how = 'changed'))
               and {{where}}""",
    documents=_documents,
    key_of=lambda id, seq: (id,),
    first=("",),
)
"""Facts that are or were true; others can no longer be found."""
