"""JWT authentication: valid tokens, and no forged one (4.7: the JWT confusion set)."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import hmac
import http.server
import ipaddress
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from memorist.admin import issuer_keys, jwt_tokens
from memorist.admin.issuer_keys import RemoteKeys
from memorist.admin.jwt_tokens import JwtAuthenticator
from memorist.admin.principal import Principal
from memorist.base.errors import NoIssuer, SettingsError, Unauthorized
from memorist.base.http import trusted_certificates
from memorist.base.settings import Settings
from testkit.failures import raised
from testkit.tokens import (
    AUDIENCE,
    EC,
    ED,
    ISSUER,
    KEYS,
    RSA,
    SECRET,
    SMALL,
    claims,
    pem,
    public,
    signed,
    write_keys,
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(jwt_issuer=ISSUER, jwt_audience=AUDIENCE, jwt_keys=write_keys(KEYS, tmp_path))


@pytest.fixture
def known(settings: Settings) -> JwtAuthenticator:
    return JwtAuthenticator(settings)


def encoded(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_a_token_has_its_subject_and_tenant(known: JwtAuthenticator) -> None:
    end = int(time.time()) + 60
    token = signed(scope="openid read memorist:write", agent="scout", exp=end)
    admitted = known.authenticate(token)
    assert admitted.principal == Principal(
        "acme", frozenset({"read", "write"}), f"ada ({ISSUER})", "ada", "scout", end * 1_000_000
    )
    assert 60 < admitted.seconds <= 60 + jwt_tokens.LEEWAY_SECONDS
    assert admitted.key is None


@pytest.mark.parametrize(
    ("said", "allowed"),
    [
        ({"scope": None, "permissions": ["read", "delete", "else", 7]}, {"read", "delete"}),
        ({"scope": None, "scp": ["memorist:read"]}, {"read"}),
        ({"scope": None, "scp": "read write"}, {"read", "write"}),
        ({"scope": None}, set()),
        ({"scope": "readwrite READ admin2"}, set()),
    ],
)
def test_permissions_of_a_token(
    known: JwtAuthenticator, said: dict[str, Any], allowed: set[str]
) -> None:
    assert known.authenticate(signed(**said)).principal.permissions == allowed


def test_an_admin_token_is_bound_to_no_user(known: JwtAuthenticator) -> None:
    assert known.authenticate(signed(scope="read admin")).principal.user is None
    assert known.authenticate(signed(scope="read")).principal.user == "ada"


@pytest.mark.parametrize(
    ("key", "alg", "kid"), [(RSA, "RS256", "rsa"), (EC, "ES256", "ec"), (ED, "EdDSA", "ed")]
)
def test_each_key_type_has_its_algorithm(
    known: JwtAuthenticator, key: Any, alg: str, kid: str
) -> None:
    assert known.authenticate(signed(key, alg, kid)).principal.user == "ada"


def hs(secret: bytes, kid: str = "rsa", alg: str = "HS256") -> str:
    """Return a token signed with a public secret."""
    text = f"{encoded({'alg': alg, 'typ': 'JWT', 'kid': kid})}.{encoded(claims())}"
    return f"{text}.{encoded(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


@functools.cache
def unknown_key() -> Any:
    """Return a key that is not published; it takes half a second to create."""
    return rsa.generate_private_key(65537, 2048)


def confusions() -> dict[str, Callable[[], str]]:
    good = signed()
    head, body, signature = good.split(".")
    return {
        "none": lambda: f"{encoded({'alg': 'none', 'kid': 'rsa'})}.{body}.",
        "None": lambda: f"{encoded({'alg': 'None', 'kid': 'rsa'})}.{body}.{signature}",
        "no algorithm": lambda: f"{encoded({'kid': 'rsa'})}.{body}.{signature}",
        "no signature": lambda: f"{head}.{body}.",
        "two parts": lambda: f"{head}.{body}",
        "five parts": lambda: f"{head}.{body}.{signature}.{body}.{signature}",
        "HS256 with the public key": lambda: hs(
            pem(serialization.PublicFormat.SubjectPublicKeyInfo)
        ),
        "HS256 with the other form of it": lambda: hs(pem(serialization.PublicFormat.PKCS1)),
        "HS256 with the published key as JSON": lambda: hs(json.dumps(KEYS[0]).encode()),
        "HS256 with a published secret": lambda: hs(b"secretsecretsecretsecret", "oct"),
        "HS256 with nothing": lambda: hs(b""),
        "HS256 called RS256": lambda: hs(
            pem(serialization.PublicFormat.SubjectPublicKeyInfo), alg="RS256"
        ),
        "an algorithm that the key is not for": lambda: signed(RSA, "PS256"),
        "another key's kind": lambda: signed(EC, "ES256", "rsa"),
        "a key that is not published": lambda: signed(unknown_key(), "RS256", "mine"),
        "a key in the token": lambda: signed(
            unknown_key(), header={"jwk": public(RSAAlgorithm, unknown_key(), "mine")}
        ),
        "a key behind an address": lambda: signed(
            unknown_key(), header={"jku": "https://evil.example.org/jwks.json"}
        ),
        "a certificate behind an address": lambda: signed(
            unknown_key(), header={"x5u": "https://evil.example.org/x"}
        ),
        "a file as the key's id": lambda: signed(unknown_key(), kid="../../../dev/null"),
        "SQL as the key's id": lambda: signed(unknown_key(), kid="x' union select 'rsa"),
        "no key's id among many": lambda: signed(kid=None),
        "an id that is no text": lambda: (
            f"{encoded({'alg': 'RS256', 'kid': ['rsa']})}.{body}.{signature}"
        ),
        "a small key": lambda: signed(SMALL, "RS256", "small"),
        "a key to encrypt with": lambda: signed(EC, "ES256", "encrypts"),
        "something critical": lambda: signed(header={"crit": ["b64"], "b64": True}),
        "a type that is none of ours": lambda: signed(header={"typ": "logout+jwt"}),
        "a changed body": lambda: f"{head}.{encoded(claims(tenant='other'))}.{signature}",
        "a cut signature": lambda: good[:-8],
        "an empty signature of EdDSA": lambda: (
            f"{encoded({'alg': 'EdDSA', 'kid': 'ed'})}.{body}.{encoded(bytes(64))}"
        ),
        "a zero signature of ES256": lambda: (
            f"{encoded({'alg': 'ES256', 'kid': 'ec'})}.{body}.{encoded(bytes(64))}"
        ),
        "no JSON": lambda: f"{encoded(b'x')}.{body}.{signature}",
        "a list": lambda: f"{encoded([])}.{body}.{signature}",
        "deep nesting": lambda: f"{encoded(b'[' * 3000)}.{body}.{signature}",
        "no letters": lambda: "é.é.é",
        "nothing": lambda: "",
        "dots": lambda: "..",
    }


CONFUSIONS = confusions()


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
@pytest.mark.parametrize("what", CONFUSIONS)
def test_confused_tokens_are_rejected(known: JwtAuthenticator, what: str) -> None:
    error = raised(Unauthorized, known.authenticate, CONFUSIONS[what]())
    assert error.details == raised(Unauthorized, known.authenticate, "nonsense").details


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://evil.example.org"},
        {"iss": ISSUER + "/"},
        {"iss": [ISSUER]},
        {"iss": None},
        {"aud": "another"},
        {"aud": None},
        {"aud": ["another"]},
        {"aud": AUDIENCE.upper()},
        {"exp": None},
        {"exp": int(time.time()) - jwt_tokens.LEEWAY_SECONDS - 5},
        {"exp": "soon"},
        {"exp": 1e400},
        {"nbf": int(time.time()) + jwt_tokens.LEEWAY_SECONDS + 600},
        {"nbf": "now"},
        {"iat": int(time.time()) + jwt_tokens.LEEWAY_SECONDS + 600},
        {"sub": None},
        {"sub": ""},
        {"sub": "a\nb"},
        {"tenant": None},
        {"tenant": ""},
        {"tenant": "*"},
        {"tenant": ["acme"]},
        {"agent": 7},
    ],
    ids=lambda changes: next(
        iter(changes)
    ),  # not its value: it may contain the time, and every process collects separately
)
def test_required_claims(known: JwtAuthenticator, changes: dict[str, Any]) -> None:
    payload = json.dumps(claims(**changes)).replace("Infinity", "1e400").encode()
    text = jwt.api_jws.encode(payload, RSA, "RS256", {"kid": "rsa", "typ": "JWT"})
    with pytest.raises(Unauthorized):
        known.authenticate(text)


SUPABASE: dict[str, Any] = {
    "tenant": None,
    "scope": None,
    "role": "authenticated",
    "session_id": "1",
}


def signed_with_secret(secret: str = SECRET, **changes: Any) -> str:
    return jwt.encode(claims(**changes), secret, "HS256")


def test_defaults_for_tokens_without_tenant_and_permissions(settings: Settings) -> None:
    known = JwtAuthenticator(
        replace(settings, jwt_tenant="tenant=acme", jwt_permissions="scope, scp = read, write")
    )
    principal = known.authenticate(signed(**SUPABASE)).principal
    assert (principal.tenant, principal.user) == ("acme", "ada")
    assert principal.permissions == {"read", "write"}
    named = known.authenticate(signed(tenant="other", scope="openid read")).principal
    assert (named.tenant, set(named.permissions)) == ("other", {"read"})
    for invalid in ("", 7, ["acme"], "*"):
        with pytest.raises(Unauthorized):
            known.authenticate(signed(tenant=invalid))


@pytest.mark.parametrize(
    ("settings_of_provider", "token", "tenant", "permissions"),
    [
        pytest.param(
            {"jwt_tenant": "app_metadata.tenant", "jwt_permissions": "app_metadata.memorist"},
            SUPABASE | {"app_metadata": {"tenant": "acme", "memorist": ["read", "write"]}},
            "acme",
            {"read", "write"},
            id="supabase",
        ),
        pytest.param(
            {"jwt_tenant": "https://app.example.org/tenant"},
            {
                "tenant": None,
                "https://app.example.org/tenant": "acme",
                "aud": [AUDIENCE, "https://acme.auth0.com/userinfo"],
                "scope": "openid profile",
                "permissions": ["memorist:read"],
            },
            "acme",
            {"read"},
            id="auth0",
        ),
        pytest.param(
            {"jwt_tenant": "org_id"},
            {"tenant": None, "org_id": "org_1", "scope": "memorist:delete"},
            "org_1",
            {"delete"},
            id="auth0-organization",
        ),
        pytest.param(
            {
                "jwt_tenant": "=acme",
                "jwt_permissions": "realm_access.roles, resource_access.my.client.roles",
            },
            {
                "tenant": "from a claim that the settings do not name",
                "scope": "admin",
                "realm_access": {"roles": ["offline_access", "memorist:read"]},
                "resource_access": {"my.client": {"roles": ["write"]}},
            },
            "acme",
            {"read", "write"},
            id="keycloak",
        ),
    ],
)
def test_tokens_of_identity_providers(
    settings: Settings,
    settings_of_provider: dict[str, Any],
    token: dict[str, Any],
    tenant: str,
    permissions: set[str],
) -> None:
    known = JwtAuthenticator(replace(settings, **settings_of_provider))
    principal = known.authenticate(signed(**token)).principal
    assert (principal.tenant, set(principal.permissions)) == (tenant, permissions)


@pytest.mark.parametrize("keys", [True, False], ids=["with keys", "without keys"])
def test_hs256_with_the_secret_only(settings: Settings, keys: bool) -> None:
    known = JwtAuthenticator(
        replace(settings, jwt_secret=SECRET, jwt_keys=settings.jwt_keys if keys else "")
    )
    assert known.authenticate(signed_with_secret()).principal.tenant == "acme"
    assert known.authenticate(signed_with_secret(scope="admin")).principal.user is None
    forged = [
        signed_with_secret(SECRET + "x"),
        signed_with_secret(aud="another"),
        jwt.encode(claims(), SECRET, "HS384"),
        *(CONFUSIONS[name]() for name in CONFUSIONS if name.startswith("HS256")),
        CONFUSIONS["none"](),
    ]
    if not keys:
        forged.append(signed())
    for token in forged:
        with pytest.raises(Unauthorized):
            known.authenticate(token)
    if keys:
        assert known.authenticate(signed()).principal.user == "ada"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"jwt_secret": "short"}, "jwt_secret: must have at least 32 bytes"),
        ({"jwt_keys": ""}, "jwt_keys: or jwt_secret must be set if jwt_issuer is set"),
        ({"jwt_tenant": "tenant=*"}, "jwt_tenant: the tenant after `=` cannot be '*'"),
        ({"jwt_tenant": "tenant=a\nb"}, "jwt_tenant: the tenant after `=` has a control character"),
        ({"jwt_tenant": "tenant="}, "jwt_tenant: the tenant after `=` must not be blank"),
        ({"jwt_tenant": "user_metadata.tenant=a"}, "jwt_tenant: cannot be user_metadata.tenant"),
        ({"jwt_tenant": "user_metadata.tenant"}, "jwt_tenant: cannot be user_metadata.tenant"),
        ({"jwt_permissions": "scope, user_metadata.may"}, "jwt_permissions: cannot be user_meta"),
        (
            {"jwt_permissions": "scope=read,admin"},
            "jwt_permissions: the permissions after `=` must be among read, write, delete, not 'admin'",
        ),
    ],
)
def test_unsafe_settings_are_rejected(
    settings: Settings, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        JwtAuthenticator(replace(settings, **changes))


def test_the_secret_is_not_printed(settings: Settings) -> None:
    assert SECRET not in repr(replace(settings, jwt_secret=SECRET))


def test_clock_leeway_and_several_audiences(known: JwtAuthenticator) -> None:
    moment = int(time.time())
    assert jwt_tokens.LEEWAY_SECONDS <= 60
    assert (
        known.authenticate(
            signed(
                exp=moment - jwt_tokens.LEEWAY_SECONDS + 10,
                nbf=moment + jwt_tokens.LEEWAY_SECONDS - 10,
            )
        ).principal.tenant
        == "acme"
    )
    assert known.authenticate(signed(aud=["else", AUDIENCE])).principal.tenant == "acme"


def test_the_tenant_claim_is_configurable(settings: Settings) -> None:
    named = JwtAuthenticator(replace(settings, jwt_tenant="https://example.org/org"))
    payload: dict[str, Any] = {"https://example.org/org": "theirs"}
    assert named.authenticate(signed(**payload)).principal.tenant == "theirs"
    with pytest.raises(Unauthorized):
        named.authenticate(signed())


def test_a_single_key_needs_no_id(settings: Settings, tmp_path: Path) -> None:
    single = JwtAuthenticator(replace(settings, jwt_keys=write_keys(KEYS[:1], tmp_path)))
    assert single.authenticate(signed(kid=None)).principal.tenant == "acme"


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"jwt_audience": ""}, "jwt_audience"),
        ({"jwt_keys": ""}, "jwt_keys"),
        ({"jwt_keys": "http://issuer.example.org/jwks.json"}, "jwt_keys"),
        ({"jwt_keys": "file:///etc/passwd"}, "jwt_keys"),
        ({"jwt_keys": "/nowhere/jwks.json"}, "jwt_keys"),
        ({"jwt_tenant": ""}, "jwt_tenant"),
    ],
)
def test_invalid_settings_are_rejected(
    settings: Settings, changes: dict[str, Any], where: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        JwtAuthenticator(replace(settings, **changes))
    assert caught.value.where == where


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"keys": []}', '{"keys": [7, {}]}', '{"keys": 7}', "\xff", '{"keys": {}}'],
)
def test_a_file_without_a_key_is_rejected(settings: Settings, tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(SettingsError):
        JwtAuthenticator(replace(settings, jwt_keys=str(file)))
    file.write_text(json.dumps({"keys": KEYS[:1], "more": "x" * issuer_keys.MAX_KEY_SET_BYTES}))
    with pytest.raises(SettingsError):
        JwtAuthenticator(replace(settings, jwt_keys=str(file)))


def test_a_changed_file_is_read_again(settings: Settings, tmp_path: Path) -> None:
    keys = write_keys(KEYS[:1], tmp_path)
    known = JwtAuthenticator(replace(settings, jwt_keys=keys))
    token = signed(EC, "ES256", "ec")
    with pytest.raises(Unauthorized):
        known.authenticate(token)
    write_keys(KEYS[:2], tmp_path)
    assert known.authenticate(token).principal.user == "ada"
    Path(keys).write_text("{}")
    assert known.authenticate(token).principal.user == "ada", "an invalid file changes nothing"


class Issuer:
    """An issuer's keys at an https URL, with configurable faults."""

    def __init__(self, folder: Path) -> None:
        self.keys = KEYS[:1]
        self.requests = 0
        self.status = 200
        self.padding = ""
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.requests += 1
                body = json.dumps({"keys": issuer.keys, "padding": issuer.padding}).encode()
                self.send_response(issuer.status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self.certificate, key = certificate(folder)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}/jwks.json"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def certificate(folder: Path) -> tuple[Path, Path]:
    """Create a self-signed certificate for this machine, and its key."""
    name, moment = (
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "issuer")]),
        datetime.now(UTC),
    )
    created = (
        x509.CertificateBuilder(
            name, name, EC.public_key(), 1, moment - timedelta(days=1), moment + timedelta(days=1)
        )
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(EC, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(created.public_bytes(serialization.Encoding.PEM))
    plain = (
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / "key.pem").write_bytes(EC.private_bytes(*plain))
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def issuer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    created = Issuer(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(created.certificate))
    trusted_certificates.cache_clear()
    yield created
    created.close()
    trusted_certificates.cache_clear()


@pytest.fixture
def remote(settings: Settings, issuer: Issuer) -> JwtAuthenticator:
    return JwtAuthenticator(replace(settings, jwt_keys=issuer.url))


def keys_of(authenticator: JwtAuthenticator) -> RemoteKeys:
    keys = authenticator._keys
    assert keys is not None
    assert isinstance(keys.source, RemoteKeys)
    return keys.source


def test_keys_are_cached_and_refetched_for_a_new_id_at_a_limited_rate(
    remote: JwtAuthenticator, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood of unknown ids rarely asks the issuer, and a rotated key is found."""
    for _ in range(3):
        remote.authenticate(signed())
    assert issuer.requests == 1
    issuer.keys = [*KEYS[:2]]
    for number in range(50):
        with pytest.raises(Unauthorized):
            remote.authenticate(signed(kid=f"unknown {number}"))
    assert issuer.requests == 1, "it was asked a moment ago"
    monkeypatch.setattr(keys_of(remote), "_next_read", float("-inf"))
    assert remote.authenticate(signed(EC, "ES256", "ec")).principal.user == "ada"
    assert issuer.requests == 2


@pytest.mark.parametrize("trouble", ["redirect", "missing", "large", "empty", "closed", "stranger"])
def test_an_unavailable_issuer_is_503_and_never_401(
    remote: JwtAuthenticator, issuer: Issuer, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B32, for tokens: a token that cannot be checked is not an invalid one."""
    if trouble == "redirect":
        issuer.status = 302
    elif trouble == "missing":
        issuer.status = 404
    elif trouble == "large":
        issuer.padding = "x" * issuer_keys.MAX_KEY_SET_BYTES
    elif trouble == "empty":
        issuer.keys = []
    elif trouble == "closed":
        issuer.close()
    else:
        monkeypatch.delenv("SSL_CERT_FILE")
        trusted_certificates.cache_clear()
    for _ in range(3):
        with pytest.raises(NoIssuer) as caught:
            remote.authenticate(signed())
        assert caught.value.status == 503
        assert issuer.url not in str(caught.value)
    assert issuer.requests <= 1, "whoever sends tokens cannot make us ask again and again"


def test_cached_keys_outlive_an_unavailable_issuer(
    remote: JwtAuthenticator, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.authenticate(signed())
    issuer.status = 500
    cache = keys_of(remote).jwk_set_cache
    assert cache is not None
    monkeypatch.setattr(cache, "lifespan", 0.0)
    monkeypatch.setattr(keys_of(remote), "_next_read", float("-inf"))
    remote.authenticate(signed())
    assert issuer.requests == 2
    monkeypatch.setattr(issuer_keys, "STALE_SECONDS", 0.0)
    with pytest.raises(NoIssuer):
        remote.authenticate(signed())


def test_concurrent_first_requests_fetch_once(remote: JwtAuthenticator, issuer: Issuer) -> None:
    results: list[str | None] = []
    threads = [
        threading.Thread(
            target=lambda: results.append(remote.authenticate(signed()).principal.user)
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (results, issuer.requests) == (["ada"] * 8, 1)
