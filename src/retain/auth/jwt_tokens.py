"""Tokens: who comes in with a JWT that an issuer signed, where the settings name one.

What a token may be signed with is decided by the issuer's published key, never by the token: a key has one kind of
algorithm, symmetric ones and `none` do not exist here, and no key is taken from a token. Its issuer, audience and times must
hold, and its tenant is a claim of its own. Whoever a token is about, its `sub`, is the user, and can name no other, unless
the token allows `admin`.
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

from retain.auth.api_keys import UNKNOWN, Admitted
from retain.auth.principal import PERMISSIONS, Permission, Principal
from retain.base import canonical
from retain.base.errors import Invalid, NoIssuer, RetainError, SettingsError, Unauthorized
from retain.base.settings import Settings
from retain.storage.database import EVERY_TENANT

LEEWAY = 30
"""How many seconds the issuer's clock may differ from this machine's."""
FRESH_SECONDS = 600.0
"""After so long the issuer's keys are read again; a token with an unknown key makes us read them sooner …"""
AGAIN_SECONDS = 30.0
"""… but never twice within this time, or whoever sends tokens could make us ask the issuer at will."""
STALE_SECONDS = 86_400.0
"""An issuer that cannot be asked for longer than this is trusted no more."""
MOST_BYTES = 256 << 10
FETCH_SECONDS = 5.0
_ALGORITHMS: Mapping[tuple[str, str | None], tuple[str, ...]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
_PUBLIC = ("kty", "crv", "n", "e", "x", "y")
_TYPES = ("jwt", "at+jwt", "application/at+jwt")
_LEAST_RSA_BITS = 2048
_log = logging.getLogger("retain.base.tokens")


@dataclass(frozen=True)
class _Key:
    id: str | None
    algorithms: tuple[str, ...]
    public: Any


class Tokens:
    """The tokens of one issuer."""

    def __init__(self, settings: Settings) -> None:
        self._issuer = settings.jwt_issuer
        self._audience = settings.jwt_audience
        self._tenant = settings.jwt_tenant
        for name in ("jwt_audience", "jwt_keys", "jwt_tenant"):
            if not getattr(settings, name):
                raise SettingsError(where=name, problem="is needed with jwt_issuer")
        self._keys = _Keys(settings.jwt_keys)

    def check(self, text: str) -> Admitted:
        """Whom a token lets in; whatever is wrong with one is answered alike."""
        import jwt  # only a server that takes tokens needs it

        try:
            header = jwt.get_unverified_header(text)
            algorithm, id = header.get("alg"), header.get("kid")
            if "crit" in header or str(header.get("typ") or "JWT").lower() not in _TYPES:
                raise Unauthorized(problem=UNKNOWN)
            key = self._keys.find(id, algorithm)
            claims = jwt.decode(
                text,
                key.public,
                algorithms=[str(algorithm)],
                issuer=self._issuer,
                audience=self._audience,
                leeway=LEEWAY,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
            return self._admitted(claims)
        except (
            jwt.PyJWTError,
            KeyError,
            ValueError,
            TypeError,
            OverflowError,
            RecursionError,
            Invalid,
        ):
            raise Unauthorized(problem=UNKNOWN) from None

    def _admitted(self, claims: Mapping[str, Any]) -> Admitted:
        tenant, agent = canonical.key(claims[self._tenant], self._tenant), claims.get("agent")
        if tenant == EVERY_TENANT:
            raise Unauthorized(problem=UNKNOWN)
        subject = canonical.key(claims["sub"], "sub")
        allowed = _permissions(claims)
        principal = Principal(
            tenant,
            allowed,
            f"{subject} ({self._issuer})",
            None if "admin" in allowed else subject,
            None if agent is None else canonical.key(agent, "agent"),
        )
        return Admitted(principal, float(claims["exp"]) + LEEWAY - time.time())


def of(settings: Settings) -> Tokens | None:
    """The tokens that the settings let in, None where they name no issuer."""
    return Tokens(settings) if settings.jwt_issuer else None


def _permissions(claims: Mapping[str, Any]) -> frozenset[Permission]:
    """What `scope`, `scp` or `permissions` allow, each as words or as a list of them: `read`, or `retain:read`."""
    named: list[str] = []
    for claim in ("scope", "scp", "permissions"):
        value = claims.get(claim)
        named += (
            value.split()
            if isinstance(value, str)
            else [word for word in value or () if isinstance(word, str)]
        )
    words = {word.removeprefix("retain:") for word in named}
    return frozenset(permission for permission in PERMISSIONS if permission in words)


class _Keys:
    """The public keys of an issuer, from a file or an https address, read again now and then by one thread at a time."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._found: Sequence[_Key] | None = None
        self._read_at = self._next = float("-inf")
        self._lock = threading.Lock()
        self._remote = "://" in place
        if self._remote and urlsplit(place).scheme != "https":
            raise SettingsError(where="jwt_keys", problem="must be an https address or a file")
        if not self._remote:
            try:
                self._found, self._read_at = _usable(self._read()), time.monotonic()
            except (OSError, ValueError) as error:
                raise SettingsError(
                    where="jwt_keys", problem=f"{place} cannot be used: {error}"
                ) from None

    def find(self, id: Any, algorithm: Any) -> _Key:
        """The key with an id, or the only one there is, if it can have signed with this algorithm."""
        if id is not None and not isinstance(id, str):
            raise Unauthorized(problem=UNKNOWN)
        keys = self._known(id)
        meant = [key for key in keys if key.id == id] if id is not None else list(keys)
        fitting = [key for key in meant if algorithm in key.algorithms]
        if len(fitting) != 1 or (id is None and len(keys) != 1):
            raise Unauthorized(problem=UNKNOWN)
        return fitting[0]

    def _known(self, id: str | None) -> Sequence[_Key]:
        """All keys; read now if it is time, or if one with this id is wanted that is not among them."""
        if self._due(id) and self._lock.acquire(
            blocking=self._found is None
        ):  # with keys at hand, nobody waits for another
            try:
                if self._due(id):
                    self._refresh()
            finally:
                self._lock.release()
        if self._found is None or time.monotonic() - self._read_at > STALE_SECONDS:
            raise NoIssuer(seconds=round(AGAIN_SECONDS))
        return self._found

    def _due(self, id: str | None) -> bool:
        moment = time.monotonic()
        if moment < self._next:
            return False
        missing = self._found is None or (
            id is not None and all(key.id != id for key in self._found)
        )
        return missing or moment - self._read_at > FRESH_SECONDS

    def _refresh(self) -> None:
        try:
            self._found, self._read_at = _usable(self._read()), time.monotonic()
        except (OSError, ValueError, http.client.HTTPException) as error:
            _log.warning("the issuer's keys cannot be read: %s: %s", type(error).__name__, error)
        finally:
            self._next = time.monotonic() + AGAIN_SECONDS

    def _read(self) -> bytes:
        if self._remote:
            return _fetch(self._place)
        with Path(self._place).open("rb") as file:
            return file.read(MOST_BYTES + 1)


def _fetch(url: str) -> bytes:
    """What is at an https address, and nowhere else: no redirect is followed, and neither time nor size is unlimited."""
    parts = urlsplit(url)
    context, end = ssl.create_default_context(), time.monotonic() + FETCH_SECONDS
    connection = http.client.HTTPSConnection(
        parts.hostname or "", parts.port, timeout=FETCH_SECONDS, context=context
    )
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(
            "GET", path, headers={"Accept": "application/json", "User-Agent": "retain"}
        )
        answer = connection.getresponse()
        if answer.status != 200:
            raise ValueError(f"the answer has the status {answer.status}")
        found = bytearray()
        while (piece := answer.read1(1 << 14)) and len(found) <= MOST_BYTES:
            found += piece
            if time.monotonic() > end:
                raise TimeoutError("the answer takes too long")
        return bytes(found)
    finally:
        connection.close()


def _usable(data: bytes) -> Sequence[_Key]:
    """The keys of a set that can check a signature; a set without one is an error, and the keys before it stay."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES} bytes")
    try:
        found = canonical.parse(data.decode(), "jwt_keys")
    except RetainError as error:
        raise ValueError(str(error)) from None
    listed = found.get("keys") if isinstance(found, dict) else None
    listed = listed if isinstance(listed, list) else []
    keys = [key for one in listed if isinstance(one, dict) and (key := _key(one))]
    if not keys:
        raise ValueError(
            "it has no public key that can be used (RSA from 2048 bits, EC or Ed25519)"
        )
    return keys


def _key(found: Mapping[str, Any]) -> _Key | None:
    import jwt

    kind, curve, id = found.get("kty"), found.get("crv"), found.get("kid")
    algorithms = _ALGORITHMS.get((str(kind), None if kind == "RSA" else str(curve)), ())
    if "alg" in found:
        algorithms = tuple(name for name in algorithms if name == found["alg"])
    if not algorithms or found.get("use", "sig") != "sig" or not isinstance(id, str | None):
        return None
    try:
        public = jwt.PyJWK(
            {name: found[name] for name in _PUBLIC if name in found}, algorithms[0]
        ).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if kind == "RSA" and public.key_size < _LEAST_RSA_BITS:
        return None
    return _Key(id, algorithms, public)
