"""Admin routes: list the users, read the audit log, export or erase one user, erase one agent.

The tenant is always the key's own. A key bound to one user or agent is rejected.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from functools import partial
from typing import IO

from pydantic import BaseModel, Field
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from retain.api import problem
from retain.api.responses import answer
from retain.api.schemas import LENIENT, Moment, Name, Text, shape
from retain.api.users import StoredUser, list_users
from retain.api.value_limits import parameter_limits
from retain.auth import audit_log as audit
from retain.auth.audited_writer import Action, acting_as, is_audited
from retain.auth.principal import Principal
from retain.base import canonical, limits
from retain.base.errors import Full
from retain.kinds.page import Page
from retain.memory import Memory
from retain.server.api_route import ApiRoute
from retain.server.request_authenticator import RequestAuthenticator
from retain.storage.erase import AgentReceipt, Receipt

JSON_LINES = "application/jsonl"
_IN_MEMORY_BYTES = 1 << 20
_CHUNK_BYTES = 256 << 10


class AuditRequest(BaseModel):
    """Filters for the audit log."""

    model_config = LENIENT
    who: Name | None = Field(None, description="Only records of this caller.", examples=["cli:ada"])
    what: Name | None = Field(
        None, description="Only records of this operation.", examples=["users_erase"]
    )
    since: Moment | None = Field(
        None, description="Only records from this time on, with a time zone."
    )
    until: Moment | None = Field(
        None, description="Only records before this time, with a time zone."
    )
    limit: int = Field(
        100,
        description="The maximum number of records to return.",
        json_schema_extra=parameter_limits("", "", "limit"),
    )
    after: Text | None = Field(None, description="The cursor `next` of the previous page.")


class UsersRequest(BaseModel):
    """Filters for the list of users."""

    model_config = LENIENT
    search: str = Field(
        "",
        max_length=200,
        description="Only users whose name contains this text.",
        examples=["ada"],
    )
    limit: int = Field(
        100,
        description="The maximum number of users to return.",
        json_schema_extra=parameter_limits("", "", "limit"),
    )
    after: Text | None = Field(None, description="The cursor `next` of the previous page.")


def add(app: Starlette, authenticator: RequestAuthenticator) -> None:
    """Add the routes to an app."""
    handlers = _Handlers(authenticator)
    route = partial(ApiRoute, authenticator=authenticator, tag="access", permission="admin")
    user_help = {"user": "The user."}
    app.state.routes += [
        route(
            method="GET",
            path="/api/audit",
            name="audit",
            handler=handlers.audit,
            query=AuditRequest,
            result=shape(Page[audit.AuditRecord]),
        ),
        route(
            method="GET",
            path="/api/users",
            name="users_list",
            handler=handlers.users,
            query=UsersRequest,
            result=shape(Page[StoredUser]),
        ),
        route(
            method="POST",
            path="/api/users/{user:path}/export",
            name="users_export",
            handler=handlers.export,
            media_type=JSON_LINES,
            response_help="The records of the user, one JSON object per line.",
            path_help=user_help,
        ),
        route(
            method="POST",
            path="/api/users/{user:path}/erase",
            name="users_erase",
            handler=handlers.erase,
            result=shape(Receipt),
            path_help=user_help,
        ),
        route(
            method="POST",
            path="/api/agents/{agent:path}/erase",
            name="agents_erase",
            handler=handlers.erase_agent,
            result=shape(AgentReceipt),
            path_help={"agent": "The agent."},
        ),
    ]


class _Handlers:
    def __init__(self, authenticator: RequestAuthenticator) -> None:
        self._authenticator = authenticator
        self._memory: Memory = authenticator.memory

    async def audit(self, request: Request, query: AuditRequest) -> Response:
        """List the actions in the tenant, newest first: who did what and when, without content."""
        principal = await self._admin(request)
        filters = query.model_dump()
        return answer(
            await run_in_threadpool(
                audit.list_records,
                self._memory.database,
                principal.tenant,
                **filters,
                max_limit=limits.MAX_PAGE,
            )
        )

    async def users(self, request: Request, query: UsersRequest) -> Response:
        """List the users that have data, the last active one first, with the number of records."""
        principal = await self._admin(request)
        filters = query.model_dump()
        return answer(
            await run_in_threadpool(list_users, self._memory.database, principal.tenant, **filters)
        )

    async def export(self, request: Request, user: str) -> Response:
        """Export everything of one user, as JSON Lines for `retain import`. It is audited."""
        principal = await self._admin(request)
        canonical.key(user, "user")
        file = await run_in_threadpool(self._exported, principal, user, problem.request_id(request))
        return StreamingResponse(_pieces(file), media_type=JSON_LINES)

    async def erase(self, request: Request, user: str) -> Response:
        """Erase everything of one user, and return what was removed. Needs `admin` and `delete`."""
        principal = await self._admin(request)
        principal.require("delete")
        canonical.key(user, "user")
        memory = self._audited(request, principal, "users_erase")
        receipt = await run_in_threadpool(memory.erase, user, tenant=principal.tenant)
        self._authenticator.forget()
        request.app.state.runs.forget(principal.tenant, user)
        return answer(receipt)

    async def erase_agent(self, request: Request, agent: str) -> Response:
        """Erase an agent with its entries, notes and sessions, and return what was removed.

        Needs `admin` and `delete`.
        """
        principal = await self._admin(request)
        principal.require("delete")
        canonical.key(agent, "agent")
        memory = self._audited(request, principal, "agents_erase")
        receipt = await run_in_threadpool(memory.erase_agent, agent, tenant=principal.tenant)
        self._authenticator.forget()
        request.app.state.runs.forget(principal.tenant)
        return answer(receipt)

    def _audited(self, request: Request, principal: Principal, action: str) -> Memory:
        """Return a memory whose next change is audited as an action of the principal."""
        services = acting_as(
            self._memory.services, principal, Action(action, request_id=problem.request_id(request))
        )
        return Memory(services, self._memory.migrations)

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
        except BaseException as error:  # close the file even if the request is cancelled
            file.close()
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise Full(
                    problem="there is not enough space for the export in the folder for temporary files"
                ) from None
            raise
        file.seek(0)
        return file

    async def _admin(self, request: Request) -> Principal:
        """Return the principal. Raise Forbidden unless it may manage the whole tenant."""
        return await self._authenticator.authorize_admin(request, "manage the users of the tenant")


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        yield from iter(lambda: file.read(_CHUNK_BYTES), b"")
