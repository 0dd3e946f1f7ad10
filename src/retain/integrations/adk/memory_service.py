"""The memory of Google's Agent Development Kit: everything that is remembered of an app and a user."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from retain.base.errors import AlreadyExists, Invalid, KeyReused, NotFound
from retain.integrations._require import extra, local
from retain.integrations.adk.events import (
    ADK,
    as_json,
    event_of,
    id_of,
    key_of,
    scope_of,
    written_of,
)
from retain.kinds.finding import LIKELY, MOST_HITS
from retain.memory import Scope
from retain.messages.formats import adk as talk
from retain.search.query import Hit

with extra("adk"):
    from google.adk.events.event import Event
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import Session
    from google.genai.types import Content, Part

_UNNAMED = "memories"
_ADDED = "/memory"
_MOST = 10
_FENCE = re.compile(r"<(?=/?\s*PAST_CONVERSATIONS\b)", re.IGNORECASE)


class RetainMemoryService(BaseMemoryService):
    """What an agent can search: every session of the app and user, and whatever else is remembered of them.

    Sessions that `RetainSessionService` keeps are found as soon as they are said; adding them changes nothing. Those of
    other session services are kept here when they are added, each event once.
    """

    def __init__(self, scope: Scope, *, kinds: Sequence[str] | None = None) -> None:
        self.scope, self.kinds = local(scope), kinds

    async def add_session_to_memory(self, session: Session) -> None:
        """Keep the events of a session that are not kept yet."""
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
        """Keep some events that are not kept yet."""
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
        """Keep memories as they are given; one that is the same to its id and its moment is kept once."""
        events = [_said(memory) for memory in memories]
        await asyncio.to_thread(self._add, app_name, user_id, "", events, custom_metadata or {})

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """What is remembered that answers a question, by words and by meaning, best first."""
        return SearchMemoryResponse(
            memories=await asyncio.to_thread(self._search, app_name, user_id, query)
        )

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forget something that was found, for good and everywhere: in its session, too."""
        if memory_id:
            await asyncio.to_thread(_forget, scope_of(self.scope, app_name, user_id), memory_id)

    def _add(
        self, app: str, user: str, session: str, events: Sequence[Event], more: Mapping[str, object]
    ) -> None:
        scope, name = scope_of(self.scope, app, user), id_of(app, user, session)
        try:
            known = {
                key_of(event.id, written_of(event))
                for event in map(event_of, scope.messages.window(name))
            }
        except NotFound:  # not one of our session service, whose sessions nobody else begins
            known, name = set(), name + _ADDED
            with suppress(AlreadyExists):
                scope.sessions.add(name, label=session or _UNNAMED)
        for event in events:
            if not event.content or not event.content.parts or event.partial:
                continue
            written = written_of(event)
            key = key_of(event.id, written)
            if key in known or talk.is_foreign(
                event.id, name
            ):  # what others said there is there, or was removed
                continue
            if more:
                written["customMetadata"] = as_json({**written.get("customMetadata", {}), **more})
            with suppress(KeyReused):  # it is kept, with other metadata
                scope.messages.extend(name, [talk.to_message(written)], key=key)

    def _search(self, app: str, user: str, query: str) -> list[MemoryEntry]:
        scope, found = scope_of(self.scope, app, user), list[Hit]()
        if not query.strip():
            return []
        for most in (2 * _MOST, MOST_HITS):  # more, where what is not for this app took the places
            hits = scope.search(query, kinds=self.kinds, limit=most, min_score=LIKELY)
            # What is asked is kept, too, and no answer to itself.
            found = [hit for hit in hits if _is_of(app, hit) and hit.text.strip() != query.strip()][
                :_MOST
            ]
            if len(found) == _MOST or len(hits) < most:
                break
        return [entry for hit in found for entry in _entry(scope, hit)]


def _is_of(app: str, hit: Hit) -> bool:
    """Whether something is not what the kit keeps for another app: state is the user's or the tenant's, whatever agent."""
    return hit.kind != "state" or not hit.title.startswith(f"{ADK} ") or hit.title == f"{ADK} {app}"


def _forget(scope: Scope, memory_id: str) -> None:
    """Remove something that can be found for the scope's app and is its user's own."""
    kind, _, rest = memory_id.partition(" ")
    id, _, seq = rest.rpartition(" ")
    with suppress(NotFound):
        if kind == "messages" and seq.isdecimal():
            if scope.sessions.get(id).agent == scope.owner.agent:
                scope.messages.remove(id, int(seq))
        elif kind == "entries":
            if scope.entries.get(id).user is None:
                raise Invalid(field="memory_id", problem="is of an entry that is every user's")
            scope.entries.remove(id)
        else:
            raise Invalid(
                field="memory_id", problem="is of something that only its own kind can remove"
            )


def _entry(scope: Scope, hit: Hit) -> list[MemoryEntry]:
    """Something that was found, as the kit tells it to a model."""
    known: dict[str, Any] = {
        "id": f"{hit.kind} {hit.id} {hit.seq}",
        "timestamp": hit.at.isoformat(),
    }
    if hit.kind != "messages":
        text = f"{hit.title}: {hit.text}" if hit.title else hit.text
        said = Content(role="user", parts=[Part(text=_fenced(text))])
        return [
            MemoryEntry(
                content=said,
                author=hit.author or hit.kind,
                custom_metadata={"kind": hit.kind},
                **known,
            )
        ]
    try:
        event = event_of(scope.messages.get(hit.id, hit.seq))
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
    return Event(
        author=author, invocation_id=_UNNAMED, content=memory.content, custom_metadata=more, **known
    )
