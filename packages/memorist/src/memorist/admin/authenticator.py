"""Authentication: turn a credential into a principal.

A credential is an API key, a token of the configured issuer, or the token in the cookie of a
browser that signed in. A valid credential is cached for CACHE_SECONDS, so most requests cost one
hash. A key revoked in this process is rejected at once, a key revoked elsewhere within that time. If
the database cannot be reached, the error is a 503, never a 401.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from anyio import to_thread

from memorist.admin import jwt_tokens
from memorist.admin.browser_sessions import BrowserSessions
from memorist.admin.credentials import INVALID_CREDENTIAL, PREFIX, Authentication, KeyChecker
from memorist.admin.local import allows_requests_without_key
from memorist.admin.principal import Principal, local_principal
from memorist.base.errors import Unauthorized
from memorist.base.settings import Settings
from memorist.storage.database import Database

CACHE_SECONDS = 5.0
"""Lifetime of a cached credential."""
KEYLESS_SECONDS = 1.0
"""Interval at which a database without keys is checked for its first key."""
RECORD_USE_SECONDS = 60.0
"""Interval at which the last use of a key is recorded."""
RECORD_DELAY_SECONDS = 0.5
"""The last use of a key is recorded this long after the request, which does not wait for it."""
MAX_CACHED_CREDENTIALS = 10_000
MAX_CREDENTIAL_BYTES = 8192
_COOKIE_PREFIX = b"cookie "
"""Marks cookies in the cache: the token of a cookie is not valid as a header."""
_NEVER = float("-inf")
_log = logging.getLogger("memorist.auth")

Check = Callable[[], Authentication]


@dataclass
class _CachedCredential:
    authentication: Authentication
    expires: float
    use_recorded: float = _NEVER


class Authenticator:
    """Authenticates credentials; also requests without one while the database has no keys."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.keys = KeyChecker(database)
        self.browser_sessions = BrowserSessions(database)
        self._jwt = jwt_tokens.jwt_authenticator(settings)
        self._local = local_principal(settings.tenant)
        self._cache: dict[bytes, _CachedCredential] = {}
        self._changes = 0
        self._keyless_until = _NEVER
        self._requires_key = not allows_requests_without_key(settings)
        self._recordings: set[asyncio.Future[None]] = set()

    @property
    def requires_key(self) -> bool:
        """Return whether requests without a credential are rejected."""
        return self._requires_key

    def is_local(self, principal: Principal) -> bool:
        """Return whether this is the principal of local requests without a key."""
        return principal is self._local

    async def authenticate(self, credential: bytes) -> Principal:
        """Return the principal of a key or a token. Raise Unauthorized if it is not valid."""
        return await self._authenticate(credential, lambda: self._check(credential))

    async def authenticate_cookie(self, token: str) -> Principal:
        """Return the principal of a browser that signed in, by the token in its cookie."""
        credential = _COOKIE_PREFIX + token.encode("latin-1")
        return await self._authenticate(
            credential, lambda: self.browser_sessions.authenticate(token)
        )

    async def authenticate_local(self) -> Principal:
        """Return the local principal. Raise Unauthorized if the database has a key."""
        while not self._requires_key and (now := time.monotonic()) >= self._keyless_until:
            changes = self._changes
            keys_exist = await to_thread.run_sync(self.keys.keys_exist)
            self._requires_key = self._requires_key or keys_exist
            # If this changed, the first key may have been created during the check.
            if changes == self._changes:
                self._keyless_until = now + KEYLESS_SECONDS
        if self._requires_key:
            raise no_credential()
        return self._local

    def forget(self) -> None:
        """Clear the cache: a key was added, revoked or erased in this process; from any thread."""
        self._changes += 1
        self._cache = {}
        self._keyless_until = _NEVER

    async def _authenticate(self, credential: bytes, check: Check) -> Principal:
        """Return the principal of a credential, from the cache or by a check."""
        digest = hashlib.sha256(credential).digest()
        cached = self._cache.get(digest)
        now = time.monotonic()
        if cached is None or cached.expires <= now:
            cached = await self._check_and_cache(digest, cached, check)
        key = cached.authentication.key
        if key is not None and cached.use_recorded + RECORD_USE_SECONDS <= now:
            cached.use_recorded = now
            tenant = cached.authentication.principal.tenant
            loop = asyncio.get_running_loop()
            loop.call_later(RECORD_DELAY_SECONDS, self._start_recording, tenant, key)
        return cached.authentication.principal

    async def _check_and_cache(
        self, digest: bytes, previous: _CachedCredential | None, check: Check
    ) -> _CachedCredential:
        """Check a credential against the database, and cache it if it is valid."""
        cache = self._cache  # if it is replaced during the check, the key may have been revoked
        authentication = await to_thread.run_sync(check)
        cached = _CachedCredential(
            authentication,
            expires=time.monotonic() + min(CACHE_SECONDS, authentication.seconds),
            use_recorded=previous.use_recorded if previous else _NEVER,
        )
        while len(cache) >= MAX_CACHED_CREDENTIALS:
            cache.pop(next(iter(cache)), None)
        cache.pop(digest, None)
        cache[digest] = cached
        return cached

    def _check(self, credential: bytes) -> Authentication:
        text = credential.decode("latin-1")
        if text.startswith(PREFIX):
            return self.keys.authenticate(text)
        if self._jwt:
            return self._jwt.authenticate(text)
        raise Unauthorized(problem=INVALID_CREDENTIAL)

    def _start_recording(self, tenant: str, key: str) -> None:
        """Record the use of a key, in a thread and after the response."""
        recording = asyncio.ensure_future(to_thread.run_sync(self._record_use, tenant, key))
        self._recordings.add(recording)
        recording.add_done_callback(self._recordings.discard)

    def _record_use(self, tenant: str, key: str) -> None:
        try:
            self.keys.record_use(tenant, key)
        except Exception as error:  # the request succeeded; the time of use is not essential
            _log.warning("Cannot record the use of key %s: %s", key, type(error).__name__)


def no_credential() -> Unauthorized:
    """Return the error for a request that needs a credential and has none."""
    return Unauthorized(problem="no key was sent")


def credential_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Return the key or token of a request, or None. Raise Unauthorized if it is malformed."""
    credential: bytes | None = None
    for name, value in headers:
        if name == b"authorization":
            scheme, _, candidate = value.strip().partition(b" ")
            candidate = candidate.strip() if scheme.lower() == b"bearer" else b""
        elif name == b"x-api-key":
            candidate = value.strip()
        else:
            continue
        if name == b"authorization" and value.strip().lower() == b"bearer":
            continue  # examples send this if the variable for the key is empty
        is_second = credential is not None and credential != candidate
        if is_second or not candidate or len(candidate) > MAX_CREDENTIAL_BYTES:
            raise Unauthorized(problem=INVALID_CREDENTIAL)
        credential = candidate
    return credential


def has_only_foreign_keys(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether a request has keys, but no memorist key: vendors' clients always send a key."""
    credentials = [
        value.strip() for name, value in headers if name in (b"authorization", b"x-api-key")
    ]
    prefix = PREFIX.encode()
    return bool(credentials) and not any(prefix in value for value in credentials)
