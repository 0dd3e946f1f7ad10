"""ADK's session service: its sessions are ours, its events are messages.

ADK identifies a session by app, user and id: our id combines all three, and the app is the agent.
State is one document each: the app's belongs to the tenant, the user's to the user, the session's
to the session.
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

from memorist.base.errors import AlreadyExists, NotFound, OutOfOrder
from memorist.kinds.page import all_records
from memorist.kinds.sessions import Session as StoredSession
from memorist.memory import Scope
from memorist_frameworks.adk.events import (
    ADK,
    adk_id,
    check_name,
    dump_event,
    event_key,
    load_event,
    memorist_id,
    scope_for,
    to_json,
)
from memorist_frameworks.formats import adk as message_format
from memorist_frameworks.require import require_extra, require_local_scope

with require_extra("adk"):
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

STALE_SESSION = (
    "The session has been changed in storage since it was loaded: "
    "load it again before appending to it."
)
Delta = dict[str, dict[str, Any]]
T = TypeVar("T")


class MemoristSessionService(BaseSessionService):
    """Sessions of any app and user of the scope's tenant, or of the scope's user alone."""

    def __init__(self, scope: Scope) -> None:
        self.scope = require_local_scope(scope)
        # An asyncio.Lock works in one event loop only.
        self._locks: WeakValueDictionary[tuple[str, asyncio.AbstractEventLoop], asyncio.Lock] = (
            WeakValueDictionary()
        )

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session with its first state."""
        id = (session_id or "").strip() or str(uuid4())
        deltas = _split_state(state or {})
        return await asyncio.to_thread(self._create, app_name, user_id, id, deltas)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session with all or its newest events, or None."""
        config = config or GetSessionConfig()
        return await asyncio.to_thread(self._get, app_name, user_id, session_id.strip(), config)

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return the sessions of an app and a user, or all users, without events; newest last."""
        return ListSessionsResponse(sessions=await asyncio.to_thread(self._list, app_name, user_id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session with its events and state; a missing one is not an error."""

        def remove() -> None:
            scope = scope_for(self.scope, app_name, user_id)
            with suppress(NotFound):
                scope.sessions.remove(memorist_id(app_name, user_id, session_id.strip()))

        await asyncio.to_thread(remove)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state that an app keeps of a user across sessions, without the prefix."""
        return await asyncio.to_thread(
            lambda: _read_state(scope_for(self.scope, app_name, user_id), app_name, "user")
        )

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event and its state changes in one write, if the session is up to date."""
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        id = memorist_id(session.app_name, session.user_id, session.id)
        # Parallel branches of one run share the session object and an event loop.
        lock = self._locks.setdefault((id, asyncio.get_running_loop()), asyncio.Lock())
        async with lock:
            seq, is_new = await asyncio.to_thread(self._append, session, event)
            if is_new:
                session._storage_update_marker = str(seq)
                session.last_update_time = event.timestamp
        return self._commit_event_to_session(session, event) if is_new else event

    def _create(self, app: str, user: str, id: str, deltas: Delta) -> Session:
        scope = scope_for(self.scope, app, user)
        now = platform_time.get_time()
        stored_id = memorist_id(app, user, id)

        def work(inner: Scope) -> StoredSession:
            created = inner.sessions.add(stored_id, label=id, attributes={ADK: {"created": now}})
            _merge_state(inner, app, stored_id, deltas)
            return created

        try:
            stored = _transaction(scope, app, user, deltas, work)
        except AlreadyExists:
            raise AlreadyExistsError(f"Session with id {id} already exists.") from None
        return _to_adk(stored, id, _StateReader(scope, app).read(stored), [], now)

    def _get(self, app: str, user: str, id: str, config: GetSessionConfig) -> Session | None:
        scope = scope_for(self.scope, app, user)
        stored_id = memorist_id(app, user, id)
        last = config.num_recent_events
        try:
            stored = scope.sessions.get(stored_id)
            messages = [] if last == 0 else scope.messages.window(stored_id, last=last)
        except NotFound:
            return None
        if adk_id(stored) is None:  # a session of another agent with this id
            return None
        events = [load_event(message) for message in messages]
        # A message may have arrived between the two reads.
        last_seq = max(stored.last_seq, messages[-1].seq if messages else 0)
        updated = events[-1].timestamp if events else self._updated(scope, stored)
        if config.after_timestamp is not None:
            older = [
                position
                for position, event in enumerate(events)
                if event.timestamp < config.after_timestamp
            ]
            events = events[older[-1] + 1 :] if older else events
        state = _StateReader(scope, app).read(stored)
        return _to_adk(replace(stored, last_seq=last_seq), id, state, events, updated)

    def _list(self, app: str, user: str | None) -> list[Session]:
        owner = self.scope.owner
        if user is None and owner.user is None:
            agent = check_name("app_name", owner.agent, app)
            scope = Scope(self.scope.services, replace(owner, agent=agent))
        else:
            scope = scope_for(self.scope, app, str(owner.user) if user is None else user)
        states = _StateReader(scope, app)
        sessions: list[Session] = []
        for stored in all_records(lambda after: scope.sessions.list(after=after)):
            id = adk_id(stored)
            if id is None:  # a conversation of the agent that ADK did not create
                continue
            with suppress(NotFound):  # it was deleted meanwhile
                updated = self._updated(scope, stored)
                sessions.append(_to_adk(stored, id, states.read(stored), [], updated))
        return sorted(
            sessions, key=lambda session: (session.last_update_time, session.user_id, session.id)
        )

    def _updated(self, scope: Scope, session: StoredSession) -> float:
        messages = scope.messages.window(session.id, last=1) if session.count else []
        if messages:
            return float(message_format.from_message(messages[0])["timestamp"])
        attributes = session.attributes.get(ADK)  # any client may have changed them
        created = attributes.get("created") if isinstance(attributes, dict) else None
        if isinstance(created, int | float):
            return float(created)
        return session.created_at.timestamp()

    def _append(self, session: Session, event: Event) -> tuple[int, bool]:
        """Return the event's number, and True if it is new; a repeated one changes nothing."""
        scope = scope_for(self.scope, session.app_name, session.user_id)
        stored_id = memorist_id(session.app_name, session.user_id, session.id)
        dumped = dump_event(event)
        message = message_format.to_message(dumped)
        key = event_key(event.id, dumped)
        deltas = _split_state(event.actions.state_delta)

        def work(inner: Scope) -> tuple[int, bool]:
            expected = self._expected_seq(inner, session, stored_id)
            added = inner.messages.extend(stored_id, [message], key=key, expected_last_seq=expected)
            if not added or added[0].seq <= expected:  # a repeat, possibly removed since
                return expected, False
            _merge_state(inner, session.app_name, stored_id, deltas)
            return added[0].seq, True

        try:
            return _transaction(scope, session.app_name, session.user_id, deltas, work)
        except NotFound:
            raise SessionNotFoundError(f"Session {session.id} not found.") from None
        except OutOfOrder:
            raise StaleSessionError(STALE_SESSION) from None

    def _expected_seq(self, scope: Scope, session: Session, stored_id: str) -> int:
        """Return the number of the last event that the caller's session contains.

        A session that this service did not load is compared with the stored one.
        """
        marker = session._storage_update_marker or ""
        if marker.isdecimal():  # else there is none, or another service wrote it
            return int(marker)
        stored = scope.sessions.get(stored_id)
        if self._updated(scope, stored) > session.last_update_time:
            messages = scope.messages.window(stored_id, last=1)
            stored_event = message_format.from_message(messages[0])["id"] if messages else None
            loaded_event = session.events[-1].id if session.events else None
            if loaded_event != stored_event:
                raise StaleSessionError(STALE_SESSION)
        return stored.last_seq


class _StateReader:
    """Reads the states of an app's sessions; the app's and each user's part only once."""

    def __init__(self, scope: Scope, app: str) -> None:
        self._scope = scope
        self._app = app
        self._app_state: dict[str, Any] | None = None
        self._user_states: dict[str, dict[str, Any]] = {}

    def read(self, session: StoredSession) -> dict[str, Any]:
        """Return the whole state that a session sees."""
        if self._app_state is None:
            app_state = _read_state(self._scope, self._app, "tenant")
            self._app_state = _prefixed(State.APP_PREFIX, app_state)
        if session.user not in self._user_states:
            user_scope = scope_for(self._scope, self._app, session.user)
            user_state = _read_state(user_scope, self._app, "user")
            self._user_states[session.user] = _prefixed(State.USER_PREFIX, user_state)
        own = _read_state(self._scope, self._app, f"session:{session.id}")
        return own | self._app_state | self._user_states[session.user]


def _prefixed(prefix: str, state: dict[str, Any]) -> dict[str, Any]:
    return {prefix + key: value for key, value in state.items()}


def _to_adk(
    stored: StoredSession, id: str, state: dict[str, Any], events: list[Event], updated: float
) -> Session:
    session = Session(
        app_name=stored.agent,
        user_id=stored.user,
        id=id,
        state=state,
        events=events,
        last_update_time=updated,
    )
    session._storage_update_marker = str(stored.last_seq)
    return session


def _split_state(state: Mapping[str, Any]) -> Delta:
    """Split changes into the app's, the user's and the session's; drop temporary ones."""
    deltas: Delta = {"tenant": {}, "user": {}, "session": {}}
    for key, value in state.items():
        if key.startswith(State.TEMP_PREFIX):
            continue
        if key.startswith(State.APP_PREFIX):
            deltas["tenant"][key.removeprefix(State.APP_PREFIX)] = value
        elif key.startswith(State.USER_PREFIX):
            deltas["user"][key.removeprefix(State.USER_PREFIX)] = value
        else:
            deltas["session"][key] = value
    return {area: to_json(values) for area, values in deltas.items()}


def _transaction(scope: Scope, app: str, user: str, deltas: Delta, work: Callable[[Scope], T]) -> T:
    """Run work in one transaction that holds the locks of the states it changes.

    Appending to a session locks the session in any case.
    """
    locks = {
        "tenant": f"{ADK} {quote(app, safe='')}",
        "user": f"{ADK} {memorist_id(app, user, '')}",
    }

    def locked(inner: Scope) -> T:
        for area, lock in locks.items():  # always in this order, so that two cannot deadlock
            if deltas[area]:
                inner.transaction(lambda _: None, lock=lock)
        return work(inner)

    return scope.transaction(locked)


def _merge_state(scope: Scope, app: str, session: str, deltas: Delta) -> None:
    """Update each state like a dictionary. Call it inside of a transaction."""
    for area, delta in deltas.items():
        if delta:
            place = f"session:{session}" if area == "session" else area
            scope.state.set(f"{ADK} {app}", _read_state(scope, app, place) | delta, area=place)


def _read_state(scope: Scope, app: str, area: str) -> dict[str, Any]:
    try:
        return dict(scope.state.get(f"{ADK} {app}", area=area).value)
    except NotFound:
        return {}
