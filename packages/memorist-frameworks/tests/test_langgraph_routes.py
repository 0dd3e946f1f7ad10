"""LangGraph's unmodified client against our server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient
from langgraph_sdk.errors import (
    AuthenticationError,
    PermissionDeniedError,
    UnprocessableEntityError,
)
from starlette.applications import Starlette

from memorist import Memory
from memorist.admin.principal import PERMISSIONS
from testkit.databases import one_engine
from testkit.keys import create_key
from testkit.serving import serving

ADA = {"X-Memorist-User": "ada"}


@pytest.fixture
def address(app: Starlette) -> Iterator[str]:  # noqa: F811
    """The server's URL."""
    with serving(app) as url:
        yield url


def key(memory: Memory, permissions: Any = PERMISSIONS, **bound: Any) -> str:
    """Create a key of the tenant acme."""
    return create_key(memory, "acme", "a test", permissions, **bound)[1]


@pytest.fixture
def client(address: str, memory: Memory) -> SyncLangGraphClient:
    """Ada's client."""
    return get_sync_client(url=address, api_key=key(memory), headers=ADA)


def test_the_client_puts_searches_and_deletes(client: SyncLangGraphClient, memory: Memory) -> None:
    """The unmodified client works with only its url changed."""
    store = client.store
    assert store.get_item(["memories", "ada"], key="name") is None
    store.put_item(
        ["memories", "ada"],
        key="name",
        value={"text": "The user is called Ada.", "n": 1, "deep": {"x": [None]}},
    )
    store.put_item(
        ["memories", "ada"],
        key="cat",
        value={"text": "Her cat is called Kafka.", "n": 2},
        index=["text"],
    )
    store.put_item(
        ["memories", "bob"], key="secret", value={"text": "the cat burglar", "n": 3}, index=False
    )

    item = store.get_item(["memories", "ada"], key="name")
    assert item["value"] == {"text": "The user is called Ada.", "n": 1, "deep": {"x": [None]}}
    assert (item["namespace"], item["key"]) == (["memories", "ada"], "name")
    assert item["created_at"] == item["updated_at"]
    assert (
        memory.scope(tenant="acme", user="ada").items.get(("memories", "ada"), "name").value
        == item["value"]
    )

    items = store.search_items(["memories"], query="what is the cat called?", limit=2)["items"]
    assert items[0]["key"] == "cat"
    assert items[0]["score"] is not None
    assert items[0]["score"] > 0.1
    assert [
        element["key"]
        for element in store.search_items(["memories"], filter={"n": {"$gte": 2}})["items"]
    ] == ["secret", "cat"]
    assert [
        element["key"] for element in store.search_items(["memories"], limit=1, offset=2)["items"]
    ] == ["name"]
    assert store.list_namespaces() == {"namespaces": [["memories", "ada"], ["memories", "bob"]]}
    assert store.list_namespaces(suffix=["bob"], max_depth=1, limit=5) == {
        "namespaces": [["memories"]]
    }

    store.delete_item(["memories", "ada"], key="name")
    store.delete_item(["memories", "ada"], key="name")
    assert store.get_item(["memories", "ada"], key="name") is None
    assert [finding for finding in memory.verify() if finding.problem] == []


@one_engine
def test_users_and_tenants_do_not_see_each_other(address: str, memory: Memory) -> None:
    """The owner is not lost on the way."""
    ada = get_sync_client(url=address, api_key=key(memory), headers=ADA)
    bob = get_sync_client(url=address, api_key=key(memory, user="bob"))
    ada.store.put_item(["m"], key="k", value={"of": "ada"})
    bob.store.put_item(["m"], key="k", value={"of": "bob"})
    assert ada.store.get_item(["m"], key="k")["value"] == {"of": "ada"}
    assert [item["value"] for item in bob.store.search_items([])["items"]] == [{"of": "bob"}]
    with pytest.raises(PermissionDeniedError, match="bob"):
        bob.store.get_item(["m"], key="k", headers=ADA)


@one_engine
def test_a_key_is_needed_and_its_permissions_apply(address: str, memory: Memory) -> None:
    reader = get_sync_client(url=address, api_key=key(memory, ["read"]), headers=ADA)
    writer = get_sync_client(url=address, api_key=key(memory, ["read", "write"]), headers=ADA)
    with pytest.raises(AuthenticationError):
        get_sync_client(url=address, api_key=None).store.get_item(["m"], key="k")
    with pytest.raises(AuthenticationError):
        get_sync_client(url=address, api_key="wrong").store.search_items(["m"])
    with pytest.raises(PermissionDeniedError):
        reader.store.put_item(["m"], key="k", value={})
    writer.store.put_item(["m"], key="k", value={}, ttl=1)
    with pytest.raises(PermissionDeniedError):
        writer.store.delete_item(["m"], key="k")
    before = memory.scope(tenant="acme", user="ada").items.get(("m",), "k").expires_at
    assert reader.store.get_item(["m"], key="k")["value"] == {}
    assert (
        memory.scope(tenant="acme", user="ada").items.get(("m",), "k").expires_at == before
    )  # reading without write permission extends no expiry
    writer.store.get_item(["m"], key="k")
    after = memory.scope(tenant="acme", user="ada").items.get(("m",), "k").expires_at
    assert before is not None
    assert after is not None
    assert after > before
    tenants = memory.scope(tenant="acme").items
    tenant = tenants.put(("m",), "k", {}, ttl=60)
    scout = get_sync_client(url=address, api_key=key(memory, agent="scout"))
    assert scout.store.get_item(["m"], key="k")["value"] == {}
    assert len(scout.store.search_items(["m"])["items"]) == 1
    with pytest.raises(PermissionDeniedError, match="bound to one user or agent"):
        scout.store.delete_item(["m"], key="k")
    with pytest.raises(PermissionDeniedError, match="bound to one user or agent"):
        scout.store.put_item(["m"], key="k", value={})
    assert tenants.get(("m",), "k") == tenant


@one_engine
def test_errors_have_the_shape_the_client_expects(client: SyncLangGraphClient) -> None:
    http = client.http.client
    with pytest.raises(UnprocessableEntityError, match="langgraph"):
        client.store.put_item(["langgraph"], key="k", value={})
    with pytest.raises(UnprocessableEntityError, match="period"):
        client.store.delete_item(["a.b"], key="k")
    with pytest.raises(UnprocessableEntityError, match="namespace"):
        client.store.put_item([], key="k", value={})
    with pytest.raises(UnprocessableEntityError, match=r"\$near"):
        client.store.search_items(["a"], filter={"x": {"$near": 1}})
    with pytest.raises(UnprocessableEntityError, match="limit"):
        client.store.search_items(["a"], limit=100_000)
    with pytest.raises(UnprocessableEntityError, match="value"):
        client.store.put_item(["a"], key="k", value="text")  # type: ignore[arg-type]
    with pytest.raises(UnprocessableEntityError, match="colour"):
        client.http.post("/store/items/search", json={"colour": 1})
    with pytest.raises(UnprocessableEntityError, match="key"):
        client.http.get("/store/items", params={"namespace": "a"})
    with pytest.raises(UnprocessableEntityError, match="refresh_ttl"):
        client.http.get(
            "/store/items", params={"namespace": "a", "key": "k", "refresh_ttl": "perhaps"}
        )
    assert http.post("/store/items", json={}).status_code == 405
    wrong = http.put("/store/items", content=b"{", headers={"Content-Type": "application/json"})
    assert wrong.status_code == 400


@one_engine
def test_writes_are_audited(client: SyncLangGraphClient, memory: Memory) -> None:
    client.store.put_item(["m"], key="k", value={"text": "a secret"})
    client.store.delete_item(["m"], key="k")
    records = memory.database.read(
        "acme", lambda tx: tx.all("select what, subject from audit where tenant = :tenant")
    )
    assert records == [("items_put", "item m k"), ("items_remove", "item m k")]
