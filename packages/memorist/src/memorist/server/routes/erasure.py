"""What the server forgets when a key, a user or an agent is gone."""

from __future__ import annotations

from collections.abc import Callable

from memorist.admin.api_keys import ApiKeys
from memorist.admin.authenticator import Authenticator
from memorist.admin.users import Users
from memorist.server.routes.running_turns import RunningTurns
from memorist.storage.writer import Change


def listener(authenticator: Authenticator, turns: RunningTurns) -> Callable[[Change], None]:
    """Return a listener of changes, whatever interface they come from.

    It forgets cached credentials, and the events of turns of a user or an agent that was erased.
    """

    def forget(change: Change) -> None:
        events = [change.event, *(part.type for part in change.parts or ())]
        is_erasure = "erased" in events
        if is_erasure:
            turns.forget(change.tenant, change.subject if change.kind == Users.name else None)
        if is_erasure or change.kind == ApiKeys.name:
            authenticator.forget()

    return forget
