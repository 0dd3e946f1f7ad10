"""Webhooks: addresses to which the server sends the events of a tenant.

The secret is shown once, when the webhook is added. It is stored, because the server signs every
request with it, as https://www.standardwebhooks.com describes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from retain.base import canonical, clock, limits, outgoing
from retain.base.errors import AlreadyExists, Invalid, NotFound
from retain.base.outgoing import RequestFailed
from retain.kinds import KINDS
from retain.kinds.page import Page, decode_cursor, make_page
from retain.storage import outbox
from retain.storage.database import Database, Row, Transaction
from retain.storage.outbox import EVENT_COLUMNS, Event, event_from_row
from retain.storage.writer import Change, Writer

MAX_WEBHOOKS = 20
"""The number of webhooks of a tenant."""
EVENT_KINDS = (*(kind.name for kind in KINDS), "users", "import")
SIGNING_PREFIX = "whsec_"
COLUMNS = "id, url, kinds, position, tries, retry_at, error, paused, created_at, delivered_at"
UNDELIVERED = """(select count(*) from dead_letters d
    where d.tenant = webhooks.tenant and d.webhook_id = webhooks.id)"""


@dataclass(frozen=True)
class Webhook:
    """A webhook, without its secret."""

    id: str
    url: str
    kinds: list[str]
    """The kinds whose events are sent; empty: all."""
    paused: bool
    position: int
    """The number of the last event that was sent, or given up."""
    tries: int
    """How often the next event has failed."""
    error: str
    """Why the last try failed; empty after a success."""
    retry_at: datetime | None
    """When the next event is tried again, if it has failed."""
    dead_letters: int
    """The number of events that were given up."""
    created_at: datetime
    delivered_at: datetime | None


@dataclass(frozen=True)
class DeadLetter:
    """An event that a webhook did not accept."""

    event: Event
    error: str
    failed_at: datetime


@dataclass(frozen=True)
class TestResult:
    """The response of a webhook to a test event."""

    delivered: bool
    error: str


class Webhooks:
    """The webhooks of a database.

    allow_private: allow addresses in private networks
    """

    def __init__(self, database: Database, writer: Writer, *, allow_private: bool = False) -> None:
        self._database = database
        self._writer = writer
        self._allow_private = allow_private

    def add(self, tenant: str, url: str, kinds: Iterable[str] = ()) -> tuple[Webhook, str]:
        """Add a webhook for all later events; return it with its secret, which is shown only now."""
        self._check_target(url)
        joined = _join_kinds(kinds)
        secret = SIGNING_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
        id = secrets.token_hex(8)

        def work(tx: Transaction) -> Webhook:
            tx.lock("webhooks")
            (count,) = tx.one("select count(*) from webhooks where tenant = :tenant") or (0,)
            if count >= MAX_WEBHOOKS:
                raise Invalid(
                    field="url", problem=f"cannot be added: a tenant has at most {MAX_WEBHOOKS}"
                )
            _check_new(tx, url, id)
            tx.run(
                """insert into webhooks (tenant, id, url, secret, kinds, position, tries, retry_at,
                                         error, paused, created_at)
                   values (:tenant, :id, :url, :secret, :kinds, :position, 0, 0, '', 0, :now)""",
                id=id,
                url=url,
                secret=secret,
                kinds=joined,
                position=outbox.last_number(tx),
            )
            return _find(tx, id)

        return self._writer.write(_change("add", tenant, id), work), secret

    def list(self, tenant: str) -> list[Webhook]:
        """Return the webhooks of a tenant, oldest first."""
        rows = self._database.read(
            tenant,
            lambda tx: tx.all(
                f"""select {COLUMNS}, {UNDELIVERED} from webhooks where tenant = :tenant
                    order by created_at, id"""
            ),
        )
        return [_webhook(row) for row in rows]

    def get(self, tenant: str, id: str) -> Webhook:
        """Return one webhook."""
        canonical.key(id, "id")
        return self._database.read(tenant, lambda tx: _find(tx, id))

    def dead_letters(
        self, tenant: str, id: str, *, limit: int = 100, after: str | None = None
    ) -> Page[DeadLetter]:
        """Return the events that a webhook did not accept, oldest first."""
        canonical.key(id, "id")
        size = canonical.check_integer(limit, "limit", 1, limits.MAX_PAGE)
        (start,) = decode_cursor(after, [int]) if after else (0,)

        def work(tx: Transaction) -> list[Row]:
            _find(tx, id)
            return tx.all(
                f"""select {EVENT_COLUMNS}, error, failed_at from dead_letters
                    where tenant = :tenant and webhook_id = :id and number > :start
                    order by number limit :size""",
                id=id,
                start=start,
                size=size + 1,
            )

        rows = self._database.read(tenant, work)
        letters = [
            DeadLetter(event_from_row(tuple(event)), error, clock.to_datetime(failed_at))
            for *event, error, failed_at in rows
        ]
        return make_page(letters, size, lambda letter: [letter.event.number])

    def edit(
        self,
        tenant: str,
        id: str,
        *,
        url: str | None = None,
        kinds: Iterable[str] | None = None,
        paused: bool | None = None,
    ) -> Webhook:
        """Change a webhook; events are tried again at once."""
        canonical.key(id, "id")
        if url is not None:
            self._check_target(url)
        joined = None if kinds is None else _join_kinds(kinds)

        def work(tx: Transaction) -> Webhook:
            if url is not None:
                tx.lock("webhooks")
                _check_new(tx, url, id)
            tx.run(
                """update webhooks
                   set url = coalesce(:url, url), kinds = coalesce(:kinds, kinds),
                       paused = coalesce(:paused, paused), retry_at = 0, tries = 0
                   where tenant = :tenant and id = :id""",
                id=id,
                url=url,
                kinds=joined,
                paused=None if paused is None else int(paused),
            )
            return _find(tx, id)

        return self._writer.write(_change("edit", tenant, id), work)

    def remove(self, tenant: str, id: str) -> None:
        """Remove a webhook with its dead letters."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> None:
            if not tx.run("delete from webhooks where tenant = :tenant and id = :id", id=id):
                raise NotFound(what="webhook", id=id)

        self._writer.write(_change("remove", tenant, id), work, frees_space=True)

    def replay(self, tenant: str, id: str) -> int:
        """Let the next run of the job send the dead letters again; return their number."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> int:
            _find(tx, id)
            tx.send(
                """update webhooks set retry_at = 0
                   where tenant = :tenant and id = :id and tries = 0""",
                id=id,
            )
            return tx.run(
                """update dead_letters set replay = 1
                   where tenant = :tenant and webhook_id = :id""",
                id=id,
            )

        return self._writer.write(_change("replay", tenant, id), work, idempotent=True)

    def test(self, tenant: str, id: str) -> TestResult:
        """Send a test event now, which changes nothing; return the result."""
        self.get(tenant, id)
        url, secret = self._database.read(tenant, lambda tx: target(tx, id))
        payload = {"type": "test", "timestamp": clock.to_datetime(clock.now()).isoformat()}
        message_id = f"test_{secrets.token_hex(8)}"
        error = send(url, secret, message_id, payload, allow_private=self._allow_private)
        return TestResult(not error, error)

    def _check_target(self, url: str) -> None:
        outgoing.check_url(url)
        try:
            outgoing.check_target(url, allow_private=self._allow_private)
        except RequestFailed as error:
            raise Invalid(field="url", problem=f"cannot be used: {error}") from None


def target(tx: Transaction, id: str) -> tuple[str, str]:
    """Return the address and the secret of a webhook."""
    row = tx.one("select url, secret from webhooks where tenant = :tenant and id = :id", id=id)
    if row is None:
        raise NotFound(what="webhook", id=id)
    return row[0], row[1]


def send(url: str, secret: str, message_id: str, payload: object, *, allow_private: bool) -> str:
    """Send a signed request; return why it failed, or nothing if it was accepted."""
    body = json.dumps(payload, separators=(",", ":")).encode()
    timestamp = str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "retain",
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": sign(secret, message_id, timestamp, body),
    }
    try:
        status = outgoing.post(url, body, headers, allow_private=allow_private)
    except RequestFailed as error:
        return str(error)
    if 200 <= status < 300:
        return ""
    redirected = ", a redirect, which is not followed" if 300 <= status < 400 else ""
    return f"the response has the status {status}{redirected}"


def sign(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a request."""
    key = base64.b64decode(secret.removeprefix(SIGNING_PREFIX))
    content = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()


def host_of(url: str) -> str:
    """Return the host of an address; the path may contain a token."""
    return urlsplit(url).hostname or ""


def _join_kinds(kinds: Iterable[str]) -> str:
    names = list(dict.fromkeys([kinds] if isinstance(kinds, str) else kinds))
    for name in names:
        if name not in EVENT_KINDS:
            raise Invalid(
                field="kinds",
                problem=f"must be some of {', '.join(EVENT_KINDS)}, not {str(name)[:50]!r}",
            )
    return ",".join(names)


def _change(verb: str, tenant: str, id: str) -> Change:
    return Change("webhooks", verb, tenant, subject=id, event="none")


def _check_new(tx: Transaction, url: str, id: str) -> None:
    """Raise AlreadyExists if another webhook has the address."""
    row = tx.one(
        "select 1 from webhooks where tenant = :tenant and url = :url and id <> :id", url=url, id=id
    )
    if row:
        raise AlreadyExists(what="webhook", id=url)


def _find(tx: Transaction, id: str) -> Webhook:
    row = tx.one(
        f"select {COLUMNS}, {UNDELIVERED} from webhooks where tenant = :tenant and id = :id", id=id
    )
    if row is None:
        raise NotFound(what="webhook", id=id)
    return _webhook(row)


def _webhook(row: Row) -> Webhook:
    id, url, kinds, position, tries, retry_at, error, paused, created_at, delivered_at, dead = row
    return Webhook(
        id,
        url,
        kinds.split(",") if kinds else [],
        bool(paused),
        position,
        tries,
        error,
        clock.to_datetime(retry_at) if tries else None,
        dead,
        clock.to_datetime(created_at),
        clock.to_datetime_or_none(delivered_at),
    )
