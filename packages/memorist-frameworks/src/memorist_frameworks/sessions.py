"""Sessions of the adapters: created on first use, recalled from, saved within limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from memorist.base import canonical, limits
from memorist.base.errors import AlreadyExists, NotFound, TooLarge
from memorist.content import pairing
from memorist.content.message import NewMessage
from memorist.content.message_content import VENDOR_FIELDS
from memorist.context.assemble import Context
from memorist.context.render import PREAMBLE, PromptMessage
from memorist.memory import Scope

T = TypeVar("T")
MAX_QUERY_CHARACTERS = 4_000
"""Only the beginning of a message is searched for; the framework sends the message itself."""
MAX_KEPT_PART_BYTES = 4_000
"""Parts up to this size stay unchanged in a message that is too large."""


def create_if_missing(scope: Scope, session: str, work: Callable[[], T]) -> T:
    """Call `work`; if its session does not exist, create the session and call it again."""
    try:
        return work()
    except NotFound as error:
        if error.what != "session":
            raise
    with suppress(AlreadyExists):  # another process has just created it
        scope.sessions.add(session)
    try:
        return work()
    except NotFound as error:
        if error.what != "session":
            raise
        hint = (
            "It belongs to another user. Session ids are unique within a tenant: "
            "include the user's name in the id."
        )
        raise AlreadyExists(what="session", id=session, hint=hint) from error


def extend(scope: Scope, session: str, messages: Sequence[NewMessage]) -> None:
    """Append any number of messages, all or none."""
    batch = limits.MAX_BATCH

    def work(inner: Scope) -> None:
        for start in range(0, len(messages), batch):
            inner.messages.extend(session, messages[start : start + batch])

    if len(messages) <= batch:
        work(scope)
    else:
        scope.transaction(work)


def recall(scope: Scope, session: str, message: str, budget: int | None) -> Context:
    """Return the context for a message, without the message itself."""
    query = message[: min(budget or MAX_QUERY_CHARACTERS, MAX_QUERY_CHARACTERS)]
    context = create_if_missing(
        scope, session, lambda: scope.context(session, query, budget=budget)
    )
    return replace(context, prompt=context.prompt[:-1]) if query.strip() else context


def without_recent_turns(context: Context) -> list[PromptMessage]:
    """Return the messages of a context for an agent that has its history from elsewhere."""
    return [
        message
        for message in context.prompt
        if message.role == "system"
        or (message.role == "user" and message.text.startswith(PREAMBLE))
    ]


def save_within_limits(
    scope: Scope,
    session: str,
    messages: Sequence[NewMessage],
    save: Callable[[Sequence[NewMessage]], T],
) -> T:
    """Save the messages of a finished run; content above the limit becomes a reference.

    The run has been answered, so a large message must not fail any more.
    """

    def work() -> T:
        try:
            return save(messages)
        except TooLarge:
            return save([_fit_limit(scope, session, message) for message in messages])

    return create_if_missing(scope, session, work)


def _fit_limit(scope: Scope, session: str, message: NewMessage) -> NewMessage:
    limit = limits.MAX_MESSAGE_BYTES
    content = message.content
    if _fits(content, limit):
        return message
    placeholder = f"(more than {limit} bytes, not stored)"
    with suppress(TooLarge):
        description = "a message above the size limit"
        ref = scope.refs.add(json.dumps(content), description, type="file_content", session=session)
        placeholder = ref.placeholder
    short = _shorten({"text": content} if isinstance(content, str) else content, placeholder)
    return replace(message, content=short if _fits(short, limit) else {"text": placeholder})


def _fits(content: Any, limit: int) -> bool:
    try:
        canonical.dump(content, "content", limit)
    except TooLarge:
        return False
    return True


def _shorten(content: Any, placeholder: str) -> dict[str, Any]:
    """Replace large values by the placeholder and drop the framework's own copy of the message."""
    short = {name: value for name, value in content.items() if name not in VENDOR_FIELDS}
    for name, value in short.items():
        if isinstance(value, list):
            short[name] = [_shorten_part(part, placeholder) for part in value]
        elif not _is_small(value):
            short[name] = placeholder
    if short.get("parts") or short.get("text"):
        return short
    return {**short, "text": placeholder}


def _shorten_part(part: Any, placeholder: str) -> Any:
    if _is_small(part):
        return part
    if isinstance(part, Mapping) and (pairing.is_call(part) or pairing.is_result(part)):
        # The ids stay, so that call and result remain a pair.
        return {name: value if _is_small(value) else placeholder for name, value in part.items()}
    return {"type": "text", "text": placeholder}


def _is_small(value: Any) -> bool:
    return len(json.dumps(value)) <= MAX_KEPT_PART_BYTES
