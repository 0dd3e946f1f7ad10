"""Google's Agent Development Kit: its sessions are ours, events are messages; and its memory is everything we remember.

The kit names a session by app, user and id: here by all three together, and the app is the agent. State is kept as one
document each: the app's with the tenant, the user's with the user, the session's with the session.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any
from urllib.parse import quote
from uuid import uuid4
from weakref import WeakValueDictionary

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.platform import time as platform_time
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.state import State
from google.genai.types import Content, Part
from pydantic_core import from_json, to_jsonable_python

from retain.errors import AlreadyExists, Forbidden, Invalid, NotFound, OutOfOrder
from retain.kinds.finding import LIKELY
from retain.kinds.sessions import Session as OurSession
from retain.memory import Scope
from retain.search.find import Hit
from retain.talk import adk as talk
from retain.talk.message import Message

_ADK = "adk"
_STALE = "The session has been changed in storage since it was loaded: load it again before appending to it."
_UNNAMED = "memories"
_MOST = 10
_FENCE = re.compile(r"<(?=/?\s*PAST_CONVERSATIONS\b)", re.IGNORECASE)
Delta = dict[str, dict[str, Any]]


def _scope(scope: Scope, app: str, user: str | None) -> Scope:
    """The scope of one app and one user: never another than the service is for."""
    for field, bound, named in (("user", scope.who.user, user), ("agent", scope.who.agent, app)):
        if bound is not None and named not in (None, bound):
            raise Forbidden(problem=f"this service is for the {field} {bound!r} alone, not for {named!r}")
    return Scope(scope._home, replace(scope.who, user=user or scope.who.user, agent=app))


def _id(app: str, user: str, session: str) -> str:
    return "/".join(quote(part, safe="") for part in (app, user, session))


class RetainSessionService(BaseSessionService):
    """Sessions of any app and any user of the scope's tenant; of one user alone where the scope has one."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Start a session, with some state."""
        id = (session_id or "").strip() or str(uuid4())
        return await asyncio.to_thread(self._create, app_name, user_id, id, _deltas(state or {}))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """A session with its events, or the newest of them; None where there is none."""
        id = session_id.strip()
        return await asyncio.to_thread(self._get, app_name, user_id, id, config or GetSessionConfig())

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions of an app, of one user or of all, without their events, the one that was used last at the end."""
        return ListSessionsResponse(sessions=await asyncio.to_thread(self._list, app_name, user_id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session with its events and its state; one that is not there is no error."""

        def remove() -> None:
            with suppress(NotFound):
                _scope(self.scope, app_name, user_id).sessions.remove(_id(app_name, user_id, session_id.strip()))

        await asyncio.to_thread(remove)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """What an app keeps of a user, whatever the session; without the prefix."""
        return await asyncio.to_thread(lambda: _state(_scope(self.scope, app_name, user_id), app_name, "user"))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Add an event, and what it changes of the state, at once; only to the session as it was loaded."""
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        id = _id(session.app_name, session.user_id, session.id)
        async with self._locks.setdefault(id, asyncio.Lock()):  # branches of one run share the session object
            seq, new = await asyncio.to_thread(self._append, session, event)
            if new:
                session._storage_update_marker = str(seq)
                session.last_update_time = event.timestamp
        return self._commit_event_to_session(session, event) if new else event

    def _create(self, app: str, user: str, id: str, deltas: Delta) -> Session:
        scope, now = _scope(self.scope, app, user), platform_time.get_time()
        name = _id(app, user, id)

        def work(inner: Scope) -> OurSession:
            made = inner.sessions.add(name, label=id, attributes={_ADK: {"app": app, "id": id, "created": now}})
            _merge(inner, app, name, deltas)
            return made

        try:
            made = scope.together(work, alone=_alone(app, deltas))
        except AlreadyExists:
            raise AlreadyExistsError(f"Session with id {id} already exists.") from None
        return self._session(scope, made, [], now)

    def _get(self, app: str, user: str, id: str, config: GetSessionConfig) -> Session | None:
        scope, name, last = _scope(self.scope, app, user), _id(app, user, id), config.num_recent_events
        try:
            found = scope.sessions.get(name)
            messages = [] if last == 0 else scope.messages.window(name, last=last)
        except NotFound:
            return None
        events = [_event(message) for message in messages]
        seq = max(found.last_seq, messages[-1].seq if messages else 0)  # one may have come between the two reads
        updated = events[-1].timestamp if events else self._updated(scope, found)
        if config.after_timestamp is not None:
            old = [place for place, event in enumerate(events) if event.timestamp < config.after_timestamp]
            events = events[old[-1] + 1 :] if old else events
        return self._session(scope, replace(found, last_seq=seq), events, updated)

    def _list(self, app: str, user: str | None) -> list[Session]:
        scope, after, found = _scope(self.scope, app, user), None, list[Session]()
        while True:
            page = scope.sessions.list(after=after)
            for one in page:
                if _ADK in one.attributes:  # and not a conversation of the agent's that the kit has not begun
                    found.append(self._session(scope, one, [], self._updated(scope, one)))
            after = page.next
            if after is None:
                return sorted(found, key=lambda one: (one.last_update_time, one.user_id, one.id))

    def _updated(self, scope: Scope, session: OurSession) -> float:
        messages = scope.messages.window(session.id, last=1) if session.count else []
        if messages:
            return float(talk.unpacked(messages[0])["timestamp"])
        return float(session.attributes.get(_ADK, {}).get("created") or session.created_at.timestamp())

    def _append(self, session: Session, event: Event) -> tuple[int, bool]:
        """The number of the event, and whether it is new: who delivers it once more changes nothing."""
        scope = _scope(self.scope, session.app_name, session.user_id)
        name = _id(session.app_name, session.user_id, session.id)
        written = _written(event)
        message, key = talk.packed(written), _key(event.id, written)
        deltas = _deltas(event.actions.state_delta)

        def work(inner: Scope) -> tuple[int, bool]:
            expected = self._expected(inner, session, name)
            added = inner.messages.extend(name, [message], key=key, expected_last_seq=expected)
            if not added or added[0].seq <= expected:  # it came before; perhaps it was removed since
                return expected, False
            _merge(inner, session.app_name, name, deltas)
            return added[0].seq, True

        try:
            return scope.together(work, alone=_alone(session.app_name, deltas))
        except NotFound:
            raise SessionNotFoundError(f"Session {session.id} not found.") from None
        except OutOfOrder:
            raise StaleSessionError(_STALE) from None

    def _expected(self, scope: Scope, session: Session, name: str) -> int:
        """The number of the last event that the caller's session knows of; what was not loaded here is looked at."""
        if session._storage_update_marker is not None:
            return int(session._storage_update_marker)
        found = scope.sessions.get(name)
        if self._updated(scope, found) > session.last_update_time:
            messages = scope.messages.window(name, last=1)
            known = session.events[-1].id if session.events else None
            if known != (talk.unpacked(messages[0])["id"] if messages else None):
                raise StaleSessionError(_STALE)
        return found.last_seq

    def _session(self, scope: Scope, found: OurSession, events: list[Event], updated: float) -> Session:
        app, user = found.agent, found.user
        whose = _scope(self.scope, app, user) if scope.who.user is None else scope
        state = _state(whose, app, f"session:{found.id}")
        state |= {State.APP_PREFIX + key: value for key, value in _state(whose, app, "tenant").items()}
        state |= {State.USER_PREFIX + key: value for key, value in _state(whose, app, "user").items()}
        id = str(found.attributes.get(_ADK, {}).get("id", found.id))
        session = Session(app_name=app, user_id=user, id=id, state=state, events=events, last_update_time=updated)
        session._storage_update_marker = str(found.last_seq)
        return session


class RetainMemoryService(BaseMemoryService):
    """What an agent can search: every session of the app and user, and whatever else is remembered of them.

    Sessions that `RetainSessionService` keeps are found as soon as they are said; adding them changes nothing. Those of
    other session services are kept here when they are added, each event once.
    """

    def __init__(self, scope: Scope, *, kinds: Sequence[str] | None = None) -> None:
        self.scope, self.kinds = scope, kinds

    async def add_session_to_memory(self, session: Session) -> None:
        """Keep the events of a session that are not kept yet."""
        await asyncio.to_thread(self._add, session.app_name, session.user_id, session.id, session.events)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Keep some events that are not kept yet."""
        await asyncio.to_thread(self._add, app_name, user_id, session_id or _UNNAMED, events)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Keep memories as they are given; one that is the same to its id and its moment is kept once."""
        events = [_said(memory) for memory in memories]
        await asyncio.to_thread(self._add, app_name, user_id, _UNNAMED, events)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """What is remembered that answers a question, by words and by meaning, best first."""
        return SearchMemoryResponse(memories=await asyncio.to_thread(self._search, app_name, user_id, query))

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget something that was found, for good and everywhere: in its session, too."""
        if memory_id:
            await asyncio.to_thread(self._forget, _scope(self.scope, app_name, user_id), memory_id)

    def _add(self, app: str, user: str, session: str, events: Sequence[Event]) -> None:
        scope, name = _scope(self.scope, app, user), _id(app, user, session)
        with suppress(AlreadyExists):
            kept = {_ADK: {"app": app, "id": session, "created": platform_time.get_time()}}
            scope.sessions.add(name, label=session, attributes=kept)
        for event in events:
            if event.content and event.content.parts and not event.partial:
                written = _written(event)
                scope.messages.extend(name, [talk.packed(written)], key=_key(event.id, written))

    def _search(self, app: str, user: str, query: str) -> list[MemoryEntry]:
        scope = _scope(self.scope, app, user)
        if not query.strip():
            return []
        found = scope.search(query, kinds=self.kinds, limit=2 * _MOST, least=LIKELY)
        answers = (
            hit for hit in found if hit.text.strip() != query.strip()
        )  # what is asked is kept, and no answer to itself
        return [entry for hit in islice(answers, _MOST) for entry in _entry(scope, hit)]

    def _forget(self, scope: Scope, memory_id: str) -> None:
        kind, _, rest = memory_id.partition(" ")
        id, _, seq = rest.rpartition(" ")
        with suppress(NotFound):
            if kind == "messages" and seq.isdecimal():
                scope.messages.remove(id, int(seq))
            elif kind == "entries":
                scope.entries.remove(id)
            else:
                raise Invalid(field="memory_id", problem="is of something that only its own kind can remove")


def _entry(scope: Scope, hit: Hit) -> list[MemoryEntry]:
    """Something that was found, as the kit tells it to a model."""
    known: dict[str, Any] = {"id": f"{hit.kind} {hit.id} {hit.seq}", "timestamp": hit.at.isoformat()}
    if hit.kind != "messages":
        text = f"{hit.title}: {hit.text}" if hit.title else hit.text
        said = Content(role="user", parts=[Part(text=_fenced(text))])
        return [MemoryEntry(content=said, author=hit.author or hit.kind, custom_metadata={"kind": hit.kind}, **known)]
    try:
        event = _event(scope.messages.get(hit.id, hit.seq))
    except NotFound:  # it was removed just now
        return []
    content = event.content or Content(parts=[])
    for part in content.parts or []:
        part.text = None if part.text is None else _fenced(part.text)
    more = {**(event.custom_metadata or {}), "kind": hit.kind}
    return [MemoryEntry(content=content, author=event.author, custom_metadata=more, **known)]


def _fenced(text: str) -> str:
    """Text that cannot end the block in which the kit puts what is remembered into a prompt."""
    return _FENCE.sub("‹", text)


def _said(memory: MemoryEntry) -> Event:
    """A memory as an event of nobody's turn."""
    known: dict[str, Any] = {"id": memory.id} if memory.id else {}
    if memory.timestamp:
        with suppress(ValueError):
            known["timestamp"] = datetime.fromisoformat(memory.timestamp).timestamp()
    more, author = memory.custom_metadata or None, memory.author or "user"
    return Event(author=author, invocation_id=_UNNAMED, content=memory.content, custom_metadata=more, **known)


def _deltas(state: Mapping[str, Any]) -> Delta:
    """What changes of the app's, the user's and the session's state, as JSON; what is temporary is nobody's."""
    found: Delta = {"tenant": {}, "user": {}, "session": {}}
    for key, value in state.items():
        for area, prefix in (("tenant", State.APP_PREFIX), ("user", State.USER_PREFIX), ("session", "")):
            if key.startswith(prefix) and not key.startswith(State.TEMP_PREFIX):
                found[area][key.removeprefix(prefix)] = value
                break
    return {area: to_jsonable_python(values, fallback=str, inf_nan_mode="null") for area, values in found.items()}


def _alone(app: str, deltas: Delta) -> str | None:
    """What whoever changes the same state waits for; a session is waited for in any case."""
    return f"adk {app}" if deltas["tenant"] or deltas["user"] else None


def _merge(scope: Scope, app: str, session: str, deltas: Delta) -> None:
    """Change the state, each part of it as a dictionary is updated. Only inside of a transaction."""
    for area, delta in deltas.items():
        if delta:
            place = f"session:{session}" if area == "session" else area
            scope.state.set(f"{_ADK} {app}", _state(scope, app, place) | delta, area=place)


def _state(scope: Scope, app: str, area: str) -> dict[str, Any]:
    try:
        return dict(scope.state.get(f"{_ADK} {app}", area=area).value)
    except NotFound:
        return {}


def _written(event: Event) -> dict[str, Any]:
    """An event as JSON, by its aliases: so it is read in half the time."""
    return event.model_dump(mode="json", by_alias=True, exclude_none=True)


def _event(message: Message) -> Event:
    return Event.model_validate(talk.unpacked(message, from_json(message.raw)))


def _key(id: str, written: Mapping[str, Any]) -> str:
    """What an event is known by: its id, and what it says, because nothing keeps two events from having one id."""
    return f"{id[:64]} {hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()}"
