"""Signing in: the browser sends a key once and gets a cookie, which ends with the key."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from http.client import HTTPConnection
from http.cookies import SimpleCookie
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from memorist import Memory
from memorist.admin import authenticator as authenticator_module
from memorist.admin.browser_sessions import MAX_SESSIONS_PER_KEY, BrowserSessions
from memorist.admin.principal import PERMISSIONS
from memorist.base import clock
from memorist.base.errors import Unauthorized
from memorist.chat.enter_session import USER
from memorist.models.model import Models
from memorist.server.http.app import create_app
from memorist.server.http.authentication import csrf_of, name_of
from memorist.testing import ScriptedModel
from testkit import keys
from testkit.apps import HERE, URL, Calling
from testkit.clock import Now
from testkit.databases import SETTINGS
from testkit.running import Process

OTHER = "https://memory.example.org"


class Browser(TestClient):
    """A browser: keeps cookies, sends the origin, and sends the CSRF token once it has it."""

    csrf: str | None = None

    def sign_in(self, key: str, **said: Any) -> Any:
        result = self.post("/api/web/sign-in", json={"key": key, **said})
        if result.status_code == 200:
            self.csrf = result.json()["csrf"]
        return result

    def request(self, method: str, url: Any, **options: Any) -> Any:
        headers = (
            {"Origin": str(self.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
            if method != "GET"
            else {}
        )
        headers |= {"X-Memorist-CSRF": self.csrf} if self.csrf and method != "GET" else {}
        headers |= options.pop("headers", None) or {}
        return super().request(method, url, headers=headers, **options)


Browsers = Callable[..., Browser]


@pytest.fixture
def browsers(app: Starlette) -> Iterator[Browsers]:
    """Return a function that makes browsers; only those at 127.0.0.1 are local."""
    with ExitStack() as stack:

        def one(url: str = URL, *, over: Starlette = app) -> Browser:
            return stack.enter_context(
                Browser(over, url, client=HERE, raise_server_exceptions=False)
            )

        yield one


@pytest.fixture
def key(app: Starlette) -> str:
    """The text of a key of acme with all permissions."""
    return create_key(app)


def create_key(
    app: Starlette, permissions: Any = PERMISSIONS, tenant: str = "acme", **bound: Any
) -> str:
    _, text = keys.create_key(app.state.memory, tenant, "a test", permissions, **bound)
    app.state.authenticator.forget()
    return text


def cookie(answer: Any) -> Any:
    """Return the cookie that a response sets."""
    (item,) = SimpleCookie(answer.headers["set-cookie"]).values()
    return item


def rows(memory: Memory, tenant: str = "acme") -> list[Any]:
    sql = (
        "select digest, key_id, expires_at from signins where tenant = :tenant order by created_at"
    )
    return memory.database.read(tenant, lambda tx: tx.all(sql))


# -- coming in ---------------------------------------------------------------------------------------------------


def test_a_key_that_may_not_read_learns_no_user(calling: Calling, memory: Memory) -> None:
    scope = memory.scope(tenant="acme", user="a-patient", agent="scout")
    scope.messages.append(scope.sessions.add().id, "user", "Hello")
    assert calling(permissions=["read"]).get("/api/web").json()["user"] == "a-patient"
    visit = calling(permissions=["write"]).get("/api/web")
    assert visit.json()["user"] == USER
    assert "a-patient" not in visit.text


def test_a_browser_signs_in_with_a_key(app: Starlette, browsers: Browsers, key: str) -> None:
    browser = browsers()
    before = browser.get("/api/web")
    assert before.status_code == 200
    assert (before.json()["needs_key"], before.json()["signed_in"]) == (True, False)
    assert {name for name, value in before.json().items() if value is not None} == {
        "version",
        "needs_key",
        "signed_in",
    }
    assert browser.get("/api/sessions").status_code == 401
    signed = browser.sign_in(f" {key}\n")
    assert signed.status_code == 200
    payload = signed.json()
    assert (payload["needs_key"], payload["signed_in"]) == (True, True)
    assert payload["me"]["tenant"] == "acme"
    assert payload["me"]["permissions"] == ["read", "write", "delete", "admin"]
    assert payload["user"] == USER
    assert payload["model"] is None
    assert {"save_to_journal", "manage_long_term_memory"} <= {
        tool["name"] for tool in payload["tools"]
    }
    assert browser.get("/api/web").json() == payload
    assert browser.get("/api/sessions").status_code == 200
    created = browser.put("/api/state/theme", params={"user": "ada"}, json={"value": "dark"})
    assert created.status_code == 200, created.text
    assert app.state.memory.scope(tenant="acme", user="ada").state.get("theme").value == "dark"
    assert key not in signed.text


def test_the_cookie_is_protected_from_scripts_and_other_sites(
    app: Starlette, browsers: Browsers, key: str
) -> None:
    """P0.6: HttpOnly, SameSite=Strict; `__Host-` and Secure over https, also behind a proxy."""
    result = cookie(browsers().sign_in(key))
    assert result.key == "memorist-7700"
    assert (result["httponly"], result["samesite"], result["path"], result["secure"]) == (
        True,
        "strict",
        "/",
        "",
    )
    assert result["max-age"] == ""
    memory = replace(app.state.memory.settings, allowed_hosts="memory.example.org")
    with Memory.open(settings=memory) as other:
        remote = browsers(OTHER, over=create_app(other))
        result = cookie(remote.sign_in(key, remember=True))
        assert result.key == "__Host-memorist"
        assert (result["httponly"], result["samesite"], result["path"], result["secure"]) == (
            True,
            "strict",
            "/",
            True,
        )
        assert result["domain"] == ""
        assert int(result["max-age"]) == 30 * 24 * 3600
        assert remote.get("/api/me").status_code == 200
        plain = browsers("http://memory.example.org", over=create_app(other))
        refused = plain.sign_in(key)
        assert refused.status_code == 403
        assert "https" in refused.json()["detail"]
        plain.cookies.set("memorist", result.value)
        assert plain.get("/api/me").status_code == 401, "a name that any neighbour could set"


@pytest.mark.parametrize("shown", ["", "mst_x", "nonsense", "Bearer", "\ud800", "e" * 5000])
def test_a_wrong_key_is_rejected(browsers: Browsers, key: str, shown: str) -> None:
    browser = browsers()
    result = browser.post("/api/web/sign-in", content=f'{{"key": "{shown.encode("unicode_escape").decode()}"}}'.encode(),
                         headers={"Content-Type": "application/json"})  # fmt: skip
    assert result.status_code == 401, result.text
    assert "set-cookie" not in result.headers
    assert browser.sign_in(key[:-1] + ("a" if key[-1] != "a" else "b")).status_code == 401
    assert browser.get("/api/web").json()["signed_in"] is False


def test_the_sign_in_body_is_validated(browsers: Browsers, key: str) -> None:
    browser = browsers()
    assert browser.post("/api/web/sign-in", json={"key": key, "other": 1}).status_code == 422
    assert browser.post("/api/web/sign-in", json={"key": key, "remember": "yes"}).status_code == 422
    assert browser.post("/api/web/sign-in", json={}).status_code == 422
    mixed_up = browser.post("/api/web/sign-in", json={key: "key"})
    assert mixed_up.status_code == 422
    assert key not in mixed_up.text
    for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        result = browser.post(
            "/api/web/sign-in", content=f'{{"key":"{key}"}}', headers={"Content-Type": media}
        )
        assert result.status_code == 415, "a form of another site can send these"


def test_failed_sign_ins_are_rate_limited(
    open_memory: Callable[..., Memory], browsers: Browsers
) -> None:
    app = create_app(open_memory(rate_per_second=2))
    good, browser = create_key(app), browsers(over=app)
    received = [browser.sign_in(f"mst_wrong{n}").status_code for n in range(8)]
    assert received[0] == 401
    assert received[-1] == 429
    assert browser.sign_in(good).status_code == 429, (
        "whoever guesses right is not told at once either"
    )


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/api/web"), ("POST", "/api/web/sign-out"), ("GET", "/api/me")]
)
@pytest.mark.parametrize("shown", ["X-API-Key", "Authorization", "Cookie"])
def test_wrong_keys_are_rate_limited_on_every_route(
    open_memory: Callable[..., Memory], browsers: Browsers, method: str, path: str, shown: str
) -> None:
    """Also if a wrong key is not an error; a limited client blocks no other sign-in."""
    app = create_app(open_memory(rate_per_second=1))
    good, browser = create_key(app), browsers(over=app)
    spelled = {"X-API-Key": "{}", "Authorization": "Basic {}", "Cookie": "memorist-7700={}"}[shown]
    received = [
        browser.request(method, path, headers={shown: spelled.format(n)}).status_code
        for n in range(8)
    ]
    assert received[0] in (200, 401)
    assert 429 in received
    assert browser.sign_in(good).status_code == 200


def test_requests_without_a_key_do_not_block_sign_ins(
    open_memory: Callable[..., Memory], browsers: Browsers
) -> None:
    """P0.6: any web page can make a browser send such requests."""
    app = create_app(open_memory(rate_per_second=1))
    good, browser = create_key(app), browsers(over=app)
    assert {
        browser.get("/api/agents", headers={"Sec-Fetch-Site": "cross-site"}).status_code
        for _ in range(20)
    } == {401}
    assert browser.sign_in(good).status_code == 200


def test_a_browser_has_the_identity_of_its_key(app: Starlette, browsers: Browsers) -> None:
    browser = browsers()
    browser.sign_in(create_key(app, ["read"], user="ada", agent="scout"))
    payload = browser.get("/api/web").json()
    assert (payload["user"], payload["me"]["agent"], payload["me"]["permissions"]) == (
        "ada",
        "scout",
        ["read"],
    )
    assert browser.put("/api/state/theme", json={"value": 1}).status_code == 403
    assert browser.get("/api/state", params={"user": "bob"}).status_code == 403


def test_the_page_learns_the_name_of_the_model(url: str, browsers: Browsers) -> None:
    settings = replace(SETTINGS, database=url)
    with Memory.open(
        settings=settings, models=Models(settings, main=ScriptedModel("Yes.", name="m1"))
    ) as memory:
        assert browsers(over=create_app(memory)).get("/api/web").json()["model"] == "m1"


# -- what is kept ------------------------------------------------------------------------------------------------


def test_stored_sign_ins_cannot_be_used(app: Starlette, browsers: Browsers, key: str) -> None:
    """P0.2: the table has the SHA-256 of 256 random bits; the audit log only has the name."""
    browser = browsers()
    token = cookie(browser.sign_in(key)).value
    ((held, id, _),) = rows(app.state.memory)
    assert token not in held
    assert id == key.split("_")[2]
    assert len(token.split("_")[1]) * 5 >= 256
    for wrong in (held, token[:-1], token.split("_")[0] + "_" + held[:52], key, ""):
        stranger = browsers()
        stranger.cookies.set("memorist-7700", wrong)
        assert stranger.get("/api/me").status_code == 401
    assert (
        browsers().get("/api/me", headers={"Authorization": f"Bearer {token}"}).status_code == 401
    ), "good as a cookie alone"
    assert browser.get("/api/me").status_code == 200
    assert browsers().get("/api/me", headers={"X-API-Key": token}).status_code == 401
    browser.post("/api/web/sign-out")
    records = app.state.memory.scope(tenant="acme").admin.audit.list().items
    assert [(record.what, record.subject) for record in records] == [
        ("signout", f"keys {id}"),
        ("signin", f"keys {id}"),
    ]
    assert all(token not in str(record) for record in records)


def test_sign_ins_per_key_are_limited(app: Starlette, key: str) -> None:
    """P16"""
    signins, id = BrowserSessions(app.state.memory.database), key.split("_")[2]
    texts = [signins.add("acme", id).text for _ in range(MAX_SESSIONS_PER_KEY + 3)]
    assert len(rows(app.state.memory)) == MAX_SESSIONS_PER_KEY
    assert signins.authenticate(texts[-1]).key == id
    with pytest.raises(Unauthorized):
        signins.authenticate(texts[0])


# -- going out ---------------------------------------------------------------------------------------------------


def test_signing_out_ends_only_one_sign_in(app: Starlette, browsers: Browsers, key: str) -> None:
    first, other = browsers(), browsers()
    token = cookie(first.sign_in(key)).value
    other.sign_in(key)
    assert len(rows(app.state.memory)) == 2
    out = first.post("/api/web/sign-out")
    assert out.status_code == 200
    assert out.json()["signed_in"] is False
    assert not first.cookies
    assert len(rows(app.state.memory)) == 1
    first.cookies.set("memorist-7700", token)
    assert first.get("/api/me").status_code == 401, "whoever kept the cookie has nothing"
    assert first.post("/api/web/sign-out").status_code == 200
    assert other.get("/api/me").status_code == 200


def test_a_sign_in_ends_with_its_key(app: Starlette, browsers: Browsers, key: str) -> None:
    browser, admin = browsers(), browsers()
    browser.sign_in(key)
    admin.sign_in(create_key(app))
    assert browser.get("/api/me").status_code == 200
    assert admin.delete(f"/api/keys/{key.split('_')[2]}").status_code == 200
    assert browser.get("/api/me").status_code == 401
    assert browser.get("/api/web").json()["signed_in"] is False
    with pytest.raises(Unauthorized):
        BrowserSessions(app.state.memory.database).add("acme", key.split("_")[2])


def test_a_key_revoked_by_another_process_ends_the_sign_in_within_seconds(
    app: Starlette, browsers: Browsers, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authenticator_module, "CACHE_SECONDS", 0.0)
    browser = browsers()
    browser.sign_in(key)
    app.state.memory.scope(tenant="acme").admin.keys.revoke(key.split("_")[2])
    assert browser.get("/api/me").status_code == 401


def test_erasing_a_user_ends_their_sign_ins(app: Starlette, browsers: Browsers, key: str) -> None:
    ada, admin = browsers(), browsers()
    ada.sign_in(create_key(app, user="ada"))
    admin.sign_in(key)
    app.state.memory.scope(tenant="acme", user="ada").state.set("theme", 1)
    app.state.memory.scope(tenant="acme").admin.users.erase("ada")
    app.state.authenticator.forget()
    assert len(rows(app.state.memory)) == 1
    assert ada.get("/api/me").status_code == 401
    assert admin.get("/api/me").status_code == 200


def test_a_sign_in_expires_and_never_outlives_its_key(
    open_memory: Callable[..., Memory],
    now: Now,
    browsers: Browsers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(authenticator_module, "CACHE_SECONDS", 0.0)
    app = create_app(memory := open_memory(clock=now))
    day, long = browsers(over=app), browsers(over=app)
    day.sign_in(key := create_key(app))
    long.sign_in(key, remember=True)
    ends = clock.to_datetime(now.micros) + timedelta(days=3)
    short = browsers(over=app)
    assert (
        int(cookie(short.sign_in(create_key(app, expires_at=ends), remember=True))["max-age"])
        == 3 * 24 * 3600
    )
    now.pass_days(0.49)
    assert [item.get("/api/me").status_code for item in (day, long, short)] == [200, 200, 200]
    now.pass_days(0.02)
    assert [item.get("/api/me").status_code for item in (day, long, short)] == [401, 200, 200]
    now.pass_days(2.5)
    assert [item.get("/api/me").status_code for item in (day, long, short)] == [401, 200, 401]
    memory.purge()
    assert len(rows(memory)) == 1, "what has ended is swept"
    now.pass_days(27.1)
    assert long.get("/api/me").status_code == 401
    memory.purge()
    assert rows(memory) == []


# -- other sites, other servers ------------------------------------------------------------------------------------


def test_a_write_needs_the_csrf_token(app: Starlette, browsers: Browsers, key: str) -> None:
    """P0.6: a cookie without the token changes nothing, and other sites cannot read the token."""
    browser = browsers()
    token = cookie(browser.sign_in(key)).value
    word, where = browser.csrf, "/api/state/theme?user=ada"
    assert word == csrf_of(token)
    assert token not in (word or "")
    for wrong in (None, "x" * 64, csrf_of("other"), token, (word or "").upper()):
        browser.csrf = wrong
        created = browser.put(where, json={"value": 1})
        assert created.status_code == 403
        assert "X-Memorist-CSRF" in created.json()["detail"]
        assert browser.post("/api/web/sign-out").status_code == 403
    assert browser.get("/api/state", params={"user": "ada"}).json()["data"] == []
    browser.csrf = word
    assert browser.put(where, json={"value": 1}).status_code == 200
    twice = [("X-Memorist-CSRF", word or ""), ("X-Memorist-CSRF", "x")]
    assert (
        TestClient.request(browser, "PUT", where, json={"value": 2}, headers=twice).status_code
        == 400
    )


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_cookie_is_ignored_on_cross_site_requests(
    open_memory: Callable[..., Memory], browsers: Browsers, site: str
) -> None:
    """Also for an allowed origin: it needs its own key."""
    app = create_app(open_memory(allowed_origins="https://app.example.org", auth="keys"))
    browser = browsers(over=app)
    browser.sign_in(create_key(app))
    assert browser.get("/api/me", headers={"Sec-Fetch-Site": site}).status_code == 401
    assert browser.get("/api/me", headers={"Origin": "https://app.example.org"}).status_code == 401
    created = browser.put(
        "/api/state/theme", json={"value": 1}, headers={"Origin": "https://app.example.org"}
    )
    assert created.status_code == 401
    allowed = browser.get("/api/web", headers={"Origin": "https://app.example.org"})
    assert allowed.json()["signed_in"] is False
    assert "access-control-allow-credentials" not in allowed.headers
    there = {"Origin": "https://app.example.org", "Sec-Fetch-Site": "cross-site"}
    signing = browser.post("/api/web/sign-in", json={"key": create_key(app)}, headers=there)
    assert signing.status_code == 403
    assert "set-cookie" not in signing.headers


def test_another_site_cannot_write_to_a_keyless_server(browsers: Browsers, memory: Memory) -> None:
    """A form of another site is sent without a preflight; Origin or Sec-Fetch-Site reveals it."""
    browser = browsers()
    payload = browser.get("/api/web").json()
    assert (payload["needs_key"], payload["signed_in"], payload["csrf"]) == (False, True, None)
    assert payload["me"]["name"] == "local"
    text = {"Content-Type": "text/plain"}
    for headers in (
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://127.0.0.1:9999", "Sec-Fetch-Site": "same-site"},
    ):
        result = browser.post(
            "/api/sessions/resume", content='{"stored": null}', headers=text | headers
        )
        assert result.status_code == 403
    without = TestClient(browser.app, URL, client=HERE)
    result = without.post(
        "/api/sessions/resume", content="{}", headers=text | {"Sec-Fetch-Site": "cross-site"}
    )
    assert result.status_code == 403
    assert (
        without.put("/api/state/theme?user=ada", content='{"value": 1}', headers=text).status_code
        == 415
    )
    assert memory.counts()["sessions"] == memory.counts()["state"] == 0
    browser.cookies.set("memorist-7700", "left_over")
    assert browser.get("/api/web").json()["signed_in"] is True, (
        "a sign-in that has ended is no matter where none is needed"
    )
    assert browser.post("/api/web/sign-out").json()["signed_in"] is True


def test_mcp_ignores_cookies(browsers: Browsers, key: str) -> None:
    browser = browsers()
    browser.sign_in(key)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    for path in ("/mcp", "/mcp/all"):
        assert browser.post(path, json=call, headers=headers).status_code == 401


def test_a_planted_cookie_is_not_adopted(app: Starlette, browsers: Browsers, key: str) -> None:
    """A sign-in always creates a new session and ends the one in the request."""
    thief, victim = browsers(), browsers()
    set_by_thief = cookie(thief.sign_in(key)).value
    victim.cookies.set("memorist-7700", set_by_thief)
    signed = victim.sign_in(create_key(app))
    assert cookie(signed).value != set_by_thief
    assert thief.get("/api/me").status_code == 401
    victim.cookies.clear()
    name = name_of("127.0.0.1:7700", secure=False)
    tossed = {"Cookie": f"{name}={set_by_thief}; {name}={cookie(signed).value}"}
    assert victim.get("/api/me", headers=tossed).status_code == 401, (
        "two of one name are somebody's doing"
    )


def test_a_cookie_is_rejected_by_another_server(
    app: Starlette, browsers: Browsers, key: str
) -> None:
    browser = browsers()
    token = cookie(browser.sign_in(key)).value
    with Memory.open("memory:", settings=replace(SETTINGS, auth="keys")) as elsewhere:
        other = create_app(elsewhere)
        create_key(other)
        stranger = browsers(over=other)
        stranger.cookies.set("memorist-7700", token)
        assert stranger.get("/api/me").status_code == 401
        assert stranger.post("/api/web/sign-out").status_code == 200
    next_door = browsers("http://127.0.0.1:7800")
    next_door.cookies.set("memorist-7700", token)
    assert next_door.get("/api/me").status_code == 401, "the cookie of the server on another port"


def test_a_cookie_is_limited_to_its_tenant(app: Starlette, browsers: Browsers, key: str) -> None:
    """P11"""
    acme, globex = browsers(), browsers()
    token = cookie(acme.sign_in(key)).value
    mine = cookie(globex.sign_in(create_key(app, tenant="globex"))).value
    app.state.memory.scope(tenant="acme", user="ada").state.set("secret", "acme's")
    assert globex.get("/api/state", params={"user": "ada"}).json()["data"] == []
    globex.cookies.clear()
    globex.cookies.set("memorist-7700", f"{mine.split('_')[0]}_{token.split('_')[1]}")
    assert globex.get("/api/me").status_code == 401
    assert "nobody" not in app.state.memory.database.tenants()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["modern"], indirect=True)  # each server is a process
def test_a_sign_in_works_in_every_process_and_after_a_restart(url: str) -> None:
    with Memory.open(url, settings=SETTINGS) as memory:
        _, text = keys.create_key(memory, "acme", "x", PERMISSIONS)
        created, gone = (
            BrowserSessions(memory.database).add("acme", text.split("_")[2]) for _ in range(2)
        )
        with Process(url, auth="keys") as process:
            assert [by_cookie(process, item.text) for item in (created, gone)] == [200, 200]
        BrowserSessions(memory.database).remove(gone.text)
        with Process(url, auth="keys") as process:
            assert [by_cookie(process, item.text) for item in (created, gone)] == [200, 401]


def test_signing_out_in_another_process_takes_effect_soon(
    app: Starlette, browsers: Browsers, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P0.6: a cached sign-in is checked again, however often it is used."""
    monkeypatch.setattr(authenticator_module, "CACHE_SECONDS", 0.1)
    browser = browsers()
    token = cookie(browser.sign_in(key)).value
    assert browser.get("/api/me").status_code == 200
    BrowserSessions(app.state.memory.database).remove(token)
    until = time.monotonic() + 10
    while browser.get("/api/me").status_code == 200:
        assert time.monotonic() < until


def by_cookie(process: Process, token: str) -> int:
    """Return the response of a server to a cookie."""
    connection = HTTPConnection(*process.address, timeout=20)
    connection.request(
        "GET", "/api/me", headers={"Cookie": f"memorist-{process.address[1]}={token}"}
    )
    with closing(connection):
        return connection.getresponse().status


# -- in a browser ------------------------------------------------------------------------------------------------
