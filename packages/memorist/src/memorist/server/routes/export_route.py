"""`/api/users/{user}/export`: everything of one user.

The route is written by hand because its response is streamed: it may be larger than the memory. The
tenant is always the key's own. A key bound to one user or agent is rejected.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import IO

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from memorist.admin.audited_writer import AuditedAction, record_action
from memorist.admin.principal import Principal
from memorist.api import problem
from memorist.api.route import ApiRoute
from memorist.base import canonical
from memorist.memory import Memory
from memorist.server.http.authentication import RequestAuthenticator
from memorist.server.http.routing import api_route
from memorist.server.routes.uploads import MAX_BYTES_IN_MEMORY, checking_space, read_chunks

JSON_LINES = "application/jsonl"


def routes(authenticator: RequestAuthenticator) -> list[ApiRoute]:
    """Return the route."""

    async def export(request: Request, user: str) -> Response:
        """Export everything of one user, as JSON Lines for `memorist import`. It is audited."""
        principal = await authenticator.authorize_admin(request, "manage the tenant")
        canonical.key(user, "user")
        file = await run_in_threadpool(
            _exported, authenticator.memory, principal, user, problem.request_id(request)
        )
        return StreamingResponse(read_chunks(file), media_type=JSON_LINES)

    return [
        api_route(
            authenticator=authenticator,
            method="POST",
            path="/api/users/{user:path}/export",
            name="users_export",
            tag="users",
            permission="admin",
            handler=export,
            media_type=JSON_LINES,
            response_help="The records of the user, one JSON object per line.",
            path_help={"user": "The user."},
        )
    ]


def _exported(memory: Memory, principal: Principal, user: str, request_id: str) -> IO[bytes]:
    """Write the export to a temporary file, so that errors occur before the response starts."""
    record_action(memory.services, principal, AuditedAction("export", request_id, f"users {user}"))
    with ExitStack() as stack, checking_space("the export"):
        file = stack.enter_context(tempfile.SpooledTemporaryFile(MAX_BYTES_IN_MEMORY))
        memory.export(file, tenants=[principal.tenant], user=user)
        file.seek(0)
        stack.pop_all()  # the response closes the file
    return file
