"""Message records: stored messages, and new messages to append."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from memorist.base import canonical, clock
from memorist.base.canonical import JsonText
from memorist.base.errors import Invalid
from memorist.content.message_content import Content, spoken_text

Role = Literal["system", "user", "assistant", "tool"]
ROLES = get_args(Role)
# Values of the column `chatter`:
TURN = 0  # a user message or a final answer
TRAFFIC = 1  # a system message, tool call or tool result, or a message without text of its own
REMOVED = 2  # a removed message: its row stays, so that no number is missing
COLUMNS = (
    "seq",
    "role",
    "content",
    "author",
    "tokens",
    "tokens_in",
    "tokens_out",
    "cost",
    "created_at",
)
"""Columns, in this order, of the rows for `records`."""
PROVIDER_FIELDS = (
    "tool_calls",
    "tool_call_id",
    "name",
    "function_call",
    "refusal",
    "annotations",
    "audio",
    "reasoning_content",
)
"""Fields of providers' formats besides role and content; they become part of the content."""
_ROLES = {"developer": "system", "function": "tool"}
"""Other names of roles that some providers use."""
_TEXT = '{"text":"'


@dataclass(frozen=True)
class Message:
    """One message."""

    session: str
    seq: int
    role: str
    raw: str  # the content as JSON text, exactly as it is stored
    author: str | None
    tokens: int
    tokens_in: int | None
    tokens_out: int | None
    cost: float | None
    created_micros: int  # since 1970, in UTC

    @property
    def created_at(self) -> datetime:
        """The time of the message, in UTC."""
        return clock.to_datetime(self.created_micros)

    @property
    def content(self) -> dict[str, Any]:
        """The content as a JSON object."""
        cache = self.__dict__
        if "content" not in cache:
            record = f"message {self.seq} of session {self.session}"
            cache["content"] = canonical.stored_json(self.raw, record)
        return cache["content"]  # type: ignore[no-any-return]

    @property
    def plain_text(self) -> str | None:
        """The text of a message that is only text without escapes; None for any other.

        Most messages are, and their JSON need not be parsed.
        """
        raw = self.raw
        if raw.startswith(_TEXT) and raw.find('"', len(_TEXT)) == len(raw) - 2 and "\\" not in raw:
            return raw[len(_TEXT) : -2]
        return None

    @property
    def text(self) -> str:
        """The text of the content, or of its parts; '' if it has neither."""
        plain = self.plain_text
        if plain is not None:
            return plain
        text = self.content.get("text")
        if isinstance(text, str) and text:
            return text
        return spoken_text({"parts": self.content.get("parts")})


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
    """Return the records of rows, which have the columns `COLUMNS`.

    Not by `row_mapper`, because windows are read often: writing into the dictionaries takes a fourth
    of the time of the constructor (measured: 2 µs against 7 µs for a record).
    """
    make = object.__new__
    records = []
    for seq, role, raw, author, size, tokens_in, tokens_out, cost, at in rows:
        record = make(Message)
        fields = record.__dict__
        fields["session"] = session
        fields["seq"] = seq
        fields["role"] = role
        fields["raw"] = raw
        fields["author"] = author
        fields["tokens"] = size
        fields["tokens_in"] = tokens_in
        fields["tokens_out"] = tokens_out
        fields["cost"] = cost
        fields["created_micros"] = at
        records.append(record)
    return records


def to_new_message(message: NewMessage | Mapping[str, Any], index: int) -> NewMessage:
    """Return a new message, which is a record or has a provider's format, as a record."""
    where = f"messages[{index}]"
    if type(message) is NewMessage and type(message.content) is str and message.role in ROLES:
        return message  # most messages: there is nothing to convert
    fields = dict(vars(message) if isinstance(message, NewMessage) else _unpacked(message, where))
    unknown = sorted(
        fields.keys() - NewMessage.__dataclass_fields__.keys() - set(PROVIDER_FIELDS), key=str
    )
    if unknown:
        known = ", ".join([*NewMessage.__dataclass_fields__, *PROVIDER_FIELDS])
        raise Invalid(
            field=where, problem=f"has an unknown field {unknown[0]!r}; the fields are {known}"
        )
    extras = {name: _unpacked_list(fields.pop(name)) for name in PROVIDER_FIELDS if name in fields}
    extras = {name: value for name, value in extras.items() if value not in (None, [], "")}
    if "role" not in fields or not ("content" in fields or extras):
        raise Invalid(field=where, problem="requires `role` and `content`")
    role = fields["role"]
    content = fields.get("content")
    fields["role"] = _ROLES.get(role, role) if isinstance(role, str) else role
    fields["content"] = merge_content(
        "" if content is None else content, f"{where}.content", fields["role"], extras
    )
    return NewMessage(**fields)


def merge_content(
    content: Any, field: str, role: str, extras: Mapping[str, Any] | None = None
) -> Content:
    """Return content to store: a list becomes `parts`, and provider fields are merged into it."""
    if type(content) is str and not extras:
        return content
    if isinstance(content, list | tuple):
        if not content and not extras:
            raise Invalid(
                field=field,
                problem="must be text, a JSON object or a non-empty list of parts",
            )
        parts = [
            {"type": "text", "text": part} if isinstance(part, str) else part
            for part in _unpacked_list(content)
        ]
        invalid = [part for part in parts if not isinstance(part, Mapping)]
        if invalid:
            raise Invalid(
                field=field,
                problem=f"is a list of parts, but {str(invalid[0])[:50]!r} is neither text nor an object",
            )
        texts = [part.get("text") for part in parts if part.get("type") == "text"]
        is_plain_text = (
            role == "tool"
            and len(texts) == len(parts)
            and all(isinstance(text, str) for text in texts)
        )
        content = {"text": "\n".join(map(str, texts))} if is_plain_text else {"parts": parts}
    value = canonical.parse(content, field) if isinstance(content, JsonText) else content
    if isinstance(value, Mapping) and {"role", "content"} <= value.keys():
        raise Invalid(
            field=field,
            problem="is a whole message; pass its content, or pass the message to `extend`",
        )
    if not extras:
        return content  # type: ignore[no-any-return]
    if not isinstance(value, str | Mapping):
        raise Invalid(field=field, problem="must be text, a list of parts or a JSON object")
    merged = {"text": value} if isinstance(value, str) else dict(value)
    duplicates = sorted(merged.keys() & extras.keys())
    if duplicates:
        raise Invalid(
            field=field,
            problem=f"contains {duplicates[0]!r}, which is also set on the message itself",
        )
    return {**merged, **extras}


def _unpacked(message: Any, where: str) -> Mapping[str, Any]:
    """Return a message as an object; it may be a record of a provider's library."""
    fields = _unpacked_one(message)
    if not isinstance(fields, Mapping):
        raise Invalid(field=where, problem="must be an object with `role` and `content`")
    return fields


def _unpacked_list(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_unpacked_one(item) for item in value]
    return _unpacked_one(value)


def _unpacked_one(value: Any) -> Any:
    """Return a record of a provider's library as a JSON object; other values unchanged."""
    model_dump = getattr(value, "model_dump", None)
    if callable(model_dump) and not isinstance(value, Mapping | type):
        return model_dump(mode="json", exclude_none=True)
    return value
