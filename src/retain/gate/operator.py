"""Who runs this server: an admin of the tenant that its settings name, and whoever sits at a machine without keys.

What is about the whole database, such as how many rows it has, is no other tenant's business, whatever that tenant's keys
may do.
"""

from __future__ import annotations

from starlette.requests import HTTPConnection

from retain.access.principal import Principal
from retain.errors import Forbidden
from retain.gate.door import Door


def is_operator(door: Door, principal: Principal) -> bool:
    """Whether this principal may see what is about all tenants."""
    return "admin" in principal.permissions and principal.tenant == door.memory.settings.tenant


async def operator(door: Door, request: HTTPConnection) -> Principal:
    """The principal of a request, if it is an operator's."""
    principal = await door.admin(request, "see what is about the whole server")
    if not is_operator(door, principal):
        raise Forbidden(problem="this is for admins of the server's own tenant")
    return principal
