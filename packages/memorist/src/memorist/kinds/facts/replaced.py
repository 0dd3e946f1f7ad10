"""Find messages that answer a question with replaced facts, and the current statements."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from memorist.base import clock
from memorist.base.wording import date_in_words
from memorist.kinds.facts.fact import COLUMNS, FactRow, fact_rows, read_evidence
from memorist.kinds.newer_statement import MessageName, NewerStatement
from memorist.search.query import Query
from memorist.search.words import analyse
from memorist.storage.database import Transaction


def find_replaced(
    tx: Transaction, query: Query, messages: Collection[MessageName], now: int
) -> dict[MessageName, NewerStatement]:
    """Return the messages whose facts were replaced, or at least those that the query asks for.

    "I live in Porto with my dog Rex" answers "Where do I live?" no longer, but still the dog's name.
    """
    user = query.filter.user
    if not messages or (user is not None and not _has_replaced(tx, user)):
        return {}
    sent = [
        (
            message,
            tx.send(
                f"""select {COLUMNS} from facts where tenant = :tenant and id in (
                        select fact_id from fact_evidence evidence
                        where evidence.tenant = :tenant
                        and session_id = :session and seq = :seq and exists (
                            select 1 from fact_events event
                            where event.tenant = :tenant and event.fact_id = evidence.fact_id
                            and event.step = evidence.step and undone = 0))
                    order by learned_at, id""",
                session=message[0],
                seq=message[1],
            ),
        )
        for message in messages
    ]
    stated = {message: fact_rows(result.rows()) for message, result in sent}
    replaced = {
        message: [row for row in rows if row.replaced_by is not None and not _is_true(row, now)]
        for message, rows in stated.items()
    }
    asked = frozenset(query.question.words)
    replaced = {
        message: rows
        for message, rows in replaced.items()
        if _common(asked, rows)
        >= _common(asked, [row for row in stated[message] if _is_true(row, now)])
    }
    newest = _find_newest(tx, [row for rows in replaced.values() for row in rows])
    evidence = read_evidence(tx, list({row.id for row in newest.values()}))
    return {
        message: NewerStatement(
            " ".join(dict.fromkeys(_in_words(row, newest[row.id]) for row in rows)),
            frozenset(
                (said.session, said.seq) for row in rows for said in evidence[newest[row.id].id]
            ),
        )
        for message, rows in replaced.items()
        if rows and all(row.id in newest for row in rows)
    }


def _common(asked: frozenset[str], rows: Sequence[FactRow]) -> int:
    """Return the largest number of question words that any one fact contains."""
    return max((len(asked & set(analyse(row.statement))) for row in rows), default=0)


def _has_replaced(tx: Transaction, user: str) -> bool:
    """Return whether a user has facts that were replaced. A corrected fact counts as retracted."""
    row = tx.one(
        """select 1 from facts where tenant = :tenant and user_id = :user
           and status in ('replaced', 'retracted') and replaced_by is not null limit 1""",
        user=user,
    )
    return row is not None


def _is_true(row: FactRow, now: int) -> bool:
    """Return whether a fact is currently true. A fact with a scheduled change is true until then."""
    if row.status == "active":
        return row.valid_to is None or row.valid_to > now
    return row.replaced_how == "changed" and row.valid_to is not None and row.valid_to > now


def _find_newest(tx: Transaction, replaced: Sequence[FactRow]) -> Mapping[str, FactRow]:
    """Follow `replaced_by` and return the final fact for each replaced fact."""
    sent = {
        row.id: tx.send(
            f"""with recursive newer (id, replaced_by) as (
                    select id, replaced_by from facts where tenant = :tenant and id = :id
                    union
                    select facts.id, facts.replaced_by from newer cross join facts
                    where facts.tenant = :tenant and facts.id = newer.replaced_by)
                select {COLUMNS} from facts where tenant = :tenant
                and replaced_by is null and id in (select id from newer)""",
            id=row.id,
        )
        for row in replaced
    }
    return {id: row for id, result in sent.items() for row in fact_rows(result.rows())}


def _in_words(row: FactRow, newest: FactRow) -> str:
    """Return what is true instead of a replaced fact, and since when."""
    if row.replaced_how == "corrected":
        return f"corrected: {newest.statement}"
    if row.replaced_how == "refined":
        return f"more precisely: {newest.statement}"
    since = next(
        time for time in (newest.valid_from, row.valid_to, newest.learned_at) if time is not None
    )
    return f"since {date_in_words(clock.to_datetime(since))}: {newest.statement}"
