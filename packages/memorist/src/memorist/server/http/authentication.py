"""Authentication of HTTP requests: find the credential of a request and the scope it may use.

A credential is the header `Authorization: Bearer …` or `X-API-Key`, or the cookie of a browser that
signed in. `memorist.admin.authenticator` checks it.

A browser sends a cookie with requests of any site, so a cookie alone proves little:

- It counts only if the browser says that our own page made the request.
- A change also needs a token that only our page knows (`X-Memorist-CSRF`).
- Over https its name begins with `__Host-`, which no other host can set. Without https it counts
  only on this machine.
- Its name has the port of the URL: cookies belong to a host, and two servers on one machine would
  sign each other out.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import unquote

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Scope as RequestScope

from memorist.admin.api_keys import ApiKeys
from memorist.admin.authenticator import (
    Authenticator,
    credential_of,
    has_only_foreign_keys,
    no_credential,
)
from memorist.admin.credentials import INVALID_CREDENTIAL
from memorist.admin.local import is_loopback
from memorist.admin.principal import Permission, Principal
from memorist.admin.users import Users
from memorist.base import canonical
from memorist.base.errors import Forbidden, Invalid, MemoristError, Unauthorized
from memorist.kinds.trust import Source
from memorist.memory import Memory, Scope
from memorist.storage.writer import Change

USER_HEADER = b"x-memorist-user"
AGENT_HEADER = b"x-memorist-agent"
MAX_CACHED_SCOPES = 2048
"""A scope has no state, and creating one takes longer than a lookup."""
UNAUTHENTICATED = "unauthenticated"
"""Set in the state of a request with a missing or wrong credential, even if it succeeds."""
_PROXY_HEADERS = frozenset(
    (b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip")
)
_KEY = re.compile(r"mst_[a-z2-7]+_[a-z2-7]{16}_[a-z2-7]{52}")
_KEY_PARAMETER = re.compile(r"(?:^|&)(?:access_token|api_key|x-api-key)=")

CSRF = b"x-memorist-csrf"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
_LABEL = b"memorist: a change from the page"
_OURS = (b"same-origin", b"none")
_NO_COOKIE = "/mcp"  # for programs, each with its own key
_MAX_BYTES = 2048


class RequestAuthenticator(Authenticator):
    """Authenticates requests by key, token or cookie, and local requests if there are no keys."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory.database, memory.settings)
        self.memory = memory
        self._scopes: dict[tuple[str, str | None, str | None, Source], Scope] = {}

    def forget_changed(self, change: Change, on_erasure: Callable[[str, str | None], None]) -> None:
        """Forget cached credentials after a change of keys or an erasure, by any interface.

        on_erasure: called with the tenant, and with the user if that is what was erased
        """
        is_erasure = change.event == "erased" or any(
            part.type == "erased" for part in change.parts or ()
        )
        if is_erasure:
            on_erasure(change.tenant, change.subject if change.kind == Users.name else None)
        if is_erasure or change.kind == ApiKeys.name:
            self.forget()

    async def authorize(
        self, request: HTTPConnection, permission: Permission, *, vendor: bool = False
    ) -> Principal:
        """Return the principal of a request. Raise Forbidden without the permission.

        vendor: the request comes from a vendor's client, which may send a key of that vendor
        """
        principal = await self.authenticate_request(request, vendor=vendor)
        principal.require(permission)
        return principal

    async def is_authorized(self, request: HTTPConnection, permission: Permission) -> bool:
        """Return whether a request is still authorized. A stream ends when it is not."""
        try:
            await self.authorize(request, permission)
        except MemoristError:
            # Also if the database cannot be reached: the next request gets the error.
            return False
        return True

    async def authorize_admin(self, request: HTTPConnection, action: str) -> Principal:
        """Return the principal of a request. Raise Forbidden unless it is the tenant's admin."""
        principal = await self.authorize(request, "admin")
        principal.require_whole_tenant(action)
        return principal

    def is_operator(self, principal: Principal) -> bool:
        """Return whether a principal is an admin of the server's own tenant.

        Only the operator may see data about the whole database, such as its number of rows. Other
        tenants may not, whatever permissions their keys have.
        """
        return "admin" in principal.permissions and principal.tenant == self.memory.settings.tenant

    async def authorize_operator(self, request: HTTPConnection) -> Principal:
        """Return the principal of a request. Raise Forbidden unless it is the operator."""
        principal = await self.authorize_admin(
            request, "see or change what concerns the whole server"
        )
        if not self.is_operator(principal):
            raise Forbidden(problem="this is for admins of the server's own tenant")
        return principal

    async def authenticate_request(
        self, request: HTTPConnection, *, vendor: bool = False
    ) -> Principal:
        """Return the principal of a request, and store it in the request's state for the log."""
        state = request.scope.setdefault("state", {})
        try:
            principal = await self._principal(request, vendor)
        except Unauthorized as error:
            if error.status == 401:
                state[UNAUTHENTICATED] = True
            raise
        state["principal"] = principal
        return principal

    async def _principal(self, request: HTTPConnection, vendor: bool) -> Principal:
        _reject_key_in_url(request)
        headers = request.scope["headers"]
        if vendor and not self.requires_key and has_only_foreign_keys(headers):
            try:
                return await self._local_principal(request)
            except Unauthorized:
                raise Unauthorized(problem=INVALID_CREDENTIAL) from None
        credential = credential_of(headers)
        if credential is not None:
            return await self.authenticate(credential)
        token = token_of(request.scope)
        if token is not None:
            try:
                principal = await self.authenticate_cookie(token)
                check_csrf(request.scope, token)
                return principal
            except Unauthorized as error:
                if error.status != 401 or self.requires_key:
                    raise
        return await self._local_principal(request)

    async def _local_principal(self, request: HTTPConnection) -> Principal:
        """Return the principal of a local request. Raise Unauthorized if a key is needed."""
        if not _is_local(request):
            raise no_credential()
        return await self.authenticate_local()

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
        headers = dict(request.scope["headers"])
        user_header = _header(headers, USER_HEADER)
        agent_header = _header(headers, AGENT_HEADER)
        if user is None:
            user = user_header
        if agent is None:
            agent = agent_header
        if principal.agent is not None:
            source = "agent"
        tenant, user, agent = principal.owner_of(user, agent)
        owner = (tenant, user, agent, source)
        scope = self._scopes.get(owner)
        if scope is None or scope.services is not self.memory.services:
            if len(self._scopes) >= MAX_CACHED_SCOPES:
                self._scopes.clear()
            scope = self.memory.scope(tenant=tenant, user=user, agent=agent, source=source)
            self._scopes[owner] = scope
        return scope


def _is_local(request: HTTPConnection) -> bool:
    """Return whether a request comes from this machine, and not through a proxy on it."""
    client = request.scope.get("client")
    if client is None or not is_loopback(client[0]):
        return False
    return _PROXY_HEADERS.isdisjoint([name for name, _ in request.scope["headers"]])


def _reject_key_in_url(request: HTTPConnection) -> None:
    """Raise Invalid for a key in the URL, where logs would store it."""
    path: str = request.scope["path"]
    query: str = request.scope.get("query_string", b"").decode("latin-1")
    if "%" in path:
        path = unquote(path)
    if ("mst_" in path and _KEY.search(path)) or (
        query and (_KEY_PARAMETER.search(query.lower()) or _KEY.search(unquote(query)))
    ):
        problem = "contains a key, which logs would store: send it as a header, and revoke this one"
        raise Invalid(field="address", problem=problem)


def _header(headers: Mapping[bytes, bytes], name: bytes) -> str | None:
    """Return a header as text. Raise Invalid unless it is UTF-8."""
    value = headers.get(name)
    if value is None:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:  # with replacement characters, two users could become one
        raise Invalid(field=name.decode(), problem="is not UTF-8 text") from None
    return canonical.key(text, name.decode())


def token_of(scope: RequestScope) -> str | None:
    """Return the token in the cookie of a request; None without a cookie that counts."""
    cookies = [value for name, value in scope["headers"] if name == b"cookie"]
    if not cookies:
        return None
    headers: dict[bytes, bytes] = dict(scope["headers"])
    if scope["path"].startswith(_NO_COOKIE) or headers.get(b"sec-fetch-site", b"none") not in _OURS:
        return None
    host = headers.get(b"host", b"")
    if headers.get(b"origin", b"http://" + host) not in (b"http://" + host, b"https://" + host):
        return None
    host_name = host.decode("latin-1")
    tokens = _values(cookies, name_of(host_name, secure=True))
    if not tokens and is_here(host_name):
        tokens = _values(cookies, name_of(host_name, secure=False))
    return tokens.pop() if len(tokens) == 1 else None


def name_of(host: str, *, secure: bool) -> str:
    """Return the name of the cookie for a host as the browser names it."""
    port = host.rpartition(":")[2]
    return ("__Host-memorist" if secure else "memorist") + (
        f"-{port}" if port.isdigit() and ":" in host else ""
    )


def is_here(host: str) -> bool:
    """Return whether a host name means the browser's own machine."""
    name, _, port = host.lower().rpartition(":")
    return is_loopback(name if port.isdigit() and name else host.lower())


def csrf_of(token: str) -> str:
    """Return the CSRF token of a sign-in. The sign-in's own token cannot be derived from it."""
    return hmac.new(token.encode(), _LABEL, hashlib.sha256).hexdigest()


def check_csrf(scope: RequestScope, token: str) -> None:
    """Raise Forbidden for a change without the right CSRF token."""
    if scope["method"] in SAFE:
        return
    sent = [value for name, value in scope["headers"] if name == CSRF]
    if len(sent) != 1 or not hmac.compare_digest(sent[0], csrf_of(token).encode()):
        problem = "the CSRF token is missing or wrong; send the header X-Memorist-CSRF with the token from /api/web, or reload the page"
        raise Forbidden(problem=problem)


def set_cookie(
    response: Response, host: str, token: str, *, secure: bool, seconds: float | None
) -> None:
    """Set the cookie in a response.

    seconds: its lifetime; None until the browser is closed, 0 deletes it
    """
    response.set_cookie(
        name_of(host, secure=secure),
        token,
        max_age=None if seconds is None else int(seconds),
        secure=secure,
        httponly=True,
        samesite="strict",
    )


def _values(cookies: Iterable[bytes], name: str) -> set[str]:
    """Return the values of a cookie. The caller ignores a cookie with two values: it was forged."""
    pairs = (pair.strip().partition(b"=") for line in cookies for pair in line.split(b";"))
    wanted = name.encode()
    return {
        value.decode("latin-1")
        for cookie_name, _, value in pairs
        if cookie_name == wanted and 0 < len(value) <= _MAX_BYTES
    }
