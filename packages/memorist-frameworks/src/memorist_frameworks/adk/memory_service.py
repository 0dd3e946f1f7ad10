"""ADK's memory service: everything that is remembered for an app and a user."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from memorist.base.errors import AlreadyExists, Invalid, KeyReused, NotFound
from memorist.kinds.scope_search import LIKELY_SCORE, MAX_HITS
from memorist.memory import Scope
from memorist.search.query import Hit
from memorist_frameworks.adk.events import (
    ADK,
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
    from google.adk.events.event import Event
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import Session
    from google.genai.types import Content, Part

UNNAMED_SESSION = "memories"
OWN_SESSION_SUFFIX = "/memory"
RESULT_LIMIT = 10
_PROMPT_FENCE = re.compile(r"<(?=/?\s*PAST_CONVERSATIONS\b)", re.IGNORECASE)


class MemoristMemoryService(BaseMemoryService):
    """Search over every session of the app and user, and everything else that is remembered.

    Sessions of `MemoristSessionService` are found at once, and adding them changes nothing. Sessions
    of other session services are stored here when they are added, each event once.
    """

    def __init__(self, scope: Scope, *, kinds: Sequence[str] | None = None) -> None:
        self.scope = require_local_scope(scope)
        self.kinds = kinds

    async def add_session_to_memory(self, session: Session) -> None:
        """Store the events of a session that are not stored yet."""
        await asyncio.to_thread(
            self._add, session.app_name, session.user_id, session.id, session.events, {}
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store the given events that are not stored yet."""
        await asyncio.to_thread(
            self._add, app_name, user_id, session_id or "", events, custom_metadata or {}
        )

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store memories; equal ones with the same id and time are stored once."""
        events = [_to_event(memory) for memory in memories]
        await asyncio.to_thread(self._add, app_name, user_id, "", events, custom_metadata or {})

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Search by words and by meaning; the best result comes first."""
        memories = await asyncio.to_thread(self._search, app_name, user_id, query)
        return SearchMemoryResponse(memories=memories)

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Delete a memory for good, in its session too."""
        if memory_id:
            await asyncio.to_thread(_delete, scope_for(self.scope, app_name, user_id), memory_id)

    def _add(
        self,
        app: str,
        user: str,
        session: str,
        events: Sequence[Event],
        metadata: Mapping[str, object],
    ) -> None:
        scope = scope_for(self.scope, app, user)
        stored_id = memorist_id(app, user, session)
        stored_keys: set[str] = set()
        try:
            for message in scope.messages.window(stored_id):
                event = load_event(message)
                stored_keys.add(event_key(event.id, dump_event(event)))
        except NotFound:
            # Not a session of our session service: keep its events in a session of our own.
            stored_id += OWN_SESSION_SUFFIX
            with suppress(AlreadyExists):
                scope.sessions.add(stored_id, label=session or UNNAMED_SESSION)
        for event in events:
            if not event.content or not event.content.parts or event.partial:
                continue
            dumped = dump_event(event)
            key = event_key(event.id, dumped)
            # Messages of other clients carry our ids: they are stored, or were removed.
            if key in stored_keys or message_format.is_foreign(event.id, stored_id):
                continue
            if metadata:
                dumped["customMetadata"] = to_json({**dumped.get("customMetadata", {}), **metadata})
            with suppress(KeyReused):  # stored already, with other metadata
                scope.messages.extend(stored_id, [message_format.to_message(dumped)], key=key)

    def _search(self, app: str, user: str, query: str) -> list[MemoryEntry]:
        if not query.strip():
            return []
        scope = scope_for(self.scope, app, user)
        results: list[Hit] = []
        # Ask for more if too many hits belong to other apps.
        for limit in (2 * RESULT_LIMIT, MAX_HITS):
            hits = scope.search(query, kinds=self.kinds, limit=limit, min_score=LIKELY_SCORE)
            # The question itself is stored, too, and does not answer itself.
            results = [
                hit for hit in hits if _is_visible(app, hit) and hit.text.strip() != query.strip()
            ][:RESULT_LIMIT]
            if len(results) == RESULT_LIMIT or len(hits) < limit:
                break
        entries = (_to_entry(scope, hit) for hit in results)
        return [entry for entry in entries if entry is not None]


def _is_visible(app: str, hit: Hit) -> bool:
    """Return False for the ADK state of another app: state is shared between agents."""
    is_adk_state = hit.kind == "state" and hit.title.startswith(f"{ADK} ")
    return not is_adk_state or hit.title == f"{ADK} {app}"


def _delete(scope: Scope, memory_id: str) -> None:
    """Remove a message or an entry of the scope's app and user."""
    kind, _, rest = memory_id.partition(" ")
    id, _, seq = rest.rpartition(" ")
    with suppress(NotFound):
        if kind == "messages" and seq.isdecimal():
            if scope.sessions.get(id).agent == scope.owner.agent:
                scope.messages.remove(id, int(seq))
        elif kind == "entries":
            if scope.entries.get(id).user is None:
                raise Invalid(field="memory_id", problem="is an entry shared by all users")
            scope.entries.remove(id)
        else:
            raise Invalid(field="memory_id", problem="must be the id of a message or an entry")


def _to_entry(scope: Scope, hit: Hit) -> MemoryEntry | None:
    """Return a hit as ADK's memory entry, or None if the message was removed meanwhile."""
    id = f"{hit.kind} {hit.id} {hit.seq}"
    timestamp = hit.at.isoformat()
    if hit.kind != "messages":
        text = f"{hit.title}: {hit.text}" if hit.title else hit.text
        return MemoryEntry(
            id=id,
            timestamp=timestamp,
            content=Content(role="user", parts=[Part(text=_escape_fence(text))]),
            author=hit.author or hit.kind,
            custom_metadata={"kind": hit.kind},
        )
    try:
        event = load_event(scope.messages.get(hit.id, hit.seq))
    except NotFound:
        return None
    content = event.content or Content(parts=[])
    for part in content.parts or []:
        if part.text is not None:
            part.text = _escape_fence(part.text)
    return MemoryEntry(
        id=id,
        timestamp=timestamp,
        content=content,
        author=event.author,
        custom_metadata={**(event.custom_metadata or {}), "kind": hit.kind},
    )


def _escape_fence(text: str) -> str:
    """Keep text from closing the block in which ADK puts memories into a prompt."""
    return _PROMPT_FENCE.sub("‹", text)


def _to_event(memory: MemoryEntry) -> Event:
    """Return a memory as an event outside of any turn."""
    optional: dict[str, Any] = {"id": memory.id} if memory.id else {}
    if memory.timestamp:
        with suppress(ValueError):
            optional["timestamp"] = datetime.fromisoformat(memory.timestamp).timestamp()
    return Event(
        author=memory.author or "user",
        invocation_id=UNNAMED_SESSION,
        content=memory.content,
        custom_metadata=memory.custom_metadata or None,
        **optional,
    )
