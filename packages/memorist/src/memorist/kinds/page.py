"""Pages of lists, and the cursors that continue them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from memorist.base import canonical, clock, limits
from memorist.base.errors import Invalid

Record = TypeVar("Record")


@dataclass(frozen=True)
class Page(Generic[Record]):
    """A page of a list. Pass `next` as `after` to get the next page; it is None at the end."""

    items: list[Record]
    next: str | None = None

    def __iter__(self) -> Iterator[Record]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Record:
        return self.items[index]


def make_page(
    records: list[Record], limit: int, cursor: Callable[[Record], list[Any]]
) -> Page[Record]:
    """Return a page from up to `limit + 1` records: an extra record means that there are more."""
    if len(records) <= limit:
        return Page(records)
    records = records[:limit]
    return Page(records, encode_cursor(cursor(records[-1])))


def all_records(fetch: Callable[[str | None], Page[Record]]) -> Iterator[Record]:
    """Yield the records of all pages; `fetch` returns the page after a cursor."""
    page = fetch(None)
    yield from page
    while page.next is not None:
        page = fetch(page.next)
        yield from page


def page_start(limit: int, after: str | None, *first: Any) -> tuple[int, list[Any]]:
    """Return the checked size of a page and the values of its cursor.

    first: the values for the first page, of the types that the cursor has
    """
    size = canonical.check_integer(limit, "limit", 1, limits.MAX_PAGE)
    types = [type(value) for value in first]
    return size, decode_cursor(after, types) if after else list(first)


def encode_cursor(values: list[Any]) -> str:
    """Encode values as an opaque cursor; times as microseconds."""
    text = json.dumps(values, separators=(",", ":"), default=_microseconds)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _microseconds(time: datetime) -> int:
    return clock.from_datetime(time, "after")


def decode_cursor(cursor: str, types: list[Any]) -> list[Any]:
    """Return the values of a cursor; raise Invalid if it is malformed.

    `types` are the expected types; `[str, ...]` means one or more strings.
    """
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError, RecursionError, binascii.Error):
        values = None
    if types[1:] == [...] and isinstance(values, list) and values:
        types = types[:1] * len(values)
    if isinstance(values, list) and [type(value) for value in values] == types:
        for value in values:
            if isinstance(value, str):
                canonical.key(value, "after")
            else:
                canonical.check_integer(value, "after", 0, 2**62)
        return values
    raise Invalid(field="after", problem="is not a valid cursor; use `next` of the previous page")
