"""Example values for the documentation: one for each required parameter of a verb."""

from __future__ import annotations

from typing import Any

EXAMPLES: dict[str, Any] = {
    "agents": ["scout", "planner"],
    "board": "trips",
    "by": "day",
    "content": "Where do we go?",
    "entries": [{"content": "Ada prefers night trains.", "kind": "core"}],
    "entries.content": "Ada prefers night trains.",
    "statement": "Clara lives in Lisbon.",
    "header": "Preferences",
    "id": "0199c0de-0000-7000-8000-000000000000",
    "ids": ["0199c0de-0000-7000-8000-000000000000", "0199c0de-0000-7000-8000-000000000001"],
    "items.key": "tea",
    "items.value": {"text": "likes green tea"},
    "facts.name": "Clara",
    "facts.other": "the user's sister",
    "key": "theme",
    "latency_ms": 812.5,
    "messages": [
        {"role": "user", "content": "Where do we go?"},
        {"role": "assistant", "content": "To Lisbon."},
    ],
    "model": "gpt-5-mini",
    "name": "scout",
    "output": "added 312 packages in 9s",
    "place": ["memories", "ada"],
    "query": "where does my sister live",
    "refs.content": "Ada flies to Lisbon on 3 May.",
    "refs.key": "npm-install-7f3a09c1",
    "role": "user",
    "route": "chat",
    "seq": 1,
    "session": "trip",
    "sessions.id": "trip",
    "text": "- prefers tea",
    "title": "Handbook",
    "value": {"dark": True},
    "version": 1,
}
"""By parameter name; a name with a kind before it applies to that kind only."""
