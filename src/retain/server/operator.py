"""The operator of the server: an admin of the configured tenant, or a local caller without keys.

Only the operator may see data about the whole database, such as its number of rows. Other tenants
may not, whatever permissions their keys have.
"""

from __future__ import annotations

from starlette.requests import HTTPConnection

from retain.auth.principal import Principal
from retain.base.errors import Forbidden
from retain.server.request_authenticator import RequestAuthenticator


def is_operator(authenticator: RequestAuthenticator, principal: Principal) -> bool:
    """Return whether a principal may see data about all tenants."""
    return (
        "admin" in principal.permissions
        and principal.tenant == authenticator.memory.settings.tenant
    )


async def operator(authenticator: RequestAuthenticator, request: HTTPConnection) -> Principal:
    """Return the principal of a request. Raise Forbidden unless it is the operator."""
    principal = await authenticator.authorize_admin(request, "see what is about the whole server")
    if not is_operator(authenticator, principal):
        raise Forbidden(problem="this is for admins of the server's own tenant")
    return principal
