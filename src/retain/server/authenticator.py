"""Authentication of requests: turn the credential of a request into a principal.

A credential is the header `Authorization: Bearer …` or `X-API-Key`, or the cookie of a browser that
signed in (cookies.py). A valid credential is cached for SECONDS, so most requests cost one hash. A
key revoked in this process is rejected at once, one revoked elsewhere within that time. If the
database cannot be reached, the response is 503, never 401.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from retain.auth import jwt_tokens
from retain.auth.api_keys import INVALID_CREDENTIAL, PREFIX, Authentication, Keys
from retain.auth.browser_sessions import BrowserSessions
from retain.auth.local import allows_requests_without_key, is_loopback
from retain.auth.principal import Permission, Principal, local_principal
from retain.base.errors import Invalid, RetainError, SettingsError, Unauthorized
from retain.base.settings import Settings
from retain.kinds.kind import Source
from retain.memory import Memory, Scope
from retain.server.cookies import check_csrf, token_of

USER = b"x-retain-user"
AGENT = b"x-retain-agent"
SECONDS = 5.0
"""Lifetime of a cached credential."""
KEYLESS_SECONDS = 1.0
"""Interval at which a database without keys is checked for its first key."""
USED_SECONDS = 60.0
MOST_KNOWN = 10_000
MOST_SCOPES = 2048
"""Cached scopes. A scope has no state, and creating one takes longer than a lookup."""
MOST_BYTES = 8192
_AFTER_SECONDS = 0.5
NOBODY = "nobody"
"""Set in the state of a request with a missing or wrong credential, also if it is answered."""
_FORWARDED = frozenset(
    (b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip")
)
_KEY = re.compile(r"rtn_[a-z2-7]+_[a-z2-7]{16}_[a-z2-7]{52}")
_NAMED = re.compile(r"(?:^|&)(?:access_token|api_key|x-api-key)=")
_COOKIE = b"cookie "  # cache prefix: a cookie's token is not valid as a header
_log = logging.getLogger("retain.door")
Check = Callable[[bytes], Authentication]


@dataclass
class _Known:
    admitted: Authentication
    until: float
    noted: float = float("-inf")


class Authenticator:
    """Authenticates requests by key, token or cookie, and local requests if there are no keys."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.keys = Keys(memory.database)
        self.signins = BrowserSessions(memory.database)
        self._tokens = jwt_tokens.jwt_authenticator(memory.settings)
        self._local = local_principal(memory.settings.tenant)
        self._known: dict[bytes, _Known] = {}
        self._scopes: dict[tuple[str, str | None, str | None, Source], Scope] = {}
        self._changes = 0
        self._keyless_until = float("-inf")
        self._keyed = not allows_requests_without_key(memory.settings)
        self._notes: set[asyncio.Future[None]] = set()

    async def authorize(
        self, request: HTTPConnection, permission: Permission, *, vendor: bool = False
    ) -> Principal:
        """Return the principal of a request. Raise Forbidden without the permission.

        vendor: the request comes from a vendor's client, which may send a key of that vendor
        """
        principal = await self.authenticate(request, vendor=vendor)
        principal.require(permission)
        return principal

    async def still(self, request: HTTPConnection, permission: Permission) -> bool:
        """Return whether a request is still authorized. A stream ends when it is not."""
        try:
            await self.authorize(request, permission)
        except (
            RetainError
        ):  # also if the database cannot be reached: the next request gets the error
            return False
        return True

    async def admin(self, request: HTTPConnection, does: str) -> Principal:
        """Return the principal of a request. Raise Forbidden unless it is the tenant's admin."""
        principal = await self.authorize(request, "admin")
        principal.require_whole_tenant(does)
        return principal

    def is_local(self, principal: Principal) -> bool:
        """Return whether this is the principal of local requests without a key."""
        return principal is self._local

    async def authenticate(self, request: HTTPConnection, *, vendor: bool = False) -> Principal:
        """Return the principal of a request, and store it in the request's state for the log."""
        state = request.scope.setdefault("state", {})
        try:
            state["principal"] = principal = await self._principal(request, vendor)
        except Unauthorized as error:
            if error.status == 401:
                state[NOBODY] = True
            raise
        return principal

    async def _principal(self, request: HTTPConnection, vendor: bool) -> Principal:
        _refuse_in_address(request)
        headers = request.scope["headers"]
        if vendor and not self._keyed and _is_only_theirs(headers):
            try:
                return await self._nobody(request)
            except Unauthorized:
                raise Unauthorized(problem=INVALID_CREDENTIAL) from None
        credential = credential_of(headers)
        token = token_of(request.scope) if credential is None else None
        if token is not None:
            try:
                return await self._signed_in(request, token)
            except Unauthorized as error:
                if error.status != 401 or self._keyed:
                    raise
        if credential is None:
            return await self._nobody(request)
        return await self._holder(credential, self._check)

    async def _signed_in(self, request: HTTPConnection, token: str) -> Principal:
        """Return the principal of a browser that signed in."""
        principal = await self._holder(
            _COOKIE + token.encode("latin-1"), lambda _: self.signins.authenticate(token)
        )
        check_csrf(request.scope, token)
        return principal

    async def _holder(self, credential: bytes, check: Check) -> Principal:
        """Return the principal of a credential, from the cache or the database."""
        digest = hashlib.sha256(credential).digest()
        known = self._known.get(digest)
        moment = time.monotonic()
        if known is None or known.until <= moment:
            known = await self._look(digest, credential, known, check)
        if known.admitted.key is not None and known.noted + USED_SECONDS <= moment:
            known.noted = moment
            asyncio.get_running_loop().call_later(_AFTER_SECONDS, self._note, known.admitted)
        return known.admitted.principal

    def scope(
        self,
        request: HTTPConnection,
        principal: Principal,
        user: str | None,
        agent: str | None,
        source: Source = "user",
    ) -> Scope:
        """Return the scope of a request.

        The tenant is the principal's; user and agent come from the parameters or the headers. The
        agent itself uses a key that is bound to it, so its writes have the source "agent".
        """
        user = user if user is not None else _header(request, USER)
        agent = agent if agent is not None else _header(request, AGENT)
        source = source if principal.agent is None else "agent"
        tenant, user, agent = principal.owner_of(user, agent)
        owner = (tenant, user, agent, source)
        scope = self._scopes.get(owner)
        if scope is None or scope.services is not self.memory.services:
            if len(self._scopes) >= MOST_SCOPES:
                self._scopes.clear()
            scope = self.memory.scope(tenant=tenant, user=user, agent=agent, source=source)
            self._scopes[owner] = scope
        return scope

    def forget(self) -> None:
        """Clear the cache: a key was created, revoked or erased in this process."""
        self._changes += 1
        self._known.clear()
        self._keyless_until = float("-inf")

    async def _look(
        self, digest: bytes, credential: bytes, before: _Known | None, check: Check
    ) -> _Known:
        """Check a credential against the database, and cache it if it is valid."""
        changes = self._changes
        admitted = await run_in_threadpool(check, credential)
        moment = time.monotonic()
        known = _Known(
            admitted,
            moment + min(SECONDS, admitted.seconds),
            before.noted if before else float("-inf"),
        )
        if changes == self._changes:  # else it may have been revoked during the check
            while len(self._known) >= MOST_KNOWN:
                self._known.pop(next(iter(self._known)), None)
            self._known.pop(digest, None)
            self._known[digest] = known
        return known

    def _check(self, credential: bytes) -> Authentication:
        text = credential.decode("latin-1")
        if text.startswith(PREFIX):
            return self.keys.authenticate(text)
        if self._tokens:
            return self._tokens.authenticate(text)
        raise Unauthorized(problem=INVALID_CREDENTIAL)

    async def _nobody(self, request: HTTPConnection) -> Principal:
        """Return the local principal. Raise Unauthorized if a key is needed."""
        if not self._keyed and _is_here(request):
            while not self._keyed and (moment := time.monotonic()) >= self._keyless_until:
                changes = self._changes
                keys_exist = await run_in_threadpool(self.keys.exist)
                self._keyed = self._keyed or keys_exist
                # Otherwise the first key may have been created during the check.
                if changes == self._changes:
                    self._keyless_until = moment + KEYLESS_SECONDS
            if not self._keyed:
                return self._local
        raise Unauthorized(problem="none was sent")

    def _note(self, admitted: Authentication) -> None:
        """Record the use of a key, in a thread and after the response."""
        noting = asyncio.ensure_future(run_in_threadpool(self._used, admitted))
        self._notes.add(noting)
        noting.add_done_callback(self._notes.discard)

    def _used(self, admitted: Authentication) -> None:
        assert admitted.key is not None
        try:
            self.keys.record_use(admitted.principal.tenant, admitted.key)
        except Exception as error:  # the request succeeded; the time of use is not essential
            _log.warning(
                "that the key %s was used could not be noted: %s",
                admitted.key,
                type(error).__name__,
            )


def refuse_open(memory: Memory) -> None:
    """Raise SettingsError if the server would listen to other machines without any key."""
    if not Keys(memory.database).exist():
        refuse_keyless(memory.settings)


def refuse_keyless(settings: Settings) -> None:
    """Raise SettingsError if a server without keys would listen to other machines."""
    if is_loopback(settings.host) or settings.jwt_issuer:
        return
    problem = (
        f"is {settings.host}, where other machines can come in, and there is no key yet: make one with `retain keys create "
        "NAME --permissions read,write,delete,admin`, or listen on 127.0.0.1"
    )
    raise SettingsError(where="host", problem=problem)


def _is_here(request: HTTPConnection) -> bool:
    """Return whether a request comes from this machine, and not through a proxy on it."""
    client = request.scope.get("client")
    if client is None or not is_loopback(client[0]):
        return False
    return _FORWARDED.isdisjoint([name for name, _ in request.scope["headers"]])


def _refuse_in_address(request: HTTPConnection) -> None:
    """Raise Invalid for a key in the URL, where logs would store it."""
    path: str = request.scope["path"]
    query: str = request.scope.get("query_string", b"").decode("latin-1")
    if "%" in path:
        path = unquote(path)
    if ("rtn_" in path and _KEY.search(path)) or (
        query and (_NAMED.search(query.lower()) or _KEY.search(unquote(query)))
    ):
        problem = "has a key in it, where logs keep it: send it as a header, and revoke this one"
        raise Invalid(field="address", problem=problem)


def credential_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Return the key or token of a request, or None. Raise Unauthorized if it is malformed."""
    credential: bytes | None = None
    for name, value in headers:
        if name == b"authorization":
            scheme, _, sent = value.strip().partition(b" ")
            sent = sent.strip() if scheme.lower() == b"bearer" else b""
        elif name == b"x-api-key":
            sent = value.strip()
        else:
            continue
        if name == b"authorization" and value.strip().lower() == b"bearer":
            continue  # examples send this if the variable for the key is empty
        if (credential is not None and credential != sent) or not sent or len(sent) > MOST_BYTES:
            raise Unauthorized(problem=INVALID_CREDENTIAL)
        credential = sent
    return credential


def _is_only_theirs(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether a request has only keys of others: a vendor's client always sends one."""
    sent = [value.strip() for name, value in headers if name in (b"authorization", b"x-api-key")]
    ours = PREFIX.encode()
    return bool(sent) and not any(ours in value for value in sent)


def _header(request: HTTPConnection, name: bytes) -> str | None:
    """Return a header as text. Raise Invalid unless it is UTF-8."""
    for header, value in request.scope["headers"]:
        if header == name:
            try:
                return bytes(value).decode()
            except UnicodeDecodeError:  # with replacement characters, two users could become one
                raise Invalid(field=name.decode(), problem="is not UTF-8 text") from None
    return None
