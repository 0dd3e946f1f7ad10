"""Rendering of results as JSON responses."""

from __future__ import annotations

import json

from memorist import Memory, NewMessage
from memorist.api.rendering import as_json
from memorist.api.responses import MessageRows, written
from memorist.kinds.messages.messages import WindowLimits, window_rows


def test_rows_of_messages_are_rendered_like_their_records() -> None:
    with Memory.open("memory:") as memory:
        me = memory.scope(user="ada", agent="scout")
        me.sessions.add("trip")
        me.messages.extend(
            "trip",
            [
                NewMessage("system", "Be brief."),
                NewMessage("user", {"text": 'Where "to"?', "parts": [1, 2.5, None]}, author="bob"),
                NewMessage(
                    "assistant", "Lisbon \u2013 by train", tokens_in=3, tokens_out=4, cost=0.5
                ),
            ],
        )
        for options in ({}, {"last": 2}, {"tokens": 8}, {"before": 3}, {"turns_only": True}):
            records = me.messages.window("trip", **options)
            rows = window_rows(me.messages, "trip", WindowLimits(**options))
            assert json.loads(written(MessageRows("trip", rows))) == as_json(records)
            assert json.loads(written(records)) == as_json(records)
        assert json.loads(written(records[0])) == as_json(records[0])
        assert written(MessageRows("trip", [])) == "[]"
