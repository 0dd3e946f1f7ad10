"""Who runs this server: an admin of the tenant that its settings name, and whoever sits at a machine without keys.

What is about the whole database, such as how many rows it has, is no other tenant's business, whatever that tenant's keys
may do.
"""

from __future__ import annotations

from starlette.requests import HTTPConnection

from retain.auth.principal import Principal
from retain.base.errors import Forbidden
from retain.server.authenticator import Authenticator


def is_operator(authenticator: Authenticator, principal: Principal) -> bool:
    """Whether this principal may see what is about all tenants."""
    return (
        "admin" in principal.permissions
        and principal.tenant == authenticator.memory.settings.tenant
    )


async def operator(authenticator: Authenticator, request: HTTPConnection) -> Principal:
    """The principal of a request, if it is an operator's."""
    principal = await authenticator.admin(request, "see what is about the whole server")
    if not is_operator(authenticator, principal):
        raise Forbidden(problem="this is for admins of the server's own tenant")
    return principal
