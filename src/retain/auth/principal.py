"""Who is asking, as far as a credential proves it: the tenant and the permissions come from here and from nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from retain.base.errors import Forbidden

Permission = Literal["read", "write", "delete", "admin"]
"""What a credential allows; none of them includes another."""
PERMISSIONS: frozenset[Permission] = frozenset(get_args(Permission))
_OF_NOBODY = ("items", "graph")
"""Kinds of which each user has their own, and the tenant too."""


@dataclass(frozen=True)
class Principal:
    """Somebody who was let in: a tenant's, with some permissions, and perhaps as one user or one agent alone.

    `name` is what the audit log calls them: never the credential itself.
    """

    tenant: str
    permissions: frozenset[Permission]
    name: str
    user: str | None = None
    agent: str | None = None
    until: int | None = None
    """When the key ends that let them in, by the database's clock; a token's end is its issuer's affair."""

    def require(self, permission: Permission) -> None:
        """Go on only if this is allowed."""
        if permission not in self.permissions:
            lacks = "is no admin's" if permission == "admin" else f"may not {permission}"
            raise Forbidden(
                problem=f"this key {lacks}, it may only {', '.join(sorted(self.permissions)) or 'do nothing'}"
            )

    def require_all(self, does: str) -> None:
        """Go on only if this is about the whole tenant, as what is to be done is."""
        if self.user is not None or self.agent is not None:
            raise Forbidden(problem=f"a key that is for one user or one agent alone may not {does}")

    def require_for(
        self, permission: Permission, kind: str, named: Mapping[str, Any], user: str | None
    ) -> None:
        """Go on only if a verb may be used on what it names: what the tenant shares is not for one user to change.

        `user` is whose memory is meant: of some kinds, what is nobody's is the tenant's.
        """
        self.require(permission)
        if refreshes := bool(named.get("refresh")):  # it is read, and lives longer for that
            self.require("write")
        shared = kind == "agents" or (kind == "state" and named.get("area") == "tenant")
        shared = shared or (kind in _OF_NOBODY and user is None)
        if shared and (refreshes or permission != "read"):
            self.require_all("change what the whole tenant shares")

    def whose(self, user: str | None, agent: str | None) -> tuple[str, str | None, str | None]:
        """The tenant, user and agent that are meant; a principal that is one user's may name no other."""
        for field, bound, named in (("user", self.user, user), ("agent", self.agent, agent)):
            if bound is not None and named not in (None, bound):
                raise Forbidden(problem=f"this key is for the {field} {bound!r} alone")
        return self.tenant, self.user or user, self.agent or agent


def local(tenant: str) -> Principal:
    """Whoever sits at this machine, where the database is a file of theirs and no key was ever made."""
    return Principal(tenant, PERMISSIONS, "local")
