"""Principals: authenticated callers. Tenant and permissions of a request come only from here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from memorist.base.errors import Forbidden, Invalid
from memorist.base.verbs import SHARING, Endpoint, Permission

__all__ = [
    "PERMISSIONS",
    "PERMISSION_ORDER",
    "Permission",
    "Principal",
    "local_principal",
    "parse_permissions",
]

PERMISSION_ORDER: tuple[Permission, ...] = get_args(Permission)
PERMISSIONS = frozenset(PERMISSION_ORDER)


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

    def require_verb(self, endpoint: Endpoint) -> None:
        """Raise Forbidden unless the principal may call a verb with some arguments."""
        self.require(endpoint.needs)
        if endpoint.needs_admin:
            self.require_whole_tenant("manage the tenant")
        if endpoint.also_needs:
            self.require(endpoint.also_needs)

    def may_call(self, endpoint: Endpoint) -> bool:
        """Return whether the principal may call a verb with some arguments."""
        try:
            self.require_verb(endpoint)
        except Forbidden:
            return False
        return True

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
        sharing = SHARING.get(kind, "never")
        is_shared = (
            sharing == "always"
            or (sharing == "by_area" and arguments.get("area") == "tenant")
            or (sharing == "without_user" and user is None)
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


def parse_permissions(permissions: Iterable[str]) -> list[Permission]:
    """Return sorted, distinct permissions. Raise Invalid if there are none or one is unknown."""
    names = [permissions] if isinstance(permissions, str) else list(permissions)
    unknown = [name for name in names if name not in PERMISSIONS]
    if unknown or not names:
        problem = f"must be some of {', '.join(PERMISSION_ORDER)}"
        if unknown:
            problem += f", not {str(unknown[0])[:50]!r}"
        raise Invalid(field="permissions", problem=problem)
    return [permission for permission in PERMISSION_ORDER if permission in names]
