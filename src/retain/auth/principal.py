"""Principals: authenticated callers. Tenant and permissions of a request come only from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from retain.base.errors import Forbidden

Permission = Literal["read", "write", "delete", "admin"]
"""A permission of a credential; no permission includes another."""
PERMISSIONS: frozenset[Permission] = frozenset(get_args(Permission))
SHARED_WITHOUT_USER = ("items", "graph")
"""Kinds that belong to a user, or to the whole tenant in a scope without a user."""


@dataclass(frozen=True)
class Principal:
    """An authenticated caller of a tenant, optionally bound to one user or one agent."""

    tenant: str
    permissions: frozenset[Permission]
    name: str
    """The name in the audit log; never the credential."""
    user: str | None = None
    agent: str | None = None
    until: int | None = None
    """When its API key or token expires, in microseconds."""

    def require(self, permission: Permission) -> None:
        """Raise Forbidden unless the principal has a permission."""
        if permission not in self.permissions:
            lacks = f"may not {permission}"
            if permission == "admin":
                lacks = "lacks the permission admin"
            allowed = ", ".join(sorted(self.permissions)) or "none"
            raise Forbidden(problem=f"this key {lacks}; its permissions are: {allowed}")

    def require_whole_tenant(self, action: str) -> None:
        """Raise Forbidden if the principal is bound to one user or agent."""
        if self.user is not None or self.agent is not None:
            raise Forbidden(problem=f"a key bound to one user or agent may not {action}")

    def require_for(
        self, permission: Permission, kind: str, arguments: Mapping[str, Any], user: str | None
    ) -> None:
        """Raise Forbidden unless the principal may call a verb of a kind with these arguments.

        user: the owner of the memory. Without one, some kinds belong to the whole tenant.
        """
        self.require(permission)
        refreshes = bool(arguments.get("refresh"))
        if refreshes:  # A read that extends the expiry is a write.
            self.require("write")
        is_shared = (
            kind == "agents"
            or (kind == "state" and arguments.get("area") == "tenant")
            or (kind in SHARED_WITHOUT_USER and user is None)
        )
        if is_shared and (refreshes or permission != "read"):
            self.require_whole_tenant("change data that the whole tenant shares")

    def owner_of(self, user: str | None, agent: str | None) -> tuple[str, str | None, str | None]:
        """Return the tenant, user and agent of a request.

        Raises Forbidden if it names another user or agent than the principal is bound to.
        """
        for field, bound, requested in (("user", self.user, user), ("agent", self.agent, agent)):
            if bound is not None and requested not in (None, bound):
                raise Forbidden(problem=f"this key is bound to the {field} {bound!r}")
        return self.tenant, self.user or user, self.agent or agent


def local_principal(tenant: str) -> Principal:
    """Return the principal of requests on this machine to a database that has no API key."""
    return Principal(tenant, PERMISSIONS, "local")
