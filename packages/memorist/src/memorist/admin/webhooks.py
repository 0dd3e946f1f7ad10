"""Webhooks: addresses to which the server sends the events of a tenant.

The secret is in the result of `add` only. It is stored, because the server signs every request with
it (`webhook_request.py`). `jobs/deliver_webhooks.py` sends the events.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from memorist.admin.admin_kind import AdminKind
from memorist.admin.webhook_request import SIGNING_PREFIX, send
from memorist.base import canonical, clock, http
from memorist.base.errors import AlreadyExists, Conflict, Invalid, NotFound
from memorist.base.http import RequestFailed
from memorist.base.parameters import Key, OneOf, PageSize, Texts
from memorist.base.verbs import verb
from memorist.kinds import KINDS
from memorist.kinds.page import Page, make_page, page_start
from memorist.storage import event_log
from memorist.storage.checksum import checksum
from memorist.storage.damage import changed_checksum
from memorist.storage.database import Row, Transaction
from memorist.storage.event_log import EVENT_COLUMNS, Event, event_from_row
from memorist.storage.tables import Table

MAX_WEBHOOKS = 20
"""The number of webhooks of a tenant."""
EVENT_KINDS = (*(kind.name for kind in KINDS), "users", "import")
COLUMNS = "id, url, kinds, position, tries, retry_at, error, paused, created_at, delivered_at"
EventKinds = Annotated[Sequence[str], Texts(OneOf(EVENT_KINDS))]
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
class NewWebhook(Webhook):
    """A new webhook; `secret` is shown only once."""

    secret: str = field(repr=False)


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

    @property
    def is_failure(self) -> bool:
        """Whether the command that shows it fails."""
        return not self.delivered


@dataclass(frozen=True)
class ReplayedEvents:
    """The number of events that are sent again."""

    events: int


class Webhooks(AdminKind):
    """The webhooks of a tenant: addresses that get its events."""

    name = "webhooks"
    tables = (Table("webhooks", order="id", checked=("url", "secret", "kinds")),)
    parameter_help = {
        "id": "The id of the webhook.",
        "kinds": "Only events of these kinds, such as messages or facts. Default: all.",
        "paused": "Send no events for now; with --no-paused, send them again.",
        "url": "The address that receives the events.",
    }

    @verb(
        "POST /webhooks",
        effect="add",
        people_only=True,
        shows_secret=True,
        raw_output=True,
        example="memorist webhooks add https://example.org/hooks --kinds facts > secret",
    )
    def add(self, url: str, *, kinds: EventKinds = ()) -> NewWebhook:
        """Add a webhook, which gets every event from now on; only this result has its secret."""
        if self._settings.events == "off":
            raise Conflict(problem="events are off; start the server with the setting `events: on`")
        self._check_target(url)
        joined = _join_kinds(kinds)
        secret = SIGNING_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
        id = secrets.token_hex(8)

        def work(tx: Transaction) -> NewWebhook:
            tx.lock("webhooks")
            (count,) = tx.one("select count(*) from webhooks where tenant = :tenant") or (0,)
            if count >= MAX_WEBHOOKS:
                raise Invalid(
                    field="url", problem=f"cannot be added: a tenant has at most {MAX_WEBHOOKS}"
                )
            _check_new(tx, url, id)
            tx.run(
                """insert into webhooks (tenant, id, url, secret, kinds, position, tries, retry_at,
                                         error, paused, created_at, checksum)
                   values (:tenant, :id, :url, :secret, :kinds, :position, 0, 0, '', 0, :now,
                           :checksum)""",
                id=id,
                url=url,
                secret=secret,
                kinds=joined,
                position=event_log.last_number(tx),
                checksum=checksum(url, secret, joined),
            )
            return NewWebhook(**vars(_find(tx, id)), secret=secret)

        return self._change("add", work, id)

    @verb("GET /webhooks", effect="read", example="memorist webhooks list --tenant acme")
    def list(self) -> list[Webhook]:
        """Return the webhooks of the tenant, oldest first, without their secrets."""
        rows = self._read(
            lambda tx: tx.all(
                f"""select {COLUMNS}, {UNDELIVERED} from webhooks where tenant = :tenant
                    order by created_at, id"""
            ),
        )
        return [_webhook(row) for row in rows]

    @verb("GET /webhooks/{id}", effect="read", example="memorist webhooks get 3f0c…")
    def get(self, id: Key) -> Webhook:
        """Return a webhook: its address, the last event it sent, and its last error."""
        canonical.key(id, "id")
        return self._read(lambda tx: _find(tx, id))

    @verb(
        "GET /webhooks/{id}/dead-letters",
        effect="read",
        example="memorist webhooks dead-letters 3f0c…",
    )
    def dead_letters(
        self, id: Key, *, limit: PageSize = 100, after: str | None = None
    ) -> Page[DeadLetter]:
        """Return the events that a webhook did not accept, oldest first, and why."""
        canonical.key(id, "id")
        size, (start,) = page_start(limit, after, 0)

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

        rows = self._read(work)
        letters = [
            DeadLetter(event_from_row(tuple(event)), error, clock.to_datetime(failed_at))
            for *event, error, failed_at in rows
        ]
        return make_page(letters, size, lambda letter: [letter.event.number])

    @verb(
        "PATCH /webhooks/{id}",
        effect="change",
        people_only=True,
        example="memorist webhooks edit 3f0c… --paused",
    )
    def edit(
        self,
        id: Key,
        *,
        url: str | None = None,
        kinds: EventKinds | None = None,
        paused: bool | None = None,
    ) -> Webhook:
        """Change the address or the kinds of a webhook, or pause it; events are tried again at once."""
        canonical.key(id, "id")
        if url is not None:
            self._check_target(url)
        joined = None if kinds is None else _join_kinds(kinds)

        def work(tx: Transaction) -> Webhook:
            if url is not None:
                tx.lock("webhooks")
                _check_new(tx, url, id)
            tx.lock_rows("select 1 from webhooks where tenant = :tenant and id = :id", id=id)
            new = {"url": url, "kinds": joined}
            changes = {name: text for name, text in new.items() if text is not None}
            tx.run(
                """update webhooks
                   set url = coalesce(:url, url), kinds = coalesce(:kinds, kinds),
                       paused = coalesce(:paused, paused), retry_at = 0, tries = 0,
                       checksum = :checksum
                   where tenant = :tenant and id = :id""",
                id=id,
                url=url,
                kinds=joined,
                paused=None if paused is None else int(paused),
                checksum=changed_checksum(tx, self.tables[0], {"id": id}, changes),
            )
            return _find(tx, id)

        return self._change("edit", work, id)

    @verb(
        "DELETE /webhooks/{id}",
        effect="remove",
        people_only=True,
        example="memorist webhooks remove 3f0c…",
    )
    def remove(self, id: Key) -> None:
        """Remove a webhook and the events that it did not accept."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> None:
            if not tx.run("delete from webhooks where tenant = :tenant and id = :id", id=id):
                raise NotFound(what="webhook", id=id)

        self._change("remove", work, id, frees_space=True)

    @verb("POST /webhooks/{id}/replay", effect="change", example="memorist webhooks replay 3f0c…")
    def replay(self, id: Key) -> ReplayedEvents:
        """Let the next run of the job send the dead letters of a webhook again; return their number."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> ReplayedEvents:
            _find(tx, id)
            tx.send(
                """update webhooks set retry_at = 0
                   where tenant = :tenant and id = :id and tries = 0""",
                id=id,
            )
            return ReplayedEvents(
                tx.run(
                    """update dead_letters set replay = 1
                       where tenant = :tenant and webhook_id = :id""",
                    id=id,
                )
            )

        return self._change("replay", work, id, idempotent=True)

    @verb(
        "POST /webhooks/{id}/test",
        effect="read",
        is_slow=True,
        example="memorist webhooks test 3f0c…",
    )
    def test(self, id: Key) -> TestResult:
        """Send a test event to a webhook now, which changes nothing, and return its answer."""
        canonical.key(id, "id")
        url, secret = self._read(lambda tx: target(tx, id))
        payload = {"type": "test", "timestamp": clock.to_datetime(clock.now()).isoformat()}
        message_id = f"test_{secrets.token_hex(8)}"
        error = send(url, secret, message_id, payload, allow_private=self._allows_private)
        return TestResult(not error, error)

    @property
    def _allows_private(self) -> bool:
        """Whether addresses in private networks are allowed."""
        return self._settings.events == "private"

    def _check_target(self, url: str) -> None:
        http.check_url(url)
        try:
            http.check_target(url, allow_private=self._allows_private)
        except RequestFailed as error:
            raise Invalid(field="url", problem=f"cannot be used: {error}") from None


def target(tx: Transaction, id: str) -> tuple[str, str]:
    """Return the address and the secret of a webhook."""
    row = tx.one("select url, secret from webhooks where tenant = :tenant and id = :id", id=id)
    if row is None:
        raise NotFound(what="webhook", id=id)
    return row[0], row[1]


def _join_kinds(kinds: Iterable[str]) -> str:
    names = list(dict.fromkeys([kinds] if isinstance(kinds, str) else kinds))
    for name in names:
        if name not in EVENT_KINDS:
            raise Invalid(
                field="kinds",
                problem=f"must be some of {', '.join(EVENT_KINDS)}, not {str(name)[:50]!r}",
            )
    return ",".join(names)


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
        id=id,
        url=url,
        kinds=kinds.split(",") if kinds else [],
        paused=bool(paused),
        position=position,
        tries=tries,
        error=error,
        retry_at=clock.to_datetime(retry_at) if tries else None,
        dead_letters=dead,
        created_at=clock.to_datetime(created_at),
        delivered_at=clock.to_datetime_or_none(delivered_at),
    )
