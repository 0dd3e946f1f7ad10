"""The JSON of a turn's events and answers; the server and the terminal share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from memorist.chat.events import Answer, ChatEvent, failure_event

_RETRY_STORED = "The message is stored; the turn can continue. Send it again with the key {key!r}."
_RETRY = "Send it again with the key {key!r}."


def reply_data(answer: Answer, notice: str = "") -> dict[str, Any]:
    """Return the JSON of an answer."""
    return {
        "session_id": answer.session,
        "agent_id": answer.agent,
        "key": answer.key,
        "turn_id": answer.turn,
        "message": answer.text,
        "usage": {
            "model": answer.model,
            "tokens_in": answer.tokens_in,
            "tokens_out": answer.tokens_out,
            "cost": answer.cost,
            "latency_ms": answer.latency_ms,
        },
        "tools": list(answer.tools),
        "asked_seq": answer.asked_seq,
        "first_seq": answer.first_seq,
        "last_seq": answer.last_seq,
        "memory_only": answer.without_model,
        "again": answer.again,
        "cut": answer.cut,
        "error": answer.error,
        "notice": notice,
    }


def event_data(
    event: ChatEvent, session: str, key: str, agents: Sequence[str] = (), notice: str = ""
) -> Mapping[str, Any]:
    """Return the JSON of an event of a turn; `agents` are those of a group conversation."""
    owner = {} if event.agent is None else {"agent_id": event.agent}
    if event.what == "message":
        return reply_data(Answer(**event.data), notice)
    if event.what == "start":
        return {
            **owner,
            "session_id": session,
            "key": key,
            "asked_seq": event.data["asked_seq"],
            "resume": events_path(session, key, agents),
        }
    if event.what == "text":
        return {**owner, "text": event.data["delta"]}
    if event.what == "error":
        detail = event.data["message"]
        status = event.data["status"]
        if status >= 500:
            detail = f"{detail} {retry_hint(key, event.data['kept'])}"
        return {
            **owner,
            "type": event.data["error"],
            "detail": detail,
            "status": status,
            "session_id": session,
            "key": key,
        }
    return {**owner, **event.data}


def failure_data(
    error: Exception, session: str, key: str, *, message_stored: bool
) -> Mapping[str, Any]:
    """Return the JSON of an error event: why there is no answer, and how to get one."""
    return event_data(failure_event(error, message_stored=message_stored), session, key)


def retry_hint(key: str, message_stored: bool) -> str:
    """Return the instruction to retry a turn that did not finish."""
    return (_RETRY_STORED if message_stored else _RETRY).format(key=key)


def events_path(session: str, key: str, agents: Sequence[str] = ()) -> str:
    """Return the path of a turn's events, to resume a stream that broke off."""
    query = urlencode([("session_id", session), *(("agents", agent) for agent in agents)])
    return f"/api/chat/turns/{quote(key, safe='')}/events?{query}"
