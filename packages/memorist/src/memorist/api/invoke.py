"""Call a verb of a scope for a client: the step that REST and MCP share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memorist.admin.principal import Principal
from memorist.base.verbs import Endpoint
from memorist.memory import Administration, Scope


def invoke(
    endpoint: Endpoint, scope: Scope, arguments: Mapping[str, Any], principal: Principal
) -> Any:
    """Call the verb of an endpoint for a principal, observed by the scope's services."""
    target: Any = scope
    if endpoint.is_admin:
        target = Administration(scope.services, scope.owner, principal)
    if endpoint.kind:
        target = getattr(target, endpoint.kind)
    verb = getattr(target, endpoint.verb)
    return scope.services.observer.call(endpoint.operation, scope.owner, verb, **arguments)
