"""OpenAI conversations as sessions: an item is a message, and its id names the message.

An item without an id gets one made of its number and signed with the session's id, so it is found
without a table. An item with its own id keeps it and is searched from the newest back. Pages always
end with an id of ours, since two items may bring the same id. An id that we issued names the item
it was issued for: new input under it is a new item.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from memorist.base import ids
from memorist.base.errors import Conflict, Invalid, NotFound
from memorist.chat.enter_session import AGENT, USER
from memorist.content.message import Message
from memorist.kinds.page import encode_cursor
from memorist.kinds.sessions import Session, get_locked
from memorist.memory import Scope
from memorist_frameworks.formats import openai

MAX_ITEMS = 20
MAX_PAGE_ITEMS = 100
_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "computer_call": "cu",
    "computer_call_output": "cuo",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "image_generation_call": "ig",
    "code_interpreter_call": "ci",
    "custom_tool_call": "ctc",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
}
_TYPES_WITH_STATUS = (
    "message",
    "function_call",
    "function_call_output",
    "computer_call",
    "computer_call_output",
)
READ_MESSAGES = 250
MAX_METADATA_CHARACTERS = {"keys": 64, "values": 512}
MAX_METADATA_PAIRS = 16
Json = dict[str, Any]
Position = tuple[int, int]
"""The number of a message, and the item within it: messages of other clients may hold several."""


@dataclass(frozen=True)
class Conversations:
    """The conversations of a scope."""

    scope: Scope

    def create(self, items: Any, metadata: Any) -> Session:
        """Create a conversation with its first items."""
        attributes = _attributes({}, metadata)
        new = _check_items(items)
        services = self.scope.services
        owner = replace(
            self.scope.owner,
            user=self.scope.owner.user or services.settings.user or USER,
            agent=self.scope.owner.agent or AGENT,
        )
        tenant_hash = hashlib.sha256(owner.tenant.encode()).hexdigest()[:16]
        id = f"conv_{ids.uuid7().replace('-', '')}{tenant_hash}"

        def work(scope: Scope) -> Session:
            session = scope.sessions.add(id, attributes=attributes)
            if new:
                scope.messages.extend(id, [openai.to_message(item) for item in new])
            return session

        return Scope(services, owner).transaction(work)

    def retrieve(self, id: str) -> Json:
        """Return a conversation."""
        return render_conversation(self.scope.sessions.get(id))

    def update(self, id: str, metadata: Any) -> Json:
        """Replace the metadata of a conversation; other attributes of the session stay."""

        def work(scope: Scope) -> Session:
            return scope.sessions.edit(
                id, attributes=_attributes(get_locked(scope.sessions, id).attributes, metadata)
            )

        return render_conversation(self.scope.transaction(work))

    def delete(self, id: str) -> Json:
        """Remove a conversation with all items."""
        self.scope.sessions.remove(id)
        return {"id": id, "object": "conversation.deleted", "deleted": True}

    def add(self, id: str, items: Any, key: str | None) -> Json:
        """Append items."""
        new = _check_items(items)
        if not new:
            raise Invalid(field="items", problem="must be a list of items that is not empty")
        messages = []
        for number, item in enumerate(new):
            dropped = "id" if _has_own_id(id, item) else None
            fields = {name: value for name, value in item.items() if name != dropped}
            messages.append(openai.to_message(fields, f"items[{number}]"))
        added = self.scope.messages.extend(id, messages, key=key)
        return _render_page(id, list(_render_items(added)), False)

    def list(self, id: str, after: str | None, limit: int, order: Literal["asc", "desc"]) -> Json:
        """Return items after one of them, newest or oldest first."""
        self.scope.sessions.get(id)
        start = None if after is None else self._position_after(id, after)
        messages: Sequence[Message]
        if order == "asc":
            cursor = None if start is None else encode_cursor([start[0] - 1])
            messages = self.scope.messages.list(id, after=cursor, limit=limit + 2).items
            items = [
                (position, item)
                for position, item in _render_items(messages)
                if start is None or position > start
            ]
        else:
            before = None if start is None else start[0] + 1
            messages = self.scope.messages.window(id, last=limit + 2, before=before)
            items = [
                (position, item)
                for position, item in _render_items(messages)
                if start is None or position < start
            ]
            items.reverse()
        return _render_page(id, items[:limit], len(items) > limit)

    def item(self, id: str, item_id: str) -> Json:
        """Return one item."""
        return self._find(id, item_id)[1]

    def remove(self, id: str, item_id: str) -> Json:
        """Remove one item; raise Conflict if its message holds others."""
        (seq, _), _ = self._find(id, item_id)
        count = len(list(_render_items(self._read(id, seq))))
        if count > 1:
            problem = (
                f"The item is one of {count} in message {seq}: "
                "remove the message, and all of them with it"
            )
            raise Conflict(problem=problem)
        self.scope.messages.remove(id, seq)
        return self.retrieve(id)

    def _position_after(self, id: str, item_id: str) -> Position:
        """Return where a list continues; a signed id works even if its item was removed."""
        signed = _parse_id(id, item_id)
        if signed is not None:
            return signed
        positions = [
            position
            for page in self._newest_first(id)
            for position, item in _render_items(page)
            if item["id"] == item_id
        ]
        if len(positions) > 1:
            problem = (
                f"is the id of {len(positions)} items; "
                "continue after the `last_id` of the page before"
            )
            raise Invalid(field="after", problem=problem)
        if not positions:
            raise NotFound(what="item", id=item_id)
        return positions[0]

    def _find(self, id: str, item_id: str) -> tuple[Position, Json]:
        self.scope.sessions.get(id)
        signed = _parse_id(id, item_id)
        pages = self._newest_first(id) if signed is None else [self._read(id, signed[0])]
        for page in pages:
            for position, item in reversed(list(_render_items(page))):
                if position == signed or item["id"] == item_id:
                    return position, item
        raise NotFound(what="item", id=item_id)

    def _read(self, id: str, seq: int) -> Sequence[Message]:
        try:
            return [self.scope.messages.get(id, seq)]
        except NotFound:
            return []

    def _newest_first(self, id: str) -> Iterator[Sequence[Message]]:
        before: int | None = None
        while page := self.scope.messages.window(id, last=READ_MESSAGES, before=before):
            yield page
            before = page[0].seq


def _check_items(items: Any) -> list[dict[str, Any]]:
    if items is None:
        return []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Invalid(field="items", problem="must be a list of objects")
    if len(items) > MAX_ITEMS:
        raise Invalid(field="items", problem=f"may hold at most {MAX_ITEMS}, not {len(items)}")
    for number, item in enumerate(items):
        if not isinstance(item.get("type", item.get("role")), str):
            raise Invalid(field=f"items[{number}].type", problem="is required")
        is_message = item.get("type", "message") == "message"
        if is_message and not isinstance(item.get("content"), str | list):
            raise Invalid(
                field=f"items[{number}].content",
                problem="is required: text, or a list of content parts",
            )
    return items


def _attributes(attributes: Mapping[str, Any], metadata: Any) -> dict[str, Any]:
    pairs = {} if metadata is None else metadata
    if not isinstance(pairs, dict) or not all(isinstance(value, str) for value in pairs.values()):
        raise Invalid(field="metadata", problem="must be an object of strings")
    for name, texts in (("keys", pairs.keys()), ("values", pairs.values())):
        limit = MAX_METADATA_CHARACTERS[name]
        if any(len(text) > limit for text in texts):
            raise Invalid(field="metadata", problem=f"has {name} of more than {limit} characters")
    if len(pairs) > MAX_METADATA_PAIRS:
        raise Invalid(field="metadata", problem=f"has more than {MAX_METADATA_PAIRS} keys")
    return {**attributes, "metadata": pairs}


def render_conversation(session: Session) -> Json:
    """Render a session as a conversation."""
    metadata = session.attributes.get("metadata")
    return {
        "id": session.id,
        "object": "conversation",
        "created_at": int(session.created_at.timestamp()),
        "metadata": metadata if isinstance(metadata, dict) else {},
    }


def _render_items(messages: Sequence[Message]) -> Iterator[tuple[Position, Json]]:
    for message in messages:
        for number, item in enumerate(openai.from_message(message)):
            position = (message.seq, number)
            yield position, _render_item(item, message.session, position)


def _render_item(item: Mapping[str, Any], session: str, position: Position) -> Json:
    type_ = item["type"] if isinstance(item.get("type"), str) else "message"
    own_id = item.get("id")
    if not isinstance(own_id, str) or not own_id:
        own_id = _signed_id(session, type_, position)
    rendered = {**item, "id": own_id, "type": type_}
    if type_ in _TYPES_WITH_STATUS and not rendered.get("status"):
        rendered["status"] = "completed"
    text = item.get("content")
    if type_ == "message" and isinstance(text, str):
        if item.get("role") == "assistant":
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        else:
            part = {"type": "input_text", "text": text}
        rendered["content"] = [part]
    return rendered


def _signed_id(session: str, type_: str, position: Position) -> str:
    return f"{_PREFIXES.get(type_, 'item')}_{_signed_position(session, *position)}"


def _signed_position(session: str, seq: int, number: int) -> str:
    position = f"{seq:013x}{number:03x}"
    return f"{position}{hashlib.sha256(f'{position} {session}'.encode()).hexdigest()[:32]}"


def _parse_id(session: str, id: str) -> Position | None:
    """Return the position that an id of ours names; None for any other id."""
    code = id.rpartition("_")[2]
    if len(code) != 48 or not code.isascii():
        return None
    try:
        seq = int(code[:13], 16)
        number = int(code[13:16], 16)
    except ValueError:
        return None
    return (seq, number) if seq > 0 and _signed_position(session, seq, number) == code else None


def _has_own_id(session: str, item: Mapping[str, Any]) -> bool:
    id = item.get("id")
    return isinstance(id, str) and _parse_id(session, id) is not None


def _render_page(session: str, items: Sequence[tuple[Position, Json]], has_more: bool) -> Json:
    """Render a page. `last_id` is always a signed id, which is unique and needs no search."""
    first_id = None
    last_id = None
    if items:
        first_id = items[0][1]["id"]
        position, last = items[-1]
        last_id = _signed_id(session, last["type"], position)
    return {
        "object": "list",
        "data": [item for _, item in items],
        "first_id": first_id,
        "last_id": last_id,
        "has_more": has_more,
    }
