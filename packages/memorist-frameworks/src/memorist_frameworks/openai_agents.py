"""OpenAI Agents SDK: a `Session` whose items are the messages of a session of memorist."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from memorist.base.errors import NotFound
from memorist.content.message import NewMessage
from memorist.memory import Scope
from memorist_frameworks.formats import openai
from memorist_frameworks.require import require_extra, require_local_scope
from memorist_frameworks.sessions import create_if_missing, extend

with require_extra("openai-agents"):
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings, SQLiteSession
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

T = TypeVar("T")


class MemoristSession:
    """The items of one session. The first item creates the session; a missing one is empty."""

    def __init__(
        self,
        scope: Scope,
        session_id: str,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.scope = require_local_scope(scope)
        self.session_id = session_id
        self.session_settings: SessionSettings | None = coerce_session_settings(
            session_settings or {}
        )

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the newest items, oldest first: up to `limit`, or the settings' limit, or all."""
        limit = resolve_session_limit(limit, self.session_settings)
        return await asyncio.to_thread(self._get, limit)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items next to each other, all or none."""
        if items:
            new = [openai.to_message(item, f"items[{n}]") for n, item in enumerate(items)]
            await _run_to_completion(lambda: self._add(new))

    # Removes and returns the newest item, or None if there is none. `EncryptedSession` checks its
    # key before it removes an item only from a session that is registered as an `SQLiteSession` and
    # has its `pop_item`. That function calls `_pop_item_with_validation`.
    pop_item: Callable[..., Coroutine[Any, Any, TResponseInputItem | None]] = SQLiteSession.pop_item

    async def _pop_item_with_validation(
        self, validate: Callable[[Any], None] | None = None
    ) -> TResponseInputItem | None:
        """Remove and return the newest item; if `validate` raises an error, the item stays."""
        return await _run_to_completion(lambda: self._pop(validate))

    async def clear_session(self) -> None:
        """Remove every item; the session remains."""
        await _run_to_completion(self._clear)

    def _get(self, limit: int | None) -> list[Any]:
        if limit == 0:
            return []
        last = None if limit is None or limit < 0 else limit
        try:
            messages = self.scope.messages.window(self.session_id, last=last)
        except NotFound:
            return []
        items = [item for message in messages for item in openai.from_message(message)]
        return items if last is None else items[-last:]

    def _add(self, new: Sequence[NewMessage]) -> None:
        create_if_missing(
            self.scope, self.session_id, lambda: extend(self.scope, self.session_id, new)
        )

    def _pop(self, validate: Callable[[Any], None] | None) -> Any:
        def work(scope: Scope) -> Any:
            # One message may hold several items: put the others back.
            *others, newest = openai.from_message(scope.messages.pop(self.session_id))
            if validate is not None:
                validate(newest)
            extend(scope, self.session_id, [openai.to_message(item) for item in others])
            return newest

        try:
            return self.scope.transaction(work)
        except NotFound:
            return None

    def _clear(self) -> None:
        with suppress(NotFound):
            self.scope.messages.clear(self.session_id)


SQLiteSession.register(MemoristSession)


async def _run_to_completion(work: Callable[[], T]) -> T:
    """Run work in a thread; a cancelled caller waits for its end, so that nothing is half done."""
    context = contextvars.copy_context()
    running = asyncio.get_running_loop().run_in_executor(None, lambda: context.run(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise
