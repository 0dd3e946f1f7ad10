"""Who comes in: the credential of a request becomes a principal, before anything else is looked at."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from retain.access.principal import Permission, Principal, local
from retain.memory import Memory, Scope

USER, AGENT = "x-retain-user", "x-retain-agent"


class Door:
    """Lets in whoever has a key, and whoever sits at the machine of a database that has none."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    async def admit(self, request: HTTPConnection, permission: Permission) -> Principal:
        """The principal of a request, if it may do this."""
        principal = local(self.memory.settings.tenant)
        principal.require(permission)
        return principal

    def scope(self, request: HTTPConnection, principal: Principal, user: str | None, agent: str | None) -> Scope:
        """Whose memory a request means: its tenant is the principal's, user and agent come as parameters or headers."""
        user = user if user is not None else _header(request, USER)
        agent = agent if agent is not None else _header(request, AGENT)
        return self.memory.scope(*principal.whose(user, agent))


def _header(request: HTTPConnection, name: str) -> str | None:
    """A header as text: names are written in UTF-8, which headers are not by themselves."""
    found = request.headers.get(name)
    return None if found is None else found.encode("latin-1").decode("utf-8", "replace")
