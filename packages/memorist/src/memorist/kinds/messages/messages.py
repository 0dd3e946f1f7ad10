"""Messages: the conversation of each session, numbered in a strict order without clocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from memorist.base import canonical, clock
from memorist.base.errors import Invalid, KeyReused, NotFound, OutOfOrder
from memorist.base.parameters import Amount, Count, IdempotencyKey, Key, Number, PageSize
from memorist.base.verbs import verb
from memorist.content.message import (
    COLUMNS,
    REMOVED,
    TRAFFIC,
    TURN,
    Message,
    NewMessage,
    Role,
    merge_content,
    records,
)
from memorist.content.message_content import Content
from memorist.content.shortening import prompt_tokens
from memorist.kinds.facts.changes import remove_evidence
from memorist.kinds.kind import ChangeSubject, Check, Kind, Table, own_session
from memorist.kinds.messages import message_rows
from memorist.kinds.messages.message_rows import MESSAGE_INDEX
from memorist.kinds.page import Page, make_page, page_start
from memorist.kinds.section import RecallScope
from memorist.search.query import Hit
from memorist.search.search_document import IndexMark, owner_of
from memorist.storage.checksum import checksum
from memorist.storage.database import Row, Transaction
from memorist.storage.tables import OF_AGENT_SESSION

_INSERT_MESSAGE = """insert into messages (tenant, session_id, seq, role, content, author, chatter, tokens, tokens_in, tokens_out,
                                   cost, created_at, checksum)
             values (:tenant, :session, :seq, :role, :content, :author, :chatter, :tokens, :tokens_in, :tokens_out,
                     :cost, :created_at, :checksum)"""
_MESSAGES_BETWEEN = """select seq, role, content, author, tokens, tokens_in, tokens_out, cost, created_at from messages
         where tenant = :tenant and session_id = :session and seq between :first and :last and chatter <= :chatter
         order by seq limit :size"""
_MESSAGES_UP_TO = """select seq, role, content, author, tokens, tokens_in, tokens_out, cost, created_at from messages
           where tenant = :tenant and session_id = :session and seq <= :upto and chatter <= :chatter """
_NEWEST_MESSAGES = _MESSAGES_UP_TO + "order by seq desc limit :size"
_NEWEST_OWN_MESSAGES = (
    _MESSAGES_UP_TO
    + """and exists (
               select 1 from sessions where tenant = :tenant and id = :session and user_id = coalesce(:user, user_id))
           order by seq desc limit :size"""
)
_NEWEST_SIZES = """select seq, role, tokens, chatter from messages
            where tenant = :tenant and session_id = :session and seq between :first and :upto and chatter < 2
            order by seq desc limit :size"""
_INSERT_KEY = """insert into message_keys (tenant, session_id, key, digest, first_seq, last_seq, created_at)
               values (:tenant, :session, :key, :digest, :first, :last, :now)"""
_KEY_ROW = """select digest, first_seq, last_seq from message_keys
           where tenant = :tenant and session_id = :session and key = :key"""
_INSERT_MENTION = (
    "insert into mentions (tenant, session_id, seq, key) values (:tenant, :session, :seq, :key)"
)
_BLANK_MESSAGE = """update messages set content = :content, checksum = :checksum, chatter = 2, author = null, tokens = 0, tokens_in = null,
                    tokens_out = null, cost = null
             where tenant = :tenant and session_id = :session and seq = :seq and chatter < 2"""
_REMOVED_CONTENT = '{"removed":true}'
"""Content of a removed message."""
_DELETE_MENTIONS = (
    "delete from mentions where tenant = :tenant and session_id = :session and seq = :seq"
)
_DELETE_MESSAGES = (
    "delete from messages where tenant = :tenant and session_id = :session returning chatter"
)
_DELETE_DEPENDENTS = (
    "delete from mentions where tenant = :tenant and session_id = :session",
    "delete from turns where tenant = :tenant and session_id = :session",
    "delete from summaries where tenant = :tenant and session_id = :session",
)
"""Delete the rows that depend on a session's messages.

Idempotency keys stay, so that a retry does not add the messages again.
"""
_TOUCH_SESSION = (
    "update sessions set touched_at = :now where tenant = :tenant and id = :session",
    "update active_sessions set last_active_at = :now where tenant = :tenant and active_session_id = :session",
)
_RESET_SESSION = """update sessions set first_seq = :next, first_at = :now, summary = '', summarized_count = 0
            where tenant = :tenant and id = :session"""
_MOVE_FIRST_AT = (
    "update sessions set first_at = :at where tenant = :tenant and id = :session and first_at > :at"
)
_OWNED = "session_id in (select id from sessions where tenant = :tenant and user_id = :user)"
_MAX_ROWS_PER_READ = 256
_MEAN_TOKENS = 40
_MAX_USER_MESSAGE_DISTANCE = 1000
"""`recent` searches for the last user message at most this many messages before the end."""
_MAX_STORED_WINDOWS = 8
"""`recent` stops when the stored content of its messages exceeds the window this many times."""
_START_STEP = 8
"""A window that ends because of `_MAX_STORED_WINDOWS` starts at a multiple of this many messages, so
that the beginning of the prompt stays the same for several turns."""
_MAX_SEQ = 2**53


class AlreadyAdded(Exception):
    """Raised to roll back when the messages of an idempotency key are stored already.

    The caller then returns the first result, which it finds through the table `message_keys`. This
    is the `key` of a verb, such as `append` and `save_turn`. For these verbs, the header
    `Idempotency-Key` of a REST request becomes `key`; for the others, the server stores the
    response: `admin/stored_responses.py`.
    """


class _LockedSession(NamedTuple):
    """The columns of a locked session that writers of messages need."""

    last_seq: int  # first_seq - 1 if it has no message
    user: str
    fresh_from: int | None  # the first message that the index lacks; None if it has all


class Messages(Kind):
    """The messages of a session: append-only, numbered from 1 without gaps."""

    name = "messages"
    parameter_help = {
        "key": "Idempotency key. A retry with the same key adds nothing.",
    }
    tables = (
        Table(
            "messages",
            order="session_id, seq",
            owned=_OWNED,
            of_agent=OF_AGENT_SESSION,
            checked=("content", "author"),
        ),
        Table("message_keys", order="session_id, key", owned=_OWNED, of_agent=OF_AGENT_SESSION),
        Table("mentions", order="session_id, seq, key", owned=_OWNED, of_agent=OF_AGENT_SESSION),
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
            "an idempotency key refers to messages of its session",
            """select 'key ' || key || ' of session ' || session_id from message_keys
               where tenant = :tenant and not exists (
                   select 1 from messages where messages.tenant = :tenant
                   and messages.session_id = message_keys.session_id and messages.seq = message_keys.last_seq)
               and last_seq >= coalesce((select sessions.first_seq from sessions
                                         where sessions.tenant = :tenant and sessions.id = message_keys.session_id), 0)""",
        ),
        Check(
            "every mention of a reference has its message",
            """select 'message ' || cast(seq as {text}) || ' of session ' || session_id from mentions
               where tenant = :tenant and not exists (
                   select 1 from messages where messages.tenant = :tenant
                   and messages.session_id = mentions.session_id and messages.seq = mentions.seq)""",
        ),
    )
    findable = MESSAGE_INDEX

    @verb(
        "POST /messages/{session:path}",
        effect="add",
        routine=True,
        example='memorist messages append trip user "Where do we go?" --key turn-1',
    )
    def append(
        self,
        session: Key,
        role: Role,
        content: Content,
        *,
        key: IdempotencyKey | None = None,
        expected_last_seq: Count | None = None,
        author: Key | None = None,
        tokens_in: Count | None = None,
        tokens_out: Count | None = None,
        cost: Amount | None = None,
        created_at: datetime | None = None,
    ) -> Message:
        """Add one message at the end of a session.

        With a `key`, a repeated call changes nothing and returns the first result.
        """
        message = NewMessage(
            role,
            merge_content(content, "content", role),
            author=author,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost=cost,
            created_at=created_at,
        )
        row = message_rows.new_row(self._owner, self._settings, message)
        if added := self._add("append", session, [row], key, expected_last_seq):
            return added[0]
        raise NotFound(
            what="message of key", id=key, hint="It was removed; use a new key for a new message."
        )

    @verb(
        "POST /messages/{session:path}/batch",
        effect="add",
        routine=True,
        example="memorist messages extend trip turns.jsonl --key turn-2",
    )
    def extend(
        self,
        session: Key,
        messages: Sequence[NewMessage | Mapping[str, Any]],
        *,
        key: IdempotencyKey | None = None,
        expected_last_seq: Count | None = None,
    ) -> list[Message]:
        """Add several messages at the end of a session, all or none, with consecutive numbers."""
        return self._add(
            "extend",
            session,
            message_rows.new_rows(self._owner, self._settings, messages),
            key,
            expected_last_seq,
        )

    @verb(
        "GET /messages/{session:path}/window",
        effect="read",
        example="memorist messages window trip --last 20 --turns-only",
    )
    def window(
        self,
        session: Key,
        *,
        last: Count | None = None,
        minutes: Amount | None = None,
        tokens: Count | None = None,
        before: Number | None = None,
        turns_only: bool = False,
    ) -> list[Message]:
        """Return the newest messages of a session, oldest first.

        last:       at most this many messages
        minutes:    only messages of the last N minutes
        tokens:     as many messages as fit into N tokens
        before:     only messages with a smaller number, to page backwards through a session
        turns_only: only user messages and final answers, without system messages and tool traffic

        Limits combine, and the narrowest counts; without any, returns the whole session.
        """
        limits = WindowLimits(last, minutes, tokens, before, turns_only)
        return records(session, window_rows(self, session, limits))

    @verb(
        "GET /messages/{session:path}/{seq:int}",
        effect="read",
        example="memorist messages get trip 1",
    )
    def get(self, session: Key, seq: Number) -> Message:
        """Return one message by its number."""
        canonical.key(session, "session")
        canonical.check_integer(seq, "seq", 1)

        def work(tx: Transaction) -> Message:
            own_session(tx, self._owner, session)
            messages = _between(tx, session, seq, seq)
            if not messages:
                raise NotFound(what="message", id=seq)
            return messages[0]

        return self._read(work)

    @verb(
        "DELETE /messages/{session:path}/{seq:int}",
        effect="remove",
        example="memorist messages remove trip 1",
    )
    def remove(self, session: Key, seq: Number) -> None:
        """Remove one message.

        Its number is not used again. A summary that covers it is not changed.
        """
        canonical.key(session, "session")
        canonical.check_integer(seq, "seq", 1)

        def work(tx: Transaction) -> None:
            locked = self._lock(tx, session)
            if not self._remove(tx, session, seq, locked.user):
                raise NotFound(what="message", id=seq)

        self._write("remove", work, row=ChangeSubject(session=session))

    @verb(
        "POST /messages/{session:path}/pop",
        effect="remove",
        returns_removed=True,
        example="memorist messages pop trip",
    )
    def pop(self, session: Key) -> Message:
        """Remove the newest message and return it; concurrent calls return different messages."""
        canonical.key(session, "session")

        def work(tx: Transaction) -> Message:
            locked = self._lock(tx, session)
            last = locked.last_seq
            rows = tx.all(_NEWEST_MESSAGES, session=session, upto=last, chatter=TRAFFIC, size=1)
            if not rows:
                raise NotFound(what="message", id=last)
            self._remove(tx, session, rows[0][0], locked.user)
            return records(session, rows)[0]

        return self._write("pop", work, row=ChangeSubject(session=session))

    @verb(
        "DELETE /messages/{session:path}", effect="remove", example="memorist messages clear trip"
    )
    def clear(self, session: Key) -> int:
        """Remove every message of a session, with its summaries and turns, and return their number.

        New messages continue the numbering.
        """
        canonical.key(session, "session")

        def work(tx: Transaction) -> int:
            locked = self._lock(tx, session)
            last = locked.last_seq
            remove_evidence(tx, self._services.index, session, 1, last)
            removed = tx.all(_DELETE_MESSAGES, session=session)
            for statement in _DELETE_DEPENDENTS:
                tx.send(statement, session=session)
            mark = IndexMark(owner_of(locked.user), self.name, session)
            self._services.index.mark(tx, [mark])
            tx.send(_RESET_SESSION, session=session, next=last + 1)
            return sum(chatter != REMOVED for (chatter,) in removed)

        return self._write("clear", work, row=ChangeSubject(session=session), long=True)

    def _remove(self, tx: Transaction, session: str, seq: int, user: str) -> int:
        tx.send(_DELETE_MENTIONS, session=session, seq=seq)
        remove_evidence(tx, self._services.index, session, seq, seq)
        self._services.index.mark(tx, [IndexMark(owner_of(user), self.name, session, seq)])
        return tx.run(
            _BLANK_MESSAGE,
            session=session,
            seq=seq,
            content=_REMOVED_CONTENT,
            checksum=checksum(_REMOVED_CONTENT, None),
        )

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
            canonical.check_integer(expected_last_seq, "expected_last_seq")
        if key is None:
            return self._write(
                verb,
                lambda tx: self.add_rows(tx, session, rows, expected_last_seq),
                row=ChangeSubject(session=session),
            )
        canonical.key(key, "key", self._settings.masking)
        hashed = message_rows.digest(rows)
        with suppress(AlreadyAdded):
            return self._write(
                verb,
                lambda tx: self.add_rows(tx, session, rows, expected_last_seq, (key, hashed)),
                row=ChangeSubject(session=session),
                idempotent=True,
            )
        return self._read(lambda tx: self.first_result(tx, session, key, hashed))

    def add_rows(
        self,
        tx: Transaction,
        session: str,
        rows: list[dict[str, Any]],
        expected_last_seq: int | None = None,
        once: tuple[str, str] | None = None,
    ) -> list[Message]:
        """Insert rows with the next numbers, under a session lock that lasts until the commit."""
        locked = self._lock_and_check_key(tx, session, once[0] if once else None)
        last = locked.last_seq
        # Check everything before the key is stored: in `Scope.transaction`, a caller may catch the
        # error and commit.
        if expected_last_seq not in (None, last):
            raise OutOfOrder(actual=last, expected=expected_last_seq)
        now = tx.now
        if any((row["created_at"] or now) > now + clock.DAY for row in rows):
            raise Invalid(field="created_at", problem="is more than a day in the future")
        if once:
            tx.send(
                _INSERT_KEY,
                session=session,
                key=once[0],
                digest=once[1],
                first=last + 1,
                last=last + len(rows),
            )
        values = [{**row, "session": session, "seq": last + n} for n, row in enumerate(rows, 1)]
        for value in values:
            if value["created_at"] is None:
                value["created_at"] = now
            elif value["created_at"] < now:
                self._reach_back(tx, session, value["created_at"])
        tx.many(_INSERT_MESSAGE, values)
        self._services.index.mark_messages(tx, session, locked.user, last + 1, locked.fresh_from)
        mentions = message_rows.mentioned(session, values)
        if mentions:
            tx.many(_INSERT_MENTION, mentions)
        return records(session, map(itemgetter(*COLUMNS), values))

    @staticmethod
    def hit_source(hit: Hit, session: str) -> str:
        """Return the source of a hit of this kind in the report of a context."""
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

    def recent(
        self, tx: Transaction, session: str, first: int, tokens: int
    ) -> tuple[list[Message], bool]:
        """Return the newest messages from number `first` on, oldest first, and whether these are all.

        Returns the messages that fit into `tokens` once long ones are shortened, the first one that
        does not, and more if needed to include the last user message. Reads the sizes before any
        content, and returns fewer if their stored content is many times as large as `tokens`.
        """
        spent = 0
        stored = 0
        has_user_message = False
        is_complete = True
        start = _MAX_SEQ
        upto = _MAX_SEQ
        size = min(max(tokens // _MEAN_TOKENS, 16), _MAX_ROWS_PER_READ)
        while start > first and (spent <= tokens or not has_user_message) and upto >= first:
            rows = tx.all(_NEWEST_SIZES, session=session, first=first, upto=upto, size=size)
            for seq, role, cost, chatter in rows:
                if spent > tokens and (
                    has_user_message or start - seq > _MAX_USER_MESSAGE_DISTANCE
                ):
                    is_complete = False
                    break
                is_too_large = stored > _MAX_STORED_WINDOWS * tokens
                is_step = start // _START_STEP != seq // _START_STEP
                if is_too_large and has_user_message and is_step:
                    return _between(tx, session, start, _MAX_SEQ), False
                start = seq
                stored += min(cost, tokens)  # one huge message does not push out the others
                has_calls = chatter == TRAFFIC and role == "assistant"
                spent += prompt_tokens(role, cost, has_calls, tokens)
                has_user_message = has_user_message or role == "user"
            if len(rows) < size or start > rows[-1][0]:
                break
            upto = rows[-1][0] - 1
            size = _MAX_ROWS_PER_READ
        else:
            is_complete = start <= first
        messages = _between(tx, session, start, _MAX_SEQ) if start < _MAX_SEQ else []
        return messages, is_complete

    def _reach_back(self, tx: Transaction, session: str, at: int) -> None:
        """Move the session's `first_at` back to an older message, so that retention finds it."""
        tx.send(_MOVE_FIRST_AT, session=session, at=at)

    def _lock(self, tx: Transaction, session: str) -> _LockedSession:
        """Lock a session until the commit, and return what writers of messages need of it."""
        return self._lock_and_check_key(tx, session, None)

    def _lock_and_check_key(self, tx: Transaction, session: str, key: str | None) -> _LockedSession:
        """Lock a session as `_lock` does; raise `AlreadyAdded` if the idempotency key was used.

        The key is read in the same round trip as the session.
        """
        tx.lock_rows(
            "select 1 from sessions where tenant = :tenant and id = :session", session=session
        )
        earlier_use = None if key is None else tx.send(_KEY_ROW, session=session, key=key)
        row = tx.one(
            """select touched_at, coalesce((select seq from messages where tenant = :tenant and session_id = :session
                                            order by seq desc limit 1), first_seq - 1), user_id, fresh_from
               from sessions where tenant = :tenant and id = :session and user_id = coalesce(:user, user_id)""",
            session=session,
            user=self._owner.user,
        )
        if row is None:
            raise NotFound(
                what="session",
                id=session,
                hint="Create one with `sessions add` or `sessions resume`.",
            )
        if earlier_use is not None and earlier_use.rows():
            raise AlreadyAdded
        touched_at, last, user, fresh_from = row
        if tx.now - touched_at > clock.MINUTE:
            for statement in _TOUCH_SESSION:
                tx.send(statement, session=session)
        return _LockedSession(int(last), user, fresh_from)

    def first_result(self, tx: Transaction, session: str, key: str, hashed: str) -> list[Message]:
        """Return the messages that the first call with the key added, without removed messages."""
        return _between(tx, session, *self.numbers(tx, session, key, hashed))

    def numbers(self, tx: Transaction, session: str, key: str, hashed: str) -> tuple[int, int]:
        """Return the first and the last message number of the first call with the key."""
        row = self._used(tx, session, key)
        if row is None or row[0] != hashed:
            raise KeyReused(key=key)
        return row[1], row[2]

    def of_key(self, tx: Transaction, session: str, key: str) -> int | None:
        """Return the number of the first message added with a key; None if the key was not used."""
        row = self._used(tx, session, key)
        return None if row is None else int(row[1])

    def has_user_message_after(self, tx: Transaction, session: str, seq: int) -> bool:
        """Return whether the user wrote again after a message."""
        row = tx.one(
            """select 1 from messages where tenant = :tenant and session_id = :session and seq > :seq
               and role = 'user' and chatter < 2 limit 1""",
            session=session,
            seq=seq,
        )
        return row is not None

    def _used(self, tx: Transaction, session: str, key: str) -> Row | None:
        own_session(tx, self._owner, session)
        return tx.one(_KEY_ROW, session=session, key=key)

    @verb(
        "GET /messages/{session:path}",
        effect="read",
        example="memorist messages list trip --limit 50 --json",
    )
    def list(
        self, session: Key, *, after: str | None = None, limit: PageSize = 100
    ) -> Page[Message]:
        """Return messages from the start of the session, page by page."""
        canonical.key(session, "session")
        size, (start,) = page_start(limit, after, 0)

        def work(tx: Transaction) -> list[Message]:
            begin = max(own_session(tx, self._owner, session), start + 1)
            return _between(tx, session, begin, _MAX_SEQ, size + 1)

        return make_page(self._read(work, allow_replica=True), size, lambda message: [message.seq])


class WindowLimits(NamedTuple):
    """The limits of a window; `Messages.window` explains them. A tuple, because of the speed."""

    last: int | None = None
    minutes: float | None = None
    tokens: int | None = None
    before: int | None = None
    turns_only: bool = False


def window_rows(messages: Messages, session: str, limits: WindowLimits) -> list[Row]:
    """Return the rows of `Messages.window`, with the columns COLUMNS.

    The server renders them as they are: making records takes as long as reading the rows.
    """
    last, minutes, tokens, before, turns_only = limits
    canonical.key(session, "session")
    for name, number in (("last", last), ("tokens", tokens), ("before", before)):
        if number is not None:
            canonical.check_integer(number, name)
    if minutes is not None:
        canonical.amount(minutes, "minutes")
    owner = messages._owner
    chatter = TURN if turns_only else TRAFFIC
    upto = _MAX_SEQ if before is None else before - 1

    if last is not None and minutes is None and tokens is None:
        rows = messages._read_rows(
            lambda tx: tx.send(
                _NEWEST_OWN_MESSAGES,
                session=session,
                user=owner.user,
                upto=upto,
                chatter=chatter,
                size=last,
            )
        )
        if not rows:
            messages._read(lambda tx: own_session(tx, owner, session))
        return rows[::-1]

    def work(tx: Transaction) -> list[Row]:
        first = own_session(tx, owner, session)
        if minutes is None and tokens is None:
            return _rows_between(tx, session, first, upto, chatter)
        since = None if minutes is None else tx.now - round(min(minutes, 2**40) * clock.MINUTE)
        rows = list(islice(_newest(tx, session, upto, chatter, since, tokens), last))
        return rows[::-1]

    return messages._read(work)


def _between(
    tx: Transaction, session: str, first: int, last: int, size: int = _MAX_SEQ
) -> list[Message]:
    """Return the messages from `first` to `last`, without removed ones."""
    return records(session, _rows_between(tx, session, first, last, TRAFFIC, size))


def _rows_between(
    tx: Transaction, session: str, first: int, last: int, chatter: int, size: int = _MAX_SEQ
) -> list[Row]:
    """Return the rows of messages from `first` to `last` whose `chatter` is at most `chatter`."""
    return tx.all(
        _MESSAGES_BETWEEN, session=session, first=first, last=last, chatter=chatter, size=size
    )


def _newest(
    tx: Transaction, session: str, upto: int, chatter: int, since: int | None, budget: int | None
) -> Iterator[Row]:
    """Yield rows from a number backwards until one is too old or over the budget.

    Reads in growing batches.
    """
    spent = 0
    size = 8
    while True:
        size = min(size * 4, _MAX_ROWS_PER_READ)
        rows = tx.all(_NEWEST_MESSAGES, session=session, upto=upto, chatter=chatter, size=size)
        for row in rows:
            spent += row[4]
            if (since is not None and row[8] < since) or (budget is not None and spent > budget):
                return
            yield row
        if len(rows) < size:
            return
        upto = rows[-1][0] - 1
