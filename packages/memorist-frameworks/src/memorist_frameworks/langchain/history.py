"""LangChain's chat message history: a session as a list of LangChain messages, without loss."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from memorist.base.errors import NotFound
from memorist.content.message import Message, NewMessage
from memorist.memory import Scope
from memorist_frameworks.formats import langchain
from memorist_frameworks.require import require_extra, require_local_scope
from memorist_frameworks.sessions import create_if_missing, extend

with require_extra("langchain"):
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict


class MemoristChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session. The first message creates it; a missing session is empty."""

    def __init__(self, scope: Scope, session_id: str) -> None:
        self.scope = require_local_scope(scope)
        self.session_id = session_id

    @property
    def messages(self) -> list[BaseMessage]:
        """Every message, oldest first."""
        try:
            stored = self.scope.messages.window(self.session_id)
        except NotFound:
            return []
        return [_to_langchain(message) for message in stored]

    @messages.setter
    def messages(self, value: Sequence[BaseMessage]) -> None:
        """Replace all messages in one transaction."""
        new = _from_langchain(value)

        def work(scope: Scope) -> None:
            scope.messages.clear(self.session_id)
            extend(scope, self.session_id, new)

        try:
            self.scope.transaction(work)
        except NotFound:
            self._add(new)

    def get_messages(self) -> list[BaseMessage]:
        """Return every message, oldest first."""
        return self.messages

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages, all or none."""
        self._add(_from_langchain(messages))

    def clear(self) -> None:
        """Remove every message; the session remains."""
        with suppress(NotFound):
            self.scope.messages.clear(self.session_id)

    async def aget_messages(self) -> list[BaseMessage]:
        """Return every message, oldest first."""
        return await asyncio.to_thread(self.get_messages)

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages, all or none."""
        await asyncio.to_thread(self.add_messages, messages)

    async def aclear(self) -> None:
        """Remove every message; the session remains."""
        await asyncio.to_thread(self.clear)

    def _add(self, new: Sequence[NewMessage]) -> None:
        if new:
            create_if_missing(
                self.scope, self.session_id, lambda: extend(self.scope, self.session_id, new)
            )


def _from_langchain(messages: Sequence[BaseMessage]) -> list[NewMessage]:
    return [
        langchain.to_message(message_to_dict(message), f"messages[{n}]")
        for n, message in enumerate(messages)
    ]


def _to_langchain(message: Message) -> BaseMessage:
    try:
        return messages_from_dict([langchain.from_message(message)])[0]
    except (TypeError, ValueError):  # not in LangChain's form: another client wrote it
        return messages_from_dict([langchain.convert_foreign(message)])[0]
