"""Anthropic's memory stores on our server: every method of the unmodified client."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic

from memorist import Memory
from memorist.admin.principal import PERMISSIONS
from memorist.kinds.items import Put
from memorist.server.http.app import create_app
from memorist_frameworks.anthropic import MemoristMemoryTool
from memorist_frameworks.langgraph import MemoristStore
from testkit.databases import one_engine
from testkit.faults import FaultyDatabase, with_faults
from testkit.keys import create_key
from testkit.serving import serving

BAD_PATHS = [
    "a",
    "",
    "/",
    "/a/",
    "//a",
    "/a/../b",
    "/./a",
    "/a\nb",
    "/a\u200bb",
    "/\u2028",
    "/e\u0301",
]
BAD_PATHS += ["/" + "a/" * 20 + "b", "/" + "é" * 600, "/" + "é" * 300]


class Server:
    """A server over the test's database, and clients of it."""

    def __init__(self, memory: Memory, url: str, app: Any) -> None:
        self.memory, self.url, self._app = memory, url, app

    def key(self, tenant: str = "acme", permissions: Any = PERMISSIONS, **bound: Any) -> str:
        _, text = create_key(self.memory, tenant, "a test", permissions, **bound)
        self._app.state.authenticator.forget()
        return text

    def client(self, *given: Any, user: str | None = "ada", **named: Any) -> Anthropic:
        headers = {} if user is None else {"X-Memorist-User": user}
        return Anthropic(
            base_url=self.url,
            api_key=self.key(*given, **named),
            default_headers=headers,
            max_retries=0,
        )


@pytest.fixture
def server(memory: Memory) -> Iterator[Server]:
    memory, _ = with_faults(memory)
    app = create_app(memory, jobs=False)  # a test counts reads
    with serving(app) as url:
        yield Server(memory, url, app)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@one_engine
def test_only_files_are_visible_in_langgraph(server: Server) -> None:
    """Records about files are not items of an agent, and none is left after the last store."""
    client = server.client().beta.memory_stores
    me = server.memory.scope(tenant="acme", user="ada")
    langgraph = MemoristStore(me)
    ids = [client.create(name="My dog").id for _ in range(2)]
    memory = client.memories.create(ids[0], path="/pets/dog", content="My dog is called Rex.")
    client.memories.update(memory.id, memory_store_id=ids[0], content="My dog is called Max.")
    assert langgraph.list_namespaces() == [(ids[0],), (ids[0], "pets")]
    assert langgraph.list_namespaces(max_depth=1) == [(ids[0],)]
    assert {item.key for item in langgraph.search(())} == {"pets", "dog"}
    assert {item.key for item in langgraph.search((), query="dog")} == {"pets", "dog"}
    client.delete(ids[0])
    later = client.create(name="Later").id
    assert [store.id for store in client.list()] == [later, ids[1]]
    client.delete(ids[1])
    client.delete(later)
    assert list(me.items.list()) == []


@one_engine
def test_stores(server: Server) -> None:
    """Create, read, update, list, archive and delete."""
    stores = server.client().beta.memory_stores
    created = [
        stores.create(name=f"Store {n}", description="Notes", metadata={"n": str(n), "x": "y"})
        for n in range(3)
    ]
    first = created[0]
    assert first.type == "memory_store"
    assert first.id.startswith("memstore_")
    assert first.archived_at is None
    assert stores.retrieve(first.id) == first
    assert [store.id for store in stores.list(limit=2)] == [store.id for store in reversed(created)]
    page = stores.list(limit=2)
    assert len(page.data) == 2
    assert page.has_next_page()

    changed = stores.update(first.id, name="Other", metadata={"x": None, "z": "1"})
    assert (changed.name, changed.description, changed.metadata) == (
        "Other",
        "Notes",
        {"n": "0", "z": "1"},
    )
    assert changed.updated_at > first.updated_at
    assert changed.created_at == first.created_at

    archived = stores.archive(first.id)
    assert archived.archived_at is not None
    assert stores.archive(first.id) == archived
    assert first.id not in [store.id for store in stores.list()]
    assert first.id in [store.id for store in stores.list(include_archived=True)]
    with pytest.raises(anthropic.BadRequestError):
        stores.update(first.id, name="Again")
    with pytest.raises(anthropic.BadRequestError):
        stores.memories.create(first.id, path="/a", content="")

    early = stores.list(created_at_lte=created[1].created_at, include_archived=True)
    assert [store.id for store in early] == [created[1].id, created[0].id]
    assert [store.id for store in stores.list(created_at_gte=created[2].created_at)] == [
        created[2].id
    ]

    stores.memories.create(created[1].id, path="/a/b", content="x")
    assert stores.delete(created[1].id).type == "memory_store_deleted"
    with pytest.raises(anthropic.NotFoundError) as caught:
        stores.retrieve(created[1].id)
    assert caught.value.type == "not_found_error"
    assert caught.value.request_id
    assert caught.value.body == {
        "type": "error",
        "error": {"type": "not_found_error", "message": caught.value.api_message},
        "request_id": caught.value.request_id,
    }
    records = [
        (record.what, record.subject)
        for record in server.memory.scope(tenant="acme").admin.audit.list()
    ]
    assert records[0] == ("memory_stores_delete", f"memory_stores {created[1].id}")
    assert [what for what, _ in records].count("memory_stores_create") == 3
    left = server.memory.scope(tenant="acme", user="ada").items.list(limit=100)
    assert not [item for item in left if created[1].id in (item.key, item.place[0].split()[0])]


def test_memories(server: Server) -> None:
    """Create, read in both views, update with a precondition, move, delete; each change is a
    version.
    """
    stores = server.client().beta.memory_stores
    store = stores.create(name="Notes").id
    memories, versions = stores.memories, stores.memory_versions
    text = "Ada lives in Lisbon.\r\n\u2028ä🎈"
    created = memories.create(store, path="/people/ada.md", content=text)
    assert created.id.startswith("mem_")
    assert created.memory_version_id.startswith("memver_")
    assert created.content is None
    assert (created.content_sha256, created.content_size_bytes) == (sha(text), len(text.encode()))
    assert memories.retrieve(created.id, memory_store_id=store).content == text
    assert memories.retrieve(created.id, memory_store_id=store, view="basic") == created

    new = memories.update(
        created.id,
        memory_store_id=store,
        content="Ada moved.",
        view="full",
        precondition={"type": "content_sha256", "content_sha256": created.content_sha256},
    )
    assert new.content == "Ada moved."
    assert new.created_at == created.created_at
    assert new.updated_at > created.updated_at
    with pytest.raises(anthropic.ConflictError) as caught:
        memories.update(
            created.id,
            memory_store_id=store,
            content="Lost",
            precondition={"type": "content_sha256", "content_sha256": created.content_sha256},
        )
    assert caught.value.type == "memory_precondition_failed_error"
    again = memories.update(  # already in that state
        created.id,
        memory_store_id=store,
        content="Ada moved.",
        precondition={"type": "content_sha256", "content_sha256": created.content_sha256},
    )
    assert again.memory_version_id == new.memory_version_id
    moved = memories.update(created.id, memory_store_id=store, path="/people/ada/now.md")
    assert (moved.id, moved.path, moved.content_sha256) == (
        created.id,
        "/people/ada/now.md",
        sha("Ada moved."),
    )
    assert moved.created_at == created.created_at

    with pytest.raises(anthropic.ConflictError):
        memories.delete(
            created.id, memory_store_id=store, expected_content_sha256=created.content_sha256
        )
    gone = memories.delete(
        created.id, memory_store_id=store, expected_content_sha256=new.content_sha256
    )
    assert gone.type == "memory_deleted"
    assert gone.id == created.id
    with pytest.raises(anthropic.NotFoundError):
        memories.retrieve(created.id, memory_store_id=store)

    listed = list(versions.list(store, memory_id=created.id, limit=1, view="full"))
    assert [element.operation for element in listed] == [
        "deleted",
        "modified",
        "modified",
        "created",
    ]
    assert [element.content for element in listed] == [None, "Ada moved.", "Ada moved.", text]
    assert [element.path for element in listed] == ["/people/ada/now.md"] * 2 + [
        "/people/ada.md"
    ] * 2
    author = listed[0].created_by
    assert author is not None
    assert author.type == "api_actor"
    assert len(list(versions.list(store, api_key_id=author.api_key_id))) == 4
    assert [element.id for element in versions.list(store, operation="created")] == [
        created.memory_version_id
    ]
    assert not list(versions.list(store, session_id="sesn_1"))
    assert [
        element.id for element in versions.list(store, created_at_gte=listed[1].created_at)
    ] == [element.id for element in listed[:2]]
    assert versions.retrieve(created.memory_version_id, memory_store_id=store) == listed[3]

    redacted = versions.redact(created.memory_version_id, memory_store_id=store)
    assert redacted.redacted_at is not None
    assert redacted.redacted_by == author
    assert redacted.created_at == created.created_at
    assert (
        redacted.content,
        redacted.path,
        redacted.content_sha256,
        redacted.content_size_bytes,
    ) == (None,) * 4
    assert versions.redact(created.memory_version_id, memory_store_id=store) == redacted
    raw = [
        item.raw
        for item in server.memory.scope(tenant="acme", user="ada").items.list(
            (f"{store} versions",)
        )
    ]
    assert not any("Lisbon" in element for element in raw)


def test_listing_memories(server: Server) -> None:
    """By prefix, by depth, page by page; a folder is listed once."""
    stores = server.client().beta.memory_stores
    store = stores.create(name="Notes").id
    paths = ["/a", "/b/1", "/b/2", "/b/c/3", "/b/c/4", "/bb/5", "/d/e/f/6"]
    for path in paths:
        stores.memories.create(store, path=path, content=path)

    def listed_paths(**asked: Any) -> list[str]:
        return [item.path for item in stores.memories.list(store, **asked)]

    for limit in (1, 3):
        assert listed_paths(limit=limit) == paths
        assert listed_paths(limit=limit, path_prefix="/") == paths
        assert listed_paths(limit=limit, depth=1) == ["/a", "/b/", "/bb/", "/d/"]
        assert listed_paths(limit=limit, depth=2) == [
            "/a",
            "/b/1",
            "/b/2",
            "/b/c/",
            "/bb/5",
            "/d/e/",
        ]
        assert listed_paths(limit=limit, path_prefix="/b/") == ["/b/1", "/b/2", "/b/c/3", "/b/c/4"]
        assert listed_paths(limit=limit, path_prefix="/b/", depth=1) == ["/b/1", "/b/2", "/b/c/"]
    assert listed_paths(path_prefix="/none/") == []
    full = [item for item in stores.memories.list(store, view="full") if item.type == "memory"]
    assert [item.content for item in full] == paths
    assert [item.type for item in stores.memories.list(store, depth=1)] == ["memory"] + [
        "memory_prefix"
    ] * 3
    assert listed_paths(path_prefix="/" + "a/" * 20) == []


def test_a_folder_is_listed_without_reading_all_of_it(server: Server) -> None:
    """However many items it has, and whatever its siblings are called."""
    stores = server.client().beta.memory_stores
    store = stores.create(name="Notes").id
    items = server.memory.scope(tenant="acme", user="ada").items
    for folder in ("big", "big ", "big!", "z"):
        files = {"text": "x", "id": "mem_1", "version": "memver_1"}
        items.write(
            [
                Put((store, folder), f"{n:04}", files, None, [])
                for n in range(350 if folder == "big" else 1)
            ]
        )
        items.write([Put((store, folder, "below"), "file", files, None, [])])
    assert isinstance(server.memory.database, FaultyDatabase)
    calls = server.memory.database.calls
    before = calls["read"]
    for limit in (1, 2, 20):
        assert [item.path for item in stores.memories.list(store, depth=1, limit=limit)] == [
            "/big/",
            "/big /",
            "/big!/",
            "/z/",
        ]
    reads = calls["read"] - before
    # Two per request, which looks up the store too, and one after the folder larger than a page.
    assert reads < 20
    assert len(list(stores.memories.list(store, limit=100))) == 357


@one_engine
def test_items_of_other_applications_are_left_out(server: Server) -> None:
    stores = server.client().beta.memory_stores
    store = stores.create(name="Notes").id
    memory = stores.memories.create(store, path="/a", content="x")
    items = server.memory.scope(tenant="acme", user="ada").items
    items.put(("memory_stores",), "mine", {"archived": False, "at": 1})
    items.put((store,), "b", {"text": "t"})
    items.put((f"{store} versions",), "0", {"memory": 5})
    assert [item.id for item in stores.list()] == [store]
    assert [item.path for item in stores.memories.list(store)] == ["/a"]
    assert [item.id for item in stores.memory_versions.list(store)] == [memory.memory_version_id]
    for call in (
        partial(stores.retrieve, "mine"),
        partial(stores.archive, "mine"),
        partial(stores.memory_versions.retrieve, "0", memory_store_id=store),
    ):
        with pytest.raises(anthropic.NotFoundError):
            call()
    with pytest.raises(anthropic.ConflictError):
        stores.memories.create(store, path="/b", content="x")


@one_engine
def test_conflicting_paths(server: Server) -> None:
    """A memory cannot be at, above or below another; the error names the conflict."""
    stores = server.client().beta.memory_stores
    store = stores.create(name="Notes").id
    memory = stores.memories.create(store, path="/a/b", content="")
    other = stores.memories.create(store, path="/c", content="")
    for path in ("/a/b", "/a", "/a/b/c/d"):
        with pytest.raises(anthropic.ConflictError) as caught:
            stores.memories.create(store, path=path, content="")
        error = caught.value.body["error"]  # type: ignore[index]
        assert error["type"] == "memory_path_conflict_error"
        assert (error["conflicting_memory_id"], error["conflicting_path"]) == (memory.id, "/a/b")
        with pytest.raises(anthropic.ConflictError):
            stores.memories.update(other.id, memory_store_id=store, path=path)
    assert stores.memories.update(memory.id, memory_store_id=store, path="/a/b/c").path == "/a/b/c"
    stores.memories.delete(memory.id, memory_store_id=store)
    assert (
        stores.memories.create(store, path="/a", content="").path == "/a"
    )  # empty folders do not conflict


@one_engine
def test_limits_of_the_vendor(server: Server) -> None:
    """As large as Anthropic allows, and no larger."""
    stores = server.client().beta.memory_stores
    store = stores.create(name="N" * 255, description="d" * 1024, metadata={"k" * 64: "v" * 512}).id
    deep = "/" + "/".join("é" * 20 for _ in range(20))
    whole = "x" * 102_400
    created = stores.memories.create(store, path=deep, content=whole)
    assert stores.memories.retrieve(created.id, memory_store_id=store).content == whole
    client = server.client()
    calls: list[Callable[[], object]] = [
        lambda: stores.create(name=""),
        lambda: stores.create(name="a\nb"),
        lambda: stores.create(name="a", metadata={"k" * 65: ""}),
        lambda: stores.create(name="a", metadata={str(n): "" for n in range(17)}),
        lambda: stores.update(store, metadata={str(n): "" for n in range(16)}),
        lambda: stores.memories.create(store, path="/x", content=f"{whole}x"),
        lambda: stores.memories.create(store, path="/x", content="a\0b"),
        lambda: stores.memories.create(store, path="/x", content=None),
        lambda: stores.memories.list(store, limit=101),
        lambda: stores.memories.list(store, path_prefix="/a"),
        lambda: stores.memories.list(store, page="nonsense"),
        lambda: stores.memories.list(store, page=base64.urlsafe_b64encode(b"[" * 20_000).decode()),
        lambda: stores.memories.list(store, depth=-1),
        lambda: stores.list(page="nonsense"),
        lambda: stores.list(created_at_gte="yesterday"),
        lambda: stores.memories.create(store, path="/x", content="", extra_body={"unknown": 1}),
        lambda: stores.memories.list(store, extra_query={"unknown": 1}),
        lambda: stores.memories.delete(
            created.id, memory_store_id=store, expected_content_sha256="ABC"
        ),
        lambda: stores.memory_versions.redact(created.memory_version_id, memory_store_id=store),
        *(partial(stores.memories.create, store, path=path, content="") for path in BAD_PATHS),
        lambda: client.post("/v1/memory_stores", cast_to=object, body=[1]),
    ]
    for call in calls:
        with pytest.raises(anthropic.BadRequestError) as caught:
            call()
        assert caught.value.type == "invalid_request_error"
        assert not re.search("place:|key:|after:", str(caught.value.api_message))  # unknown fields


@one_engine
def test_ownership_of_stores(server: Server) -> None:
    """A store belongs to the user of the request, or to the tenant; others cannot see it, and
    permissions apply.
    """
    ada = server.client().beta.memory_stores
    store = ada.create(name="Ada's").id
    memory = ada.memories.create(store, path="/a", content="secret")
    for other in (server.client(user="bob"), server.client(user=None), server.client("other")):
        stores = other.beta.memory_stores
        assert not list(stores.list())
        calls: list[Callable[[], object]] = [
            partial(stores.retrieve, store),
            partial(stores.delete, store),
            partial(stores.memories.retrieve, memory.id, memory_store_id=store),
            partial(stores.memories.list, store),
            partial(stores.memory_versions.list, store),
            partial(stores.memories.create, store, path="/b", content=""),
        ]
        for call in calls:
            with pytest.raises(anthropic.NotFoundError):
                call()
    reader = server.client("acme", ["read"]).beta.memory_stores
    assert [item.id for item in reader.list()] == [store]
    for denied in (
        lambda: reader.create(name="x"),
        lambda: reader.delete(store),
        lambda: reader.archive(store),
    ):
        with pytest.raises(anthropic.PermissionDeniedError) as caught:
            denied()
        assert caught.value.type == "permission_error"
    writer = server.client("acme", ["write"]).beta.memory_stores.memories
    assert writer.update(memory.id, memory_store_id=store).content is None
    with pytest.raises(anthropic.PermissionDeniedError):
        writer.update(memory.id, memory_store_id=store, view="full")
    scout = server.client("acme", user=None, agent="scout").beta.memory_stores
    with pytest.raises(anthropic.PermissionDeniedError):
        scout.create(name="everybody's")
    with pytest.raises(anthropic.AuthenticationError) as refused:
        Anthropic(base_url=server.url, api_key="wrong", max_retries=0).beta.memory_stores.list()
    assert refused.value.type == "authentication_error"


@one_engine
def test_the_memory_tool_in_a_store(server: Server) -> None:
    """Memories written by Claude's memory tool are visible to the client with versions, and vice
    versa.
    """
    stores = server.client().beta.memory_stores
    store = stores.create(name="Shared").id
    tool = MemoristMemoryTool(server.memory.scope(tenant="acme", user="ada"), store=store)
    tool.call({"command": "create", "path": "/memories/people/ada.md", "file_text": "Ada\n"})
    tool.call(
        {
            "command": "str_replace",
            "path": "/memories/people/ada.md",
            "old_str": "Ada",
            "new_str": "Ada Lovelace",
        }
    )
    (memory,) = stores.memories.list(store, view="full")
    assert memory.type == "memory"
    assert memory.content == "Ada Lovelace\n"
    tool.call(
        {"command": "rename", "old_path": "/memories/people", "new_path": "/memories/persons"}
    )
    assert stores.memories.retrieve(memory.id, memory_store_id=store).path == "/persons/ada.md"
    stores.memories.update(memory.id, memory_store_id=store, content="Countess\n")
    assert "Countess" in str(tool.call({"command": "view", "path": "/memories/persons/ada.md"}))
    tool.call({"command": "delete", "path": "/memories/persons"})
    assert not list(stores.memories.list(store))
    versions = [
        (version.operation, version.path, version.created_by is not None)
        for version in stores.memory_versions.list(store)
    ]
    assert versions == [
        ("deleted", "/persons/ada.md", False),
        ("modified", "/persons/ada.md", True),
        ("modified", "/persons/ada.md", False),
        ("modified", "/people/ada.md", False),
        ("created", "/people/ada.md", False),
    ]
    assert not [memory for memory in server.memory.verify() if memory.problem]


def test_concurrent_writers_lose_nothing(server: Server) -> None:
    """Of several updates of one version and several creations of one path, one succeeds; the others
    get a conflict.
    """
    client = server.client()
    stores = client.beta.memory_stores
    store = stores.create(name="Busy").id
    counter = stores.memories.create(store, path="/count", content="0")

    def add(number: int) -> int:
        while True:
            result = stores.memories.retrieve(counter.id, memory_store_id=store)
            try:
                stores.memories.update(
                    counter.id,
                    memory_store_id=store,
                    content=f"{result.content} {number}",
                    precondition={
                        "type": "content_sha256",
                        "content_sha256": result.content_sha256,
                    },
                )
            except anthropic.ConflictError:
                continue
            return 1

    def create(number: int) -> int:
        try:
            stores.memories.create(store, path="/one", content=str(number))
        except anthropic.ConflictError:
            return 0
        return 1

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(add, range(12))) == 12
        assert sum(threads.map(create, range(8))) == 1
    content = stores.memories.retrieve(counter.id, memory_store_id=store).content
    assert sorted((content or "").split(), key=int) == sorted(["0", *map(str, range(12))], key=int)
    assert len(list(stores.memory_versions.list(store, memory_id=counter.id))) == 13
