"""What the sessions and the memory of Google's Agent Development Kit share: whose they are, their names, their events."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

from retain.base import canonical
from retain.base.errors import Forbidden
from retain.integrations._require import extra
from retain.kinds.sessions import Session
from retain.memory import Scope
from retain.messages.formats import adk as talk
from retain.messages.message import Message

with extra("adk"):
    from google.adk.events.event import Event
    from pydantic import ValidationError
    from pydantic_core import from_json, to_jsonable_python

ADK = "adk"


def scope_of(scope: Scope, app: str, user: str) -> Scope:
    """The scope of one app and one user: never another than the service is for, and never everybody's."""
    owner = replace(
        scope.owner,
        user=named("user_id", scope.owner.user, user),
        agent=named("app_name", scope.owner.agent, app),
    )
    return Scope(scope.services, owner)


def named(field: str, bound: str | None, name: str) -> str:
    """The name of a user or an app, which is not blank, and no other than the service is for."""
    if bound not in (None, canonical.key(name, field)):
        raise Forbidden(
            problem=f"this service is for the {field} {bound!r} alone, not for {name!r}"
        )
    return name


def id_of(app: str, user: str, session: str) -> str:
    """Our id of a session of the kit."""
    return "/".join(quote(part, safe="") for part in (app, user, session))


def kits_id(session: Session) -> str | None:
    """The kit's own id of a session, which ours ends with; None where the kit has not begun it."""
    id = unquote(session.id.rpartition("/")[2])
    return id if id and session.id == id_of(session.agent, session.user, id) else None


def written_of(event: Event) -> dict[str, Any]:
    """An event as JSON, by its aliases: so it is read in half the time."""
    written = event.model_dump(mode="json", by_alias=True, exclude_none=True)
    if ids := written.get("longRunningToolIds"):  # a set: in another process it has another order
        ids.sort()
    return written


def event_of(message: Message) -> Event:
    """A message as an event."""
    try:
        return Event.model_validate(talk.from_message(message, from_json(message.raw)))
    except ValidationError:  # somebody else wrote something like an event
        return Event.model_validate(talk.convert_foreign(message))


def key_of(id: str, written: Mapping[str, Any]) -> str:
    """What an event is known by: its id, and what it says, because nothing keeps two events from having one id."""
    return f"{id[:64]} {hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()}"


def as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the kit holds as objects, in JSON."""
    written: dict[str, Any] = to_jsonable_python(values, fallback=str, inf_nan_mode="null")
    return written
