"""Who has a turn run, where it is somebody with a credential: what they may do, and what they do is on record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from retain.access.attended import Act, attended
from retain.access.principal import Principal
from retain.memory import Scope


@dataclass(frozen=True)
class Asker:
    """Somebody who was let in, with one request."""

    principal: Principal
    request_id: str = ""

    def doing(
        self, scope: Scope, what: str, named: Mapping[str, Any] | None = None, subject: str = ""
    ) -> Scope:
        """The same memory for one act that is on record."""
        act = Act(what, named or {}, request_id=self.request_id, subject=subject)
        return Scope(attended(scope._home, scope.who, self.principal, act), scope.who)
