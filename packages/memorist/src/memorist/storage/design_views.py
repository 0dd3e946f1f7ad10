"""Read-only views with the names of the tables of earlier designs, so that existing SQL keeps running.

They are no part of the schema: an operator creates them with `memorist migrate views`. Each engine
has its own definitions in `views.sql`; the designs are the built-in maps of imports, whose mirror
image the views are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Protocol

from memorist.base.errors import Invalid

_HEAD = re.compile(r"^-- ([a-z-]+)\.([a-z_]+)( \(temporary\))?\n", re.MULTILINE)


@dataclass(frozen=True)
class TableView:
    """The definition of a view that replaces a table of a design."""

    design: str
    name: str
    query: str
    is_temporary: bool  # memorist has a table of this name, so only a connection can have the view


@dataclass(frozen=True, order=True)
class StoredView:
    """A view in the database."""

    design: str
    name: str
    address: str
    """The name that SQL uses, with the schema if it has one."""


class Views(Protocol):
    """The views of one database."""

    available: Sequence[TableView]
    """All definitions; empty for an engine that has none."""
    shares_names: bool
    """Whether two designs cannot have a view of the same name."""

    def stored(self) -> list[StoredView]:
        """Return the views that `replace` created, sorted."""
        ...

    def replace(self, views: Sequence[TableView]) -> None:
        """Drop the views that this method created before, and create these, in one transaction.

        Raises `Conflict` and changes nothing if something else has the name of a view.
        """
        ...

    def script(self, views: Sequence[TableView]) -> str:
        """Return the statements that create views; for one connection if tables have their names."""
        ...


class NoViews:
    """The views of an engine that has no definitions."""

    available: Sequence[TableView] = ()
    shares_names = False

    def stored(self) -> list[StoredView]:
        """Return an empty list."""
        return []

    def replace(self, views: Sequence[TableView]) -> None:
        """Do nothing."""

    def script(self, views: Sequence[TableView]) -> str:
        """Return an empty script."""
        return ""


@dataclass(frozen=True)
class SkippedView:
    """A view that was not created."""

    design: str
    name: str
    reason: str


@dataclass(frozen=True)
class CreatedViews:
    """The views of the database after a change, and those that it cannot store."""

    views: list[StoredView]
    skipped: list[SkippedView]


@cache
def read(package: str) -> Sequence[TableView]:
    """Return the definitions in the file `views.sql` of a package."""
    text = resources.files(package).joinpath("views.sql").read_text(encoding="utf-8")
    _, *parts = _HEAD.split(text)
    return tuple(
        TableView(design, name, query.strip(), bool(temporary))
        for design, name, temporary, query in zip(*[iter(parts)] * 4, strict=True)
    )


def create(store: Views, designs: Sequence[str] = ()) -> CreatedViews:
    """Create the views of designs, or all, beside those of other designs that exist."""
    chosen = choose(store, designs)
    chosen += [view for view in _stored_definitions(store) if view.design not in designs]
    views, skipped = _without_conflicts(store, chosen)
    store.replace(views)
    return CreatedViews(store.stored(), skipped)


def drop(store: Views) -> list[StoredView]:
    """Drop all views and return them."""
    views = store.stored()
    if views:
        store.replace(())
    return views


def restore(store: Views, dropped: Sequence[StoredView]) -> None:
    """Create views again that `drop` returned."""
    if dropped:
        names = {(view.design, view.name) for view in dropped}
        store.replace([view for view in store.available if (view.design, view.name) in names])


def script(store: Views, designs: Sequence[str] = ()) -> str:
    """Return the statements that create the views of designs, or all."""
    chosen = choose(store, designs)
    if store.shares_names:
        chosen = list({view.name: view for view in reversed(chosen)}.values())[::-1]
    return store.script(chosen)


def choose(store: Views, designs: Sequence[str]) -> list[TableView]:
    """Return the definitions of designs, or all; raise `Invalid` for an unknown design."""
    if not store.available:
        raise Invalid(field="database", problem="has no views; they need SQLite or PostgreSQL")
    known = dict.fromkeys(view.design for view in store.available)
    for design in designs:
        if design not in known:
            problem = f"must be one of {', '.join(known)}, not {design!r}"
            raise Invalid(field="design", problem=problem)
    return [view for view in store.available if not designs or view.design in designs]


def _stored_definitions(store: Views) -> list[TableView]:
    designs = {view.design for view in store.stored()}
    return [view for view in store.available if view.design in designs]


def _without_conflicts(
    store: Views, views: Sequence[TableView]
) -> tuple[list[TableView], list[SkippedView]]:
    """Return the views that the database can store; the first one of a shared name counts."""
    taken: dict[str, TableView] = {}
    skipped: list[SkippedView] = []
    for view in dict.fromkeys(views):
        key = view.name if store.shares_names else f"{view.design}.{view.name}"
        reason = ""
        if view.is_temporary:
            reason = "memorist has a table of this name; --sql prints a temporary view"
        elif key in taken:
            reason = f"{taken[key].design} has a view of this name; choose with --design"
        if reason:
            skipped.append(SkippedView(view.design, view.name, reason))
        else:
            taken[key] = view
    return list(taken.values()), skipped
