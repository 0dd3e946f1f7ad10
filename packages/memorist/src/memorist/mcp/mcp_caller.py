"""The caller of an MCP request.

Permissions and identity come from the transport, not from the message.
"""

from __future__ import annotations

from dataclasses import dataclass

from memorist.admin.principal import Principal
from memorist.chat.caller import Caller
from memorist.memory import Memory, Scope


@dataclass(frozen=True)
class McpCaller:
    """An authenticated caller and its memory.

    `user` and `agent` are the defaults for calls that name none. Unlike the `Caller` of a chat turn,
    which has one scope, it creates the scope of each call.
    """

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
        return Caller(self.principal, self.request_id).acting(scope, action, subject)
