"""Text files in folders, stored as a scope's items.

Anthropic's memory tool and its memory stores both use them. A file is an item whose place is its
folder and whose key is its name. A folder is also an item, so that it still exists after its last
file is removed. A file of a memory store has an id that stays the same when the file is moved, and
each change of the file adds a version.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from memorist.base import clock, limits
from memorist.base.errors import Invalid, NotFound
from memorist.base.ids import uuid7
from memorist.kinds.items import Drop
from memorist.kinds.items import PlacedItem as Item
from memorist.kinds.page import all_records
from memorist.memory import Scope

Path = tuple[str, ...]
WorkResult = TypeVar("WorkResult")

TOOL: Path = ("memory_tool",)
"""The place of files that belong to no memory store."""
STORES: Path = ("memory_stores",)
"""The place of the memory stores. The files of a store are at the place named by its id."""
STORE = "memstore_"
"""The prefix of every store id."""
MAX_LEVELS = 64
"""Maximum number of names in one path."""
_IDS = " ids"
_VERSIONS = " versions"
_STORE_COUNTER = "stores"
_FOLDER = {"folder": True}
_COUNTERS: Path = ("memory_stores counters",)
_PAGE_SIZE = 500
_RESERVED = (*TOOL, *STORES, *_COUNTERS)


def reserved(name: str) -> bool:
    """Return True if places that begin with this name are reserved for files.

    Files have versions and folders that other writers would corrupt.
    """
    return name in _RESERVED or name.startswith(STORE)


def is_bookkeeping(name: str) -> bool:
    """Return True if places that begin with this name hold records about files, not files."""
    return name in (*STORES, *_COUNTERS) or (
        name.startswith(STORE) and name.endswith((_IDS, _VERSIONS))
    )


def path_of(item: Item) -> Path:
    """Return the names on the path of a file or folder, from the top."""
    return (*item.place[1:], item.key)


def is_file(item: Item) -> bool:
    """Return True if an item is a file, False if it is a folder."""
    return isinstance(item.value.get("text"), str)


class Files:
    """The files below one root, as one transaction or one reader sees them."""

    def __init__(self, scope: Scope, root: Path = TOOL) -> None:
        self.scope = scope
        self.root = root

    def change(self, work: Callable[[Files], WorkResult]) -> WorkResult:
        """Run `work` in one transaction, under a lock on these files."""
        name = f"files {self.scope.owner.user or ''} {self.root[0]}"
        return self.scope.transaction(lambda inner: work(self._with(inner)), lock=name)

    def check(self) -> None:
        """Raise an error if the store of the files does not exist; without a store, do nothing."""

    def find(self, path: Path) -> Item | None:
        """Return the file or folder at a path; None if it does not exist or the name is invalid."""
        try:
            return self.scope.items.read([(self.root + path[:-1], path[-1])])[0]
        except Invalid:
            return None

    def under(self, path: Path = ()) -> Iterator[Item]:
        """Yield all files and folders in a folder and below it."""
        if len(path) == MAX_LEVELS:
            return iter(())
        return _all(self.scope, self.root + path)

    def make_folders(self, path: Path) -> Item | None:
        """Create a folder and its missing parents.

        Returns the file that has the name of one of these folders, if any.
        """
        addresses = [(self.root + path[:depth], path[depth]) for depth in range(len(path))]
        items = self.scope.items.read(addresses) if addresses else []
        for (place, key), item in zip(addresses, items, strict=True):
            if item is None:
                self.scope.items.put(place, key, _FOLDER, fields=[])
            elif is_file(item):
                return item
        return None

    def put(self, path: Path, text: str, before: Item | None = None) -> Item:
        """Write a file; `before` is its previous item, at another path if the file moves."""
        value = self._value(path, text, before)
        return self.scope.items.put(self.root + path[:-1], path[-1], value, fields=["text"])

    def move(self, item: Item, path: Path) -> None:
        """Move a file or an empty folder to another path."""
        self.scope.items.remove(item.place, item.key)
        if is_file(item):
            self.put(path, item.value["text"], item)
        else:
            self.scope.items.put(self.root + path[:-1], path[-1], _FOLDER, fields=[])

    def remove(self, item: Item) -> None:
        """Remove a file or an empty folder."""
        self.scope.items.remove(item.place, item.key)

    def _with(self, scope: Scope) -> Files:
        return Files(scope, self.root)

    def _value(self, path: Path, text: str, before: Item | None) -> dict[str, Any]:
        return {"text": text}


class StoreFiles(Files):
    """The files of a memory store; its versions record `by` as the author of each change."""

    def __init__(self, scope: Scope, store: str, by: str | None = None) -> None:
        super().__init__(scope, (store,))
        self.store = store
        self.ids: Path = (store + _IDS,)
        self.versions: Path = (store + _VERSIONS,)
        self.by = by

    def check(self) -> None:
        """Raise `NotFound` if the store does not exist."""
        self.record()

    def record(self) -> Item:
        """Return the item of the store itself."""
        item = None
        if self.store.startswith(STORE):
            item = self.scope.items.read([(STORES, self.store)])[0]
        if item is None:
            raise NotFound(what="memory store", id=self.store)
        return item

    def remove_store(self) -> None:
        """Remove the store with everything in it."""
        items = [
            self.record(),
            *self.under(),
            *_all(self.scope, self.ids),
            *_all(self.scope, self.versions),
        ]
        changes = [Drop(_COUNTERS, self.store), *(Drop(item.place, item.key) for item in items)]
        batch_size = limits.MAX_BATCH
        for start in range(0, len(changes), batch_size):
            self.scope.items.write(changes[start : start + batch_size])
        lock_stores(self.scope, self._remove_unused_counter)

    def _remove_unused_counter(self, scope: Scope) -> None:
        if not scope.items.list(STORES, limit=1):
            scope.items.write([Drop(_COUNTERS, _STORE_COUNTER)])

    def remove(self, item: Item) -> None:
        """Remove a file or an empty folder; the versions of a file stay."""
        super().remove(item)
        if is_file(item):
            self.scope.items.remove(self.ids, item.value["id"])
            self._add_version(item.value["id"], path_of(item), None, "deleted")

    def _with(self, scope: Scope) -> StoreFiles:
        return StoreFiles(scope, self.store, self.by)

    def _value(self, path: Path, text: str, before: Item | None) -> dict[str, Any]:
        if self.record().value["archived"]:
            raise Invalid(
                field="memory_store_id",
                problem="the store is archived: its files can only be read and deleted",
            )
        id = f"mem_{uuid7().replace('-', '')}" if before is None else before.value["id"]
        operation = "created" if before is None else "modified"
        version = self._add_version(id, path, text, operation)
        if before is None or path_of(before) != path:
            self.scope.items.put(self.ids, id, {"path": list(path)}, fields=[])
        value = {"text": text, "id": id, "version": version}
        if before is not None:
            value["created"] = before.value.get("created") or before.created_at.isoformat()
        return value

    def _add_version(self, id: str, path: Path, text: str | None, operation: str) -> str:
        """Add a version and return its id. Ordered by id, the newest version comes first."""
        version, at = numbered(self.scope, "memver", self.store)
        value = {
            "memory": id,
            "path": list(path),
            "text": text,
            "operation": operation,
            "by": self.by,
            "at": at,
        }
        self.scope.items.put(self.versions, version, value, fields=[], if_version=0)
        return version


def lock_stores(scope: Scope, work: Callable[[Scope], WorkResult]) -> WorkResult:
    """Run `work` in one transaction, under a lock on the list of memory stores."""
    return scope.transaction(work, lock=f"stores {scope.owner.user or ''}")


def store_number(scope: Scope) -> tuple[str, int]:
    """Return the id of a new memory store and the time of its creation, as `numbered` does."""
    return numbered(scope, "memstore", _STORE_COUNTER)


def numbered(scope: Scope, kind: str, counter: str) -> tuple[str, int]:
    """Return a new id and the time of its creation in microseconds.

    The id sorts before all earlier ids of the same counter.
    """
    item = scope.items.put(_COUNTERS, counter, {}, fields=[])
    id = f"{kind}_{(1 << 48) - item.version:012x}{secrets.token_hex(6)}"
    return id, clock.from_datetime(item.updated_at, "updated_at")


def _all(scope: Scope, place: Path) -> Iterator[Item]:
    size = min(_PAGE_SIZE, limits.MAX_PAGE)
    return all_records(lambda after: scope.items.list(place, limit=size, after=after))
