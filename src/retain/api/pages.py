"""Lists that are read page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from retain.kinds.page import Page

Record = TypeVar("Record")


def all_records(fetch: Callable[[str | None], Page[Record]]) -> Iterator[Record]:
    """Yield the records of all pages; `fetch` returns the page after a cursor."""
    page = fetch(None)
    yield from page
    while page.next is not None:
        page = fetch(page.next)
        yield from page
