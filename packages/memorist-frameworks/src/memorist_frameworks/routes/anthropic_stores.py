"""Anthropic's memory stores over a scope: the operations of the protocol and their responses.

A store is an item. Its files are those of the memory tool (memory_files.py), so each sees what
the other wrote. Every change is one transaction, and changes of one store are serialized.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from memorist.base import limits
from memorist.base.errors import Conflict, Invalid, NotFound
from memorist.kinds.items import PlacedItem as Item
from memorist.kinds.items.item import ordered
from memorist.kinds.page import encode_cursor
from memorist.memory import Scope
from memorist_frameworks.memory_files import (
    MAX_LEVELS,
    STORES,
    Files,
    Path,
    StoreFiles,
    is_file,
    lock_stores,
    path_of,
    store_number,
)
from memorist_frameworks.routes import anthropic_formats as formats
from memorist_frameworks.routes.anthropic_formats import (
    MAX_FULL_RECORDS,
    MAX_PATH_NAMES,
    Json,
    Query,
)

Done = TypeVar("Done")
MAX_READS = 5
PAGE_SIZE = 100
_LAST_NAME = "\U0010fffe" * 128
"""A name that sorts after any other."""


class Stores:
    """The memory stores of a scope; `by` is the author of new versions."""

    def __init__(self, scope: Scope, by: str) -> None:
        self._scope = scope
        self._by = by

    # -- stores ----------------------------------------------------------------------------

    def create(self, body: Query) -> Json:
        """Create a store."""
        value = formats.check_store({"description": "", "metadata": {}, **body})

        def work(inner: Scope) -> Item:
            id, at = store_number(inner)
            return inner.items.put(
                STORES, id, {**value, "archived": False, "at": at}, fields=["name", "description"]
            )

        return formats.render_store(lock_stores(self._scope, work))

    def retrieve(self, id: str) -> Json:
        """Return a store."""
        return formats.render_store(_read_store(self._files(id)))

    def update(self, id: str, body: Query) -> Json:
        """Change the fields of a store; of its metadata, only the given keys."""
        changes = {name: value for name, value in body.items() if value is not None}

        def work(files: StoreFiles) -> Item:
            item = _read_store(files)
            if item.value["archived"]:
                raise Invalid(
                    field="memory_store_id",
                    problem="names an archived store, which cannot be changed",
                )
            metadata = {
                **item.value["metadata"],
                **formats.check_object(changes.get("metadata", {}), "metadata"),
            }
            new_metadata = {name: value for name, value in metadata.items() if value is not None}
            old_fields = {name: item.value[name] for name in ("name", "description")}
            value = item.value | formats.check_store(
                {**old_fields, **changes, "metadata": new_metadata}
            )
            return (
                item
                if value == item.value
                else _replace(files.scope, item, value, ["name", "description"])
            )

        return formats.render_store(self._change(id, work))

    def list(self, query: Query) -> Json:
        """Return a page of stores, newest first."""
        where: Json = formats.created_filter(query)
        if not formats.parse_flag(query, "include_archived"):
            where["archived"] = False
        page = self._scope.items.list(
            STORES,
            where=where,
            exact=True,
            limit=formats.parse_limit(query),
            after=query.get("page"),
        )
        return {
            "data": [formats.render_store(item) for item in page if formats.is_store(item)],
            "next_page": page.next,
        }

    def archive(self, id: str) -> Json:
        """Make a store read-only."""

        def work(files: StoreFiles) -> Item:
            item = _read_store(files)
            value = item.value | {"archived": True}
            return (
                item
                if item.value["archived"]
                else _replace(files.scope, item, value, ["name", "description"])
            )

        return formats.render_store(self._change(id, work))

    def delete(self, id: str) -> Json:
        """Remove a store with its memories and versions."""
        self._change(id, StoreFiles.remove_store)
        return {"id": id, "type": "memory_store_deleted"}

    # -- memories --------------------------------------------------------------------------

    def create_memory(self, store: str, body: Query, query: Query) -> Json:
        """Create a memory at a free path."""
        full = formats.is_full(query)
        path = formats.parse_path(body.get("path"))
        content = formats.check_content(body.get("content"))

        def work(files: StoreFiles) -> Item:
            _clear_path(files, path)
            return files.put(path, content)

        return formats.render_memory(store, self._change(store, work), full)

    def retrieve_memory(self, store: str, id: str, query: Query) -> Json:
        """Return a memory."""
        full = formats.is_full(query, default="full")
        files = self._files(store)
        _read_store(files)
        for _ in range(MAX_READS):  # it may move between the two reads
            memory = _find_memory(files, id)
            if memory is not None:
                return formats.render_memory(store, memory, full)
        raise NotFound(what="memory", id=id)

    def update_memory(self, store: str, id: str, body: Query, query: Query) -> Json:
        """Change the content or path of a memory, if the precondition holds."""
        full = formats.is_full(query)
        content = None if body.get("content") is None else formats.check_content(body["content"])
        path = None if body.get("path") is None else formats.parse_path(body["path"])
        expected = formats.parse_precondition(body.get("precondition"))

        def work(files: StoreFiles) -> Item:
            item = _require_memory(files, id)
            old_text = item.value["text"]
            old_path = path_of(item)
            new_text = old_text if content is None else content
            new_path = old_path if path is None else path
            if (new_text, new_path) == (old_text, old_path):
                return item
            _check_precondition(item, expected)
            if new_path != old_path:
                files.scope.items.remove(item.place, item.key)
                _clear_path(files, new_path)
            return files.put(new_path, new_text, item)

        return formats.render_memory(store, self._change(store, work), full)

    def delete_memory(self, store: str, id: str, query: Query) -> Json:
        """Remove a memory, if the precondition holds; its versions stay."""
        expected = formats.check_sha256(
            query.get("expected_content_sha256"), "expected_content_sha256"
        )

        def work(files: StoreFiles) -> None:
            item = _require_memory(files, id)
            _check_precondition(item, expected)
            files.remove(item)

        self._change(store, work)
        return {"id": id, "type": "memory_deleted"}

    def list_memories(self, store: str, query: Query) -> Json:
        """Return memories and, at `depth`, folders; files come before subfolders."""
        full = formats.is_full(query)
        files = self._files(store)
        limit = formats.parse_limit(query, maximum=MAX_FULL_RECORDS if full else 100)
        depth = formats.parse_int(query, "depth", 0, 0, MAX_PATH_NAMES)
        prefix = (
            formats.parse_path(query["path_prefix"], prefix=True)
            if query.get("path_prefix")
            else ()
        )
        after, last = formats.decode_page(query["page"]) if query.get("page") else (None, "")
        _read_store(files)
        data: list[Json] = []
        deepest = len(prefix) + depth if depth else MAX_LEVELS
        folder = ""
        size = min(PAGE_SIZE, limits.MAX_PAGE)
        while len(prefix) < MAX_LEVELS:  # a folder at the maximum depth is always empty
            page = self._scope.items.list(files.root + prefix, limit=size, after=after)
            for item in page:
                path = path_of(item)
                folder = f"/{'/'.join(path[:deepest])}/" if len(path) > deepest else ""
                if not formats.is_memory(item) or (folder and folder == last):
                    continue
                if len(data) == limit:
                    return {"data": data, "next_page": formats.encode_page(after or "", last)}
                data.append(
                    {"type": "memory_prefix", "path": folder}
                    if folder
                    else formats.render_memory(store, item, full)
                )
                last = folder or last
                after = (
                    encode_cursor(ordered(item))
                    if not folder
                    else encode_cursor([*item.place[: deepest + 1], _LAST_NAME, _LAST_NAME])
                )
            if page.next is None:
                break
            # If the page ended inside the last listed folder, `after` already skips that folder.
            if not folder or folder != last:
                after = page.next
        return {"data": data, "next_page": None}

    # -- versions --------------------------------------------------------------------------

    def list_versions(self, store: str, query: Query) -> Json:
        """Return the versions of a store's memories, newest first."""
        full = formats.is_full(query)
        files = self._files(store)
        _read_store(files)
        limit = formats.parse_limit(query, maximum=MAX_FULL_RECORDS if full else 100)
        where = formats.created_filter(query)
        # No version here has such an author.
        if query.get("service_account_id") or query.get("session_id"):
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
        data = [
            formats.render_version(store, item, full) for item in page if formats.is_version(item)
        ]
        return {"data": data, "next_page": page.next}

    def retrieve_version(self, store: str, id: str, query: Query) -> Json:
        """Return a version."""
        full = formats.is_full(query, default="full")
        files = self._files(store)
        _read_store(files)
        return formats.render_version(store, _require_version(files, id), full)

    def redact_version(self, store: str, id: str) -> Json:
        """Remove the content of a version for good; its author and time stay."""

        def work(files: StoreFiles) -> Item:
            item = _require_version(files, id)
            if item.value.get("redacted_by"):
                return item
            memory = _find_memory(files, item.value["memory"])
            if memory is not None and memory.value["version"] == id:
                raise Invalid(
                    field="memory_version_id",
                    problem="is the current version: change or delete the memory first",
                )
            value = item.value | {"text": None, "path": None, "redacted_by": self._by}
            return _replace(files.scope, item, value, [])

        return formats.render_version(store, self._change(store, work), full=False)

    def _files(self, store: str) -> StoreFiles:
        return StoreFiles(self._scope, store, self._by)

    def _change(self, store: str, work: Callable[[StoreFiles], Done]) -> Done:
        """Run work on the files of an existing store in one transaction."""

        def checked(files: Files) -> Done:
            mine = cast(StoreFiles, files)
            _read_store(mine)
            return work(mine)

        return self._files(store).change(checked)


# -- lookups and checks --------------------------------------------------------------------


def _replace(scope: Scope, item: Item, value: Json, fields: list[str]) -> Item:
    return scope.items.put(item.place, item.key, value, fields=fields, if_version=item.version)


def _read_store(files: StoreFiles) -> Item:
    """Return the item of the store."""
    item = files.record()
    if not formats.is_store(item):
        raise NotFound(what="memory store", id=files.store)
    return item


def _find_memory(files: StoreFiles, id: str) -> Item | None:
    """Return a memory by its id, or None."""
    place = files.scope.items.read([(files.ids, id)])[0]
    path = None if place is None else place.value.get("path")
    memory = files.find(tuple(path)) if isinstance(path, list) and path else None
    return (
        memory
        if memory is not None and formats.is_memory(memory) and memory.value["id"] == id
        else None
    )


def _require_memory(files: StoreFiles, id: str) -> Item:
    memory = _find_memory(files, id)
    if memory is None:
        raise NotFound(what="memory", id=id)
    return memory


def _require_version(files: StoreFiles, id: str) -> Item:
    version = files.scope.items.read([(files.versions, id)])[0]
    if version is None or not formats.is_version(version):
        raise NotFound(what="memory version", id=id)
    return version


def _clear_path(files: StoreFiles, path: Path) -> None:
    """Create the folders of a file and remove empty ones at its path.

    Raise Conflict if a memory is at the path, above or below it.
    """
    blocked = files.make_folders(path[:-1]) or files.find(path)
    if blocked is not None and not is_file(blocked):
        empty = [blocked, *files.under(path)]
        blocked = next(filter(is_file, empty), None)
        for item in empty if blocked is None else ():
            files.remove(item)
    if blocked is not None:
        blocking_path = f"/{'/'.join(path_of(blocked))}"
        details = {
            "conflicting_memory_id": blocked.value.get("id"),
            "conflicting_path": blocking_path,
        }
        raise Conflict(
            problem=f"The memory at {blocking_path} blocks this path",
            type="memory_path_conflict_error",
            fields=details,
        )


def _check_precondition(item: Item, expected: str | None) -> None:
    if expected is not None and expected != formats.sha256(item.value["text"]):
        problem = "The memory's content does not match the precondition: read it, then try again"
        raise Conflict(problem=problem, type="memory_precondition_failed_error")
