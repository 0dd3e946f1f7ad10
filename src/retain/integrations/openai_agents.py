"""OpenAI's Agents SDK: a `Session` whose items are the messages of one of our sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from retain.base.errors import NotFound
from retain.integrations._require import extra, local
from retain.integrations._sessions import extend, there
from retain.memory import Scope
from retain.messages.formats import openai
from retain.messages.message import NewMessage

with extra("openai-agents"):
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

T = TypeVar("T")


class RetainSession:
    """The items of one session, which is made when the first of them is added; one that is not there is empty."""

    def __init__(
        self,
        scope: Scope,
        session_id: str,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.scope = local(scope)
        self.session_id = session_id
        self.session_settings: SessionSettings | None = coerce_session_settings(
            session_settings or {}
        )

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest items, as many as the limit or the settings say, oldest first; all where neither does."""
        return await asyncio.to_thread(
            self._get, resolve_session_limit(limit, self.session_settings)
        )

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end, all or none, next to each other."""
        if items:
            new = [openai.to_message(item, f"items[{n}]") for n, item in enumerate(items)]
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
        items = [item for message in found for item in openai.from_message(message)]
        return items if last is None else items[-last:]

    def _add(self, new: Sequence[NewMessage]) -> None:
        there(self.scope, self.session_id, lambda: extend(self.scope, self.session_id, new))

    def _pop(self) -> Any:
        def work(scope: Scope) -> Any:
            *before, last = openai.from_message(scope.messages.pop(self.session_id))
            extend(scope, self.session_id, [openai.to_message(item) for item in before])
            return last

        try:
            return self.scope.transaction(work)
        except NotFound:
            return None

    def _clear(self) -> None:
        with suppress(NotFound):
            self.scope.messages.clear(self.session_id)


async def _to_its_end(work: Callable[[], T]) -> T:
    """Do work in a thread; whoever stops waiting hears of it when it is done, and finds nothing half done."""
    doing = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait({doing})
        raise
