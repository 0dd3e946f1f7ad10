"""LangChain's chat history: a session of ours as a list of LangChain's messages, lossless in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from retain.base.errors import NotFound
from retain.integrations._require import extra, local
from retain.integrations._sessions import extend, there
from retain.memory import Scope
from retain.messages.formats import langchain
from retain.messages.message import Message, NewMessage

with extra("langchain"):
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict


class RetainChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session, which is made when the first of them is added; one that is not there is empty."""

    def __init__(self, scope: Scope, session_id: str) -> None:
        self.scope = local(scope)
        self.session_id = session_id

    @property
    def messages(self) -> list[BaseMessage]:
        """Every message, the oldest first."""
        try:
            found = self.scope.messages.window(self.session_id)
        except NotFound:
            return []
        return [_message(message) for message in found]

    @messages.setter
    def messages(self, value: Sequence[BaseMessage]) -> None:
        """Put these messages in the place of all that are there, at once."""
        new = _packed(value)

        def work(scope: Scope) -> None:
            scope.messages.clear(self.session_id)
            extend(scope, self.session_id, new)

        try:
            self.scope.transaction(work)
        except NotFound:
            self._add(new)

    def get_messages(self) -> list[BaseMessage]:
        """Every message, the oldest first."""
        return self.messages

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages at the end, all or none."""
        self._add(_packed(messages))

    def clear(self) -> None:
        """Remove every message; the session stays."""
        with suppress(NotFound):
            self.scope.messages.clear(self.session_id)

    async def aget_messages(self) -> list[BaseMessage]:
        """Every message, the oldest first."""
        return await asyncio.to_thread(self.get_messages)

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages at the end, all or none."""
        await asyncio.to_thread(self.add_messages, messages)

    async def aclear(self) -> None:
        """Remove every message; the session stays."""
        await asyncio.to_thread(self.clear)

    def _add(self, new: Sequence[NewMessage]) -> None:
        if new:
            there(self.scope, self.session_id, lambda: extend(self.scope, self.session_id, new))


def _packed(messages: Sequence[BaseMessage]) -> list[NewMessage]:
    return [
        langchain.to_message(message_to_dict(message), f"messages[{n}]")
        for n, message in enumerate(messages)
    ]


def _message(message: Message) -> BaseMessage:
    try:
        return messages_from_dict([langchain.from_message(message)])[0]
    except (TypeError, ValueError):  # not as LangChain wrote it: somebody else did
        return messages_from_dict([langchain.convert_foreign(message)])[0]
