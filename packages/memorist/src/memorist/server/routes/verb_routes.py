"""The route of every verb, and of the stream of note changes.

Each verb has a `VerbHandler`, or the subclass that `HANDLERS` names; `VerbHandler.route` makes its
route from the declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from memorist.admin.offered_models import OfferedModels
from memorist.api.endpoints import ADMIN_ENDPOINTS, ENDPOINTS, SCOPE_ENDPOINTS, method_of
from memorist.api.route import ApiRoute
from memorist.jobs.status import DatabaseStatus
from memorist.kinds import KINDS
from memorist.kinds.documents import Documents
from memorist.kinds.messages.messages import Messages
from memorist.kinds.notes import Notes
from memorist.kinds.refs.refs import Refs
from memorist.memory import ADMIN_KINDS, Scope
from memorist.server.http.authentication import RequestAuthenticator
from memorist.server.http.verb_handler import VerbHandler
from memorist.server.routes.context_handlers import ContextHandler, SaveTurnHandler
from memorist.server.routes.model_routes import ModelsHandler
from memorist.server.routes.note_handlers import STREAM, ChangesHandler, StreamHandler
from memorist.server.routes.status_handler import StatusHandler
from memorist.server.routes.uploads import (
    CaptureHandler,
    DocumentHandler,
    DownloadHandler,
    RefHandler,
)
from memorist.server.routes.window_handler import WindowHandler

HANDLERS: dict[Callable[..., Any], type[VerbHandler]] = {
    Scope.context: ContextHandler,
    Scope.save_turn: SaveTurnHandler,
    Messages.window: WindowHandler,
    Notes.changes: ChangesHandler,
    Refs.content: DownloadHandler,
    Refs.add: RefHandler,
    Refs.capture: CaptureHandler,
    Documents.add: DocumentHandler,
    DatabaseStatus.get: StatusHandler,
    OfferedModels.list: ModelsHandler,
}
"""Verbs whose requests or responses differ from their signatures."""


def handlers(authenticator: RequestAuthenticator) -> list[VerbHandler]:
    """Return the handlers of all verbs."""
    kinds: dict[str, type] = {kind.name: kind for kind in (*KINDS, *ADMIN_KINDS)}
    result = []
    for endpoint in (*SCOPE_ENDPOINTS, *ENDPOINTS, *ADMIN_ENDPOINTS):
        method = method_of(endpoint, kinds)
        result.append(HANDLERS.get(method, VerbHandler)(authenticator, endpoint, method))
    return [*result, StreamHandler(authenticator, STREAM, Notes.changes)]


def routes(handlers: Iterable[VerbHandler]) -> list[ApiRoute]:
    """Return the routes of the handlers."""
    return [handler.route() for handler in handlers]
