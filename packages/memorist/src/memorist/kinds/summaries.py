"""Summaries: the rolling summary of each session, and the messages that it covers.

A fold takes the messages that the summary does not cover, except the newest ones. It has a new
summary written from the old one and these messages, and commits it only if nothing changed
meanwhile. Messages are never changed: `expand` returns those that a summary covers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any

from memorist.base import canonical, limits, masking
from memorist.base import tokens as counting
from memorist.base.errors import Conflict, NotFound
from memorist.base.parameters import Key, Number, PageSize
from memorist.base.verbs import verb
from memorist.content import pairing
from memorist.content.fold_points import FoldMessage, FoldPoint, fold_points
from memorist.content.message import Message, records
from memorist.content.message_content import is_notice
from memorist.kinds.kind import ChangeSubject, Check, Kind, Table, own_session
from memorist.kinds.page import Page, make_page, page_start
from memorist.kinds.section import Ask, Piece, Section
from memorist.models import summarizer
from memorist.storage import leases
from memorist.storage.checksum import checksum
from memorist.storage.database import Row, Sent, Transaction
from memorist.storage.rows import row_mapper
from memorist.storage.tables import OF_AGENT_SESSION

ROUTE = "summary"
"""The route of a summary's model calls in the interactions."""
HEADING = "Summary of the conversation so far:"
_OWNED = "session_id in (select id from sessions where tenant = :tenant and user_id = :user)"
_MESSAGES = """select seq, role, content, author, tokens, tokens_in, tokens_out, cost, created_at from messages
               where tenant = :tenant and session_id = :session and seq between :first and :last and chatter < 2
               order by seq limit :size"""
_NEWEST_SUMMARY = """select number, covers_from, covers_to, digest, text, tokens, model, prompt_version, created_at from summaries
             where tenant = :tenant and session_id = :session order by number desc limit 1"""
_LAST_MESSAGE = "select seq from messages where tenant = :tenant and session_id = :session order by seq desc limit 1"
_MESSAGE_COUNT = """select count(*) from messages
            where tenant = :tenant and session_id = :session and seq >= :begin and chatter < 2"""
_NEWEST_OWN_SUMMARY = """select number, covers_to, text from summaries where tenant = :tenant and session_id = :session and exists (
                select 1 from sessions where tenant = :tenant and id = :session and user_id = coalesce(:user, user_id))
            order by number desc limit 1"""
_MAX_ROWS_PER_READ = 500
_MAX_TURNS = 5_000
"""Turns per fold. A tool result is searched for within a fifth of that after its call."""
_TOOL_MARKERS = (
    "parts",
    "tool",
    "function_call",
    "\\u",
)
"""Content without any of these has no tool call and no tool result."""
_NO_PARTS: dict[str, Any] = {}
_MAX_SEQ = 2**53
_MAX_ATTEMPTS = 3


@dataclass(frozen=True)
class Summary:
    """One fold: the summary as of then, and the messages that this fold added to it.

    A session that was never folded has one with number 0 and no text.
    """

    session: str
    number: int
    covers_from: int
    covers_to: int
    digest: str
    text: str
    tokens: int
    model: str
    prompt_version: int
    created_at: datetime | None


@dataclass(frozen=True)
class _Goal:
    """The points where a fold may end, in order; `more` if messages follow after `_MAX_TURNS`."""

    cuts: Sequence[FoldPoint]
    more: bool


@dataclass(frozen=True)
class _FoldStep:
    """The next messages to fold: their first number, their hash and the summary before them."""

    before: Summary
    first: int
    messages: list[Message]
    digest: str


_summary_of_row = row_mapper(Summary, besides=["session"])


def _summary(session: str, row: Row | None) -> Summary:
    if row is None:
        row = (0, 0, 0, "", "", 0, "", 0, None)
    return _summary_of_row(row, session=session)


class Summaries(Kind):
    """The rolling summaries of sessions."""

    name = "summaries"
    tables = (
        Table(
            "summaries",
            order="session_id, number",
            owned=_OWNED,
            of_agent=OF_AGENT_SESSION,
            checked=("text",),
        ),
    )
    checks = (
        Check(
            "summaries cover every message once",
            """select 'summary ' || cast(number as {text}) || ' of session ' || session_id from (
                   select session_id, number, covers_from, covers_to, first_seq,
                          lag(number, 1, 0) over (partition by session_id order by number) as number_before,
                          lag(covers_to, 1, 0) over (partition by session_id order by number) as covered_before
                   from summaries join sessions on sessions.tenant = :tenant and sessions.id = summaries.session_id
                   where summaries.tenant = :tenant) found
               where number <> number_before + 1 or (covers_to > 0 or number > 1) and (
                   covers_to < covers_from or covers_from <= covered_before
                   or (covers_from > covered_before + 1 and covers_from > first_seq))""",
        ),
        Check(
            "a session has its newest summary",
            """select 'session ' || id from sessions where tenant = :tenant and (
                   summary <> coalesce((select text from summaries where summaries.tenant = :tenant
                                        and session_id = sessions.id order by number desc limit 1), '')
                   or summarized_count <> coalesce((select covers_to from summaries where summaries.tenant = :tenant
                                                    and session_id = sessions.id order by number desc limit 1), 0))""",
        ),
        Check("summaries match the messages that they cover", find=lambda tx: list(_not_seen(tx))),
    )

    @verb("GET /summaries/{session:path}", effect="read", example="memorist summaries get trip")
    def get(self, session: Key) -> Summary:
        """Return the newest summary of a session; number 0 and empty text before the first."""
        canonical.key(session, "session")

        def work(tx: Transaction) -> Summary:
            own_session(tx, self._owner, session)
            return _summary(session, tx.one(_NEWEST_SUMMARY, session=session))

        return self._read(work)

    @verb(
        "GET /summaries/{session:path}/messages",
        effect="read",
        example="memorist summaries expand trip --limit 50",
    )
    def expand(
        self,
        session: Key,
        *,
        number: Number | None = None,
        after: str | None = None,
        limit: PageSize = 100,
    ) -> Page[Message]:
        """Return the messages that the summary covers; with `number`, those that one fold added."""
        canonical.key(session, "session")
        if number is not None:
            canonical.check_integer(number, "number", 1)
        size, (start,) = page_start(limit, after, 0)

        def work(tx: Transaction) -> list[Message]:
            first = own_session(tx, self._owner, session)
            last = _summary(session, tx.one(_NEWEST_SUMMARY, session=session)).covers_to
            if number is not None:
                range_ = tx.one(
                    """select covers_from, covers_to from summaries
                       where tenant = :tenant and session_id = :session and number = :number""",
                    session=session,
                    number=number,
                )
                if range_ is None:
                    raise NotFound(what="summary", id=number)
                first = max(first, range_[0])
                last = range_[1]
            return _messages(tx, session, max(first, start + 1), last, size + 1)

        return make_page(self._read(work), size, lambda message: [message.seq])

    @verb(
        "POST /summaries/{session:path}/fold",
        effect="add",
        calls_model="main",
        example="memorist summaries fold trip --force",
    )
    def fold(self, session: Key, *, force: bool = False) -> Summary:
        """Fold the messages that are due into the summary, and return the newest summary.

        `force` ignores the `summary_enabled` and `summary_threshold` settings. Returns the current
        summary unchanged if nothing is due or another process folds the session. Raises
        `ModelError` and changes nothing if the model fails.
        """
        canonical.key(session, "session")
        if not self._read(lambda tx: self._waiting(tx, session, force)):
            return self.get(session)
        self._writer("")  # raises if there is no writer
        what = "fold " + hashlib.sha256(session.encode()).hexdigest()
        with leases.held(self._database, self._owner.tenant, what, self._lease_seconds) as lease:
            if lease is not None:
                with suppress(_LeaseLost):
                    self._until_done(session, force, lease)
        return self.get(session)

    def section(self, tx: Transaction, ask: Ask) -> Section | None:
        """Return the summary, if summaries are enabled and there is one."""
        row = (
            tx.one(_NEWEST_OWN_SUMMARY, session=ask.session, user=self._owner.user)
            if self._settings.summary_enabled
            else None
        )
        if row is None:
            return None
        number, covers_to, summary = row
        text = f"{HEADING}\n{summary}"
        reason = f"covers the messages up to {covers_to}" if covers_to else "covers no message"
        return Section(
            "summary",
            [Piece(f"summaries {number}", text, counting.estimate(text), reason)],
            cut_notice="",
        )

    @property
    def _lease_seconds(self) -> float:
        """The longest time of one model call, plus time to commit."""
        return self._settings.model_seconds + 30.0

    def _writer(self, previous: str, session: str | None = None) -> summarizer.SummaryWriter:
        """Return the writer of the next summary of a session."""
        model = self._services.models.summary
        watched = (
            None if model is None else self._services.watched(model, self._owner, ROUTE, session)
        )
        return summarizer.choose_writer(self._settings, watched, previous)

    def _until_done(self, session: str, force: bool, lease: leases.Lease) -> None:
        """Fold step by step; each step is committed on its own."""

        def still_ours() -> None:
            if not leases.renew(self._database, lease, self._lease_seconds):
                raise _LeaseLost

        tries = 0
        while tries < _MAX_ATTEMPTS:
            goal = self._goal(session, force)
            while step := self._step(session, goal):
                writer = self._writer(step.before.text, session)
                without_notices = [
                    message for message in step.messages if not is_notice(message.content)
                ]
                written = writer.write(
                    step.before.text, without_notices or step.messages, still_ours
                )
                policy = masking.derived(self._settings.masking)
                written = replace(written, text=masking.guard(written.text, "summary", policy))
                if not self._write(
                    "fold",
                    lambda tx, s=step, w=written: _commit(tx, s, w, lease),  # type: ignore[misc]
                    row=ChangeSubject(session=session),
                    idempotent=True,
                ):
                    tries += 1
                    break
            else:
                if not (goal.more and goal.cuts):
                    return
        raise Conflict(
            problem=f"the messages of session {session!r} changed while they were summarised; try again"
        )

    def _waiting(self, tx: Transaction, session: str, force: bool) -> int:
        """Return the number of the first message to fold, 0 if nothing is due."""
        begin = _begin(tx, session, own_session(tx, self._owner, session))
        last = tx.one(_LAST_MESSAGE, session=session) or (0,)
        min_messages = 0 if force else self._settings.summary_threshold
        min_messages = max(min_messages, self._settings.summary_keep_last)
        if not (force or self._settings.summary_enabled) or last[0] - begin + 1 <= min_messages:
            return 0
        return begin if there(tx, session, begin) > min_messages else 0

    def _goal(self, session: str, force: bool) -> _Goal:
        """Return the points where the due messages may be cut; none if nothing is due."""
        keep = self._settings.summary_keep_last
        patience = 2 * self._settings.summary_threshold

        def work(tx: Transaction) -> _Goal:
            begin = self._waiting(tx, session, force)
            turns = list(islice(_turns(tx, session, begin), _MAX_TURNS)) if begin else []
            more = len(turns) == _MAX_TURNS
            return _Goal(
                fold_points(turns, max(keep, _MAX_TURNS // 5) if more else keep, patience),
                more,
            )

        return self._read(work)

    def _step(self, session: str, goal: _Goal) -> _FoldStep | None:
        """Return the messages for the next model call: as many as fit, at least one fold point."""

        def work(tx: Transaction) -> _FoldStep | None:
            begin = _begin(tx, session, own_session(tx, self._owner, session))
            before = _summary(session, tx.one(_NEWEST_SUMMARY, session=session))
            room = self._writer(before.text).room
            upto = 0
            spent = 0
            for place in [place for place in goal.cuts if place.seq >= begin]:
                spent += place.tokens
                if upto and spent > room:
                    break
                upto = place.seq
            messages = _messages(tx, session, begin, upto, _MAX_SEQ)
            return _FoldStep(before, begin, messages, _digest(messages)) if messages else None

        return self._read(work)

    @verb(
        "GET /summaries/{session:path}/all",
        effect="read",
        example="memorist summaries list trip --limit 5",
    )
    def list(
        self, session: Key, *, after: str | None = None, limit: PageSize = 100
    ) -> Page[Summary]:
        """Return every summary of a session, newest first."""
        canonical.key(session, "session")
        size, (before,) = page_start(limit, after, _MAX_SEQ)

        def work(tx: Transaction) -> Sent:
            own_session(tx, self._owner, session)
            return tx.send(
                """select number, covers_from, covers_to, digest, text, tokens, model, prompt_version, created_at
                   from summaries where tenant = :tenant and session_id = :session and number < :before
                   order by number desc limit :size""",
                session=session,
                before=before,
                size=size + 1,
            )

        return make_page(
            [_summary(session, row) for row in self._read_rows(work, allow_replica=True)],
            size,
            lambda summary: [summary.number],
        )


class _LeaseLost(Exception):
    """Raised when another process took the lease or committed first."""


def there(tx: Transaction, session: str, begin: int) -> int:
    """Return the number of messages from `begin` on, without the removed ones."""
    row = tx.one(_MESSAGE_COUNT, session=session, begin=begin)
    return int((row or (0,))[0])


def _begin(tx: Transaction, session: str, first_seq: int) -> int:
    """Return the number of the first message that no summary covers."""
    covered = tx.one(
        "select summarized_count from sessions where tenant = :tenant and id = :session",
        session=session,
    )
    return max(int((covered or (0,))[0]) + 1, first_seq)


def _turns(tx: Transaction, session: str, begin: int) -> Iterator[FoldMessage]:
    """Yield the messages from a number on, with only the ids of their tool calls and results."""
    while rows := tx.all(
        _MESSAGES, session=session, first=begin, last=_MAX_SEQ, size=_MAX_ROWS_PER_READ
    ):
        for message in records(session, rows):
            parts = []
            if message.role == "tool" or any(word in message.raw for word in _TOOL_MARKERS):
                parts += [
                    {"type": "tool_call", "id": call.id}
                    for call in pairing.tool_calls(message.content)
                ]
                results = pairing.tool_results(message.role, message.content)
                parts += [{"type": "tool_result", "id": result.id} for result in results]
            yield FoldMessage(
                message.seq, message.role, message.tokens, {"parts": parts} if parts else _NO_PARTS
            )
        begin = rows[-1][0] + 1


def _commit(
    tx: Transaction, step: _FoldStep, written: summarizer.WrittenSummary, lease: leases.Lease
) -> bool:
    """Store a summary; return False if the messages changed since they were read.

    Raises `_LeaseLost` if the summary before it is no longer the newest, or the lease was lost.
    """
    before = step.before
    session = before.session
    tx.lock_rows("select 1 from sessions where tenant = :tenant and id = :session", session=session)
    newest = _summary(session, tx.one(_NEWEST_SUMMARY, session=session))
    if (newest.number, newest.digest, newest.text) == (
        before.number + 1,
        step.digest,
        written.text,
    ):
        return True  # this commit already succeeded, but its response was lost
    if newest != before or not leases.is_held(tx, lease):
        raise _LeaseLost
    first = step.first
    last = step.messages[-1].seq
    if _digest(_messages(tx, session, first, last, _MAX_SEQ)) != step.digest:
        return False
    _insert_summary(
        tx,
        session,
        number=before.number + 1,
        first=first,
        last=last,
        digest=step.digest,
        text=written.text,
        model=written.model,
        version=written.prompt_version,
    )
    return True


def _insert_summary(tx: Transaction, session: str, *, text: str, last: int, **values: Any) -> None:
    tx.send(
        """insert into summaries (tenant, session_id, number, covers_from, covers_to, digest, text, tokens, model,
                                  prompt_version, created_at, checksum)
           values (:tenant, :session, :number, :first, :last, :digest, :text, :tokens, :model, :version, :now,
                   :checksum)""",
        session=session,
        text=text,
        last=last,
        checksum=checksum(text),
        tokens=counting.estimate(text),
        **values,
    )
    tx.send(
        "update sessions set summary = :text, summarized_count = :last where tenant = :tenant and id = :session",
        session=session,
        text=text,
        last=last,
    )


def add_imported(summaries: Summaries, session: str, text: str, count: int) -> bool:
    """Add the first summary of a session, of its first `count` messages, as another system wrote it.

    With 0, where the other system does not say what it covers, all messages stay in prompts beside it.
    Return False if the session has a summary already, or fewer messages.
    """
    policy = masking.derived(summaries._settings.masking)
    text = canonical.text(text, "summary", limits.MAX_MESSAGE_BYTES, policy)

    def work(tx: Transaction) -> bool:
        own_session(tx, summaries._owner, session)
        tx.lock_rows(
            "select 1 from sessions where tenant = :tenant and id = :session", session=session
        )
        messages = _messages(tx, session, 1, count, _MAX_SEQ)
        if tx.one(_NEWEST_SUMMARY, session=session) is not None or len(messages) != count:
            return False
        _insert_summary(
            tx,
            session,
            number=1,
            first=min(1, count),
            last=count,
            digest=_digest(messages),
            text=text,
            model="import",
            version=0,
        )
        return True

    return summaries._write("fold", work, row={"session_id": session})


def _messages(tx: Transaction, session: str, first: int, last: int, size: int) -> list[Message]:
    return records(session, tx.all(_MESSAGES, session=session, first=first, last=last, size=size))


def _digest(messages: Sequence[Message]) -> str:
    """Return a hash of the content, role and author of messages."""
    digest = hashlib.sha256()
    for message in messages:
        line = json.dumps(
            [message.seq, message.role, message.author, message.raw], ensure_ascii=False
        )
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def _not_seen(tx: Transaction) -> Iterator[str]:
    """Yield the summaries whose messages all exist, but have changed since the summary."""
    for session, number, first, last, digest in tx.all(
        "select session_id, number, covers_from, covers_to, digest from summaries where tenant = :tenant order by 1, 2"
    ):
        messages = _messages(tx, session, first, last, _MAX_SEQ)
        if len(messages) == last - first + 1 and _digest(messages) != digest:
            yield f"summary {number} of session {session}"
