"""JSON Web Tokens of one issuer, as an alternative to API keys.

The issuer's published key decides which algorithm a signature may use, never the token. HS256 is
verified only with `jwt_secret`, never with a published key. `none` is not supported, and no key is
taken from a token. Issuer, audience and times must be valid. Settings name the claims for tenant
and permissions, and the defaults of tokens without them. The subject (`sub`) is the user; only a
token with the permission `admin` may act for other users.
"""

from __future__ import annotations

import http.client
import logging
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from retain.auth.api_keys import INVALID_CREDENTIAL, Authentication
from retain.auth.principal import PERMISSIONS, Permission, Principal
from retain.base import canonical, clock
from retain.base.errors import Invalid, NoIssuer, RetainError, SettingsError, Unauthorized
from retain.base.settings import Settings
from retain.storage.database import EVERY_TENANT

LEEWAY_SECONDS = 30
"""Allowed difference between the issuer's clock and this machine's."""
REFRESH_SECONDS = 600.0
"""Interval between reads of the issuer's keys. A token with an unknown key causes an earlier read."""
MIN_REFRESH_SECONDS = 30.0
"""Minimum interval between two reads, so that callers cannot flood the issuer."""
STALE_SECONDS = 86_400.0
"""Keys that could not be refreshed for this long are no longer trusted."""
MAX_KEY_SET_BYTES = 256 << 10
FETCH_SECONDS = 5.0
_ALGORITHMS: Mapping[tuple[str, str | None], tuple[str, ...]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
_SYMMETRIC = "HS256"
_PUBLIC_FIELDS = ("kty", "crv", "n", "e", "x", "y")
_TOKEN_TYPES = ("jwt", "at+jwt", "application/at+jwt")
_MIN_RSA_BITS = 2048
_MIN_SECRET_BYTES = 32
_USER_CONTROLLED = ("user_metadata", "raw_user_meta_data")
"""Claims that a user of Supabase can change: they must not decide what the user may do."""
_DEFAULT_PERMISSIONS = ("read", "write", "delete")
_log = logging.getLogger("retain.auth")


@dataclass(frozen=True)
class _PublicKey:
    id: str | None
    algorithms: tuple[str, ...]
    public: Any


class JwtAuthenticator:
    """Authenticates the tokens of one issuer."""

    def __init__(self, settings: Settings) -> None:
        self._issuer = settings.jwt_issuer
        self._audience = settings.jwt_audience
        _check_settings(settings)
        self._tenant_claim, self._default_tenant = _tenant_source(settings)
        self._permission_claims, self._default_permissions = _permission_source(settings)
        self._secret = settings.jwt_secret.encode()
        self._key_set = _KeySet(settings.jwt_keys) if settings.jwt_keys else None

    def authenticate(self, text: str) -> Authentication:
        """Return the principal of a token. Every invalid token gets the same error."""
        import jwt  # only a server that takes tokens needs it

        try:
            header = jwt.get_unverified_header(text)
            algorithm = header.get("alg")
            id = header.get("kid")
            if "crit" in header or str(header.get("typ") or "JWT").lower() not in _TOKEN_TYPES:
                raise Unauthorized(problem=INVALID_CREDENTIAL)
            claims = jwt.decode(
                text,
                self._find_key(id, algorithm),
                algorithms=[str(algorithm)],
                issuer=self._issuer,
                audience=self._audience,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
            return self._authentication(claims)
        except (
            jwt.PyJWTError,
            KeyError,
            ValueError,
            TypeError,
            OverflowError,
            RecursionError,
            Invalid,
        ):
            raise Unauthorized(problem=INVALID_CREDENTIAL) from None

    def _find_key(self, id: Any, algorithm: Any) -> Any:
        """Return the key that verifies a token: the secret for HS256, else a public key."""
        if algorithm == _SYMMETRIC and self._secret:
            return self._secret
        if self._key_set is None:
            raise Unauthorized(problem=INVALID_CREDENTIAL)
        return self._key_set.find(id, algorithm).public

    def _authentication(self, claims: Mapping[str, Any]) -> Authentication:
        tenant: Any = None
        if self._tenant_claim:
            tenant = _claim(claims, self._tenant_claim)
        if tenant is None and self._default_tenant:
            tenant = self._default_tenant
        tenant = canonical.key(tenant, "tenant")
        if tenant == EVERY_TENANT:
            raise Unauthorized(problem=INVALID_CREDENTIAL)
        subject = canonical.key(claims["sub"], "sub")
        agent = claims.get("agent")
        permissions = self._permissions(claims)
        principal = Principal(
            tenant,
            permissions,
            f"{subject} ({self._issuer})",
            None if "admin" in permissions else subject,
            None if agent is None else canonical.key(agent, "agent"),
            clock.limit(int(claims["exp"]) * clock.SECOND),
        )
        return Authentication(principal, float(claims["exp"]) + LEEWAY_SECONDS - time.time())

    def _permissions(self, claims: Mapping[str, Any]) -> frozenset[Permission]:
        """Return the permissions that claims name (`read` or `retain:read`), else the defaults."""
        names: list[str] = []
        for path in self._permission_claims:
            value = _claim(claims, path)
            if isinstance(value, str):
                names += value.split()
            else:
                names += [name for name in value or () if isinstance(name, str)]
        allowed = {name.removeprefix("retain:") for name in names}
        if not allowed & PERMISSIONS:
            allowed.update(self._default_permissions)
        return frozenset(permission for permission in PERMISSIONS if permission in allowed)


def jwt_authenticator(settings: Settings) -> JwtAuthenticator | None:
    """Return an authenticator for the issuer in the settings, or None if they name no issuer."""
    return JwtAuthenticator(settings) if settings.jwt_issuer else None


def _check_settings(settings: Settings) -> None:
    """Raise SettingsError if the settings about tokens are incomplete."""
    for name in ("jwt_audience", "jwt_tenant"):
        if not getattr(settings, name):
            raise SettingsError(where=name, problem="must be set if jwt_issuer is set")
    if not settings.jwt_keys and not settings.jwt_secret:
        raise SettingsError(
            where="jwt_keys", problem="or jwt_secret must be set if jwt_issuer is set"
        )
    if settings.jwt_secret and len(settings.jwt_secret.encode()) < _MIN_SECRET_BYTES:
        raise SettingsError(
            where="jwt_secret", problem=f"must have at least {_MIN_SECRET_BYTES} bytes"
        )


def _tenant_source(settings: Settings) -> tuple[str, str]:
    """Return the claim that names the tenant and the tenant of tokens without it."""
    where = "jwt_tenant"
    claim, separator, default = [part.strip() for part in settings.jwt_tenant.partition("=")]
    _check_claim(where, claim)
    if separator:
        try:
            canonical.key(default, where)
        except Invalid as error:
            problem = f"the tenant after `=` {error.problem}"
            raise SettingsError(where=where, problem=problem) from None
        if default == EVERY_TENANT:
            problem = f"the tenant after `=` cannot be {EVERY_TENANT!r}: name one tenant"
            raise SettingsError(where=where, problem=problem)
    return claim, default


def _permission_source(settings: Settings) -> tuple[Sequence[str], Sequence[str]]:
    """Return the claims that name permissions and the permissions of tokens that name none."""
    where = "jwt_permissions"
    names, _, defaults = settings.jwt_permissions.partition("=")
    claims = [name for part in names.split(",") if (name := part.strip())]
    for claim in claims:
        _check_claim(where, claim)
    permissions = [name for part in defaults.split(",") if (name := part.strip())]
    if unknown := set(permissions).difference(_DEFAULT_PERMISSIONS):
        allowed = ", ".join(_DEFAULT_PERMISSIONS)
        problem = f"the permissions after `=` must be among {allowed}, not {min(unknown)!r}"
        raise SettingsError(where=where, problem=problem)
    return claims, permissions


def _check_claim(where: str, path: str) -> None:
    if path.split(".", maxsplit=1)[0] in _USER_CONTROLLED:
        problem = f"cannot be {path}: users can change it. Use `app_metadata` instead"
        raise SettingsError(where=where, problem=problem)


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return the claim of this name, or the nested claim of a path with dots, or None.

    The name of a claim may contain dots, such as `https://example.org/tenant` in tokens of Auth0.
    """
    if path in claims:
        return claims[path]
    for name, inner in claims.items():
        if isinstance(inner, Mapping) and path.startswith(f"{name}."):
            return _claim(inner, path.removeprefix(f"{name}."))
    return None


class _KeySet:
    """The public keys of an issuer, from a file or an https URL; one thread refreshes them."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._keys: Sequence[_PublicKey] | None = None
        self._read_at = self._next_refresh = float("-inf")
        self._lock = threading.Lock()
        self._is_remote = "://" in location
        if self._is_remote and urlsplit(location).scheme != "https":
            raise SettingsError(where="jwt_keys", problem="must be an https address or a file")
        if not self._is_remote:
            try:
                self._keys = _parse_key_set(self._read())
                self._read_at = time.monotonic()
            except (OSError, ValueError) as error:
                raise SettingsError(
                    where="jwt_keys", problem=f"{location} cannot be used: {error}"
                ) from None

    def find(self, id: Any, algorithm: Any) -> _PublicKey:
        """Return the key with an id, or the only key, if it supports the algorithm."""
        if id is not None and not isinstance(id, str):
            raise Unauthorized(problem=INVALID_CREDENTIAL)
        keys = self._current_keys(id)
        candidates = [key for key in keys if key.id == id] if id is not None else list(keys)
        candidates = [key for key in candidates if algorithm in key.algorithms]
        if len(candidates) != 1 or (id is None and len(keys) != 1):
            raise Unauthorized(problem=INVALID_CREDENTIAL)
        return candidates[0]

    def _current_keys(self, id: str | None) -> Sequence[_PublicKey]:
        """Return all keys; refresh them first if they are old or the id is unknown."""
        # While there are keys, only one thread waits for the refresh.
        if self._is_due(id) and self._lock.acquire(blocking=self._keys is None):
            try:
                if self._is_due(id):
                    self._refresh()
            finally:
                self._lock.release()
        if self._keys is None or time.monotonic() - self._read_at > STALE_SECONDS:
            raise NoIssuer(seconds=round(MIN_REFRESH_SECONDS))
        return self._keys

    def _is_due(self, id: str | None) -> bool:
        now = time.monotonic()
        if now < self._next_refresh:
            return False
        if self._keys is None or now - self._read_at > REFRESH_SECONDS:
            return True
        return id is not None and all(key.id != id for key in self._keys)

    def _refresh(self) -> None:
        try:
            self._keys = _parse_key_set(self._read())
            self._read_at = time.monotonic()
        except (OSError, ValueError, http.client.HTTPException) as error:
            _log.warning("Cannot read the issuer's keys: %s: %s", type(error).__name__, error)
        finally:
            self._next_refresh = time.monotonic() + MIN_REFRESH_SECONDS

    def _read(self) -> bytes:
        if self._is_remote:
            return _fetch(self._location)
        with Path(self._location).open("rb") as file:
            return file.read(MAX_KEY_SET_BYTES + 1)


def _fetch(url: str) -> bytes:
    """Read an https address, without redirects, within limits of time and size."""
    parts = urlsplit(url)
    context = ssl.create_default_context()
    deadline = time.monotonic() + FETCH_SECONDS
    connection = http.client.HTTPSConnection(
        parts.hostname or "", parts.port, timeout=FETCH_SECONDS, context=context
    )
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(
            "GET", path, headers={"Accept": "application/json", "User-Agent": "retain"}
        )
        response = connection.getresponse()
        if response.status != 200:
            raise ValueError(f"the response has the status {response.status}")
        body = bytearray()
        while (piece := response.read1(1 << 14)) and len(body) <= MAX_KEY_SET_BYTES:
            body += piece
            if time.monotonic() > deadline:
                raise TimeoutError("the response takes too long")
        return bytes(body)
    finally:
        connection.close()


def _parse_key_set(data: bytes) -> Sequence[_PublicKey]:
    """Return the usable keys of a JSON Web Key Set. Raise ValueError if there is none."""
    if len(data) > MAX_KEY_SET_BYTES:
        raise ValueError(f"it is larger than {MAX_KEY_SET_BYTES} bytes")
    try:
        key_set = canonical.parse(data.decode(), "jwt_keys")
    except RetainError as error:
        raise ValueError(str(error)) from None
    items = key_set.get("keys") if isinstance(key_set, dict) else None
    items = items if isinstance(items, list) else []
    keys = [key for item in items if isinstance(item, dict) and (key := _parse_key(item))]
    if not keys:
        raise ValueError(
            "it has no public key that can be used (RSA from 2048 bits, EC or Ed25519)"
        )
    return keys


def _parse_key(item: Mapping[str, Any]) -> _PublicKey | None:
    """Return a key, or None if this server cannot verify signatures with it."""
    import jwt

    kind = item.get("kty")
    curve = item.get("crv")
    id = item.get("kid")
    algorithms = _ALGORITHMS.get((str(kind), None if kind == "RSA" else str(curve)), ())
    if "alg" in item:
        algorithms = tuple(name for name in algorithms if name == item["alg"])
    if not algorithms or item.get("use", "sig") != "sig" or not isinstance(id, str | None):
        return None
    try:
        public = jwt.PyJWK(
            {name: item[name] for name in _PUBLIC_FIELDS if name in item}, algorithms[0]
        ).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if kind == "RSA" and public.key_size < _MIN_RSA_BITS:
        return None
    return _PublicKey(id, algorithms, public)
