"""Who comes in: the credential of a request becomes a principal, before anything else is looked at.

A credential comes in a header, `Authorization: Bearer …` or `X-API-Key`, or is the cookie of a browser that signed in
(cookie.py), and comes nowhere else. What is found is remembered for SECONDS, so that most requests cost one hash: a key that
is revoked here is refused at once, one that is revoked elsewhere within that time. A database that cannot be asked is a 503,
never a 401.
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

USER, AGENT = b"x-retain-user", b"x-retain-agent"
SECONDS = 5.0
"""How long a credential that was good is good without being looked at again."""
KEYLESS_SECONDS = 1.0
"""How long a database without keys is taken for one, before it is asked again."""
USED_SECONDS = 60.0
MOST_KNOWN = 10_000
MOST_SCOPES = 2048
"""A scope has no state of its own, and making one takes longer than finding it."""
MOST_BYTES = 8192
_AFTER_SECONDS = 0.5
NOBODY = "nobody"
"""What the state of a request has whose credential is missing or wrong, also where it is answered all the same."""
_FORWARDED = frozenset(
    (b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip")
)
_KEY = re.compile(r"rtn_[a-z2-7]+_[a-z2-7]{16}_[a-z2-7]{52}")
_NAMED = re.compile(r"(?:^|&)(?:access_token|api_key|x-api-key)=")
_COOKIE = b"cookie "  # before what is remembered of one: it is good as a cookie alone
_log = logging.getLogger("retain.door")
Check = Callable[[bytes], Authentication]


@dataclass
class _Known:
    admitted: Authentication
    until: float
    noted: float = float("-inf")


class Authenticator:
    """Lets in whoever has a key, and whoever sits at the machine of a database that has none."""

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
        """The principal of a request, if it may do this; `vendor` says that it comes from somebody else's client."""
        principal = await self.authenticate(request, vendor=vendor)
        principal.require(permission)
        return principal

    async def still(self, request: HTTPConnection, permission: Permission) -> bool:
        """Whether a request that was let in would be let in now: what streams goes on no longer than that."""
        try:
            await self.authorize(request, permission)
        except RetainError:  # also where the database cannot be asked: who comes again hears why
            return False
        return True

    async def admin(self, request: HTTPConnection, does: str) -> Principal:
        """The principal of a request, if it may do something that is about the whole tenant."""
        principal = await self.authorize(request, "admin")
        principal.require_whole_tenant(does)
        return principal

    def is_local(self, principal: Principal) -> bool:
        """Whether this is whoever sits at the machine of a database that has no key."""
        return principal is self._local

    async def authenticate(self, request: HTTPConnection, *, vendor: bool = False) -> Principal:
        """The principal of a request, whatever it may do; kept with the request, for the log, as is that there is none."""
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
        """The principal of a browser that signed in; where nobody needs a key, a sign-in that has ended is no matter."""
        principal = await self._holder(
            _COOKIE + token.encode("latin-1"), lambda _: self.signins.authenticate(token)
        )
        check_csrf(request.scope, token)
        return principal

    async def _holder(self, credential: bytes, check: Check) -> Principal:
        """The principal that a credential is good for."""
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
        """Whose memory a request means: its tenant is the principal's, user and agent come as parameters or headers.

        A key that is one agent's alone is in that agent's hands: what is written with it is no person's word.
        """
        user = user if user is not None else _header(request, USER)
        agent = agent if agent is not None else _header(request, AGENT)
        source = source if principal.agent is None else "agent"
        tenant, user, agent = principal.owner_of(user, agent)
        whose = (tenant, user, agent, source)
        found = self._scopes.get(whose)
        if found is None or found.services is not self.memory.services:
            if len(self._scopes) >= MOST_SCOPES:
                self._scopes.clear()
            found = self.memory.scope(tenant=tenant, user=user, agent=agent, source=source)
            self._scopes[whose] = found
        return found

    def forget(self) -> None:
        """Look at every credential again: a key was made, revoked or erased here."""
        self._changes += 1
        self._known.clear()
        self._keyless_until = float("-inf")

    async def _look(
        self, digest: bytes, credential: bytes, before: _Known | None, check: Check
    ) -> _Known:
        """Ask the database, and remember what is good."""
        changes = self._changes
        admitted = await run_in_threadpool(check, credential)
        moment = time.monotonic()
        known = _Known(
            admitted,
            moment + min(SECONDS, admitted.seconds),
            before.noted if before else float("-inf"),
        )
        if changes == self._changes:  # else it may have been revoked while the database was asked
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
        """Whoever sits at this machine, if a key is not needed here."""
        if not self._keyed and _is_here(request):
            while not self._keyed and (moment := time.monotonic()) >= self._keyless_until:
                changes = self._changes
                found = await run_in_threadpool(self.keys.exist)
                self._keyed = self._keyed or found
                if (
                    changes == self._changes
                ):  # else the first key may have been made while the database was asked
                    self._keyless_until = moment + KEYLESS_SECONDS
            if not self._keyed:
                return self._local
        raise Unauthorized(problem="none was sent")

    def _note(self, admitted: Authentication) -> None:
        """Note in a thread, after the answer, that a key was used."""
        noting = asyncio.ensure_future(run_in_threadpool(self._used, admitted))
        self._notes.add(noting)
        noting.add_done_callback(self._notes.discard)

    def _used(self, admitted: Authentication) -> None:
        assert admitted.key is not None
        try:
            self.keys.record_use(admitted.principal.tenant, admitted.key)
        except (
            Exception
        ) as error:  # the request was answered: when a key was used last is nothing to fail it for
            _log.warning(
                "that the key %s was used could not be noted: %s",
                admitted.key,
                type(error).__name__,
            )


def refuse_open(memory: Memory) -> None:
    """An error where the server would listen to other machines while nobody could come in with a key."""
    if not Keys(memory.database).exist():
        refuse_keyless(memory.settings)


def refuse_keyless(settings: Settings) -> None:
    """The same for a database that has no key, or is not there yet."""
    if is_loopback(settings.host) or settings.jwt_issuer:
        return
    problem = (
        f"is {settings.host}, where other machines can come in, and there is no key yet: make one with `retain keys create "
        "NAME --permissions read,write,delete,admin`, or listen on 127.0.0.1"
    )
    raise SettingsError(where="host", problem=problem)


def _is_here(request: HTTPConnection) -> bool:
    """Whether a request comes from this machine, and not through a proxy on it."""
    client = request.scope.get("client")
    if client is None or not is_loopback(client[0]):
        return False
    return _FORWARDED.isdisjoint([name for name, _ in request.scope["headers"]])


def _refuse_in_address(request: HTTPConnection) -> None:
    """A key in the address, however it is written, would be in every log."""
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
    """The key or token of a request, however its header is written; None where there is none."""
    found: bytes | None = None
    for name, value in headers:
        if name == b"authorization":
            scheme, _, sent = value.strip().partition(b" ")
            sent = sent.strip() if scheme.lower() == b"bearer" else b""
        elif name == b"x-api-key":
            sent = value.strip()
        else:
            continue
        if name == b"authorization" and value.strip().lower() == b"bearer":
            continue  # what an example sends where the variable for the key is empty
        if (found is not None and found != sent) or not sent or len(sent) > MOST_BYTES:
            raise Unauthorized(problem=INVALID_CREDENTIAL)
        found = sent
    return found


def _is_only_theirs(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether all that is sent as a key is somebody else's: a vendor's client sends one always, needed or not."""
    sent = [value.strip() for name, value in headers if name in (b"authorization", b"x-api-key")]
    ours = PREFIX.encode()
    return bool(sent) and not any(ours in value for value in sent)


def _header(request: HTTPConnection, name: bytes) -> str | None:
    """A header as text: names are written in UTF-8, which headers are not by themselves."""
    for given, value in request.scope["headers"]:
        if given == name:
            try:
                return bytes(value).decode()
            except UnicodeDecodeError:  # replaced, two users would be one
                raise Invalid(field=name.decode(), problem="is not UTF-8 text") from None
    return None
