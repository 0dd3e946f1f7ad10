"""Interactions: one row for each model call, and totals over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from memorist.base import canonical, clock, ids, limits
from memorist.base.errors import Invalid
from memorist.base.masking import derived
from memorist.base.parameters import Amount, Count, Key, PageSize
from memorist.base.settings import Settings
from memorist.base.verbs import verb
from memorist.kinds.kind import Kind, Owner, Table, own_session
from memorist.kinds.page import Page, make_page, page_start
from memorist.storage.checksum import checksum
from memorist.storage.database import Sent, Transaction
from memorist.storage.rows import row_mapper
from memorist.storage.tables import OF_AGENT_SESSION

By = Literal["hour", "day", "model", "route", "agent"]
Split = Literal["model", "route", "agent"]
_MAX_NAME_BYTES = 2 * canonical.MAX_KEY_BYTES
"""Twice the limit of a key, because a mask may be longer than the secret that it replaces."""


@dataclass(frozen=True)
class Interaction:
    """One model call; tokens, cost and latency are None if they are not known."""

    id: str
    route: str
    model: str
    parameters: dict[str, Any]
    latency_ms: float | None
    tokens_in: int | None
    tokens_out: int | None
    cost: float | None
    error: str
    user: str | None
    agent: str | None
    session: str | None
    created_at: datetime


@dataclass(frozen=True)
class Total:
    """The totals of one hour, day, model, route or agent; calls without an agent have the name "".

    Sums and percentiles leave out calls whose tokens, cost or latency are unknown. They are None if
    no call is left. Latencies are nearest-rank percentiles in milliseconds.
    """

    name: str
    split: str
    """The model, route or agent of the part, if `split` was given."""
    calls: int
    errors: int
    tokens_in: int | None
    tokens_out: int | None
    cost: float | None
    p50: float | None
    p95: float | None
    p99: float | None


_interaction = row_mapper(Interaction)


@dataclass(frozen=True)
class Usage:
    """The usage of one model call; unknown values are None."""

    model: str
    route: str = "chat"
    latency_ms: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: float | None = None
    parameters: Mapping[str, Any] | None = None
    error: str = ""


def checked(owner: Owner, settings: Settings, usage: Usage, session: str | None) -> dict[str, Any]:
    """Validate one model call and return the values of its row."""
    parameters = {} if usage.parameters is None else usage.parameters
    policy = derived(settings.masking)
    values: dict[str, Any] = {
        "id": ids.uuid7(),
        "route": canonical.text(
            canonical.key(usage.route, "route"), "route", _MAX_NAME_BYTES, policy
        ),
        "model": canonical.text(
            canonical.key(usage.model, "model"), "model", _MAX_NAME_BYTES, policy
        ),
        "parameters": canonical.dump(parameters, "parameters", limits.MAX_ATTRIBUTES_BYTES, policy),
        "latency_ms": _optional(canonical.amount, usage.latency_ms, "latency_ms"),
        "tokens_in": _optional(canonical.check_integer, usage.tokens_in, "tokens_in"),
        "tokens_out": _optional(canonical.check_integer, usage.tokens_out, "tokens_out"),
        "cost": _optional(canonical.amount, usage.cost, "cost"),
        "error": canonical.text(usage.error, "error", 10_000, policy),
        "user": owner.user,
        "agent": owner.agent,
        "session": None if session is None else canonical.key(session, "session"),
    }
    if not values["parameters"].lstrip().startswith("{"):
        raise Invalid(field="parameters", problem="must be a JSON object")
    return values


def _optional(check: Callable[[Any, str], Any], value: Any, field: str) -> Any:
    return None if value is None else check(value, field)


class Interactions(Kind):
    """The model calls made for a user and an agent, or for the whole tenant."""

    name = "interactions"
    tables = (
        Table(
            "interactions",
            order="id",
            owned="(user_id = :user or session_id in (select id from sessions where tenant = :tenant and user_id = :user))",
            of_agent=f"(agent = :agent or {OF_AGENT_SESSION})",
            checked=("route", "model", "parameters", "error"),
        ),
    )

    @verb(
        "POST /interactions",
        effect="add",
        routine=True,
        example="memorist interactions add chat gpt-5-mini --latency-ms 812.5 --tokens-in 900 --tokens-out 40",
    )
    def add(
        self,
        route: Key,
        model: Key,
        *,
        latency_ms: Amount | None = None,
        tokens_in: Count | None = None,
        tokens_out: Count | None = None,
        cost: Amount | None = None,
        parameters: Mapping[str, Any] | None = None,
        error: str = "",
        session: Key | None = None,
    ) -> Interaction:
        """Record one model call; leave out values that are not known."""
        usage = Usage(
            model,
            route=route,
            latency_ms=latency_ms,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost=cost,
            parameters=parameters,
            error=error,
        )
        values = checked(self._owner, self._settings, usage, session)
        return self._write(
            "add", lambda tx: self.add_row(tx, values), row=lambda call: {"id": call.id}
        )

    def add_row(self, tx: Transaction, values: Mapping[str, Any]) -> Interaction:
        """Insert the row of one model call, with values from `checked`, into a transaction."""
        sent = self.insert_row(tx, values)
        if values["session"] is not None:
            own_session(tx, self._owner, values["session"])
        return _interaction(sent.rows()[0])

    def insert_row(self, tx: Transaction, values: Mapping[str, Any]) -> Sent:
        """Insert the row of one model call for a session that the caller has checked."""
        return tx.send(
            """insert into interactions (tenant, id, user_id, agent, session_id, route, model, parameters, latency_ms,
                                         tokens_in, tokens_out, cost, error, created_at, checksum)
               values (:tenant, :id, :user, :agent, :session, :route, :model, :parameters, :latency_ms,
                       :tokens_in, :tokens_out, :cost, :error, :now, :checksum)
               returning id, route, model, parameters, latency_ms, tokens_in, tokens_out, cost, error, user_id, agent,
                         session_id, created_at""",
            **values,
            checksum=checksum(*[values[name] for name in self.tables[0].checked]),
        )

    def of_turn(self, tx: Transaction, id: str | None) -> Interaction | None:
        """Return the model call of a turn; None if the turn has none or it was removed."""
        row = tx.one(
            """select id, route, model, parameters, latency_ms, tokens_in, tokens_out, cost, error, user_id, agent,
                      session_id, created_at
               from interactions where tenant = :tenant and id = :id""",
            id=id,
        )
        return None if row is None else _interaction(row)

    @verb(
        "GET /interactions/totals",
        effect="read",
        example="memorist interactions totals day --split model",
    )
    def totals(
        self,
        by: By = "day",
        *,
        split: Split | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        model: Key | None = None,
        route: Key | None = None,
    ) -> list[Total]:
        """Return calls, tokens, cost and latency percentiles per hour, day, model, route or agent.

        Hours and days are in UTC. With `split`, each group has one total per model, route or agent,
        such as for the lines of a chart over time.
        """
        canonical.one_of(by, "by", _BUCKETS)
        if not isinstance(split, str | None) or (by, split) not in _TOTALS:
            others = ", ".join(name for name in _SPLITS if name not in (None, by))
            raise Invalid(field="split", problem=f"must be one of {others}, not {split!r}")
        rows = self._read_rows(
            lambda tx: tx.send(_TOTALS[by, split], **self._filter(since, until, model, route)),
            allow_replica=True,
        )
        totals = [Total(_named(by, bucket), *rest) for bucket, *rest in rows]
        return sorted(
            totals, key=lambda total: (total.name.encode(), total.split.encode())
        )  # independent of the database's collation

    def _filter(
        self, since: datetime | None, until: datetime | None, model: str | None, route: str | None
    ) -> dict[str, Any]:
        return {
            "since": 0 if since is None else clock.from_datetime(since, "since"),
            "until": 2**62 if until is None else clock.from_datetime(until, "until"),
            "model": None if model is None else canonical.key(model, "model"),
            "route": None if route is None else canonical.key(route, "route"),
            "user": self._owner.user,
            "agent": self._owner.agent,
        }

    @verb(
        "GET /interactions", effect="read", example="memorist interactions list --model gpt-5-mini"
    )
    def list(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        model: Key | None = None,
        route: Key | None = None,
        limit: PageSize = 100,
        after: str | None = None,
    ) -> Page[Interaction]:
        """Return model calls, newest first."""
        size, (at, id) = page_start(limit, after, 2**62, "")
        rows = self._read_rows(
            lambda tx: tx.send(
                """select id, route, model, parameters, latency_ms, tokens_in, tokens_out, cost, error, user_id, agent,
                          session_id, created_at
                   from interactions where tenant = :tenant and created_at >= :since and created_at < :until
                   and coalesce(user_id, '') = coalesce(:user, user_id, '')
                   and coalesce(agent, '') = coalesce(:agent, agent, '')
                   and model = coalesce(:model, model) and route = coalesce(:route, route)
                   and (created_at, id) < (:at, :id) order by created_at desc, id desc limit :size""",
                **self._filter(since, until, model, route),
                at=at,
                id=id,
                size=size + 1,
            ),
            allow_replica=True,
        )
        return make_page(
            [_interaction(row) for row in rows],
            size,
            lambda call: [call.created_at, call.id],
        )


def _named(by: By, bucket: Any) -> str:
    """Return the name of a group: its day or start hour, in UTC, or its model, route or agent."""
    if by == "day":
        return clock.to_datetime(bucket * clock.DAY).date().isoformat()
    if by == "hour":
        return clock.to_datetime(bucket * 60 * clock.MINUTE).isoformat().replace("+00:00", "Z")
    return str(bucket)


_TOTALS_TEMPLATE = """
    with named as (
        select {bucket} as bucket, {split} as split, latency_ms, tokens_in, tokens_out, cost, error
        from interactions where tenant = :tenant and created_at >= :since and created_at < :until
        and coalesce(user_id, '') = coalesce(:user, user_id, '') and coalesce(agent, '') = coalesce(:agent, agent, '')
        and model = coalesce(:model, model) and route = coalesce(:route, route)),
    calls as (
        select bucket, split, latency_ms, tokens_in, tokens_out, cost, error,
               row_number() over (partition by bucket, split
                                  order by case when latency_ms is null then 1 else 0 end, latency_ms) as place,
               count(latency_ms) over (partition by bucket, split) as amount
        from named)
    select bucket, split, cast(count(*) as {int}), cast(sum(case when error = '' then 0 else 1 end) as {int}),
           cast(sum(tokens_in) as {int}), cast(sum(tokens_out) as {int}), sum(cost),
           max(case when place = (amount * 50 + 99) / 100 then latency_ms end),
           max(case when place = (amount * 95 + 99) / 100 then latency_ms end),
           max(case when place = (amount * 99 + 99) / 100 then latency_ms end)
    from calls group by bucket, split"""
_SPLITS = {
    None: "cast('' as {text})",
    "model": "model",
    "route": "route",
    "agent": "coalesce(agent, '')",
}
_BUCKETS = {
    "hour": "created_at / 3600000000",
    "day": "created_at / 86400000000",
    "model": _SPLITS["model"],
    "route": _SPLITS["route"],
    "agent": _SPLITS["agent"],
}
_TOTALS = {
    (by, split): _TOTALS_TEMPLATE.replace("{bucket}", _BUCKETS[by]).replace(
        "{split}", _SPLITS[split]
    )
    for by in _BUCKETS
    for split in _SPLITS
    if by != split
}
