"""Text files in folders, in a scope's items: what Anthropic's memory tool and its memory stores have in common.

A file is an item whose place is its folder and whose key is its name. A folder is an item, too, so that it stays when its
last file is gone. The files of a memory store have an id that a new path does not change, and each change of one leaves a
version.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from retain.base import clock, limits
from retain.base.errors import Invalid, NotFound
from retain.base.ids import uuid7
from retain.kinds.items import Drop
from retain.kinds.items import PlacedItem as Item
from retain.memory import Scope

Path = tuple[str, ...]
Done = TypeVar("Done")

TOOL: Path = ("memory_tool",)
"""Where the files are that belong to no memory store."""
STORES: Path = ("memory_stores",)
"""Where the stores are. The files of one are at its id: a path may have as many names as a place has, but for one."""
STORE = "memstore_"
"""How the id of every store begins."""
_FOLDER = {"folder": True}
_COUNTERS: Path = ("memory_stores counters",)
_AT_ONCE = 500


def reserved(name: str) -> bool:
    """Whether places that begin with this name are for files alone, which have versions and folders to be kept in order."""
    return name in (*TOOL, *STORES, *_COUNTERS) or name.startswith(STORE)


def path_of(item: Item) -> Path:
    """The names of a file or folder, from the top."""
    return (*item.place[1:], item.key)


def is_file(item: Item) -> bool:
    """Whether an item is a file, and no folder."""
    return isinstance(item.value.get("text"), str)


class Files:
    """Files, as one transaction or one reader sees them."""

    def __init__(self, scope: Scope, root: Path = TOOL) -> None:
        self.scope = scope
        self.root = root

    def change(self, work: Callable[[Files], Done]) -> Done:
        """Do what reads and writes, all of it or nothing, while nobody else changes these files."""
        name = f"files {self.scope.owner.user or ''} {self.root[0]}"
        return self.scope.transaction(lambda inner: work(self._with(inner)), lock=name)

    def check(self) -> None:
        """An error where there is no place for files."""

    def find(self, path: Path) -> Item | None:
        """The file or folder at a path; None where there is none, or no such name can be."""
        try:
            return self.scope.items.read([(self.root + path[:-1], path[-1])])[0]
        except Invalid:
            return None

    def under(self, path: Path = ()) -> Iterator[Item]:
        """All files and folders in a folder and in those below it."""
        return _all(self.scope, self.root + path)

    def make_folders(self, path: Path) -> Item | None:
        """Make what is missing of a folder and those around it; the file that is in the way, where one is."""
        asked = [(self.root + path[:depth], path[depth]) for depth in range(len(path))]
        for (place, key), found in zip(
            asked, self.scope.items.read(asked) if asked else [], strict=True
        ):
            if found is None:
                self.scope.items.put(place, key, _FOLDER, fields=[])
            elif is_file(found):
                return found
        return None

    def put(self, path: Path, text: str, before: Item | None = None) -> Item:
        """Write a file; `before` is what it was, here or, if it moves, elsewhere."""
        value = self._value(path, text, before)
        return self.scope.items.put(self.root + path[:-1], path[-1], value, fields=["text"])

    def move(self, item: Item, path: Path) -> None:
        """Put a file or an empty folder to another path."""
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
    """The files of a memory store; `by` is who changes them, as its versions tell."""

    def __init__(self, scope: Scope, store: str, by: str | None = None) -> None:
        super().__init__(scope, (store,))
        self.store = store
        self.ids: Path = (f"{store} ids",)
        self.versions: Path = (f"{store} versions",)
        self.by = by

    def check(self) -> None:
        """An error where there is no such store: what else is at a place of that name is nobody's files."""
        self.record()

    def record(self) -> Item:
        """The store itself."""
        found = (
            self.scope.items.read([(STORES, self.store)])[0]
            if self.store.startswith(STORE)
            else None
        )
        if found is None:
            raise NotFound(what="memory store", id=self.store)
        return found

    def remove_store(self) -> None:
        """Remove the store with all that is in it."""
        gone = [
            self.record(),
            *self.under(),
            *_all(self.scope, self.ids),
            *_all(self.scope, self.versions),
        ]
        changes = [Drop(_COUNTERS, self.store), *(Drop(item.place, item.key) for item in gone)]
        most = limits.MAX_BATCH
        for start in range(0, len(changes), most):
            self.scope.items.write(changes[start : start + most])

    def remove(self, item: Item) -> None:
        """Remove a file or an empty folder; the versions of a file stay."""
        super().remove(item)
        if is_file(item):
            self.scope.items.remove(self.ids, item.value["id"])
            self._note(item.value["id"], path_of(item), None, "deleted")

    def _with(self, scope: Scope) -> StoreFiles:
        return StoreFiles(scope, self.store, self.by)

    def _value(self, path: Path, text: str, before: Item | None) -> dict[str, Any]:
        if self.record().value["archived"]:
            raise Invalid(
                field="memory_store_id",
                problem="the store is archived: what is in it can be read and deleted",
            )
        id = f"mem_{uuid7().replace('-', '')}" if before is None else before.value["id"]
        version = self._note(id, path, text, "created" if before is None else "modified")
        if before is None or path_of(before) != path:
            self.scope.items.put(self.ids, id, {"path": list(path)}, fields=[])
        made = (
            {}
            if before is None
            else {"created": before.value.get("created") or before.created_at.isoformat()}
        )
        return {"text": text, "id": id, "version": version, **made}

    def _note(self, id: str, path: Path, text: str | None, operation: str) -> str:
        """Add a version; its id. The newest is the first in the order of their ids."""
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


def numbered(scope: Scope, kind: str, counter: str) -> tuple[str, int]:
    """A new id, which in their order comes before those made earlier, and when it was made, in microseconds."""
    counted = scope.items.put(_COUNTERS, counter, {}, fields=[])
    id = f"{kind}_{(1 << 48) - counted.version:012x}{secrets.token_hex(6)}"
    return id, clock.from_datetime(counted.updated_at, "updated_at")


def _all(scope: Scope, place: Path) -> Iterator[Item]:
    after: str | None = None
    while True:
        page = scope.items.list(place, limit=min(_AT_ONCE, limits.MAX_PAGE), after=after)
        yield from page
        after = page.next
        if after is None:
            return
