"""Conversations as OpenAI has them, over sessions: an item is a message, and its id says which one.

An item that came without an id has one that is made of its number, and signed with its session's name: it leads back without
a table. One that came with its own keeps it, and is looked for from the newest back; where a page ends is always told by one
of ours, as two items may have come with the same. An id that we gave out names the item that it was given to: what comes in
again under it is a new item.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from retain.base import ids
from retain.base.errors import Conflict, Invalid, NotFound
from retain.chat.session import AGENT, USER
from retain.kinds.kind import encode_cursor
from retain.kinds.sessions import Session, held
from retain.memory import Scope
from retain.messages.formats import openai
from retain.messages.message import Message

MOST_ITEMS = 20
MOST_IN_A_PAGE = 100
_PREFIXES = {
    "message": "msg", "reasoning": "rs", "function_call": "fc", "function_call_output": "fco", "computer_call": "cu",
    "computer_call_output": "cuo", "web_search_call": "ws", "file_search_call": "fs", "image_generation_call": "ig",
    "code_interpreter_call": "ci", "custom_tool_call": "ctc", "mcp_call": "mcp", "mcp_list_tools": "mcpl",
}  # fmt: skip
_HAVE_STATUS = (
    "message",
    "function_call",
    "function_call_output",
    "computer_call",
    "computer_call_output",
)
_IN_ONE_READ = 250
_LONGEST = {"keys": 64, "values": 512}
_MOST_PAIRS = 16
Answer = dict[str, Any]
Place = tuple[int, int]
"""The number of a message, and which of its items is meant: one of another's may be several."""


@dataclass(frozen=True)
class Conversations:
    """The conversations of a scope."""

    scope: Scope

    def create(self, items: Any, metadata: Any) -> Session:
        """Start a conversation, with what was said before."""
        given, new = _attributes({}, metadata), _items(items)
        owner = self.scope.owner
        mine = Scope(
            self.scope.services,
            replace(
                owner,
                user=owner.user or self.scope.services.settings.user or USER,
                agent=owner.agent or AGENT,
            ),
        )
        id = f"conv_{ids.uuid7().replace('-', '')}{hashlib.sha256(owner.tenant.encode()).hexdigest()[:16]}"

        def work(scope: Scope) -> Session:
            made = scope.sessions.add(id, attributes=given)
            if new:
                scope.messages.extend(id, [openai.to_message(item) for item in new])
            return made

        return mine.transaction(work)

    def retrieve(self, id: str) -> Answer:
        """A conversation."""
        return conversation(self.scope.sessions.get(id))

    def update(self, id: str, metadata: Any) -> Answer:
        """Give a conversation other metadata; whatever else its session has stays."""

        def work(scope: Scope) -> Session:
            return scope.sessions.edit(
                id, attributes=_attributes(held(scope.sessions, id).attributes, metadata)
            )

        return conversation(self.scope.transaction(work))

    def delete(self, id: str) -> Answer:
        """Remove a conversation, with everything in it."""
        self.scope.sessions.remove(id)
        return {"id": id, "object": "conversation.deleted", "deleted": True}

    def add(self, id: str, items: Any, key: str | None) -> Answer:
        """Add items at the end."""
        new = _items(items)
        if not new:
            raise Invalid(field="items", problem="must be a list of items that is not empty")
        fresh = [
            {name: value for name, value in item.items() if name != "id"}
            if _ours(id, item)
            else item
            for item in new
        ]
        added = self.scope.messages.extend(
            id, [openai.to_message(item, f"items[{n}]") for n, item in enumerate(fresh)], key=key
        )
        return _listed(id, [*_told(added)], False)

    def list(self, id: str, after: str | None, limit: int, order: Literal["asc", "desc"]) -> Answer:
        """Items from the newest back, or from the oldest on, after one of them."""
        self.scope.sessions.get(id)
        start = None if after is None else self._after(id, after)
        if order == "asc":
            cursor = None if start is None else encode_cursor([start[0] - 1])
            found: Sequence[Message] = self.scope.messages.list(
                id, after=cursor, limit=limit + 2
            ).items
            told = [(place, item) for place, item in _told(found) if start is None or place > start]
        else:
            found = self.scope.messages.window(
                id, last=limit + 2, before=None if start is None else start[0] + 1
            )
            told = [
                (place, item) for place, item in _told(found) if start is None or place < start
            ][::-1]
        return _listed(id, told[:limit], len(told) > limit)

    def item(self, id: str, item_id: str) -> Answer:
        """One item."""
        return self._find(id, item_id)[1]

    def remove(self, id: str, item_id: str) -> Answer:
        """Remove one item; one of several that are one message cannot go without the others, which nobody named."""
        (seq, _), _ = self._find(id, item_id)
        if (count := len([*_told(self._read(id, seq))])) > 1:
            problem = f"The item is one of {count} that are one message, number {seq}: remove that, and with it all of them"
            raise Conflict(problem=problem)
        self.scope.messages.remove(id, seq)
        return self.retrieve(id)

    def _after(self, id: str, item_id: str) -> Place:
        """Where a list goes on: at an item that may have been removed meanwhile, if its id says where it was."""
        signed = _place(id, item_id)
        if signed is not None:
            return signed
        found = [
            place for page in self._back(id) for place, item in _told(page) if item["id"] == item_id
        ]
        if len(found) > 1:
            raise Invalid(
                field="after",
                problem=f"is the id of {len(found)} items; go on after the `last_id` of the page before",
            )
        if not found:
            raise NotFound(what="item", id=item_id)
        return found[0]

    def _find(self, id: str, item_id: str) -> tuple[Place, Answer]:
        self.scope.sessions.get(id)
        signed = _place(id, item_id)
        pages = self._back(id) if signed is None else [self._read(id, signed[0])]
        for page in pages:
            for place, item in reversed([*_told(page)]):
                if place == signed or item["id"] == item_id:
                    return place, item
        raise NotFound(what="item", id=item_id)

    def _read(self, id: str, seq: int) -> Sequence[Message]:
        try:
            return [self.scope.messages.get(id, seq)]
        except NotFound:
            return []

    def _back(self, id: str) -> Iterator[Sequence[Message]]:
        before: int | None = None
        while page := self.scope.messages.window(id, last=_IN_ONE_READ, before=before):
            yield page
            before = page[0].seq


def _items(items: Any) -> list[dict[str, Any]]:
    given = [] if items is None else items
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        raise Invalid(field="items", problem="must be a list of objects")
    if len(given) > MOST_ITEMS:
        raise Invalid(
            field="items", problem=f"are at most {MOST_ITEMS} at a time, not {len(given)}"
        )
    for n, item in enumerate(given):
        if not isinstance(item.get("type", item.get("role")), str):
            raise Invalid(field=f"items[{n}].type", problem="is needed")
    return given


def _attributes(before: Mapping[str, Any], metadata: Any) -> dict[str, Any]:
    given = {} if metadata is None else metadata
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise Invalid(field="metadata", problem="must be an object of texts")
    for name, texts in (("keys", given.keys()), ("values", given.values())):
        if any(len(text) > _LONGEST[name] for text in texts):
            raise Invalid(
                field="metadata", problem=f"has {name} of more than {_LONGEST[name]} characters"
            )
    if len(given) > _MOST_PAIRS:
        raise Invalid(field="metadata", problem=f"has more than {_MOST_PAIRS} keys")
    return {**before, "metadata": given}


def conversation(session: Session) -> Answer:
    """A session as a conversation is told."""
    kept = session.attributes.get("metadata")
    made = int(session.created_at.timestamp())
    return {
        "id": session.id,
        "object": "conversation",
        "created_at": made,
        "metadata": kept if isinstance(kept, dict) else {},
    }


def _told(messages: Sequence[Message]) -> Iterator[tuple[Place, Answer]]:
    """The items of messages as they are told, each with its place."""
    for message in messages:
        for number, item in enumerate(openai.from_message(message)):
            yield (message.seq, number), _shown(item, message.session, message.seq, number)


def _shown(item: Mapping[str, Any], session: str, seq: int, number: int) -> Answer:
    kind = item["type"] if isinstance(item.get("type"), str) else "message"
    own = item.get("id")
    id = own if isinstance(own, str) and own else _id(session, kind, seq, number)
    told = {**item, "id": id, "type": kind}
    if kind in _HAVE_STATUS and not told.get("status"):
        told["status"] = "completed"
    said = item.get("content")
    if kind == "message" and isinstance(said, str):
        written = {"type": "output_text", "text": said, "annotations": [], "logprobs": []}
        told["content"] = [
            written if item.get("role") == "assistant" else {"type": "input_text", "text": said}
        ]
    return told


def _id(session: str, kind: str, seq: int, number: int) -> str:
    return f"{_PREFIXES.get(kind, 'item')}_{_code(session, seq, number)}"


def _code(session: str, seq: int, number: int) -> str:
    at = f"{seq:013x}{number:03x}"
    return f"{at}{hashlib.sha256(f'{at} {session}'.encode()).hexdigest()[:32]}"


def _place(session: str, id: str) -> Place | None:
    """Where an id that was made here leads; None for any other."""
    code = id.rpartition("_")[2]
    if len(code) != 48 or not code.isascii():
        return None
    try:
        seq, number = int(code[:13], 16), int(code[13:16], 16)
    except ValueError:
        return None
    return (seq, number) if seq > 0 and _code(session, seq, number) == code else None


def _ours(session: str, item: Mapping[str, Any]) -> bool:
    id = item.get("id")
    return isinstance(id, str) and _place(session, id) is not None


def _listed(session: str, items: Sequence[tuple[Place, Answer]], more: bool) -> Answer:
    """Items as a page; `last_id` leads to the last of them also where another has the same id, and needs no search."""
    first = items[0][1]["id"] if items else None
    last = _id(session, items[-1][1]["type"], *items[-1][0]) if items else None
    return {
        "object": "list",
        "data": [item for _, item in items],
        "first_id": first,
        "last_id": last,
        "has_more": more,
    }
