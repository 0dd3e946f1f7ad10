"""Common parts of ADK's session and memory services: scopes, session ids, events as messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

from memorist.base import canonical
from memorist.base.errors import Forbidden
from memorist.content.message import Message
from memorist.kinds.sessions import Session
from memorist.memory import Scope
from memorist_frameworks.formats import adk as message_format
from memorist_frameworks.require import require_extra

with require_extra("adk"):
    from google.adk.events.event import Event
    from pydantic import ValidationError
    from pydantic_core import from_json, to_jsonable_python

ADK = "adk"
"""Prefix of the keys under which ADK's state is stored."""


def scope_for(scope: Scope, app: str, user: str) -> Scope:
    """Return the scope of one app and one user, within what the service was created for."""
    owner = replace(
        scope.owner,
        user=check_name("user_id", scope.owner.user, user),
        agent=check_name("app_name", scope.owner.agent, app),
    )
    return Scope(scope.services, owner)


def check_name(field: str, bound: str | None, name: str) -> str:
    """Return a user or app name that is not blank and not outside the service's scope."""
    if bound not in (None, canonical.key(name, field)):
        raise Forbidden(problem=f"this service is bound to {field} {bound!r}, not {name!r}")
    return name


def memorist_id(app: str, user: str, session: str) -> str:
    """Return our id of an ADK session."""
    return "/".join(quote(part, safe="") for part in (app, user, session))


def adk_id(session: Session) -> str | None:
    """Return ADK's id of a session, or None if ADK did not create the session."""
    id = unquote(session.id.rpartition("/")[2])
    return id if id and session.id == memorist_id(session.agent, session.user, id) else None


def dump_event(event: Event) -> dict[str, Any]:
    """Return an event as JSON, by alias: that is read back in half the time."""
    dumped = event.model_dump(mode="json", by_alias=True, exclude_none=True)
    if ids := dumped.get("longRunningToolIds"):  # a set, whose order differs between processes
        ids.sort()
    return dumped


def load_event(message: Message) -> Event:
    """Return a stored message as an event."""
    try:
        return Event.model_validate(message_format.from_message(message, from_json(message.raw)))
    except ValidationError:  # another client wrote something that looks like an event
        return Event.model_validate(message_format.convert_foreign(message))


def event_key(id: str, dumped: Mapping[str, Any]) -> str:
    """Return the idempotency key of an event: its id and a hash, since ids need not be unique."""
    content = json.dumps(dumped, sort_keys=True)
    return f"{id[:64]} {hashlib.sha256(content.encode()).hexdigest()}"


def to_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return ADK's objects as JSON values."""
    converted: dict[str, Any] = to_jsonable_python(values, fallback=str, inf_nan_mode="null")
    return converted
