"""A message as it is read and as it is written, for every kind that works with messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, get_args

from retain import clock
from retain.errors import Invalid
from retain.talk.content import Content

Role = Literal["system", "user", "assistant", "tool"]
ROLES = get_args(Role)
COLUMNS = ("seq", "role", "content", "author", "tokens", "tokens_in", "tokens_out", "cost", "created_at")
"""What a statement selects, in this order, for `records`."""
_TEXT = '{"text":"'


@dataclass(frozen=True)
class Message:
    """One message; `raw` is its content as JSON text, exactly as it is stored."""

    session: str
    seq: int
    role: str
    raw: str
    author: str | None
    tokens: int
    tokens_in: int | None
    tokens_out: int | None
    cost: float | None
    created_at: datetime

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Make `created_at` when it is first asked for: half of all that a record costs."""
            if name != "created_at" or "_at" not in self.__dict__:
                raise AttributeError(name)
            found = self.__dict__["created_at"] = clock.to_datetime(self.__dict__["_at"])
            return found

    @property
    def content(self) -> dict[str, Any]:
        """The content as a JSON object."""
        kept = self.__dict__
        if "content" not in kept:
            kept["content"] = json.loads(self.raw)
        return kept["content"]  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        """The content's text, '' where it has none."""
        raw = self.raw
        if raw.startswith(_TEXT) and raw.find('"', len(_TEXT)) == len(raw) - 2 and "\\" not in raw:
            return raw[len(_TEXT) : -2]  # nothing but text, with nothing escaped in it: most messages are
        found = self.content.get("text")
        return found if isinstance(found, str) else ""


@dataclass(frozen=True)
class NewMessage:
    """A message to be appended."""

    role: str
    content: Content
    author: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: float | None = None
    created_at: datetime | None = None


def records(session: str, rows: Iterable[Sequence[Any]]) -> list[Message]:
    """Records of rows, written into their dictionaries: a frozen dataclass's own way takes four times as long."""
    make, fill = object.__new__, object.__setattr__
    records = []
    for seq, role, raw, author, size, tokens_in, tokens_out, cost, at in rows:
        record = make(Message)
        fill(record, "__dict__", {
            "session": session, "seq": seq, "role": role, "raw": raw, "author": author, "tokens": size,
            "tokens_in": tokens_in, "tokens_out": tokens_out, "cost": cost, "_at": at,
        })  # fmt: skip
        records.append(record)
    return records


def fields(message: NewMessage | Mapping[str, Any], place: int) -> Mapping[str, Any]:
    """A new message as the fields that it gives, whichever of the two ways it came."""
    if isinstance(message, NewMessage):
        return vars(message)
    if not isinstance(message, Mapping):
        raise Invalid(field=f"messages[{place}]", problem="must be an object with a role and a content")
    unknown = sorted(message.keys() - NewMessage.__dataclass_fields__.keys(), key=str)
    if unknown or not {"role", "content"} <= message.keys():
        problem = f"has an unknown field {unknown[0]!r}" if unknown else "needs a role and a content"
        raise Invalid(field=f"messages[{place}]", problem=problem)
    return message
