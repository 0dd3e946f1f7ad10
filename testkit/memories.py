"""What most tests ask of a memory: a scope of it, and what `verify` says of it."""

from __future__ import annotations

from typing import Any

from memorist import Memory, Scope


def scope_of(
    memory: Memory, user: str | None = None, agent: str | None = None, **more: Any
) -> Scope:
    """Return the memory of a user and an agent of the tenant acme."""
    return memory.scope(tenant="acme", user=user, agent=agent, **more)


def problems(memory: Memory) -> list[str]:
    """Return the problems that `verify` finds."""
    return [finding.problem for finding in memory.verify() if not finding.ok]
