"""The verbs of administration: the same through every interface, and who may call them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memorist import AsyncMemory, Client, Memory
from memorist.admin.api_keys import ApiKeys
from memorist.admin.credentials import KeyChecker
from memorist.admin.principal import PERMISSIONS, Permission, Principal
from memorist.admin.users import Users
from memorist.admin.webhooks import Webhooks
from memorist.api.endpoints import ADMIN_ENDPOINTS
from memorist.api.invoke import invoke
from memorist.base.errors import Forbidden, Unauthorized
from memorist.base.verbs import Endpoint, declared_verb
from memorist.jobs.jobs import Jobs
from memorist.mcp.endpoint_tools import EndpointTools
from memorist.mcp.mcp_caller import McpCaller
from memorist.server.http.app import create_app
from testkit.databases import SETTINGS, one_engine
from testkit.keys import create_key
from testkit.rows import raw
from testkit.serving import serving


def caller(permissions: frozenset[Permission] = PERMISSIONS, **fields: Any) -> Principal:
    return Principal("acme", permissions, "a test", **fields)


@pytest.fixture
def client(memory: Memory) -> Iterator[Client]:
    _, text = create_key(memory, "acme", "a test", PERMISSIONS)
    with serving(create_app(memory)) as url, Client(url, text) as client:
        yield client


def test_the_client_returns_the_same_records(client: Client, memory: Memory) -> None:
    local = memory.scope(tenant="acme").admin
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    key = client.keys.add("ci", permissions=["read"], user="ada", expires_at=until)
    assert (key.name, key.permissions, key.user, key.expires_at) == ("ci", ["read"], "ada", until)
    assert KeyChecker(memory.database).authenticate(key.key).key == key.id
    assert list(client.keys.list())[1:] == list(local.keys.list())[1:]
    assert client.keys.revoke(key.id).revoked_at is not None
    memory.scope(tenant="acme", user="ada").state.set("theme", "dark")
    assert list(client.users.list()) == list(local.users.list())
    assert client.status.get().rows == local.status.get().rows
    assert client.models.list() == local.models.list()
    assert client.jobs.run().jobs.keys() == local.jobs.run().jobs.keys()
    assert client.users.erase("ada").removed["state"] == 1
    assert client.users.erase_agent("scout").agent == "scout"
    assert [record.what for record in client.audit.list()] == [
        "users_erase_agent",
        "users_erase",
        "keys_revoke",
        "keys_add",
    ]


def test_webhooks_through_the_client() -> None:
    settings = replace(SETTINGS, events="private")
    with Memory.open("memory:", settings=settings) as recorded:
        _, text = create_key(recorded, "acme", "a test", PERMISSIONS)
        with serving(create_app(recorded)) as url, Client(url, text) as client:
            webhook = client.webhooks.add("http://127.0.0.1:9/hooks", kinds=["facts"])
            assert webhook.secret.startswith("whsec_")
            assert client.webhooks.edit(webhook.id, paused=True).paused
            assert not client.webhooks.test(webhook.id).delivered
            assert client.webhooks.replay(webhook.id).events == 0
            assert client.webhooks.dead_letters(webhook.id).items == []
            assert client.webhooks.list() == [client.webhooks.get(webhook.id)]
            client.webhooks.remove(webhook.id)
            assert client.webhooks.list() == []


def test_the_verbs_for_asyncio(url: str) -> None:
    async def use() -> None:
        async with await AsyncMemory.open(url, settings=SETTINGS) as memory:
            key = await memory.keys.add("ci")
            assert [listed.id for listed in await memory.keys.list()] == [key.id]
            assert (await memory.scope(tenant="other").admin.keys.list()).items == []
            assert (await memory.status.get()).rows["state"] == 0

    asyncio.run(use())


@pytest.mark.parametrize("endpoint", ADMIN_ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_who_may_administrate(endpoint: Endpoint) -> None:
    assert caller().may_call(endpoint)
    assert not caller(frozenset()).may_call(endpoint)
    assert not caller(PERMISSIONS - {endpoint.needs}).may_call(endpoint)
    assert caller(user="ada").may_call(endpoint) == endpoint.open_to_all
    assert caller(agent="scout").may_call(endpoint) == endpoint.open_to_all
    may_not_delete = caller(PERMISSIONS - {"delete"})
    assert may_not_delete.may_call(endpoint) == (endpoint.effect != "forget")


@one_engine
def test_mcp_offers_administration_to_administrators_only(memory: Memory) -> None:
    tools = EndpointTools()
    ours = {endpoint.name for endpoint in ADMIN_ENDPOINTS if not endpoint.open_to_all}

    def offered(principal: Principal) -> set[str]:
        caller = McpCaller(memory, principal)
        return ours & {tool.name for tool in tools.definitions(caller)}

    for_people = (
        *(ApiKeys.add, ApiKeys.revoke),
        *(Webhooks.add, Webhooks.edit, Webhooks.remove),
        *(Users.erase, Users.erase_agent),
    )
    assert offered(caller()) == ours - {declared_verb(method).name for method in for_people}
    assert offered(caller(user="ada")) == set()
    assert offered(caller(agent="scout")) == set()
    assert offered(caller(PERMISSIONS - {"admin"})) == set()
    create_key(memory, "acme", "x", ["read"])  # now there is such a tenant
    run = declared_verb(Jobs.run).name
    with pytest.raises(Forbidden):
        tools.call(McpCaller(memory, caller(user="ada")), run, {})
    assert tools.call(McpCaller(memory, caller()), run, {})
    assert tools.schema(declared_verb(ApiKeys.revoke).name) is None


@one_engine
def test_a_key_is_limited_by_its_maker_whatever_the_interface(memory: Memory) -> None:
    scope = memory.scope(tenant="acme")
    add = declared_verb(ApiKeys.add)
    end = datetime.now(UTC) + timedelta(hours=1)
    maker = caller(PERMISSIONS - {"delete"}, until=round(end.timestamp() * 1_000_000))
    with pytest.raises(Forbidden):
        invoke(add, scope, {"name": "x", "permissions": ["delete"]}, maker)
    with pytest.raises(Forbidden):
        invoke(add, scope, {"name": "x", "days": 1}, maker)
    assert invoke(add, scope, {"name": "x"}, maker).expires_at is not None
    assert scope.admin.keys.add("y", permissions=["delete"]).expires_at is None


def test_a_secret_is_in_no_stored_response(calling: Any, url: str) -> None:
    """A repeated request adds another key, and the text of neither is stored."""
    http = calling("acme")
    headers = {"Idempotency-Key": "again"}
    payload = {"name": "ci", "permissions": ["read"]}
    texts = [http.post("/api/keys", json=payload, headers=headers).json()["key"] for _ in range(2)]
    assert len(set(texts)) == 2
    with raw(url) as database:
        stored = repr([tuple(row) for row in database.all("select * from stored_responses")])
        audit = repr([tuple(row) for row in database.all("select * from audit")])
    for text in texts:
        assert text.rpartition("_")[2] not in stored + audit


@one_engine
def test_a_key_revoked_by_any_interface_is_rejected_at_once(client: Client, memory: Memory) -> None:
    key = client.keys.add("ci", permissions=["read"])
    with Client(client.url, key.key) as other:
        other.models.list()  # the server remembers the key for some seconds
        scope = memory.scope(tenant="acme")
        invoke(declared_verb(ApiKeys.revoke), scope, {"id": key.id}, caller())
        with pytest.raises(Unauthorized):
            other.models.list()
