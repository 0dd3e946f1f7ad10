"""Who is asking, as far as a credential proves it: the tenant and the permissions come from here and from nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from retain.errors import Forbidden

Permission = Literal["read", "write", "delete", "admin"]
"""What a credential allows; none of them includes another."""
PERMISSIONS: frozenset[Permission] = frozenset(get_args(Permission))


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

    def require(self, permission: Permission) -> None:
        """Go on only if this is allowed."""
        if permission not in self.permissions:
            raise Forbidden(
                problem=f"this key may not {permission}, only {', '.join(sorted(self.permissions)) or 'nothing'}"
            )

    def whose(self, user: str | None, agent: str | None) -> tuple[str, str | None, str | None]:
        """The tenant, user and agent that are meant; a principal that is one user's may name no other."""
        for field, bound, named in (("user", self.user, user), ("agent", self.agent, agent)):
            if bound is not None and named not in (None, bound):
                raise Forbidden(problem=f"this key is for the {field} {bound!r} alone")
        return self.tenant, self.user or user, self.agent or agent


def local(tenant: str) -> Principal:
    """Whoever sits at this machine, where the database is a file of theirs and no key was ever made."""
    return Principal(tenant, PERMISSIONS, "local")
