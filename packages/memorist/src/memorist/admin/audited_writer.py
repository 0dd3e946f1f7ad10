"""Audit rows and idempotent responses, stored in the same transaction as the write itself.

`acting_as` returns services whose writes are audited as one action of a caller. An action with
several transactions gets one audit row per tenant, with its first transaction. `respond_once` also
stores the response under the request's idempotency key, and replays it when the request is
repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from memorist.admin import audit_log
from memorist.admin.principal import Principal
from memorist.admin.stored_responses import IdempotentRequest, Replayed, StoredResponse
from memorist.base import clock, masking
from memorist.base.errors import StorageError
from memorist.base.settings import Settings
from memorist.base.verbs import find_verb
from memorist.kinds.kind import Services
from memorist.storage.database import Transaction, Work
from memorist.storage.tables import fingerprint, row_name, row_owner
from memorist.storage.writer import Change, RowKey, Writer, changed_rows, owner_before

T = TypeVar("T")
Render = Callable[[Any], StoredResponse]

MODEL_MARGIN_SECONDS = 30


@dataclass(frozen=True)
class AuditedAction:
    """An action of a caller; `name` is its name in the audit log, such as `state_set`."""

    name: str
    request_id: str = ""
    subject: str = ""
    """The record that changes. Empty: taken from the first change of the action."""
    idempotency: IdempotentRequest | None = None


def is_audited(settings: Settings, action: str) -> bool:
    """Return whether the settings ask for an audit row of this action.

    Only `audit: all` asks for rows of actions that run many times a minute.
    """
    if settings.audit in ("all", "off"):
        return settings.audit == "all"
    declared = find_verb(action)
    return declared is None or not declared.routine


def _is_in_steps(action: AuditedAction) -> bool:
    """Return whether the response of an action is not known in its first transaction.

    A repeated request then continues where the first one stopped.
    """
    declared = find_verb(action.name)
    return declared is not None and declared.in_steps


def acting_as(services: Services, principal: Principal, action: AuditedAction) -> Services:
    """Return services that audit their writes as one action of a principal."""
    return _with_writer(services, AuditedWriter(services, principal, action))


def record_action(services: Services, principal: Principal, action: AuditedAction) -> None:
    """Add the audit row of an action that writes nothing itself, in the principal's tenant."""
    if not is_audited(services.settings, action.name):
        return
    record = audit_log.NewAuditRecord(
        principal.name, action.name, action.subject, request_id=action.request_id
    )
    services.database.write(principal.tenant, lambda tx: audit_log.add(tx, record))


def respond_once(
    services: Services,
    principal: Principal,
    action: AuditedAction,
    call: Callable[[Services], Any],
    render: Render,
) -> StoredResponse:
    """Call a function with audited services, or return the stored response of the same request."""
    request = action.idempotency
    if request and _is_in_steps(action):
        seconds = services.settings.model_seconds + MODEL_MARGIN_SECONDS
        request = replace(request, patience=round(seconds * clock.SECOND))
        action = replace(action, idempotency=request)
    if request:
        stored = request.find(services.database, principal.tenant)
        if stored is not None:
            return stored
    writer = AuditedWriter(services, principal, action, render)
    try:
        response = render(call(_with_writer(services, writer)))
    except Replayed as replayed:
        return replayed.response
    except BaseException:  # a cancelled request must release its key too
        writer.release_key()
        raise
    writer.store_response(response)
    return response


def _with_writer(services: Services, writer: AuditedWriter) -> Services:
    """Return services with a writer. Records of model calls are not audited as the caller's."""
    return replace(
        services, writer=writer, record=lambda _, *call: services.record(services, *call)
    )


class AuditedWriter(Writer):
    """Adds the audit row and the idempotent response of an action to its first transaction."""

    def __init__(
        self,
        services: Services,
        principal: Principal,
        action: AuditedAction,
        render: Render | None = None,
    ) -> None:
        super().__init__(services.database)
        self._writer = services.writer
        self._principal = principal
        self._action = action
        self._request = action.idempotency
        self._is_audited = is_audited(services.settings, action.name)
        self._render = None if _is_in_steps(action) else render
        self._secrets_before = masking.seen()
        self._written_tenants: set[str] = set()
        self._response: StoredResponse | None = None
        self._has_key = False

    def write(
        self,
        change: Change,
        work: Work[T],
        *,
        idempotent: bool = False,
        frees_space: bool = False,
        long: bool = False,
    ) -> T:
        """Run `work`, and add the audit row and the response to its transaction."""
        if change.tenant in self._written_tenants:
            renewing = self._renewing(work)
            return self._writer.write(
                change, renewing, idempotent=idempotent, frees_space=frees_space, long=long
            )

        request = self._request
        # Secrets are counted per thread; the transaction may run in another one.
        secrets = masking.seen() - self._secrets_before

        response: StoredResponse | None = None

        def audited(tx: Transaction) -> T:
            nonlocal response
            response = None
            if request:
                request.claim(tx)
            before = self._hash_before(tx, change) if self._is_audited else None
            owner = change.user
            if self._is_audited and owner is None:
                owner = owner_before(tx, change)
            result = work(tx)
            if request and self._render:
                value = change.returns(result) if change.returns else result
                response = self._render(value)
                request.store(tx, response)
            if self._is_audited:
                self._add_audit_rows(tx, change, result, before, secrets, owner)
            return result

        # With the key in the transaction, a retry after a lost connection finds the first response.
        idempotent = idempotent or (request is not None and self._render is not None)
        result = self._writer.write(
            change, audited, idempotent=idempotent, frees_space=frees_space, long=long
        )
        self._written_tenants.add(change.tenant)
        self._response = response
        self._has_key = request is not None
        return result

    def store_response(self, response: StoredResponse) -> None:
        """Store the response of the action, unless its transaction has stored the same one."""
        request = self._request
        if request is None or not self._has_key or response == self._response:
            return
        with suppress(StorageError):  # The action is done, and a retry will find it done.
            self.database.write(
                self._principal.tenant, lambda tx: request.store(tx, response), idempotent=True
            )

    def release_key(self) -> None:
        """Let a retry try again if the action failed after it claimed its idempotency key."""
        if self._request is None or not self._has_key or self._response is not None:
            return
        with suppress(StorageError):  # The claim expires; the first error is the one to report.
            self.database.write(self._principal.tenant, self._request.release, idempotent=True)

    def _renewing(self, work: Work[T]) -> Work[T]:
        """Return `work`, preceded by a renewal of the claim on the idempotency key."""
        request = self._request
        if request is None or not self._has_key or self._response is not None:
            return work

        def renewing(tx: Transaction) -> T:
            request.renew(tx)
            return work(tx)

        return renewing

    def _hash_before(self, tx: Transaction, change: Change) -> str | None:
        """Return the hash of the row before the change; lock it against other audited writers."""
        if change.table is None or not isinstance(change.row, Mapping):
            return None
        values = [str(change.row[column]) for column in change.table.key]
        tx.lock(" ".join([change.table.name, *values]))
        return fingerprint(tx, change.table, change.row)

    def _add_audit_rows(
        self,
        tx: Transaction,
        change: Change,
        result: Any,
        before: str | None,
        secrets: int,
        owner: str | None,
    ) -> None:
        rows = changed_rows(change, result)
        after = None
        if change.table is not None and len(rows) == 1:
            after = fingerprint(tx, change.table, rows[0])
        if owner is None and rows:
            owner = row_owner(tx, change.table, rows[0])
        subjects = [self._action.subject] if self._action.subject else _subjects(change, rows)
        for subject in subjects:
            record = audit_log.NewAuditRecord(
                self._principal.name,
                self._action.name,
                subject,
                before=before,
                after=after,
                secrets=secrets,
                request_id=self._action.request_id,
                owner=owner,
            )
            audit_log.add(tx, record)


def _subjects(change: Change, rows: Sequence[RowKey]) -> list[str]:
    """Return the kind and the names of the changed rows, split into texts that fit a column."""
    subject = change.subject or change.session
    names = [subject] if subject else [row_name(change.table, row) for row in rows]
    subjects = [change.kind]
    for name in names:
        is_full = len(subjects[-1]) + len(name) >= audit_log.MAX_SUBJECT_LENGTH
        if is_full and subjects[-1] != change.kind:
            subjects.append(change.kind)
        subjects[-1] += f" {name}"
    return subjects
