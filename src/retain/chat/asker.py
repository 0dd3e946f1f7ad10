"""Who has a turn run, where it is somebody with a credential: what they may do, and what they do is on record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from retain.auth.audited import Action, attended
from retain.auth.principal import Principal
from retain.memory import Scope


@dataclass(frozen=True)
class Caller:
    """Somebody who was let in, with one request."""

    principal: Principal
    request_id: str = ""

    def doing(
        self, scope: Scope, what: str, named: Mapping[str, Any] | None = None, subject: str = ""
    ) -> Scope:
        """The same memory for one act that is on record."""
        act = Action(what, named or {}, request_id=self.request_id, subject=subject)
        return Scope(attended(scope._services, scope.owner, self.principal, act), scope.owner)
