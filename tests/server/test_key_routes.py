"""Key routes: limited by the caller's own permissions and tenant, shown once, audited."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from starlette.applications import Starlette
from starlette.testclient import TestClient

from memorist import Memory
from memorist.admin.principal import PERMISSIONS
from memorist.server.http.app import create_app
from testkit.apps import HERE, URL, Calling
from testkit.databases import SETTINGS, one_engine
from testkit.keys import create_key
from testkit.rows import raw


def test_a_key_is_created_used_listed_and_revoked(
    http: TestClient, app: Starlette, url: str
) -> None:
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    payload = {"name": "ci", "permissions": ["write", "read"], "user": "ada", "expires_at": until}
    response = http.post("/api/keys", json=payload)
    assert response.status_code == 201
    assert response.headers["cache-control"] == "no-store"
    body = response.json()
    text = body.pop("key")
    assert (body["name"], body["permissions"], body["user"]) == ("ci", ["read", "write"], "ada")
    guest = TestClient(app, URL, headers={"X-API-Key": text}, client=HERE)
    assert guest.get("/api/me").json()["name"] == f"ci ({body['id']})"
    assert guest.get("/api/keys").status_code == 403
    listed = http.get("/api/keys")
    assert [key["name"] for key in listed.json()["data"]] == ["a test", "ci"]
    assert text.rpartition("_")[2] not in listed.text
    gone = http.delete(f"/api/keys/{body['id']}")
    assert gone.json()["revoked_at"]
    assert guest.get("/api/me").status_code == 401
    with raw(url) as database:
        rows = [tuple(row) for row in database.all("select * from audit")]
    assert text.rpartition("_")[2] not in repr(rows)
    assert repr(rows).count(f"keys {body['id']}") == 2, "made, and revoked"


def test_creating_the_first_key_ends_keyless_access() -> None:
    with Memory.open("memory:", settings=SETTINGS) as memory:
        here = TestClient(create_app(memory), URL, client=HERE)
        text = here.post(
            "/api/keys", json={"name": "x", "permissions": sorted(PERMISSIONS)}
        ).json()["key"]
        assert here.get("/api/me").status_code == 401
        assert here.get("/api/me", headers={"X-API-Key": text}).status_code == 200


@one_engine
def test_a_key_cannot_grant_permissions_it_lacks(calling: Calling) -> None:
    http = calling("acme", ["admin", "read"])
    assert (
        http.post("/api/keys", json={"name": "x", "permissions": ["read", "admin"]}).status_code
        == 201
    )
    response = http.post("/api/keys", json={"name": "x", "permissions": ["read", "delete"]})
    assert (response.status_code, "delete" in response.json()["detail"]) == (403, True)
    assert len(http.get("/api/keys").json()["data"]) == 2


@one_engine
def test_a_bound_key_manages_no_keys(calling: Calling) -> None:
    for bound in ({"user": "ada"}, {"agent": "scout"}):
        http = calling("acme", **bound)
        assert http.get("/api/keys").status_code == 403
        assert (
            http.post("/api/keys", json={"name": "x", "permissions": ["read"]}).status_code == 403
        )
        assert http.delete("/api/keys/x").status_code == 403


@one_engine
def test_an_invalid_request_creates_no_key(http: TestClient) -> None:
    for item in (
        {},
        {"name": "x", "permissions": []},
        {"name": "x", "permissions": ["root"]},
        {"name": "x", "permissions": "read"},
        {"name": "", "permissions": ["read"]},
        {"name": "x", "permissions": ["read"], "tenant": "other"},
        {"name": "x", "permissions": ["read"], "expires_at": "2001-01-01T00:00:00Z"},
        {"name": "x", "permissions": ["read"], "expires_at": "2999-01-01T00:00:00"},
        {"name": "x", "permissions": ["read"], "expires_at": "soon"},
    ):
        assert http.post("/api/keys", json=item).status_code == 422, item
    assert http.get("/api/keys", params={"limit": "0"}).status_code == 422
    assert http.get("/api/keys", params={"after": "x"}).status_code == 422
    assert len(http.get("/api/keys").json()["data"]) == 1


def test_a_key_cannot_create_a_longer_lived_key() -> None:
    """A key that is valid for a day must not create one without an end."""
    with Memory.open("memory:", settings=SETTINGS) as memory:
        end = datetime.now(UTC) + timedelta(hours=1)
        _, text = create_key(memory, "acme", "short", PERMISSIONS, expires_at=end)
        http = TestClient(create_app(memory), URL, headers={"X-API-Key": text}, client=HERE)
        values = {"name": "x", "permissions": ["read"]}
        payload = http.post("/api/keys", json=values).json()
        assert datetime.fromisoformat(payload["expires_at"]) == end
        earlier = (end - timedelta(minutes=1)).isoformat()
        assert http.post("/api/keys", json={**values, "expires_at": earlier}).status_code == 201
        refused = http.post(
            "/api/keys", json={**values, "expires_at": (end + timedelta(seconds=1)).isoformat()}
        )
        assert refused.status_code == 403
        assert "cannot be valid for longer" in refused.json()["detail"]
        assert http.post("/api/keys", json={**values, "name": "ä" * 100}).status_code == 201
        assert http.post("/api/keys", json={**values, "name": "ä" * 101}).status_code == 413


def test_key_and_audit_routes_validate_like_all_others() -> None:
    """415 for other content types, 400 for unreadable JSON, 422 for unknown or repeated parameters."""
    with Memory.open("memory:", settings=SETTINGS) as memory:
        here = TestClient(create_app(memory), URL, client=HERE)
        for media in ("text/plain", None):
            headers = {"Content-Type": media} if media else {}
            assert (
                here.post(
                    "/api/keys", content=b'{"name":"x","permissions":["read"]}', headers=headers
                ).status_code
                == 415
            )
        for body in (b"{", b'{"name":NaN}', b'{"name":"\xff"}', b"[" * 100_000):
            broken = here.post(
                "/api/keys", content=body, headers={"Content-Type": "application/json"}
            )
            assert broken.status_code == 400
            assert "body" in broken.json()["detail"]
            assert "error parsing" not in broken.json()["detail"]
        for method, path in (
            ("GET", "/api/keys?limit=1&limit=2"),
            ("GET", "/api/keys?nonsense=1"),
            ("GET", "/api/audit?limit=1&limit=2"),
            ("GET", "/api/me?nonsense=1"),
            ("DELETE", "/api/keys/x?nonsense=1"),
            ("POST", "/api/users/x/erase?dry=1"),
        ):
            refused = here.request(method, path)
            assert (refused.status_code, bool(refused.json()["field"])) == (422, True), path
        assert here.get("/api/keys").json()["data"] == []
