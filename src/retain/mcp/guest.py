"""Who calls over MCP: what they may do and whose memory they mean, said by the request or the command that brought them."""

from __future__ import annotations

from dataclasses import dataclass

from retain.auth.audited import Action, attended
from retain.auth.principal import Principal
from retain.memory import Memory, Scope


@dataclass(frozen=True)
class Caller:
    """Somebody who was let in; user and agent are those that are meant where a call names no others."""

    memory: Memory
    principal: Principal
    user: str | None = None
    agent: str | None = None
    request_id: str = ""

    def scope(self, *, user: str | None = None, agent: str | None = None) -> Scope:
        """The memory that is meant; what is written there is an agent's."""
        tenant, user, agent = self.principal.whose(user or self.user, agent or self.agent)
        return self.memory.scope(tenant=tenant, user=user, agent=agent, source="agent")

    def acting(self, scope: Scope, act: Action) -> Scope:
        """The same memory for one act that is on record."""
        return Scope(attended(self.memory.services, scope.owner, self.principal, act), scope.owner)
