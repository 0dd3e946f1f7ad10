"""Pydantic models of requests and responses, built from the signatures of the verbs.

A record has the same fields on the wire as in the library, except that JSON text appears as JSON.
The models check types only. The library checks the values, so that all interfaces reject the same
values.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationInfo,
    WithJsonSchema,
    create_model,
)
from pydantic_core import PydanticCustomError

from memorist.api.examples import EXAMPLES
from memorist.api.parameter_help import parameter_help
from memorist.api.rendering import STORED_FIELDS
from memorist.base import canonical
from memorist.base import parameters as rules
from memorist.base.canonical import Json, JsonText
from memorist.base.clock import parse_time
from memorist.base.errors import Invalid
from memorist.base.parameters import Idempotency, annotations_of, is_in_process, value_rules
from memorist.base.verbs import Endpoint
from memorist.content.message import PROVIDER_FIELDS, Message, NewMessage
from memorist.content.message_content import Content
from memorist.kinds.interactions import Interactions, Usage
from memorist.kinds.items import Match, PlacedItem
from memorist.kinds.page import Page
from memorist.kinds.refs.reference import Output
from memorist.kinds.state import Item

DEFERRED = ConfigDict(defer_build=True)
"""For a response, of which only the schema is needed. The validator of a model is built when it is
first used: building all of them takes a tenth of the server's start."""
STRICT = ConfigDict(extra="forbid", strict=True, defer_build=True)
"""For a body, because JSON distinguishes numbers from text."""
LENIENT = ConfigDict(extra="forbid", defer_build=True)
"""For a query, where every value is text."""


KEY = rules.KEY.schema()
TIME = rules.SINCE_1970.schema()
ETAG = {"pattern": r'^(W/)?"[0-9]{1,15}"$', "examples": ['"3"']}
_TOKEN_COUNTS = ("tokens_in", "tokens_out")


def _text(value: Any) -> str:
    """Accept any text, even with lone surrogates; the library replaces or rejects those."""
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "must be text")
    return value


def _moment(value: Any, info: ValidationInfo) -> datetime:
    moment = parse_time(_text(value), info.field_name or "")
    assert moment is not None
    return moment


def _whole_number(value: Any) -> Any:
    """Accept 3.0 as 3: in JSON they are the same number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _whole_counts(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    counts = {name: _whole_number(value[name]) for name in _TOKEN_COUNTS if name in value}
    return {**value, **counts}


def _split(value: Any) -> Any:
    """Split a list in a query: a repeated parameter, or one with commas or JSON."""
    if value is None:
        return None
    parts: list[str] = []
    for text in [value] if isinstance(value, str) else value:
        parts += canonical.split_list(text)
    return parts


WholeNumber = Annotated[int, BeforeValidator(_whole_number)]
Text = Annotated[str, PlainValidator(_text, json_schema_input_type=str)]
Name = Annotated[Text, Field(json_schema_extra=KEY)]
Moment = Annotated[
    datetime,
    PlainValidator(_moment, json_schema_input_type=datetime),
    Field(json_schema_extra=TIME),
]
_TEXTS = {"type": "string"}
_CONTENTS = [
    _TEXTS,
    {"type": "object"},
    {"type": "array", "minItems": 1, "items": {"type": ["string", "object"]}},
]
_COUNT = {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 2**53}, {"type": "null"}]}
_MESSAGE_SCHEMA = {
    "type": "object",
    "description": "A message. Other fields of the provider's format become part of the content.",
    "required": ["role"],
    "anyOf": [
        {"required": ["content"]},
        {
            "required": ["tool_calls"],
            "properties": {"tool_calls": {"type": "array", "minItems": 1}},
        },
    ],
    "additionalProperties": False,
    "properties": {
        "role": {
            "enum": ["system", "user", "assistant", "tool"],
            "description": "Who speaks: system, user, assistant or tool.",
        },
        "content": {
            "anyOf": [*_CONTENTS, {"type": "null"}],
            "description": "Text, an object with text, parts and attachments, or a list of parts.",
        },
        "author": {"anyOf": [{**_TEXTS, **KEY}, {"type": "null"}]},
        "tokens_in": _COUNT,
        "tokens_out": _COUNT,
        "cost": {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1e15}, {"type": "null"}]},
        "created_at": {"anyOf": [{**_TEXTS, "format": "date-time", **TIME}, {"type": "null"}]},
        **{name: {} for name in PROVIDER_FIELDS},
    },
}
_usage_rules = {
    name: value_rules(hint)
    for name, hint in get_type_hints(Interactions.add, include_extras=True).items()
}
_USED: dict[str, Any] = {
    name: {**schema, **_usage_rules.get(name, {})}
    for name, schema in TypeAdapter(Usage).json_schema()["properties"].items()
}
Messages = Annotated[
    list[Any], WithJsonSchema({"type": "array", "minItems": 1, "items": _MESSAGE_SCHEMA})
]
Used = Annotated[
    Any,
    BeforeValidator(_whole_counts),
    WithJsonSchema(
        {
            "type": "object",
            "required": ["model"],
            "properties": _USED,
            "additionalProperties": False,
        }
    ),
]
_CONTENT_SCHEMA = Annotated[Any, WithJsonSchema({"anyOf": _CONTENTS})]
_WIRE: tuple[tuple[Any, Any], ...] = (
    (str, Text),
    (int, WholeNumber),
    (datetime, Moment),
    (Content, _CONTENT_SCHEMA),
    (Output, Any),
    (Json, Any),
    (
        tuple[int, int],
        Annotated[str, Field(pattern="^[1-9][0-9]{0,8}-[1-9][0-9]{0,8}$", examples=["1-40"])],
    ),
    (Mapping[str, Any], dict[str, Any]),
    (Sequence[str], list[Text]),
    (Sequence[NewMessage | Mapping[str, Any]], Messages),
    (Sequence[Mapping[str, Any]], list[dict[str, Any]]),
    (Usage | Mapping[str, Any], Used),
)


_IN_QUERY: dict[Any, Any] = {
    str: str,
    Sequence[str]: Annotated[list[str], BeforeValidator(_split)],
    Mapping[str, Any]: Annotated[
        str, AfterValidator(JsonText), Field(description="A JSON object, as text.")
    ],
}
"""Types that have another form in a query."""


def wire(hint: Any, *, in_query: bool) -> Any:
    """Return the type of a parameter in a request."""
    if get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint):
        parts = [part for part in get_args(hint) if part is not NoneType]
        inner = functools.reduce(operator.or_, parts)
        return wire(inner, in_query=in_query) | None
    if in_query and hint in _IN_QUERY:
        return _IN_QUERY[hint]
    return next((wire_type for type_, wire_type in _WIRE if type_ == hint), hint)


@functools.cache
def type_hints(method: Callable[..., Any], *, with_rules: bool = False) -> dict[str, Any]:
    """Return the types of a verb's parameters and result.

    They are evaluated once for all apps of a process, because that takes half of the time of making one.
    """
    return get_type_hints(method, include_extras=with_rules)


def parameter_rules(method: Callable[..., Any], parameter: str) -> dict[str, Any]:
    """Return the rules for the values of a parameter of a verb, as part of its schema."""
    return value_rules(type_hints(method, with_rules=True)[parameter])


def takes_idempotency_key(method: Callable[..., Any]) -> bool:
    """Return whether a parameter of a verb is the idempotency key of the request."""
    hints = type_hints(method, with_rules=True).values()
    return any(isinstance(note, Idempotency) for hint in hints for note in annotations_of(hint))


@functools.cache
def build_request_model(
    endpoint: Endpoint,
    method: Callable[..., Any],
    leave: tuple[str, ...],
    *,
    in_query: bool,
    name: str = "Request",
) -> type[BaseModel]:
    """Return the model of a request's query or body, without the parameters in `leave`."""
    hints = type_hints(method, with_rules=True)
    model_fields: dict[str, Any] = {}
    plain_hints = type_hints(method)
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        if parameter.name in leave or is_in_process(hints[parameter.name]):
            continue
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        default = list(default) if isinstance(default, tuple) else default
        options: dict[str, Any] = {
            "description": parameter_help(endpoint.kind, parameter.name),
            "json_schema_extra": parameter_rules(method, parameter.name),
        }
        if default is ...:
            example = EXAMPLES.get(parameter.name)
            options["examples"] = [EXAMPLES.get(f"{endpoint.kind}.{parameter.name}", example)]
        model_fields[parameter.name] = (
            wire(plain_hints[parameter.name], in_query=in_query),
            Field(default, **options),
        )
    if in_query and not endpoint.is_admin:
        model_fields |= owner_fields()
    title = endpoint.name.title().replace("_", "")
    return create_model(
        f"{title}{name}", __config__=LENIENT if in_query else STRICT, **model_fields
    )


def owner_fields() -> dict[str, Any]:
    """Return the parameters `user` and `agent`, which can be sent instead of the headers."""
    return {
        "user": (
            str | None,
            Field(
                None,
                description="The user; also as the header X-Memorist-User.",
                json_schema_extra=KEY,
            ),
        ),
        "agent": (
            str | None,
            Field(
                None,
                description="The agent; also as the header X-Memorist-Agent.",
                json_schema_extra=KEY,
            ),
        ),
    }


OwnerParameters = create_model("OwnerParameters", __config__=LENIENT, **owner_fields())


def messages(items: Sequence[Any]) -> list[Any]:
    """Return the messages of a body with their times parsed."""
    parsed = []
    for index, message in enumerate(map(_whole_counts, items)):
        if isinstance(message, dict) and message.get("created_at") is not None:
            where = f"messages[{index}].created_at"
            if not isinstance(message["created_at"], str):
                raise Invalid(field=where, problem="must be a time like 2026-01-31T12:00:00Z")
            message = {**message, "created_at": parse_time(message["created_at"], where)}  # noqa: PLW2901
        parsed.append(message)
    return parsed


@functools.cache
def shape(hint: Any) -> Any:
    """Return the type of a result in a response."""
    if get_origin(hint) is Page:
        record = shape(get_args(hint)[0])
        name = "PlacePage" if get_origin(record) is tuple else f"{record.__name__}Page"
        return create_model(
            name,
            __config__=DEFERRED,
            data=(list[record], ...),  # type: ignore[valid-type]
            next=(
                str | None,
                Field(
                    ...,
                    description="The value of `after` for the next page; null on the last page.",
                ),
            ),
        )
    if get_origin(hint) in (Union, UnionType):
        return functools.reduce(operator.or_, [shape(part) for part in get_args(hint)])
    if get_origin(hint) in (list, Sequence) or hint in (list, Sequence):
        return list[shape(get_args(hint)[0])] if get_args(hint) else list[Any]  # type: ignore[misc]
    if get_origin(hint) in (dict, Mapping):
        key, value = get_args(hint)
        return dict[key, shape(value)]  # type: ignore[misc, valid-type]
    if get_origin(hint) is Literal:
        return hint
    if isinstance(hint, type) and is_dataclass(hint):
        return _record(hint)
    if hint is Match:
        return create_model(
            "Match",
            __config__=DEFERRED,
            __doc__=inspect.getdoc(Match),
            item=(shape(PlacedItem), ...),
            score=(float, ...),
        )
    if isinstance(hint, type) and issubclass(hint, tuple) and hint is not tuple:
        return list[Any]
    return hint


def _record(kind: type) -> type[BaseModel]:
    hints = get_type_hints(kind)
    model_fields: dict[str, Any] = {
        "data" if field.name == "items" and issubclass(kind, Page) else field.name: (
            shape(hints[field.name]),
            ...,
        )
        for field in fields(kind)
        if field.name not in STORED_FIELDS
    }
    if kind is Message:
        model_fields["created_at"] = (datetime, ...)
        model_fields["content"] = (dict[str, Any], ...)
    if kind in (Item, PlacedItem):
        model_fields["value"] = (Any if kind is Item else dict[str, Any], ...)
    return create_model(
        kind.__name__, __config__=DEFERRED, __doc__=inspect.getdoc(kind), **model_fields
    )
