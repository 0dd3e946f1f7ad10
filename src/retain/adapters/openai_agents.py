"""OpenAI's Agents SDK: a `Session` whose items are the messages of one of our sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from agents.items import TResponseInputItem
from agents.memory import SessionSettings
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

from retain.errors import AlreadyExists, NotFound
from retain.memory import Scope
from retain.talk import openai
from retain.talk.message import NewMessage

T = TypeVar("T")
_IN_ONE_WRITE = 100


class RetainSession:
    """The items of one session, which is made when the first of them is added; one that is not there is empty."""

    def __init__(
        self, scope: Scope, session_id: str, *, session_settings: SessionSettings | dict[str, Any] | None = None
    ) -> None:
        self.scope = scope
        self.session_id = session_id
        self.session_settings: SessionSettings | None = coerce_session_settings(session_settings or {})

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest items, as many as the limit or the settings say, oldest first; all where neither does."""
        return await asyncio.to_thread(self._get, resolve_session_limit(limit, self.session_settings))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end, all or none, next to each other."""
        if items:
            new = [openai.packed(item, f"items[{n}]") for n, item in enumerate(items)]
            await _to_its_end(lambda: self._add(new))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it; None where there is none."""
        return await _to_its_end(self._pop)

    async def clear_session(self) -> None:
        """Remove every item; the session stays."""
        await _to_its_end(self._clear)

    def _get(self, limit: int | None) -> list[Any]:
        if limit == 0:
            return []
        last = None if limit is None or limit < 0 else limit
        try:
            found = self.scope.messages.window(self.session_id, last=last)
        except NotFound:
            return []
        items = [item for message in found for item in openai.unpacked(message)]
        return items if last is None else items[-last:]

    def _add(self, new: Sequence[NewMessage]) -> None:
        try:
            self._write(new)
        except NotFound:
            with suppress(AlreadyExists):  # another process is making it
                self.scope.sessions.add(self.session_id)
            self._write(new)

    def _write(self, new: Sequence[NewMessage]) -> None:
        if len(new) <= _IN_ONE_WRITE:
            self.scope.messages.extend(self.session_id, new)
        else:
            self.scope.together(lambda scope: _extend(scope, self.session_id, new))

    def _pop(self) -> Any:
        def work(scope: Scope) -> Any:
            *before, last = openai.unpacked(scope.messages.pop(self.session_id))
            _extend(scope, self.session_id, [openai.packed(item) for item in before])
            return last

        try:
            return self.scope.together(work)
        except NotFound:
            return None

    def _clear(self) -> None:
        with suppress(NotFound):
            self.scope.messages.clear(self.session_id)


def _extend(scope: Scope, session: str, new: Sequence[NewMessage]) -> None:
    for start in range(0, len(new), _IN_ONE_WRITE):
        scope.messages.extend(session, new[start : start + _IN_ONE_WRITE])


async def _to_its_end(work: Callable[[], T]) -> T:
    """Do work in a thread; whoever stops waiting hears of it when it is done, and finds nothing half done."""
    doing = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait({doing})
        raise
