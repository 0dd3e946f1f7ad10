"""A fact: its record, its rows, its evidence and its index rows."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

from retain.base import canonical
from retain.base.errors import Invalid, NotFound, TooLarge
from retain.base.masking import OFF, Policy
from retain.search.reindexer import Findable, Place
from retain.search.search_engine import Item as IndexRow
from retain.storage.database import Row, Transaction

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
PEOPLE = ("user", "admin")
"""Sources that are people. They confirm and correct facts; learning never overrules them."""
REVIEWED_SOURCES = ("tool", "import")
"""Sources whose facts wait until a person has confirmed them."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SPACES = re.compile(r"\s+")


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
    evidence: list[Evidence] = field(default_factory=list)


@dataclass(frozen=True)
class FactChange:
    """One change of a fact. Changes of the same step were made together and are undone together."""

    fact: str
    statement: str
    action: str
    source: str
    step: str
    at: datetime


COLUMNS = """id, user_id, agent, subject, statement, predicate, object, topic, valid_from, valid_to,
    learned, confirmed, confidence, source, status, replaces, replaced_by, learned_at"""


def fact(row: Row, evidence: Sequence[Evidence] = ()) -> Fact:
    """Return the record of a row of COLUMNS."""
    values = dict(zip(_NAMES, row, strict=True))
    return Fact(
        id=values["id"],
        subject=values["subject"],
        statement=values["statement"],
        predicate=values["predicate"],
        object=values["object"],
        topic=values["topic"],
        valid_from=to_time(values["valid_from"]),
        valid_to=to_time(values["valid_to"]),
        learned_at=_EPOCH + timedelta(microseconds=values["learned_at"]),
        source=values["source"],
        agent=values["agent"],
        confidence=values["confidence"],
        status=values["status"],
        confirmed=bool(values["confirmed"]),
        replaces=values["replaces"],
        replaced_by=values["replaced_by"],
        evidence=list(evidence),
    )


_NAMES = [name.strip() for name in COLUMNS.split(",")]


def column(row: Row, name: str) -> Any:
    """Return one column of a row of COLUMNS."""
    return row[_NAMES.index(name)]


def to_time(micros: int | None) -> datetime | None:
    """Convert stored microseconds, which may be before 1970."""
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)


def from_time(moment: datetime | None, field: str) -> int | None:
    """Convert a time at which something became or ceased to be true; any year is allowed."""
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise Invalid(field=field, problem="must be a datetime")
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise Invalid(
            field=field, problem="has no time zone; add one, as in 2026-01-31T12:00:00+00:00"
        )
    return (moment - _EPOCH) // timedelta(microseconds=1)


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
    """Return the messages of facts, by the fact's id."""
    by_fact: dict[str, list[Evidence]] = {id: [] for id in fact_ids}
    if not by_fact:
        return by_fact
    # Ids are ordered by time, so the facts of a page are next to each other.
    rows = tx.all(
        """select fact_id, session_id, seq from fact_evidence
           where tenant = :tenant and fact_id >= :first and fact_id <= :last
           order by fact_id, session_id, seq""",
        first=min(by_fact),
        last=max(by_fact),
    )
    for id, session, seq in rows:
        if id in by_fact:
            by_fact[id].append(Evidence(session, seq))
    return by_fact


def add_evidence(tx: Transaction, id: str, evidence: Sequence[Evidence]) -> None:
    """Link a fact to messages; links that exist are kept."""
    tx.many(
        """insert into fact_evidence (tenant, fact_id, session_id, seq)
           values (:tenant, :id, :session, :seq) on conflict do nothing""",
        [{"id": id, "session": message.session, "seq": message.seq} for message in evidence],
    )


# -- index rows --------------------------------------------------------------------------------


def index_rows(row: Row) -> list[IndexRow]:
    """Return the index rows of a row of COLUMNS; none if the fact is not active."""
    if column(row, "status") != "active":
        return []
    subject = column(row, "subject")
    return [
        IndexRow(
            "facts",
            column(row, "id"),
            column(row, "statement"),
            column(row, "learned_at"),
            user=column(row, "user_id"),
            title="" if subject == ABOUT_USER else subject,
        )
    ]


def _missing_from_index(tx: Transaction, after: Place, size: int) -> Sequence[Row]:
    return tx.all(
        f"""select {COLUMNS} from facts
            where tenant = :tenant and id > :id and status = 'active' and not exists (
                select 1 from search_items existing
                where existing.tenant = :tenant and existing.kind = 'facts'
                and existing.id = facts.id)
            order by id limit :size""",
        id=after[0],
        size=size,
    )


def _stray_in_index(tx: Transaction, size: int) -> Sequence[Row]:
    return tx.all(
        """select number, 'fact ' || id from search_items
           where tenant = :tenant and kind = 'facts' and not exists (
               select 1 from facts
               where facts.tenant = :tenant and facts.id = search_items.id
               and facts.status = 'active')
           limit :size""",
        size=size,
    )


def _lock_facts(tx: Transaction, keys: Sequence[Place]) -> None:
    for (id,) in sorted(keys):
        tx.lock_rows("select 1 from facts where tenant = :tenant and id = :id", id=id)


FACT_INDEX = Findable(
    "facts",
    ("",),
    _missing_from_index,
    _stray_in_index,
    _lock_facts,
    lambda row, _: index_rows(row),
)
