"""Authentication of requests: keys, tokens, loopback access and permissions of every route."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.testclient import TestClient

from memorist import Memory
from memorist.admin import authenticator as authenticator_module
from memorist.admin.local import check_host, is_loopback
from memorist.admin.principal import PERMISSIONS, Principal
from memorist.base.errors import Busy, Invalid, SettingsError, Unauthorized
from memorist.server.http import authentication as request_authenticator
from memorist.server.http.app import create_app
from memorist.server.http.authentication import RequestAuthenticator
from memorist.storage.database import Transaction, Work
from testkit.apps import HERE, URL, Calling
from testkit.databases import SETTINGS, one_engine
from testkit.faults import FaultyDatabase, with_faults
from testkit.keys import create_key
from testkit.routes import routes
from testkit.tokens import KEYS, signed, write_keys

ALL = sorted(PERMISSIONS)
NEEDS_TWO_PERMISSIONS = {"/api/users/x/erase", "/api/agents/x/erase", "/api/messages/x/pop"}
"""Routes that need `admin` and `delete`, or that remove and return the removed: `delete` and
`read`.
"""


@pytest.fixture
def memory(open_memory: Callable[..., Memory]) -> Memory:
    """The test's database with fault injection; no faults occur without a script."""
    return with_faults(open_memory())[0]


@pytest.fixture
def faults(memory: Memory) -> FaultyDatabase:
    assert isinstance(memory.database, FaultyDatabase)
    return memory.database


@pytest.fixture
def file_memory(tmp_path: Path) -> Iterator[Memory]:
    """A database in one file, for tests that need one engine only."""
    with Memory.open(f"sqlite:///{tmp_path}/small.db", settings=SETTINGS) as memory:
        yield memory


@pytest.fixture
def client_with_key(file_memory: Memory) -> Iterator[Calling]:
    """Return clients with keys of that database, each created on demand."""
    app = create_app(file_memory)
    with TestClient(app, URL, client=HERE) as first:

        def client(
            permissions: Iterable[str] = PERMISSIONS, tenant: str = "acme", **bound: Any
        ) -> TestClient:
            _, text = create_key(file_memory, tenant, "a test", permissions, **bound)
            app.state.authenticator.forget()
            new = TestClient(
                app, URL, headers={"X-API-Key": text}, client=HERE, raise_server_exceptions=False
            )
            new.portal = first.portal  # one event loop with one lifespan for all clients
            return new

        yield client


def without_request_id(found: Any) -> tuple[int, str]:
    """Return the status and body of a response without its random request id."""
    body = found.json()
    body.pop("request_id", None)
    return found.status_code, json.dumps(body, sort_keys=True)


def send(client: TestClient, method: str, path: str, key: str | None = None, **how: Any) -> Any:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return client.request(method, path, headers=headers, **how)


def connection(
    headers: dict[str, str] | None = None, *, peer: str = "127.0.0.1", query: str = ""
) -> HTTPConnection:
    """Return a request as the authenticator receives it."""
    inputs = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {
        "type": "http",
        "headers": inputs,
        "client": (peer, 1),
        "query_string": query.encode(),
        "path": "/",
    }
    return HTTPConnection(scope)


def authenticate(authenticator: RequestAuthenticator, **how: Any) -> Any:
    return asyncio.run(authenticator.authenticate_request(connection(**how)))


# -- credentials -----------------------------------------------------------------------------------------------------


@one_engine
def test_a_key_authenticates_and_identifies_its_holder(calling: Calling) -> None:
    http = calling("acme", ["read", "write"], user="ada")
    me = http.get("/api/me").json()
    assert (me["tenant"], me["permissions"], me["user"], me["agent"]) == (
        "acme",
        ["read", "write"],
        "ada",
        None,
    )
    assert http.headers["authorization"].split()[1] not in json.dumps(me)
    response = http.get(
        "/api/me",
        headers={"Authorization": "", "X-API-Key": http.headers["authorization"].split()[1]},
    )
    assert response.status_code == 401, "an empty credential is a wrong one"


@one_engine
def test_a_key_is_accepted_in_either_header(memory: Memory) -> None:
    _, text = create_key(memory, "acme", "x", ["read"])
    authenticator = RequestAuthenticator(memory)
    for headers in (
        {"Authorization": f"Bearer {text}"},
        {"Authorization": f"bearer  {text} "},
        {"X-API-Key": text},
        {"X-API-Key": text, "Authorization": f"Bearer {text}"},
    ):
        assert authenticate(authenticator, headers=headers).tenant == "acme", headers


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "KEY"},
        {"Authorization": "Basic KEY"},
        {"Authorization": "Bearer KEY", "X-API-Key": "mst_other"},
        {"Authorization": "Bearer KEY KEY"},
        {"Authorization": "Bearer KEYx"},
        {"Authorization": "Bearer " + "x" * 9000},
        {"X-API-Key": ""},
        {"Cookie": "key=KEY"},
        {"X-Memorist-Tenant": "acme"},
        {"Authorization": "Bearer é"},
    ],
    ids=str,
)
def test_malformed_credentials_are_rejected(file_memory: Memory, headers: dict[str, str]) -> None:
    _, text = create_key(file_memory, "acme", "x", ["read"])
    with pytest.raises(Unauthorized) as caught:
        authenticate(
            RequestAuthenticator(file_memory),
            headers={name: value.replace("KEY", text) for name, value in headers.items()},
        )
    assert text not in str(caught.value)


@pytest.mark.parametrize(
    "query",
    ["key=KEY", "api_key=x", "a=1&access_token=x", "user=KEY", "X-API-Key=x", "user=%72tn_KEY"],
)
def test_a_key_in_the_query_is_rejected_even_with_a_valid_header(
    file_memory: Memory, query: str
) -> None:
    _, text = create_key(file_memory, "acme", "x", ["read"])
    with pytest.raises(Invalid) as caught:
        authenticate(
            RequestAuthenticator(file_memory),
            headers={"X-API-Key": text},
            query=query.replace("mst_KEY", text[4:]).replace("KEY", text),
        )
    assert text not in str(caught.value)


def test_a_key_in_a_path_is_rejected(client_with_key: Calling) -> None:
    http = client_with_key()
    refused = http.get(f"/api/sessions/{http.headers['X-API-Key']}")
    assert (refused.status_code, refused.json()["field"]) == (422, "address")
    assert http.headers["X-API-Key"] not in refused.text


def test_name_headers_must_be_unique_and_utf_8(
    file_memory: Memory, client_with_key: Calling
) -> None:
    """Two users with undecodable names must not be taken for the same user."""
    http, authenticator, owner = (
        client_with_key(),
        RequestAuthenticator(file_memory),
        Principal("acme", PERMISSIONS, "x"),
    )
    for name in (b"x-memorist-user", b"x-memorist-agent"):
        request = connection()
        request.scope["headers"] = [(name, b"\xff\xfe")]
        with pytest.raises(Invalid, match=name.decode()):
            authenticator.scope(request, owner, None, None)
    assert (
        authenticator.scope(connection({"X-Memorist-User": "Zoë"}), owner, None, None).owner.user
        == "Zoë"
    )
    for once in ("X-Memorist-User", "X-Memorist-Agent", "Idempotency-Key", "If-Match"):
        twice = http.post("/api/sessions", json={}, headers=[(once, "a"), (once, "b")])
        assert (twice.status_code, once.lower() in twice.json()["detail"]) == (400, True)


def test_the_tenant_comes_only_from_the_key(calling: Calling, memory: Memory) -> None:
    """No header, parameter or body selects another tenant."""
    memory.scope(tenant="other", user="ada", agent="scout").sessions.add("theirs")
    http = calling("acme")
    for headers in (
        {"X-Memorist-Tenant": "other"},
        {"X-Tenant": "other"},
        {"X-Tenant-Id": "other"},
        {"Tenant": "other"},
    ):
        assert http.get("/api/me", headers=headers).json()["tenant"] == "acme"
        assert http.get("/api/sessions/theirs", headers=headers).status_code == 404
    assert http.get("/api/sessions", params={"tenant": "other"}).status_code == 422
    assert (
        http.post(
            "/api/sessions", json={"id": "x", "tenant": "other"}, params={"user": "u"}
        ).status_code
        == 422
    )


def test_a_database_failure_is_503_and_never_401(
    calling: Calling, app: Starlette, faults: FaultyDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller who cannot be looked up is not rejected as unknown."""
    http = calling()
    authenticator: RequestAuthenticator = app.state.authenticator

    faults.fail("read", Busy(problem="no connection is free"), times=None)
    authenticator.forget()
    response = http.get("/api/me")
    assert response.status_code == 503
    assert response.headers["retry-after"]
    monkeypatch.setattr(authenticator, "_requires_key", False)
    assert http.get("/api/me", headers={"Authorization": ""}).status_code == 401
    assert calling(None).get("/api/me").status_code == 503


# -- what is remembered ----------------------------------------------------------------------------------------------


@one_engine
def test_key_lookups_are_cached(memory: Memory, faults: FaultyDatabase) -> None:
    _, text = create_key(memory, "acme", "x", ["read"])
    authenticator = RequestAuthenticator(memory)
    before = faults.calls["read"]

    def count_lookups() -> int:
        return faults.calls["read"] - before

    for _ in range(5):
        authenticate(authenticator, headers={"X-API-Key": text})
    assert count_lookups() == 1
    (cached,) = authenticator._cache.values()
    assert 0 < cached.expires - time.monotonic() <= authenticator_module.CACHE_SECONDS
    cached.expires = time.monotonic()
    authenticate(authenticator, headers={"X-API-Key": text})
    assert count_lookups() == 2
    wrong_end = "a" if text[-1] != "a" else "b"
    for _ in range(2):
        with pytest.raises(Unauthorized):
            authenticate(authenticator, headers={"X-API-Key": text[:-1] + wrong_end})
    assert count_lookups() == 4, "a wrong key is not cached"


@one_engine
def test_the_cache_never_outlives_an_expiring_key(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    until = datetime.now(UTC) + timedelta(seconds=60)
    _, text = create_key(memory, "acme", "x", ["read"], expires_at=until)
    authenticator = RequestAuthenticator(memory)
    monkeypatch.setattr(authenticator_module, "CACHE_SECONDS", 3600.0)
    authenticate(authenticator, headers={"X-API-Key": text})
    (cached,) = authenticator._cache.values()
    assert 0 < cached.expires - time.monotonic() <= 60


def test_the_key_cache_is_bounded(file_memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """P16."""
    monkeypatch.setattr(authenticator_module, "MAX_CACHED_CREDENTIALS", 3)
    authenticator = RequestAuthenticator(file_memory)
    for number in range(10):
        _, text = create_key(file_memory, "acme", f"{number}", ["read"])
        authenticate(authenticator, headers={"X-API-Key": text})
        assert len(authenticator._cache) <= 3
        assert text not in repr(authenticator._cache)


@one_engine
def test_revoking_a_key_takes_effect_at_once(calling: Calling) -> None:
    admin, other = calling(), calling("acme", ["read"])
    id = admin.get("/api/keys").json()["data"][1]["id"]
    assert other.get("/api/sessions").status_code == 200
    assert admin.delete(f"/api/keys/{id}").status_code == 200
    assert other.get("/api/sessions").status_code == 401


@one_engine
def test_a_key_revoked_during_its_lookup_is_not_cached(
    memory: Memory, faults: FaultyDatabase
) -> None:
    key, text = create_key(memory, "acme", "x", ["read"])
    authenticator = RequestAuthenticator(memory)

    def revoke_after_lookup(tx: Transaction, work: Work[Any]) -> Any:
        faults.heal()
        result = work(tx)
        memory.scope(tenant="acme").admin.keys.revoke(key.id)
        authenticator.forget()
        return result

    faults.wrap(revoke_after_lookup)
    authenticate(authenticator, headers={"X-API-Key": text})
    with pytest.raises(Unauthorized):
        authenticate(authenticator, headers={"X-API-Key": text})


def test_key_use_is_recorded_after_the_response_and_failures_are_only_logged(
    memory: Memory,
    faults: FaultyDatabase,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(authenticator_module, "RECORD_DELAY_SECONDS", 0.01)
    _, text = create_key(memory, "acme", "x", ["read"])
    authenticator = RequestAuthenticator(memory)

    async def authenticate_and_wait() -> None:
        await authenticator.authenticate_request(connection({"X-API-Key": text}))
        assert memory.scope(tenant="acme").admin.keys.list()[0].last_used_at is None, (
            "not on the way to the answer"
        )
        await asyncio.sleep(0.05)
        await asyncio.gather(*authenticator._recordings)

    asyncio.run(authenticate_and_wait())
    assert memory.scope(tenant="acme").admin.keys.list()[0].last_used_at is not None

    faults.fail("write", Busy(problem="locked"))
    authenticator.forget()
    with caplog.at_level(logging.WARNING):
        asyncio.run(authenticate_again(authenticator, text))
    assert "Cannot record the use" in caplog.text
    assert text not in caplog.text


async def authenticate_again(authenticator: RequestAuthenticator, text: str) -> None:
    await authenticator.authenticate_request(connection({"X-API-Key": text}))
    await asyncio.sleep(0.05)
    await asyncio.gather(*authenticator._recordings)


# -- without a key ---------------------------------------------------------------------------------------------------


def test_loopback_needs_no_key_for_a_file_without_keys(
    memory: Memory, engine: str, calling: Calling
) -> None:
    """Only with SQLite, because a database server has other users."""
    value = calling(None).get("/api/me")
    if engine == "sqlite":
        assert value.json()["name"] == "local"
        assert value.json()["permissions"] == ["read", "write", "delete", "admin"]
    else:
        assert value.status_code == 401
        assert value.headers["www-authenticate"].startswith("Bearer")


def test_the_first_key_ends_keyless_access_for_good(file_memory: Memory) -> None:
    """In any tenant, by any process; even revoking the key does not restore keyless access."""
    authenticator = RequestAuthenticator(file_memory)
    assert authenticate(authenticator).name == "local"
    key, _ = create_key(file_memory, "another tenant", "x", ["read"])
    authenticator._keyless_until = float("-inf")  # as if a second had passed
    file_memory.scope(tenant="another tenant").admin.keys.revoke(key.id)
    with pytest.raises(Unauthorized):
        authenticate(authenticator)
    with pytest.raises(Unauthorized):
        authenticate(RequestAuthenticator(file_memory))


@pytest.mark.parametrize("sent", ["Bearer", "Bearer ", "bearer  "])
def test_an_empty_bearer_token_counts_as_no_credential(sent: str) -> None:
    """Sent by example code when the variable for the key is empty."""
    with Memory.open("memory:", settings=SETTINGS) as memory:
        assert (
            authenticate(RequestAuthenticator(memory), headers={"Authorization": sent}).name
            == "local"
        )


@pytest.mark.parametrize(
    ("settings", "how"),
    [
        ({"auth": "keys"}, {}),
        ({"host": "0.0.0.0"}, {}),
        ({"host": "::"}, {}),
        ({"host": "example.org"}, {}),
        ({}, {"peer": "192.0.2.7"}),
        ({}, {"peer": "testclient"}),
        ({}, {"peer": "::ffff:192.0.2.7"}),
        ({}, {"headers": {"X-Forwarded-For": "127.0.0.1"}}),
        ({}, {"headers": {"Forwarded": "for=127.0.0.1"}}),
        ({}, {"headers": {"X-Real-IP": "127.0.0.1"}}),
        ({}, {"headers": {"Via": "1.1 proxy"}}),
        ({}, {"headers": {"Authorization": "Bearer mst_wrong"}}),
    ],
    ids=str,
)
def test_keyless_access_is_limited_to_loopback(
    settings: dict[str, Any], how: dict[str, Any]
) -> None:
    """Not from another machine, through a proxy on this one, or on a public address."""
    with (
        Memory.open("memory:", settings=replace(SETTINGS, **settings)) as memory,
        pytest.raises(Unauthorized),
    ):
        authenticate(RequestAuthenticator(memory), **how)


VENDOR_CREDENTIALS = [
    {"Authorization": "Bearer sk-live-1"},
    {"X-API-Key": "lsv2_1"},
    {"Authorization": "Bearer a", "X-API-Key": "b"},
]
VENDOR_ROUTES = ["/v1/conversations/c", "/v1/memory_stores", "/store/items?namespace=a&key=b"]


@pytest.mark.parametrize("headers", VENDOR_CREDENTIALS, ids=str)
def test_a_vendor_key_is_ignored_where_no_key_is_needed(
    file_memory: Memory, headers: dict[str, str]
) -> None:
    """Vendor clients always send one; ignored only on their routes, and only until we have a key."""
    with TestClient(create_app(file_memory), URL, client=HERE) as client:
        for route in VENDOR_ROUTES:
            assert (
                client.get(route, headers=headers).status_code
                == client.get(route).status_code
                != 401
            )
            assert (
                client.get(route, headers={**headers, "X-API-Key": "mst_wrong"}).status_code == 401
            )
        assert client.get("/api/me", headers=headers).status_code == 401
        create_key(file_memory, "acme", "x", ["read"])
        client.app.state.authenticator.forget()  # type: ignore[attr-defined]
        for route in VENDOR_ROUTES:
            assert (response := client.get(route, headers=headers)).status_code == 401
            assert without_request_id(response) == without_request_id(
                client.get(route, headers={"X-API-Key": "mst_wrong"})
            )


@pytest.mark.parametrize(
    ("settings", "how"),
    [
        ({"auth": "keys"}, {}),
        ({"host": "0.0.0.0"}, {}),
        ({}, {"peer": "192.0.2.7"}),
        ({}, {"headers": {**VENDOR_CREDENTIALS[0], "X-Forwarded-For": "127.0.0.1"}}),
        ({}, {"headers": {**VENDOR_CREDENTIALS[0], "X-API-Key": "mst_wrong"}}),
    ],
    ids=str,
)
def test_a_vendor_key_is_rejected_where_a_key_is_needed(
    settings: dict[str, Any], how: dict[str, Any]
) -> None:
    """Where a key is needed, a vendor's key is an invalid one."""
    with (
        Memory.open("memory:", settings=replace(SETTINGS, **settings)) as memory,
        pytest.raises(Unauthorized),
    ):
        asyncio.run(
            RequestAuthenticator(memory).authenticate_request(
                connection(**{"headers": VENDOR_CREDENTIALS[0], **how}), vendor=True
            )
        )


def test_loopback_hosts_are_recognised() -> None:
    assert all(
        is_loopback(host)
        for host in ("127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "::ffff:127.0.0.1")
    )
    others = (
        "", "0.0.0.0", "::", "10.0.0.1", "localhost.example.org", "169.254.169.254",
        "::ffff:0.0.0.0", "127.0.0.1.nip.io",
    )  # fmt: skip
    assert not any(is_loopback(host) for host in others)


def test_tokens_work_beside_keys_and_end_keyless_access(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "jwt_issuer": "https://issuer.example.org",
        "jwt_audience": "memorist",
        "jwt_keys": write_keys(KEYS, tmp_path),
    }
    with Memory.open("memory:", settings=replace(SETTINGS, **changes)) as memory:
        authenticator = RequestAuthenticator(memory)
        with pytest.raises(Unauthorized):
            authenticate(authenticator)
        principal = authenticate(
            authenticator, headers={"Authorization": f"Bearer {signed(scope='read')}"}
        )
        assert (principal.tenant, principal.user) == ("acme", "ada")
        _, text = create_key(memory, "acme", "x", ["read"])
        assert authenticate(authenticator, headers={"Authorization": f"Bearer {text}"}).user is None
        with pytest.raises(Unauthorized):
            authenticate(authenticator, headers={"Authorization": f"Bearer {signed(aud='else')}"})


def test_the_server_refuses_a_public_address_without_a_key(
    open_memory: Callable[..., Memory],
) -> None:
    """Rejected before a socket is bound, with advice."""
    check_host(open_memory().settings, keys_exist=False)
    settings = open_memory(host="0.0.0.0").settings
    with pytest.raises(SettingsError, match="memorist keys add"):
        check_host(settings, keys_exist=False)
    check_host(settings, keys_exist=True)


# -- every route -----------------------------------------------------------------------------------------------------


def test_every_route_authenticates_first(file_memory: Memory) -> None:
    """A missing, wrong, revoked or expired key is 401 on every route; a missing permission
    is 403, whatever the body.
    """
    app = create_app(file_memory)
    example = {
        permission: create_key(file_memory, "acme", permission, [permission])[1]
        for permission in ALL
    }
    revoked, gone = create_key(file_memory, "acme", "revoked", ALL)
    file_memory.scope(tenant="acme").admin.keys.revoke(revoked.id)
    expired = create_key(
        file_memory, "acme", "expired", ALL, expires_at=datetime.now(UTC) + timedelta(seconds=0.05)
    )[1]
    time.sleep(0.06)
    seen = 0
    with TestClient(app, URL, client=HERE, raise_server_exceptions=False) as client:
        for method, path, needs in routes(app):
            seen += 1
            if method != "HEAD":
                received = {
                    without_request_id(send(client, method, path, key))
                    for key in (gone, expired, example["read"][:-1])
                }
                assert [status for status, _ in received] == [401], (method, path, received)
            assert send(client, method, path).status_code == 401, (method, path)
            assert send(client, method, path, content=b"{").status_code == 401, (
                method,
                path,
                "before the body",
            )
            if needs:
                for permission in ALL:
                    result = send(client, method, path, example[permission], content=b"{")
                    refused = permission != needs or path in NEEDS_TWO_PERMISSIONS
                    assert (result.status_code == 403) == refused, (
                        method,
                        path,
                        permission,
                        result.text,
                    )
                    assert result.status_code not in (401, 500), (method, path, permission)
    assert seen > 90


def test_only_listed_routes_are_open(file_memory: Memory) -> None:
    """Fails for a new route that declares no permission."""
    app = create_app(file_memory)
    silent = {path for _, path, needs in routes(app) if needs is None}
    pages = {path for path in silent if path.startswith("/docs")}
    assert silent <= pages | {"/openapi.json", "/metrics", "/api/me", "/api/status"}, silent


def test_cached_scopes_are_bounded_and_never_mixed_up(
    file_memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P16: the cache has a bound, and no caller gets another's scope."""
    monkeypatch.setattr(request_authenticator, "MAX_CACHED_SCOPES", 3)
    authenticator = RequestAuthenticator(file_memory)
    _, text = create_key(file_memory, "acme", "x", ["read"])
    principal = authenticate(authenticator, headers={"X-API-Key": text})
    for number in range(10):
        headers = {"X-Memorist-User": f"user {number % 4} é", "X-Memorist-Agent": "scout"}
        for source in ("user", "agent"):
            owner = authenticator.scope(connection(headers), principal, None, None, source).owner
            assert (owner.tenant, owner.user, owner.agent, owner.source) == (
                "acme",
                f"user {number % 4} é",
                "scout",
                source,
            )
            assert len(authenticator._scopes) <= 3
    assert (
        authenticator.scope(connection(headers), principal, "named", None).owner.user == "named"
    ), "a parameter goes before a header"


def test_a_slow_keyless_check_cannot_reopen_access(file_memory: Memory) -> None:
    """The check was read before the first key was created, and returns after it."""
    authenticator, here = RequestAuthenticator(file_memory), connection()

    async def race() -> None:
        assert (await authenticator.authenticate_request(here)).name == "local"
        authenticator.forget()
        result, answer = threading.Event(), threading.Event()
        any_at_all = authenticator.keys.keys_exist

        def slow_check() -> bool:
            actual = any_at_all()
            result.set()
            answer.wait(5)
            return actual

        authenticator.keys.keys_exist = slow_check  # type: ignore[method-assign]
        late = asyncio.ensure_future(authenticator.authenticate_request(here))
        await asyncio.to_thread(result.wait, 5)
        await asyncio.to_thread(create_key, file_memory, "acme", "first", ["read"])
        authenticator.forget()
        answer.set()
        with pytest.raises(Unauthorized):
            await late
        with pytest.raises(Unauthorized):
            await authenticator.authenticate_request(here)

    asyncio.run(race())


# -- keys bound to a user or an agent
# ---------------------------------------------------------------------------------


def test_a_bound_key_cannot_change_tenant_wide_data(client_with_key: Calling) -> None:
    """P11: neither over REST nor as a tool, neither in a body nor in a query."""
    boss = client_with_key()
    assert (
        boss.post("/api/agents", json={"name": "planner", "prompt": "as it was"}).status_code == 201
    )
    assert boss.put("/api/state/k", json={"value": 1, "area": "tenant"}).status_code == 200
    for bound in ({"user": "ada"}, {"agent": "scout"}):
        http = client_with_key(**bound)
        for method, path, body in (
            ("POST", "/api/agents", {"name": "mine"}),
            ("PATCH", "/api/agents/planner", {"prompt": "another"}),
            ("DELETE", "/api/agents/planner", None),
            ("PUT", "/api/state/k", {"value": 2, "area": "tenant"}),
            ("DELETE", "/api/state/k?area=tenant", None),
        ):
            refused = http.request(method, path, json=body)
            assert (refused.status_code, "one user or agent" in refused.json()["detail"]) == (
                403,
                True,
            ), path
        for name, arguments in (
            ("agents_edit", {"name": "planner", "prompt": "another"}),
            ("state_set", {"key": "k", "value": 2, "area": "tenant"}),
        ):
            call = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": name, "arguments": arguments},
            }
            accept = {
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2025-11-25",
            }
            value = http.post("/mcp/all", json=call, headers=accept).json()["result"]
            assert value["isError"], name
            assert "one user or agent" in value["content"][0]["text"]
        assert http.get("/api/agents/planner").json()["prompt"] == "as it was"
        assert (
            http.put("/api/state/k", params={"user": "ada"}, json={"value": 2}).status_code == 200
        )
    assert boss.get("/api/state/k?area=tenant").json()["value"] == 1


def test_tenant_wide_routes_reject_a_bound_admin(
    file_memory: Memory, client_with_key: Calling
) -> None:
    for bound in ({"user": "ada"}, {"agent": "scout"}):
        for path in ("/api/status", "/metrics", "/api/audit", "/api/keys"):
            assert (
                client_with_key(tenant=file_memory.settings.tenant, **bound).get(path).status_code
                == 403
            ), path
    assert client_with_key(tenant=file_memory.settings.tenant).get("/api/status").status_code == 200
