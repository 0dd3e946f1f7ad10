"""The window of a session: its rows are rendered without making a record of each."""

from __future__ import annotations

from functools import partial

from starlette.applications import Starlette
from starlette.responses import Response

from retain.api.responses import MessageRows, response
from retain.kinds.messages.messages import window_rows
from retain.memory import Scope
from retain.server.handler import Call, Handler
from retain.server.thread_pool import in_file_reader

MAX_SHORT_WINDOW = 200
"""A longer window uses the large pool, where it does not delay the short ones."""


def add(app: Starlette) -> None:
    """Let the endpoint of the window render rows."""
    handler: Handler = app.state.handlers["messages_window"]
    handler.respond = partial(_window, handler)


async def _window(handler: Handler, call: Call) -> Response:
    def read(scope: Scope) -> MessageRows:
        rows = window_rows(scope.messages, **call.arguments)
        return MessageRows(call.arguments["session"], rows)

    last = call.arguments.get("last")
    is_short = last is not None and last <= MAX_SHORT_WINDOW
    runs_on_server = call.scope.services.database.runs_on_server
    in_thread = in_file_reader if is_short and not runs_on_server else handler.in_thread
    return response(await in_thread(handler.call_verb, call, read))
