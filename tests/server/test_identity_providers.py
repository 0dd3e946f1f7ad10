"""The settings of the guide accept the tokens of Supabase, over HTTP."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
import yaml
from starlette.testclient import TestClient

from memorist import Memory
from memorist.base.settings import Settings
from memorist.server.http.app import create_app
from testkit.apps import HERE, URL
from testkit.databases import SETTINGS
from testkit.tokens import EC, KEYS, SECRET, write_keys

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "identity-providers.md"
ISSUER = "https://PROJECT.supabase.co/auth/v1"
ADA = "6f1cbe0c-5f3b-4f0e-9d64-0b7f0f0b7c11"
BOB = "0d7a1d7e-52a1-4a3d-8a8e-0a8f6f6f8a55"

Sign = Callable[..., str]


def supabase_claims(user: str, **app_metadata: Any) -> dict[str, Any]:
    """Return the claims of an access token as Supabase Auth issues them."""
    moment = int(time.time())
    return {
        "aal": "aal1",
        "amr": [{"method": "password", "timestamp": moment}],
        "app_metadata": {"provider": "email", "providers": ["email"], **app_metadata},
        "aud": "authenticated",
        "email": "ada@example.org",
        "exp": moment + 3600,
        "iat": moment,
        "is_anonymous": False,
        "iss": ISSUER,
        "phone": "",
        "role": "authenticated",
        "session_id": "b1d5f0b0-2e0c-4b0e-8f4e-0f1f4d0a8f11",
        "sub": user,
        "user_metadata": {"tenant": "victim", "memorist": ["admin"]},
    }


def guide_settings() -> dict[str, Any]:
    block = re.search(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert block is not None
    settings: dict[str, Any] = yaml.safe_load(block[1])
    return settings


@pytest.fixture(params=["keys", "secret"])
def signing(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[dict[str, str], Sign]:
    """The settings for the signature, and a function that signs claims as Supabase does."""
    if request.param == "keys":
        keys = write_keys(KEYS, tmp_path)
        return {"jwt_keys": keys}, lambda claims: jwt.encode(claims, EC, "ES256", {"kid": "ec"})
    settings = {"jwt_keys": "", "jwt_secret": SECRET}
    return settings, lambda claims: jwt.encode(claims, SECRET, "HS256")


@pytest.fixture
def client_of(
    signing: tuple[dict[str, str], Sign], tmp_path: Path
) -> Iterator[Callable[[dict[str, Any]], TestClient]]:
    """Return clients that send a token with the claims."""
    key_settings, sign = signing
    settings: Settings = replace(SETTINGS, **guide_settings() | key_settings)
    with ExitStack() as stack:
        memory = stack.enter_context(
            Memory.open(f"sqlite:///{tmp_path}/memory.db", settings=settings)
        )
        app = create_app(memory)

        def client(claims: dict[str, Any]) -> TestClient:
            headers = {"Authorization": f"Bearer {sign(claims)}"}
            return stack.enter_context(TestClient(app, URL, headers=headers, client=HERE))

        yield client


def test_supabase_users_have_their_own_memory(
    client_of: Callable[[dict[str, Any]], TestClient],
) -> None:
    ada = client_of(supabase_claims(ADA))
    me = ada.get("/api/me").json()
    assert (me["tenant"], me["user"]) == ("default", ADA)
    assert sorted(me["permissions"]) == ["delete", "read", "write"]
    assert ada.put("/api/state/theme", json={"value": "dark"}).status_code == 200
    assert ada.get("/api/state/theme").json()["value"] == "dark"

    bob = client_of(supabase_claims(BOB))
    assert bob.get("/api/state/theme").status_code == 404
    assert bob.get("/api/state/theme", headers={"X-Memorist-User": ADA}).status_code == 403
    assert bob.get("/api/keys").status_code == 403


def test_app_metadata_decides_tenant_and_permissions(
    client_of: Callable[[dict[str, Any]], TestClient],
) -> None:
    reader = client_of(supabase_claims(ADA, tenant="acme", memorist=["read"]))
    assert reader.get("/api/me").json()["tenant"] == "acme"
    assert reader.put("/api/state/theme", json={"value": "dark"}).status_code == 403


def test_project_keys_and_expired_tokens_are_rejected(
    client_of: Callable[[dict[str, Any]], TestClient],
) -> None:
    anon = {"iss": "supabase", "ref": "PROJECT", "role": "anon", "exp": int(time.time()) + 3600}
    assert client_of(anon).get("/api/me").status_code == 401
    assert client_of(anon | {"role": "service_role"}).get("/api/me").status_code == 401
    expired = supabase_claims(ADA) | {"exp": int(time.time()) - 60}
    assert client_of(expired).get("/api/me").status_code == 401


def test_a_token_creates_no_key_that_outlives_it(
    client_of: Callable[[dict[str, Any]], TestClient],
) -> None:
    claims = supabase_claims(ADA, memorist=["admin", "read"]) | {"exp": int(time.time()) + 300}
    http = client_of(claims)
    body = {"name": "x", "permissions": ["read"]}
    created = http.post("/api/keys", json=body)
    assert created.status_code == 201, created.text
    end = datetime.fromtimestamp(claims["exp"], UTC)
    assert datetime.fromisoformat(created.json()["expires_at"]) == end
    later = (end + timedelta(seconds=1)).isoformat()
    assert http.post("/api/keys", json={**body, "expires_at": later}).status_code == 403

    endless = client_of(supabase_claims(ADA, memorist=["admin", "read"]) | {"exp": 10**13})
    assert endless.post("/api/keys", json=body).status_code == 201
