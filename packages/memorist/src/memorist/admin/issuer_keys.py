"""The public keys of a token issuer, from a file or an https URL.

PyJWT parses and caches them. This module decides which of them may verify a token, how often the
issuer is asked, and what happens while it does not answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt

from memorist.admin.credentials import INVALID_CREDENTIAL
from memorist.base import canonical, http
from memorist.base.errors import MemoristError, NoIssuer, SettingsError, Unauthorized

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
_FIELDS = ("kid", "kty", "crv", "n", "e", "x", "y")
_MIN_RSA_BITS = 2048
_log = logging.getLogger("memorist.auth")


class RemoteKeys(jwt.PyJWKClient):
    """The keys at an https URL: PyJWT's client with our requests and limits."""

    def __init__(self, url: str) -> None:
        # `fetch_data` limits the rate itself, because failed requests count too.
        super().__init__(url, lifespan=REFRESH_SECONDS, cooldown_duration=0)
        self._newest: jwt.PyJWKSet | None = None
        self._read_at = self._next_read = float("-inf")
        self._reading = threading.Lock()

    def fetch_data(self) -> jwt.PyJWKSet:
        """Return the newest keys; ask the issuer first, unless it was asked a moment ago."""
        # While there are keys, only one thread waits for the issuer.
        if self._reading.acquire(blocking=self._newest is None):
            try:
                if time.monotonic() >= self._next_read:
                    self._read()
            finally:
                self._reading.release()
        if self._newest is None or time.monotonic() - self._read_at > STALE_SECONDS:
            raise NoIssuer(seconds=round(MIN_REFRESH_SECONDS))
        return self._newest

    def _read(self) -> None:
        headers = {"Accept": "application/json", "User-Agent": "memorist"}
        request = http.OutgoingRequest(
            "GET", self.uri, headers, max_response_bytes=MAX_KEY_SET_BYTES, allow_private=True
        )
        try:
            response = http.send(request, FETCH_SECONDS)
            if response.status != 200:
                raise ValueError(f"the response has the status {response.status}")
            self._newest = parse_keys(response.body)
            self._read_at = time.monotonic()
        except (http.RequestFailed, ValueError) as error:
            _log.warning("Cannot read the issuer's keys: %s", error)
        finally:
            self._next_read = time.monotonic() + MIN_REFRESH_SECONDS


class FileKeys:
    """The keys in a file, which is read again when it has changed."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        try:
            self._changed = self._path.stat().st_mtime_ns
            self._keys = self._read()
        except (OSError, ValueError) as error:
            problem = f"{path} cannot be used: {error}"
            raise SettingsError(where="jwt_keys", problem=problem) from None

    def get_jwk_set(self, refresh: bool = False) -> jwt.PyJWKSet:
        """Return the keys; those from before if the file has become invalid."""
        try:
            changed = self._path.stat().st_mtime_ns
            if changed != self._changed:
                self._changed = changed
                self._keys = self._read()
        except (OSError, ValueError) as error:
            _log.warning("Cannot read the issuer's keys: %s", error)
        return self._keys

    def _read(self) -> jwt.PyJWKSet:
        with self._path.open("rb") as file:
            return parse_keys(file.read(MAX_KEY_SET_BYTES + 1))


class IssuerKeys:
    """Finds the key that verifies a token."""

    def __init__(self, location: str) -> None:
        if "://" in location and not location.lower().startswith("https://"):
            raise SettingsError(where="jwt_keys", problem="must be an https address or a file")
        self.source = RemoteKeys(location) if "://" in location else FileKeys(location)

    def find(self, id: Any, algorithm: Any) -> jwt.PyJWK:
        """Return the key with an id, or the only key, if it supports the algorithm."""
        if not isinstance(id, str | None):
            raise Unauthorized(problem=INVALID_CREDENTIAL)
        keys = self.source.get_jwk_set().keys
        if id is not None and all(key.key_id != id for key in keys):
            keys = self.source.get_jwk_set(refresh=True).keys
        has_one_id = len({key.key_id for key in keys}) == 1
        candidates = [
            key
            for key in keys
            if key.algorithm_name == algorithm and (has_one_id if id is None else key.key_id == id)
        ]
        if len(candidates) != 1:
            raise Unauthorized(problem=INVALID_CREDENTIAL)
        return candidates[0]


def parse_keys(data: bytes) -> jwt.PyJWKSet:
    """Return the usable keys of a JSON Web Key Set. Raise ValueError if there is none."""
    if len(data) > MAX_KEY_SET_BYTES:
        raise ValueError(f"it is larger than {MAX_KEY_SET_BYTES} bytes")
    try:
        key_set = canonical.parse(data.decode(), "jwt_keys")
    except MemoristError as error:
        raise ValueError(str(error)) from None
    items = key_set.get("keys") if isinstance(key_set, dict) else None
    items = items if isinstance(items, list) else []
    problem = "it has no public key that can be used (RSA from 2048 bits, EC or Ed25519)"
    try:
        keys = jwt.PyJWKSet([key for item in items for key in _usable(item)])
    except jwt.PyJWTError:
        raise ValueError(problem) from None
    keys.keys = [
        key for key in keys.keys if key.key_type != "RSA" or key.key.key_size >= _MIN_RSA_BITS
    ]
    if not keys.keys:
        raise ValueError(problem)
    return keys


def _usable(item: Any) -> list[dict[str, Any]]:
    """Return the public part of a key once for each algorithm that it may be used with."""
    if not isinstance(item, dict) or not isinstance(item.get("kid"), str | None):
        return []
    kind = str(item.get("kty"))
    algorithms = _ALGORITHMS.get((kind, None if kind == "RSA" else str(item.get("crv"))), ())
    if item.get("use", "sig") != "sig":
        return []
    public = {name: item[name] for name in _FIELDS if name in item}
    return [
        {**public, "alg": algorithm}
        for algorithm in algorithms
        if item.get("alg", algorithm) == algorithm
    ]
