"""`/api/me`, who the caller is; `/api/web`, the first request of the web app; the browser's sign-in
and sign-out.

A browser sends a key once and gets a cookie, which no script can read and no other site can use
(server/http/authentication.py). Without keys there is no sign-in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from memorist.admin.audited_writer import AuditedAction, acting_as
from memorist.admin.browser_sessions import BrowserSessions, NewBrowserSession
from memorist.admin.credentials import INVALID_CREDENTIAL, PREFIX
from memorist.admin.principal import Permission, Principal, parse_permissions
from memorist.admin.users import first_user
from memorist.api import problem
from memorist.api.responses import json_response
from memorist.api.route import ApiRoute
from memorist.api.schemas import STRICT, Text, shape
from memorist.base.errors import Forbidden, Unauthorized
from memorist.base.version import VERSION
from memorist.chat.enter_session import USER
from memorist.server.http.authentication import (
    RequestAuthenticator,
    csrf_of,
    is_here,
    set_cookie,
    token_of,
)
from memorist.server.http.middleware import SIGN_IN
from memorist.server.http.routing import api_route

_PLAIN = (
    "over plain http a browser can sign in on the server's own machine alone, since anybody between could take its cookie: "
    "put a proxy with https before the server, or come through a tunnel to 127.0.0.1"
)


@dataclass(frozen=True)
class Me:
    """The caller: the tenant, permissions, user and agent of its credential."""

    tenant: str
    permissions: list[Permission]
    user: str | None
    agent: str | None
    name: str


@dataclass(frozen=True)
class ToolName:
    """A tool that an agent can use."""

    name: str
    description: str


@dataclass(frozen=True)
class Visit:
    """The state of the server and of the caller that the web app needs first.

    All fields but the first three are only for an authenticated caller. `csrf` is the value of
    `X-Memorist-CSRF` for every change, if a cookie authenticated the caller. `user` is the user
    to show first. `model` is the name of the chat model, if there is one.
    """

    version: str
    needs_key: bool
    signed_in: bool
    csrf: str | None = None
    me: Me | None = None
    user: str | None = None
    model: str | None = None
    tools: list[ToolName] | None = None


class SignInRequest(BaseModel):
    """The key to sign in with."""

    model_config = STRICT
    key: Text = Field(description="A key of the server, mst_…", examples=["mst_…"])
    remember: bool = Field(
        False, description="For 30 days, in place of 12 hours or until the browser is closed."
    )


def routes(authenticator: RequestAuthenticator) -> list[ApiRoute]:
    """Return the routes."""
    handlers = _Handlers(authenticator)
    route = partial(
        api_route, authenticator=authenticator, tag="web", is_public=True, result=shape(Visit)
    )
    return [
        api_route(
            authenticator=authenticator,
            method="GET",
            path="/api/me",
            name="me",
            tag="access",
            handler=handlers.me,
            result=shape(Me),
        ),
        route(method="GET", path="/api/web", name="web_visit", handler=handlers.visit),
        route(
            method="POST",
            path=SIGN_IN,
            name="web_sign_in",
            handler=handlers.sign_in,
            body=SignInRequest,
        ),
        route(
            method="POST",
            path="/api/web/sign-out",
            name="web_sign_out",
            handler=handlers.sign_out,
        ),
    ]


class _Handlers:
    def __init__(self, authenticator: RequestAuthenticator) -> None:
        self._authenticator = authenticator

    async def me(self, request: Request) -> Response:
        """Return the caller: tenant, permissions, and the user or agent the key is bound to."""
        return json_response(_me(await self._authenticator.authenticate_request(request)))

    async def visit(self, request: Request) -> Response:
        """Return whether a key is needed, and who the caller is. Needs no key itself."""
        try:
            principal = await self._authenticator.authenticate_request(request)
        except Unauthorized as error:
            if error.status != 401:
                raise
            return json_response(Visit(VERSION, needs_key=True, signed_in=False))
        token = (
            None
            if "authorization" in request.headers or "x-api-key" in request.headers
            else token_of(request.scope)
        )
        return json_response(await run_in_threadpool(self._visit, principal, token))

    async def sign_in(self, request: Request, body: SignInRequest) -> Response:
        """Sign a browser in with a key. The response is that of `/api/web`, with a cookie."""
        secure = _is_https(request)
        host = request.headers["host"]
        if request.headers.get("origin", f"//{host}").partition("//")[2] != host:
            raise Forbidden(
                problem="a page of another origin cannot sign in; send the key in the header `Authorization` instead"
            )
        if not (secure or is_here(host)):
            raise Forbidden(problem=_PLAIN)
        key = body.key.strip()
        if not key.startswith(PREFIX):
            raise Unauthorized(problem=INVALID_CREDENTIAL)
        admitted = await run_in_threadpool(self._authenticator.keys.authenticate, key)
        assert admitted.key is not None
        request.scope["state"]["principal"] = principal = admitted.principal
        # End any earlier sign-in, so that a cookie planted by somebody else is useless.
        await self._end(request)
        signins = self._audited_signins(request, principal, "signin", admitted.key)
        browser_session: NewBrowserSession = await run_in_threadpool(
            signins.add, principal.tenant, admitted.key, remember=body.remember
        )
        visit = await run_in_threadpool(self._visit, principal, browser_session.text)
        response = json_response(visit)
        seconds = browser_session.seconds if body.remember else None
        set_cookie(response, host, browser_session.text, secure=secure, seconds=seconds)
        return response

    async def sign_out(self, request: Request) -> Response:
        """End the sign-in of this browser and delete its cookie."""
        visit = Visit(VERSION, needs_key=True, signed_in=False)
        try:
            principal = await self._authenticator.authenticate_request(request)
        except Unauthorized as error:
            if error.status != 401:
                raise
        else:
            await self._end(request)
            if self._authenticator.is_local(principal):
                visit = await run_in_threadpool(self._visit, principal, None)
        response = json_response(visit)
        for secure in (True, False):
            set_cookie(response, request.headers["host"], "", secure=secure, seconds=0)
        return response

    async def _end(self, request: Request) -> None:
        """End the sign-in of this browser, if it has one."""
        token = token_of(request.scope)
        if token is None:
            return
        try:
            before = await run_in_threadpool(
                self._authenticator.browser_sessions.authenticate, token
            )
            signins = self._audited_signins(request, before.principal, "signout", before.key or "")
            await run_in_threadpool(signins.remove, token)
        except Unauthorized:  # it has ended already
            return
        self._authenticator.forget()

    def _visit(self, principal: Principal, token: str | None) -> Visit:
        memory = self._authenticator.memory
        tools = memory.scope(
            tenant=principal.tenant, user=principal.user or USER, agent=principal.agent or USER
        ).tools()
        names = [ToolName(tool.name, tool.description) for tool in tools]
        extra_tools = memory.services.extra_tools.descriptions()
        names += [ToolName(name, description) for name, description in extra_tools.items()]
        return Visit(
            VERSION,
            needs_key=not self._authenticator.is_local(principal),
            signed_in=True,
            csrf=None if token is None else csrf_of(token),
            me=_me(principal),
            user=principal.user or self._first_user(principal),
            model=None if (model := memory.services.models.main) is None else model.name,
            tools=names,
        )

    def _first_user(self, principal: Principal) -> str:
        """Return the user to open the page with: the configured one, else one that has data.

        The name of a user is data: without the permission to read, it is the default user.
        """
        memory = self._authenticator.memory
        if "read" not in principal.permissions:
            return memory.settings.user or USER
        return memory.settings.user or first_user(memory.database, principal.tenant, USER)

    def _audited_signins(
        self, request: Request, principal: Principal, action: str, key: str
    ) -> BrowserSessions:
        """Return the sign-ins, whose next change is audited."""
        services = acting_as(
            self._authenticator.memory.services,
            principal,
            AuditedAction(action, request_id=problem.request_id(request), subject=f"keys {key}"),
        )
        return BrowserSessions(services.database, services.writer)


def _me(principal: Principal) -> Me:
    permissions = parse_permissions(principal.permissions) if principal.permissions else []
    return Me(principal.tenant, permissions, principal.user, principal.agent, principal.name)


def _is_https(request: Request) -> bool:
    """Return whether a browser uses https, also through a proxy: its Origin header says so.

    The middleware has already compared the host of that header.
    """
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
