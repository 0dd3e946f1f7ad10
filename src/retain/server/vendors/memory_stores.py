"""Anthropic's memory stores over a scope: what each of their operations does and answers; the wire only carries it.

A store is an item, and its files are files as the memory tool's are (api/files.py): what came through one is there for
the other. Every change is one transaction, and one store's changes come one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from retain.api.files import STORES, Files, Path, StoreFiles, is_file, numbered, path_of
from retain.base import limits
from retain.base.errors import Conflict, Invalid, NotFound
from retain.kinds.items import PlacedItem as Item
from retain.kinds.items.item import ordered
from retain.kinds.kind import encode_cursor
from retain.memory import Scope
from retain.server.vendors import memory_shapes as shapes
from retain.server.vendors.memory_shapes import MOST_FULL, MOST_NAMES, Json, Query

Done = TypeVar("Done")
_TRIES = 5
_AT_ONCE = 100
_LAST = "\U0010fffe" * 128
"""A name that comes after any other."""


class Stores:
    """The memory stores of a scope; `by` is who asks, as versions tell it."""

    def __init__(self, scope: Scope, by: str) -> None:
        self._scope = scope
        self._by = by

    # -- stores ------------------------------------------------------------------------------------------------

    def create(self, body: Query) -> Json:
        """Make a store."""
        value = shapes.described({"description": "", "metadata": {}, **body})

        def work(inner: Scope) -> Item:
            id, at = numbered(inner, "memstore", "stores")
            return inner.items.put(
                STORES, id, {**value, "archived": False, "at": at}, fields=["name", "description"]
            )

        return shapes.store(
            self._scope.transaction(work, lock=f"stores {self._scope.owner.user or ''}")
        )

    def retrieve(self, id: str) -> Json:
        """One store."""
        return shapes.store(_record(self._files(id)))

    def update(self, id: str, body: Query) -> Json:
        """Change what is said of a store; of its metadata, only the keys that are named."""
        changes = {name: value for name, value in body.items() if value is not None}

        def work(files: StoreFiles) -> Item:
            item = _record(files)
            if item.value["archived"]:
                raise Invalid(
                    field="memory_store_id", problem="the store is archived, and cannot be changed"
                )
            metadata = {
                **item.value["metadata"],
                **shapes.an_object(changes.get("metadata", {}), "metadata"),
            }
            kept = {name: value for name, value in metadata.items() if value is not None}
            known = {name: item.value[name] for name in ("name", "description")}
            value = item.value | shapes.described({**known, **changes, "metadata": kept})
            return (
                item
                if value == item.value
                else _keep(files.scope, item, value, ["name", "description"])
            )

        return shapes.store(self._change(id, work))

    def list(self, query: Query) -> Json:
        """Stores, the newest first."""
        where: Json = shapes.between(query)
        if not shapes.flag(query, "include_archived"):
            where["archived"] = False
        page = self._scope.items.list(
            STORES, where=where, exact=True, limit=shapes.limit(query), after=query.get("page")
        )
        return {
            "data": [shapes.store(item) for item in page if shapes.is_store(item)],
            "next_page": page.next,
        }

    def archive(self, id: str) -> Json:
        """Let a store be changed no more."""

        def work(files: StoreFiles) -> Item:
            item = _record(files)
            value = item.value | {"archived": True}
            return (
                item
                if item.value["archived"]
                else _keep(files.scope, item, value, ["name", "description"])
            )

        return shapes.store(self._change(id, work))

    def delete(self, id: str) -> Json:
        """Remove a store, with its memories and their versions."""
        self._change(id, StoreFiles.remove_store)
        return {"id": id, "type": "memory_store_deleted"}

    # -- memories ----------------------------------------------------------------------------------------------

    def create_memory(self, store: str, body: Query, query: Query) -> Json:
        """Write a new memory where there is none."""
        full, path, content = (
            shapes.is_full(query),
            shapes.path(body.get("path")),
            shapes.content(body.get("content")),
        )

        def work(files: StoreFiles) -> Item:
            _make_way(files, path)
            return files.put(path, content)

        return shapes.memory(store, self._change(store, work), full)

    def retrieve_memory(self, store: str, id: str, query: Query) -> Json:
        """One memory."""
        full, files = shapes.is_full(query, default="full"), self._files(store)
        _record(files)
        for _ in range(_TRIES):  # it may move between the two reads
            found = _find(files, id)
            if found is not None:
                return shapes.memory(store, found, full)
        raise NotFound(what="memory", id=id)

    def update_memory(self, store: str, id: str, body: Query, query: Query) -> Json:
        """Change the content or the path of a memory, if the content still is what the caller thinks."""
        full = shapes.is_full(query)
        content = None if body.get("content") is None else shapes.content(body["content"])
        path = None if body.get("path") is None else shapes.path(body["path"])
        expected = shapes.expected(body.get("precondition"))

        def work(files: StoreFiles) -> Item:
            item = _existing(files, id)
            text, old = item.value["text"], path_of(item)
            new_text, new = text if content is None else content, old if path is None else path
            if (new_text, new) == (text, old):
                return item
            _compare(item, expected)
            if new != old:
                files.scope.items.remove(item.place, item.key)
                _make_way(files, new)
            return files.put(new, new_text, item)

        return shapes.memory(store, self._change(store, work), full)

    def delete_memory(self, store: str, id: str, query: Query) -> Json:
        """Remove a memory, if the content still is what the caller thinks; its versions stay."""
        expected = shapes.sha(query.get("expected_content_sha256"), "expected_content_sha256")

        def work(files: StoreFiles) -> None:
            item = _existing(files, id)
            _compare(item, expected)
            files.remove(item)

        self._change(store, work)
        return {"id": id, "type": "memory_deleted"}

    def list_memories(self, store: str, query: Query) -> Json:
        """Memories, or folders that are as deep as asked for; what is in a folder comes before what is in those below it."""
        full, files = shapes.is_full(query), self._files(store)
        limit, depth = (
            shapes.limit(query, most=MOST_FULL if full else 100),
            shapes.whole(query, "depth", 0, 0, MOST_NAMES),
        )
        prefix = shapes.path(query["path_prefix"], prefix=True) if query.get("path_prefix") else ()
        after, last = shapes.unpacked(query["page"]) if query.get("page") else (None, "")
        _record(files)
        data: list[Json] = []
        deepest, folder = len(prefix) + depth if depth else MOST_NAMES, ""
        size = min(_AT_ONCE, limits.MAX_PAGE)
        while (
            len(prefix) < MOST_NAMES
        ):  # nothing can be in a folder that is as deep as a file can be
            page = self._scope.items.list(files.root + prefix, limit=size, after=after)
            for item in page:
                path = path_of(item)
                folder = f"/{'/'.join(path[:deepest])}/" if len(path) > deepest else ""
                if not shapes.is_memory(item) or (folder and folder == last):
                    continue
                if len(data) == limit:
                    return {"data": data, "next_page": shapes.packed(after or "", last)}
                data.append(
                    {"type": "memory_prefix", "path": folder}
                    if folder
                    else shapes.memory(store, item, full)
                )
                last = folder or last
                after = (
                    encode_cursor(ordered(item))
                    if not folder
                    else encode_cursor([*item.place[: deepest + 1], _LAST, _LAST])
                )
            if page.next is None:
                break
            if (
                not folder or folder != last
            ):  # else it goes on behind that folder, however much is in it
                after = page.next
        return {"data": data, "next_page": None}

    # -- versions ----------------------------------------------------------------------------------------------

    def list_versions(self, store: str, query: Query) -> Json:
        """The versions of a store's memories, the newest first."""
        full, files = shapes.is_full(query), self._files(store)
        _record(files)
        limit, where = shapes.limit(query, most=MOST_FULL if full else 100), shapes.between(query)
        if query.get("service_account_id") or query.get("session_id"):  # nobody here writes as one
            return {"data": [], "next_page": None}
        for name, field in (
            ("memory_id", "memory"),
            ("operation", "operation"),
            ("api_key_id", "by"),
        ):
            if query.get(name):
                where[field] = query[name]
        page = self._scope.items.list(
            files.versions, where=where, exact=True, limit=limit, after=query.get("page")
        )
        found = [shapes.version(store, item, full) for item in page if shapes.is_version(item)]
        return {"data": found, "next_page": page.next}

    def retrieve_version(self, store: str, id: str, query: Query) -> Json:
        """One version."""
        full, files = shapes.is_full(query, default="full"), self._files(store)
        _record(files)
        return shapes.version(store, _one_version(files, id), full)

    def redact_version(self, store: str, id: str) -> Json:
        """Take out of a version what was written, for good; that something was, and by whom, stays."""

        def work(files: StoreFiles) -> Item:
            item = _one_version(files, id)
            if item.value.get("redacted_by"):
                return item
            if (memory := _find(files, item.value["memory"])) is not None and memory.value[
                "version"
            ] == id:
                raise Invalid(
                    field="memory_version_id",
                    problem="is the memory as it is now: change or delete that first",
                )
            value = item.value | {"text": None, "path": None, "redacted_by": self._by}
            return _keep(files.scope, item, value, [])

        return shapes.version(store, self._change(store, work), full=False)

    def _files(self, store: str) -> StoreFiles:
        return StoreFiles(self._scope, store, self._by)

    def _change(self, store: str, work: Callable[[StoreFiles], Done]) -> Done:
        """Do something with the files of a store that is there, all of it or nothing."""

        def checked(files: Files) -> Done:
            mine = cast(StoreFiles, files)
            _record(mine)
            return work(mine)

        return self._files(store).change(checked)


# -- what is found and kept ------------------------------------------------------------------------------------


def _keep(scope: Scope, item: Item, value: Json, fields: list[str]) -> Item:
    return scope.items.put(item.place, item.key, value, fields=fields, if_version=item.version)


def _record(files: StoreFiles) -> Item:
    """The store itself."""
    found = files.record()
    if not shapes.is_store(found):
        raise NotFound(what="memory store", id=files.store)
    return found


def _find(files: StoreFiles, id: str) -> Item | None:
    """A memory by its id."""
    place = files.scope.items.read([(files.ids, id)])[0]
    path = None if place is None else place.value.get("path")
    found = files.find(tuple(path)) if isinstance(path, list) and path else None
    return (
        found if found is not None and shapes.is_memory(found) and found.value["id"] == id else None
    )


def _existing(files: StoreFiles, id: str) -> Item:
    found = _find(files, id)
    if found is None:
        raise NotFound(what="memory", id=id)
    return found


def _one_version(files: StoreFiles, id: str) -> Item:
    found = files.scope.items.read([(files.versions, id)])[0]
    if found is None or not shapes.is_version(found):
        raise NotFound(what="memory version", id=id)
    return found


def _make_way(files: StoreFiles, path: Path) -> None:
    """Make room for a file: its folders, and nothing where it will be. A memory there, above or below it is in the way."""
    blocked = files.make_folders(path[:-1]) or files.find(path)
    if blocked is not None and not is_file(blocked):
        empty = [blocked, *files.under(path)]
        blocked = next(filter(is_file, empty), None)
        for item in empty if blocked is None else ():
            files.remove(item)
    if blocked is not None:
        taken = f"/{'/'.join(path_of(blocked))}"
        said = {"conflicting_memory_id": blocked.value.get("id"), "conflicting_path": taken}
        raise Conflict(
            problem=f"The memory at {taken} is in the way",
            type="memory_path_conflict_error",
            told=said,
        )


def _compare(item: Item, expected: str | None) -> None:
    if expected is not None and expected != shapes.digest(item.value["text"]):
        problem = "The memory's content is not what the precondition says: read it, then try again"
        raise Conflict(problem=problem, type="memory_precondition_failed_error")
