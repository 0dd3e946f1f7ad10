"""Admin routes: list the users, read the audit log, export or erase one user.

The tenant is always the key's own. A key bound to one user or agent is rejected.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from typing import IO, Annotated, Any

from fastapi import FastAPI, Path, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from retain.api import problem
from retain.api.responses import answer
from retain.api.schemas import LENIENT, Moment, Text, shape
from retain.api.users import StoredUser, list_users
from retain.auth import audit_log as audit
from retain.auth.audit import Action, acting_as, is_audited
from retain.auth.principal import Principal
from retain.base import canonical, limits
from retain.base.errors import Full
from retain.kinds.kind import Page
from retain.memory import Memory
from retain.server.request_authenticator import RequestAuthenticator
from retain.server.routes import problems
from retain.storage.erase import Receipt

JSON_LINES = "application/jsonl"
_IN_MEMORY_BYTES = 1 << 20
_CHUNK_BYTES = 256 << 10
_STATUSES = (400, 401, 403, 404, 408, 413, 415, 421, 422, 429, 500, 503, 507)
_USER = Path(description="The user.", examples=["ada"])


class AuditRequest(BaseModel):
    """Filters for the audit log."""

    model_config = LENIENT
    who: Text | None = Field(None, description="Only what this one did.", examples=["cli:ada"])
    what: Text | None = Field(None, description="Only this, by its name.", examples=["users_erase"])
    since: Moment | None = Field(None, description="From this moment on, with a time zone.")
    until: Moment | None = Field(None, description="Before this moment, with a time zone.")
    limit: int = Field(100, description="The most records to return.")
    after: Text | None = Field(
        None, description="Go on after this cursor, from the end of the page before."
    )


class UsersRequest(BaseModel):
    """Filters for the list of users."""

    model_config = LENIENT
    search: str = Field(
        "",
        max_length=200,
        description="Only users whose name contains this text.",
        examples=["ada"],
    )
    limit: int = Field(100, description="The most users to return.")
    after: Text | None = Field(
        None, description="Go on after this cursor, from the end of the page before."
    )


def add(app: FastAPI, authenticator: RequestAuthenticator) -> None:
    """Add the routes to an app."""
    routes = _Routes(authenticator)
    lines: dict[str, Any] = {
        "content": {JSON_LINES: {"schema": {"type": "string"}}},
        "description": "JSON Lines",
    }
    for method, path, does, name, more in (
        (
            "GET",
            "/api/audit",
            routes.audit,
            "audit",
            {"response_model": shape(Page[audit.AuditRecord])},
        ),
        (
            "GET",
            "/api/users",
            routes.users,
            "users_list",
            {"response_model": shape(Page[StoredUser])},
        ),
        (
            "POST",
            "/api/users/{user:path}/export",
            routes.export,
            "users_export",
            {"response_class": StreamingResponse},
        ),
        (
            "POST",
            "/api/users/{user:path}/erase",
            routes.erase,
            "users_erase",
            {"response_model": shape(Receipt)},
        ),
    ):
        app.add_api_route(
            path,
            does,
            methods=[method],
            name=name,
            operation_id=name,
            tags=["access"],
            responses={**problems(*_STATUSES), **({200: lines} if name == "users_export" else {})},
            openapi_extra={"x-retain-permission": "admin"},
            **more,
        )


class _Routes:
    def __init__(self, authenticator: RequestAuthenticator) -> None:
        self._authenticator = authenticator
        self._memory: Memory = authenticator.memory

    async def audit(self, request: Request, said: Annotated[AuditRequest, Query()]) -> Response:
        """List the actions in the tenant, newest first: who did what and when, without content."""
        principal = await self._admin(request)
        filters = said.model_dump()
        return answer(
            await run_in_threadpool(
                audit.list_records,
                self._memory.database,
                principal.tenant,
                **filters,
                max_limit=limits.MAX_PAGE,
            )
        )

    async def users(self, request: Request, said: Annotated[UsersRequest, Query()]) -> Response:
        """List the users that have data, the last active one first, with the number of records."""
        principal = await self._admin(request)
        filters = said.model_dump()
        return answer(
            await run_in_threadpool(list_users, self._memory.database, principal.tenant, **filters)
        )

    async def export(self, request: Request, user: Annotated[str, _USER]) -> Response:
        """Export everything of one user, as JSON Lines for `retain import`. It is audited."""
        principal = await self._admin(request)
        canonical.key(user, "user")
        file = await run_in_threadpool(self._exported, principal, user, problem.request_id(request))
        return StreamingResponse(_pieces(file), media_type=JSON_LINES)

    async def erase(self, request: Request, user: Annotated[str, _USER]) -> Response:
        """Erase everything of one user, and return what was removed. Needs `admin` and `delete`."""
        principal = await self._admin(request)
        principal.require("delete")
        canonical.key(user, "user")
        action = Action("users_erase", request_id=problem.request_id(request))
        services = acting_as(self._memory.services, principal, action)
        memory = Memory(services, self._memory.migrations)
        receipt = await run_in_threadpool(memory.erase, user, tenant=principal.tenant)
        self._authenticator.forget()
        request.app.state.runs.forget(principal.tenant, user)
        return answer(receipt)

    def _exported(self, principal: Principal, user: str, request_id: str) -> IO[bytes]:
        """Write the export to a temporary file, so that errors occur before the response starts."""
        if is_audited(self._memory.settings, "export"):
            caller = principal.name
            tenant = principal.tenant
            subject = f"users {user}"
            self._memory.database.write(
                tenant, lambda tx: audit.add(tx, caller, "export", subject, request_id=request_id)
            )
        file = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 - closed once sent
        try:
            self._memory.export(file, tenants=[principal.tenant], user=user)
        except BaseException as error:
            file.close()
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise Full(
                    problem="there is no room for the export among the temporary files"
                ) from None
            raise
        file.seek(0)
        return file

    async def _admin(self, request: Request) -> Principal:
        """Return the principal. Raise Forbidden unless it may manage the whole tenant."""
        return await self._authenticator.authorize_admin(request, "manage others")


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        yield from iter(lambda: file.read(_CHUNK_BYTES), b"")
