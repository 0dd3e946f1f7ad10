"""The base of administrative kinds: keys, webhooks, users and others of one tenant."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from memorist.admin.principal import Principal
from memorist.base.errors import NotFound
from memorist.kinds.kind import Kind, Owner, Services
from memorist.storage.database import Transaction
from memorist.storage.tables import Table
from memorist.storage.writer import Change

Result = TypeVar("Result")


class AdminKind(Kind):
    """A kind for the administrators of a tenant, as `principal` sees it.

    Clients check with `Principal.require_verb` who may call its verbs. A program that opens the
    database itself has no principal and may do anything.
    """

    tables: ClassVar[tuple[Table, ...]] = ()
    is_admin = True

    def __init__(
        self, services: Services, owner: Owner, principal: Principal | None = None
    ) -> None:
        super().__init__(services, owner)
        self._tenant = owner.tenant
        self._principal = principal

    @property
    def _is_operator(self) -> bool:
        """Whether this is the tenant of the settings, whose admins see the whole database."""
        return self._tenant == self._settings.tenant

    def _existing_tenant(self) -> str:
        """Return the tenant, or raise NotFound: a typo must not create a tenant."""
        if self._tenant not in self._database.tenants():
            raise NotFound(what="tenant", id=self._tenant)
        return self._tenant

    def _change(
        self,
        verb: str,
        work: Callable[[Transaction], Result],
        subject: str,
        *,
        idempotent: bool = False,
        frees_space: bool = False,
    ) -> Result:
        """Run one change in a transaction. Changes of an administrator have no events."""
        change = Change(self.name, verb, self._tenant, subject=subject)
        return self._services.writer.write(
            change, work, idempotent=idempotent, frees_space=frees_space
        )
