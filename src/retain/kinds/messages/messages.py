"""Messages: what was said, in one strict order per session that no clock can change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from retain.base import canonical, clock
from retain.base.errors import Invalid, KeyReused, NotFound, OutOfOrder
from retain.kinds.kind import Check, Kind, Page, Table, decode_cursor, make_page, own_session
from retain.kinds.messages import new_message
from retain.kinds.messages.message_index import MESSAGE_INDEX
from retain.kinds.section import RecallScope
from retain.messages.content import Content
from retain.messages.message import COLUMNS, Message, NewMessage, Role, merge_content, records
from retain.search.query import Hit
from retain.storage.database import Row, Transaction

_INSERT = """insert into messages (tenant, session_id, seq, role, content, author, chatter, tokens, tokens_in, tokens_out,
                                   cost, created_at)
             values (:tenant, :session, :seq, :role, :content, :author, :chatter, :tokens, :tokens_in, :tokens_out,
                     :cost, :created_at)"""
_UP = """select seq, role, content, author, tokens, tokens_in, tokens_out, cost, created_at from messages
         where tenant = :tenant and session_id = :session and seq between :first and :last and chatter <= :chatter
         order by seq limit :size"""
_BACK = """select seq, role, content, author, tokens, tokens_in, tokens_out, cost, created_at from messages
           where tenant = :tenant and session_id = :session and seq <= :upto and chatter <= :chatter """
_DOWN = _BACK + "order by seq desc limit :size"
_LAST = (
    _BACK
    + """and exists (
               select 1 from sessions where tenant = :tenant and id = :session and user_id = coalesce(:user, user_id))
           order by seq desc limit :size"""
)
_SIZES = """select seq, role, tokens from messages
            where tenant = :tenant and session_id = :session and seq between :first and :upto and chatter < 2
            order by seq desc limit :size"""
_REMEMBER = """insert into message_keys (tenant, session_id, key, digest, first_seq, last_seq, created_at)
               values (:tenant, :session, :key, :digest, :first, :last, :now) on conflict do nothing"""
_USED = """select digest, first_seq, last_seq from message_keys
           where tenant = :tenant and session_id = :session and key = :key"""
_MENTION = (
    "insert into mentions (tenant, session_id, seq, key) values (:tenant, :session, :seq, :key)"
)
_REMOVE = """update messages set content = :content, chatter = 2, author = null, tokens = 0, tokens_in = null,
                    tokens_out = null, cost = null
             where tenant = :tenant and session_id = :session and seq = :seq and chatter < 2"""
_REMOVED = '{"removed":true}'
"""What is left of a message that was removed, so that its number is no gap; `chatter` is 2, and nobody reads it."""
_NOT_MENTIONED = (
    "delete from mentions where tenant = :tenant and session_id = :session and seq = :seq"
)
_CLEAR = "delete from messages where tenant = :tenant and session_id = :session returning chatter"
_WITH_THEM = (
    "delete from mentions where tenant = :tenant and session_id = :session",
    "delete from turns where tenant = :tenant and session_id = :session",
    "delete from summaries where tenant = :tenant and session_id = :session",
)
"""What tells of messages elsewhere, and goes with all of them; keys stay, so that a retry brings none of them back."""
_TOUCH = (
    "update sessions set touched_at = :now where tenant = :tenant and id = :session",
    "update active_sessions set last_active_at = :now where tenant = :tenant and active_session_id = :session",
)
_EMPTY = """update sessions set first_seq = :next, first_at = :now, summary = '', summarized_count = 0
            where tenant = :tenant and id = :session"""
_REACH_BACK = (
    "update sessions set first_at = :at where tenant = :tenant and id = :session and first_at > :at"
)
_OWNED = "session_id in (select id from sessions where tenant = :tenant and user_id = :user)"
_IN_ONE_READ = 256
_MEAN_TOKENS = 40
_FAR_BACK = 1000
"""So many messages before the end nobody looks for what was asked."""
_FAR = 2**53


class Seen(Exception):
    """The idempotency key was used before: undo this try and answer as then."""


class Messages(Kind):
    """The messages of the scope's sessions: added at the end alone, numbered from 1 without a gap."""

    name = "messages"
    tables = (
        Table("messages", order="session_id, seq", owned=_OWNED),
        Table("message_keys", order="session_id, key", owned=_OWNED),
        Table("mentions", order="session_id, seq, key", owned=_OWNED),
    )
    checks = (
        Check(
            "messages are numbered without a gap",
            """select 'session ' || sessions.id || ' begins at ' || cast(first_seq as {text}) || ' and has '
                   || cast(count(*) as {text}) || ' messages from ' || cast(min(seq) as {text}) || ' to '
                   || cast(max(seq) as {text})
               from sessions join messages on messages.tenant = sessions.tenant and messages.session_id = sessions.id
               where sessions.tenant = :tenant
               group by sessions.id, first_seq
               having min(seq) <> first_seq or count(*) <> max(seq) - first_seq + 1""",
        ),
        Check(
            "every message has its session",
            """select 'session ' || session_id from messages where tenant = :tenant and not exists (
                   select 1 from sessions where sessions.tenant = :tenant and sessions.id = messages.session_id)
               group by session_id""",
        ),
        Check(
            "an idempotency key leads to messages of its session",
            """select 'key ' || key || ' of session ' || session_id from message_keys
               where tenant = :tenant and not exists (
                   select 1 from messages where messages.tenant = :tenant
                   and messages.session_id = message_keys.session_id and messages.seq = message_keys.last_seq)
               and last_seq >= coalesce((select sessions.first_seq from sessions
                                         where sessions.tenant = :tenant and sessions.id = message_keys.session_id), 0)""",
        ),
        Check(
            "what mentions a reference is a message",
            """select 'message ' || cast(seq as {text}) || ' of session ' || session_id from mentions
               where tenant = :tenant and not exists (
                   select 1 from messages where messages.tenant = :tenant
                   and messages.session_id = mentions.session_id and messages.seq = mentions.seq)""",
        ),
        *MESSAGE_INDEX.checks,
    )
    findable = MESSAGE_INDEX

    def append(
        self,
        session: str,
        role: Role,
        content: Content,
        *,
        key: str | None = None,
        expected_last_seq: int | None = None,
        author: str | None = None,
        tokens_in: int | None = None,
        tokens_out: int | None = None,
        cost: float | None = None,
        created_at: datetime | None = None,
    ) -> Message:
        """Add one message at the end. With a `key`, doing it again changes nothing and answers as the first time."""
        said = merge_content(content, "content", role)
        new = new_message.row(
            self._owner,
            self._settings,
            "",
            role,
            said,
            author,
            tokens_in,
            tokens_out,
            cost,
            created_at,
        )
        if added := self._add("append", session, [new], key, expected_last_seq):
            return added[0]
        raise NotFound(
            what="message of key", id=key, hint="It was removed since; a new one needs a new key."
        )

    def extend(
        self,
        session: str,
        messages: Sequence[NewMessage | Mapping[str, Any]],
        *,
        key: str | None = None,
        expected_last_seq: int | None = None,
    ) -> list[Message]:
        """Add several messages at the end, all or none, next to each other."""
        return self._add(
            "extend",
            session,
            new_message.new_rows(self._owner, self._settings, messages),
            key,
            expected_last_seq,
        )

    def window(
        self,
        session: str,
        *,
        last: int | None = None,
        minutes: float | None = None,
        tokens: int | None = None,
        before: int | None = None,
        turns_only: bool = False,
    ) -> list[Message]:
        """The newest messages, oldest first: the last so many, of the last minutes, or that fit in tokens; else all.

        With `before`, the newest of those before that number: so a long session is read backwards, page by page. With
        `turns_only`, only user messages and final answers: no system messages, tool calls or tool results.
        """
        canonical.key(session, "session")
        if (last is not None) + (minutes is not None) + (tokens is not None) > 1:
            raise Invalid(field="window", problem="takes one of last, minutes and tokens")
        for name, number in (("last", last), ("tokens", tokens), ("before", before)):
            if number is not None:
                canonical.whole(number, name)
        if minutes is not None:
            canonical.amount(minutes, "minutes")
        chatter, upto = 0 if turns_only else 1, _FAR if before is None else before - 1

        def work(tx: Transaction) -> list[Message]:
            if last is not None:
                return self._last(tx, session, last, upto, chatter)
            first = own_session(tx, self._owner, session)
            if minutes is None and tokens is None:
                return _between(tx, session, first, upto, chatter)
            since = None if minutes is None else tx.now - round(min(minutes, 2**40) * clock.MINUTE)
            rows = list(_newest(tx, session, upto, chatter, since, tokens))
            return records(session, reversed(rows))

        return self._read(work)

    def get(self, session: str, seq: int) -> Message:
        """One message by its number."""
        canonical.key(session, "session")
        canonical.whole(seq, "seq", 1)

        def work(tx: Transaction) -> Message:
            own_session(tx, self._owner, session)
            found = _between(tx, session, seq, seq, 1)
            if not found:
                raise NotFound(what="message", id=seq)
            return found[0]

        return self._read(work)

    def remove(self, session: str, seq: int) -> None:
        """Remove one message; its number stays taken, and what a summary already says of it stays said."""
        canonical.key(session, "session")
        canonical.whole(seq, "seq", 1)

        def work(tx: Transaction) -> None:
            self._lock(tx, session)
            if not self._remove(tx, session, seq):
                raise NotFound(what="message", id=seq)

        self._write("remove", work, subject=session)

    def pop(self, session: str) -> Message:
        """Remove the newest message, and return it; of two that pop at once, each gets another."""
        canonical.key(session, "session")

        def work(tx: Transaction) -> Message:
            last, _, _ = self._lock(tx, session)
            rows = tx.all(_DOWN, session=session, upto=last, chatter=1, size=1)
            if not rows:
                raise NotFound(what="message", id=last)
            self._remove(tx, session, rows[0][0])
            return records(session, rows)[0]

        return self._write("pop", work, subject=session)

    def clear(self, session: str) -> int:
        """Remove every message of a session, with its summaries and turns; how many there were. New ones count on."""
        canonical.key(session, "session")

        def work(tx: Transaction) -> int:
            last, _, _ = self._lock(tx, session)
            gone = tx.all(_CLEAR, session=session)
            for statement in _WITH_THEM:
                tx.run(statement, session=session)
            self._services.index.remove(tx, self.name, session)
            tx.run(_EMPTY, session=session, next=last + 1)
            return sum(chatter < 2 for (chatter,) in gone)

        return self._write("clear", work, subject=session, long=True)

    def _remove(self, tx: Transaction, session: str, seq: int) -> int:
        tx.run(_NOT_MENTIONED, session=session, seq=seq)
        self._services.index.remove_seq(tx, self.name, session, seq)
        return tx.run(_REMOVE, session=session, seq=seq, content=_REMOVED)

    def _last(
        self, tx: Transaction, session: str, last: int, upto: int, chatter: int
    ) -> list[Message]:
        rows = tx.all(
            _LAST, session=session, user=self._owner.user, upto=upto, chatter=chatter, size=last
        )
        if not rows:
            own_session(tx, self._owner, session)
        rows.reverse()
        return records(session, rows)

    def _add(
        self,
        verb: str,
        session: str,
        rows: list[dict[str, Any]],
        key: str | None,
        expected_last_seq: int | None,
    ) -> list[Message]:
        canonical.key(session, "session")
        if expected_last_seq is not None:
            canonical.whole(expected_last_seq, "expected_last_seq")
        if key is None:
            return self._write(
                verb,
                lambda tx: self.add_rows(tx, session, rows, expected_last_seq),
                subject=session,
            )
        canonical.key(key, "key", self._settings.secrets)
        hashed = new_message.digest(rows)
        with suppress(Seen):
            return self._write(
                verb,
                lambda tx: self.add_rows(tx, session, rows, expected_last_seq, (key, hashed)),
                subject=session,
                idempotent=True,
            )
        return self._read(lambda tx: self.first_answer(tx, session, key, hashed))

    def add_rows(
        self,
        tx: Transaction,
        session: str,
        rows: list[dict[str, Any]],
        expected_last_seq: int | None = None,
        once: tuple[str, str] | None = None,
    ) -> list[Message]:
        """Give the rows the next numbers, under the lock of the session's row, which is held until the commit."""
        last, user, agent = self._lock(tx, session)
        if once:
            self._remember(tx, session, once, last + 1, last + len(rows))
        if expected_last_seq not in (None, last):
            raise OutOfOrder(actual=last, expected=expected_last_seq)
        now = tx.now
        values = [{**row, "session": session, "seq": last + n} for n, row in enumerate(rows, 1)]
        for value in values:
            if value["created_at"] is None:
                value["created_at"] = now
            elif value["created_at"] < now:
                self._reach_back(tx, session, value["created_at"])
            elif value["created_at"] > now + clock.DAY:
                raise Invalid(field="created_at", problem="lies more than a day in the future")
        if len(values) == 1:
            tx.run(_INSERT, **values[0])
        else:
            tx.many(_INSERT, values)
        self._services.index.add(tx, new_message.items(session, user, agent, values))
        mentions = new_message.mentioned(session, values)
        if mentions:
            tx.many(_MENTION, mentions)
        return records(session, [[value[name] for name in COLUMNS] for value in values])

    @staticmethod
    def hit_source(hit: Hit, session: str) -> str:
        """Return what the report of a context calls a hit of this kind."""
        return f"messages {hit.seq}" if hit.id == session else f"messages {hit.id} {hit.seq}"

    @staticmethod
    def hit_origin(hit: Hit, scope: RecallScope) -> str:
        """Return who wrote a recalled hit of this kind, or where it is from."""
        speaker = hit.author or (scope.user if hit.role == "user" else "") or hit.role
        if hit.id == scope.session:
            return f"{speaker} earlier in this conversation"
        if label := scope.labels.get(hit.id):
            return f'{speaker} in the conversation "{label}"'
        return f"{speaker} in another conversation"

    def recent(self, tx: Transaction, session: str, first: int, tokens: int) -> list[Message]:
        """The newest messages from number `first` on, oldest first: what fits in tokens, what does not quite, and as many
        more as it takes to have what the user asked for last. Sizes are looked at before any content is read.
        """
        spent, asked, start, upto = 0, False, _FAR, _FAR
        size = min(max(tokens // _MEAN_TOKENS, 16), _IN_ONE_READ)
        while start > first and (spent <= tokens or not asked) and upto > first:
            rows = tx.all(_SIZES, session=session, first=first, upto=upto, size=size)
            for seq, role, cost in rows:
                if spent > tokens and (asked or start - seq > _FAR_BACK):
                    break
                start, spent, asked = seq, spent + cost, asked or role == "user"
            if len(rows) < size or start > rows[-1][0]:
                break
            upto, size = rows[-1][0] - 1, _IN_ONE_READ
        return _between(tx, session, start, _FAR, 1) if start < _FAR else []

    def _remember(
        self, tx: Transaction, session: str, once: tuple[str, str], first: int, last: int
    ) -> None:
        """Note an idempotency key, or find that it was used; the session's lock keeps two of them apart."""
        if not tx.run(
            _REMEMBER, session=session, key=once[0], digest=once[1], first=first, last=last
        ):
            raise Seen

    def _reach_back(self, tx: Transaction, session: str, at: int) -> None:
        """Note that a session has history from before it was made, for retention to find."""
        tx.run(_REACH_BACK, session=session, at=at)

    def _lock(self, tx: Transaction, session: str) -> tuple[int, str, str]:
        """Keep other writers out of the session until the commit; the number of its last message (0 before the first), its
        user and its agent.
        """
        tx.lock_rows(
            "select 1 from sessions where tenant = :tenant and id = :session", session=session
        )
        found = tx.one(
            """select touched_at, coalesce((select seq from messages where tenant = :tenant and session_id = :session
                                            order by seq desc limit 1), first_seq - 1), user_id, agent
               from sessions where tenant = :tenant and id = :session and user_id = coalesce(:user, user_id)""",
            session=session,
            user=self._owner.user,
        )
        if found is None:
            raise NotFound(
                what="session", id=session, hint="`sessions add` or `sessions resume` makes one."
            )
        if tx.now - found[0] > clock.MINUTE:
            for statement in _TOUCH:
                tx.run(statement, session=session)
        return int(found[1]), found[2], found[3]

    def first_answer(self, tx: Transaction, session: str, key: str, hashed: str) -> list[Message]:
        """The messages that were added when the key was used for the first time, but for those that were removed."""
        return _between(tx, session, *self.numbers(tx, session, key, hashed), 1)

    def numbers(self, tx: Transaction, session: str, key: str, hashed: str) -> tuple[int, int]:
        """The first and the last number that were given when the key was used for the first time."""
        found = self._used(tx, session, key)
        if found is None or found[0] != hashed:
            raise KeyReused(key=key)
        return found[1], found[2]

    def of_key(self, tx: Transaction, session: str, key: str) -> int | None:
        """The number of the first message that was added with a key; None where nobody used it."""
        found = self._used(tx, session, key)
        return None if found is None else int(found[1])

    def _used(self, tx: Transaction, session: str, key: str) -> Row | None:
        own_session(tx, self._owner, session)
        return tx.one(_USED, session=session, key=key)

    def list(self, session: str, *, after: str | None = None, limit: int = 100) -> Page[Message]:
        """Messages from the start of the session, page by page."""
        canonical.key(session, "session")
        size = self._limit(limit)
        (start,) = decode_cursor(after, [int]) if after else (0,)

        def work(tx: Transaction) -> list[Message]:
            begin = max(own_session(tx, self._owner, session), start + 1)
            return _between(tx, session, begin, _FAR, 1, size + 1)

        return make_page(self._read(work), size, lambda message: [message.seq])


def _between(
    tx: Transaction, session: str, first: int, last: int, chatter: int, size: int = _FAR
) -> list[Message]:
    rows = tx.all(_UP, session=session, first=first, last=last, chatter=chatter, size=size)
    return records(session, rows)


def _newest(
    tx: Transaction, session: str, upto: int, chatter: int, since: int | None, budget: int | None
) -> Iterator[Row]:
    """Rows from a number back, read in growing parts, until one is too old or too big."""
    spent, size = 0, 8
    while True:
        size = min(size * 4, _IN_ONE_READ)
        rows = tx.all(_DOWN, session=session, upto=upto, chatter=chatter, size=size)
        for row in rows:
            spent += row[4]
            if (since is not None and row[8] < since) or (budget is not None and spent > budget):
                return
            yield row
        if len(rows) < size:
            return
        upto = rows[-1][0] - 1
