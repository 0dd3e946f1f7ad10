"""The caller of a chat turn: its permissions, and the audit of its actions."""

from __future__ import annotations

from dataclasses import dataclass

from memorist.admin.audited_writer import AuditedAction, acting_as
from memorist.admin.principal import Principal
from memorist.memory import Scope


@dataclass(frozen=True)
class Caller:
    """An authenticated caller and its request."""

    principal: Principal
    request_id: str = ""

    def acting(self, scope: Scope, action: str, subject: str = "") -> Scope:
        """Return the same scope, whose next change is audited as an action of the caller."""
        services = acting_as(
            scope.services, self.principal, AuditedAction(action, self.request_id, subject)
        )
        return Scope(services, scope.owner)
