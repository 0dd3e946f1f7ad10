"""The values that parameters of verbs may have, as annotations of the parameters.

    def list(self, *, limit: PageSize = 100) -> …
    def get(self, *, page: Annotated[int, Range(1, 50)] = 1) -> …

The OpenAPI document and the MCP tools show them. The verbs themselves check the values, so that all
interfaces reject the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args

from memorist.base import limits
from memorist.base.canonical import VISIBLE

Schema = dict[str, Any]
_CONTROL = "\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029\U0010ffff"
KEY_PATTERN = f"[^{_CONTROL}]*[^\\s{_CONTROL}][^{_CONTROL}]*"
"""A name, id or key: not blank, without control characters."""


@dataclass(frozen=True)
class Range:
    """The smallest and the largest number; `above` and `below` are excluded themselves."""

    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None

    def schema(self) -> Schema:
        """Return the rule as JSON schema."""
        return _given(
            minimum=self.minimum,
            maximum=self.maximum,
            exclusiveMinimum=self.above,
            exclusiveMaximum=self.below,
        )


@dataclass(frozen=True)
class Text:
    """The pattern and the length of a text."""

    pattern: str | None = None
    max_length: int | None = None
    min_length: int | None = None

    def schema(self) -> Schema:
        """Return the rule as JSON schema."""
        return _given(pattern=self.pattern, maxLength=self.max_length, minLength=self.min_length)


@dataclass(frozen=True)
class OneOf:
    """The values to choose from."""

    values: tuple[str | None, ...]

    def schema(self) -> Schema:
        """Return the rule as JSON schema."""
        return {"enum": list(self.values)}


@dataclass(frozen=True)
class Texts:
    """The number of the texts in a list, and the rule for each of them."""

    each: Text | OneOf
    min_items: int | None = None
    max_items: int | None = None

    def schema(self) -> Schema:
        """Return the rule as JSON schema."""
        counts = _given(minItems=self.min_items, maxItems=self.max_items)
        return {**counts, "items": {"type": "string", **self.each.schema()}}


@dataclass(frozen=True, eq=False)
class JsonSchema:
    """A rule that the others cannot say."""

    rule: Mapping[str, Any]

    def schema(self) -> Schema:
        """Return the rule."""
        return dict(self.rule)


@dataclass(frozen=True)
class Idempotency:
    """Marks the parameter that is the idempotency key of a request."""


@dataclass(frozen=True)
class InProcess:
    """Marks a parameter that only the library has: it is not sent over HTTP or MCP."""


@dataclass(frozen=True)
class HiddenFromAgents:
    """Marks a parameter that agents cannot set; MCP passes this value."""

    value: str


def _given(**rules: Any) -> Schema:
    return {name: value for name, value in rules.items() if value is not None}


KEY = Text(f"^{KEY_PATTERN}$")
NOT_BLANK = Text(VISIBLE)
SINCE_1970 = Text("^(19[7-9][0-9]|[2-9][0-9]{3})-")
Key = Annotated[str, KEY]
"""A name, id or key."""
IdempotencyKey = Annotated[str, KEY, Idempotency()]
"""A retry with the same key does nothing."""
Visible = Annotated[str, NOT_BLANK]
"""A text that is not blank."""
Prefix = Annotated[str, Text(f"^({KEY_PATTERN})?$")]
"""The beginning of a key, or nothing."""
Keys = Annotated[Sequence[str], Texts(KEY)]
SomeKeys = Annotated[Sequence[str], Texts(KEY, min_items=1)]
Number = Annotated[int, Range(1, 2**53)]
"""A number that counts from 1, such as that of a message."""
Count = Annotated[int, Range(0, 2**53)]
Amount = Annotated[float, Range(0, 1e15)]
Probability = Annotated[float, Range(0, 1)]
PageSize = Annotated[int, Range(1, limits.MAX_PAGE)]
"""The number of records in a page of a list."""
HitCount = Annotated[int, Range(1, 200)]
"""The number of hits of a search."""


def annotations_of(hint: Any) -> tuple[Any, ...]:
    """Return the annotations of a parameter's type, also those of an optional one."""
    found = tuple(getattr(hint, "__metadata__", ()))
    if found:
        return found
    return tuple(note for part in get_args(hint) for note in getattr(part, "__metadata__", ()))


def value_rules(hint: Any) -> Schema:
    """Return the rules for the values of a parameter, as part of its JSON schema."""
    rules: Schema = {}
    for note in annotations_of(hint):
        if isinstance(note, Range | Text | OneOf | Texts | JsonSchema):
            rules |= note.schema()
    return rules


def is_in_process(hint: Any) -> bool:
    """Return whether only the library has a parameter."""
    return any(isinstance(note, InProcess) for note in annotations_of(hint))
