"""A database as somebody uses it whose deeds are on record: the audit row and the answer are written with the change itself.

The verbs know nothing of it: they write to a database that, in the same transaction, adds what is to be kept of it. A verb
that writes several times is on record with the first of its transactions in each tenant, so nothing is done that is not on
record; its answer follows when it is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from retain.auth import audit_log
from retain.auth.idempotency import IdempotentRequest, Replayed, StoredResponse
from retain.auth.principal import Principal
from retain.base import clock, masking
from retain.base.errors import StorageError
from retain.base.settings import Settings
from retain.kinds import KINDS
from retain.kinds.items import item
from retain.kinds.kind import Owner, Services
from retain.search.retrieval import PLACE_SEPARATOR
from retain.storage.database import Database, Transaction, Work
from retain.storage.tables import Table, fingerprint

T = TypeVar("T")
Render = Callable[[Any], StoredResponse]
ADDED = frozenset(
    {"messages_append", "messages_extend", "interactions_add", "save_turn", "sessions_resume"}
)
"""What is only added, many times a minute: on record where the setting `audit` is `all`."""
LATER = frozenset({"summaries_fold", "consolidations_propose"})
"""Verbs of several transactions, whose answer is not known in the first. Begun again, they do what is left to do."""
_SUBJECTS = ("id", "key", "name", "session", "board", "user")
_MAIN = {
    kind.name: next((t for t in kind.tables if t.name == kind.name), kind.tables[0])
    for kind in KINDS
}


@dataclass(frozen=True)
class Action:
    """What somebody is about to do: a way by its name, and what it is given; `subject` where that does not say to what."""

    what: str
    named: Mapping[str, Any] = field(default_factory=dict)
    once: IdempotentRequest | None = None
    request_id: str = ""
    subject: str = ""


def recorded(settings: Settings, what: str, *, reads: bool = False) -> bool:
    """Whether something is on record: for who decides it once, and not at each request."""
    return settings.audit != "off" and not reads and (settings.audit == "all" or what not in ADDED)


def attend(
    services: Services,
    owner: Owner,
    principal: Principal,
    act: Action,
    call: Callable[[Services], Any],
    render: Render,
) -> StoredResponse:
    """Do something with a services whose writes are attended, and give its answer, or the one that was given before."""
    if act.once and act.what in LATER:
        act = replace(
            act,
            once=replace(
                act.once, patience=round((services.settings.model_seconds + 30) * clock.SECOND)
            ),
        )
    if act.once and (kept := act.once.find(services.database, owner.tenant)):
        return kept
    database = Attended(services.database, services.settings, owner, principal, act, render)
    try:
        answer = render(call(_with(services, database)))
    except Replayed as replayed:
        return replayed.answer
    except BaseException:
        database.release()
        raise
    database.settle(answer)
    return answer


def attended(services: Services, owner: Owner, principal: Principal, act: Action) -> Services:
    """A services whose writes are on record, for one act: make a scope or a memory of it, and do that."""
    return _with(services, Attended(services.database, services.settings, owner, principal, act))


def _with(services: Services, database: Attended) -> Services:
    """The services, attended but for what calls of models take: that is no deed, and comes before the deed itself."""
    return replace(
        services,
        database=cast(Database, database),
        record=lambda _, *call: services.record(services, *call),
    )


class Attended:
    """A database that puts one act of somebody on record when it writes; in all else it is the database behind it."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        owner: Owner,
        principal: Principal,
        act: Action,
        render: Render | None = None,
    ) -> None:
        self._database = database
        self._on_record = recorded(settings, act.what)
        self._owner, self._principal, self._act, self._render = owner, principal, act, render
        self._kind = act.what.partition("_")[0]
        self._secrets = masking.seen()
        self._done: set[str] = set()
        self._kept: StoredResponse | None = None
        self._claimed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def write(
        self,
        tenant: str,
        work: Work[T],
        *,
        idempotent: bool = False,
        frees_space: bool = False,
        long: bool = False,
    ) -> T:
        """Run work and commit it with what is kept of it."""
        once = self._act.once
        if tenant in self._done:
            later = once if self._claimed and self._kept is None else None
            return self._database.write(
                tenant,
                _renewing(later, work),
                idempotent=idempotent,
                frees_space=frees_space,
                long=long,
            )
        removes = self._act.what.endswith("_remove")
        secrets = (
            masking.seen() - self._secrets
        )  # counted in this thread, and not in that which writes for it

        def both(tx: Transaction) -> tuple[T, bool, StoredResponse | None]:
            if once:
                once.claim(tx)
            before = self._before(tx)
            found = work(tx)
            record = self._record(found)
            if (
                found is None and self._kind in _MAIN and not removes
            ):  # nothing was done yet: the verb tries again
                if once:
                    once.release(tx)
                return found, False, None
            answer = (
                self._render(self._meant(record))
                if once and self._render and self._act.what not in LATER
                else None
            )
            if once and answer:
                once.settle(tx, answer)
            if self._on_record:
                named, id = self._named(record), self._act.request_id
                after = self._hash(tx, named)
                for subject in self._subjects(named):
                    audit_log.add(
                        tx, self._principal.name, self._act.what, subject,
                        before=before, after=after, secrets=secrets, request_id=id,
                    )  # fmt: skip
            return found, True, answer

        idempotent = idempotent or (
            once is not None and self._act.what not in LATER
        )  # run again, it finds what it did at first
        found, done, answer = self._database.write(
            tenant, both, idempotent=idempotent, frees_space=frees_space, long=long
        )
        if done:
            self._done.add(tenant)
            self._kept, self._claimed = answer, once is not None
        return found

    def settle(self, answer: StoredResponse) -> None:
        """Keep the answer that was given, where it was not known when the change was written."""
        once = self._act.once
        if once and self._claimed and answer != self._kept:
            with suppress(
                StorageError
            ):  # it is done all the same, and who asks again will find it so
                self._database.write(
                    self._owner.tenant, lambda tx: once.settle(tx, answer), idempotent=True
                )

    def release(self) -> None:
        """Let whoever has the same key try again, where there is no answer."""
        once = self._act.once
        if once and self._claimed and self._kept is None:
            with suppress(
                StorageError
            ):  # then the claim runs out; what went wrong before is what matters
                self._database.write(self._owner.tenant, once.release, idempotent=True)

    def _record(self, found: Any) -> Any:
        """The record among what the verb's work found, None where it is gone."""
        if self._act.what.endswith("_remove"):
            return None
        return found[0] if isinstance(found, tuple) and found else found

    def _meant(self, record: Any) -> Any:
        """What the verb will return of its record."""
        if self._act.what.endswith("_remove_many"):
            return len(record)
        part = {"refs_add": "key", "refs_capture": "line"}.get(self._act.what)
        return getattr(record, part, record) if part else record

    def _named(self, found: Any) -> dict[str, Any]:
        """All that may name the row: what was given, whose it is, and what came of it."""
        named = {"user_id": self._owner.user, "agent": self._owner.agent, **self._act.named}
        if self._act.what.endswith("_remove_many"):  # what was asked for need not have been there
            named["ids"] = found or ()
        elif isinstance(found, str):
            named["key"] = found
        elif found is not None:
            named |= getattr(found, "__dict__", {})
        if (
            self._kind == "state" and named.get("area", "user") == "user"
        ):  # an area is stored with its owner's name
            named["area"] = f"user:{self._owner.user}"
        place = named.get("place")
        if (
            self._kind == "items"
            and isinstance(place, list | tuple)
            and all(_is_name(name) for name in place)
        ):
            named["area"] = "tenant" if self._owner.user is None else f"user:{self._owner.user}"
            named["place"] = item.text([str(name) for name in place])
        return named

    def _before(self, tx: Transaction) -> str | None:
        """The hash of the row that is about to change, while nobody else on record can change or make it."""
        named = self._named(None)
        table = self._table(named) if self._on_record else None
        if table is None:
            return None
        tx.lock(" ".join([table.name, *(str(named[column]) for column in table.key)]))
        return self._hash(tx, named)

    def _hash(self, tx: Transaction, named: Mapping[str, Any]) -> str | None:
        """The hash of the row that is named, None where there is none or it is not one row."""
        table = self._table(named)
        return (
            None
            if table is None
            else fingerprint(tx, table, {column: named[column] for column in table.key})
        )

    def _table(self, named: Mapping[str, Any]) -> Table | None:
        """Where the row is that is named, None where it is not one row."""
        table = _MAIN.get(self._kind)
        return table if table and all(_is_name(named.get(column)) for column in table.key) else None

    def _subjects(self, named: Mapping[str, Any]) -> list[str]:
        """What it is done to, for people: the kind and the name of the thing, of many in as many rows as they take."""
        if self._act.subject:
            return [self._act.subject]
        table = self._table(named)
        columns = table.key if table else ()
        names = [named[column] for column in columns] or [
            named[n] for n in _SUBJECTS if _is_name(named.get(n))
        ][:1]
        told = [self._kind]
        for name in names or named.get("ids", ()):
            if len(told[-1]) + len(str(name)) >= audit_log.MOST_SUBJECT and told[-1] != self._kind:
                told.append(self._kind)
            told[-1] += f" {name}".replace(PLACE_SEPARATOR, "/")
        return told


def _renewing(once: IdempotentRequest | None, work: Work[T]) -> Work[T]:
    """Work that also says, where a key is claimed, that somebody is still at it."""
    if once is None:
        return work

    def both(tx: Transaction) -> T:
        once.renew(tx)
        return work(tx)

    return both


def _is_name(value: Any) -> bool:
    """Whether a row can go by it: what a caller gave is looked at before the verb has refused what no database takes."""
    return isinstance(value, int) or (
        isinstance(value, str) and value.replace(PLACE_SEPARATOR, "").isprintable()
    )
