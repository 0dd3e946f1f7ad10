"""Google's Agent Development Kit: its sessions are ours, and its events messages.

The kit names a session by app, user and id: here by all three together, and the app is the agent. State is kept as one
document each: the app's with the tenant, the user's with the user, the session's with the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4
from weakref import WeakValueDictionary

from retain.base.errors import AlreadyExists, NotFound, OutOfOrder
from retain.integrations._require import extra, local
from retain.integrations.adk.events import (
    ADK,
    as_json,
    event_of,
    id_of,
    key_of,
    kits_id,
    named,
    scope_of,
    written_of,
)
from retain.kinds.sessions import Session as OurSession
from retain.memory import Scope
from retain.messages.formats import adk as talk

with extra("adk"):
    from google.adk.errors import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events.event import Event
    from google.adk.platform import time as platform_time
    from google.adk.sessions import Session
    from google.adk.sessions.base_session_service import (
        BaseSessionService,
        GetSessionConfig,
        ListSessionsResponse,
    )
    from google.adk.sessions.state import State

_STALE = "The session has been changed in storage since it was loaded: load it again before appending to it."
Delta = dict[str, dict[str, Any]]
T = TypeVar("T")


class RetainSessionService(BaseSessionService):
    """Sessions of any app and any user of the scope's tenant; of one user alone where the scope has one."""

    def __init__(self, scope: Scope) -> None:
        self.scope = local(scope)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Start a session, with some state."""
        id = (session_id or "").strip() or str(uuid4())
        return await asyncio.to_thread(self._create, app_name, user_id, id, _deltas(state or {}))

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """A session with its events, or the newest of them; None where there is none."""
        id = session_id.strip()
        return await asyncio.to_thread(
            self._get, app_name, user_id, id, config or GetSessionConfig()
        )

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """The sessions of an app, of one user or of all, without their events, the one that was used last at the end."""
        return ListSessionsResponse(sessions=await asyncio.to_thread(self._list, app_name, user_id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session with its events and its state; one that is not there is no error."""

        def remove() -> None:
            with suppress(NotFound):
                scope_of(self.scope, app_name, user_id).sessions.remove(
                    id_of(app_name, user_id, session_id.strip())
                )

        await asyncio.to_thread(remove)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """What an app keeps of a user, whatever the session; without the prefix."""
        return await asyncio.to_thread(
            lambda: _state(scope_of(self.scope, app_name, user_id), app_name, "user")
        )

    async def append_event(self, session: Session, event: Event) -> Event:
        """Add an event, and what it changes of the state, at once; only to the session as it was loaded."""
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        id = id_of(session.app_name, session.user_id, session.id)
        async with self._locks.setdefault(
            id, asyncio.Lock()
        ):  # branches of one run share the session object
            seq, new = await asyncio.to_thread(self._append, session, event)
            if new:
                session._storage_update_marker = str(seq)
                session.last_update_time = event.timestamp
        return self._commit_event_to_session(session, event) if new else event

    def _create(self, app: str, user: str, id: str, deltas: Delta) -> Session:
        scope, now = scope_of(self.scope, app, user), platform_time.get_time()
        name, state = id_of(app, user, id), _States(scope, app)

        def work(inner: Scope) -> OurSession:
            made = inner.sessions.add(name, label=id, attributes={ADK: {"created": now}})
            _merge(inner, app, name, deltas)
            return made

        try:
            made = _together(scope, app, user, deltas, work)
        except AlreadyExists:
            raise AlreadyExistsError(f"Session with id {id} already exists.") from None
        return _session(made, id, state.of(made), [], now)

    def _get(self, app: str, user: str, id: str, config: GetSessionConfig) -> Session | None:
        scope, name, last = (
            scope_of(self.scope, app, user),
            id_of(app, user, id),
            config.num_recent_events,
        )
        try:
            found = scope.sessions.get(name)
            messages = [] if last == 0 else scope.messages.window(name, last=last)
        except NotFound:
            return None
        if kits_id(found) is None:  # another agent's, under this name
            return None
        events = [event_of(message) for message in messages]
        seq = max(
            found.last_seq, messages[-1].seq if messages else 0
        )  # one may have come between the two reads
        updated = events[-1].timestamp if events else self._updated(scope, found)
        if config.after_timestamp is not None:
            old = [
                place
                for place, event in enumerate(events)
                if event.timestamp < config.after_timestamp
            ]
            events = events[old[-1] + 1 :] if old else events
        return _session(
            replace(found, last_seq=seq), id, _States(scope, app).of(found), events, updated
        )

    def _list(self, app: str, user: str | None) -> list[Session]:
        owner, after, found = self.scope.owner, None, list[Session]()
        if user is None and owner.user is None:
            scope = Scope(
                self.scope.services, replace(owner, agent=named("app_name", owner.agent, app))
            )
        else:
            scope = scope_of(self.scope, app, str(owner.user) if user is None else user)
        states = _States(scope, app)
        while True:
            page = scope.sessions.list(after=after)
            for one in page:
                if (
                    id := kits_id(one)
                ) is None:  # a conversation of the agent's that the kit has not begun
                    continue
                with suppress(NotFound):  # it was deleted just now
                    found.append(_session(one, id, states.of(one), [], self._updated(scope, one)))
            after = page.next
            if after is None:
                return sorted(found, key=lambda one: (one.last_update_time, one.user_id, one.id))

    def _updated(self, scope: Scope, session: OurSession) -> float:
        messages = scope.messages.window(session.id, last=1) if session.count else []
        if messages:
            return float(talk.from_message(messages[0])["timestamp"])
        kept = session.attributes.get(ADK)  # anybody may have changed it
        created = kept.get("created") if isinstance(kept, dict) else None
        return (
            float(created) if isinstance(created, int | float) else session.created_at.timestamp()
        )

    def _append(self, session: Session, event: Event) -> tuple[int, bool]:
        """The number of the event, and whether it is new: who delivers it once more changes nothing."""
        scope = scope_of(self.scope, session.app_name, session.user_id)
        name = id_of(session.app_name, session.user_id, session.id)
        written = written_of(event)
        message, key = talk.to_message(written), key_of(event.id, written)
        deltas = _deltas(event.actions.state_delta)

        def work(inner: Scope) -> tuple[int, bool]:
            expected = self._expected(inner, session, name)
            added = inner.messages.extend(name, [message], key=key, expected_last_seq=expected)
            if (
                not added or added[0].seq <= expected
            ):  # it came before; perhaps it was removed since
                return expected, False
            _merge(inner, session.app_name, name, deltas)
            return added[0].seq, True

        try:
            return _together(scope, session.app_name, session.user_id, deltas, work)
        except NotFound:
            raise SessionNotFoundError(f"Session {session.id} not found.") from None
        except OutOfOrder:
            raise StaleSessionError(_STALE) from None

    def _expected(self, scope: Scope, session: Session, name: str) -> int:
        """The number of the last event that the caller's session knows of; what was not loaded here is looked at."""
        if (
            session._storage_update_marker or ""
        ).isdecimal():  # else it is none, or another service's
            return int(session._storage_update_marker or 0)
        found = scope.sessions.get(name)
        if self._updated(scope, found) > session.last_update_time:
            messages = scope.messages.window(name, last=1)
            known = session.events[-1].id if session.events else None
            if known != (talk.from_message(messages[0])["id"] if messages else None):
                raise StaleSessionError(_STALE)
        return found.last_seq


class _States:
    """The states of an app's sessions, each with what the app and its user keep, which are read once."""

    def __init__(self, scope: Scope, app: str) -> None:
        self._scope, self._app = scope, app
        self._of_app: dict[str, Any] | None = None
        self._of_users: dict[str, dict[str, Any]] = {}

    def of(self, session: OurSession) -> dict[str, Any]:
        """All of the state that a session sees."""
        if self._of_app is None:
            self._of_app = _prefixed(State.APP_PREFIX, _state(self._scope, self._app, "tenant"))
        if session.user not in self._of_users:
            kept = _state(scope_of(self._scope, self._app, session.user), self._app, "user")
            self._of_users[session.user] = _prefixed(State.USER_PREFIX, kept)
        own = _state(self._scope, self._app, f"session:{session.id}")
        return own | self._of_app | self._of_users[session.user]


def _prefixed(prefix: str, state: dict[str, Any]) -> dict[str, Any]:
    return {prefix + key: value for key, value in state.items()}


def _session(
    found: OurSession, id: str, state: dict[str, Any], events: list[Event], updated: float
) -> Session:
    app, user = found.agent, found.user
    session = Session(
        app_name=app, user_id=user, id=id, state=state, events=events, last_update_time=updated
    )
    session._storage_update_marker = str(found.last_seq)
    return session


def _deltas(state: Mapping[str, Any]) -> Delta:
    """What changes of the app's, the user's and the session's state, as JSON; what is temporary is nobody's."""
    found: Delta = {"tenant": {}, "user": {}, "session": {}}
    for key, value in state.items():
        for area, prefix in (
            ("tenant", State.APP_PREFIX),
            ("user", State.USER_PREFIX),
            ("session", ""),
        ):
            if key.startswith(prefix) and not key.startswith(State.TEMP_PREFIX):
                found[area][key.removeprefix(prefix)] = value
                break
    return {area: as_json(values) for area, values in found.items()}


def _together(scope: Scope, app: str, user: str, deltas: Delta, work: Callable[[Scope], T]) -> T:
    """Do all of it at once, after whoever changes the same state; a session is waited for in any case."""
    names = {"tenant": f"{ADK} {quote(app, safe='')}", "user": f"{ADK} {id_of(app, user, '')}"}

    def alone(inner: Scope) -> T:
        for area, name in names.items():  # in one order, whoever changes both
            if deltas[area]:
                inner.transaction(lambda _: None, lock=name)
        return work(inner)

    return scope.transaction(alone)


def _merge(scope: Scope, app: str, session: str, deltas: Delta) -> None:
    """Change the state, each part of it as a dictionary is updated. Only inside of a transaction."""
    for area, delta in deltas.items():
        if delta:
            place = f"session:{session}" if area == "session" else area
            scope.state.set(f"{ADK} {app}", _state(scope, app, place) | delta, area=place)


def _state(scope: Scope, app: str, area: str) -> dict[str, Any]:
    try:
        return dict(scope.state.get(f"{ADK} {app}", area=area).value)
    except NotFound:
        return {}
