"""Call a verb of a scope for a client: the step that REST and MCP share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retain.api.endpoints import Endpoint
from retain.memory import Scope


def invoke(endpoint: Endpoint, scope: Scope, arguments: Mapping[str, Any]) -> Any:
    """Call the verb of an endpoint, observed by the scope's services, and return its result."""
    target = getattr(scope, endpoint.kind) if endpoint.kind else scope
    verb = getattr(target, endpoint.verb)
    return scope.services.observer.call(endpoint.operation, scope.owner, verb, **arguments)
