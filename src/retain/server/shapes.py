"""The shapes of what goes over the wire, made from the verbs' own signatures: what a request may say, what an answer has.

A record is the same on the wire as in the library, but for what only Python needs: its JSON text appears as JSON.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from retain.canonical import Json
from retain.faces.ways import Way, word
from retain.kinds.kind import Page
from retain.kinds.reference import Output
from retain.kinds.state import Item
from retain.memory import Scope
from retain.talk.content import Content
from retain.talk.message import Message, NewMessage

STRICT = ConfigDict(extra="forbid")
PATH_TYPES = {"path": str, "int": int, "": str}


class Said(BaseModel):
    """A message to be kept."""

    model_config = ConfigDict(extra="allow")  # a provider's own fields, such as tool_calls, are known to the library
    role: str = Field(description="Who speaks: system, user, assistant or tool.", examples=["user"])
    content: str | dict[str, Any] | list[Any] | None = Field(None, description="Text, or an object with text and parts.")
    created_at: datetime | None = None


def _split(given: Any) -> Any:
    """Several words of a query: the parameter again and again, or once with commas."""
    words = [given] if isinstance(given, str) else given
    return [part.strip() for text in words for part in text.split(",") if part.strip()] if words is not None else None


_WIRE: tuple[tuple[Any, Any], ...] = (
    (Content, str | dict[str, Any]),
    (Output, Any),
    (Json, Any),
    (tuple[int, int], Annotated[str, Field(pattern=r"^\d{1,9}-\d{1,9}$", examples=["1-40"])]),
    (Mapping[str, Any], dict[str, Any]),
    (Sequence[str], list[str]),
    (Sequence[NewMessage | Mapping[str, Any]], list[Said]),
    (Sequence[Mapping[str, Any]], list[dict[str, Any]]),
)


def wire(hint: Any, *, in_query: bool) -> Any:
    """A parameter's type, as a request can give it."""
    if get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint):
        kept = [part for part in get_args(hint) if part is not NoneType]
        inner = functools.reduce(lambda one, other: one | other, kept)
        return wire(inner, in_query=in_query) | None
    if in_query and hint == Sequence[str]:
        return Annotated[list[str], BeforeValidator(_split)]
    return next((there for here, there in _WIRE if here == hint), hint)


def method_of(way: Way, kinds: Mapping[str, type]) -> Callable[..., Any]:
    """The verb behind a way."""
    found: Callable[..., Any] = getattr(kinds[way.kind] if way.kind else Scope, way.verb)
    return found


def asked(way: Way, method: Callable[..., Any], in_path: Sequence[str]) -> type[BaseModel]:
    """What a request may say besides its path: in the query of one that reads or removes, in the body of others."""
    hints, in_query = get_type_hints(method), way.method in ("GET", "DELETE")
    made: dict[str, Any] = {}
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        if parameter.name in in_path:
            continue
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        default = list(default) if isinstance(default, tuple) else default
        about = word(way.kind, parameter.name)
        made[parameter.name] = (wire(hints[parameter.name], in_query=in_query), Field(default, description=about))
    if in_query:
        made |= whose()
    return create_model(f"{way.name.title().replace('_', '')}Request", __config__=STRICT, **made)


def whose() -> dict[str, Any]:
    """The parameters that say whose memory is meant, where the headers do not."""
    return {
        "user": (str | None, Field(None, description="Whose memory; also as the header X-Retain-User.")),
        "agent": (str | None, Field(None, description="Which agent's; also as the header X-Retain-Agent.")),
    }


Whose = create_model("Whose", __config__=STRICT, **whose())


@functools.cache
def shape(hint: Any) -> Any:
    """A result's type, as an answer shows it."""
    if get_origin(hint) is Page:
        record = shape(get_args(hint)[0])
        name = f"{record.__name__}Page"
        return create_model(
            name,
            data=(list[record], ...),  # type: ignore[valid-type]
            next=(str | None, Field(..., description="What to send as `after` for the page that follows; null at the end.")),
        )
    if get_origin(hint) in (Union, UnionType):
        return functools.reduce(lambda one, other: one | other, [shape(part) for part in get_args(hint)])
    if get_origin(hint) in (list, Sequence) or hint in (list, Sequence):
        return list[shape(get_args(hint)[0])] if get_args(hint) else list[Any]  # type: ignore[misc]
    if get_origin(hint) in (dict, Mapping):
        key, value = get_args(hint)
        return dict[key, shape(value)]  # type: ignore[misc, valid-type]
    if get_origin(hint) is Literal:
        return hint
    if isinstance(hint, type) and is_dataclass(hint):
        return _record(hint)
    if isinstance(hint, type) and issubclass(hint, tuple) and hint is not tuple:
        return list[Any]
    return hint


def _record(kind: type) -> type[BaseModel]:
    hints = get_type_hints(kind)
    made: dict[str, Any] = {one.name: (shape(hints[one.name]), ...) for one in fields(kind) if one.name != "raw"}
    if kind is Message:
        made["content"] = (dict[str, Any], ...)
    if kind is Item:
        made["value"] = (Any, ...)
    return create_model(kind.__name__, __doc__=inspect.getdoc(kind), **made)
