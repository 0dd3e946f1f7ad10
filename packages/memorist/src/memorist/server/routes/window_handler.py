"""The window of a session: its rows are rendered without making a record of each."""

from __future__ import annotations

from starlette.responses import Response

from memorist.api.responses import MessageRows, response
from memorist.kinds.messages.messages import WindowLimits, window_rows
from memorist.memory import Scope
from memorist.server.http.thread_pool import in_file_reader
from memorist.server.http.verb_handler import Call, VerbHandler

MAX_SHORT_WINDOW = 200
"""A longer window uses the large pool, where it does not delay the short ones."""


class WindowHandler(VerbHandler):
    """Renders the rows of a window."""

    async def respond(self, call: Call) -> Response:
        """Read the rows in a thread and return them as JSON."""

        def read(scope: Scope) -> MessageRows:
            limits = dict(call.arguments)
            session = limits.pop("session")
            rows = window_rows(scope.messages, session, WindowLimits(**limits))
            return MessageRows(session, rows)

        last = call.arguments.get("last")
        is_short = last is not None and last <= MAX_SHORT_WINDOW
        runs_on_server = call.scope.services.database.runs_on_server
        in_thread = in_file_reader if is_short and not runs_on_server else self.in_thread
        return response(await in_thread(self.call_verb, call, read))
