"""Who is let in by a request, and who is not."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import HTTPConnection
from starlette.testclient import TestClient

from retain import Memory
from retain.auth.api_keys import Keys
from retain.auth.local import is_loopback
from retain.auth.principal import PERMISSIONS, Principal
from retain.base.errors import Busy, Invalid, SettingsError, Unauthorized
from retain.server import authenticator as doors
from retain.server import web_app
from retain.server.app import create_app
from retain.server.authenticator import Authenticator, refuse_open
from retain.testing import FaultyDatabase, with_faults
from tests.auth.test_jwt_tokens import KEYS, signed, written
from tests.calling import HERE, URL, Calling
from tests.conftest import SETTINGS, one_engine

ALL = sorted(PERMISSIONS)
PAGES = {f"/{page}{below}" for page in web_app.PAGES for below in ("", "/{below:path}")}
OPEN = {
    "/",
    "/healthz",
    "/readyz",
    "/assets/{path:path}",
    "/api/web",
    "/api/web/sign-in",
    "/api/web/sign-out",
    *PAGES,
}
"""What anybody may see: the page, which has nothing of what is remembered, and whether the server is alive."""
BOTH = {"/api/users/x/erase", "/api/messages/x/pop"}
"""What needs `admin`, and `delete` besides; and what removes and tells it, which needs `delete` and `read`."""
NOT_MINE = ("/mcp", "/.well-known")
"""Who may call a tool is a test of MCP's own."""


@pytest.fixture
def memory(open_memory: Callable[..., Memory]) -> Memory:
    """The test's database, with faults; without a script they never strike."""
    return with_faults(open_memory())[0]


@pytest.fixture
def faults(memory: Memory) -> FaultyDatabase:
    assert isinstance(memory.database, FaultyDatabase)
    return memory.database


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Memory]:
    """A database that is one file, where one engine is enough."""
    with Memory.open(
        f"sqlite:///{tmp_path}/small.db", settings=replace(SETTINGS, sqlite_durability="normal")
    ) as memory:
        yield memory


@pytest.fixture
def knocking(small: Memory) -> Iterator[Calling]:
    """Clients with keys of that database, each made as it is asked for."""
    app = create_app(small)
    with TestClient(app, URL, client=HERE):  # one life for all of them

        def client(
            permissions: Iterable[str] = PERMISSIONS, tenant: str = "acme", **bound: Any
        ) -> TestClient:
            _, text = Keys(small.database).create(tenant, "a test", permissions, **bound)
            app.state.authenticator.forget()
            return TestClient(
                app, URL, headers={"X-API-Key": text}, client=HERE, raise_server_exceptions=False
            )

        yield client


def plain(found: Any) -> tuple[int, str]:
    """A response without the id that differs each time."""
    body = found.json()
    body.pop("request_id", None)
    return found.status_code, json.dumps(body, sort_keys=True)


def send(client: TestClient, method: str, path: str, key: str | None = None, **how: Any) -> Any:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return client.request(method, path, headers=headers, **how)


def connection(
    headers: dict[str, str] | None = None, *, peer: str = "127.0.0.1", query: str = ""
) -> HTTPConnection:
    """A request as the door sees it."""
    given = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {
        "type": "http",
        "headers": given,
        "client": (peer, 1),
        "query_string": query.encode(),
        "path": "/",
    }
    return HTTPConnection(scope)


def let_in(authenticator: Authenticator, **how: Any) -> Any:
    return asyncio.run(authenticator.authenticate(connection(**how)))


# -- credentials -----------------------------------------------------------------------------------------------------


@one_engine
def test_a_key_lets_its_holder_in_and_says_who_it_is(calling: Calling) -> None:
    http = calling("acme", ["read", "write"], user="ada")
    me = http.get("/api/me").json()
    assert (me["tenant"], me["permissions"], me["user"], me["agent"]) == (
        "acme",
        ["read", "write"],
        "ada",
        None,
    )
    assert http.headers["authorization"].split()[1] not in json.dumps(me)
    found = http.get(
        "/api/me",
        headers={"Authorization": "", "X-API-Key": http.headers["authorization"].split()[1]},
    )
    assert found.status_code == 401, "an empty credential is a wrong one"


@one_engine
def test_a_key_comes_in_either_header(memory: Memory) -> None:
    _, text = Keys(memory.database).create("acme", "x", ["read"])
    authenticator = Authenticator(memory)
    for headers in (
        {"Authorization": f"Bearer {text}"},
        {"Authorization": f"bearer  {text} "},
        {"X-API-Key": text},
        {"X-API-Key": text, "Authorization": f"Bearer {text}"},
    ):
        assert let_in(authenticator, headers=headers).tenant == "acme", headers


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "KEY"},
        {"Authorization": "Basic KEY"},
        {"Authorization": "Bearer KEY", "X-API-Key": "rtn_other"},
        {"Authorization": "Bearer KEY KEY"},
        {"Authorization": "Bearer KEYx"},
        {"Authorization": "Bearer " + "x" * 9000},
        {"X-API-Key": ""},
        {"Cookie": "key=KEY"},
        {"X-Retain-Tenant": "acme"},
        {"Authorization": "Bearer é"},
    ],
    ids=str,
)
def test_anything_else_does_not(small: Memory, headers: dict[str, str]) -> None:
    _, text = Keys(small.database).create("acme", "x", ["read"])
    with pytest.raises(Unauthorized) as caught:
        let_in(
            Authenticator(small),
            headers={name: value.replace("KEY", text) for name, value in headers.items()},
        )
    assert text not in str(caught.value)


@pytest.mark.parametrize(
    "query",
    ["key=KEY", "api_key=x", "a=1&access_token=x", "user=KEY", "X-API-Key=x", "user=%72tn_KEY"],
)
def test_a_key_in_an_address_is_refused_even_where_a_good_one_is_sent(
    small: Memory, query: str
) -> None:
    _, text = Keys(small.database).create("acme", "x", ["read"])
    with pytest.raises(Invalid) as caught:
        let_in(
            Authenticator(small),
            headers={"X-API-Key": text},
            query=query.replace("rtn_KEY", text[4:]).replace("KEY", text),
        )
    assert text not in str(caught.value)


def test_a_key_in_a_path_is_refused(knocking: Calling) -> None:
    http = knocking()
    refused = http.get(f"/api/sessions/{http.headers['X-API-Key']}")
    assert (refused.status_code, refused.json()["field"]) == (422, "address")
    assert http.headers["X-API-Key"] not in refused.text


def test_names_in_headers_are_said_once_and_in_utf_8(small: Memory, knocking: Calling) -> None:
    """Two users whose names cannot be read must not be one."""
    http, authenticator, owner = (
        knocking(),
        Authenticator(small),
        Principal("acme", PERMISSIONS, "x"),
    )
    for name in (b"x-retain-user", b"x-retain-agent"):
        request = connection()
        request.scope["headers"] = [(name, b"\xff\xfe")]
        with pytest.raises(Invalid, match=name.decode()):
            authenticator.scope(request, owner, None, None)
    assert (
        authenticator.scope(connection({"X-Retain-User": "Zoë"}), owner, None, None).owner.user
        == "Zoë"
    )
    for once in ("X-Retain-User", "X-Retain-Agent", "Idempotency-Key", "If-Match"):
        twice = http.post("/api/sessions", json={}, headers=[(once, "a"), (once, "b")])
        assert (twice.status_code, once.lower() in twice.json()["detail"]) == (400, True)


def test_the_tenant_comes_from_the_key_and_from_nowhere_else(
    calling: Calling, memory: Memory
) -> None:
    """P11, S8: no header, parameter or body names another tenant."""
    memory.scope(tenant="other", user="ada", agent="scout").sessions.add("theirs")
    http = calling("acme")
    for headers in (
        {"X-Retain-Tenant": "other"},
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


def test_database_trouble_is_503_and_never_401(
    calling: Calling, app: FastAPI, faults: FaultyDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B32: whoever cannot be looked up is not called a stranger."""
    http = calling()
    authenticator: Authenticator = app.state.authenticator

    faults.fail("read", Busy(problem="no connection is free"), times=None)
    authenticator.forget()
    found = http.get("/api/me")
    assert found.status_code == 503
    assert found.headers["retry-after"]
    monkeypatch.setattr(authenticator, "_keyed", False)
    assert http.get("/api/me", headers={"Authorization": ""}).status_code == 401
    assert calling(None).get("/api/me").status_code == 503


# -- what is remembered ----------------------------------------------------------------------------------------------


@one_engine
def test_a_key_is_looked_up_once_in_a_while(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, text = Keys(memory.database).create("acme", "x", ["read"])
    authenticator = Authenticator(memory)
    asked: list[str] = []
    check = authenticator.keys.authenticate

    def counted(text: str) -> Any:
        asked.append(text)
        return check(text)

    monkeypatch.setattr(authenticator.keys, "authenticate", counted)
    for _ in range(5):
        let_in(authenticator, headers={"X-API-Key": text})
    assert len(asked) == 1
    (known,) = authenticator._known.values()
    assert 0 < known.until - time.monotonic() <= doors.SECONDS
    known.until = time.monotonic()
    let_in(authenticator, headers={"X-API-Key": text})
    assert len(asked) == 2
    for _ in range(2):
        with pytest.raises(Unauthorized):
            let_in(authenticator, headers={"X-API-Key": text[:-1]})
    assert len(asked) == 4, "what is wrong is not remembered"


@one_engine
def test_a_key_that_ends_is_not_remembered_longer(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    until = datetime.now(UTC) + timedelta(seconds=60)
    _, text = Keys(memory.database).create("acme", "x", ["read"], expires_at=until)
    authenticator = Authenticator(memory)
    monkeypatch.setattr(doors, "SECONDS", 3600.0)
    let_in(authenticator, headers={"X-API-Key": text})
    (known,) = authenticator._known.values()
    assert 0 < known.until - time.monotonic() <= 60


def test_what_is_remembered_has_a_bound(small: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """P16."""
    monkeypatch.setattr(doors, "MOST_KNOWN", 3)
    authenticator = Authenticator(small)
    for number in range(10):
        _, text = Keys(small.database).create("acme", f"{number}", ["read"])
        let_in(authenticator, headers={"X-API-Key": text})
        assert len(authenticator._known) <= 3
        assert text not in repr(authenticator._known)


@one_engine
def test_a_key_that_is_revoked_here_is_refused_at_once(calling: Calling) -> None:
    admin, other = calling(), calling("acme", ["read"])
    id = admin.get("/api/keys").json()["data"][1]["id"]
    assert other.get("/api/sessions").status_code == 200
    assert admin.delete(f"/api/keys/{id}").status_code == 200
    assert other.get("/api/sessions").status_code == 401


def test_a_key_that_is_revoked_while_it_is_looked_up_is_not_remembered(
    small: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, text = Keys(small.database).create("acme", "x", ["read"])
    authenticator = Authenticator(small)
    check = authenticator.keys.authenticate

    def slow(text: str) -> Any:
        found = check(text)
        authenticator.keys.revoke("acme", key.id)
        authenticator.forget()
        return found

    monkeypatch.setattr(authenticator.keys, "authenticate", slow)
    let_in(authenticator, headers={"X-API-Key": text})
    monkeypatch.setattr(authenticator.keys, "authenticate", check)
    with pytest.raises(Unauthorized):
        let_in(authenticator, headers={"X-API-Key": text})


def test_use_is_noted_after_the_answer_and_trouble_with_it_is_nobodys(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(doors, "_AFTER_SECONDS", 0.01)
    _, text = Keys(memory.database).create("acme", "x", ["read"])
    authenticator = Authenticator(memory)

    async def come() -> None:
        await authenticator.authenticate(connection({"X-API-Key": text}))
        assert authenticator.keys.list("acme")[0].last_used_at is None, (
            "not on the way to the answer"
        )
        await asyncio.sleep(0.05)
        await asyncio.gather(*authenticator._notes)

    asyncio.run(come())
    assert authenticator.keys.list("acme")[0].last_used_at is not None

    def broken(*_: Any, **__: Any) -> Any:
        raise Busy(problem="locked")

    monkeypatch.setattr(authenticator.keys, "record_use", broken)
    authenticator.forget()
    with caplog.at_level(logging.WARNING):
        asyncio.run(come_again(authenticator, text))
    assert "could not be noted" in caplog.text
    assert text not in caplog.text


async def come_again(authenticator: Authenticator, text: str) -> None:
    await authenticator.authenticate(connection({"X-API-Key": text}))
    await asyncio.sleep(0.05)
    await asyncio.gather(*authenticator._notes)


# -- without a key ---------------------------------------------------------------------------------------------------


def test_whoever_sits_at_the_machine_of_a_file_without_keys_needs_none(
    memory: Memory, engine: str, calling: Calling
) -> None:
    """S1: and no other engine, because a server has other users."""
    found = calling(None).get("/api/me")
    if engine == "sqlite":
        assert found.json()["name"] == "local"
        assert found.json()["permissions"] == ["read", "write", "delete", "admin"]
    else:
        assert found.status_code == 401
        assert found.headers["www-authenticate"].startswith("Bearer")


def test_the_first_key_closes_the_door_for_good(small: Memory) -> None:
    """In any tenant, by any process; not even revoking it opens the door again."""
    authenticator = Authenticator(small)
    assert let_in(authenticator).name == "local"
    keys = Keys(small.database)
    key, _ = keys.create("another tenant", "x", ["read"])
    authenticator._keyless_until = float("-inf")  # a second later
    keys.revoke("another tenant", key.id)
    with pytest.raises(Unauthorized):
        let_in(authenticator)
    with pytest.raises(Unauthorized):
        let_in(Authenticator(small))


@pytest.mark.parametrize("sent", ["Bearer", "Bearer ", "bearer  "])
def test_a_bearer_without_a_token_is_no_credential(sent: str) -> None:
    """What an example sends where the variable for the key is empty."""
    with Memory.open("memory:", settings=SETTINGS) as memory:
        assert let_in(Authenticator(memory), headers={"Authorization": sent}).name == "local"


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
        ({}, {"headers": {"Authorization": "Bearer rtn_wrong"}}),
    ],
    ids=str,
)
def test_nobody_else_comes_in_without_one(settings: dict[str, Any], how: dict[str, Any]) -> None:
    """S1, S7: another machine, a proxy on this one, or a server that others can reach."""
    with (
        Memory.open("memory:", settings=replace(SETTINGS, **settings)) as memory,
        pytest.raises(Unauthorized),
    ):
        let_in(Authenticator(memory), **how)


THEIRS = [
    {"Authorization": "Bearer sk-live-1"},
    {"X-API-Key": "lsv2_1"},
    {"Authorization": "Bearer a", "X-API-Key": "b"},
]
ROUTES = ["/v1/conversations/c", "/v1/memory_stores", "/store/items?namespace=a&key=b"]


@pytest.mark.parametrize("headers", THEIRS, ids=str)
def test_a_vendors_own_key_is_as_none_where_none_is_needed(
    small: Memory, headers: dict[str, str]
) -> None:
    """Their clients send one always; on the routes of their protocols alone, and not once there is a key of ours."""
    with TestClient(create_app(small), URL, client=HERE) as client:
        for route in ROUTES:
            assert (
                client.get(route, headers=headers).status_code
                == client.get(route).status_code
                != 401
            )
            assert (
                client.get(route, headers={**headers, "X-API-Key": "rtn_wrong"}).status_code == 401
            )
        assert client.get("/api/me", headers=headers).status_code == 401
        Keys(small.database).create("acme", "x", ["read"])
        client.app.state.authenticator.forget()  # type: ignore[attr-defined]
        for route in ROUTES:
            assert (found := client.get(route, headers=headers)).status_code == 401
            assert plain(found) == plain(client.get(route, headers={"X-API-Key": "rtn_wrong"}))


@pytest.mark.parametrize(
    ("settings", "how"),
    [
        ({"auth": "keys"}, {}),
        ({"host": "0.0.0.0"}, {}),
        ({}, {"peer": "192.0.2.7"}),
        ({}, {"headers": {**THEIRS[0], "X-Forwarded-For": "127.0.0.1"}}),
        ({}, {"headers": {**THEIRS[0], "X-API-Key": "rtn_wrong"}}),
    ],
    ids=str,
)
def test_a_vendors_own_key_opens_no_door(settings: dict[str, Any], how: dict[str, Any]) -> None:
    """S1, S7: where a key is needed, it is a wrong one."""
    with (
        Memory.open("memory:", settings=replace(SETTINGS, **settings)) as memory,
        pytest.raises(Unauthorized),
    ):
        asyncio.run(
            Authenticator(memory).authenticate(
                connection(**{"headers": THEIRS[0], **how}), vendor=True
            )
        )


def test_this_machine_has_several_names() -> None:
    assert all(
        is_loopback(host)
        for host in ("127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "::ffff:127.0.0.1")
    )
    others = (
        "",
        "0.0.0.0",
        "::",
        "10.0.0.1",
        "localhost.example.org",
        "169.254.169.254",
        "::ffff:0.0.0.0",
        "127.0.0.1.nip.io",
    )
    assert not any(is_loopback(host) for host in others)


def test_tokens_come_in_beside_keys_and_end_the_openness(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "jwt_issuer": "https://issuer.example.org",
        "jwt_audience": "retain",
        "jwt_keys": written(KEYS, tmp_path),
    }
    with Memory.open("memory:", settings=replace(SETTINGS, **changes)) as memory:
        authenticator = Authenticator(memory)
        with pytest.raises(Unauthorized):
            let_in(authenticator)
        principal = let_in(
            authenticator, headers={"Authorization": f"Bearer {signed(scope='read')}"}
        )
        assert (principal.tenant, principal.user) == ("acme", "ada")
        _, text = authenticator.keys.create("acme", "x", ["read"])
        assert let_in(authenticator, headers={"Authorization": f"Bearer {text}"}).user is None
        with pytest.raises(Unauthorized):
            let_in(authenticator, headers={"Authorization": f"Bearer {signed(aud='else')}"})


def test_the_server_does_not_listen_to_others_before_there_is_a_key(
    open_memory: Callable[..., Memory],
) -> None:
    """S1: refused before anything is bound, with what to do."""
    refuse_open(open_memory())
    memory = open_memory(host="0.0.0.0")
    with pytest.raises(SettingsError, match="retain keys create"):
        refuse_open(memory)
    Keys(memory.database).create("acme", "x", ["admin"])
    refuse_open(memory)


# -- every route -----------------------------------------------------------------------------------------------------


def routes(app: FastAPI) -> Iterator[tuple[str, str, str | None]]:
    """Yield the method, a matching path and the permission of every route."""
    for handler in app.state.handlers.values():
        endpoint = handler.endpoint
        yield endpoint.method, example_path(endpoint.route), endpoint.needs
    for route in app.routes:
        path = getattr(route, "path", None)
        if path is None or path in OPEN or path.startswith(NOT_MINE):
            continue
        permission = None
        if isinstance(route, APIRoute):
            permission = (route.openapi_extra or {}).get("x-retain-permission")
        for method in getattr(route, "methods", None) or ("GET",):
            yield method, example_path(path), permission


def example_path(path: str) -> str:
    path = path.replace("{seq:int}", "1")
    return re.sub(r"\{[^}]*\}", "x", path)


def test_every_route_asks_who_comes_before_all_else(small: Memory) -> None:
    """S1, S6: no key, a wrong, revoked or expired one are 401 on every route; one that may not is 403, whatever is sent."""
    app, keys = create_app(small), Keys(small.database)
    one = {permission: keys.create("acme", permission, [permission])[1] for permission in ALL}
    revoked, gone = keys.create("acme", "revoked", ALL)
    keys.revoke("acme", revoked.id)
    expired = keys.create(
        "acme", "expired", ALL, expires_at=datetime.now(UTC) + timedelta(seconds=0.05)
    )[1]
    time.sleep(0.06)
    seen = 0
    with TestClient(app, URL, client=HERE, raise_server_exceptions=False) as client:
        for method, path, needs in routes(app):
            seen += 1
            if method != "HEAD":
                told = {
                    plain(send(client, method, path, key))
                    for key in (gone, expired, one["read"][:-1])
                }
                assert [status for status, _ in told] == [401], (method, path, told)
            assert send(client, method, path).status_code == 401, (method, path)
            assert send(client, method, path, content=b"{").status_code == 401, (
                method,
                path,
                "before the body",
            )
            if needs:
                for permission in ALL:
                    found = send(client, method, path, one[permission], content=b"{")
                    refused = permission != needs or path in BOTH
                    assert (found.status_code == 403) == refused, (
                        method,
                        path,
                        permission,
                        found.text,
                    )
                    assert found.status_code not in (401, 500), (method, path, permission)
    assert seen > 90


def test_what_nobody_asked_for_by_name_is_not_open(small: Memory) -> None:
    """A new route without a word about who may is caught here."""
    app = create_app(small)
    silent = {path for _, path, needs in routes(app) if needs is None}
    pages = {path for path in silent if path.startswith("/docs")}
    assert silent <= pages | {"/openapi.json", "/metrics", "/api/me", "/api/status"}, silent


def test_a_scope_is_whose_it_was_asked_for_however_many_there_are(
    small: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P16: what is kept has a bound, and nobody gets another's."""
    monkeypatch.setattr(doors, "MOST_SCOPES", 3)
    authenticator = Authenticator(small)
    _, text = authenticator.keys.create("acme", "x", ["read"])
    principal = let_in(authenticator, headers={"X-API-Key": text})
    for number in range(10):
        headers = {"X-Retain-User": f"user {number % 4} é", "X-Retain-Agent": "scout"}
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


def test_the_door_does_not_open_again_after_the_first_key(small: Memory) -> None:
    """The database was asked before the key was made, and answers after it."""
    authenticator, here = Authenticator(small), connection()

    async def race() -> None:
        assert (await authenticator.authenticate(here)).name == "local"
        authenticator.forget()
        asked, answer = threading.Event(), threading.Event()
        any_at_all = authenticator.keys.exist

        def slowly() -> bool:
            found = any_at_all()
            asked.set()
            answer.wait(5)
            return found

        authenticator.keys.exist = slowly  # type: ignore[method-assign]
        late = asyncio.ensure_future(authenticator.authenticate(here))
        await asyncio.to_thread(asked.wait, 5)
        await asyncio.to_thread(Keys(small.database).create, "acme", "first", ["read"])
        authenticator.forget()
        answer.set()
        with pytest.raises(Unauthorized):
            await late
        with pytest.raises(Unauthorized):
            await authenticator.authenticate(here)

    asyncio.run(race())


# -- keys that are one user's or one agent's -------------------------------------------------------------------------


def test_a_bound_key_changes_nothing_that_the_tenant_shares(knocking: Calling) -> None:
    """P11: neither over REST nor as a tool, and neither in a body nor in a query."""
    boss = knocking()
    assert (
        boss.post("/api/agents", json={"name": "planner", "prompt": "as it was"}).status_code == 201
    )
    assert boss.put("/api/state/k", json={"value": 1, "area": "tenant"}).status_code == 200
    for bound in ({"user": "ada"}, {"agent": "scout"}):
        http = knocking(**bound)
        for method, path, body in (
            ("POST", "/api/agents", {"name": "mine"}),
            ("PATCH", "/api/agents/planner", {"prompt": "another"}),
            ("DELETE", "/api/agents/planner", None),
            ("PUT", "/api/state/k", {"value": 2, "area": "tenant"}),
            ("DELETE", "/api/state/k?area=tenant", None),
        ):
            refused = http.request(method, path, json=body)
            assert (refused.status_code, "one user or one agent" in refused.json()["detail"]) == (
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
            told = http.post("/mcp/all", json=call, headers=accept).json()["result"]
            assert told["isError"], name
            assert "one user or one agent" in told["content"][0]["text"]
        assert http.get("/api/agents/planner").json()["prompt"] == "as it was"
        assert (
            http.put("/api/state/k", params={"user": "ada"}, json={"value": 2}).status_code == 200
        )
    assert boss.get("/api/state/k?area=tenant").json()["value"] == 1


def test_what_is_about_everybody_is_not_for_a_bound_admin(small: Memory, knocking: Calling) -> None:
    for bound in ({"user": "ada"}, {"agent": "scout"}):
        for path in ("/api/status", "/metrics", "/api/audit", "/api/keys"):
            assert knocking(tenant=small.settings.tenant, **bound).get(path).status_code == 403, (
                path
            )
    assert knocking(tenant=small.settings.tenant).get("/api/status").status_code == 200
