"""Learn facts from the unread turns of a session, in one transaction with its position.

The position of a session is the last message that was read. A commit moves it only if nobody else
did and the messages that were read are still there, so that each turn is read once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memorist.base import clock
from memorist.base.errors import Invalid, TooLarge
from memorist.base.masking import Policy
from memorist.content.message import TURN, Message, records
from memorist.content.message_content import is_notice
from memorist.kinds import trust
from memorist.kinds.facts.chain import LEARNING
from memorist.kinds.facts.changes import FactStep, NewFact, find_denied
from memorist.kinds.facts.entities import is_ambiguous, is_role, learn_name
from memorist.kinds.facts.fact import (
    ABOUT_USER,
    COLUMNS,
    MAX_STATEMENT_CHARACTERS,
    MAX_SUBJECT_CHARACTERS,
    Evidence,
    Fact,
    checked_text,
    comparison_key,
    fact,
    from_time,
    lock_facts,
    optional_text,
    subject_name,
)
from memorist.learning.proposal import Proposal
from memorist.learning.resolution import (
    ENDED,
    Decision,
    Known,
    MessagePosition,
    content_words,
    decide,
    is_exclusive,
    stored_predicate,
)
from memorist.learning.source_message import SourceMessage, source_of
from memorist.search.index import Index
from memorist.storage.database import Transaction

MAX_TURNS = 40
"""Turns that are read at once."""
MAX_TURN_TOKENS = 6_000
"""The tokens of these turns."""
MAX_MESSAGES = 400
"""Messages that are read at once, including those of tools."""
EARLIER_TURNS = 6
"""Turns before these, which they may answer."""
MAX_SHOWN_FACTS = 60
"""Known facts that are offered for a prompt, which shows as many as fit."""
MAX_RANKED_FACTS = 300
"""The newest facts about each subject, among which those are chosen."""
IMPORTED = "import"
"""The attribute that importers set on a session."""


@dataclass(frozen=True)
class Batch:
    """Unread turns of a session."""

    session: str
    user: str
    agent: str
    position: int  # the last message that was read before
    upto: int  # the last message of this batch
    turns: Sequence[SourceMessage]
    messages: Sequence[tuple[int, str]]  # number and content of each turn, to notice a change
    last_at: int  # when the session's newest message was written
    is_last: bool  # nothing is left after it
    earlier: Sequence[SourceMessage] = ()  # turns that were read before, which these may answer


def read_batch(tx: Transaction, session: str) -> Batch | None:
    """Return the next unread turns of a session, or None if there are none."""
    sent = tx.send(
        """select user_id, agent, attributes, first_seq from sessions
           where tenant = :tenant and id = :session""",
        session=session,
    )
    position = read_position(tx, session)
    sessions = sent.rows()
    if not sessions:
        return None
    user, agent, attributes, first = sessions[0]
    rows = tx.all(
        """select seq, role, content, author, tokens, tokens_in, tokens_out, cost, created_at,
                  chatter
           from messages where tenant = :tenant and session_id = :session and seq > :position
           order by seq limit :size""",
        session=session,
        position=max(position, first - 1),
        size=MAX_MESSAGES,
    )
    if not rows:
        return None
    is_imported = bool(json.loads(attributes).get(IMPORTED))
    messages = records(session, [row[:-1] for row in rows])
    turns: list[SourceMessage] = []
    read: list[tuple[int, str]] = []
    token_count = 0
    upto = position
    for message, (*_, chatter) in zip(messages, rows, strict=True):
        turn = _turn(message, user, is_imported) if chatter == TURN else None
        if turn is not None:
            token_count += message.tokens
            if turns and (len(turns) == MAX_TURNS or token_count > MAX_TURN_TOKENS):
                break
            turns.append(turn)
            read.append((message.seq, message.raw))
        upto = message.seq
    earlier = _earlier_turns(tx, session, user, max(position, first - 1)) if turns else []
    is_last = upto == rows[-1][0] and len(rows) < MAX_MESSAGES
    last_at = rows[-1][8]
    return Batch(
        session=session,
        user=user,
        agent=agent,
        position=position,
        upto=upto,
        turns=turns,
        messages=read,
        last_at=last_at,
        is_last=is_last,
        earlier=earlier,
    )


def _earlier_turns(tx: Transaction, session: str, user: str, upto: int) -> list[SourceMessage]:
    """Return the last turns that were read before, oldest first."""
    rows = tx.all(
        """select seq, role, content, author, tokens, tokens_in, tokens_out, cost, created_at
           from messages where tenant = :tenant and session_id = :session and seq <= :upto
           and chatter = 0 order by seq desc limit :size""",
        session=session,
        upto=upto,
        size=EARLIER_TURNS,
    )
    turns = [_turn(message, user, False) for message in records(session, rows[::-1])]
    return [turn for turn in turns if turn is not None]


def _turn(message: Message, user: str, is_imported: bool) -> SourceMessage | None:
    """Return a message of a user or an agent as a turn; None for any other."""
    if message.role not in ("user", "assistant") or is_notice(message.content):
        return None
    text = message.text
    if not text.strip():
        return None
    source = "user" if message.role == "user" else "agent"
    speaker = source
    if source == "user" and message.author not in (None, user):
        speaker = str(message.author)  # another person in the conversation
    return SourceMessage(
        message.seq,
        speaker,
        text,
        clock.to_datetime(message.created_micros),
        "import" if is_imported else source,
    )


def read_position(tx: Transaction, session: str) -> int:
    """Return the number of the last message of a session that was read."""
    row = tx.one(
        "select seq from fact_positions where tenant = :tenant and session_id = :session",
        session=session,
    )
    return int(row[0]) if row else 0


def facts_to_show(tx: Transaction, user: str, turns: Sequence[SourceMessage]) -> list[Fact]:
    """Return the current facts about the user and about everybody whose name is in the turns.

    Those that share the most words with the turns come first; then those that the next statement of
    their kind replaces, such as a home; then the newest.
    """
    text = "\n".join(turn.text for turn in turns).casefold()
    subjects = tx.all(
        """select distinct subject from facts
           where tenant = :tenant and user_id = :user and status = 'active'""",
        user=user,
    )
    names = tx.all(
        """select fact_names.name, alias.name_key from fact_names join fact_names alias
           on alias.tenant = :tenant and alias.user_id = fact_names.user_id
           and alias.entity = fact_names.entity and alias.status = 'accepted'
           where fact_names.tenant = :tenant and fact_names.user_id = :user
           and fact_names.status = 'accepted'""",
        user=user,
    )
    keys = {comparison_key(ABOUT_USER)}
    keys |= {comparison_key(name) for (name,) in subjects if _is_mentioned(name, text)}
    keys |= {key for name, key in names if _is_mentioned(name, text)}
    rows = [
        row
        for key in sorted(keys)
        for row in tx.all(
            f"""select {COLUMNS} from facts
                where tenant = :tenant and user_id = :user and subject_key = :key
                and status = 'active' and coalesce(valid_to, :now + 1) > :now
                order by learned_at desc, id desc limit :size""",
            user=user,
            key=key,
            size=MAX_RANKED_FACTS,
        )
    ]
    words = content_words(text)

    def rank(item: Fact) -> tuple[int, bool, datetime, str]:
        shared = words & content_words(f"{item.subject} {item.object} {item.statement}")
        return len(shared), is_exclusive(item.predicate), item.learned_at, item.id

    return sorted(map(fact, rows), key=rank, reverse=True)[:MAX_SHOWN_FACTS]


def _is_mentioned(name: str, text: str) -> bool:
    """Return whether a text may speak of somebody: it has a word of the name."""
    words = name.casefold().removeprefix("the user's ").replace("(", " ").replace(")", " ").split()
    return any(word in text for word in words if len(word) > 1)


def commit(
    tx: Transaction,
    index: Index,
    batch: Batch,
    proposals: Sequence[Proposal],
    policy: Policy,
    review: str = "",
) -> Counter[str] | None:
    """Store what was learned and move the position; return the number of each decision.

    review: the setting of that name

    Return None and change nothing if another process read the turns, or if a message or the session
    was removed meanwhile.
    """
    tx.lock_rows(
        "select 1 from sessions where tenant = :tenant and id = :session", session=batch.session
    )
    if not _is_unchanged(tx, batch):
        return None
    lock_facts(tx, batch.user)
    counts: Counter[str] = Counter()
    turns = {turn.seq: turn for turn in batch.turns}
    learner = _Learner(tx, index, batch, policy, review)
    for proposal in proposals:
        cited = [turns[seq] for seq in proposal.evidence if seq in turns]
        if cited:
            counts[learner.learn(proposal, cited)] += 1
    tx.send(
        """insert into fact_positions (tenant, session_id, seq, tries) values (:tenant, :session, :seq, 0)
           on conflict (tenant, session_id) do update
           set seq = excluded.seq, tries = 0, retry_at = null, error = null""",
        session=batch.session,
        seq=batch.upto,
    )
    return counts


def _is_unchanged(tx: Transaction, batch: Batch) -> bool:
    """Return whether the position and the turns of a batch are as they were read."""
    users = tx.send(
        "select user_id from sessions where tenant = :tenant and id = :session",
        session=batch.session,
    )
    first, last = (batch.messages[0][0], batch.messages[-1][0]) if batch.messages else (0, 0)
    stored = tx.send(
        """select seq, content from messages where tenant = :tenant and session_id = :session
           and seq >= :first and seq <= :last and chatter = 0""",
        session=batch.session,
        first=first,
        last=last,
    )
    return (
        read_position(tx, batch.session) == batch.position
        and users.rows() == [(batch.user,)]
        and set(batch.messages) <= set(stored.rows())
    )


class _Learner:
    """Applies the proposals of a batch, one after the other, in one transaction."""

    def __init__(
        self, tx: Transaction, index: Index, batch: Batch, policy: Policy, review: str
    ) -> None:
        self._tx = tx
        self._index = index
        self._batch = batch
        self._policy = policy
        self._review = review
        self._known: dict[str, list[Known]] = {}  # by subject, until something changes

    def learn(self, proposal: Proposal, cited: Sequence[SourceMessage]) -> str:
        """Apply one proposal, which rests on the cited messages; return what became of it."""
        try:
            new = _words(proposal, self._policy)
            alias = subject_name(proposal.alias, "alias", self._policy) if proposal.alias else ""
        except (Invalid, TooLarge):
            return "refused"
        tx = self._tx
        batch = self._batch
        newest = max(cited, key=lambda turn: turn.seq)
        source = source_of(cited)
        known = self._known.get(new.subject)
        if known is None:
            known = self._known[new.subject] = known_facts(tx, batch.user, new.subject)
        roles = _roles(new, alias, known)
        decision = decide(
            proposal,
            known,
            MessagePosition(batch.session, newest.seq, newest.sent_at),
            source=source,
            is_ambiguous=bool(roles) and is_ambiguous(tx, batch.user, new.subject, roles),
            needs_review=any(turn.is_document for turn in cited)
            or trust.waits("facts", [source], self._review),
        )
        if decision.action == "ignore":
            return "ignored"
        self._known.clear()
        evidence = [Evidence(batch.session, turn.seq) for turn in cited]
        if alias and source == "user" and alias != new.subject:
            learn_name(tx, batch.user, new.subject, alias, evidence[-1])
        step = FactStep(tx, self._index, LEARNING, batch.user, source=source, agent=batch.agent)
        if decision.action == "support":
            step.support(decision.fact.id, evidence)  # type: ignore[union-attr]
            return "supported"
        _add(step, new, decision, evidence)
        if decision.needs_review:
            return "pending"
        if decision.conflicts_with is not None:
            return "unclear"
        return decision.replacement_type if decision.replaces is not None else "added"


def _roles(new: NewFact, alias: str, known: Sequence[Known]) -> set[str]:
    """Return what those of a name are to the user: the user's sister, the user's colleague."""
    roles = {alias, new.object if new.predicate == "is" else ""}
    for item in known:
        if item.fact.predicate == "is" and item.fact.status == "active":
            roles.add(item.fact.object)
    return {role for role in roles if is_role(role)}


def _add(step: FactStep, new: NewFact, decision: Decision, evidence: Sequence[Evidence]) -> None:
    dated = replace(
        new,
        valid_from=from_time(decision.valid_from, "valid_from"),
        valid_to=from_time(decision.valid_to, "valid_to"),
    )
    step.add(
        dated,
        evidence,
        replaces=decision.replaces.id if decision.replaces else None,
        replacement_type=decision.replacement_type,
        conflicts_with=decision.conflicts_with.id if decision.conflicts_with else None,
        needs_review=decision.needs_review,
    )
    for ended in decision.also_ends:
        end = NewFact(
            ended.subject,
            f"{ended.subject} no longer {ended.predicate} {ended.object}.",
            ENDED + ended.predicate,
            ended.object,
            ended.topic,
            valid_from=dated.valid_from,
        )
        step.add(end, evidence, replaces=ended.id)
    for pending in decision.settles:
        step.retract(pending.id, evidence)


def _words(proposal: Proposal, policy: Policy) -> NewFact:
    """Return the words of a proposal as they are stored."""
    return NewFact(
        subject_name(proposal.subject, "subject", policy),
        checked_text(proposal.statement, "statement", MAX_STATEMENT_CHARACTERS, policy),
        optional_text(stored_predicate(proposal), "predicate", MAX_SUBJECT_CHARACTERS, policy),
        optional_text(proposal.object, "object", MAX_STATEMENT_CHARACTERS, policy),
        proposal.topic,
        confidence=proposal.confidence,
    )


# SQLite reads the tables of a `cross join` in this order: the smallest part first.


def known_facts(tx: Transaction, user: str, subject: str) -> list[Known]:
    """Return all facts about a subject, by any of its names, with the messages that say so."""
    known = []
    for key in _subject_keys(tx, user, subject):
        rows = tx.all(
            f"""select {COLUMNS} from facts
                where tenant = :tenant and user_id = :user and subject_key = :key""",
            user=user,
            key=key,
        )
        messages = _newest_messages(tx, user, key)
        denied = find_denied(tx, user, key)
        for row in rows:
            item = fact(row)
            added = MessagePosition("", 0, item.learned_at)
            known.append(Known(item, messages.get(item.id, added), item.id in denied))
    return sorted(known, key=lambda item: (item.fact.learned_at, item.fact.id))


def _subject_keys(tx: Transaction, user: str, subject: str) -> list[str]:
    """Return the keys of all names of a subject."""
    key = comparison_key(subject)
    rows = tx.all(
        """select alias.name_key from fact_names named cross join fact_names alias
           where named.tenant = :tenant and named.user_id = :user and named.name_key = :key
           and named.status = 'accepted' and alias.tenant = :tenant and alias.user_id = :user
           and alias.entity = named.entity and alias.status = 'accepted'""",
        user=user,
        key=key,
    )
    return sorted({key} | {alias for (alias,) in rows})


def _newest_messages(tx: Transaction, user: str, key: str) -> dict[str, MessagePosition]:
    """Return the newest message of each live fact about a subject."""
    rows = tx.all(
        """select facts.id, messages.session_id, messages.seq, messages.created_at
           from facts cross join fact_evidence evidence cross join messages
           where facts.tenant = :tenant and facts.user_id = :user and facts.subject_key = :key
           and facts.status in ('active', 'pending')
           and evidence.tenant = :tenant and evidence.fact_id = facts.id
           and messages.tenant = :tenant and messages.session_id = evidence.session_id
           and messages.seq = evidence.seq
           order by messages.created_at, messages.seq""",
        user=user,
        key=key,
    )
    return {
        id: MessagePosition(session, seq, clock.to_datetime(created_at))
        for id, session, seq, created_at in rows
    }


def today(tx: Transaction) -> datetime:
    """Return the database's date."""
    return clock.to_datetime(tx.now)
