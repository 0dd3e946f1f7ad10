"""The caller of an MCP request.

Permissions and identity come from the transport, not from the message.
"""

from __future__ import annotations

from dataclasses import dataclass

from retain.auth.audit import Action, acting_as
from retain.auth.principal import Principal
from retain.memory import Memory, Scope


@dataclass(frozen=True)
class Caller:
    """An authenticated caller; user and agent apply if a call names no others."""

    memory: Memory
    principal: Principal
    user: str | None = None
    agent: str | None = None
    request_id: str = ""

    def scope(self, *, user: str | None = None, agent: str | None = None) -> Scope:
        """Return the scope of a call. Its writes have the source `agent`."""
        tenant, user, agent = self.principal.owner_of(user or self.user, agent or self.agent)
        return self.memory.scope(tenant=tenant, user=user, agent=agent, source="agent")

    def acting(self, scope: Scope, action: str, subject: str = "") -> Scope:
        """Return the same scope, whose next change is audited as an action of the caller."""
        services = acting_as(
            scope.services, self.principal, Action(action, self.request_id, subject)
        )
        return Scope(services, scope.owner)
