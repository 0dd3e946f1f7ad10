"""The verbs that clients can call, as the kinds and the scope declare them.

HTTP routes, the OpenAPI document, MCP tools, commands and client methods are made from these
declarations and from the typed signatures of the verbs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from memorist.base.verbs import Endpoint
from memorist.kinds import KINDS
from memorist.memory import ADMIN_KINDS, Scope

__all__ = [
    "ADMIN_ENDPOINTS",
    "ADMIN_KIND_HELP",
    "ENDPOINTS",
    "KIND_HELP",
    "SCOPE_ENDPOINTS",
    "Endpoint",
    "method_of",
]

ENDPOINTS = tuple(
    endpoint for kind in KINDS for endpoint in kind.verbs.values() if endpoint.request
)
SCOPE_ENDPOINTS = tuple(Scope.verbs.values())
"""Verbs of a scope itself, over all kinds of memory."""
ADMIN_ENDPOINTS = tuple(endpoint for kind in ADMIN_KINDS for endpoint in kind.verbs.values())
"""Verbs for administrators of a tenant."""
ADMIN_KIND_HELP = {kind.name: str(inspect.getdoc(kind)).split("\n")[0] for kind in ADMIN_KINDS}
KIND_HELP = {kind.name: str(inspect.getdoc(kind)).split("\n")[0] for kind in KINDS}
"""One sentence about each kind."""


def method_of(endpoint: Endpoint, kinds: Mapping[str, type]) -> Callable[..., Any]:
    """Return the method that an endpoint calls."""
    kind = kinds[endpoint.kind] if endpoint.kind else Scope
    method: Callable[..., Any] = getattr(kind, endpoint.verb)
    return method
